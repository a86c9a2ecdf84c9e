//! The file of `--output`.
use super::args::SelectionArgs;
use anyhow::Context;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Checks that the report does not overwrite a scenario file of this run. A link to one counts as the file.
///
/// # Errors
///
/// The output is a scenario file of this run.
pub fn refuse_scenario_as_output(output: Option<&Path>, selection: &SelectionArgs) -> anyhow::Result<()> {
    let Some(path) = output else { return Ok(()) };
    let Ok(there) = path.metadata() else { return Ok(()) };
    let place = |file: &Metadata| (file.dev(), file.ino());
    let read = crate::scenario::search(&selection.paths)?.scenarios;
    let same = read.iter().find(|file| file.target.metadata().is_ok_and(|file| place(&file) == place(&there)));
    match same {
        Some(scenario) if scenario.path == *path => {
            anyhow::bail!("the report would be written over {}, a scenario file of this run", path.display())
        }
        Some(scenario) => anyhow::bail!(
            "the report would be written over {}, a scenario file of this run: {} is the same file",
            scenario.path.display(),
            path.display()
        ),
        None => Ok(()),
    }
}

/// Creates or empties the file.
///
/// # Errors
///
/// The file cannot be written.
pub fn create_file(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}
