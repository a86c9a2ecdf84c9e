//! The text of a failed case, for the command and the test harness.
use super::{Styles, source_place};
use collspec_core::judge::message::ranks_text;
use collspec_core::judge::{BufferContents, Finding, Status, Verdict};
use collspec_core::printable::{printable, printable_lines};
use collspec_core::scenario::{Case, Span};
use std::collections::HashSet;
use std::fmt::Write;

/// Number of findings that are shown for a case.
const MAX_FINDINGS: usize = 8;

/// The text of a failed case: several lines without a final line break; with `buffers` also their contents, if known.
pub fn failure_text(case: &Case, verdict: &Verdict, again: &str, styles: &Styles, buffers: bool) -> String {
    let mut text = String::new();
    let (fail, strong) = (styles.fail, styles.strong);
    let at = verdict.findings.iter().find_map(|finding| finding.span).unwrap_or(case.span);
    let word = if verdict.status == Status::Error { "NOT RUN" } else { "FAIL" };
    push_line(&mut text, format_args!("{fail}{word}{fail:#} {strong}{}{strong:#}", printable(&case.name)));
    push_body(&mut text, case, verdict, at, styles);
    if let Some(buffers) = verdict.buffers.as_ref().filter(|_| buffers) {
        push_buffers(&mut text, buffers);
    }
    let faint = styles.faint;
    let _ = write!(text, "  {faint}run it again:{faint:#} {again}");
    text
}

/// The text without the case's name and colours, for a place that shows the name already.
pub fn failure_message(case: &Case, verdict: &Verdict, again: &str) -> String {
    let mut text = String::new();
    let at = verdict.findings.iter().find_map(|finding| finding.span).unwrap_or(case.span);
    push_body(&mut text, case, verdict, at, &Styles::plain());
    let _ = write!(text, "  run it again: {again}");
    text
}

fn push_body(text: &mut String, case: &Case, verdict: &Verdict, at: Span, styles: &Styles) {
    push_line(text, format_args!("  at {}", printable(&source_place::path_line_column(&case.file, at))));
    if let Some(reason) = &verdict.reason {
        // A finding's own lines say the same with more detail; other reasons would be lost.
        if verdict.findings.first().is_none_or(|first| first.text != *reason && first.in_one_line() != *reason) {
            push_indented(text, "  ", reason);
        }
    }
    let mut shown = Shown::default();
    for finding in verdict.findings.iter().take(MAX_FINDINGS) {
        push_finding(text, case, finding, &mut shown, styles);
    }
    if let Some(more) = verdict.findings.len().checked_sub(MAX_FINDINGS).filter(|more| *more > 0) {
        push_line(text, format_args!("  and {more} more findings"));
    }
    for note in &verdict.notes {
        push_indented(text, "  note: ", note);
    }
}

/// Writes the contents of the buffers, a line for each rank and buffer.
pub(super) fn push_buffers(text: &mut String, buffers: &BufferContents) {
    for line in printable_lines(&buffers.to_string()).lines() {
        push_line(text, format_args!("  {line}"));
    }
}

/// The parts of a case that have been shown and are not repeated.
#[derive(Default)]
struct Shown<'a> {
    /// Places whose line has been quoted.
    spans: HashSet<Span>,
    advice: HashSet<&'a str>,
}

fn push_finding<'a>(text: &mut String, case: &Case, finding: &'a Finding, shown: &mut Shown<'a>, styles: &Styles) {
    let faint = styles.faint;
    let label = finding.label().map(|label| format!("{faint}{label}:{faint:#} ")).unwrap_or_default();
    let label = format!("  {label}");
    match (finding.rank, &finding.buffer, finding.element, &finding.step) {
        (Some(_), Some(buffer), Some(element), Some(step)) if finding.is_of_result() => {
            let (buffer, step, ranks) = (printable(buffer), printable(step), finding.ranks());
            push_line(text, format_args!("{label}{}, {buffer}[{element}] is wrong after {step}", ranks_text(&ranks)));
            push_indented(text, "    expected ", &finding.expected);
            push_indented(text, "    actual   ", &finding.actual);
            let pattern =
                finding.pattern.as_ref().map(|pattern| format!(": {}", printable(pattern))).unwrap_or_default();
            push_line(text, format_args!("    {} of {} elements wrong{pattern}", finding.wrong, finding.of));
            if !finding.ranks_with_other_values.is_empty() {
                let others = ranks_text(&finding.ranks_with_other_values);
                push_line(text, format_args!("    the same elements are wrong on {others}, with other values"));
            }
            if finding.rounds > 1 {
                push_line(text, format_args!("    wrong in {} rounds, of which this is the first", finding.rounds));
            }
        }
        // Any other finding is complete in its text.
        _ => push_indented(text, &label, &finding.text),
    }
    for consequence in &finding.consequences {
        push_indented(text, "    follows from this: ", consequence);
    }
    // Many findings point at the same step; its line is worth showing once.
    if let Some(span) = finding.span
        && shown.spans.insert(span)
        && let Some(excerpt) = source_place::excerpt(&case.file, span)
    {
        push_indented(text, "    ", &excerpt);
    }
    if let Some(advice) = finding.advice.as_deref().filter(|advice| shown.advice.insert(advice)) {
        push_indented(text, "    ", advice);
    }
}

