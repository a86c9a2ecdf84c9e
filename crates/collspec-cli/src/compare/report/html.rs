//! A comparison as an HTML page: the answer, the changes in the library, and a section for every case that changed.
use super::Context;
use super::human::{provenance, side};
use super::table::Table;
use super::ways::by_way;
use crate::bench::{COUNTS_NOTE, plot_sides};
use crate::compare::change::LibraryChange;
use crate::compare::comparison::ChangedResult;
use crate::compare::coverage::coverage;
use crate::compare::speed::Speed;
use crate::compare::words::{cases, counted};
use crate::compare::{Change, GateVerdict, Meaning, Row, Seen, SideSummary};
use crate::corpus::known_bugs::Difference;
use crate::formats::html::failed_operation;
use crate::formats::html::page::{Mark, Page, PageCase, Section, Tone, lines};
use crate::formats::html::section::{buffers, findings};
use collspec_core::printable::{one_line, thousands};
use maud::{Markup, PreEscaped, html};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

/// Limit on the bytes of all sections. Further changes have only their line.
const MAX_SECTIONS: usize = 2 << 20;

/// Writes the comparison as a page.
///
/// # Errors
///
/// Writing fails.
pub fn write_html(to: &mut dyn Write, context: &Context<'_>) -> io::Result<()> {
    to.write_all(page(context).html().as_bytes())
}

fn page(context: &Context<'_>) -> Page {
    let comparison = context.comparison;
    let compared = cases(comparison.compared());
    let mut room = MAX_SECTIONS;
    let mut cases: Vec<PageCase> = Vec::with_capacity(comparison.rows.len());
    let mut rows: Vec<&Row> = comparison.rows.iter().collect();
    // The worst first; what is accepted is not among it.
    let rank = |row: &&Row| (row.accepted.is_some(), row.change, row.case.clone());
    rows.sort_by_cached_key(rank);
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
            calls: row.calls(),
            marked: marked(context, row),
            mark: mark(row),
            results: vec![counts(&row.base), counts(&row.candidate), what_changed(row)],
            seconds: row.candidate_seconds,
            section,
        });
    }
    let tone = match context.decision.overall() {
        GateVerdict::NothingWorse => Tone::Good,
        GateVerdict::Worse { .. } => Tone::Bad,
        GateVerdict::NoVerdict { .. } => Tone::Changed,
    };
    let [before, after] = other_sections(context);
    let sides = format!("{} -> {}", comparison.base.name, comparison.candidate.name);
    let mut subtitle = format!("{sides}: {compared} compared, {}", provenance(comparison));
    if let Some(advice) = context.decision.advice(comparison) {
        subtitle = format!("{advice}. {subtitle}");
    }
    Page {
        tone,
        headline: context.headline(),
        subtitle,
        facts: vec![
            ("Base".to_owned(), facts(&comparison.base)),
            ("Candidate".to_owned(), facts(&comparison.candidate)),
        ],
        sides: vec!["base".to_owned(), "candidate".to_owned(), "what changed".to_owned()],
        sections: "Changes",
        cases,
        sources,
        before,
        after,
    }
}

/// The operations' words as the table of operations has them.
fn known<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'static str> {
    words.filter_map(|word| Some(collspec_core::ops::find(word)?.name)).collect()
}

