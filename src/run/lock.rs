//! One case at a time on a device, whichever process runs it: a lock on a file per device. The kernel gives it back when the
//! process ends, however that comes about; the file stays, and is empty.
use crate::backend::cuda::DeviceInfo;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Locks on devices; given back when dropped.
#[derive(Debug)]
pub struct Locks {
    _files: Vec<OwnedFd>,
}

/// Where the files are: the user's run-time folder, else that for temporary files.
pub fn folder() -> PathBuf {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute() && path.is_dir());
    own.unwrap_or_else(std::env::temp_dir)
}

impl Locks {
    /// Waits until nobody else has one of the devices. They are taken in one order by everybody, so nobody waits in a ring.
    pub fn take(folder: &Path, devices: &[DeviceInfo]) -> io::Result<Self> {
        let mut names: Vec<&str> = devices.iter().map(|device| device.uuid.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let files = names.into_iter().map(|name| lock(&folder.join(format!("collspec-{name}.lock"))));
        Ok(Self { _files: files.collect::<io::Result<_>>()? })
    }
}

fn lock(path: &Path) -> io::Result<OwnedFd> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    // not waiting: in a folder for everybody it might be a pipe that nobody writes to
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    // first as it is: in a folder for everybody, a file of somebody else's may be read but not be asked to be made
    let file = match open(path, flags, Mode::empty()) {
        Err(rustix::io::Errno::NOENT) => {
            open(path, flags | OFlags::CREATE, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH)
        }
        other => other,
    };
    let file = file.map_err(|error| named(error.into()))?;
    loop {
        match flock(&file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(named(error.into())),
        }
    }
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
    fn a_folder_that_is_not_there_is_named() {
        let error = Locks::take(Path::new("/no/such/folder"), &devices(&[1])).unwrap_err();
        assert!(error.to_string().contains("/no/such/folder/collspec-GPU-1.lock"), "{error}");
    }
}
