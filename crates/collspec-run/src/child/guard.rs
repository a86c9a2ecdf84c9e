//! A child process that is watched until it ends. Its process group can be killed as long as its process id cannot belong
//! to another process. Its output is read up to its own end, even if other processes inherited its pipes.
use super::patience::Patience;
use super::shared_files;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid};
use std::collections::BTreeSet;
use std::io::{self, PipeReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Longer than any program runs.
pub const FOREVER: Duration = Duration::from_secs(10 << 32);
/// Time between two checks on kernels without pidfd.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// The groups of all guards. A group is taken out before its leader's end is read, so that no number in it belongs to another process.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
/// True if every child is to end at once, also those that are still to come.
static ALL_END: AtomicBool = AtomicBool::new(false);

fn groups() -> MutexGuard<'static, BTreeSet<i32>> {
    GROUPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills all children, and each further one as soon as it is guarded: the work of this process is over.
pub fn end_all() {
    let groups = groups();
    ALL_END.store(true, Ordering::Relaxed);
    for group in groups.iter().filter_map(|group| Pid::from_raw(*group)) {
        kill(group);
    }
}

/// Kills a group, and removes what NCCL shares with other ranks from its leader.
fn kill(group: Pid) {
    let shared = shared_files::mapped_by(&group.as_raw_pid().to_string());
    let _ = kill_process_group(group, Signal::KILL);
    shared_files::remove(shared);
}

/// A process that leads a process group. Dropping it kills it and all processes that are left in the group.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
    /// Its exit status, once it is known; from then on its process id may belong to another process.
    ended: Option<ExitStatus>,
    /// Readable when it has ended; `None` on kernels without pidfd.
    pidfd: Option<Arc<OwnedFd>>,
}

impl ChildGuard {
    /// The guard of a child that was started as the leader of a process group.
    pub fn of(child: Child) -> Self {
        let pidfd = pid(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let guard = Self { child, ended: None, pidfd: pidfd.map(Arc::new) };
        let mut groups = groups();
        groups.extend(pid(&guard.child).map(Pid::as_raw_pid));
        if ALL_END.load(Ordering::Relaxed) {
            guard.kill();
        }
        guard
    }

    /// Process id of the child.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A reader of `pipe` that ends when the last writer has closed it or the process has ended.
    pub fn reader<R>(&self, pipe: R) -> UntilEnd<R> {
        UntilEnd { pipe, pidfd: self.pidfd.clone() }
    }

    /// False once it has ended, which is noticed without waiting.
    pub fn is_running(&self) -> bool {
        // Without reaping it, so its process id stays its own.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = |pid| waitid(WaitId::Pid(pid), options);
        self.ended.is_none() && matches!(pid(&self.child).map(status), Some(Ok(None)))
    }

    /// Waits until it has ended, for `limit` at most. True if it has.
    pub fn ends_within(&self, limit: Duration) -> bool {
        let ended = Patience::new(limit).wait(|slice| {
            if !self.is_running() {
                return Some(());
            }
            match &self.pidfd {
                Some(pidfd) => {
                    let slice = Timespec::try_from(slice).ok();
                    let _ = poll(&mut [PollFd::new(&**pidfd, PollFlags::IN)], slice.as_ref());
                }
                None => std::thread::sleep(slice.min(CHECK_INTERVAL)),
            }
            (!self.is_running()).then_some(())
        });
        ended.is_some()
    }

    /// Kills it and all processes of its group, also those that have outlived it; does not wait for the end.
    pub fn kill(&self) {
        if self.ended.is_none()
            && let Some(group) = pid(&self.child)
        {
            kill(group);
        }
    }

    /// Kills it and all processes of its group, and returns its exit status; if it had ended before, the status it ended with.
    ///
    /// # Errors
    ///
    /// The operating system does not report how the process ended.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        let status = match self.ended {
            Some(status) => status,
            None => {
                if let Some(group) = pid(&self.child) {
                    groups().remove(&group.as_raw_pid());
                }
                self.child.wait()?
            }
        };
        self.ended = Some(status);
        Ok(status)
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// The state of a pipe for reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Nothing to read yet.
    Nothing,
    /// Bytes, or the end.
    Bytes,
    /// The end: the process has ended, and everything that it wrote was read.
    End,
}

/// The descriptors to wait on: bytes on one of them, or, if there is another one, the end of the process that it represents.
#[derive(Clone, Copy, Debug)]
pub struct Watched<'a> {
    /// The descriptor on which bytes arrive.
    pub bytes: BorrowedFd<'a>,
    /// Readable when the process has ended; without it only the end of the bytes is noticed.
    pub process: Option<BorrowedFd<'a>>,
}

