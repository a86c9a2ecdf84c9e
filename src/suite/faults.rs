//! Files that cannot be used as they are, and cases that cannot be run as they are written.
use crate::judge::{self, Status};
use crate::oracle::Forecast;
use crate::plan::{self, Limits, Plan};
use crate::scenario::{self, Case, Diagnostic, SourceFile};
use std::sync::Arc;

/// Whether a forecast exists does not depend on the seed of its poison.
pub(super) const SEED: u64 = 0;

/// A file with what is wrong with it.
#[derive(Clone, Debug)]
pub struct Faulty {
    /// What its cases' names begin with.
    pub name: String,
    /// The file.
    pub file: Arc<SourceFile>,
    /// Its faults.
    pub diagnostics: Vec<Diagnostic>,
}

impl Faulty {
    /// Every fault with its place, the line and the cure.
    pub fn render(&self, coloured: bool) -> String {
        scenario::render(&self.file, &self.diagnostics, coloured)
    }
}

/// Plans a case. `Err` holds what makes it impossible and was not expected; `Ok(None)` is a refusal that the file
/// expects.
pub fn plan(case: &Arc<Case>) -> Result<Option<Plan>, Vec<Diagnostic>> {
    match plan::plan(case, &Limits::default()) {
        Ok(plan) => Ok(Some(plan)),
        Err(diagnostics) if judge::refused(case, &diagnostics).status == Status::Pass => Ok(None),
        Err(diagnostics) => Err(diagnostics),
    }
}

/// The faults that [`plan`] finds.
pub fn unplannable(case: &Arc<Case>) -> Option<Vec<Diagnostic>> {
    plan(case).err()
}

/// What planning or forecasting has against a case, rendered; for a verdict that says no more than "refused".
pub fn refusal(case: &Arc<Case>) -> Option<String> {
    let diagnostics = match plan::plan(case, &Limits::default()) {
        Err(diagnostics) => diagnostics,
        Ok(plan) => Forecast::new(&plan, SEED).err()?,
    };
    Some(scenario::render(&case.file, &diagnostics, false))
}

/// Notes what is wrong with a case at its file; points of one matrix mostly have the same fault, which is told once.
pub fn add(faults: &mut Vec<Faulty>, case: &Case, diagnostics: Vec<Diagnostic>) {
    let at = match faults.iter().position(|faulty| faulty.file.path == case.file.path) {
        Some(at) => at,
        None => {
            let name = case.name.split('[').next().unwrap_or(&case.name).to_owned();
            faults.push(Faulty { name, file: case.file.clone(), diagnostics: Vec::new() });
            faults.len() - 1
        }
    };
    let known = &mut faults[at].diagnostics;
    for mut diagnostic in diagnostics {
        if known.iter().any(|other| other.span == diagnostic.span && other.message == diagnostic.message) {
            continue;
        }
        if case.swept && diagnostic.case.is_none() {
            diagnostic.case = Some(case.name.clone());
        }
        known.push(diagnostic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Span;
    use crate::suite::fixture;

    #[test]
    fn the_same_fault_of_two_points_is_told_once() {
        let mut faults = Vec::new();
        let fault = |message: &str| vec![Diagnostic::new(Span { start: 0, end: 1 }, message)];
        add(&mut faults, &fixture::case("a/b[n=1]"), fault("root 4 is not below 2"));
        add(&mut faults, &fixture::case("a/b[n=2]"), fault("root 4 is not below 2"));
        add(&mut faults, &fixture::case("a/b[n=3]"), fault("root 4 is not below 3"));
        add(&mut faults, &fixture::case("c"), fault("root 4 is not below 2"));
        let told: Vec<_> = faults.iter().map(|faulty| (faulty.name.as_str(), faulty.diagnostics.len())).collect();
        assert_eq!(told, [("a/b", 2), ("c", 1)]);
    }
}
