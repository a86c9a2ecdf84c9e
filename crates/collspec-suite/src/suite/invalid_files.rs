//! Files that cannot be used, and cases that cannot run as written.
use super::kept_plans::KeptPlans;
use collspec_core::judge::{self, Status};
use collspec_core::oracle::Forecast;
use collspec_core::plan::{self, Limits, Plan};
use collspec_core::scenario::{self, Case, Diagnostic, ExpectedOutcome, Rejected, SourceFile, Span};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Seed of the poison, for forecasts that are only checked for existing: the seed makes no difference to that.
pub(super) const SEED: u64 = 0;

/// Number of diagnostics shown for one file.
const SHOWN: usize = 50;
/// Once a file has this many invalid cases, its other cases are not checked: points of a matrix mostly have the same
/// diagnostic.
const MAX_INVALID_CASES: usize = 64;

/// A file with diagnostics, or with a case that cannot run as written.
#[derive(Clone, Debug)]
pub struct InvalidFile {
    /// The name that the file's cases share, without a point.
    pub name: String,
    /// The source, for quoting the lines that diagnostics refer to.
    pub file: Arc<SourceFile>,
    /// What is wrong with the file or its cases.
    pub diagnostics: Vec<Diagnostic>,
}

impl InvalidFile {
    /// A file that was rejected, also with what planning finds in those of its cases whose programs are clear. What touches the place of a
    /// mistake may be a consequence of it, and is left out.
    pub fn new(name: &str, rejected: Rejected, limits: &Limits) -> Self {
        let Rejected { file, diagnostics, meant } = rejected;
        let mut invalid = Self { name: name.to_owned(), file, diagnostics };
        let wrong: Vec<Span> = invalid.diagnostics.iter().map(|diagnostic| diagnostic.span).collect();
        let touches = |a: &Span| wrong.iter().any(|b| a.start < b.end && b.start < a.end);
        for case in meant.into_iter().map(Arc::new).filter(|case| !expects_refusal(case)) {
            let mut found = plan::plan(&case, limits).err().unwrap_or_default();
            found.retain(|d| !touches(&d.span) && !d.related.iter().any(|(span, _)| touches(span)));
            invalid.add(&case, found);
        }
        invalid.diagnostics.sort_by_key(|d| (d.span.start, d.span.end));
        invalid
    }

