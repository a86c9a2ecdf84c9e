//! For tests: the files beside which scenarios were imported before, and whether these can be planned.
use super::accepted::cases;
use collspec_core::plan::{self, Limits};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of the test data.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/import").join(name)
}

/// The files of a folder of the test data, by name.
pub fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(data(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The text is that of the file, which COLLSPEC_BLESS=1 writes again.
pub fn assert_golden(name: &str, text: &str) {
    let path = data(name);
    if std::env::var_os("COLLSPEC_BLESS").is_some() {
        fs::write(&path, text).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap_or_default(), text, "{name}: COLLSPEC_BLESS=1 writes it again");
}

/// The diagnostics of planning every case; empty if all can run.
pub fn refusals(text: &str) -> String {
    let cases = cases(text).unwrap_or_else(|rejected| panic!("{rejected}\n{text}"));
    let refused = cases.into_iter().filter_map(|case| plan::plan(&Arc::new(case), &Limits::default()).err());
    refused.map(|refused| format!("{refused:?}\n")).collect()
}
