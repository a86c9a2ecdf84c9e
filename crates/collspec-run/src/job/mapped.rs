//! The NCCL library files that a process has mapped, as reported by the kernel.
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A library's file that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MappedLibrary {
    /// Its path; the kernel adds ` (deleted)` if another file has taken its place.
    pub path: String,
    /// Its file system's device, as `/proc/self/maps` prints it.
    pub device: String,
    /// Inode number of the file.
    pub inode: u64,
}

impl MappedLibrary {
    /// True if both are one file.
    pub fn is_same_file(&self, other: &Self) -> bool {
        (&self.device, self.inode) == (&other.device, other.inode)
    }

    /// Its build id is that of its path only if the path still leads to the file.
    pub fn is_replaced(&self) -> bool {
        self.path.ends_with(DELETED)
    }
}

const DELETED: &str = " (deleted)";

/// The NCCL libraries that this process has mapped, and the file `asked` if it is mapped under another name; `None` if the
/// kernel does not tell.
pub fn mapped_libraries(asked: &Path) -> Option<Vec<MappedLibrary>> {
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let asked = asked.canonicalize().unwrap_or_else(|_| asked.to_owned());
    Some(in_maps(&String::from_utf8_lossy(&maps), &asked))
}

fn in_maps(maps: &str, asked: &Path) -> Vec<MappedLibrary> {
    let mut found: Vec<MappedLibrary> = maps
        .lines()
        .filter_map(mapped_file)
        .filter(|file| is_library(&file.path) || Path::new(file.path.trim_end_matches(DELETED)) == asked)
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The file of a line: addresses, rights, offset, device, inode, path.
fn mapped_file(line: &str) -> Option<MappedLibrary> {
    let mut rest = line;
    let mut fields = [""; 5];
    for field in &mut fields {
        let (word, more) = rest.trim_start().split_once(' ')?;
        (*field, rest) = (word, more);
    }
    // The kernel writes a line break in a name as \012.
    let path = rest.trim_start().replace("\\012", "\n");
    let inode = fields[4].parse().ok()?;
    path.starts_with('/').then(|| MappedLibrary { path, device: fields[3].to_owned(), inode })
}

/// True for `libnccl.so` and `libnccl.so.2`, not for plugins such as `libnccl-net.so`.
fn is_library(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.trim_end_matches(DELETED)
        .strip_prefix("libnccl.so")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
7f0000000000-7f0000001000 r--p 00000000 08:01 77                         /a b/libnccl.so.2.30.7
7f0000001000-7f0000002000 r-xp 00001000 08:01 77                         /a b/libnccl.so.2.30.7
7f0000003000-7f0000004000 r-xp 00000000 08:01 78                         /a/libnccl-net.so
7f0000005000-7f0000006000 r-xp 00000000 08:02 77                         /c/libnccl.so (deleted)
7f0000007000-7f0000008000 r-xp 00000000 08:01 79                         /d/libmine.so
7f0000009000-7f000000a000 rw-p 00000000 00:00 0                          [heap]
7f000000b000-7f000000c000 rw-p 00000000 00:00 0 
";

    #[test]
    fn libraries_are_told_from_plugins_and_other_files() {
        let paths = |asked: &str| -> Vec<String> {
            in_maps(MAPS, Path::new(asked)).into_iter().map(|library| library.path).collect()
        };
        assert_eq!(paths("/x"), ["/a b/libnccl.so.2.30.7", "/c/libnccl.so (deleted)"]);
        assert_eq!(paths("/d/libmine.so"), ["/a b/libnccl.so.2.30.7", "/c/libnccl.so (deleted)", "/d/libmine.so"]);
        let found = in_maps(MAPS, Path::new("/x"));
        assert!(!found[0].is_same_file(&found[1]), "the same inode on two devices");
        assert!(!found[0].is_replaced() && found[1].is_replaced());
        assert!(in_maps("", Path::new("/x")).is_empty() && in_maps("garbage\n1 2 3 4 5", Path::new("/x")).is_empty());
    }

    #[test]
    fn this_process_tells_what_it_has_mapped() {
        let own = std::env::current_exe().unwrap();
        let mapped = mapped_libraries(&own).unwrap();
        assert!(mapped.iter().any(|file| Path::new(&file.path) == own.canonicalize().unwrap()), "{mapped:?}");
    }
}
