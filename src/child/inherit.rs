//! How a worker gets its descriptors: the parent leaves two open across `exec` and names them in an environment variable. The
//! third is the standard input, which the worker replaces by an empty one, so that nothing else reads it.
#![allow(unsafe_code)] // descriptors as numbers, and code between fork and exec

use crate::job::PROTOCOL;
use crate::job::arena::Arena;
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_getfd, fcntl_setfd};
use rustix::stdio::dup2_stdin;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The variable that makes a program a worker: `protocol:reply descriptor:arena descriptor:parent's process id`.
pub const VARIABLE: &str = "COLLSPEC_WORKER";

/// The reason why a process that was started as a worker cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum NoWorker {
    /// Not what a parent of this build writes.
    #[error("{VARIABLE}={0} is not understood")]
    Variable(String),
    /// The parent is of another build.
    #[error("the parent speaks protocol {theirs}, this program {PROTOCOL}")]
    Protocol {
        /// The parent's.
        theirs: u32,
    },
    /// The variable was meant for another process.
    #[error("started inside a worker: {VARIABLE} was not meant for this process")]
    Inside,
    /// A descriptor is not what it should be.
    #[error("inherited descriptor: {0}")]
    Descriptor(#[from] std::io::Error),
}

/// Makes `command` a worker that replies on `reply` and shares `arena`. The command keeps both open until it is dropped.
pub(crate) fn pass(command: &mut Command, reply: OwnedFd, arena: OwnedFd) {
    command.env(VARIABLE, format!("{PROTOCOL}:{}:{}:{}", reply.as_raw_fd(), arena.as_raw_fd(), std::process::id()));
    let fds = [reply, arena];
    // SAFETY: between fork and exec only `fcntl` is called, which is async-signal-safe; nothing allocates.
    unsafe {
        command.pre_exec(move || {
            for fd in &fds {
                fcntl_setfd(fd, fcntl_getfd(fd)? - FdFlags::CLOEXEC)?;
            }
            Ok(())
        });
    }
}

/// A worker's descriptors.
pub struct Inherited {
    /// Requests from the parent. A copy of the standard input, which a library or a program that it starts may read.
    pub requests: File,
    /// Replies to the parent.
    pub replies: File,
    /// Shared with the parent.
    pub arena: Arena,
}

/// Whether the descriptors have been taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The descriptors of a worker, from the variable and its standard input; `None` in a process that was not started as one.
/// A second call is an error.
///
/// # Safety
///
/// [`VARIABLE`] must be unset or as [`pass`] of the parent set it: it names descriptors by number, which are taken over, so
/// nothing else in this process may own them.
pub(crate) unsafe fn take() -> Option<Result<Inherited, NoWorker>> {
    let value = std::env::var_os(VARIABLE)?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Some(Err(NoWorker::Inside));
    }
    // SAFETY: the caller promises the same.
    Some(unsafe { taken(&value.to_string_lossy()) })
}

/// # Safety
///
/// As for [`take`].
unsafe fn taken(value: &str) -> Result<Inherited, NoWorker> {
    let unclear = || NoWorker::Variable(value.to_owned());
    let mut parts = value.split(':').map(|part| part.parse::<u32>().map_err(|_| unclear()));
    let mut next = || parts.next().unwrap_or_else(|| Err(unclear()));
    let (theirs, reply, arena, parent) = (next()?, next()?, next()?, next()?);
    if theirs != PROTOCOL {
        return Err(NoWorker::Protocol { theirs });
    }
    let ours = rustix::process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if ours != Some(parent) {
        return Err(NoWorker::Inside);
    }
    if reply == arena {
        return Err(unclear());
    }
    // SAFETY: the parent left these open for this process alone, they differ, and the caller promises that nothing else here
    // owns them.
    let (reply, arena) = unsafe { (own(reply)?, own(arena)?) };
    let (replies, arena) = (File::from(reply), Arena::open(arena)?);
    Ok(Inherited { requests: requests()?, replies, arena })
}

/// The former standard input; the standard input is empty from now on.
fn requests() -> Result<File, std::io::Error> {
    let requests = fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
    let nothing = File::open("/dev/null")?;
    dup2_stdin(&nothing)?;
    Ok(File::from(requests))
}

/// Takes over a descriptor that the parent left open, and keeps it from further children.
///
/// # Safety
///
/// Nothing in the process owns the descriptor, or closes it meanwhile.
unsafe fn own(number: u32) -> Result<OwnedFd, std::io::Error> {
    let raw = RawFd::try_from(number).map_err(|_| std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
    if raw < 3 {
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is a standard stream"));
    }
    // SAFETY: the caller promises that nothing closes it meanwhile; the next call fails if it is not open.
    let fd = unsafe { BorrowedFd::borrow_raw(raw) };
    fcntl_setfd(fd, fcntl_getfd(fd)? | FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and the caller promises that nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}
