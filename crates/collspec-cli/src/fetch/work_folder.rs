//! The folder of an unfinished fetch, in the cache's own file system so that the last step is a rename. It is removed with the value, and if
//! the process was killed before, by the next fetch: the kernel releases a lock on it when its process ends in any way.
use collspec_run::signals;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use tempfile::TempDir;

/// The prefix of the names of such folders.
const PREFIX: &str = ".fetch-";

/// A folder of this process alone.
#[derive(Debug)]
pub struct WorkFolder {
    folder: TempDir,
    _lock: OwnedFd,
}

impl WorkFolder {
    /// A new folder in the cache, from which those of killed fetches are removed.
    ///
    /// # Errors
    ///
    /// The cache cannot be read or written.
    pub fn new(cache: &Path) -> io::Result<Self> {
        // While this is held no other process makes a folder, so each existing one is either locked by its process or left over.
        let cache_lock = opened(cache)?;
        while let Err(error) = flock(&cache_lock, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR || signals::is_interrupted() {
                return Err(error.into());
            }
        }
        for entry in fs::read_dir(cache)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                remove_if_left(&entry.path());
            }
        }
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(cache)?;
        let lock = opened(folder.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { folder, _lock: lock })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn opened(folder: &Path) -> io::Result<OwnedFd> {
    Ok(open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty())?)
}

/// Removes a folder that no process works in. Files that cannot be removed take room and do no other harm.
fn remove_if_left(folder: &Path) {
    let Ok(lock) = opened(folder) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_killed_fetches_left_is_removed_and_what_others_work_in_stays() {
        let cache = tempfile::tempdir().unwrap();
        let left = cache.path().join(".fetch-left");
        fs::create_dir_all(left.join("came")).unwrap();
        fs::write(left.join("came/a.whl"), "part of a wheel").unwrap();
        let other = cache.path().join("2.30.7");
        fs::create_dir(&other).unwrap();
        let first = WorkFolder::new(cache.path()).unwrap();
        assert!(!left.exists() && other.is_dir() && first.path().is_dir());
        let second = WorkFolder::new(cache.path()).unwrap();
        assert!(first.path().is_dir() && second.path().is_dir() && first.path() != second.path());
        let ended = first.path().to_owned();
        drop(first);
        assert!(!ended.exists() && second.path().is_dir());
    }
}
