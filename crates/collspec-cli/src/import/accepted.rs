//! Whether an imported text is a scenario, and what planning says about it.
use super::Error;
use collspec_core::plan::{self, Limits, Plan};
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

/// Why `collspec check` refuses a scenario.
pub fn refusal(text: &str) -> Option<String> {
    let cases = cases(text).unwrap_or_default();
    let mut refused = cases.into_iter().filter_map(|case| plan::plan(&Arc::new(case), &Limits::default()).err());
    Some(refused.next()?.first()?.message.clone())
}

/// The plan of a text with one case; else what is wrong with it.
pub fn planned(text: &str) -> Result<Plan, Vec<Diagnostic>> {
    let mut cases = cases(text).map_err(|_| Vec::new())?;
    let case = cases.pop().ok_or_else(Vec::new)?;
    plan::plan(&Arc::new(case), &Limits::default())
}
