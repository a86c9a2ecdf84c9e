//! The cases that failed when they last ran, which `--failed` selects.
//!
//! They are kept in a file of the user's cache, one for each working folder, and never in the folder of the scenarios. Each
//! line is a JSON object with the path of a scenario file, links resolved, and the name of the case in it.
use crate::fnv::fnv64;
use crate::library::cache_folder;
use crate::scenario::Case;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    last: LastFile,
}

impl FailedCases {
    /// Those that were run from the working folder of this process.
    ///
    /// # Errors
    ///
    /// There is no cache or no working folder, or the file cannot be read.
    pub fn of_working_folder() -> anyhow::Result<Self> {
        let folder = cache_folder()?.join("failed");
        let here = std::env::current_dir()?;
        Ok(Self::read(folder.join(format!("{:016x}.jsonl", fnv64(here.as_os_str().as_bytes()))))?)
    }

    fn read(path: PathBuf) -> io::Result<Self> {
        let text = match fs::read(&path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        // A line of another version names no case.
        let cases = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Ok(Self { path, cases, last: LastFile::default() })
    }

    /// Keeps the cases that failed when they last ran.
    pub fn select(&self, cases: &mut Vec<Arc<Case>>) {
        let mut last = LastFile::default();
        cases.retain(|case| !self.cases.is_empty() && self.cases.contains(&FailedCase::of(case, &mut last)));
    }

    /// Adds a case that has failed, and takes out one that has passed.
    pub fn note(&mut self, case: &Case, failed: bool) {
        let case = FailedCase::of(case, &mut self.last);
        if failed {
            self.cases.insert(case);
        } else {
            self.cases.remove(&case);
        }
    }

    /// Writes the file, or removes it if no case has failed.
    ///
    /// # Errors
    ///
    /// Writing fails.
    pub fn write(&self) -> io::Result<()> {
        if self.cases.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        // Another run must not see half a file.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        for case in &self.cases {
            writeln!(file, "{}", serde_json::to_string(case)?)?;
        }
        file.persist(&self.path)?;
        Ok(())
    }
}
