//! Tells whether a file is the one that it was.
use serde::{Deserialize, Serialize};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What tells a file of a library from every other, and from itself before it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
    length: u64,
    /// Seconds and nanoseconds of the last change of its contents, and of the last change of any kind, which no program can set.
    modified: (i64, i64),
    pub(crate) changed: (i64, i64),
}

impl FileIdentity {
    /// That of a file as it is now.
    pub fn of(file: &Metadata) -> Self {
        Self {
            device: file.dev(),
            inode: file.ino(),
            length: file.len(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        }
    }

    /// True if the file would have another identity if it were changed from now on: some file systems note times in steps of up to two
    /// seconds.
    pub(crate) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        let last = self.modified.0.max(self.changed.0);
        i64::try_from(now).is_ok_and(|now| last < now - 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_or_written_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let identity = || FileIdentity::of(&at("library").metadata().unwrap());
        std::fs::write(at("library"), "one").unwrap();
        std::fs::write(at("other"), "two").unwrap();
        let before = identity();
        assert_eq!(identity(), before);
        std::fs::rename(at("other"), at("library")).unwrap();
        let renamed = identity();
        assert_ne!(renamed, before);
        std::fs::write(at("library"), "three").unwrap();
        assert_ne!(identity(), renamed);
    }
}
