//! Finds scenario files in files and folders, and their names.
//!
//! In a folder, links lead only to regular files below the folders that were named, never to folders, and every file counts once.
use super::different_names::{FoundFiles, with_different_names};
use super::names::{escape_bytes, file_part};
use crate::printable::{is_printable, printable};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Limit on the depth of folders below a root.
const MAX_DEPTH: usize = 64;

/// A scenario file, with the name that its cases' names start with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioFile {
    /// The path under its root without `.toml`, with `/` between folders; for a file given on its own, its stem. If another file
    /// has the same name, the name is extended by folders at the front.
    pub name: String,
    /// The path shown in messages.
    pub path: PathBuf,
    /// The file that is opened: `path`, or the target of a link.
    pub target: PathBuf,
    /// False if the path cannot be a case's name, in which case `name` contains it with escapes.
    pub is_named: bool,
}

/// Scenario files, and similar entries that were skipped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// The files, sorted by name.
    pub scenarios: Vec<ScenarioFile>,
    /// Skipped entries in the order in which they were found.
    pub passed_over: Vec<PassedOver>,
}

/// An entry of a folder that was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is passed over: {why}", printable_path(path))]
pub struct PassedOver {
    /// Path of the entry.
    pub path: PathBuf,
    /// The reason the entry was skipped.
    pub why: PassedOverReason,
}

/// The reason an entry of a folder was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassedOverReason {
    /// A link to a folder; such links can form circles, or lead to one file in many ways.
    Folder,
    /// A link to a file outside the folders named, or in a hidden one.
    Outside,
    /// A device, a pipe or a socket; reading it could block or never end.
    NoRegularFile,
    /// A link whose target does not exist.
    Broken,
    /// A file that was already taken under this path.
    AlreadyTaken(PathBuf),
}

impl fmt::Display for PassedOverReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder => f.write_str("it is a link to a folder"),
            Self::Outside => {
                f.write_str("it is a link to a file outside the folders that were named, or to a hidden one")
            }
            Self::NoRegularFile => f.write_str("it is not a regular file"),
            Self::Broken => f.write_str("it is a broken link"),
            Self::AlreadyTaken(first) => write!(f, "it is the same file as {}", printable_path(first)),
        }
    }
}

/// An error of searching for scenario files.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{path}: {source}", path = printable_path(.path))]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: neither a file nor a folder", printable_path(.0))]
    NeitherFileNorFolder(PathBuf),
    #[error("{}: a scenario file's name must end in .toml", printable_path(.0))]
    NotToml(PathBuf),
    #[error("{}: no .toml file in this folder{}", printable_path(path), among(passed_over))]
    Empty { path: PathBuf, passed_over: Vec<PassedOver> },
    #[error("{}: more than {MAX_DEPTH} folders deep", printable_path(.0))]
    TooDeep(PathBuf),
    #[error("{} and {} both have the name {name}", printable_path(.first), printable_path(.second))]
    DuplicateName { name: String, first: PathBuf, second: PathBuf },
}

/// A path on one line: its name may contain line breaks.
fn printable_path(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

fn among(passed_over: &[PassedOver]) -> String {
    match passed_over {
        [] => String::new(),
        [one] => format!("; {one}"),
        [first, more @ ..] => format!("; {first}, and {} more are", more.len()),
    }
}

/// Finds all scenario files among files and folders. A path of the list may be a link; in a folder, links are followed to
/// regular files below the folders of the list, and every file of a folder is taken once. If files of several paths would
/// have the same name, the names begin with enough of the paths to distinguish them.
///
/// # Errors
///
/// A path cannot be read or is not a scenario file, a folder has no scenario or is nested too deeply, or two files have one name.
pub fn search(paths: &[PathBuf]) -> Result<Discovered, DiscoverError> {
    let mut roots = Vec::new();
    for path in paths {
        if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            roots.push(canonical(path)?);
        }
    }
    let mut arguments = Vec::new();
    let mut passed_over = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        let found = if meta.is_dir() {
            let mut walk = FolderSearch { roots: &roots, ..FolderSearch::default() };
            walk.folder(path, &NamePrefix::default(), 1)?;
            walk.links()?;
            if walk.found.is_empty() {
                return Err(DiscoverError::Empty { path: path.clone(), passed_over: walk.passed_over });
            }
            passed_over.extend(walk.passed_over);
            walk.found
        } else if meta.is_file() {
            vec![single_file(path)?]
        } else {
            return Err(DiscoverError::NeitherFileNorFolder(path.clone()));
        };
        arguments.push(FoundFiles { path: path.clone(), is_folder: meta.is_dir(), files: found });
    }
    Ok(Discovered { scenarios: with_different_names(arguments)?, passed_over })
}

