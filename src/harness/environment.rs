//! The two variables by which insta can be told where it is and to leave the standard output alone.
#![allow(unsafe_code)] // `set_var`, which insta leaves no other way for.
use std::path::Path;

/// Sets them if nothing can be reading the environment meanwhile: insta would otherwise ask cargo for the workspace of
/// *this* crate at every start, and print its differences between libtest's lines.
pub fn prepare_insta(package: &Path) {
    if threads() != Some(1) {
        // Snapshots work without; they are only slower and noisier.
        return;
    }
    if std::env::var_os("INSTA_WORKSPACE_ROOT").is_none() {
        // SAFETY: this is the process's only thread, so nobody reads or writes the environment at the same time.
        unsafe { std::env::set_var("INSTA_WORKSPACE_ROOT", package) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("INSTA_OUTPUT", "none") };
}

/// How many threads this process has, where the system tells.
fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness itself has a second thread.
        assert!(threads().is_some_and(|count| count > 1));
        let before = std::env::var_os("INSTA_OUTPUT");
        prepare_insta(Path::new("/nowhere"));
        assert_eq!(std::env::var_os("INSTA_OUTPUT"), before);
    }
}
