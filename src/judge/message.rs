//! Texts of findings: wrong elements, and memory that must not have changed.
use super::{Finding, Lane};
use crate::num::{DType, element_hex, element_text};
use crate::plan::{Buffer, Plan, StepId};
use crate::scenario::Span;

/// An element's value and bits: `4 (0x40800000)`.
pub(crate) fn value_and_bits(dtype: DType, bits: u64) -> String {
    format!("{} ({})", element_text(dtype, bits), element_hex(dtype, bits))
}

/// The buffer's name in messages.
pub(crate) fn buffer_label(buffer: &Buffer) -> &str {
    if buffer.name.starts_with('#') { "the barrier's own element" } else { &buffer.name }
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
    pub lane: Lane,
    pub rank: usize,
    pub buffer: &'a str,
    /// Index of the first wrong element.
    pub element: u64,
    pub expected: String,
    pub actual: String,
    pub wrong: u64,
    pub of: u64,
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
    let extent = extent(wrong, of, pattern.as_deref());
    let text = format!("rank {rank}: `{buffer}[{element}]`{by} is {actual}, expected {expected}; {extent}");
    Finding {
        lane,
        rank: Some(rank),
        buffer: Some(buffer.into()),
        element: Some(element),
        step: step.map(|s| s.label.clone()),
        span: span.or(step.map(|s| s.span)),
        expected,
        actual,
        wrong,
        of,
        pattern,
        text,
    }
}

/// A finding that is about no element of a buffer.
pub(crate) fn without_element(lane: Lane, text: String, expected: String, actual: String) -> Finding {
    Finding {
        lane,
        rank: None,
        buffer: None,
        element: None,
        step: None,
        span: None,
        expected,
        actual,
        wrong: 1,
        of: 1,
        pattern: None,
        text,
    }
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

/// The finding for written bytes of an allocation that belong to no buffer.
pub(crate) fn written_beyond(rank: usize, label: &str, at: u64, wrong: u64, expected: u8, actual: u8) -> Finding {
    let text = format!("rank {rank}: wrote beyond `{label}`, at byte {at} of its memory ({wrong} bytes in all)");
    Finding {
        rank: Some(rank),
        buffer: Some(label.into()),
        wrong,
        ..without_element(Lane::Invariants, text, format!("{expected:#04x}"), format!("{actual:#04x}"))
    }
}

/// The finding for elements that changed although no step writes them; `input` if the buffer is an input.
pub(crate) fn modified(wrong: WrongElements<'_>, input: bool) -> Finding {
    let WrongElements { lane, rank, buffer, element, expected, actual, wrong, of, pattern } = wrong;
    let what = if input { "input" } else { "untouched" };
    let done = if input { "modified" } else { "written" };
    let extent = extent(wrong, of, pattern.as_deref());
    let text =
        format!("rank {rank}: {what} `{buffer}` {done}: element {element} is {actual}, was {expected}; {extent}");
    Finding {
        rank: Some(rank),
        buffer: Some(buffer.into()),
        element: Some(element),
        wrong,
        of,
        pattern,
        ..without_element(lane, text, expected, actual)
    }
}
