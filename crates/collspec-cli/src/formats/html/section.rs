//! The section of a page about a failing case: findings with their lines, and buffer contents by rank.
use super::page::lines;
use collspec_core::judge::message::ranks_text;
use collspec_core::judge::{BufferContents, BufferRows, Finding, RowElements, Verdict};
use collspec_core::printable::{one_line, printable, thousands};
use collspec_core::scenario::Case;
use collspec_suite::report::source_place::{excerpt, path_line_column};
use maud::{Markup, html};

/// Findings that are shown of a case.
const MAX_FINDINGS: usize = 8;
/// Bytes of buffers of a case.
const MAX_BUFFERS: usize = 24 << 10;

/// The findings of a case, the place in its file, and the command that runs it again.
pub fn findings(case: &Case, verdict: &Verdict, again: &str) -> Markup {
    let at = verdict.findings.iter().find_map(|finding| finding.span).unwrap_or(case.span);
    let is_first = |reason: &&String| verdict.findings.first().is_some_and(|first| first.text == **reason);
    html! {
        p.faint { (one_line(&path_line_column(&case.file, at))) }
        @if let Some(description) = &case.description { p { (lines(description.trim())) } }
        @if let Some(reason) = verdict.reason.as_ref().filter(|reason| !is_first(reason)) { p { (lines(reason)) } }
        @for found in verdict.findings.iter().take(MAX_FINDINGS) { (finding(case, found)) }
        @if verdict.findings.len() > MAX_FINDINGS {
            p { "and " (verdict.findings.len() - MAX_FINDINGS) " more findings" }
        }
        @for note in &verdict.notes { p { "note: " (lines(note)) } }
        p { "run it again: " code { (one_line(again)) } }
    }
}

fn finding(case: &Case, finding: &Finding) -> Markup {
    html! {
        .finding {
            @if let Some(label) = finding.label() { b { (label) } ": " }
            @match (finding.rank, &finding.buffer, finding.element, &finding.step) {
                (Some(_), Some(buffer), Some(element), Some(step)) if finding.is_of_result() => {
                    (ranks_text(&finding.ranks())) ", " (one_line(buffer)) "[" (element) "] is wrong after " (one_line(step))
                    (wrong_elements(finding))
                },
                _ => (lines(&finding.text)),
            }
            @for consequence in &finding.consequences { p { "follows from this: " (lines(consequence)) } }
            @if let Some(excerpt) = finding.span.and_then(|span| excerpt(&case.file, span)) { pre { (lines(&excerpt)) } }
            @if let Some(advice) = &finding.advice { p { (lines(advice)) } }
        }
    }
}

fn wrong_elements(finding: &Finding) -> Markup {
    html! {
        dl {
            dt { "expected" } dd { (lines(&finding.expected)) }
            dt { "actual" } dd { (lines(&finding.actual)) }
            dt { "wrong" }
            dd {
                (thousands(finding.wrong)) " of " (thousands(finding.of)) " elements"
                @if let Some(pattern) = &finding.pattern { ": " (one_line(pattern)) }
            }
            @if !finding.ranks_with_other_values.is_empty() {
                dt { "also" }
                dd { "the same elements on " (ranks_text(&finding.ranks_with_other_values)) ", with other values" }
            }
            @if finding.rounds > 1 {
                dt { "rounds" } dd { (finding.rounds) ", of which this is the first" }
            }
        }
    }
}

/// The buffers' contents before and after by rank, with the wrong elements marked in place.
pub fn buffers(contents: &BufferContents) -> Markup {
    html! {
        .buffers {
            (rows("Before", &contents.before))
            @match &contents.after {
                Some(after) => (rows("After", after)),
                None => div { h3 { "After" } p { "not known, because the ranks did not come to the end" } },
            }
        }
    }
}

fn rows(heading: &str, rows: &BufferRows) -> Markup {
    let mut shown: Vec<Markup> = Vec::new();
    let mut room = MAX_BUFFERS / 2;
    for row in &rows.rows {
        let elements = elements(&row.elements);
        let Some(left) = room.checked_sub(elements.0.len()) else { break };
        let row = html! { tr { th { "rank " (row.rank) } td { (printable(&row.name)) } td { (elements) } } };
        room = left.saturating_sub(row.0.len() - elements.0.len());
        shown.push(row);
    }
    let more = rows.rows.len() - shown.len() + rows.more;
    html! {
        div {
            h3 { (heading) }
            table {
                @for row in &shown { (row) }
                @if more > 0 { tr { td colspan="3" { "and " (thousands(more as u64)) " more rows" } } }
            }
        }
    }
}

fn elements(elements: &RowElements) -> Markup {
    let (len, elements) = match elements {
        RowElements::NotKnown => return html!("not known"),
        RowElements::Untouched => return html!("untouched"),
        RowElements::Shown { len, elements } => (*len, elements),
    };
    let follows = |at: usize| match at.checked_sub(1).and_then(|before| elements.get(before)) {
        Some(before) => before.index + 1,
        None => 0,
    };
    html! {
        "["
        @for (at, element) in elements.iter().enumerate() {
            @if element.index > 0 { ", " }
            @if element.index != follows(at) { "…, " span.faint { "[" (element.index) "]" } " " }
            @if element.wrong { b { (one_line(&element.text)) } } @else { (one_line(&element.text)) }
        }
        "]"
        @if len > elements.len() as u64 { " " span.faint { (thousands(len)) " elements" } }
    }
}
