//! A comparison for GitHub Actions: at most ten annotations, one for each file and change, and the summary of the step.
use super::Context;
use super::human::{cases, write_human};
use crate::compare::{Change, Meaning, Row};
use crate::formats::github::{MAX_ANNOTATIONS, append_summary, message, property};
use crate::formats::html::page::html_text;
use collspec_core::printable::one_line;
use collspec_suite::report::Styles;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Writes the annotations, and appends the text of the comparison to the step's summary.
///
/// # Errors
///
/// Writing fails.
pub fn write_github(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    let comparison = context.comparison;
    let mut causes: BTreeMap<(Change, &str), Vec<&Row>> = BTreeMap::new();
    let counts = |meaning: Meaning| matches!(meaning, Meaning::Worse | Meaning::Undecided);
    for row in comparison.rows.iter().filter(|row| row.accepted.is_none() && counts(row.change.meaning())) {
        causes.entry((row.change, row.file.as_str())).or_default().push(row);
    }
    let mut annotations: Vec<String> = Vec::new();
    for change in comparison.library.iter().filter(|change| change.accepted.is_none() && counts(change.meaning)) {
        annotations.push(format!("::error title=the library::{}", message(&one_line(&change.text))));
    }
    if let Some(starts) = comparison.starts.as_ref().filter(|starts| counts(starts.change().meaning())) {
        let text = format!("{}: {}", starts.change(), starts.words());
        annotations.push(format!("::error title=starts of the library::{}", message(&one_line(&text))));
    }
    for ((change, file), rows) in causes {
        let first = rows.first().map(|row| format!("{}: {}", row.case, row.detail)).unwrap_or_default();
        let level = if change.meaning() == Meaning::Worse { "error" } else { "warning" };
        let file = property(&one_line(&context.github.relative(file)));
        let title = property(&format!("{change}: {}", cases(rows.len())));
        annotations.push(format!("::{level} file={file},title={title}::{}", message(&one_line(&first))));
    }
    let shown = if annotations.len() > MAX_ANNOTATIONS { MAX_ANNOTATIONS - 1 } else { annotations.len() };
    for annotation in annotations.iter().take(shown) {
        writeln!(to, "{annotation}")?;
    }
    let left = annotations.len() - shown;
    if left > 0 {
        writeln!(to, "::error title=collspec::{left} more changes are in the log and in the summary")?;
    }
    to.flush()?;
    append_summary(&context.github, |room| summary(context, room))
}

/// The comparison in Markdown, cut to the available room.
fn summary(context: &Context<'_>, room: usize) -> io::Result<String> {
    let mut text = Vec::new();
    write_human(&mut text, context.comparison, context.verdict, Styles::plain(), false)?;
    let text = html_text(&String::from_utf8_lossy(&text));
    let frame = |text: &str| format!("## collspec compare\n\n<pre>\n{text}</pre>\n");
    if frame(&text).len() <= room {
        return Ok(frame(&text));
    }
    const CUT: &str = "[cut: GitHub takes 1,024 KiB of a step; the log has all]\n";
    let mut end = room.saturating_sub(frame(CUT).len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = text[..end].rsplit_once('\n').map_or("", |(lines, _)| lines);
    let whole = frame(&format!("{kept}\n{CUT}"));
    Ok(if whole.len() <= room { whole } else { String::new() })
}
