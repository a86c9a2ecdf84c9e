//! A comparison in Markdown, for a comment on a pull request or the summary of a step: the headline, a short table, and details folded.
use super::Context;
use super::human::{parts, provenance};
use crate::compare::SideSummary;
use crate::formats::html::page::html_text;
use collspec_core::printable::{one_line, thousands};
use collspec_suite::report::Styles;
use std::fmt::Write;
use std::io;

/// The note where something was left out.
const CUT: &str = "\nShortened: there is no room for all of it here. The other reports have the rest.\n";

/// The comparison in at most `room` bytes; nothing if not even the table has room. Texts that were not written here are code, in
/// which no Markdown, no `@name` and no `#number` counts.
///
/// # Errors
///
/// Never: only writers of text can fail.
pub fn text(context: &Context<'_>, room: usize) -> io::Result<String> {
    let comparison = context.comparison;
    // Writing to a `String` cannot fail.
    let mut text = format!("## collspec compare\n\n**{}**\n\n", context.headline());
    let reasons = context.decision.reasons();
    if !reasons.is_empty() {
        let _ = writeln!(text, "<pre>{}</pre>\n", escaped(&reasons.join("\n")));
    }
    if let Some(advice) = context.decision.advice(comparison) {
        let _ = writeln!(text, "Advice: {}.\n", plain(&advice));
    }
    let _ = writeln!(text, "| | base | candidate |\n|---|---|---|");
    let fact = |of: fn(&SideSummary) -> &str| [&comparison.base, &comparison.candidate].map(of).map(cell);
    let facts = [
        ("as asked for", fact(|side| &side.name)),
        ("NCCL", fact(|side| &side.header.library.version)),
        ("file", fact(|side| side.header.library.path.as_deref().unwrap_or_default())),
        ("SHA-256", fact(|side| side.header.library.sha256.as_deref().unwrap_or_default())),
    ];
    for (name, [base, candidate]) in facts.into_iter().filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty())) {
        let _ = writeln!(text, "| {name} | {base} | {candidate} |");
    }
    let _ = writeln!(text, "\nCompared on <code>{}</code>.\n", plain(&provenance(comparison)));
    if !comparison.rows.is_empty() {
        let _ = writeln!(text, "| cases | |\n|--:|---|");
        for (change, count) in comparison.counts() {
            let _ = writeln!(text, "| {} | {change} |", thousands(count as u64));
        }
        text.push('\n');
    }
    if text.len() + CUT.len() > room {
        return Ok(String::new());
    }
    let mut parts = parts(context, Styles::plain())?;
    parts.retain(|part| !part.text.trim().is_empty());
    let mut is_whole = true;
    for (at, part) in parts.iter().enumerate() {
        let left = room - text.len() - CUT.len();
        // A long part leaves room for those after it.
        let share = if at + 1 == parts.len() { left } else { left / 2 };
        let (folded, has_all) = folded(&part.title, &escaped(&part.text), share);
        text.push_str(&folded);
        is_whole &= has_all;
    }
    if !is_whole {
        text.push_str(CUT);
    }
    Ok(text)
}

/// A part that unfolds, cut between words to what has room, and true if that is all of it.
fn folded(title: &str, text: &str, room: usize) -> (String, bool) {
    let frame = |text: &str| {
        format!("<details><summary>{}</summary>\n<pre>\n{text}\n</pre>\n</details>\n", html_text(&one_line(title)))
    };
    let text = text.trim_end();
    let Some(left) = room.checked_sub(frame("").len()) else { return (String::new(), false) };
    if text.len() <= left {
        return (frame(text), true);
    }
    let mut end = left;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    // Characters of HTML such as `&lt;` have no space in them.
    let kept = text[..end].rsplit_once([' ', '\n']).map_or("", |(kept, _)| kept);
    (if kept.is_empty() { String::new() } else { frame(kept) }, false)
}

/// A text of several lines inside `<pre>`. An empty line would end the element for Markdown.
fn escaped(text: &str) -> String {
    let lines: Vec<_> =
        text.lines().map(|line| if line.is_empty() { "&nbsp;".into() } else { html_text(&one_line(line)) }).collect();
    lines.join("\n")
}

/// A text in a cell of a table.
fn cell(text: &str) -> String {
    match text {
        "" => String::new(),
        text => format!("<code>{}</code>", plain(text)),
    }
}

/// A text of one line in which neither HTML nor Markdown counts: inside `<code>` Markdown still would.
fn plain(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '.' | ',' | '/' | '-' | '+' | '(' | ')');
    one_line(text).chars().map(|c| if is_plain(c) { c.to_string() } else { format!("&#{};", u32::from(c)) }).collect()
}
