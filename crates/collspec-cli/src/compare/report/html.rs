//! A comparison as an HTML page: the answer, the changes in the library, and a section for every case that changed.
use super::Context;
use super::human::{cases, side};
use super::speed::speed_verdict;
use super::work::verdict as work_verdict;
use crate::bench::COUNTS_NOTE;
use crate::bench::comparison::{Change as Timed, Side};
use crate::bench::plot_sides;
use crate::compare::library_changes::LibraryChange;
use crate::compare::speed::Speed;
use crate::compare::{Change, Comparison, GateVerdict, Meaning, Row, Seen, SideSummary};
use crate::formats::html::failed_operation;
use crate::formats::html::page::{Mark, Page, PageCase, Section, Tone, lines};
use crate::formats::html::section::{buffers, findings};
use collspec_core::num::DType;
use collspec_core::printable::{one_line, thousands};
use maud::{Markup, PreEscaped, html};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Limit on the bytes of all sections. Further changes have only their line.
const MAX_SECTIONS: usize = 2 << 20;
/// Number of slower or faster rows in the table of timing results.
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
            operations: row.operations.iter().filter_map(|word| Some(collspec_core::ops::find(word)?.name)).collect(),
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

/// The outcomes of a side's runs, with their counts.
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

/// The section about a case that changed; `None` for other cases.
fn section(context: &Context<'_>, row: &Row, room: &mut usize) -> Option<Section> {
    if matches!(row.change.meaning(), Meaning::Same | Meaning::NotCompared) {
        return None;
    }
    let sides = [("base", &row.base), ("candidate", &row.candidate)];
    let failures = [("candidate", &context.failures.candidate), ("base", &context.failures.base)];
    let failed = failures.into_iter().filter_map(|(name, failures)| {
        let (case, verdict) = failures.get(&row.case)?;
        let text = findings(case, verdict, &context.again(case, name));
        if text.0.len() > *room / 4 {
            return None;
        }
        let contents = verdict.buffers.as_ref().map(buffers).filter(|contents| contents.0.len() <= *room / 8);
        Some(html! { h3 { "A failed run of the " (name) } (text) @if let Some(contents) = contents { (contents) } })
    });
    let body = html! {
        p { (lines(&row.detail)) }
        @if let Some(reason) = &row.accepted { p { "accepted: " (lines(reason)) } }
        table {
            tr { th {} th { "runs" } th { "order of summation" } th { "reason" } }
            @for (name, seen) in sides {
                tr {
                    th { (name) }
                    td { (counts(seen)) }
                    td { (one_line(&seen.orders.join("; "))) }
                    td { @if let Some(reason) = &seen.reason { (lines(reason)) } }
                }
            }
        }
        @for run in failed { (run) }
    };
    if body.0.len() > *room {
        return None;
    }
    *room -= body.0.len();
    let failed = context.failures.of_either(&row.case);
    let operation = failed.map_or_else(|| row.operations.join(", "), |(case, verdict)| failed_operation(case, verdict));
    let file = failed.map(|(case, _)| case.file.path.clone());
    Some(Section { operation, reason: row.detail.clone(), body, file })
}

/// The sections above the cases.
fn extra(comparison: &Comparison, verdict: &GateVerdict) -> Vec<(String, Markup)> {
    let list = |items: &[String]| html! { ul { @for item in items { li { (one_line(item)) } } } };
    let mut extra = Vec::new();
    if let GateVerdict::NoVerdict { reasons } = verdict {
        extra.push(("Why there is no verdict".to_owned(), list(reasons)));
    }
    let parts = comparison.missing_parts();
    if !parts.is_empty() {
        extra.push(("What could not be compared".to_owned(), list(&parts)));
    }
    let table = html! {
        table {
            @for (change, count) in comparison.counts() {
                tr { td { (thousands(count as u64)) } td { (one_line(change.title())) } }
            }
        }
    };
    extra.push((format!("{} compared", cases(comparison.compared())), table));
    if !comparison.library.is_empty() {
        extra.push(("The library itself".to_owned(), library_section(&comparison.library)));
    }
    if let Some(speed) = &comparison.speed {
        extra.push((format!("Speed: {}", speed_verdict(&speed.timed.verdict)), speed_section(speed)));
    }
    if let Some(work) = &comparison.work {
        let failed = work.failed.iter().map(|failed| format!("fails on the candidate alone: {failed}"));
        let accepted = work.accepted.iter().map(|reason| format!("rows that fail are accepted: {reason}"));
        let lines = work.changes().map(str::to_owned).chain(accepted).chain(failed).take(MAX_TIMED);
        let text = html! { p { (COUNTS_NOTE) } @for change in lines { p { (one_line(&change)) } } };
        extra.push((format!("Work: {}", work_verdict(work)), text));
    }
    if let Some(starts) = &comparison.starts {
        let text = html! {
            p { (one_line(&starts.words())) }
            @for (name, side) in [("base", &starts.base), ("candidate", &starts.candidate)] {
                @for reason in &side.reasons { p { (name) ": " (lines(reason)) } }
            }
        };
        extra.push((format!("Starts that failed: {}", starts.change().title()), text));
    }
    extra
}

fn library_section(changes: &[LibraryChange]) -> Markup {
    let word = |change: &LibraryChange| match change.meaning {
        _ if change.accepted.is_some() => "accepted",
        Meaning::Worse => "worse",
        Meaning::Undecided => "undecided",
        Meaning::Better => "better",
        Meaning::Changed | Meaning::Same | Meaning::NotCompared => "changed",
    };
    html! {
        table {
            @for change in changes { tr { td { (word(change)) } td { (one_line(&change.text)) } } }
        }
    }
}

/// The timing results: a picture for each operation, and a table of the rows that differ.
fn speed_section(speed: &Speed) -> Markup {
    let differing = speed.timed.rows.iter().filter_map(|row| Some((row, timed_class(&row.change)?)));
    let mut differing = differing.take(MAX_TIMED).peekable();
    let median = |side: &Side| side.summary.map_or(String::new(), |summary| format!("{:.2}", summary.median * 1e6));
    html! {
        @if let Some(reason) = &speed.accepted { p { "accepted: " (one_line(reason)) } }
        @if differing.peek().is_some() {
            .wide {
                table {
                    tr {
                        th {} th { "row" } th { "base (us)" } th { "candidate (us)" }
                        th { "candidate's time divided by the base's" }
                    }
                    @for (row, (class, word)) in differing {
                        tr {
                            td class=(class) { (word) }
                            td { (one_line(&row.row.to_string())) }
                            td { (median(&row.base)) }
                            td { (median(&row.candidate)) }
                            td {
                                @if let Some(ratio) = row.ratio {
                                    (format!("{:.3} ({:.3} to {:.3})", ratio.estimate, ratio.low, ratio.high))
                                }
                            }
                        }
                    }
                }
            }
        }
        @for failed in speed.failed.iter().take(MAX_TIMED) {
            p { "fails on the candidate alone: " (one_line(failed)) }
        }
        @for (picture, left_out) in plot_sides(&speed.timed.rows) {
            figure.plot {
                // Within a page the name of SVG's language is not needed.
                (PreEscaped(picture.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)))
                @if left_out > 0 {
                    figcaption { (plural(left_out, "curve has", "curves have")) " no room in this picture." }
                }
            }
        }
    }
}

/// The CSS class and the word for a row that differs.
fn timed_class(change: &Timed) -> Option<(&'static str, &'static str)> {
    match change {
        Timed::Slower => Some(("b", "slower")),
        Timed::Faster => Some(("g", "faster")),
        _ => None,
    }
}
