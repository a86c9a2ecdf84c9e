//! Paths to scenario files, and the names their cases start with.
use super::names::file_part;
use crate::printable::{is_printable, printable};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Deepest folder below a root.
const MAX_DEPTH: usize = 64;

/// A scenario file and what its cases' names start with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scenario {
    /// The path under its root without `.toml`, `/` between folders; for a file given by itself, its stem.
    pub name: String,
    /// The path that messages name.
    pub path: PathBuf,
    /// The file that is opened: `path`, or what a link leads to.
    pub target: PathBuf,
}

/// Scenario files, and entries that look like one but were not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Discovered {
    /// Sorted by name.
    pub scenarios: Vec<Scenario>,
    /// In the order in which they were found.
    pub passed_over: Vec<PassedOver>,
}

/// An entry of a folder that was not followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is passed over: {why}", shown(path))]
pub struct PassedOver {
    /// The entry.
    pub path: PathBuf,
    /// The reason.
    pub why: WhyNot,
}

/// Why an entry of a folder is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// A link to a folder; such links can form circles, or lead to one file in many ways.
    Folder,
    /// A link to a file outside the folders that were named, or in a hidden one.
    Outside,
    /// A device, a pipe or a socket; reading it could block or never end.
    NoFile,
    /// A link whose target does not exist.
    Broken,
    /// A file that was already taken under this path.
    Again(PathBuf),
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder => f.write_str("it is a link to a folder"),
            Self::Outside => {
                f.write_str("it is a link to a file outside the folders that were named, or to a hidden one")
            }
            Self::NoFile => f.write_str("it is not a regular file"),
            Self::Broken => f.write_str("it is a link that leads nowhere"),
            Self::Again(first) => write!(f, "it is the same file as {}", shown(first)),
        }
    }
}

/// Why a list of paths is no list of scenarios.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DiscoverError {
    #[error("{path}: {source}", path = shown(.path))]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: neither a file nor a folder", shown(.0))]
    Strange(PathBuf),
    #[error("{}: a scenario file's name ends in .toml", shown(.0))]
    NotToml(PathBuf),
    #[error("{}: no .toml file in this folder{}", shown(path), among(passed_over))]
    Empty { path: PathBuf, passed_over: Vec<PassedOver> },
    #[error("{}: more than {MAX_DEPTH} folders deep", shown(.0))]
    Deep(PathBuf),
    #[error("{}: a scenario's path is UTF-8 without control characters, `[`, `]` and `\\`", shown(.0))]
    Name(PathBuf),
    #[error("{} and {} both have the name {name}", shown(.first), shown(.second))]
    Twice { name: String, first: PathBuf, second: PathBuf },
}

/// A path on one line: its name may hold line breaks.
fn shown(path: &Path) -> String {
    printable(&path.display().to_string()).into_owned()
}

fn among(passed_over: &[PassedOver]) -> String {
    match passed_over {
        [] => String::new(),
        [one] => format!("; {one}"),
        [first, more @ ..] => format!("; {first}, and {} more are", more.len()),
    }
}

/// All scenario files of files and folders. A path that is named may be a link; in a folder, links are followed to regular
/// files below the folders that were named, and every file is taken once.
pub fn search(paths: &[PathBuf]) -> Result<Discovered, DiscoverError> {
    let mut all = Vec::new();
    let mut passed_over = Vec::new();
    let mut roots = Vec::new();
    for path in paths {
        if fs::metadata(path).map_err(|source| unreadable(path, source))?.is_dir() {
            roots.push(canonical(path)?);
        }
    }
    for path in paths {
        let meta = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if meta.is_dir() {
            let mut walk = FolderWalk { roots: &roots, ..FolderWalk::default() };
            walk.folder(path, "", 1)?;
            walk.links()?;
            if walk.found.is_empty() {
                return Err(DiscoverError::Empty { path: path.clone(), passed_over: walk.passed_over });
            }
            all.extend(walk.found);
            passed_over.extend(walk.passed_over);
        } else if meta.is_file() {
            all.push(single(path)?);
        } else {
            return Err(DiscoverError::Strange(path.clone()));
        }
    }
    all.sort();
    all.dedup();
    let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
    for s in &all {
        if let Some(first) = seen.insert(&s.name, &s.path) {
            let (first, second) = (first.to_owned(), s.path.clone());
            return Err(DiscoverError::Twice { name: s.name.clone(), first, second });
        }
    }
    Ok(Discovered { scenarios: all, passed_over })
}

/// The files that [`search`] finds, without the entries that it passes over.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<Scenario>, DiscoverError> {
    search(paths).map(|found| found.scenarios)
}

