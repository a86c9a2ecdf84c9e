//! A folder of this user below one that everybody may write to.
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Makes a folder to which only its owner may write; false if one is there that belongs to another user, or to which others may write: it
/// could hold anything.
pub(super) fn make_private(folder: &Path) -> io::Result<bool> {
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let what = std::fs::symlink_metadata(folder)?;
    Ok(what.is_dir() && what.uid() == rustix::process::getuid().as_raw() && what.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_write_to_is_not_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        assert!(make_private(&path).unwrap() && make_private(&path).unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(!make_private(&path).unwrap());
    }
}
