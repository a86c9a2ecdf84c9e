//! Passes descriptors to a worker: its standard input is a socket on which the parent sends the other two, and then requests.
//! The worker replaces it by an empty input, so that nothing else reads it.
//!
//! No code runs between `fork` and `exec`, so the standard library may use `posix_spawn`: the page tables of a parent with much
//! memory are not copied.
use crate::job::PROTOCOL;
use crate::job::arena::Arena;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use rustix::stdio::dup2_stdin;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that makes a program a worker: `protocol:parent's process id`.
pub const VARIABLE: &str = "COLLSPEC_WORKER";

/// The reason why a process that was started as a worker cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum NoWorker {
    /// The variable was not written by a parent of this build.
    #[error("{VARIABLE}={0} is not understood")]
    Variable(String),
    /// The parent is of another build.
    #[error("the parent speaks protocol {theirs}, this program {PROTOCOL}")]
    Protocol {
        /// The protocol version of the parent.
        theirs: u32,
    },
    /// The variable was meant for another process.
    #[error("started inside a worker: {VARIABLE} was not meant for this process")]
    Inside,
    /// A descriptor is not of the expected kind.
    #[error("inherited descriptor: {0}")]
    Descriptor(#[from] io::Error),
}

/// Makes `command` a worker that replies on `reply` and shares `arena`. Returns where requests are written; the command keeps
/// the other end open until it is dropped.
///
/// # Errors
///
/// The operating system has no descriptors for it.
pub(crate) fn pass(command: &mut Command, reply: OwnedFd, arena: OwnedFd) -> io::Result<UnixStream> {
    let (ours, theirs) = UnixStream::pair()?;
    let fds = [reply.as_fd(), arena.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut descriptors = SendAncillaryBuffer::new(&mut space);
    descriptors.push(SendAncillaryMessage::ScmRights(&fds));
    // Descriptors need a byte with which they travel.
    retry_on_intr(|| sendmsg(&ours, &[IoSlice::new(&[0])], &mut descriptors, SendFlags::NOSIGNAL))?;
    command.env(VARIABLE, format!("{PROTOCOL}:{}", std::process::id()));
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    Ok(ours)
}

/// The descriptors that a worker receives.
pub struct Inherited {
    /// Requests from the parent. A copy of the standard input, which a library or a program that it starts may read.
    pub requests: File,
    /// Replies to the parent.
    pub replies: File,
    /// Shared with the parent.
    pub arena: Arena,
}

/// True once the descriptors have been taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The descriptors of a worker, from its standard input; `None` in a process that was not started as one. A second call is an
/// error.
pub(crate) fn take() -> Option<Result<Inherited, NoWorker>> {
    let value = std::env::var_os(VARIABLE)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Some(Err(NoWorker::Inside));
    }
    Some(taken(&value.to_string_lossy()))
}

fn taken(value: &str) -> Result<Inherited, NoWorker> {
    let unclear = || NoWorker::Variable(value.to_owned());
    let mut parts = value.split(':').map(|part| part.parse::<u32>().map_err(|_| unclear()));
    let mut next = || parts.next().unwrap_or_else(|| Err(unclear()));
    let theirs = next()?;
    if theirs != PROTOCOL {
        return Err(NoWorker::Protocol { theirs });
    }
    let parent = next()?;
    let ours = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if ours != Some(parent) {
        return Err(NoWorker::Inside);
    }
    let requests = requests()?;
    let [reply, arena] = descriptors(&requests)?;
    Ok(Inherited { requests, replies: File::from(reply), arena: Arena::open(arena)? })
}

/// The former standard input; the standard input is empty from now on.
fn requests() -> io::Result<File> {
    let requests = fcntl_dupfd_cloexec(io::stdin(), 3)?;
    let nothing = File::open("/dev/null")?;
    dup2_stdin(&nothing)?;
    Ok(File::from(requests))
}

/// The two descriptors that the parent sends first. Further children do not inherit them.
fn descriptors(requests: &File) -> io::Result<[OwnedFd; 2]> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut received = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    retry_on_intr(|| recvmsg(requests, &mut [IoSliceMut::new(&mut byte)], &mut received, RecvFlags::CMSG_CLOEXEC))?;
    let fds = received.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds: Vec<OwnedFd> = fds.flatten().collect();
    fds.try_into().map_err(|_| io::Error::from(Errno::BADMSG))
}
