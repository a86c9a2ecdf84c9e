//! Texts of findings: wrong elements, and memory that must not have changed.
use super::indices::Indices;
use super::{Finding, Lane, Subject};
use crate::num::{DType, bits_matter, element_hex, element_text};
use crate::plan::{Buffer, Plan, PlanStep, StepId};
use crate::scenario::Span;

/// An element's value and bits: `0.1 (0x3dcccccd)`.
fn value_and_bits(dtype: DType, bits: u64) -> String {
    format!("{} ({})", element_text(dtype, bits), element_hex(dtype, bits))
}

/// An element's value, with its bits if the value alone is ambiguous.
pub(crate) fn value_text(dtype: DType, bits: u64) -> String {
    if bits_matter(dtype, bits) { value_and_bits(dtype, bits) } else { element_text(dtype, bits) }
}

/// Two elements that are compared, as [`value_text`], and with their bits if the values look the same.
pub(crate) fn value_texts(dtype: DType, a: u64, b: u64) -> (String, String) {
    let alike = element_text(dtype, a) == element_text(dtype, b);
    let text = if alike { value_and_bits } else { value_text };
    (text(dtype, a), text(dtype, b))
}

/// `rank 3`, `ranks 0 to 3`, `ranks 0, 2 and 5 to 7`, from ascending numbers; for long lists only the first parts.
pub fn ranks_text(ranks: &[usize]) -> String {
    const MAX_PARTS: usize = 8;
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for rank in ranks.iter().copied() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let mut parts = Vec::new();
    for (first, last) in ranges {
        match last - first {
            0 => parts.push(first.to_string()),
            1 => parts.extend([first.to_string(), last.to_string()]),
            _ => parts.push(format!("{first} to {last}")),
        }
    }
    if parts.len() > MAX_PARTS {
        let more = parts.len() - MAX_PARTS;
        parts.truncate(MAX_PARTS);
        parts.push(format!("{more} more"));
    }
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{word} {} and {last}", rest.join(", ")),
        _ => format!("{word} {}", parts.join("")),
    }
}

/// The buffer's name in messages.
pub(crate) fn buffer_label(buffer: &Buffer) -> &str {
    match buffer.name.strip_prefix('#') {
        None => &buffer.name,
        Some(name) if name.starts_with("scalar") => "the factor of premul_sum",
        Some(_) => "the barrier's own element",
    }
}

/// `step 1 (a), step 2 (b) and 3 more`; `None` for an empty list.
pub(crate) fn listed(labels: &[&str]) -> Option<String> {
    const MOST: usize = 3;
    match labels {
        [] => None,
        [one] => Some((*one).to_owned()),
        [rest @ .., last] if labels.len() <= MOST => Some(format!("{} and {last}", rest.join(", "))),
        _ => Some(format!("{} and {} more", labels[..MOST].join(", "), labels.len() - MOST)),
    }
}

/// `3 of 8 elements wrong`, with the pattern.
fn extent(wrong: u64, of: u64, pattern: Option<&str>) -> String {
    let count = match (wrong, of) {
        (1, 1) => "the only element".into(),
        (w, o) if w == o => format!("all {o} elements wrong"),
        (w, o) => format!("{w} of {o} elements wrong"),
    };
    pattern.map_or(count.clone(), |p| format!("{count}: {p}"))
}

/// Wrong elements of a buffer on a rank.
pub(crate) struct WrongElements<'a> {
    /// The lane that noticed them.
    pub lane: Lane,
    /// World rank that holds the buffer.
    pub rank: usize,
    /// The buffer's name.
    pub buffer: &'a str,
    /// Index of the first wrong element.
    pub element: u64,
    /// The expected value of the first wrong element.
    pub expected: String,
    /// The observed value of the first wrong element.
    pub actual: String,
    /// Indices of the wrong elements.
    pub wrong: &'a Indices,
    /// Number of elements that were compared.
    pub of: u64,
    /// What the wrong elements have in common, if that was found.
    pub pattern: Option<String>,
}

/// The finding for wrong elements, with the step that wrote them or the place of the expectation.
pub(crate) fn wrong_elements(
    plan: &Plan,
    wrong: WrongElements<'_>,
    step: Option<StepId>,
    span: Option<Span>,
) -> Finding {
    let WrongElements { lane, rank, buffer, element, expected, actual, wrong, of, pattern } = wrong;
    let step = step.and_then(|s| plan.steps.get(s as usize));
    let by = step.map(|s| format!(" after {}", s.label)).unwrap_or_default();
    let extent = extent(wrong.count(), of, pattern.as_deref());
    let text = format!("rank {rank}: `{buffer}[{element}]`{by} is {actual}, expected {expected}; {extent}");
    Finding {
        rank: Some(rank),
        buffer: Some(buffer.into()),
        element: Some(element),
        step: step.map(|s| s.label.clone()),
        span: span.or(step.map(|s| s.span)),
        wrong: wrong.count(),
        wrong_elements: wrong.digest(),
        of,
        pattern,
        ..without_element(lane, text, expected, actual)
    }
}

