//! The parent's side of one process of a worker: its pipes, its log, and its end.
use super::Error;
use super::log::Log;
use crate::child::guard::ChildGuard;
use crate::child::inherit;
use crate::child::program::Program;
use crate::job::arena::Arena;
use crate::job::wire;
use crate::job::{Reply, Request};
use crate::ops;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// Where NCCL writes its log; unset, it uses a buffer that dies with the process.
const DEBUG_FILE: &str = "NCCL_DEBUG_FILE";
/// The process's output, and with this path NCCL's log too, goes to its [`Log`] through a pipe: no file is left behind and no
/// disk is needed. NCCL opens this path like any file and writes it line by line.
const OWN_LOG: &str = "/proc/self/fd/2";

/// How long a process that has closed its pipe may take to end by itself.
const CLOSING: Duration = Duration::from_secs(1);

/// A message from a part, or its absence.
pub enum Incoming {
    /// A message.
    Reply(Reply),
    /// Bytes that are no message.
    Garbled(String),
    /// It has closed its side: it is dead, or as good as that.
    End,
    /// No message within the time limit.
    Silence,
}

/// A process; killed, with all that it started, when dropped.
pub struct WorkerProcess {
    guard: ChildGuard,
    /// Where requests are written, until it is closed.
    requests: Option<UnixStream>,
    /// Its standard output and error, and NCCL's log.
    pub log: Arc<Log>,
}

impl WorkerProcess {
    /// Starts `program` as part `number` of a worker. Its messages go to `tell`.
    ///
    /// # Errors
    ///
    /// The process cannot be started, or the operating system has no descriptors or threads for it.
    pub fn start(
        program: &Program,
        env: &[(String, String)],
        arena: &Arena,
        number: usize,
        tell: Sender<(usize, Incoming)>,
    ) -> Result<Self, Error> {
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
        let (mut from, log_reader) = (BufReader::new(guard.reader(reply_reader)), guard.reader(log_reader));
        let listen = move || {
            loop {
                let incoming = match wire::receive(&mut from) {
                    Ok(Some(reply)) => Incoming::Reply(reply),
                    Ok(None) => Incoming::End,
                    Err(error) => Incoming::Garbled(error.to_string()),
                };
                let more = matches!(incoming, Incoming::Reply(_));
                if tell.send((number, incoming)).is_err() || !more {
                    return;
                }
            }
        };
        let threads = std::thread::Builder::new().name("worker replies".into()).spawn(listen);
        let log = threads.and_then(|_| Log::follow(log_reader)).map_err(Error::Resources)?;
        Ok(Self { guard, requests: Some(requests), log })
    }

    /// Process id, for people and tests.
    #[cfg(any(test, feature = "internals", feature = "cli"))]
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
            Some(requests) => wire::send(requests, request),
            None => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// False once it is dead, which is noticed without waiting.
    pub fn alive(&self) -> bool {
        self.guard.is_running()
    }

    /// Closes its requests; it then ends by itself.
    pub fn close(&mut self) {
        self.requests = None;
    }

    /// Kills it with all that it started; does not wait for its end.
    pub fn kill(&mut self) {
        self.requests = None;
        self.guard.kill();
    }

    /// Kills it with all that it started, and says how it ended (what killed it first, if it was dead before).
    pub fn end(&mut self) -> String {
        self.kill();
        self.guard.end().map_or_else(|error| format!("an unknown status ({error})"), exit_text)
    }

    /// As [`WorkerProcess::end`], of a process that has closed its pipe: most likely it is about to end.
    pub fn end_closed(&mut self) -> String {
        let by_itself = self.guard.ends_within(CLOSING);
        let how = self.end();
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
