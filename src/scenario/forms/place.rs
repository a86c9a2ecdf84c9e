//! The forms `misaligned` and `sub`: where buffers and ranks are.
use super::super::case::{Case, CommHow, Num, NumKind, Outer, Placement, Sp, Step, Where};
use super::super::diagnostic::Span;
use super::walk;
use crate::expr;
use crate::ops::{CommOp, Kind};

/// Ranks of the larger world that do nothing.
const IDLE: usize = 2;
/// Most ranks of a world that is put into a larger one.
const MOST: usize = 1022;

pub(super) fn no_buffer(case: &Case) -> Option<&'static str> {
    let none = case.inputs.is_empty() && walk::outputs(case).is_empty();
    none.then_some("it has no buffer")
}

pub(super) fn misalign(case: &mut Case) {
    let outputs = walk::outputs(case);
    let inputs = case.inputs.len();
    for (index, def) in case.inputs.iter_mut().enumerate() {
        def.offset = off(index, def.name.span);
    }
    let offsets = outputs.into_iter().enumerate();
    case.offsets = offsets.filter_map(|(index, name)| Some((name, off(inputs + index, Span::default())?))).collect();
}

/// An odd number of elements, which is off a 16-byte boundary for types of every size.
fn off(index: usize, span: Span) -> Option<Num> {
    let text = format!("2 * ((3 * rank + {}) % 8) + 1", index % 8);
    let expr = expr::parse(&text).ok()?.expr;
    Some(Num { span, kind: NumKind::Expr(expr) })
}

pub(super) fn no_world(case: &Case) -> Option<&'static str> {
    let n = case.world_size.v;
    let split = |how: &CommHow| matches!(how, CommHow::Split { comm, .. } if comm.v == "world");
    let used = case.comms.iter().any(|def| split(&def.how))
        || walk::any(case, |step| speaks_in_world(step) || step.new.as_ref().is_some_and(|def| split(&def.how)));
    if !used {
        Some("nothing in it uses the communicator `world`")
    } else if n > MOST {
        Some("its world is too large")
    } else if case.placement == Placement::Processes && n + IDLE > Placement::MOST_PROCESSES {
        Some("it would need more than 16 processes")
    } else {
        None
    }
}

fn speaks_in_world(step: &Step) -> bool {
    let calls = match &step.op.kind {
        Kind::Collective(_) | Kind::Composite(_) | Kind::Send | Kind::Recv | Kind::SendRecv => true,
        Kind::Comm(op) => !matches!(op, CommOp::Init | CommOp::Split),
        Kind::Map | Kind::Group | Kind::Loop | Kind::Host(_) | Kind::Later => false,
    };
    calls && matches!(&step.place, Where::Comm(Sp { v, .. }) if v == "world")
}

pub(super) fn surround(case: &mut Case) {
    case.outer = Some(Outer { order: order(case.world_size.v) });
}

/// The larger world: this world's ranks the other way round, and idle ones placed so that no rank keeps its number.
fn order(n: usize) -> Vec<usize> {
    let backwards = (0..n).rev();
    if n.is_multiple_of(2) {
        [n, n + 1].into_iter().chain(backwards).collect()
    } else {
        [n].into_iter().chain(backwards).chain([n + 1]).collect()
    }
}
