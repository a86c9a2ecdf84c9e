//! The files of `--output`.
use super::args::SelectionArgs;
use anyhow::Context;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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

/// Checks that no two reports go to one file. A link to a file counts as the file, and devices take any number.
///
/// # Errors
///
/// Two outputs are one file.
pub fn refuse_same_file(outputs: &[PathBuf]) -> anyhow::Result<()> {
    let mut seen: Vec<(FileIdentity, &Path)> = Vec::new();
    for path in outputs {
        let Some(identity) = FileIdentity::of(path) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
            let (path, other) = (path.display(), other.display());
            if path.to_string() == other.to_string() {
                anyhow::bail!("two reports would be written to {path}");
            }
            anyhow::bail!("two reports would be written to one file: {other} and {path}");
        }
        seen.push((identity, path));
    }
    Ok(())
}

/// Checks that there are folders for these files, which are written at the end of what may take long.
///
/// # Errors
///
/// A file's folder is missing or none.
pub fn refuse_missing_folder<'a>(files: impl IntoIterator<Item = &'a Path>) -> anyhow::Result<()> {
    for path in files {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let why = match folder.metadata() {
            Ok(there) if there.is_dir() => continue,
            Ok(_) => format!("{} is not a folder", folder.display()),
            Err(error) => format!("{}: {error}", folder.display()),
        };
        anyhow::bail!("cannot write {}: {why}", path.display());
    }
    Ok(())
}

/// What tells a file from others: its number if it exists, else its folder and name.
#[derive(PartialEq, Eq)]
enum FileIdentity {
    There(u64, u64),
    New(PathBuf),
}

impl FileIdentity {
    /// `None` for a device.
    fn of(path: &Path) -> Option<Self> {
        if let Ok(there) = path.metadata() {
            return there.is_file().then_some(Self::There(there.dev(), there.ino()));
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Some(Self::New(folder.join(path.file_name().unwrap_or_default())))
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
