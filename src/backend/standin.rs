//! The stand-in libraries as files: found beside the program and presented under the vendors' names in a folder of its own.
//!
//! The folder goes in front of the loader's path of a worker, and of nothing else: a program that finds `libcuda.so.1`
//! there has no GPU. It holds links only. Both driver names lead to one file, so that whoever opens the second name gets
//! the library that is loaded under the first.
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The stand-in driver, as cargo builds it.
const DRIVER: &str = "libcollspec_standin_cuda.so";
/// The stand-in library, as cargo builds it.
const LIBRARY: &str = "libcollspec_standin_nccl.so";
/// The vendors' names, and what stands in for them. `libcuda.so` is there because some loaders try it first, and a
/// machine's own must not be found then.
const NAMES: [(&str, &str); 3] = [("libcuda.so.1", DRIVER), ("libcuda.so", DRIVER), ("libnccl.so.2", LIBRARY)];
/// The folder's name, beside the libraries.
const FOLDER: &str = "collspec-standin";
/// The variable that tells where the stand-in libraries are.
pub const PLACE: &str = "COLLSPEC_STANDIN";

/// Why the stand-ins cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody knows where this program is.
    #[error("cannot tell where this program is: {0}")]
    Program(#[source] io::Error),
    /// The libraries are not there.
    #[error("the stand-in library {name} is in none of these folders: {}; {PLACE} can name another", folders(.places))]
    Absent {
        /// The missing file.
        name: &'static str,
        /// Where it was looked for.
        places: Vec<PathBuf>,
    },
    /// No folder can be made for them.
    #[error("cannot present the stand-in libraries in {}: {source}", .folder.display())]
    Folder {
        /// The folder tried last.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else's folder is in the way.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
}

fn folders(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A folder that holds the stand-ins as `libcuda.so.1`, `libcuda.so` and `libnccl.so.2`. Made if it is not there; several
/// processes may do so at once.
pub fn folder() -> Result<PathBuf, Error> {
    let places = places()?;
    let sources = (find(DRIVER, &places)?, find(LIBRARY, &places)?);
    let present = |folder: &Path| present(folder, &sources.0, &sources.1);
    let beside = sources.1.with_file_name(FOLDER);
    match present(&beside) {
        Ok(()) => return Ok(beside),
        // an installed program's folder may be read-only
        Err(Error::Folder { .. }) => {}
        Err(other) => return Err(other),
    }
    // a user's own folder: what others may write to could hold any library
    let own = std::env::temp_dir().join(format!("{FOLDER}-{}", rustix::process::getuid().as_raw()));
    // one for every program, so that two installations do not fight over one name
    let mark = fnv(sources.0.as_os_str().as_encoded_bytes()) ^ fnv(sources.1.as_os_str().as_encoded_bytes());
    let there = own.join(format!("{mark:016x}"));
    make_private(&own)?;
    present(&there)?;
    Ok(there)
}

/// The stand-in NCCL under the vendor's name.
pub fn library() -> Result<PathBuf, Error> {
    Ok(folder()?.join("libnccl.so.2"))
}

/// Where the libraries may be: where the variable says, else where cargo or an installation puts them.
fn places() -> Result<Vec<PathBuf>, Error> {
    if let Some(place) = std::env::var_os(PLACE).filter(|place| !place.is_empty()) {
        return Ok(vec![place.into()]);
    }
    let program = std::env::current_exe().map_err(Error::Program)?;
    let mut places = Vec::new();
    if let Some(folder) = program.parent() {
        // a program, a test (which lies in `deps` itself), an example, an installation
        places.extend([folder.join("deps"), folder.to_owned(), folder.join("../deps"), folder.join("../lib/collspec")]);
    }
    Ok(places)
}

fn find(name: &'static str, places: &[PathBuf]) -> Result<PathBuf, Error> {
    let found = places.iter().find_map(|place| std::fs::canonicalize(place.join(name)).ok());
    found.ok_or_else(|| Error::Absent { name, places: places.to_vec() })
}

/// A folder that only its owner may write to.
fn make_private(folder: &Path) -> Result<(), Error> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let failed = |source| Error::Folder { folder: folder.to_owned(), source };
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let what = std::fs::symlink_metadata(folder).map_err(failed)?;
    let own = what.is_dir() && what.uid() == rustix::process::getuid().as_raw() && what.mode() & 0o022 == 0;
    if own { Ok(()) } else { Err(Error::Foreign(folder.to_owned())) }
}

fn present(folder: &Path, driver: &Path, library: &Path) -> Result<(), Error> {
    let failed = |source| Error::Folder { folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, source) in NAMES {
        link(&folder.join(name), if source == DRIVER { driver } else { library }).map_err(failed)?;
    }
    Ok(())
}

/// Makes `link` lead to `target`; at every moment it leads to what it led to before, or there.
fn link(link: &Path, target: &Path) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    if std::fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let fresh = link.with_extension(format!("new.{}.{number}", std::process::id()));
    // what a killed process of the same number left
    let _ = std::fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh)?;
    std::fs::rename(&fresh, link).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

/// FNV-1a: the same in every build, unlike the standard hasher.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_should_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("presented");
        let (old, driver, library) = (Path::new("/old"), Path::new("/driver"), Path::new("/library"));
        present(&path, old, old).unwrap();
        present(&path, driver, library).unwrap();
        present(&path, driver, library).unwrap();
        for (name, target) in [("libcuda.so", driver), ("libcuda.so.1", driver), ("libnccl.so.2", library)] {
            assert_eq!(std::fs::read_link(path.join(name)).unwrap(), target);
        }
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 3, "nothing else is left there");
    }

    #[test]
    fn many_may_present_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        present(folder.path(), Path::new("/driver"), Path::new("/library")).unwrap();
                        for (name, _) in NAMES {
                            std::fs::read_link(folder.path().join(name)).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_missing_library_is_an_error_that_says_where_it_was_sought() {
        let folder = tempfile::tempdir().unwrap();
        let error = find(DRIVER, &[folder.path().to_owned()]).unwrap_err().to_string();
        assert!(error.contains(DRIVER) && error.contains(&folder.path().display().to_string()), "{error}");
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own");
        make_private(&path).unwrap();
        make_private(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(make_private(&path), Err(Error::Foreign(_))));
    }
}
