//! The scenarios of collspec's own repository, which the program brings along.
pub mod known_bugs;

use crate::output_files::replace;
use collspec_core::fnv::fnv64;
use collspec_core::suggest::nearest;
use collspec_run::library::{NoCacheFolder, cache_folder};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Every file with its text, by path below the folder. A debug build has none: it was made in a checkout, which has the files.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/corpus.rs"));
/// The folder in the checkout.
const CHECKOUT: &str = env!("CORPUS");

/// The reason the corpus cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CorpusError {
    /// The user has no cache folder, to which the corpus is written before it is used.
    #[error(transparent)]
    NoCacheFolder(#[from] NoCacheFolder),
    /// A file cannot be written.
    #[error("cannot write {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error from the system.
        source: io::Error,
    },
    /// The corpus has no such folder or file.
    #[error("the corpus has no `{part}`, but {folders}{}", .near.as_deref().map_or_else(String::new, |near| format!("; did you mean `{near}`?")))]
    NoPart {
        /// What was asked for.
        part: String,
        /// A folder with a similar name.
        near: Option<String>,
        folders: String,
    },
}

/// The folder or file that `part` names in the corpus, or the whole corpus if it is empty. The files are written to the user's cache
/// first if they are not there as they should be.
///
/// # Errors
///
/// The corpus has no such part, or its files cannot be written.
pub fn part(part: &str) -> Result<PathBuf, CorpusError> {
    let corpus = if FILES.is_empty() { PathBuf::from(CHECKOUT) } else { write(FILES, &cache_folder()?)? };
    find(&corpus, part)
}

/// Writes the files that differ, to a folder of this version of the corpus.
fn write(files: &[(&str, &str)], cache: &Path) -> Result<PathBuf, CorpusError> {
    let version = files.iter().fold(0, |hash: u64, (path, text)| {
        hash.rotate_left(1) ^ fnv64(path.as_bytes()) ^ fnv64(text.as_bytes()).rotate_left(32)
    });
    let corpus = cache.join("corpus").join(format!("{version:016x}")).join("scenarios");
    for (name, text) in files {
        let path = corpus.join(name);
        if fs::read(&path).is_ok_and(|there| there == text.as_bytes()) {
            continue;
        }
        // In one step, so that other processes that need the corpus never see a part of a file.
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| replace(&path, text.as_bytes()));
        written.map_err(|source| CorpusError::Write { path, source })?;
    }
    Ok(corpus)
}

fn find(corpus: &Path, part: &str) -> Result<PathBuf, CorpusError> {
    let plain = part.trim_matches('/');
    if plain.is_empty() {
        return Ok(corpus.to_owned());
    }
    let inside = Path::new(plain).components().all(|name| matches!(name, std::path::Component::Normal(_)));
    let mut paths = [plain.to_owned(), format!("{plain}.toml")].into_iter().map(|name| corpus.join(name));
    if let Some(path) = paths.find(|path| inside && path.exists()) {
        return Ok(path);
    }
    let folders = folders(corpus);
    let near = nearest(plain, folders.iter().map(String::as_str)).map(str::to_owned);
    let folders = folders.iter().filter(|name| !name.contains('/')).map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(CorpusError::NoPart { part: part.to_owned(), near, folders })
}

/// The folders of the corpus, and those in them.
fn folders(corpus: &Path) -> BTreeSet<String> {
    let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let deeper = inside(corpus).flat_map(|folder| inside(&folder).collect::<Vec<_>>());
    let folders = inside(corpus).chain(deeper).filter(|path| path.is_dir());
    folders.filter_map(|path| Some(path.strip_prefix(corpus).ok()?.to_str()?.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_folder_or_a_file_and_nothing_outside_the_corpus() {
        let corpus = Path::new(CHECKOUT);
        assert_eq!(find(corpus, "").unwrap(), corpus);
        assert_eq!(find(corpus, "conformance/graphs/").unwrap(), corpus.join("conformance/graphs"));
        assert_eq!(find(corpus, "documented/softmax").unwrap(), corpus.join("documented/softmax.toml"));
        assert!(find(corpus, "..").is_err() && find(corpus, "laws/../..").is_err());
        let error = find(corpus, "regresions").unwrap_err().to_string();
        assert!(error.contains("did you mean `regressions`?") && error.contains("conformance, "), "{error}");
    }

    #[test]
    fn files_that_are_missing_or_changed_are_written_again() {
        let cache = tempfile::tempdir().unwrap();
        let files = [("README.md", "one"), ("laws/a.toml", "two")];
        let corpus = write(&files, cache.path()).unwrap();
        fs::write(corpus.join("laws/a.toml"), "changed").unwrap();
        fs::remove_file(corpus.join("README.md")).unwrap();
        assert_eq!(write(&files, cache.path()).unwrap(), corpus);
        assert_eq!(fs::read_to_string(corpus.join("laws/a.toml")).unwrap(), "two");
        assert_eq!(fs::read_to_string(corpus.join("README.md")).unwrap(), "one");
        assert_ne!(write(&[("README.md", "two"), ("laws/a.toml", "one")], cache.path()).unwrap(), corpus);
    }
}
