//! Paths to scenario files, and the names their cases start with.
use super::names::file_part;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Deepest folder below a root.
const MAX_DEPTH: usize = 64;

/// A scenario file and what its cases' names start with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scenario {
    /// The path under its root without `.toml`, `/` between folders; for a file given by itself, its stem.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Why a list of paths is no list of scenarios.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs)]
pub enum DiscoverError {
    #[error("{path}: {source}", path = .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: neither a file nor a folder", .0.display())]
    Strange(PathBuf),
    #[error("{}: a scenario file's name ends in .toml", .0.display())]
    NotToml(PathBuf),
    #[error("{}: no .toml file in this folder", .0.display())]
    Empty(PathBuf),
    #[error("{}: this link leads back to a folder that contains it", .0.display())]
    Loop(PathBuf),
    #[error("{}: more than {MAX_DEPTH} folders deep", .0.display())]
    Deep(PathBuf),
    #[error("{}: a scenario's path is UTF-8 without control characters, `[`, `]` and `\\`", .0.display())]
    Name(PathBuf),
    #[error("{} and {} both have the name {name}", .first.display(), .second.display())]
    Twice { name: String, first: PathBuf, second: PathBuf },
}

/// All scenario files of files and folders, sorted by name.
pub fn discover(paths: &[PathBuf]) -> Result<Vec<Scenario>, DiscoverError> {
    let mut all = Vec::new();
    for path in paths {
        let meta = fs::metadata(path).map_err(|source| unreadable(path, source))?;
        if meta.is_dir() {
            let before = all.len();
            walk(path, "", &mut vec![canonical(path)?], &mut all)?;
            if all.len() == before {
                return Err(DiscoverError::Empty(path.clone()));
            }
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
    Ok(all)
}

/// The one file that a case of this name belongs to, if `root` has it; no other file is looked at.
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
    let path = root.join(format!("{name}.toml"));
    fs::metadata(&path).ok().filter(fs::Metadata::is_file)?;
    Some(Scenario { name: name.to_owned(), path })
}

fn single(path: &Path) -> Result<Scenario, DiscoverError> {
    if path.extension().is_none_or(|e| e != "toml") {
        return Err(DiscoverError::NotToml(path.to_owned()));
    }
    let stem = path.file_stem().and_then(|s| s.to_str()).filter(|s| good(s));
    match stem {
        Some(name) => Ok(Scenario { name: name.to_owned(), path: path.to_owned() }),
        None => Err(DiscoverError::Name(path.to_owned())),
    }
}

fn good(part: &str) -> bool {
    !part.is_empty() && !part.chars().any(|c| c.is_control() || "[]\\".contains(c))
}

fn unreadable(path: &Path, source: std::io::Error) -> DiscoverError {
    DiscoverError::Unreadable { path: path.to_owned(), source }
}

fn canonical(path: &Path) -> Result<PathBuf, DiscoverError> {
    fs::canonicalize(path).map_err(|source| unreadable(path, source))
}

/// `above` has the real paths of the folders around this one, so that a link to one of them is seen.
fn walk(folder: &Path, prefix: &str, above: &mut Vec<PathBuf>, out: &mut Vec<Scenario>) -> Result<(), DiscoverError> {
    if above.len() > MAX_DEPTH {
        return Err(DiscoverError::Deep(folder.to_owned()));
    }
    for entry in fs::read_dir(folder).map_err(|source| unreadable(folder, source))? {
        let path = entry.map_err(|source| unreadable(folder, source))?.path();
        let bytes = path.file_name().map(|n| n.as_encoded_bytes()).unwrap_or_default();
        if bytes.starts_with(b".") {
            continue;
        }
        let meta = fs::metadata(&path).map_err(|source| unreadable(&path, source))?;
        let is_toml = path.extension().is_some_and(|e| e == "toml");
        if meta.is_dir() {
            let real = canonical(&path)?;
            if above.contains(&real) {
                return Err(DiscoverError::Loop(path));
            }
            let name = path.file_name().and_then(|n| n.to_str()).map(str::to_owned);
            above.push(real);
            walk(&path, &format!("{prefix}{}/", name.unwrap_or_else(|| "\u{fffd}[".into())), above, out)?;
            above.pop();
        } else if meta.is_file() && is_toml {
            let name = path.file_stem().and_then(|s| s.to_str()).map(|s| format!("{prefix}{s}"));
            match name.filter(|n| good(n)) {
                Some(name) => out.push(Scenario { name, path }),
                None => return Err(DiscoverError::Name(path)),
            }
        } else if is_toml {
            return Err(DiscoverError::Strange(path));
        }
    }
    Ok(())
}
