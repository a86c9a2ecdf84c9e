//! Shared libraries inside the program. `cargo install` installs a single file, so the libraries that are preloaded into other programs are
//! part of it, and each is written to the user's cache when it is first needed.
use super::private_folder::make_private;
use crate::cache_folder::cache_folder;
use collspec_core::fnv::fnv64;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A library's file name and its content.
pub type EmbeddedLibrary = (&'static str, &'static [u8]);

static EMBEDDED: OnceLock<&'static [EmbeddedLibrary]> = OnceLock::new();

/// Names the libraries that are inside this program. Only the first call counts.
pub fn embed(libraries: &'static [EmbeddedLibrary]) {
    EMBEDDED.get_or_init(|| libraries);
}

/// The path at which a library from inside the program was written; `None` if it is not in there.
pub(super) fn unpacked(name: &str) -> Option<io::Result<PathBuf>> {
    let (name, content) = EMBEDDED.get()?.iter().find(|(own, _)| *own == name)?;
    Some(in_private_folder(fnv64(content), |folder| unpack(folder, name, content)))
}

/// Writes files that are inside this program, by their paths below a folder, and returns that folder.
///
/// # Errors
///
/// They can be written neither to the cache nor to the folder for temporary files.
pub fn unpack_files(files: &[(&str, &[u8])]) -> io::Result<PathBuf> {
    let mark = files.iter().fold(0u64, |mark, (path, content)| {
        mark.rotate_left(7) ^ fnv64(path.as_bytes()) ^ fnv64(content).rotate_left(1)
    });
    in_private_folder(mark, |folder| {
        for (path, content) in files {
            let path = folder.join(path);
            if let (Some(parent), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) {
                unpack(parent, name, content)?;
            }
        }
        Ok(folder.to_owned())
    })
}

/// Writes to a folder of the user's cache, or if that fails, of the folder for temporary files. Programs of different versions have different
/// files of one name, so each has a folder by its mark.
fn in_private_folder(mark: u64, write: impl Fn(&Path) -> io::Result<PathBuf>) -> io::Result<PathBuf> {
    let mark = format!("{mark:016x}");
    // LD_PRELOAD and PYTHONPATH have spaces and colons between their paths.
    let cache = cache_folder().ok().filter(|cache| !cache.to_string_lossy().contains([' ', ':']));
    if let Some(Ok(path)) = cache.map(|cache| write(&cache.join("libraries").join(&mark))) {
        return Ok(path);
    }
    // A home that is missing, full or read-only.
    let own = std::env::temp_dir().join(format!("collspec-libraries-{}", rustix::process::getuid().as_raw()));
    match make_private(&own)? {
        true => write(&own.join(&mark)),
        false => Err(io::Error::other(format!("{} belongs to another user", own.display()))),
    }
}

/// Writes the library, unless the same file is there already. Several processes may do this at once, because each writes a temporary file and
/// renames it.
fn unpack(folder: &Path, name: &str, content: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(name);
    let is_as_long = fs::metadata(&path).is_ok_and(|file| file.is_file() && file.len() == content.len() as u64);
    if is_as_long && fs::read(&path)? == content {
        return Ok(path);
    }
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content)?;
    file.as_file().set_permissions(Permissions::from_mode(0o755))?;
    file.persist(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_whole_however_many_write_it_and_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let folder = &folder.path().join("deep/folder");
        let content = &b"library".repeat(10_000);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(fs::read(unpack(folder, "lib.so", content).unwrap()).unwrap(), *content));
            }
        });
        for wrong in [&b"cut"[..], &b"LIBRARY".repeat(10_000)] {
            fs::write(folder.join("lib.so"), wrong).unwrap();
            assert_eq!(fs::read(unpack(folder, "lib.so", content).unwrap()).unwrap(), *content);
        }
        assert_eq!(fs::read_dir(folder).unwrap().count(), 1, "nothing else is left there");
    }
}
