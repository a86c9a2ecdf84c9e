//! A comparison as an HTML page: the answer, what changed in the library, and a section for every case that changed.
use super::Context;
use super::human::{cases, side};
use super::speed::speed_verdict;
use super::work::verdict as work_verdict;
use crate::bench::COUNTS_NOTE;
use crate::bench::comparison::{Change as Timed, Side};
use crate::bench::plot_sides;
use crate::compare::speed::Speed;
use crate::compare::{Change, Comparison, GateVerdict, Meaning, Row, Seen, SideSummary};
use crate::num::DType;
use crate::printable::thousands;
use crate::report::html::failed_operation;
use crate::report::html::page::{Mark, Page, PageCase, Section, Tone, line, lines};
use crate::report::html::section::{buffers, findings};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

/// Bytes of all sections. Changes after that have only their line.
const MAX_SECTIONS: usize = 2 << 20;
/// Rows that are slower or faster in the table of what was timed.
const MAX_TIMED: usize = 200;

/// Writes the comparison as a page.
///
/// # Errors
///
/// Writing fails.
pub fn write_html(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    to.write_all(page(context).html().as_bytes())
}

fn page(context: &Context<'_>) -> Page {
    let Context { comparison, verdict, .. } = context;
    let compared = cases(comparison.compared());
    let mut room = MAX_SECTIONS;
    let mut cases: Vec<PageCase> = Vec::with_capacity(comparison.rows.len());
    let mut rows: Vec<&Row> = comparison.rows.iter().collect();
    rows.sort_by(|a, b| (a.change, &a.case).cmp(&(b.change, &b.case)));
    let mut sources = BTreeMap::new();
    for row in rows {
        let section = section(context, row, &mut room);
        if section.is_some()
            && let Some((case, _)) = context.failures.of_either(&row.case)
        {
            sources.insert(case.file.path.clone(), case.file.text.clone());
        }
        cases.push(PageCase {
            name: row.case.clone(),
            operations: row.operations.iter().filter_map(|word| Some(crate::ops::find(word)?.name)).collect(),
            types: row.types.iter().filter_map(|word| Some(DType::parse(word)?.name())).collect(),
            mark: mark(row),
            results: vec![counts(&row.base), counts(&row.candidate), row.detail.clone()],
            seconds: row.candidate_seconds,
            section,
        });
    }
    let (tone, headline) = match verdict {
        GateVerdict::NothingWorse => (Tone::Good, "Nothing got worse".to_owned()),
        GateVerdict::Worse { changes } => {
            (Tone::Bad, format!("{} worse", plural(*changes, "change is", "changes are")))
        }
        GateVerdict::NoVerdict { .. } => (Tone::Changed, "No verdict".to_owned()),
    };
    Page {
        tone,
        headline: format!("{headline} in {compared}"),
        subtitle: format!("{} -> {}", comparison.base.name, comparison.candidate.name),
        facts: vec![
            ("Base".to_owned(), facts(&comparison.base)),
            ("Candidate".to_owned(), facts(&comparison.candidate)),
        ],
        sides: vec!["base".to_owned(), "candidate".to_owned(), "what changed".to_owned()],
        sections: "Changes",
        cases,
        sources,
        extra: extra(comparison, verdict),
    }
}

fn plural(count: usize, one: &str, many: &str) -> String {
    format!("{} {}", thousands(count as u64), if count == 1 { one } else { many })
}

fn mark(row: &Row) -> Mark {
    if row.accepted.is_some() {
        return Mark { tone: Tone::Good, word: "accepted" };
    }
    let tone = match row.change.meaning() {
        Meaning::Worse => Tone::Bad,
        Meaning::Undecided | Meaning::Changed => Tone::Changed,
        Meaning::Better | Meaning::Same => Tone::Good,
        Meaning::NotCompared => Tone::Idle,
    };
    let tone = if matches!(row.change, Change::StillFails | Change::ComesAndGoes) { Tone::Idle } else { tone };
    Mark { tone, word: row.change.title() }
}

/// How the runs of a side ended.
fn counts(seen: &Seen) -> String {
    let parts = [(seen.passed, "passed"), (seen.failed, "failed"), (seen.skipped, "skipped")];
    let parts: Vec<String> =
        parts.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
    parts.join(", ")
}

fn facts(summary: &SideSummary) -> Vec<(String, String)> {
    let header = &summary.header;
    let mut facts = vec![("library".to_owned(), side(summary))];
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    fact("build id", header.library.build_id.clone().unwrap_or_else(|| "none".to_owned()));
    if !header.options.is_empty() {
        fact("options", header.options.join(" "));
    }
    header.environment.iter().for_each(|(name, value)| fact(name, value.clone()));
    fact("collspec", header.collspec.clone());
    facts
}

