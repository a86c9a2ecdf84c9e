//! What a library says of the windows that it has made.
use super::findings::{FindingCollector, NO_EVENT, Priority};
use super::{Lane, message};
use crate::job::{CallKind, Observation, PointerAnswer, WindowAnswer};
use crate::plan::Plan;
use nccl_sys::ncclResult_t;
use std::collections::BTreeSet;

/// Checks the answers about windows on every rank, and notes windows that the library did not give.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    let mut refused = BTreeSet::new();
    for (rank, report) in observation.ranks.iter().enumerate() {
        for answer in &report.answers.windows {
            let name = window_name(plan, rank, answer.id);
            if !answer.given {
                refused.insert(name.clone());
            }
            if collector.mutation.compares_rank(rank) {
                collector.count_checked(Lane::Invariants, 1);
                check_pointer(rank, answer, &name, collector);
            }
        }
    }
    if !refused.is_empty() {
        let names: Vec<String> = refused.into_iter().map(|name| format!("`{name}`")).collect();
        collector.note(format!(
            "the library made no window for {} (it answered success and a null window), so operations used it as any other memory",
            names.join(", ")
        ));
    }
}

/// Why a case whose one-sided operations failed cannot be run here: the library made no window for them.
pub(crate) fn missing(plan: &Plan, observation: &Observation) -> Option<String> {
    let one_sided = |call: &crate::job::Call| {
        matches!(call.kind, CallKind::Put { .. } | CallKind::Signal { .. } | CallKind::WaitSignal { .. })
    };
    let answers = || observation.ranks.iter().flat_map(|report| &report.answers.windows);
    let lacks = plan.programs.iter().flatten().any(one_sided) && answers().any(|answer| !answer.given);
    lacks.then(|| {
        "one-sided operations need windows, and the library made none (it answered success and a null window)"
            .to_owned()
    })
}

fn check_pointer(rank: usize, answer: &WindowAnswer, name: &str, collector: &mut FindingCollector) {
    let (right, wanted) = match (answer.given, answer.pointer) {
        (_, PointerAnswer::Absent) => (true, ""),
        (true, pointer) => (pointer == PointerAnswer::Registered, "the address that was registered"),
        (false, pointer) => (pointer == PointerAnswer::Null, "success and a null pointer, as there is no window"),
    };
    if right {
        return;
    }
    let actual = match answer.pointer {
        PointerAnswer::Absent | PointerAnswer::Registered => "the address that was registered".to_owned(),
        PointerAnswer::Null => "a null pointer".to_owned(),
        PointerAnswer::Other => "another address".to_owned(),
        PointerAnswer::Refused(code) => ncclResult_t(code).name().map_or_else(|| format!("code {code}"), str::to_owned),
    };
    let text =
        format!("rank {rank}: ncclWinGetUserPtr answered {actual} for the window of `{name}`, expected {wanted}");
    let mut finding = message::without_element(Lane::Invariants, text, wanted.to_owned(), actual);
    finding.rank = Some(rank);
    collector.add(Priority { kind: 2, event: NO_EVENT }, finding);
}

/// The buffers in a window.
fn window_name(plan: &Plan, rank: usize, id: u32) -> String {
    let calls = plan.programs.get(rank).map_or(&[][..], Vec::as_slice);
    let alloc = calls.iter().find_map(|call| match call.kind {
        CallKind::Register { id: its, alloc, .. } if its == id => plan.allocs.get(alloc as usize),
        _ => None,
    });
    alloc.map_or_else(|| "memory".to_owned(), |alloc| alloc.label.clone())
}