/// The files that [`search`] finds, without the skipped entries.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<ScenarioFile>, DiscoverError> {
    search(paths).map(|found| found.scenarios)
}

/// The file of the case with this name, if `root` contains it. The whole folder is searched only if the file is a link.
pub fn find_exact(root: &Path, name: &str) -> Option<ScenarioFile> {
    let name = file_part(name);
    let meta = fs::metadata(root).ok()?;
    if meta.is_file() {
        return single_file(root).ok().filter(|s| s.name == name);
    }
    let relative = Path::new(name);
    let inside =
        relative.components().all(|c| matches!(c, Component::Normal(p) if !p.as_encoded_bytes().starts_with(b".")));
    if name.is_empty() || !inside {
        return None;
    }
    let mut folder = root.to_owned();
    for part in relative.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        if !fs::symlink_metadata(&folder).ok()?.is_dir() {
            return None;
        }
    }
    let path = root.join(format!("{name}.toml"));
    let meta = fs::symlink_metadata(&path).ok()?;
    if meta.is_symlink() {
        // If a file has several names, the one that is used depends on the whole folder.
        return discover(&[root.to_owned()]).ok()?.into_iter().find(|s| s.name == name);
    }
    meta.is_file().then(|| ScenarioFile { name: name.to_owned(), target: path.clone(), path, is_named: true })
}

fn single_file(path: &Path) -> Result<ScenarioFile, DiscoverError> {
    if path.extension().is_none_or(|e| e != "toml") {
        return Err(DiscoverError::NotToml(path.to_owned()));
    }
    let NamePrefix { text: name, is_named } = NamePrefix::default().with(path.file_stem());
    let target = if path.is_symlink() { canonical(path)? } else { path.to_owned() };
    Ok(ScenarioFile { name, path: path.to_owned(), target, is_named })
}

/// The beginning of a name, from the folders that contain a file.
#[derive(Clone, Debug)]
struct NamePrefix {
    text: String,
    is_named: bool,
}

impl Default for NamePrefix {
    fn default() -> Self {
        Self { text: String::new(), is_named: true }
    }
}

impl NamePrefix {
    /// Appends one part, escaped if it cannot be part of a name.
    fn with(&self, part: Option<&OsStr>) -> Self {
        let part = part.unwrap_or_default();
        match part.to_str().filter(|part| is_valid_name(part)) {
            Some(part) => Self { text: format!("{}{part}", self.text), is_named: self.is_named },
            None => Self { text: format!("{}{}", self.text, escape_bytes(part.as_bytes())), is_named: false },
        }
    }
}

pub(super) fn is_valid_name(part: &str) -> bool {
    !part.is_empty() && !part.chars().any(|c| !is_printable(c) || "[]\\".contains(c))
}

fn unreadable(path: &Path, source: std::io::Error) -> DiscoverError {
    DiscoverError::Unreadable { path: path.to_owned(), source }
}

fn canonical(path: &Path) -> Result<PathBuf, DiscoverError> {
    fs::canonicalize(path).map_err(|source| unreadable(path, source))
}

