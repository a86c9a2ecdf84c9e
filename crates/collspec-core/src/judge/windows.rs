//! Checks a library's answers about the windows it has created.
use super::findings::{FindingCollector, NO_EVENT, Priority};
use super::{Lane, message};
use crate::job::{CallKind, Observation, PointerAnswer, RankEnd, RankReport, WindowAnswer};
use crate::plan::Plan;
use nccl_sys::ncclResult_t;
use std::collections::BTreeSet;

/// The first version whose `ncclWinGetUserPtr` accepts the null window that `ncclCommWindowRegister` gives; earlier ones refuse it.
const TAKES_NO_WINDOW: i32 = 23000;

/// The message with which NCCL refuses one-sided operations where communicators cannot have windows.
const NO_HOST_RMA: &str = "host RMA is not supported";

/// Checks the answers about windows on every rank, and notes windows that the library did not provide.
pub(crate) fn check(plan: &Plan, observation: &Observation, collector: &mut FindingCollector) {
    let mut refused = BTreeSet::new();
    let takes_none =
        observation.ranks.iter().filter_map(|r| r.answers.version).all(|version| version >= TAKES_NO_WINDOW);
    for (rank, report) in observation.ranks.iter().enumerate() {
        for answer in &report.answers.windows {
            let name = window_name(plan, rank, answer.id);
            if !answer.given {
                refused.insert(name.clone());
            }
            collector.count_checked(Lane::Invariants, 1);
            check_pointer((rank, takes_none), answer, &name, collector);
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

/// The reason a case whose one-sided operations failed cannot run here: the library did not create a window for them.
pub(crate) fn missing(plan: &Plan, observation: &Observation) -> Option<String> {
    let one_sided = |call: &crate::job::Call| {
        matches!(call.kind, CallKind::Put { .. } | CallKind::Signal { .. } | CallKind::WaitSignal { .. })
    };
    if !plan.programs.iter().flatten().any(one_sided) {
        return None;
    }
    let refuses =
        |report: &RankReport| matches!(&report.end, RankEnd::Error { text, .. } if text.contains(NO_HOST_RMA));
    let makes_some = observation.ranks.iter().flat_map(|report| &report.answers.windows).any(|answer| answer.given);
    if !makes_some && observation.ranks.iter().any(refuses) {
        return Some(format!("one-sided operations need windows, and the library says that {NO_HOST_RMA} here"));
    }
    let none = observation.ranks.iter().flat_map(|report| &report.answers.windows).any(|answer| !answer.given);
    none.then(|| {
        "one-sided operations need windows, and the library made none (it answered success and a null window)"
            .to_owned()
    })
}

/// True if a step registered memory without an error but got no window: the library did not look at the memory.
pub(crate) fn made_none(plan: &Plan, rank: usize, report: &RankReport, step: u32) -> bool {
    // A library that created another window has looked at this memory.
    let makes_none = report.answers.windows.iter().all(|answer| !answer.given);
    let none = |id: u32| makes_none && report.answers.windows.iter().any(|answer| answer.id == id);
    let calls = plan.programs.get(rank).map_or(&[][..], Vec::as_slice);
    let mut its = calls.iter().filter(|call| call.step == step);
    its.any(|call| matches!(call.kind, CallKind::Register { id, window: true, .. } if none(id)))
}

/// The reason a case that expects failing registrations cannot run here: the library creates no windows, so it accepts any memory.
pub(crate) fn unseen(plan: &Plan, observation: &Observation) -> Option<String> {
    let accepted = |(rank, report): (usize, &RankReport)| {
        let fails = |step: &crate::plan::PlanStep| {
            step.error.iter().any(|(its, code)| *its == rank && *code != Some(ncclResult_t::Success))
        };
        plan.steps.iter().zip(0..).any(|(step, number)| fails(step) && made_none(plan, rank, report, number))
    };
    observation.ranks.iter().enumerate().any(accepted).then(|| {
        "the refusal of a window needs windows, and the library made none (it answered success and a null window)"
            .to_owned()
    })
}

fn check_pointer(
    (rank, takes_none): (usize, bool),
    answer: &WindowAnswer,
    name: &str,
    collector: &mut FindingCollector,
) {
    let (right, wanted) = match (answer.given, answer.pointer) {
        (_, PointerAnswer::Absent) => (true, ""),
        (false, PointerAnswer::Refused(code)) if !takes_none && code == ncclResult_t::InvalidArgument.0 => (true, ""),
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
    collector.add(Priority::Invariant(NO_EVENT), finding);
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
