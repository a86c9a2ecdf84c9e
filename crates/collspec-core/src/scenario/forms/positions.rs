//! The forms `misaligned` and `sub`, which change the positions of buffers and ranks.
use super::super::case::{
    Case, CommDef, NumberByRank, NumberByRankKind, OuterWorld, Placement, RegisterByRank, RegisterKind, Spanned, Step,
    StepComm, StepKind, all_steps,
};
use super::super::diagnostic::Span;
use super::visit;
use crate::expr;
use crate::ops::Kind;

/// Number of idle ranks in the larger world.
const IDLE_RANKS: usize = 2;
/// Limit on the ranks of a world that is put into a larger one.
const MAX_WORLD: usize = 1022;

pub(super) fn no_buffer(case: &Case) -> Option<&'static str> {
    let none = case.inputs.is_empty() && visit::outputs(case).is_empty();
    none.then_some("it has no buffer")
}

pub(super) fn misalign(case: &mut Case) {
    let outputs = visit::outputs(case);
    let inputs = case.inputs.len();
    // The ranks' parts of a window are as long as without the form only if they all begin at the same place.
    let by_rank = if has_windows(case) { 0 } else { 3 };
    for (index, def) in case.inputs.iter_mut().enumerate() {
        def.offset = odd_offset(by_rank, index, def.name.span);
    }
    let offsets = outputs.into_iter().enumerate();
    case.offsets = offsets
        .filter_map(|(index, name)| Some((name, odd_offset(by_rank, inputs + index, Span::default())?)))
        .collect();
}

fn has_windows(case: &Case) -> bool {
    let keys = case.inputs.iter().map(|def| &def.register).chain([&case.register]);
    let window = |register: &RegisterByRank| register.kinds.contains(&RegisterKind::Window);
    keys.flatten().any(window)
        || visit::all_of(case).any(|step| matches!(step.kind, StepKind::Register { how: RegisterKind::Window, .. }))
}

/// An odd number of elements, which breaks 16-byte alignment for types of every size. From one rank to the next it moves by
/// twice `by_rank`.
fn odd_offset(by_rank: usize, index: usize, span: Span) -> Option<NumberByRank> {
    let text = format!("2 * (({by_rank} * rank + {}) % 8) + 1", index % 8);
    let expr = expr::parse(&text).ok()?.expr;
    Some(NumberByRank { span, kind: NumberByRankKind::Expr(expr) })
}

pub(super) fn no_world(case: &Case) -> Option<&'static str> {
    let n = case.world_size.value;
    let split = |def: &CommDef| def.creation.parent() == Some("world");
    let used = case.comms.iter().any(split)
        || all_steps(&case.steps)
            .any(|step| uses_world(step) || matches!(&step.kind, StepKind::NewComm(new) if split(new)));
    if !used {
        Some("nothing in it uses the communicator `world`")
    } else if n > MAX_WORLD {
        Some("its world is too large")
    } else if case.placement == Placement::Processes && n + IDLE_RANKS > Placement::MAX_PROCESSES {
        Some("it would need more than 16 processes")
    } else {
        None
    }
}

fn uses_world(step: &Step) -> bool {
    let calls = match &step.op.kind {
        Kind::OneSided(_) | Kind::Registration(_) => true,
        Kind::Comm(op) => !op.makes_communicator(),
        kind => kind.transfers(),
    };
    calls && matches!(&step.comm, StepComm::Comm(Spanned { value, .. }) if value == "world")
}

pub(super) fn surround(case: &mut Case) {
    case.outer = Some(OuterWorld { order: surrounding_order(case.world_size.value) });
}

/// The larger world: the case's ranks in reverse order, with idle ranks placed so that no rank keeps its number.
fn surrounding_order(n: usize) -> Vec<usize> {
    let backwards = (0..n).rev();
    if n.is_multiple_of(2) {
        [n, n + 1].into_iter().chain(backwards).collect()
    } else {
        [n].into_iter().chain(backwards).chain([n + 1]).collect()
    }
}
