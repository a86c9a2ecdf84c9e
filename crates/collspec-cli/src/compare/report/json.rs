//! A comparison as JSON lines: the headline and what was compared, a line for each change of the library and each case, and the verdict.
use super::Context;
use crate::compare::Change;
use collspec_core::printable;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the comparison.
///
/// # Errors
///
/// Writing fails.
pub fn write_json_lines(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    let Context { comparison, decision, .. } = context;
    let mut line = |value: serde_json::Value| -> io::Result<()> {
        printable::write_json(to, &value)?;
        to.write_all(b"\n")
    };
    let (base, candidate, provenance) = (&comparison.base, &comparison.candidate, &comparison.provenance);
    let headline = context.headline();
    line(json!({ "headline": headline, "provenance": provenance, "base": base, "candidate": candidate }))?;
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
    let summary = json!({
        "headline": headline, "verdict": decision.overall(), "results": decision.results, "speed": decision.speed,
        "stale": comparison.stale, "not_compared": missing, "compared": comparison.compared(), "cases": comparison.rows.len(), "counts": counts,
    });
    line(json!({ "summary": summary }))
}
