//! Libraries as files: copies with a setting, copies that lack functions, and what the program must not export.
use collspec::backend::standin;
use std::path::{Path, PathBuf};

/// `name` as it stands in a library's table of names.
fn in_table(name: &str) -> Vec<u8> {
    [b"\0", name.as_bytes(), b"\0"].concat()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    bytes.windows(wanted.len()).enumerate().filter(|(_, window)| *window == wanted).map(|(at, _)| at).collect()
}

/// A copy that the loader does not find these functions in: their names are changed, so their hashes fit no more.
pub fn without(library: &Path, names: &[&str], copy: &Path) -> PathBuf {
    let mut bytes = std::fs::read(library).unwrap();
    for name in names {
        let places = find(&bytes, &in_table(name));
        assert!(!places.is_empty(), "{} has no {name}", library.display());
        for at in places {
            bytes[at + 1] = b'-';
        }
    }
    std::fs::write(copy, bytes).unwrap();
    copy.to_owned()
}

#[test]
fn the_program_exports_nothing_of_either_vendor() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_collspec")).unwrap();
    let library = std::fs::read(standin::library().unwrap()).unwrap();
    let driver = std::fs::read(standin::folder().unwrap().join("libcuda.so")).unwrap();
    for name in ["ncclAllReduce", "ncclGetVersion", "cuInit", "cuMemAlloc_v2", "collspecStandin"] {
        assert!(find(&program, &in_table(name)).is_empty(), "{name}");
    }
    // the search does find what is there, and neither library has the other's
    assert!(!find(&library, &in_table("ncclAllReduce")).is_empty() && find(&library, &in_table("cuInit")).is_empty());
    assert!(!find(&driver, &in_table("cuInit")).is_empty() && find(&driver, &in_table("ncclAllReduce")).is_empty());
}

#[test]
fn the_folder_holds_the_vendors_names_and_both_driver_names_are_one_file() {
    let folder = standin::folder().unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names.retain(|name| !name.contains(".new.")); // another process may be at it
    assert_eq!(names, ["libcuda.so", "libcuda.so.1", "libnccl.so.2"]);
    let target = |name: &str| std::fs::canonicalize(folder.join(name)).unwrap();
    assert_eq!(target("libcuda.so"), target("libcuda.so.1"));
    assert_ne!(target("libcuda.so"), target("libnccl.so.2"));
    let path = standin::loader_path(Some("/else".as_ref())).unwrap();
    assert_eq!(path.to_str().unwrap(), format!("{}:/else", folder.display()));
}