    /// Adds the diagnostics of a case. One that several points of a matrix share is added once.
    fn add(&mut self, case: &Case, diagnostics: Vec<Diagnostic>) {
        let known = &mut self.diagnostics;
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

    /// The diagnostics as text, each with its line and the suggested fix. Warnings of several cases of the file that have one fix are counted
    /// after the first.
    pub fn render(&self, coloured: bool) -> String {
        // By fix: the case that it is shown for.
        let mut fixes: HashMap<&str, &str> = HashMap::new();
        let (mut shown, mut alike) = (Vec::new(), HashSet::new());
        for diagnostic in &self.diagnostics {
            let of_case = diagnostic.help.as_deref().zip(diagnostic.case.as_deref()).filter(|_| diagnostic.warns);
            match of_case {
                Some((fix, case)) if *fixes.entry(fix).or_insert(case) != case => _ = alike.insert(case),
                _ => shown.push(diagnostic.clone()),
            }
        }
        let text = scenario::render(&self.file, &shown, coloured);
        match alike.len() {
            0 => text,
            1 => format!("{text}\nand the same advice for 1 other case of {}\n", self.file.path),
            more => format!("{text}\nand the same advice for {more} other cases of {}\n", self.file.path),
        }
    }
}

/// The plan of a case; `None` if it is refused as the file expects.
///
/// # Errors
///
/// The diagnostics of a refusal that the file does not expect.
pub fn plan(plans: &KeptPlans, case: &Arc<Case>, limits: &Limits) -> Result<Option<Arc<Plan>>, Vec<Diagnostic>> {
    match plans.plan(case, limits) {
        Ok(plan) => Ok(Some(plan)),
        Err(diagnostics) => unless_expected(case, diagnostics).map(|()| None),
    }
}

/// `Ok` if the file expects this refusal; otherwise its diagnostics, with what the file expects.
///
/// # Errors
///
/// The diagnostics of a refusal that the file does not expect.
pub fn unless_expected(case: &Case, mut diagnostics: Vec<Diagnostic>) -> Result<(), Vec<Diagnostic>> {
    let verdict = judge::judge_refusal(case, &diagnostics);
    if verdict.status == Status::Pass {
        return Ok(());
    }
    // A refusal for a reason other than the file's is reported as a further diagnostic.
    if expects_refusal(case)
        && let Some(finding) = verdict.findings.into_iter().next()
    {
        diagnostics.push(Diagnostic {
            help: finding.advice,
            ..Diagnostic::new(finding.span.unwrap_or(case.span), finding.text)
        });
    }
    Err(diagnostics)
}

/// True if the file says `outcome = "refused"`, alone or with other outcomes.
fn expects_refusal(case: &Case) -> bool {
    case.outcome.as_ref().is_some_and(|outcome| outcome.value.contains(&ExpectedOutcome::Refused))
}

/// The diagnostics of a case that is refused although the file does not expect it, as text.
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

/// Number of invalid cases of each file so far.
#[derive(Debug, Default)]
pub struct InvalidCaseLimit(Mutex<HashMap<String, usize>>);

impl InvalidCaseLimit {
    /// Calls `check` for the case; for a file with too many invalid cases it returns no diagnostics and does not call `check`.
    ///
    /// # Errors
    ///
    /// The diagnostics of an invalid case; empty from the case on that reaches the limit of its file.
    pub fn check<T>(
        &self,
        case: &Arc<Case>,
        check: impl FnOnce(&Arc<Case>) -> Result<T, Vec<Diagnostic>>,
    ) -> Result<T, Vec<Diagnostic>> {
        if self.counts().get(&case.file.path).is_some_and(|count| *count >= MAX_INVALID_CASES) {
            return Err(Vec::new());
        }
        check(case).map_err(|mut diagnostics| {
            *self.counts().entry(case.file.path.clone()).or_default() += 1;
            diagnostics.truncate(SHOWN);
            diagnostics
        })
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds the diagnostics of a case to those of its file.
pub fn add(invalid_files: &mut Vec<InvalidFile>, case: &Case, diagnostics: Vec<Diagnostic>) {
    let at = match invalid_files.iter().position(|invalid| invalid.file.path == case.file.path) {
        Some(at) => at,
        None => {
            let name = case.name.split('[').next().unwrap_or(&case.name).to_owned();
            invalid_files.push(InvalidFile { name, file: case.file.clone(), diagnostics: Vec::new() });
            invalid_files.len() - 1
        }
    };
    invalid_files[at].add(case, diagnostics);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use collspec_core::scenario::Span;

    #[test]
    fn checking_stops_after_too_many_invalid_cases_of_a_file() {
        let limit = InvalidCaseLimit::default();
        let mut calls = 0;
        for index in 0..1000 {
            let case = fixture::case(&format!("a/b[n={index}]"));
            let found: Result<(), _> = limit.check(&case, |_| {
                calls += 1;
                Err(vec![Diagnostic::new(Span { start: 0, end: 1 }, "no"); 1000])
            });
            assert_eq!(found.unwrap_err().len(), if index < MAX_INVALID_CASES { SHOWN } else { 0 });
        }
        assert_eq!(calls, MAX_INVALID_CASES);
        assert_eq!(limit.check(&fixture::case("c"), |_| Ok(5)).ok(), Some(5));
    }

    #[test]
    fn the_same_diagnostic_of_two_points_is_added_once() {
        let mut invalid_files = Vec::new();
        let diagnostic = |message: &str| vec![Diagnostic::new(Span { start: 0, end: 1 }, message)];
        add(&mut invalid_files, &fixture::case("a/b[n=1]"), diagnostic("root 4 is not below 2"));
        add(&mut invalid_files, &fixture::case("a/b[n=2]"), diagnostic("root 4 is not below 2"));
        add(&mut invalid_files, &fixture::case("a/b[n=3]"), diagnostic("root 4 is not below 3"));
        add(&mut invalid_files, &fixture::case("c"), diagnostic("root 4 is not below 2"));
        let counts: Vec<_> =
            invalid_files.iter().map(|invalid| (invalid.name.as_str(), invalid.diagnostics.len())).collect();
        assert_eq!(counts, [("a/b", 2), ("c", 1)]);
    }
}
