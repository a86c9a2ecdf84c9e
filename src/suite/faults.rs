//! Files that cannot be used as they are, and cases that cannot be run as they are written.
use crate::judge::{self, Status};
use crate::oracle::Forecast;
use crate::plan::{self, Limits, Plan};
use crate::scenario::{self, Case, Diagnostic, Expected, SourceFile};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether a forecast exists does not depend on the seed of its poison.
pub(super) const SEED: u64 = 0;

/// Faults shown of one file.
const SHOWN: usize = 50;
/// Faulty cases of one file after which the others are not looked at: a sweep mostly has one fault many times.
const ENOUGH: usize = 64;

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
pub fn plan(case: &Arc<Case>, limits: &Limits) -> Result<Option<Plan>, Vec<Diagnostic>> {
    match plan::plan(case, limits) {
        Ok(plan) => Ok(Some(plan)),
        Err(diagnostics) => unless_expected(case, diagnostics).map(|()| None),
    }
}

/// `Ok` if the file expects this refusal; else its diagnostics, and what the file expects instead of them.
pub(super) fn unless_expected(case: &Case, mut diagnostics: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    let verdict = judge::judge_refusal(case, &diagnostics);
    if verdict.status == Status::Pass {
        return Ok(());
    }
    // A refusal for another reason than the file's is a fault of its own.
    if expects_refusal(case)
        && let Some(words) = verdict.reason
    {
        diagnostics.push(Diagnostic::new(case.reason.as_ref().map_or(case.span, |reason| reason.span), words));
    }
    Err(diagnostics)
}

/// Does the file say `outcome = "refused"`, alone or among others?
fn expects_refusal(case: &Case) -> bool {
    case.outcome.as_ref().is_some_and(|outcome| outcome.v.contains(&Expected::Refused))
}

/// What planning or forecasting has against a case that is to run, rendered with the cures, which a verdict has not.
pub fn refusal(case: &Arc<Case>, limits: &Limits) -> Option<String> {
    if expects_refusal(case) {
        return None;
    }
    let diagnostics = match plan::plan(case, limits) {
        Err(diagnostics) => diagnostics,
        Ok(plan) => Forecast::new(&plan, SEED).err()?,
    };
    Some(scenario::render(&case.file, &diagnostics, false))
}

/// How many faulty cases each file has had so far, for what looks at many cases.
#[derive(Debug, Default)]
pub struct Patience(Mutex<HashMap<String, usize>>);

impl Patience {
    /// What `look` says of the case; without looking, nothing against it once its file has had enough faulty ones.
    pub fn look<T>(
        &self,
        case: &Arc<Case>,
        look: impl FnOnce(&Arc<Case>) -> Result<T, Vec<Diagnostic>>,
    ) -> Result<T, Vec<Diagnostic>> {
        if self.counts().get(&case.file.path).is_some_and(|count| *count >= ENOUGH) {
            return Err(Vec::new());
        }
        look(case).map_err(|mut diagnostics| {
            *self.counts().entry(case.file.path.clone()).or_default() += 1;
            diagnostics.truncate(SHOWN);
            diagnostics
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        if known.len() >= SHOWN {
            return;
        }
        if known.iter().any(|other| other.span == diagnostic.span && other.message == diagnostic.message) {
            continue;
        }
        if (case.swept || case.form.is_some()) && diagnostic.case.is_none() {
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
    fn a_sweep_of_faults_is_not_looked_at_to_its_end() {
        let patience = Patience::default();
        let mut looked = 0;
        for index in 0..1000 {
            let case = fixture::case(&format!("a/b[n={index}]"));
            let found: Result<(), _> = patience.look(&case, |_| {
                looked += 1;
                Err(vec![Diagnostic::new(Span { start: 0, end: 1 }, "no"); 1000])
            });
            assert_eq!(found.unwrap_err().len(), if index < ENOUGH { SHOWN } else { 0 });
        }
        assert_eq!(looked, ENOUGH);
        assert_eq!(patience.look(&fixture::case("c"), |_| Ok(5)).ok(), Some(5));
    }

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