/// The operations to which the change applies, where that is known.
fn marked(context: &Context<'_>, row: &Row) -> Vec<&'static str> {
    let failed = context.failures.of_either(&row.case).map(|(case, verdict)| failed_operation(case, verdict));
    let mut marked = known(failed.as_deref().into_iter().chain(row.changed_operations()));
    marked.retain(|operation| row.operations.iter().any(|own| own == operation));
    marked
}

/// The description of the change, with the results whose order of summation changed.
fn what_changed(row: &Row) -> String {
    let places: Vec<String> = row.changed_results.iter().map(ChangedResult::place).collect();
    if places.is_empty() { row.detail.clone() } else { format!("{}: {}", places.join(", "), row.detail) }
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
    fact("file", header.library.path.clone().unwrap_or_else(|| "none".to_owned()));
    fact("SHA-256", header.library.sha256.clone().unwrap_or_else(|| "none".to_owned()));
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
        @if row.changed_results.is_empty() { p { (lines(&row.detail)) } }
        @for result in &row.changed_results {
            p { code { (one_line(&result.buffer)) } " of " (one_line(&result.step)) ": " (lines(&result.change)) }
        }
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
    let operation = match (failed, row.changed_operations()) {
        (Some((case, verdict)), _) => failed_operation(case, verdict),
        (None, changed) if changed.is_empty() => row.operations.join(", "),
        (None, changed) => changed.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>().join(", "),
    };
    let file = failed.map(|(case, _)| case.file.path.clone());
    Some(Section { operation, reason: what_changed(row), body, file })
}

/// The sections before and after those of the cases: what is worse, or leaves the verdict open, comes before.
fn other_sections(context: &Context<'_>) -> [Vec<(String, Markup)>; 2] {
    let comparison = context.comparison;
    let is_worse = |half: &GateVerdict| matches!(half, GateVerdict::Worse { .. });
    // Its pictures take much room, so that cases that got worse come before them.
    let speed_is_worse = context.decision.speed.as_ref().is_some_and(is_worse) && !is_worse(&context.decision.results);
    let list = |items: &[String]| html! { ul { @for item in items { li { (one_line(item)) } } } };
    let [mut before, mut after] = [Vec::new(), Vec::new()];
    let mut add =
        |worse: bool, heading: String, text: Markup| if worse { &mut before } else { &mut after }.push((heading, text));
    let reasons = context.decision.reasons();
    if !reasons.is_empty() {
        add(true, "What must be settled".to_owned(), list(&reasons));
    }
    if let Some(speed) = &comparison.speed {
        add(speed_is_worse, format!("Speed: {}", speed.in_words()), speed_section(speed));
    }
    if let Some(work) = &comparison.work {
        let failed = work.failed.iter().map(|failed| format!("fails on the candidate alone: {failed}"));
        let accepted = work.accepted.iter().map(|reason| format!("rows that fail are accepted: {reason}"));
        let lines = accepted.chain(failed);
        let text = html! {
            p { (COUNTS_NOTE) }
            @for change in lines { p { (one_line(&change)) } }
            (Table::of_work(work).html())
        };
        add(speed_is_worse, format!("Work: {}", work.in_words()), text);
    }
    if let Some(starts) = &comparison.starts {
        let text = html! {
            p { (one_line(&starts.words())) }
            @for (name, side) in [("base", &starts.base), ("candidate", &starts.candidate)] {
                @for reason in &side.reasons { p { (name) ": " (lines(reason)) } }
            }
        };
        let worse = starts.accepted.is_none() && starts.change().meaning() == Meaning::Worse;
        add(worse, format!("Starts that failed: {}", starts.change().title()), text);
    }
    if !comparison.known_bugs.is_empty() {
        let bugs: Vec<String> = comparison.known_bugs.iter().map(Difference::words).collect();
        add(false, "Known bugs of NCCL (docs/real-nccl.md)".to_owned(), list(&bugs));
    }
    if !comparison.library.is_empty() {
        let worse = |change: &LibraryChange| change.meaning == Meaning::Worse && change.accepted.is_none();
        let any = comparison.library.iter().any(worse);
        add(any, "The library itself".to_owned(), library_section(&comparison.library));
    }
    let failing: Vec<&Row> = comparison.rows.iter().filter(|row| row.change == Change::StillFails).collect();
    if !failing.is_empty() {
        let ways = by_way(&failing);
        let text = html! {
            table {
                tr { th { "cases" } th { "reason" } th { "for example" } }
                @for rows in &ways {
                    @if let Some(first) = rows.first() {
                        tr { td { (thousands(rows.len() as u64)) } td { (one_line(&first.detail)) } td { code { (one_line(&first.case)) } } }
                    }
                }
            }
        };
        add(false, format!("Fail on both sides: {}", cases(failing.len())), text);
    }
    let parts = comparison.missing_parts();
    if !parts.is_empty() {
        add(false, "What could not be compared".to_owned(), list(&parts));
    }
    let covered = coverage(&comparison.rows);
    if !covered.is_empty() {
        let text = html! {
            table {
                @for covered in &covered { tr { td { (one_line(covered.operation)) } td { (one_line(&covered.words())) } } }
            }
            @for description in &comparison.imported { p { "imported: " (one_line(description)) } }
        };
        add(false, "What the compared cases use".to_owned(), text);
    }
    let table = html! {
        table {
            @for (change, count) in comparison.counts() {
                tr { td { (thousands(count as u64)) } td { (one_line(change.title())) } }
            }
        }
    };
    add(false, format!("{} compared", cases(comparison.compared())), table);
    [before, after]
}

fn library_section(changes: &[LibraryChange]) -> Markup {
    let word = |change: &LibraryChange| match change.meaning {
        _ if change.accepted.is_some() => "accepted",
        Meaning::Worse => "worse",
        Meaning::Undecided => "undecided",
        Meaning::Better => "better",
        Meaning::Changed | Meaning::Same | Meaning::NotCompared => "changed",
    };
    let mut changes: Vec<&LibraryChange> = changes.iter().collect();
    changes.sort_by_key(|change| (change.accepted.is_some(), change.meaning));
    html! {
        table {
            @for change in changes {
                tr {
                    td class=[(word(change) == "worse").then_some("b")] { (word(change)) }
                    td {
                        (one_line(&change.text))
                        @if !change.names.is_empty() {
                            details { summary { "all names" } (one_line(&change.names.join(", "))) }
                        }
                    }
                }
            }
        }
    }
}

/// The timing results: a table of all rows, and a picture for each operation.
fn speed_section(speed: &Speed) -> Markup {
    html! {
        @if let Some(reason) = &speed.accepted { p { "accepted: " (one_line(reason)) } }
        @for below in &speed.below { p { "below its limit: " (one_line(&below.words())) } }
        @for failed in &speed.failed {
            p { "fails on the candidate alone: " (one_line(&failed.to_string())) }
        }
        (Table::of_speed(speed).html())
        @for (picture, left_out) in plot_sides(&speed.timed.rows) {
            figure.plot {
                // Within a page the name of SVG's language is not needed.
                (PreEscaped(picture.replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1)))
                @if left_out > 0 {
                    figcaption { (counted(left_out, "curve has", "curves have")) " no room in this picture." }
                }
            }
        }
    }
}