/// A finding that is not about an element of a buffer.
pub(crate) fn without_element(lane: Lane, text: String, expected: String, actual: String) -> Finding {
    Finding {
        lane,
        subject: Subject::Lane,
        rank: None,
        other_ranks: Vec::new(),
        ranks_with_other_values: Vec::new(),
        buffer: None,
        element: None,
        step: None,
        span: None,
        expected,
        actual,
        wrong: 1,
        wrong_elements: 0,
        of: 1,
        pattern: None,
        text,
        advice: None,
        follows: false,
        consequences: Vec::new(),
        rounds: 1,
    }
}

/// A finding about a line of the file.
pub(crate) fn about(subject: Subject, text: String, expected: String, actual: String) -> Finding {
    Finding { subject, ..without_element(Lane::Expected, text, expected, actual) }
}

/// The finding for an overwritten guard; `at` is the first byte, counted from the payload's edge.
pub(crate) fn guard_overwritten(
    rank: usize,
    label: &str,
    before: bool,
    at: i64,
    wrong: u64,
    expected: u8,
    actual: u8,
) -> Finding {
    let side = if before { "before" } else { "after" };
    let more = if wrong == 1 { String::new() } else { format!(" ({wrong} bytes in all)") };
    let text = format!("rank {rank}: guard band {side} `{label}` overwritten at byte {at:+}{more}");
    Finding {
        rank: Some(rank),
        buffer: Some(label.into()),
        wrong,
        of: crate::plan::GUARD,
        ..without_element(Lane::Invariants, text, format!("{expected:#04x}"), format!("{actual:#04x}"))
    }
}

/// The finding for written memory whose address was passed to a call that must not use it.
pub(crate) fn scrap_written(rank: usize, label: &str, at: u64, wrong: u64, expected: u8, actual: u8) -> Finding {
    let text = format!(
        "rank {rank}: memory that no call may touch (`{label}`) was written at byte {at} ({wrong} bytes in all)"
    );
    Finding {
        rank: Some(rank),
        buffer: Some(label.into()),
        wrong,
        ..without_element(Lane::Invariants, text, format!("{expected:#04x}"), format!("{actual:#04x}"))
    }
}

/// The finding for written bytes of an allocation that are outside every buffer.
pub(crate) fn written_beyond(rank: usize, label: &str, at: u64, wrong: u64, expected: u8, actual: u8) -> Finding {
    let text = format!("rank {rank}: wrote beyond `{label}`, at byte {at} of its memory ({wrong} bytes in all)");
    Finding {
        rank: Some(rank),
        buffer: Some(label.into()),
        wrong,
        ..without_element(Lane::Invariants, text, format!("{expected:#04x}"), format!("{actual:#04x}"))
    }
}

/// Memory that changed although no step writes it.
#[derive(Clone, Copy)]
pub(crate) enum Changed<'a> {
    /// An input of the case.
    Input,
    /// Memory that has not been written.
    Untouched,
    /// A result that this step has written.
    Result(&'a str),
}

impl Changed<'_> {
    /// Text of the change, such as ``input `x` modified``.
    fn text(self, buffer: &str) -> String {
        match self {
            Self::Input => format!("input `{buffer}` modified"),
            Self::Untouched => format!("untouched `{buffer}` written"),
            Self::Result(step) => format!("`{buffer}` modified after {step}, which wrote it"),
        }
    }
}

/// The finding for elements that changed although no step writes them. `readers` are the steps that read them; the first of these
/// may have changed them.
pub(crate) fn modified(wrong: WrongElements<'_>, changed: Changed<'_>, readers: &[&PlanStep]) -> Finding {
    let WrongElements { lane, rank, buffer, element, expected, actual, wrong, of, pattern } = wrong;
    let extent = extent(wrong.count(), of, pattern.as_deref());
    let (what, read_by) = (changed.text(buffer), read_by(readers));
    let text = format!("rank {rank}: {what}: element {element} is {actual}, was {expected}; {extent}{read_by}");
    Finding {
        rank: Some(rank),
        buffer: Some(buffer.into()),
        element: Some(element),
        step: readers.first().map(|step| step.label.clone()),
        span: readers.first().map(|step| step.span),
        wrong: wrong.count(),
        wrong_elements: wrong.digest(),
        of,
        pattern,
        ..without_element(lane, text, expected, actual)
    }
}

/// The same for elements of which only a digest is known.
pub(crate) fn modified_digest(
    (rank, buffer, of): (usize, &str, u64),
    bytes: u64,
    changed: Changed<'_>,
    readers: &[&PlanStep],
) -> Finding {
    let (what, read_by) = (changed.text(buffer), read_by(readers));
    let text = format!(
        "rank {rank}: {what}; of its {bytes} bytes, which a later step overwrites, only a digest was kept{read_by}"
    );
    Finding {
        rank: Some(rank),
        buffer: Some(buffer.into()),
        step: readers.first().map(|step| step.label.clone()),
        span: readers.first().map(|step| step.span),
        of,
        ..without_element(Lane::Invariants, text, "other bytes".into(), "other bytes".into())
    }
}

/// The text on the steps that read the changed elements.
fn read_by(readers: &[&PlanStep]) -> String {
    let labels: Vec<&str> = readers.iter().map(|step| step.label.as_str()).collect();
    listed(&labels).map(|labels| format!("; read by {labels}")).unwrap_or_default()
}
