//! Reads the cases of files and folders, and selects some of them.
use super::options::cores;
use super::{CaseSet, Error, InvalidFile, Reading, forms, parallel};
use crate::scenario::{self, Case, Discovered, Placement};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A selection of cases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Part of a name, or a tag; `None` admits all.
    pub text: Option<String>,
    /// True if the text must equal the whole name.
    pub exact: bool,
    /// Without a text, cases tagged `long` are selected too.
    pub long: bool,
}

/// The tag of cases that take long; they run only if a filter selects them.
pub const LONG: &str = "long";

impl Filter {
    /// True if the case is selected.
    pub fn admits(&self, case: &Case) -> bool {
        match &self.text {
            None => self.long || !case.tags.iter().any(|tag| tag == LONG),
            Some(text) if self.exact => case.name == *text,
            Some(text) => case.name.contains(text.as_str()) || case.tags.iter().any(|tag| tag == text),
        }
    }
}

/// Reads everything in `paths`.
pub(super) fn open(paths: &[PathBuf], reading: &Reading) -> Result<CaseSet, Error> {
    let Discovered { scenarios, passed_over } = scenario::search(paths)?;
    Ok(CaseSet { passed_over, ..load(&scenarios, reading) })
}

/// Reads the file in which `name` can be.
pub(super) fn open_exact(root: &Path, name: &str, reading: &Reading) -> Result<CaseSet, Error> {
    let file: Vec<_> = scenario::find_exact(root, name).into_iter().collect();
    let mut suite = load(&file, reading);
    suite.select(&Filter { text: Some(name.to_owned()), exact: true, long: true });
    Ok(suite)
}

fn load(files: &[scenario::ScenarioFile], reading: &Reading) -> CaseSet {
    let jobs = cores();
    let loaded = parallel::map(files, jobs, |file| scenario::load_found(file, &reading.allow_env, reading.limits.file));
    let mut suite = CaseSet { limits: reading.limits, ..CaseSet::default() };
    for (file, loaded) in files.iter().zip(loaded) {
        match loaded {
            Ok(cases) => suite.cases.extend(cases.into_iter().map(Arc::new)),
            Err(rejected) => suite.invalid_files.push(InvalidFile {
                name: file.name.clone(),
                file: rejected.file,
                diagnostics: rejected.diagnostics,
            }),
        }
    }
    forms::add(&mut suite, &reading.forms, jobs);
    order(&mut suite.cases);
    suite
}

/// Cases that can share a worker stand together, so that workers are not thrown away between them.
fn order(cases: &mut [Arc<Case>]) {
    // of processes there is one for each rank
    let processes = |case: &Case| if case.placement == Placement::Processes { case.total_ranks() } else { 1 };
    let key =
        |case: &Arc<Case>| (case.placement, processes(case), format!("{:?}", environment(case)), case.name.clone());
    cases.sort_by_cached_key(key);
}

fn environment(case: &Case) -> Vec<(&str, &scenario::EnvValue)> {
    case.env.iter().map(|variable| (variable.name.value.as_str(), &variable.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;

    fn admits(text: &str, exact: bool, name: &str) -> bool {
        Filter { text: Some(text.into()), exact, long: false }.admits(&fixture::case(name))
    }

    #[test]
    fn a_filter_is_part_of_a_name_or_all_of_it() {
        assert!(Filter::default().admits(&fixture::case("a")));
        assert!(admits("n=1", false, "a[n=16]"));
        assert!(!admits("n=1", true, "a[n=16]"));
        assert!(admits("a[n=16]", true, "a[n=16]"));
        assert!(!admits("b", false, "a"));
    }

    #[test]
    fn what_takes_long_is_meant_only_if_it_is_selected() {
        let mut case = (*fixture::case("a")).clone();
        case.tags = vec![LONG.into()];
        assert!(!Filter::default().admits(&case));
        assert!(Filter { long: true, ..Filter::default() }.admits(&case));
        for text in ["a", LONG] {
            assert!(Filter { text: Some(text.into()), ..Filter::default() }.admits(&case), "{text}");
        }
        assert!(admits("a", true, "a"));
    }

    #[test]
    fn a_tag_is_matched_whole() {
        let mut case = (*fixture::case("a")).clone();
        case.tags = vec!["slow".into()];
        let text = |text: &str| Filter { text: Some(text.into()), ..Filter::default() };
        assert!(text("slow").admits(&case));
        assert!(!text("slo").admits(&case));
        assert!(!Filter { exact: true, ..text("slow") }.admits(&case));
    }
}