/// The search of a folder and all folders below it.
#[derive(Default)]
struct FolderSearch<'a> {
    /// Every folder of the list, with links resolved.
    roots: &'a [PathBuf],
    found: Vec<ScenarioFile>,
    /// The path under which each file was taken, by device and inode.
    taken: HashMap<(u64, u64), PathBuf>,
    /// Links with names of scenarios; they are followed after all regular files have been taken.
    links: Vec<(NamePrefix, PathBuf)>,
    passed_over: Vec<PassedOver>,
}

impl FolderSearch<'_> {
    fn folder(&mut self, folder: &Path, prefix: &NamePrefix, depth: usize) -> Result<(), DiscoverError> {
        if depth > MAX_DEPTH {
            return Err(DiscoverError::TooDeep(folder.to_owned()));
        }
        let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let mut entries = entries.map_err(|source| unreadable(folder, source))?;
        // Sorted, so that the name under which a file is taken does not depend on the file system.
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let bytes = path.file_name().map(|n| n.as_encoded_bytes()).unwrap_or_default();
            if bytes.starts_with(b".") {
                continue;
            }
            let meta = fs::symlink_metadata(&path).map_err(|source| unreadable(&path, source))?;
            let is_toml = path.extension().is_some_and(|e| e == "toml");
            if meta.is_dir() {
                let mut inside = prefix.with(path.file_name());
                inside.text.push('/');
                self.folder(&path, &inside, depth + 1)?;
            } else if meta.is_symlink() {
                if is_toml {
                    self.links.push((prefix.clone(), path));
                } else if path.is_dir() {
                    self.pass_over(path, PassedOverReason::Folder);
                }
            } else if is_toml && meta.is_file() {
                self.take(prefix, path.clone(), path, &meta);
            } else if is_toml {
                self.pass_over(path, PassedOverReason::NoRegularFile);
            }
        }
        Ok(())
    }

    fn links(&mut self) -> Result<(), DiscoverError> {
        for (prefix, path) in std::mem::take(&mut self.links) {
            let Ok(target) = path.canonicalize() else {
                self.pass_over(path, PassedOverReason::Broken);
                continue;
            };
            let meta = fs::symlink_metadata(&target).map_err(|source| unreadable(&path, source))?;
            if meta.is_dir() {
                self.pass_over(path, PassedOverReason::Folder);
            } else if !self.is_inside(&target) {
                self.pass_over(path, PassedOverReason::Outside);
            } else if !meta.is_file() {
                self.pass_over(path, PassedOverReason::NoRegularFile);
            } else {
                self.take(&prefix, path, target, &meta);
            }
        }
        Ok(())
    }

    /// True if the target is below a folder of the list and not hidden in it.
    fn is_inside(&self, target: &Path) -> bool {
        let seen = |rest: &Path| rest.components().all(|part| !part.as_os_str().as_encoded_bytes().starts_with(b"."));
        self.roots.iter().any(|root| target.strip_prefix(root).is_ok_and(seen))
    }

    fn take(&mut self, prefix: &NamePrefix, path: PathBuf, target: PathBuf, meta: &Metadata) {
        if let Some(first) = self.taken.get(&(meta.dev(), meta.ino())) {
            let first = first.clone();
            return self.pass_over(path, PassedOverReason::AlreadyTaken(first));
        }
        let NamePrefix { text: name, is_named } = prefix.with(path.file_stem());
        self.taken.insert((meta.dev(), meta.ino()), path.clone());
        self.found.push(ScenarioFile { name, path, target, is_named });
    }

    fn pass_over(&mut self, path: PathBuf, why: PassedOverReason) {
        self.passed_over.push(PassedOver { path, why });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_break_in_a_name_makes_no_line() {
        let path = PathBuf::from("a\n3 passed\n[.toml");
        let errors = [
            DiscoverError::NotToml(path.clone()),
            DiscoverError::DuplicateName { name: "x".into(), first: path.clone(), second: path },
        ];
        for error in errors {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
