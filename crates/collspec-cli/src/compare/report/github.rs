//! A comparison for GitHub Actions: the headline as a notice, at most ten annotations, one for each file and change, and the summary of
//! the step.
use super::Context;
use super::markdown;
use crate::compare::words::cases;
use crate::compare::{Change, GateVerdict, Meaning, Row};
use crate::formats::github::{MAX_ANNOTATIONS, append_summary, message, property};
use collspec_core::printable::one_line;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the annotations, and appends the comparison in Markdown to the step's summary.
///
/// # Errors
///
/// Writing fails.
pub fn write_github(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    let comparison = context.comparison;
    let mut causes: BTreeMap<(Change, &str), Vec<&Row>> = BTreeMap::new();
    let counts = |meaning: Meaning| meaning.counts(context.decision.bits);
    for row in comparison.rows.iter().filter(|row| row.accepted.is_none() && counts(row.change.meaning())) {
        causes.entry((row.change, row.file.as_str())).or_default().push(row);
    }
    writeln!(to, "::notice title=collspec compare::{}", message(&context.headline()))?;
    let mut annotations: Vec<String> = Vec::new();
    for change in comparison.library.iter().filter(|change| change.accepted.is_none() && counts(change.meaning)) {
        annotations.push(format!("::error title=the library::{}", message(&one_line(&change.text))));
    }
    let starts = comparison.starts.as_ref().filter(|starts| starts.accepted.is_none());
    if let Some(starts) = starts.filter(|starts| counts(starts.change().meaning())) {
        let text = format!("{}: {}", starts.change(), starts.words());
        annotations.push(format!("::error title=starts of the library::{}", message(&one_line(&text))));
    }
    for ((change, file), rows) in causes {
        let first = rows.first().map(|row| format!("{}: {}", row.case, row.detail)).unwrap_or_default();
        let level = if change.meaning() == Meaning::Undecided { "warning" } else { "error" };
        let file = property(&one_line(&context.github.relative(file)));
        let title = property(&format!("{change}: {}", cases(rows.len())));
        annotations.push(format!("::{level} file={file},title={title}::{}", message(&one_line(&first))));
    }
    if let Some(GateVerdict::Worse { .. }) = &context.decision.speed {
        annotations.extend(
            comparison.worse_rows().iter().map(|row| format!("::error title=speed::{}", message(&one_line(row)))),
        );
    }
    let reasons = context.decision.reasons();
    annotations
        .extend(reasons.iter().map(|reason| format!("::error title=collspec compare::{}", message(&one_line(reason)))));
    let shown = if annotations.len() > MAX_ANNOTATIONS { MAX_ANNOTATIONS - 1 } else { annotations.len() };
    for annotation in annotations.iter().take(shown) {
        writeln!(to, "{annotation}")?;
    }
    let left = annotations.len() - shown;
    if left > 0 {
        writeln!(to, "::error title=collspec::{left} more changes are in the log and in the summary")?;
    }
    to.flush()?;
    append_summary(&context.github, |room| markdown::text(context, room))
}