/// Waits until one of these can be read, for `limit` at most, and returns the state of each. A signal may end the wait early.
pub fn wait_any(watched: &[Watched<'_>], limit: Duration) -> Vec<Due> {
    let limit = Timespec::try_from(limit).ok();
    let mut polled = Vec::with_capacity(2 * watched.len());
    for one in watched {
        polled.push(PollFd::from_borrowed_fd(one.bytes, PollFlags::IN));
        // bytes without a process to watch take its place
        polled.push(PollFd::from_borrowed_fd(one.process.unwrap_or(one.bytes), PollFlags::IN));
    }
    if poll(&mut polled, limit.as_ref()).is_err() {
        return vec![Due::Nothing; watched.len()];
    }
    let due = |(fds, one): (&[PollFd<'_>], &Watched<'_>)| match fds {
        [bytes, _] if !bytes.revents().is_empty() => Due::Bytes,
        [_, ended] if one.process.is_some() && !ended.revents().is_empty() => {
            // Output written between the two queries is in the pipe by now.
            let again = PollFd::from_borrowed_fd(one.bytes, PollFlags::IN);
            let left = poll(&mut [again], Some(&Timespec::default())) != Ok(0);
            if left { Due::Bytes } else { Due::End }
        }
        _ => Due::Nothing,
    };
    polled.chunks_exact(2).zip(watched).map(due).collect()
}

/// The end of a pipe that is read until the process on its other side has ended.
#[derive(Debug)]
pub struct UntilEnd<R> {
    pipe: R,
    pidfd: Option<Arc<OwnedFd>>,
}

impl<R: Read + AsFd> UntilEnd<R> {
    /// A pipe that ends only when its writers have closed it.
    #[cfg(test)]
    pub fn of(pipe: R) -> Self {
        Self { pipe, pidfd: None }
    }

    /// Waits until something can be read without waiting. False at the end.
    ///
    /// # Errors
    /// The pipe cannot be waited for; a signal interrupts the wait.
    pub fn ready(&self) -> io::Result<bool> {
        let pipe = || PollFd::new(&self.pipe, PollFlags::IN);
        let waited = match &self.pidfd {
            None => poll(&mut [pipe()], None),
            Some(pidfd) => {
                let mut both = [pipe(), PollFd::new(&**pidfd, PollFlags::IN)];
                match poll(&mut both, None) {
                    Ok(_) if both[0].revents().is_empty() => {
                        // The process has ended, so everything it wrote is in the pipe by now.
                        return Ok(poll(&mut [pipe()], Some(&Timespec::default())) != Ok(0));
                    }
                    other => other,
                }
            }
        };
        match waited {
            Ok(_) => Ok(true),
            Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// The handle to wait on before reading from it.
    pub fn watched(&self) -> Watched<'_> {
        Watched { bytes: self.pipe.as_fd(), process: self.pidfd.as_ref().map(|process| process.as_fd()) }
    }

    /// Bytes that can be read without waiting.
    pub fn there(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0)
    }
}

impl UntilEnd<PipeReader> {
    /// Reads the available bytes; see [`UntilEnd::ready`].
    ///
    /// # Errors
    /// Same as for any pipe.
    pub fn read_there(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.pipe).read(buffer)
    }
}

impl<R: Read + AsFd> Read for UntilEnd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ready()? { self.pipe.read(buffer) } else { Ok(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    fn shell(script: &str) -> ChildGuard {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        ChildGuard::of(command.spawn().unwrap())
    }

    /// True if the group still has a process.
    fn left(group: u32) -> bool {
        let group = Pid::from_raw(i32::try_from(group).unwrap()).unwrap();
        rustix::process::test_kill_process_group(group).is_ok()
    }

    #[test]
    fn its_output_ends_with_it_although_another_process_holds_the_pipe() {
        let mut guard = shell("echo last words; sleep 600 & exit 3");
        let pipe = guard.child.stdout.take().unwrap();
        let mut words = String::new();
        guard.reader(pipe).read_to_string(&mut words).unwrap();
        assert_eq!(words, "last words\n");
        assert!(guard.ends_within(Duration::from_secs(20)) && !guard.is_running());
        assert!(left(guard.id()), "the other one is still there");
        assert_eq!(guard.end().unwrap().code(), Some(3), "looking has not taken its status away");
        // The killed process stays in the group until init has reaped it, so the group itself is not checked.
        assert_eq!(guard.end().unwrap().code(), Some(3));
    }

    #[test]
    fn processes_left_in_its_group_are_killed_with_it() {
        let mut guard = shell("trap '' TERM; (echo; exec sleep 600) & exit 0");
        assert!(guard.ends_within(Duration::from_secs(20)));
        let mut pipe = guard.child.stdout.take().unwrap();
        guard.end().unwrap();
        // the pipe ends only when its last holder does
        pipe.read_to_end(&mut Vec::new()).unwrap();
    }

    #[test]
    fn an_end_is_waited_for_but_not_for_ever() {
        let guard = shell("exec sleep 600");
        assert!(!guard.ends_within(Duration::from_millis(10)) && guard.is_running());
        guard.kill();
        assert!(guard.ends_within(Duration::from_secs(20)));
    }
}
