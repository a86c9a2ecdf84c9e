//! Sets the two variables with which insta finds the package and writes nothing to the standard output.
#![allow(unsafe_code)] // `set_var`, which insta leaves no other way for.
use std::path::Path;

/// Sets them if no other thread can read the environment: insta would otherwise ask cargo for the workspace of *this* crate
/// at every start, and print differences between libtest's lines.
pub fn prepare_insta(package: &Path) {
    if thread_count() != Some(1) {
        // Snapshots also work without the variables, but slower and with more output.
        return;
    }
    if std::env::var_os("INSTA_WORKSPACE_ROOT").is_none() {
        // SAFETY: this is the process's only thread, so no other thread reads or writes the environment at the same time.
        unsafe { std::env::set_var("INSTA_WORKSPACE_ROOT", package) };
    }
    // SAFETY: as above.
    unsafe { std::env::set_var("INSTA_OUTPUT", "none") };
}

/// Number of threads of this process, if the system reports it.
fn thread_count() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_other_threads_the_environment_is_left_alone() {
        // The test harness itself has a second thread.
        assert!(thread_count().is_some_and(|count| count > 1));
        let before = std::env::var_os("INSTA_OUTPUT");
        prepare_insta(Path::new("/nowhere"));
        assert_eq!(std::env::var_os("INSTA_OUTPUT"), before);
    }
}
