//! A part of a worker: a process started by this one, or by a member of the job.
//! The rest of the runner does not see which: the leader's arena has a place for every rank, initial images are sent before a job, and
//! final ones fetched after it, so that everything is judged as on one machine.
use super::Error;
use super::gpus::LOADER_PATH;
use super::log::Log;
use super::remote_part::RemotePart;
use super::worker_process::{Incoming, WorkerProcess};
use crate::child::guard::{Due, Watched};
use crate::child::program::Program;
use crate::cluster::{ComingPart, Site};
use crate::job::Request;
use crate::job::arena::Arena;
use crate::job::wire::WireError;

/// A part of a worker; when dropped, it is ended with everything that it started.
pub enum Part {
    /// A process that this one has started.
    Here(Box<WorkerProcess>),
    /// A process that another process of the job has started.
    There(Box<RemotePart>),
}

/// A part that is being started.
pub enum Begun {
    /// A process that this one has started.
    Here(Box<WorkerProcess>),
    /// One on another process of the job, with its variables.
    There(ComingPart, Vec<(String, String)>),
}

impl Begun {
    /// Waits until the part is connected.
    ///
    /// # Errors
    ///
    /// The member is lost.
    pub fn part(self) -> Result<Part, Error> {
        Ok(match self {
            Self::Here(process) => Part::Here(process),
            Self::There(coming, env) => Part::There(Box::new(RemotePart::start(&coming, &env)?)),
        })
    }
}

impl Part {
    /// Begins to start a part at this site, with these variables.
    ///
    /// # Errors
    ///
    /// The process cannot be started, the member is lost, or the operating system has no free descriptors or threads.
    pub fn begin(site: &Site, program: &Program, env: &[(String, String)], arena: &Arena) -> Result<Begun, Error> {
        Ok(match site {
            Site::Here => Begun::Here(Box::new(WorkerProcess::start(program, env, arena)?)),
            // The folders for the loader are those of the other process, which knows its own machine.
            Site::There(member) => {
                let env = env.iter().filter(|(name, _)| name != LOADER_PATH).cloned().collect();
                Begun::There(member.ask_for_part()?, env)
            }
        })
    }

    /// The part, if it is on another process of the job.
    pub fn remote(&mut self) -> Option<&mut RemotePart> {
        match self {
            Self::Here(_) => None,
            Self::There(part) => Some(part),
        }
    }

    /// The next message that has arrived; does not wait.
    pub fn take_message(&mut self) -> Option<Incoming> {
        match self {
            Self::Here(process) => process.inbox.take_message(),
            Self::There(part) => part.take_message(),
        }
    }

    /// The handle to wait on, unless nothing more is expected of the part.
    pub fn watched(&self) -> Option<Watched<'_>> {
        match self {
            Self::Here(process) => process.inbox.pipe().map(|pipe| pipe.watched()),
            Self::There(part) => part.watched(),
        }
    }

    /// Reads the available bytes, or the end if there are none.
    pub fn read(&mut self, due: Due) -> Option<Incoming> {
        match self {
            Self::Here(process) => process.inbox.read(due),
            Self::There(part) => part.read(due),
        }
    }

    /// Its standard output and error, and NCCL's log.
    pub fn log(&self) -> &Log {
        match self {
            Self::Here(process) => &process.log,
            Self::There(part) => &part.log,
        }
    }

    /// Process id, for people and tests; 0 on another machine.
    pub fn pid(&self) -> u32 {
        match self {
            Self::Here(process) => process.pid(),
            Self::There(_) => 0,
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    ///
    /// The process is dead, or can no longer be reached.
    pub fn send(&mut self, request: &Request) -> Result<(), WireError> {
        match self {
            Self::Here(process) => process.send(request),
            Self::There(part) => part.send(request),
        }
    }

    /// Queues a request that is sent with the next one.
    ///
    /// # Errors
    ///
    /// The request is too long.
    pub fn send_later(&mut self, request: &Request) -> Result<(), WireError> {
        match self {
            Self::Here(process) => process.send_later(request),
            Self::There(part) => part.send_later(request),
        }
    }

    /// False once the part is known to be dead; does not wait.
    pub fn alive(&mut self) -> bool {
        match self {
            Self::Here(process) => process.alive(),
            Self::There(part) => part.alive(),
        }
    }

    /// Closes the part's requests, after which it ends on its own.
    pub fn close(&mut self) {
        match self {
            Self::Here(process) => process.close(),
            Self::There(part) => part.close(),
        }
    }

    /// True if something other than this program and its own code ended the process; not known of one on another machine.
    pub fn killed_by_another(&self) -> bool {
        match self {
            Self::Here(process) => process.killed_by_another,
            Self::There(_) => false,
        }
    }

    /// Kills the process with everything that it started; does not wait for its end.
    pub fn kill(&mut self) {
        match self {
            Self::Here(process) => process.kill(),
            Self::There(part) => part.kill(),
        }
    }

    /// Kills the process with everything that it started, and describes how it ended (or what killed it, if it was dead before).
    pub fn end(&mut self) -> String {
        match self {
            Self::Here(process) => process.end(),
            Self::There(part) => part.end(),
        }
    }

    /// Like [`Part::end`], for a process that has closed its side and is most likely about to end.
    pub fn end_closed(&mut self) -> String {
        match self {
            Self::Here(process) => process.end_closed(),
            Self::There(part) => part.end(),
        }
    }
}
