//! The work of each file: the sum over its cases.
use collspec_core::scenario::Case;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The cases and work of each file, by the file's name.
pub(super) struct FileWork<'a>(BTreeMap<&'a str, File<'a>>);

/// The cases of a file and their work.
struct File<'a> {
    first: &'a Arc<Case>,
    cases: usize,
    work: AtomicU64,
}

impl<'a> FileWork<'a> {
    /// The files of these cases, with no work yet.
    pub fn of(cases: &'a [Arc<Case>]) -> Self {
        let mut files = BTreeMap::new();
        for case in cases {
            let new = || File { first: case, cases: 0, work: AtomicU64::new(0) };
            files.entry(case.file.path.as_str()).or_insert_with(new).cases += 1;
        }
        Self(files)
    }

    /// Adds the work of a case to that of its file.
    pub fn add(&self, case: &Case, work: u64) {
        if let Some(file) = self.0.get(case.file.path.as_str()) {
            let _ = file.work.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |sum| Some(sum.saturating_add(work)));
        }
    }

    /// The work of the file of a case so far.
    pub fn total(&self, case: &Case) -> u64 {
        self.0.get(case.file.path.as_str()).map_or(0, |file| file.work.load(Ordering::Relaxed))
    }

    /// The files with more work than this: the first case, and the number of cases.
    pub fn over(&self, limit: u64) -> Vec<(Arc<Case>, usize)> {
        let over = self.0.values().filter(|file| file.work.load(Ordering::Relaxed) > limit);
        over.map(|file| (file.first.clone(), file.cases)).collect()
    }
}
