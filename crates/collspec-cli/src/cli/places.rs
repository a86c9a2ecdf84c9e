//! The folder that is searched for scenarios if no path is given, and advice if it has none.
use super::args::{DEFAULT_FOLDER, SelectionArgs};
use collspec_core::printable::printable;
use std::path::Path;

/// Fails if the default folder is missing, and tells the user what to do.
///
/// # Errors
///
/// The folder is not there.
pub fn no_folder(selection: &SelectionArgs) -> anyhow::Result<()> {
    let missing = |path: &Path| path == Path::new(DEFAULT_FOLDER) && path.symlink_metadata().is_err();
    anyhow::ensure!(!selection.searched().iter().any(|path| missing(path)), "{}", what_is_here("collspec run"));
    Ok(())
}

/// States if there are scenarios in the working folder, and how `command` runs them or others.
pub fn what_is_here(command: &str) -> String {
    if Path::new(DEFAULT_FOLDER).is_dir() {
        return format!("`{command}` runs the scenarios in {DEFAULT_FOLDER}/");
    }
    let Ok(here) = std::env::current_dir() else {
        return format!("the working folder does not exist: `{command} PATH` runs a file or a folder");
    };
    let shown = |path: &Path| printable(&path.display().to_string()).into_owned();
    let above = here.ancestors().skip(1).map(|folder| folder.join(DEFAULT_FOLDER)).find(|folder| folder.is_dir());
    let cure = match above {
        Some(folder) => format!(
            "`{command} {}` runs those of a folder above",
            collspec_suite::report::shell::quote_if_needed(&shown(&folder))
        ),
        None => format!(
            "`{command} PATH` runs a file or a folder elsewhere, and `{command} --corpus` the scenarios that collspec brings along"
        ),
    };
    format!("there is no folder {DEFAULT_FOLDER}/ in {}, which is where scenarios are looked for; {cure}", shown(&here))
}
