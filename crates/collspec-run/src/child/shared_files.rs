//! The files in shared memory through which NCCL's ranks reach each other. NCCL removes them when a communicator ends; those of a process that ends
//! without that, of up to 68 MB each, would stay until the machine starts again.
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where NCCL makes them, and how their names begin.
const PREFIX: &str = "/dev/shm/nccl-";

/// Those that a process has mapped: `self`, or the number of one that has not been waited for yet. None if it has ended.
pub fn mapped_by(process: &str) -> BTreeSet<PathBuf> {
    let maps = std::fs::read(format!("/proc/{process}/maps")).unwrap_or_default();
    named_in(&String::from_utf8_lossy(&maps))
}

fn named_in(maps: &str) -> BTreeSet<PathBuf> {
    let paths = maps.lines().filter_map(|line| Some(&line[line.find(PREFIX)?..]));
    let own = |path: &&str| !path.ends_with(" (deleted)") && !path[PREFIX.len()..].contains('/');
    paths.filter(own).map(PathBuf::from).collect()
}

/// Removes files of a process that needs them no more. Another rank's end may have done it already.
pub fn remove(files: BTreeSet<PathBuf>) {
    for file in files {
        let _ = std::fs::remove_file(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_nccl_that_are_still_there_count() {
        let maps = "7f00-7f01 rw-s 0 00:19 5 /dev/shm/nccl-a\n7f01-7f02 rw-s 1000 00:19 5 /dev/shm/nccl-a\n\
                    7f02-7f03 rw-s 0 00:19 6 /dev/shm/nccl-b (deleted)\n7f03-7f04 rw-s 0 00:19 7 /dev/shm/nccl-c/d\n\
                    7f04-7f05 rw-s 0 00:19 8 /dev/shm/other\n7f05-7f06 r-xp 0 08:01 9 /usr/lib/libnccl.so.2\n";
        assert_eq!(named_in(maps), BTreeSet::from([PathBuf::from("/dev/shm/nccl-a")]));
    }
}
