//! Reads the cases of files and folders.
use super::options::cores;
use super::{CaseSet, Error, Filter, InvalidFile, Reading, forms, parallel};
use collspec_core::scenario::{self, Case, Discovered, Placement};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads everything in `paths`.
pub(super) fn open(paths: &[PathBuf], reading: &Reading) -> Result<CaseSet, Error> {
    let Discovered { scenarios, passed_over } = scenario::search(paths)?;
    Ok(CaseSet { passed_over, ..load(&scenarios, reading) })
}

/// Reads the file that can contain `name`.
pub(super) fn open_exact(root: &Path, name: &str, reading: &Reading) -> Result<CaseSet, Error> {
    let file: Vec<_> = scenario::find_exact(root, name).into_iter().collect();
    let mut suite = load(&file, reading);
    suite.select(&Filter::named([name]));
    Ok(suite)
}

fn load(files: &[scenario::ScenarioFile], reading: &Reading) -> CaseSet {
    let jobs = cores();
    let loaded = parallel::map(files, jobs, |file| {
        let read = scenario::load_found(file, &reading.allow_env, reading.limits.file);
        read.map_err(|rejected| InvalidFile::new(&file.name, rejected, &reading.limits))
    });
    let mut suite = CaseSet { limits: reading.limits, ..CaseSet::default() };
    for loaded in loaded {
        match loaded {
            Ok(cases) => suite.cases.extend(cases.into_iter().map(Arc::new)),
            Err(invalid) => suite.invalid_files.push(invalid),
        }
    }
    forms::add(&mut suite, &reading.forms, jobs);
    order(&mut suite.cases);
    suite
}

/// Sorts cases so that those that can share a worker are adjacent, and workers are not discarded between them.
fn order(cases: &mut [Arc<Case>]) {
    // with `processes`, there is one process for each rank
    let processes = |case: &Case| if case.placement == Placement::Processes { case.total_ranks() } else { 1 };
    let key =
        |case: &Arc<Case>| (case.placement, processes(case), format!("{:?}", environment(case)), case.name.clone());
    cases.sort_by_cached_key(key);
}

fn environment(case: &Case) -> Vec<(&str, &scenario::EnvValue)> {
    case.env.iter().map(|variable| (variable.name.value.as_str(), &variable.value)).collect()
}
