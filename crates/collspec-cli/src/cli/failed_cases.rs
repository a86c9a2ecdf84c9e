//! The cases that failed when they last ran, which `--failed` selects.
//!
//! They are kept in a file of the user's cache, one for each working folder, and never in the folder of the scenarios. Each
//! line is a JSON object with the path of a scenario file, links resolved, and the name of the case in it.
use crate::output_files;
use anyhow::Context;
use collspec_core::files::{self, Refused};
use collspec_core::fnv::fnv64;
use collspec_core::scenario::Case;
use collspec_run::library::cache_folder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of the largest file that is read: some 100,000 cases.
const MAX_BYTES: u64 = 32 << 20;

/// A case of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct FailedCase {
    file: String,
    case: String,
}

/// The last scenario file by its path, and the same with links resolved: neighbouring cases are of one file.
#[derive(Debug, Default)]
struct LastFile {
    path: String,
    resolved: String,
}

impl LastFile {
    fn resolved(&mut self, path: &str) -> &str {
        if self.path != path || self.resolved.is_empty() {
            let file = Path::new(path);
            let resolved = file.canonicalize().unwrap_or_else(|_| file.to_owned());
            *self = Self { path: path.to_owned(), resolved: resolved.display().to_string() };
        }
        &self.resolved
    }
}

impl FailedCase {
    fn of(case: &Case, last: &mut LastFile) -> Self {
        // The folders in the name depend on the paths of the command line. Slashes in values are escaped.
        let name = case.name.rsplit('/').next().unwrap_or(&case.name);
        Self { file: last.resolved(&case.file.path).to_owned(), case: name.to_owned() }
    }
}

/// The cases that failed when they last ran.
#[derive(Debug)]
pub struct FailedCases {
    path: PathBuf,
    cases: BTreeSet<FailedCase>,
    /// The findings of this run: true for a case that has failed.
    news: BTreeMap<FailedCase, bool>,
    last: LastFile,
}

impl FailedCases {
    /// The failed cases of runs started in the working folder of this process.
    ///
    /// # Errors
    ///
    /// The cache or the working folder does not exist, or the file cannot be read.
    pub fn of_working_folder() -> anyhow::Result<Self> {
        let folder = cache_folder()?.join("failed");
        let here = std::env::current_dir()?;
        let path = folder.join(format!("{:016x}.jsonl", fnv64(here.as_os_str().as_bytes())));
        Self::of_file(path.clone()).with_context(|| format!("cannot read {}", path.display()))
    }

    fn of_file(path: PathBuf) -> io::Result<Self> {
        let cases = read(&path)?;
        Ok(Self { path, cases, news: BTreeMap::new(), last: LastFile::default() })
    }

    /// Keeps the cases that failed when they last ran.
    pub fn select(&self, cases: &mut Vec<Arc<Case>>) {
        let mut last = LastFile::default();
        cases.retain(|case| !self.cases.is_empty() && self.cases.contains(&FailedCase::of(case, &mut last)));
    }

    /// The files of the cases that failed when they last ran, as far as they are still there.
    pub fn files(&self) -> Vec<PathBuf> {
        let files: BTreeSet<&str> = self.cases.iter().map(|case| case.file.as_str()).collect();
        files.into_iter().map(PathBuf::from).filter(|file| file.exists()).collect()
    }

    /// Notes a case that has failed, or passed.
    pub fn note(&mut self, case: &Case, failed: bool) {
        let case = FailedCase::of(case, &mut self.last);
        self.news.insert(case, failed);
    }

    /// Adds cases that failed in this run to the file, and removes those that passed. Other runs from the same folder may do so too.
    ///
    /// # Errors
    ///
    /// Reading or writing fails.
    pub fn write(&self) -> io::Result<()> {
        if !self.news.values().any(|failed| *failed) && self.path.symlink_metadata().is_err() {
            return Ok(());
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let _lock = output_files::Lock::of_folder(folder)?;
        let mut cases = read(&self.path)?;
        for (case, failed) in &self.news {
            if *failed {
                cases.insert(case.clone());
            } else {
                cases.remove(case);
            }
        }
        if cases.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let mut text = Vec::new();
        for case in &cases {
            serde_json::to_writer(&mut text, case)?;
            text.push(b'\n');
        }
        output_files::replace(&self.path, &text)
    }
}

/// The cases of a file; empty if it does not exist.
fn read(path: &Path) -> io::Result<BTreeSet<FailedCase>> {
    let bytes = match files::open(path).and_then(|file| files::read(file, MAX_BYTES)) {
        Ok(bytes) => bytes,
        Err(Refused::Io(error)) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(refused) => return Err(refused.into()),
    };
    // A line of another version names no case.
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_suite::suite::fixture;

    #[test]
    fn runs_at_the_same_time_lose_nothing_of_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let open = || FailedCases::of_file(folder.path().join("failed/0.jsonl")).unwrap();
        let case = fixture::case;
        let mut before = open();
        before.note(&case("old"), true);
        before.write().unwrap();
        let (mut first, mut second) = (open(), open());
        first.note(&case("a"), true);
        second.note(&case("b"), true);
        second.note(&case("old"), false);
        first.write().unwrap();
        second.write().unwrap();
        let mut cases = vec![case("a"), case("b"), case("old")];
        open().select(&mut cases);
        assert_eq!(cases.iter().map(|case| case.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
