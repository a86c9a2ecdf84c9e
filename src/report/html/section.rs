//! What a page says of a failing case: findings with their lines, and what the buffers held by rank.
use super::page::{html_text, line, lines};
use crate::judge::message::ranks_text;
use crate::judge::{BufferContents, BufferRows, Finding, RowElements, Verdict};
use crate::printable::{printable, thousands};
use crate::report::source_place::{excerpt, path_line_column};
use crate::scenario::Case;
use std::fmt::Write;

/// Findings that are shown of a case.
const MAX_FINDINGS: usize = 8;
/// Bytes of buffers of a case.
const MAX_BUFFERS: usize = 24 << 10;

/// The findings of a case, the place in its file, and the command that runs it again.
pub fn findings(case: &Case, verdict: &Verdict, again: &str) -> String {
    let mut out = String::new();
    let at = verdict.findings.iter().find_map(|finding| finding.span).unwrap_or(case.span);
    // Writing to a `String` cannot fail.
    let _ = write!(out, "<p class=faint>{}", line(&path_line_column(&case.file, at)));
    if let Some(description) = &case.description {
        let _ = write!(out, "<p>{}", lines(description.trim()));
    }
    if let Some(reason) = &verdict.reason
        && verdict.findings.first().is_none_or(|first| first.text != *reason)
    {
        let _ = write!(out, "<p>{}", lines(reason));
    }
    for finding in verdict.findings.iter().take(MAX_FINDINGS) {
        push_finding(&mut out, case, finding);
    }
    if verdict.findings.len() > MAX_FINDINGS {
        let _ = write!(out, "<p>and {} more findings", verdict.findings.len() - MAX_FINDINGS);
    }
    for note in &verdict.notes {
        let _ = write!(out, "<p>note: {}", lines(note));
    }
    let _ = write!(out, "<p>run it again: <code>{}</code>", line(again));
    out
}

fn push_finding(out: &mut String, case: &Case, finding: &Finding) {
    out.push_str("<div class=finding>");
    let label = finding.label().map(|label| format!("<b>{label}</b>: ")).unwrap_or_default();
    match (finding.rank, &finding.buffer, finding.element, &finding.step) {
        (Some(_), Some(buffer), Some(element), Some(step)) if finding.is_of_result() => {
            let ranks = html_text(&ranks_text(&finding.ranks()));
            let (buffer, step) = (line(buffer), line(step));
            let _ = write!(out, "{label}{ranks}, {buffer}[{element}] is wrong after {step}<dl>");
            let _ = write!(out, "<dt>expected<dd>{}<dt>actual<dd>{}", lines(&finding.expected), lines(&finding.actual));
            let pattern = finding.pattern.as_ref().map(|pattern| format!(": {}", line(pattern))).unwrap_or_default();
            let (wrong, of) = (thousands(finding.wrong), thousands(finding.of));
            let _ = write!(out, "<dt>wrong<dd>{wrong} of {of} elements{pattern}");
            if !finding.ranks_with_other_values.is_empty() {
                let others = html_text(&ranks_text(&finding.ranks_with_other_values));
                let _ = write!(out, "<dt>also<dd>the same elements on {others}, with other values");
            }
            if finding.rounds > 1 {
                let _ = write!(out, "<dt>rounds<dd>{}, of which this is the first", finding.rounds);
            }
            out.push_str("</dl>");
        }
        _ => _ = write!(out, "{label}{}", lines(&finding.text)),
    }
    for consequence in &finding.consequences {
        let _ = write!(out, "<p>follows from this: {}", lines(consequence));
    }
    if let Some(excerpt) = finding.span.and_then(|span| excerpt(&case.file, span)) {
        let _ = write!(out, "<pre>{}</pre>", lines(&excerpt));
    }
    if let Some(advice) = &finding.advice {
        let _ = write!(out, "<p>{}", lines(advice));
    }
    out.push_str("</div>");
}

/// What the buffers held before and after by rank, with the wrong elements marked in place.
pub fn buffers(contents: &BufferContents) -> String {
    let mut out = String::from("<div class=buffers>");
    push_rows(&mut out, "Before", &contents.before);
    match &contents.after {
        Some(after) => push_rows(&mut out, "After", after),
        None => out.push_str("<div><h3>After</h3><p>not known, because the ranks did not come to the end</div>"),
    }
    out + "</div>"
}

fn push_rows(out: &mut String, heading: &str, rows: &BufferRows) {
    let _ = write!(out, "<div><h3>{heading}</h3><table>");
    let end = out.len() + MAX_BUFFERS / 2;
    let mut shown = 0;
    for row in &rows.rows {
        let text = row_text(&row.elements);
        if out.len() + text.len() > end {
            break;
        }
        let _ = write!(out, "<tr><th>rank {}<td>{}<td>{text}", row.rank, html_text(&printable(&row.name)));
        shown += 1;
    }
    let more = rows.rows.len() - shown + rows.more;
    if more > 0 {
        let _ = write!(out, "<tr><td colspan=3>and {} more rows", thousands(more as u64));
    }
    out.push_str("</table></div>");
}

fn row_text(elements: &RowElements) -> String {
    let (len, elements) = match elements {
        RowElements::NotKnown => return "not known".to_owned(),
        RowElements::Untouched => return "untouched".to_owned(),
        RowElements::Shown { len, elements } => (len, elements),
    };
    let (mut out, mut next) = (String::from("["), 0);
    for element in elements {
        if element.index > 0 {
            out.push_str(", ");
        }
        if element.index != next {
            let _ = write!(out, "…, <span class=faint>[{}]</span> ", element.index);
        }
        let text = line(&element.text);
        let _ = if element.wrong { write!(out, "<b>{text}</b>") } else { write!(out, "{text}") };
        next = element.index + 1;
    }
    out.push(']');
    if *len > elements.len() as u64 {
        let _ = write!(out, " <span class=faint>{} elements</span>", thousands(*len));
    }
    out
}
