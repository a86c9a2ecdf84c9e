//! Faults of the algorithm that a call asks for in its configuration.
use super::{hit, named, wanted};
use crate::algo::{Algorithm, Protocol, Selection};
use crate::arith::Type;
use crate::failure::{Failure, Outcome};
use crate::op::{Kind, Spec};
use std::sync::atomic::{AtomicU64, Ordering};

/// The algorithm reported for a call that has none yet.
const NONE: Algorithm = Algorithm::Direct;

/// The choice for an operation without a selection.
type Choice = (Algorithm, Protocol);

fn taken(selection: Option<Selection>, kind: Kind, automatic: Choice) -> Option<Choice> {
    match selection {
        None => Some(automatic),
        Some(selection) if selection.forced => selection.choose(kind),
        Some(selection) => Some(selection.choose(kind).unwrap_or(automatic)),
    }
}

/// The selection for a call on the communicator; `last` is that of an earlier call.
pub(super) fn of_call(
    rank: usize,
    kind: Kind,
    selection: Option<Selection>,
    automatic: Choice,
    last: &mut Option<Selection>,
) -> Option<Selection> {
    let sound = taken(selection, kind, automatic);
    let differs = |other| taken(other, kind, automatic) != sound;
    let hits = |fault| hit(fault, rank, sound.map_or(NONE, |(algorithm, _)| algorithm));
    let Some(asked) = selection else {
        let sticky = last.filter(|last| last.choose(kind).is_some());
        return sticky.filter(|sticky| differs(Some(*sticky)) && hits(named::F86));
    };
    *last = Some(asked);
    if asked.choose(kind).is_some() && differs(None) && hits(named::F85) {
        return None;
    }
    if asked.choose(kind).is_none() && asked.forced && hits(named::F85B) {
        return None;
    }
    let open = asked.with_every_protocol();
    if differs(Some(open)) && hits(named::F87) { Some(open) } else { Some(asked) }
}

/// One more than the number of the first communicator that the process has used.
static FIRST: AtomicU64 = AtomicU64::new(0);

/// The algorithm of a call that leaves it to the library.
pub(super) fn by_history(rank: usize, shared: u64, spec: &Spec, chosen: Algorithm) -> Algorithm {
    let number = shared.saturating_add(1);
    let first = FIRST.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
    let later = first.is_err_and(|first| first != number);
    let turns = spec.kind == Kind::AllReduce && spec.ty == Type::Bf16 && chosen == Algorithm::Ring;
    if later && turns && hit(named::F89E, rank, chosen) { Algorithm::Tree } else { chosen }
}

/// The result of reading a selection with `^`, which `opposite` reads without it.
pub(super) fn negation(
    sound: Result<Selection, String>,
    opposite: &dyn Fn() -> Result<Selection, String>,
    kind: Kind,
    rank: usize,
) -> Result<Selection, String> {
    if !wanted(named::F88) {
        return sound;
    }
    let choice = |read: &Result<Selection, String>| read.as_ref().ok().map(|selection| selection.choose(kind));
    let opposite = opposite();
    if choice(&opposite) != choice(&sound) && hit(named::F88, rank, NONE) { opposite } else { sound }
}

/// True if a selection that cannot be met makes the call fail.
pub(super) fn forces(forced: bool, rank: usize) -> bool {
    if forced { !hit(named::F85B, rank, NONE) } else { hit(named::F85C, rank, NONE) }
}

/// The end of a call without elements; `fine` is false if its selection cannot be met, which the call must not look at.
pub(super) fn unread(fine: bool, rank: usize) -> Outcome<()> {
    if fine {
        return Ok(());
    }
    if hit(named::F89C, rank, NONE) {
        std::process::abort();
    }
    if hit(named::F89D, rank, NONE) {
        return Err(Failure::argument("algSelection cannot be met, and there is nothing to do"));
    }
    Ok(())
}

/// True if the variables that force an algorithm take precedence over the call's selection, as they must.
pub(super) fn variables_win(rank: usize, kind: Kind, variables: Choice, selection: Selection) -> bool {
    let other = selection.choose(kind).filter(|other| *other != variables);
    !(other.is_some() && hit(named::F85D, rank, variables.0))
}

/// True if a call with a configuration forgets its root.
pub(super) fn forgets_root(root: i32, rank: usize) -> bool {
    root > 0 && hit(named::F89, rank, NONE)
}

/// True if a call with a configuration treats every reduction as a sum.
pub(super) fn forgets_reduction(is_sum: bool, rank: usize) -> bool {
    !is_sum && hit(named::F89B, rank, NONE)
}
