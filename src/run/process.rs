//! A worker process as the parent sees it: requests, replies with a limit of time, its log, and its end.
use super::Error;
use super::arena::Arena;
use super::log::Log;
use crate::worker::inherit;
use crate::worker::job::{PROTOCOL, Reply, Request};
use crate::worker::wire;
use std::io::BufReader;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long a process may take to say that it is a worker.
const HELLO: Duration = Duration::from_secs(20);
/// How long a worker may take to end when its standard input has.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long what a dead worker said may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What comes from a worker.
pub enum Heard {
    /// A message.
    Reply(Reply),
    /// Something that is none.
    Garbled(String),
    /// It has closed its side: it is dead, or as good as that.
    End,
    /// Nothing in time.
    Silence,
}

/// What a worker said of its library.
#[derive(Clone, Debug)]
pub struct Hello {
    /// NCCL's version code.
    pub version: i32,
    /// Where it came from.
    pub library: String,
}

/// A worker process; killed, with all that it started, when dropped.
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    replies: Receiver<Heard>,
    /// Memory shared with it.
    pub arena: Arena,
    /// What it said of its library.
    pub hello: Hello,
    /// What it writes to its standard output and error.
    pub log: Arc<Log>,
}

impl Worker {
    /// Starts `program` as a worker.
    pub fn start(program: &Path, env: &[(String, String)]) -> Result<Self, Error> {
        let arena = Arena::create().map_err(Error::Resources)?;
        let (reply_reader, reply_writer) = std::io::pipe().map_err(Error::Resources)?;
        let (log_reader, log_writer) = std::io::pipe().map_err(Error::Resources)?;
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).process_group(0);
        command.stdout(log_writer.try_clone().map_err(Error::Resources)?).stderr(log_writer);
        command.envs(env.iter().map(|(name, value)| (name, value)));
        inherit::pass(&mut command, reply_writer.as_fd(), &arena);
        let mut child = command.spawn().map_err(|source| Error::Spawn { program: program.to_owned(), source })?;
        // the worker's ends must be its own, or its death would not be noticed
        drop((command, reply_writer));
        let stdin = child.stdin.take();
        let (tell, replies) = channel();
        let listen = move || {
            let mut from = BufReader::new(reply_reader);
            loop {
                let heard = match wire::receive(&mut from) {
                    Ok(Some(reply)) => Heard::Reply(reply),
                    Ok(None) => Heard::End,
                    Err(error) => Heard::Garbled(error.to_string()),
                };
                let more = matches!(heard, Heard::Reply(_));
                if tell.send(heard).is_err() || !more {
                    return;
                }
            }
        };
        let threads = std::thread::Builder::new().name("worker replies".into()).spawn(listen);
        let log = threads.and_then(|_| Log::follow(log_reader));
        let log = match log {
            Ok(log) => log,
            Err(error) => {
                kill(&mut child);
                return Err(Error::Resources(error));
            }
        };
        let hello = Hello { version: 0, library: String::new() };
        let mut worker = Self { child, stdin, replies, arena, hello, log };
        worker.greet(program)?;
        Ok(worker)
    }

    fn greet(&mut self, program: &Path) -> Result<(), Error> {
        let why = match self.hear(Instant::now() + HELLO) {
            Heard::Reply(Reply::Hello { protocol: PROTOCOL, version, library, .. }) => {
                self.hello = Hello { version, library };
                return Ok(());
            }
            Heard::Reply(Reply::Hello { protocol, .. }) => format!("it speaks protocol {protocol}, not {PROTOCOL}"),
            Heard::Reply(Reply::Trouble(text)) => text,
            Heard::Reply(_) => "it did not say hello".into(),
            Heard::Garbled(text) => text,
            Heard::Silence => format!("it said nothing for {} s", HELLO.as_secs()),
            Heard::End => {
                let how = self.end();
                let log = self.log.since(0);
                format!("it ended with {how}{}{log}", if log.is_empty() { "" } else { ": " })
            }
        };
        Err(Error::NoWorker { program: program.to_owned(), why })
    }

    /// Process id, for people and tests.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a request. An error means that the worker is dead.
    pub fn send(&mut self, request: &Request) -> Result<(), wire::WireError> {
        match &mut self.stdin {
            Some(stdin) => wire::send(stdin, request),
            None => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
        }
    }

    /// The next thing that it says, if it says it in time.
    pub fn hear(&mut self, deadline: Instant) -> Heard {
        match self.replies.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(heard) => heard,
            Err(RecvTimeoutError::Timeout) => Heard::Silence,
            Err(RecvTimeoutError::Disconnected) => Heard::End,
        }
    }

    /// False once it is dead, which is noticed without waiting.
    pub fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it with all that it started, and says how it ended (what killed it first, if it was dead before).
    pub fn end(&mut self) -> String {
        self.stdin = None;
        let how = kill(&mut self.child);
        self.log.settle(LAST_WORDS);
        how
    }

    /// Lets it end by itself, for a little while.
    pub fn dismiss(mut self) {
        self.stdin = None;
        let deadline = Instant::now() + GOODBYE;
        while matches!(self.hear(deadline), Heard::Reply(_)) {}
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stdin = None;
        kill(&mut self.child);
    }
}

/// Kills the process group and reaps its leader. The leader is not reaped yet, so the group's number is still its own.
fn kill(child: &mut Child) -> String {
    if let Ok(Some(status)) = child.try_wait() {
        return words(status);
    }
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    child.wait().map_or_else(|error| format!("an unknown status ({error})"), words)
}

fn words(status: ExitStatus) -> String {
    let Some(signal) = status.signal() else {
        return format!("exit status {}", status.code().unwrap_or(-1));
    };
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        31 => "SIGSYS",
        _ => return format!("signal {signal}"),
    };
    format!("signal {signal} ({name})")
}
