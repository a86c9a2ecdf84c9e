//! Whether an imported text is a scenario, and what planning says about it.
use super::Error;
use collspec_core::oracle::Forecast;
use collspec_core::plan::{self, Limits, Plan, cost};
use collspec_core::scenario::{self, Case, Diagnostic, MAX_BYTES, Rejected, SourceFile};
use std::sync::Arc;

pub(super) fn cases(text: &str) -> Result<Vec<Case>, Rejected> {
    let file = Arc::new(SourceFile { path: "the imported scenario".to_owned(), text: text.into() });
    scenario::parse(&file, "imported")
}

/// Returns the text if it is a scenario.
///
/// # Errors
///
/// The text is longer than a scenario file may be, or is not one. `instead` says what to do about the length.
pub fn accepted(text: String, instead: &str) -> Result<String, Error> {
    if text.len() as u64 > MAX_BYTES {
        let bytes = text.len();
        return Err(Error::Input(format!(
            "the scenario would have {bytes} bytes, and a file may have {MAX_BYTES}: {instead}"
        )));
    }
    match cases(&text) {
        Ok(_) => Ok(text),
        Err(rejected) => Err(Error::Input(format!(
            "what was imported is not a scenario that collspec accepts, {instead}:\n{rejected}"
        ))),
    }
}

/// What planning says against a scenario.
#[derive(Debug)]
pub struct Refusal {
    pub why: String,
    /// True if what it costs is refused.
    pub is_cost: bool,
    /// True if something else is refused.
    pub is_wrong: bool,
}

/// Why `collspec check` refuses a scenario.
pub fn refusal(text: &str) -> Option<Refusal> {
    first_refused(cases(text).unwrap_or_default()).map(|(_, refusal)| refusal)
}

/// The first of a file's cases that is refused, or with which all before it cost more than a file may.
pub fn first_refused(cases: Vec<Case>) -> Option<(Arc<Case>, Refusal)> {
    let (limits, count) = (Limits::default(), cases.len());
    let mut work = 0u64;
    for case in cases.into_iter().map(Arc::new) {
        match plan::plan(&case, &limits) {
            Ok(plan) => work = work.saturating_add(plan.cost.work),
            Err(diagnostics) => {
                let any_cost = Limits { memory: u64::MAX, work: u64::MAX, ..limits };
                let wrong = plan::plan(&case, &any_cost).err().unwrap_or_default();
                let cost = diagnostics.iter().find(|diagnostic| !wrong.contains(diagnostic));
                let why = cost.or(diagnostics.first())?.message.clone();
                let refusal = Refusal { why, is_cost: cost.is_some(), is_wrong: !wrong.is_empty() };
                return Some((case, refusal));
            }
        }
        if work > limits.file_work {
            let why = cost::too_much_work_of_file(case.span, count, &limits).message;
            return Some((case, Refusal { why, is_cost: true, is_wrong: false }));
        }
    }
    None
}

/// The plan of a text with one case; else what is wrong with it.
pub fn planned(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    let mut cases = cases(text).map_err(|_| Vec::new())?;
    let case = cases.pop().ok_or_else(Vec::new)?;
    plan::plan(&Arc::new(case), &Limits::default())
}

/// Whether the results of every case can be judged.
///
/// # Errors
///
/// What planning, or computing the results, says against the first that cannot.
pub fn judged(text: &str) -> Result<(), Vec<Diagnostic>> {
    cases(text).map_err(|rejected| rejected.diagnostics)?.into_iter().try_for_each(|case| {
        let plan = plan::plan(&Arc::new(case), &Limits::default())?;
        Forecast::new(&plan, 0).map(|_| ())
    })
}
