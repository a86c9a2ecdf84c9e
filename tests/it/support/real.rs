//! Real NCCL libraries that a test may use.
use std::fs;
use std::path::PathBuf;

/// The newest library of the folder COLLSPEC_TEST_NCCL_LIBRARIES; without one, the output says that the test is skipped.
pub fn newest_real() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("COLLSPEC_TEST_NCCL_LIBRARIES") else {
        eprintln!("skipped: COLLSPEC_TEST_NCCL_LIBRARIES does not name a folder with VERSION/libnccl.so.2");
        return None;
    };
    let libraries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    Some(libraries.max().unwrap().join("libnccl.so.2"))
}
