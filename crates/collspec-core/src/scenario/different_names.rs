//! Makes the names of scenario files from several paths of a command line distinct.
use super::discover::{DiscoverError, ScenarioFile, is_valid_name};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// The files found under one path of the command line.
pub(super) struct FoundFiles {
    /// The path as typed.
    pub(super) path: PathBuf,
    pub(super) is_folder: bool,
    /// The files, with names that are unique under this path.
    pub(super) files: Vec<ScenarioFile>,
}

/// The files of all paths by name. A file that several paths name in the same way is taken once. If files of different paths have
/// the same names, the last folder of each path is put before its names, and further folders until they differ.
///
/// # Errors
///
/// Two files have equal names even with all their folders.
pub(super) fn with_different_names(arguments: Vec<FoundFiles>) -> Result<Vec<ScenarioFile>, DiscoverError> {
    let arguments = without_repetitions(arguments);
    let folders: Vec<Vec<String>> = arguments.iter().map(folders).collect();
    let mut prefixes = vec![0usize; arguments.len()];
    loop {
        let named = |at: usize, file: &ScenarioFile| {
            let parts = folders.get(at).map_or(&[][..], Vec::as_slice);
            let kept = parts.len().saturating_sub(prefixes.get(at).copied().unwrap_or(0));
            let before: String = parts.iter().skip(kept).map(|part| format!("{part}/")).collect();
            format!("{before}{}", file.name)
        };
        let mut owners: BTreeMap<String, (usize, &Path)> = BTreeMap::new();
        let mut alike: BTreeSet<usize> = BTreeSet::new();
        let mut example = None;
        for (at, argument) in arguments.iter().enumerate() {
            for file in &argument.files {
                let name = named(at, file);
                match owners.get(&name) {
                    Some((other, first)) => {
                        alike.extend([at, *other]);
                        example.get_or_insert_with(|| (name, first.to_path_buf(), file.path.clone()));
                    }
                    None => _ = owners.insert(name, (at, &file.path)),
                }
            }
        }
        let Some((name, first, second)) = example else {
            let renamed = arguments.iter().enumerate().flat_map(|(at, argument)| {
                argument
                    .files
                    .iter()
                    .map(move |file| (at, file))
                    .map(|(at, file)| ScenarioFile { name: named(at, file), ..file.clone() })
            });
            let mut all: Vec<ScenarioFile> = renamed.collect();
            all.sort();
            return Ok(all);
        };
        let mut longer = false;
        for at in alike {
            let most = folders.get(at).map_or(0, Vec::len);
            if let Some(prefix) = prefixes.get_mut(at).filter(|prefix| **prefix < most) {
                *prefix += 1;
                longer = true;
            }
        }
        if !longer {
            return Err(DiscoverError::DuplicateName { name, first, second });
        }
    }
}

/// Removes the files that an earlier path has under the same name.
fn without_repetitions(arguments: Vec<FoundFiles>) -> Vec<FoundFiles> {
    let mut seen: BTreeSet<(String, PathBuf)> = BTreeSet::new();
    let fresh = |file: &ScenarioFile, seen: &mut BTreeSet<(String, PathBuf)>| {
        let target = file.target.canonicalize().unwrap_or_else(|_| file.target.clone());
        seen.insert((file.name.clone(), target))
    };
    arguments
        .into_iter()
        .map(|argument| FoundFiles {
            files: argument.files.into_iter().filter(|file| fresh(file, &mut seen)).collect(),
            ..argument
        })
        .collect()
}

/// The folders that can precede the names of a path's files: for a folder those including itself, for a file those around it.
/// They end at one that cannot be part of a name.
fn folders(argument: &FoundFiles) -> Vec<String> {
    let whole = std::path::absolute(&argument.path).unwrap_or_else(|_| argument.path.clone());
    // `..` and links in the path are resolved, so that the folders are those that contain the file.
    let folder = if argument.is_folder { Some(whole.as_path()) } else { whole.parent() };
    let Some(folder) = folder.and_then(|folder| folder.canonicalize().ok()) else { return Vec::new() };
    let mut parts: Vec<String> = folder
        .components()
        .rev()
        .map_while(|part| match part {
            Component::Normal(part) => part.to_str().filter(|part| is_valid_name(part)).map(str::to_owned),
            _ => None,
        })
        .collect();
    parts.reverse();
    parts
}