/// What is said of a case that changed; `None` for others.
fn section(context: &Context<'_>, row: &Row, room: &mut usize) -> Option<Section> {
    if matches!(row.change.meaning(), Meaning::Same | Meaning::NotCompared) {
        return None;
    }
    let mut body = format!("<p>{}", lines(&row.detail));
    if let Some(reason) = &row.accepted {
        let _ = write!(body, "<p>accepted: {}", lines(reason));
    }
    body.push_str("<table><tr><th><th>runs<th>order of summation<th>reason");
    for (name, seen) in [("base", &row.base), ("candidate", &row.candidate)] {
        let reason = seen.reason.as_deref().map(lines).unwrap_or_default();
        let orders = line(&seen.orders.join("; "));
        let _ = write!(body, "<tr><th>{name}<td>{}<td>{orders}<td>{reason}", line(&counts(seen)));
    }
    body.push_str("</table>");
    for (name, failures) in [("candidate", &context.failures.candidate), ("base", &context.failures.base)] {
        let Some((case, verdict)) = failures.get(&row.case) else { continue };
        let text = findings(case, verdict, &context.again(case, name));
        if text.len() <= *room / 4 {
            let _ = write!(body, "<h3>A failed run of the {name}</h3>{text}");
            if let Some(contents) = &verdict.buffers {
                let text = buffers(contents);
                if text.len() <= *room / 8 {
                    body.push_str(&text);
                }
            }
        }
    }
    if body.len() > *room {
        return None;
    }
    *room -= body.len();
    let failed = context.failures.of_either(&row.case);
    let operation = failed.map_or_else(|| row.operations.join(", "), |(case, verdict)| failed_operation(case, verdict));
    let file = failed.map(|(case, _)| case.file.path.clone());
    Some(Section { operation, reason: row.detail.clone(), body, file })
}

/// What stands above the cases.
fn extra(comparison: &Comparison, verdict: &GateVerdict) -> Vec<(String, String)> {
    let mut extra = Vec::new();
    if let GateVerdict::NoVerdict { reasons } = verdict {
        let items: String = reasons.iter().map(|reason| format!("<li>{}", line(reason))).collect();
        extra.push(("Why there is no verdict".to_owned(), format!("<ul>{items}</ul>")));
    }
    let parts = comparison.missing_parts();
    if !parts.is_empty() {
        let items: String = parts.iter().map(|part| format!("<li>{}", line(part))).collect();
        extra.push(("What could not be compared".to_owned(), format!("<ul>{items}</ul>")));
    }
    let mut table = String::new();
    for (change, count) in comparison.counts() {
        let _ = write!(table, "<tr><td>{}<td>{}", thousands(count as u64), line(change.title()));
    }
    let rows = format!("<table>{table}</table>");
    extra.push((format!("{} compared", cases(comparison.compared())), rows));
    if !comparison.library.is_empty() {
        let meaning = |meaning: Meaning| match meaning {
            Meaning::Worse => "worse",
            Meaning::Undecided => "undecided",
            Meaning::Better => "better",
            Meaning::Changed | Meaning::Same | Meaning::NotCompared => "changed",
        };
        let mut table = String::new();
        for change in &comparison.library {
            let word = if change.accepted.is_some() { "accepted" } else { meaning(change.meaning) };
            let _ = write!(table, "<tr><td>{word}<td>{}", line(&change.text));
        }
        extra.push(("The library itself".to_owned(), format!("<table>{table}</table>")));
    }
    if let Some(speed) = &comparison.speed {
        extra.push((format!("Speed: {}", speed_verdict(&speed.timed.verdict)), speed_section(speed)));
    }
    if let Some(work) = &comparison.work {
        let failed = work.failed.iter().map(|failed| format!("fails on the candidate alone: {failed}"));
        let lines = work.changes().map(str::to_owned).chain(failed).take(MAX_TIMED);
        let text: String = lines.map(|change| format!("<p>{}", line(&change))).collect();
        extra.push((format!("Work: {}", work_verdict(work)), format!("<p>{COUNTS_NOTE}{text}")));
    }
    if let Some(starts) = &comparison.starts {
        let mut text = format!("<p>{}", line(&starts.words()));
        for (name, side) in [("base", &starts.base), ("candidate", &starts.candidate)] {
            for reason in &side.reasons {
                let _ = write!(text, "<p>{name}: {}", lines(reason));
            }
        }
        extra.push((format!("Starts that failed: {}", starts.change().title()), text));
    }
    extra
}

/// What was timed: a picture for each operation, and a table of the rows that differ.
fn speed_section(speed: &Speed) -> String {
    let mut text = String::new();
    let differing = speed.timed.rows.iter().filter(|row| matches!(row.change, Timed::Slower | Timed::Faster));
    let mut table = String::new();
    for row in differing.take(MAX_TIMED) {
        let (class, word) = if row.change == Timed::Slower { ("b", "slower") } else { ("g", "faster") };
        let ratio = row
            .ratio
            .map_or(String::new(), |ratio| format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high));
        let median = |side: &Side| side.summary.map_or(String::new(), |summary| format!("{:.2}", summary.median * 1e6));
        let (base, candidate) = (median(&row.base), median(&row.candidate));
        let row = line(&row.row.to_string());
        let _ = write!(table, "<tr><td class={class}>{word}<td>{row}<td>{base}<td>{candidate}<td>{ratio}");
    }
    if !table.is_empty() {
        let head = "<tr><th><th>row<th>base (us)<th>candidate (us)<th>candidate's time divided by the base's";
        let _ = write!(text, "<div class=wide><table>{head}{table}</table></div>");
    }
    for failed in speed.failed.iter().take(MAX_TIMED) {
        let _ = write!(text, "<p>fails on the candidate alone: {}", line(failed));
    }
    for (picture, left_out) in plot_sides(&speed.timed.rows) {
        // Within a page the name of SVG's language is not needed.
        let picture = picture.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
        let _ = write!(text, "<figure class=plot>{picture}");
        if left_out > 0 {
            let curves = plural(left_out, "curve has", "curves have");
            let _ = write!(text, "<figcaption>{curves} no room in this picture.</figcaption>");
        }
        text.push_str("</figure>");
    }
    text
}
