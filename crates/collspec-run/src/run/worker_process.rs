//! The parent's side of one process of a worker: its pipes, its log, and its end.
//!
//! The kernel tells the parent by a pidfd that the process has ended. The pipes cannot tell it, because processes that a library has
//! started may still hold them open. Before the process is reaped, the parent kills what is left of its process group. A part ends when its standard input does, and leaves nothing
//! to clean up: all it has are descriptors.
use super::Error;
use super::log::Log;
use crate::child::guard::{ChildGuard, Due, UntilEnd};
use crate::child::inherit;
use crate::child::program::Program;
use crate::job::arena::Arena;
use crate::job::wire;
use crate::job::{Reply, Request};
use collspec_core::ops;
use std::io::{ErrorKind, PipeReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

/// The variable for NCCL's log file; if it is unset, NCCL uses a buffer that is lost with the process.
const DEBUG_FILE: &str = "NCCL_DEBUG_FILE";
/// The path for NCCL's log: the process's output, and with this path the log too, goes to its [`Log`] through a pipe, so no file is
/// left over and no disk is needed. NCCL opens this path like any file and writes it line by line.
const OWN_LOG: &str = "/proc/self/fd/2";

/// Limit on the time that a process which has closed its pipe takes to end on its own.
const CLOSING: Duration = Duration::from_secs(1);

/// A message from a part, or its absence.
pub enum Incoming {
    /// A complete message.
    Reply(Reply),
    /// Bytes that are not a message.
    Garbled(String),
    /// It has closed its side: it is dead, or about to be.
    End,
    /// No message within the time limit.
    Silence,
}

/// A process; when dropped, it is killed with everything that it started.
pub struct WorkerProcess {
    guard: ChildGuard,
    /// The stream for requests, until it is closed.
    requests: Option<UnixStream>,
    /// Requests that go with the next one.
    later: Vec<u8>,
    /// Messages received from the process.
    pub inbox: Inbox,
    /// Its standard output and error, and NCCL's log.
    pub log: Arc<Log>,
    /// True if it was dead before this program ended it, by a signal that a process does not send to itself.
    pub killed_by_another: bool,
}

/// The pipe on which a process replies, read on the thread that waits for the reply.
pub struct Inbox {
    pipe: UntilEnd<PipeReader>,
    /// Bytes that were read and do not form a complete message yet.
    come: Vec<u8>,
    /// The buffer that bytes are read into.
    piece: Box<[u8]>,
    /// True if nothing more is expected of the process.
    ended: bool,
}

/// Bytes read at a time.
const PIECE: usize = 16 << 10;

impl Inbox {
    fn of(pipe: UntilEnd<PipeReader>) -> Self {
        Self { pipe, come: Vec::new(), piece: vec![0; PIECE].into(), ended: false }
    }

    /// The next message that has arrived; does not wait.
    pub fn take_message(&mut self) -> Option<Incoming> {
        if self.ended {
            return None;
        }
        match wire::take(&mut self.come) {
            Ok(reply) => reply.map(Incoming::Reply),
            Err(error) => {
                self.ended = true;
                Some(Incoming::Garbled(error.to_string()))
            }
        }
    }

    /// The pipe, unless nothing more is expected of it.
    pub fn pipe(&self) -> Option<&UntilEnd<PipeReader>> {
        (!self.ended).then_some(&self.pipe)
    }

    /// Reads the available bytes, or the end if there are none.
    pub fn read(&mut self, due: Due) -> Option<Incoming> {
        let read = match due {
            Due::Nothing => return None,
            Due::Bytes => self.pipe.read_there(&mut self.piece),
            Due::End => Ok(0),
        };
        match read {
            Ok(0) => {
                self.ended = true;
                Some(Incoming::End)
            }
            Ok(length) => {
                self.come.extend_from_slice(self.piece.get(..length).unwrap_or_default());
                None
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => None,
            Err(error) => {
                self.ended = true;
                Some(Incoming::Garbled(wire::WireError::from(error).to_string()))
            }
        }
    }
}

impl WorkerProcess {
    /// Starts `program` as a part of a worker.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the operating system has no free descriptors or threads for it.
    pub fn start(program: &Program, env: &[(String, String)], arena: &Arena) -> Result<Self, Error> {
        let (reply_reader, reply_writer) = std::io::pipe().map_err(Error::Resources)?;
        let (log_reader, log_writer) = std::io::pipe().map_err(Error::Resources)?;
        let mut command = program.command();
        command.process_group(0);
        command.stdout(log_writer.try_clone().map_err(Error::Resources)?).stderr(log_writer);
        if std::env::var_os(DEBUG_FILE).is_none() {
            command.env(DEBUG_FILE, OWN_LOG);
        }
        command.envs(env.iter().map(|(name, value)| (name, value)));
        let arena = arena.as_fd().try_clone_to_owned().map_err(Error::Resources)?;
        let requests = inherit::pass(&mut command, reply_writer.into(), arena).map_err(Error::Resources)?;
        let child = command.spawn().map_err(|source| Error::Spawn { program: program.path().to_owned(), source })?;
        // the process's ends must be its own, or its death would not be noticed
        drop(command);
        let guard = ChildGuard::of(child);
        let inbox = Inbox::of(guard.reader(reply_reader));
        let log = Log::follow(guard.reader(log_reader)).map_err(Error::Resources)?;
        Ok(Self { guard, requests: Some(requests), later: Vec::new(), inbox, log, killed_by_another: false })
    }

    /// Process id, for people and tests.
    pub fn pid(&self) -> u32 {
        self.guard.id()
    }

    /// Sends a request. An error means that the process is dead.
    ///
    /// # Errors
    ///
    /// The process is dead.
    pub fn send(&mut self, request: &Request) -> Result<(), wire::WireError> {
        match &mut self.requests {
            Some(requests) => wire::send_behind(requests, &mut self.later, request),
            None => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// Queues a request that is sent with the next one.
    ///
    /// # Errors
    ///
    /// The request is too long.
    pub fn send_later(&mut self, request: &Request) -> Result<(), wire::WireError> {
        wire::put(&mut self.later, request)
    }

    /// False once it is known to be dead; does not wait.
    pub fn alive(&self) -> bool {
        self.guard.is_running()
    }

    /// Closes the requests, after which the process ends on its own.
    pub fn close(&mut self) {
        self.requests = None;
    }

    /// Kills it with everything that it started; does not wait for its end.
    pub fn kill(&mut self) {
        self.requests = None;
        self.guard.kill();
    }

    /// Kills it with everything that it started, and describes how it ended (or what killed it, if it was dead before).
    pub fn end(&mut self) -> String {
        self.kill();
        self.guard.end().map_or_else(|error| format!("an unknown status ({error})"), exit_text)
    }

    /// Like [`WorkerProcess::end`], for a process that has closed its pipe and is most likely about to end.
    pub fn end_closed(&mut self) -> String {
        let by_itself = self.guard.ends_within(CLOSING);
        let how = self.end();
        let signal = self.guard.end().ok().and_then(|status| status.signal());
        self.killed_by_another = by_itself && signal == Some(libc::SIGKILL);
        if by_itself { how } else { format!("{how}, some time after it had closed its pipe to collspec") }
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

fn exit_text(status: ExitStatus) -> String {
    let known = status.signal().map(ops::ExitStatus::Signal);
    let code = || status.code().and_then(|code| u8::try_from(code).ok()).map(ops::ExitStatus::Code);
    known.or_else(code).map_or_else(|| status.to_string(), ops::ExitStatus::text)
}
