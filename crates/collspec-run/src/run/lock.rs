//! One case at a time on a device, whichever process runs it: a lock on a file per device. The kernel releases the lock however
//! the process ends; the file remains, and is empty. A process that waits long for another one prints a message.
//!
//! A case uses devices 0 to n-1, and its clock starts once it has their locks. Files are named by the devices' UUIDs, in XDG_RUNTIME_DIR
//! or the folder for temporary files. Stand-in devices, of which every process has its own, need no lock.
use crate::backend::cuda::DeviceInfo;
use collspec_core::printable::printable;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Locks on devices, released when dropped.
#[derive(Debug)]
pub struct Locks {
    _files: Vec<OwnedFd>,
}

/// The folder of the lock files: the user's run-time folder, else the one for temporary files.
pub fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    own.unwrap_or_else(std::env::temp_dir)
}

/// Checks that the folder for lock files exists.
///
/// # Errors
///
/// The folder does not exist, or cannot be read.
pub fn check(folder: &Path) -> io::Result<()> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(named(folder, io::ErrorKind::NotADirectory.into())),
        Err(error) => Err(named(folder, error)),
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

impl Locks {
    /// Waits until no other process holds one of the shared devices. Every process locks them in the same order, which
    /// rules out deadlocks.
    ///
    /// # Errors
    ///
    /// A lock file cannot be created or locked.
    pub fn take<'a>(folder: &Path, devices: impl IntoIterator<Item = &'a DeviceInfo>) -> io::Result<Self> {
        let mut names: Vec<&str> =
            devices.into_iter().filter(|device| !device.private).map(|device| device.uuid.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let files = names.into_iter().map(|name| lock(&folder.join(format!("collspec-{name}.lock"))));
        Ok(Self { _files: files.collect::<io::Result<_>>()? })
    }
}

fn lock(path: &Path) -> io::Result<OwnedFd> {
    // non-blocking: in a shared folder the file might be a pipe without a writer
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // without O_CREAT first: in a shared folder, another user's file may be opened for reading, but not with O_CREAT
    let file = match open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {
            open(path, flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)
        }
        other => other,
    };
    let file = file.map_err(|error| named(path, error.into()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        return Ok(file);
    }
    let _waits = Waits::begin(&file, path);
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(named(path, error.into())),
        }
    }
}

/// Wait before the message that names the process with the lock.
const MOMENT: Duration = Duration::from_secs(1);

/// A wait for a lock; it ends when this is dropped.
struct Waits {
    _over: Sender<()>,
}

impl Waits {
    /// Prints one message to the standard error if the wait is longer than [`MOMENT`] and another process has the lock.
    fn begin(file: &OwnedFd, path: &Path) -> Self {
        let (over, waits) = channel();
        if let (Ok(file), path) = (file.try_clone(), path.to_owned()) {
            let tell = move || {
                while waits.recv_timeout(MOMENT) == Err(RecvTimeoutError::Timeout) {
                    let holder = holder(&file);
                    // Waiting for another case of this run is normal and needs no message.
                    if holder != Some(std::process::id()) {
                        return say(holder, &path);
                    }
                }
            };
            // If the thread cannot be started, the message is left out.
            let _ = std::thread::Builder::new().name("lock".into()).spawn(tell);
        }
        Self { _over: over }
    }
}

fn say(holder: Option<u32>, path: &Path) {
    let name = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok();
    let who = match holder {
        Some(pid) => format!("process {pid} ({})", printable(name(pid).as_deref().unwrap_or("gone").trim())),
        None => "another process".to_owned(),
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let device = stem.strip_prefix("collspec-").unwrap_or(&stem);
    let (device, path) = (printable(device), path.display().to_string());
    eprintln!(
        "collspec: waiting for {device}, which {who} uses for a case; this run goes on when that case or process has ended \
         (lock file {})",
        printable(&path)
    );
}

/// The process that holds the file's lock, if the kernel reveals it.
fn holder(file: &OwnedFd) -> Option<u32> {
    let stat = fstat(file).ok()?;
    let inode = format!(":{}", stat.st_ino);
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    // `1: FLOCK  ADVISORY  WRITE 708 00:13:1234 0 EOF`; a waiting process has an arrow before FLOCK
    let holds = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = words.as_slice() else { return None };
        if file.ends_with(&inode) { pid.parse().ok().filter(|pid| *pid > 0) } else { None }
    };
    locks.lines().find_map(holds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn devices(numbers: &[u32]) -> Vec<DeviceInfo> {
        numbers.iter().map(|n| DeviceInfo { uuid: format!("GPU-{n}"), ..DeviceInfo::default() }).collect()
    }

    #[test]
    fn one_at_a_time_on_a_device_and_no_ring_of_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let inside = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for order in [[1, 2], [2, 1], [2, 3], [3, 2]] {
                let (inside, folder) = (&inside, folder.path());
                scope.spawn(move || {
                    for _ in 0..50 {
                        let locks = Locks::take(folder, &devices(&order)).unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "they all want device 2");
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(locks);
                    }
                });
            }
        });
        let held = Locks::take(folder.path(), &devices(&[1])).unwrap();
        drop(Locks::take(folder.path(), &devices(&[2])).unwrap());
        drop(held);
    }

    #[test]
    fn the_holder_of_a_lock_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let locks = Locks::take(folder.path(), &devices(&[7])).unwrap();
        assert_eq!(holder(&locks._files[0]), Some(std::process::id()));
        flock(&locks._files[0], FlockOperation::Unlock).unwrap();
        assert_eq!(holder(&locks._files[0]), None);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = Locks::take(Path::new("/no/such/folder"), &devices(&[1])).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/collspec-GPU-1.lock"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        check(folder.path()).unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        for none in [Path::new("/no/such/folder"), &file] {
            let error = check(none).unwrap_err();
            assert!(error.to_string().starts_with(&none.display().to_string()), "{error}");
        }
    }
}