/// The file that a case of this name belongs to, if `root` has it. The whole folder is searched only if the file is a link.
pub fn find_exact(root: &Path, name: &str) -> Option<Scenario> {
    let name = file_part(name);
    let meta = fs::metadata(root).ok()?;
    if meta.is_file() {
        return single(root).ok().filter(|s| s.name == name);
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
        // If a file has several names, the one it is taken under depends on the whole folder.
        return discover(&[root.to_owned()]).ok()?.into_iter().find(|s| s.name == name);
    }
    meta.is_file().then(|| Scenario { name: name.to_owned(), target: path.clone(), path })
}

fn single(path: &Path) -> Result<Scenario, DiscoverError> {
    if path.extension().is_none_or(|e| e != "toml") {
        return Err(DiscoverError::NotToml(path.to_owned()));
    }
    let stem = path.file_stem().and_then(|s| s.to_str()).filter(|s| good(s));
    match stem {
        Some(name) => {
            let target = if path.is_symlink() { canonical(path)? } else { path.to_owned() };
            Ok(Scenario { name: name.to_owned(), path: path.to_owned(), target })
        }
        None => Err(DiscoverError::Name(path.to_owned())),
    }
}

fn good(part: &str) -> bool {
    !part.is_empty() && !part.chars().any(|c| !is_printable(c) || "[]\\".contains(c))
}

fn unreadable(path: &Path, source: std::io::Error) -> DiscoverError {
    DiscoverError::Unreadable { path: path.to_owned(), source }
}

fn canonical(path: &Path) -> Result<PathBuf, DiscoverError> {
    fs::canonicalize(path).map_err(|source| unreadable(path, source))
}

/// One folder with all that is below it.
#[derive(Default)]
struct FolderWalk<'a> {
    /// Every folder that was named, with links resolved.
    roots: &'a [PathBuf],
    found: Vec<Scenario>,
    /// By device and inode.
    taken: HashMap<(u64, u64), PathBuf>,
    /// Links named like scenarios; they are followed after all regular files have been taken.
    links: Vec<(String, PathBuf)>,
    passed_over: Vec<PassedOver>,
}

impl FolderWalk<'_> {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), DiscoverError> {
        if depth > MAX_DEPTH {
            return Err(DiscoverError::Deep(folder.to_owned()));
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
                let name = path.file_name().and_then(|n| n.to_str()).unwrap_or("\u{fffd}[");
                self.folder(&path, &format!("{prefix}{name}/"), depth + 1)?;
            } else if meta.is_symlink() {
                if is_toml {
                    self.links.push((prefix.to_owned(), path));
                } else if path.is_dir() {
                    self.pass_over(path, WhyNot::Folder);
                }
            } else if is_toml && meta.is_file() {
                self.take(prefix, path.clone(), path, &meta)?;
            } else if is_toml {
                self.pass_over(path, WhyNot::NoFile);
            }
        }
        Ok(())
    }

    fn links(&mut self) -> Result<(), DiscoverError> {
        for (prefix, path) in std::mem::take(&mut self.links) {
            let Ok(target) = path.canonicalize() else {
                self.pass_over(path, WhyNot::Broken);
                continue;
            };
            let meta = fs::symlink_metadata(&target).map_err(|source| unreadable(&path, source))?;
            if meta.is_dir() {
                self.pass_over(path, WhyNot::Folder);
            } else if !self.is_inside(&target) {
                self.pass_over(path, WhyNot::Outside);
            } else if !meta.is_file() {
                self.pass_over(path, WhyNot::NoFile);
            } else {
                self.take(&prefix, path, target, &meta)?;
            }
        }
        Ok(())
    }

    /// True if the target is below a folder that was named, and not hidden there.
    fn is_inside(&self, target: &Path) -> bool {
        let seen = |rest: &Path| rest.components().all(|part| !part.as_os_str().as_encoded_bytes().starts_with(b"."));
        self.roots.iter().any(|root| target.strip_prefix(root).is_ok_and(seen))
    }

    fn take(&mut self, prefix: &str, path: PathBuf, target: PathBuf, meta: &Metadata) -> Result<(), DiscoverError> {
        if let Some(first) = self.taken.get(&(meta.dev(), meta.ino())) {
            let first = first.clone();
            self.pass_over(path, WhyNot::Again(first));
            return Ok(());
        }
        let name = path.file_stem().and_then(|s| s.to_str()).map(|s| format!("{prefix}{s}"));
        let Some(name) = name.filter(|n| good(n)) else { return Err(DiscoverError::Name(path)) };
        self.taken.insert((meta.dev(), meta.ino()), path.clone());
        self.found.push(Scenario { name, path, target });
        Ok(())
    }

    fn pass_over(&mut self, path: PathBuf, why: WhyNot) {
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
            DiscoverError::Name(path.clone()),
            DiscoverError::NotToml(path.clone()),
            DiscoverError::Twice { name: "x".into(), first: path.clone(), second: path },
        ];
        for error in errors {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