fn push_line(text: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a `String` cannot fail.
    let _ = text.write_fmt(args);
    text.push('\n');
}

/// Writes `words` after `prefix`, which is this program's own text and may have colours. Further lines of `words` are indented
/// two columns more than the prefix.
fn push_indented(text: &mut String, prefix: &str, words: &str) {
    let indent = prefix.len() - prefix.trim_start().len();
    for (index, part) in printable_lines(words).lines().enumerate() {
        match index {
            0 => push_line(text, format_args!("{prefix}{part}")),
            _ if prefix.trim().is_empty() => push_line(text, format_args!("{prefix}{part}")),
            _ => push_line(text, format_args!("{}{part}", " ".repeat(indent + 2))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::fixture;
    use collspec_core::judge::{Lane, Subject};

    fn finding() -> Finding {
        Finding {
            lane: Lane::Exact,
            subject: Subject::Lane,
            rank: Some(1),
            other_ranks: Vec::new(),
            ranks_with_other_values: Vec::new(),
            buffer: Some("out".into()),
            element: Some(3),
            step: Some("step 1: all_reduce".into()),
            span: Some(Span { start: 15, end: 32 }),
            expected: "6".into(),
            actual: "4".into(),
            wrong: 2,
            wrong_elements: 0,
            of: 8,
            pattern: Some("every 4th element".into()),
            text: "rank 1, out[3]: expected 6, got 4".into(),
            advice: None,
            follows: false,
            consequences: Vec::new(),
            rounds: 1,
        }
    }

    #[test]
    fn a_wrong_element_is_told_with_everything_known_of_it() {
        let case = fixture::case("sums/ring");
        let mut verdict = fixture::verdict("sums/ring", Status::Fail);
        verdict.reason = Some("rank 1, out[3]: expected 6, got 4".into());
        verdict.findings = vec![finding()];
        let told = failure_text(&case, &verdict, "collspec run scenarios/sums/ring.toml", &Styles::plain(), false);
        assert_eq!(
            told,
            "FAIL sums/ring\n\
             \x20 at scenarios/sums/ring.toml:2:1\n\
             \x20 exact: rank 1, out[3] is wrong after step 1: all_reduce\n\
             \x20   expected 6\n\
             \x20   actual   4\n\
             \x20   2 of 8 elements wrong: every 4th element\n\
             \x20   2 | op = \"all_reduce\"\n\
             \x20     | ^^^^^^^^^^^^^^^^^\n\
             \x20 run it again: collspec run scenarios/sums/ring.toml"
        );
    }

    #[test]
    fn the_same_step_is_quoted_once_and_long_lists_are_cut() {
        let case = fixture::case("sums/ring");
        let mut verdict = fixture::verdict("sums/ring", Status::Fail);
        verdict.reason = Some("the ranks differ".into());
        verdict.findings = vec![finding(); 11];
        let told = failure_message(&case, &verdict, "again");
        assert_eq!(told.matches("2 | op").count(), 1);
        assert!(told.contains("  the ranks differ\n"));
        assert!(told.contains("  and 3 more findings\n"), "{told}");
    }

    #[test]
    fn a_failure_without_findings_still_says_why() {
        let case = fixture::case("a");
        let mut verdict = fixture::verdict("a", Status::Fail);
        verdict.reason = Some("hang: rank 0 waits\nfor rank 1".into());
        verdict.notes = vec!["only after b".into()];
        assert_eq!(
            failure_message(&case, &verdict, "again"),
            "  at scenarios/a.toml:1:14\n  hang: rank 0 waits\n  for rank 1\n  note: only after b\n  run it again: again"
        );
    }
}
