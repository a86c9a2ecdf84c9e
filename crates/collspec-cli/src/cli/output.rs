//! The files that a command writes: they differ from the files that it reads, and from each other.
//!
//! Both are checked before anything runs. An output that is complete when it is written replaces the old file at once; one that is
//! written while cases run is emptied first, and locked, so that a second run with the same file is an error. Pipes and devices are written
//! to directly, but not waited for.
use super::args::SelectionArgs;
use crate::output_files;
use anyhow::Context;
use collspec_core::scenario;
use collspec_suite::suite::{BackendRequest, DriverRequest};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The library and the driver that were named by their files.
pub fn of_backend(request: &BackendRequest) -> impl Iterator<Item = PathBuf> {
    let driver = match &request.driver {
        DriverRequest::Folder(folder) => Some(folder.join("libcuda.so.1")),
        _ => None,
    };
    request.nccl.iter().map(PathBuf::from).chain(driver)
}

/// The scenario files of these paths. Paths that cannot be searched yield no files: reading them reports the reason.
pub fn of_paths(paths: &[PathBuf]) -> impl Iterator<Item = PathBuf> + use<> {
    scenario::search(paths).unwrap_or_default().scenarios.into_iter().map(|file| file.path)
}

/// The scenario files of a command line.
pub fn of_selection(selection: &SelectionArgs) -> impl Iterator<Item = PathBuf> + use<> {
    of_paths(&selection.searched())
}

/// The file of an option; `None` is the standard output, which `-` means too.
pub fn file(option: &Option<PathBuf>) -> Option<&Path> {
    option.as_deref().filter(|path| path.as_os_str() != "-")
}

/// Checks before anything runs that the outputs can be written and overwrite nothing: the folder of each exists, no two are one file,
/// and none is one that the command reads. A link to a file counts as the file, and devices may occur repeatedly. `what` is written.
///
/// # Errors
///
/// An output that cannot be written there.
pub fn check(
    what: &str,
    outputs: &[impl AsRef<Path>],
    inputs: impl IntoIterator<Item = PathBuf>,
) -> anyhow::Result<()> {
    let outputs: Vec<&Path> = outputs.iter().map(AsRef::as_ref).collect();
    refuse_same_file(what, &outputs)?;
    refuse_missing_folder(&outputs)?;
    let program = std::env::current_exe().ok();
    let inputs: Vec<PathBuf> = inputs.into_iter().chain(program).collect();
    let identities: Vec<Option<FileIdentity>> = inputs.iter().map(|input| FileIdentity::of(input)).collect();
    for output in outputs {
        let own = FileIdentity::of(output);
        let Some(at) = identities.iter().position(|identity| own.is_some() && *identity == own) else { continue };
        let input = inputs.get(at).map_or(output, PathBuf::as_path).display().to_string();
        let output = output.display().to_string();
        let same = if input == output { String::new() } else { format!(": {output} is the same file") };
        anyhow::bail!("the {what} would be written over {input}, which this command reads{same}");
    }
    Ok(())
}

fn refuse_same_file(what: &str, outputs: &[&Path]) -> anyhow::Result<()> {
    let mut seen: Vec<(FileIdentity, &Path)> = Vec::new();
    for path in outputs {
        let Some(identity) = FileIdentity::of(path) else { continue };
        if let Some((_, other)) = seen.iter().find(|(known, _)| *known == identity) {
            let (path, other) = (path.display(), other.display());
            if path.to_string() == other.to_string() {
                anyhow::bail!("two {what}s would be written to {path}");
            }
            anyhow::bail!("two {what}s would be written to one file: {other} and {path}");
        }
        seen.push((identity, path));
    }
    Ok(())
}

/// A file that is written at the end of a long command needs its folder at the beginning.
fn refuse_missing_folder(outputs: &[&Path]) -> anyhow::Result<()> {
    for path in outputs {
        let folder = folder_of(path);
        let why = match folder.metadata() {
            Ok(there) if there.is_dir() => continue,
            Ok(_) => format!("{} is not a folder", folder.display()),
            Err(error) => format!("{}: {error}", folder.display()),
        };
        anyhow::bail!("cannot write {}: {why}", path.display());
    }
    Ok(())
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The identity of a file: its inode if it exists, else its folder and name.
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
        let folder = folder_of(path);
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        Some(Self::New(folder.join(path.file_name().unwrap_or_default())))
    }
}

/// A file that is written while the command works. Its errors name it.
pub struct NamedFile {
    file: File,
    path: PathBuf,
}

impl NamedFile {
    fn named<T>(&self, result: io::Result<T>) -> io::Result<T> {
        result.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", cannot(&self.path))))
    }
}

impl Write for NamedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes);
        self.named(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.file.flush();
        self.named(flushed)
    }
}

/// Creates or empties a file that is written while the command works.
///
/// # Errors
///
/// The file cannot be written, or another process is writing it.
pub fn create_file(path: &Path) -> anyhow::Result<NamedFile> {
    let file = output_files::create(path).with_context(|| cannot(path))?;
    Ok(NamedFile { file, path: path.to_owned() })
}

/// Gives a file this content at once.
///
/// # Errors
///
/// The file cannot be written.
pub fn replace(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    output_files::replace(path, content).with_context(|| cannot(path))
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
