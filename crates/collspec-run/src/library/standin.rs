//! The stand-in libraries: files next to the program, presented under the vendors' names in a folder.
//!
//! The folder is put at the front of a worker's loader path only: a program that finds `libcuda.so.1` in it does not have a GPU. It
//! contains only links. Both names of the driver lead to one file, so that the second name opens the library that is loaded
//! under the first.
use super::embedded::unpacked;
use super::private_folder::make_private;
use collspec_core::fnv::fnv64;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The stand-in driver's file name as cargo builds it.
const DRIVER: &str = "libcollspec_standin_cuda.so";
/// The stand-in library's file name as cargo builds it.
const LIBRARY: &str = "libcollspec_standin_nccl.so";
/// The vendors' names and the stand-ins for them. `libcuda.so` is included because some loaders try it first, and must not find
/// the machine's driver then.
const NAMES: [(&str, &str); 3] = [("libcuda.so.1", DRIVER), ("libcuda.so", DRIVER), ("libnccl.so.2", LIBRARY)];
/// The name of the folder next to the libraries.
const FOLDER: &str = "collspec-standin";
/// The variable with the folder of the stand-in libraries.
pub const STANDIN_VARIABLE: &str = "COLLSPEC_STANDIN";

/// The reason the stand-ins cannot be presented.
#[derive(Debug, thiserror::Error)]
pub enum StandinError {
    /// This program's path is unknown.
    #[error("cannot tell where this program is: {0}")]
    Program(#[source] io::Error),
    /// A library is missing.
    #[error("the library {name} is neither in this program nor in one of these folders: {}; {STANDIN_VARIABLE} can name another", folders(.places))]
    Absent {
        /// Name of the missing file.
        name: &'static str,
        /// The folders in which it was looked for.
        places: Vec<PathBuf>,
    },
    /// A library that is inside the program cannot be written to the cache, nor to the folder for temporary files.
    #[error("the library {name} cannot be written: {source}")]
    Written {
        /// Name of the file.
        name: &'static str,
        /// The error from the system.
        source: io::Error,
    },
    /// The folder cannot be created.
    #[error("cannot present the stand-in libraries in {}: {source}", .folder.display())]
    Folder {
        /// The folder that was tried last.
        folder: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// The folder exists and belongs to another user.
    #[error("{} belongs to another user", .0.display())]
    Foreign(PathBuf),
}

fn folders(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The folder with the stand-ins as `libcuda.so.1`, `libcuda.so` and `libnccl.so.2`. It is created if it is missing; several
/// processes may do so at the same time.
///
/// # Errors
///
/// A stand-in is missing, or the folder cannot be created.
pub fn folder() -> Result<PathBuf, StandinError> {
    presented(FOLDER, &NAMES)
}

/// The folder of this name with installed libraries under vendors' names: pairs of a vendor's name and the library's. It is created if it
/// is missing.
pub fn presented(name: &str, links: &[(&str, &'static str)]) -> Result<PathBuf, StandinError> {
    let places = places()?;
    let found = links.iter().map(|(link, library)| Ok((*link, find(library, &places)?)));
    let links: Vec<(&str, PathBuf)> = found.collect::<Result<_, StandinError>>()?;
    let present = |folder: &Path| present(folder, &links);
    // Each set of libraries has its own folder: two installations would otherwise change each other's links.
    let mark = links
        .iter()
        .map(|(_, path)| fnv64(path.as_os_str().as_encoded_bytes()))
        .reduce(|all, one| all.rotate_left(1) ^ one);
    let mark = format!("{:016x}", mark.unwrap_or_default());
    let beside = links.first().map_or_else(PathBuf::new, |(_, first)| first.with_file_name(format!("{name}-{mark}")));
    match present(&beside) {
        Ok(()) => return Ok(beside),
        // an installed program's folder may be read-only
        Err(StandinError::Folder { .. }) => {}
        Err(other) => return Err(other),
    }
    // a user's own folder: one that others can write to could hold any library
    let own = std::env::temp_dir().join(format!("{name}-{}", rustix::process::getuid().as_raw()));
    let there = own.join(&mark);
    match make_private(&own) {
        Ok(true) => {}
        Ok(false) => return Err(StandinError::Foreign(own)),
        Err(source) => return Err(StandinError::Folder { folder: own, source }),
    }
    present(&there)?;
    Ok(there)
}

/// The path of the stand-in NCCL under the vendor's name.
pub fn library() -> Result<PathBuf, StandinError> {
    Ok(folder()?.join("libnccl.so.2"))
}

/// The path of a shared library that was built or installed with this program.
///
/// # Errors
///
/// It is missing.
pub fn installed(name: &'static str) -> Result<PathBuf, StandinError> {
    find(name, &places()?)
}

/// The folders in which the libraries may be: that of the variable, else those of cargo. An installed program has them inside.
fn places() -> Result<Vec<PathBuf>, StandinError> {
    if let Some(place) = std::env::var_os(STANDIN_VARIABLE).filter(|place| !place.is_empty()) {
        return Ok(vec![place.into()]);
    }
    let program = std::env::current_exe().map_err(StandinError::Program)?;
    let mut places = Vec::new();
    if let Some(folder) = program.parent() {
        // a program, a test (which lies in `deps` itself), an example
        places.extend([folder.join("deps"), folder.to_owned(), folder.join("../deps")]);
    }
    Ok(places)
}

fn find(name: &'static str, places: &[PathBuf]) -> Result<PathBuf, StandinError> {
    if let Some(found) = places.iter().find_map(|place| std::fs::canonicalize(place.join(name)).ok()) {
        return Ok(found);
    }
    match unpacked(name) {
        Some(written) => written.map_err(|source| StandinError::Written { name, source }),
        None => Err(StandinError::Absent { name, places: places.to_vec() }),
    }
}

fn present(folder: &Path, links: &[(&str, PathBuf)]) -> Result<(), StandinError> {
    let failed = |source| StandinError::Folder { folder: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    links.iter().try_for_each(|(name, target)| link(&folder.join(name), target).map_err(failed))
}

/// Makes `link` lead to `target` in one step.
fn link(link: &Path, target: &Path) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    if std::fs::read_link(link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let fresh = link.with_extension(format!("new.{}.{number}", std::process::id()));
    // a leftover of a killed process with the same number
    let _ = std::fs::remove_file(&fresh);
    std::os::unix::fs::symlink(target, &fresh)?;
    std::fs::rename(&fresh, link).inspect_err(|_| {
        let _ = std::fs::remove_file(&fresh);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_where_they_should_whatever_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("presented");
        let links = [("libcuda.so.1", "/driver".into()), ("libnccl.so.2", "/library".into())];
        present(&path, &links.clone().map(|(name, _)| (name, "/old".into()))).unwrap();
        present(&path, &links).unwrap();
        present(&path, &links).unwrap();
        for (name, target) in links {
            assert_eq!(std::fs::read_link(path.join(name)).unwrap(), target);
        }
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 2, "nothing else is left there");
    }

    #[test]
    fn many_may_present_at_once() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        present(folder.path(), &NAMES.map(|(name, library)| (name, library.into()))).unwrap();
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
}
