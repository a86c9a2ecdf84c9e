//! Copies of a shared library that differ from it: in what is demanded of the stand-in, or in the functions that it lacks.
use collspec_run::library::standin;
use std::fs;
use std::path::{Path, PathBuf};

/// A copy of the stand-in library as `libnccl.so.2` in this folder, with these demands.
pub fn demanding(folder: &Path, demands: &str) -> PathBuf {
    fs::create_dir_all(folder).unwrap();
    let copy = folder.join("libnccl.so.2");
    fs::copy(standin::library().unwrap(), &copy).unwrap();
    fs::write(folder.join("standin.faults"), demands).unwrap();
    copy
}

/// Makes `copy` of a library, in which the loader does not find these functions: their names in its table of names are changed,
/// so that their hashes fit no more.
pub fn without(library: &Path, functions: &[&str], copy: &Path) -> PathBuf {
    let mut bytes = fs::read(library).unwrap();
    for function in functions {
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let windows = bytes.windows(name.len()).enumerate();
        let places: Vec<usize> = windows.filter(|(_, window)| *window == name).map(|(at, _)| at).collect();
        assert!(!places.is_empty(), "{} has no {function}", library.display());
        for at in places {
            bytes[at + 1] = b'-';
        }
    }
    fs::write(copy, bytes).unwrap();
    copy.to_owned()
}
