//! A comparison as JSON lines: what was compared, a line for each change of the library and each case, and the verdict.
use crate::compare::{Change, Comparison, GateVerdict};
use collspec_core::printable;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the comparison.
///
/// # Errors
///
/// Writing fails.
pub fn write_json_lines(to: &mut dyn Write, comparison: &Comparison, verdict: &GateVerdict) -> io::Result<()> {
    let mut line = |value: serde_json::Value| -> io::Result<()> {
        printable::write_json(to, &value)?;
        to.write_all(b"\n")
    };
    line(json!({ "base": comparison.base, "candidate": comparison.candidate }))?;
    for change in &comparison.library {
        line(json!({ "library": change }))?;
    }
    if let Some(starts) = &comparison.starts {
        line(json!({ "starts": starts, "change": starts.change() }))?;
    }
    if let Some(speed) = &comparison.speed {
        line(json!({ "speed": speed }))?;
    }
    if let Some(work) = &comparison.work {
        line(json!({ "work": work }))?;
    }
    for row in &comparison.rows {
        line(json!(row))?;
    }
    let counts: BTreeMap<String, usize> =
        comparison.counts().into_iter().map(|(change, count): (Change, usize)| (change.word(), count)).collect();
    let missing = comparison.missing_parts();
    let summary = json!({ "verdict": verdict, "not_compared": missing, "compared": comparison.compared(), "cases": comparison.rows.len(), "counts": counts });
    line(json!({ "summary": summary }))
}
