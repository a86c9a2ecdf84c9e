//! Operations that are never done, done twice, or never end.
use crate::call::Call;
use crate::communicators::Communicator;
use crate::fault::hit;
use crate::groups;
use crate::plain::named::*;

/// What becomes of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Once,
    Twice,
    Lost,
    Endless,
}

/// Collectives of one group that are done as they should be.
const COLLECTIVES: usize = 4;
/// Operations of one group that are done at all, under F31d and F62b.
const OPERATIONS: usize = 64;
const THOUSAND: usize = 1000;
/// Operations after which one is forgotten.
const BUDGET: u64 = 32;
/// The values at which counters of 8 and of 12 bits wrap.
pub(crate) const WRAP: u64 = 256;
const TWELVE_BITS: u64 = 1 << 12;

/// What becomes of an operation; `call` is as the program made it.
pub(crate) fn fate(of: &Communicator, call: &Call, capture: Option<u64>) -> Fate {
    let hits = |fault| hit(fault, of.rank);
    let full = call.count > 0;
    if call.kind.is_one_sided() {
        return Fate::Once;
    }
    let mut state = of.state();
    let mut lost = std::mem::replace(&mut state.empty, !full) && full && hits(F34);
    if !full {
        return if hits(F34B) { Fate::Endless } else { Fate::Once };
    }
    state.operations += 1;
    let turn = state.operations;
    let first = turn == 1;
    let windows = state.registered.iter().any(|memory| memory.is_window && memory.handle != 0);
    let endless = (state.child_aborted && hits(F63B))
        || (turn.is_multiple_of(WRAP) && hits(F37B))
        || (first && call.kind.is_collective() && of.n == 2 && windows && hits(F82D));
    lost |= call.kind.is_message() && call.is_root(of.rank) && hits(F33);
    lost |= first && of.made.after_death && hits(F91);
    if let Some(since) = &mut state.since_resume {
        *since += 1;
        lost |= *since == 1 && hits(F73);
    }
    lost |= of.made.nonblocking && hits(F74B);
    lost |= turn == BUDGET + 1 && hits(F38);
    lost |= turn.is_multiple_of(TWELVE_BITS) && hits(F62);
    let direct = capture.is_none();
    lost |= direct && std::mem::take(&mut state.owes) && hits(F79);
    lost |= !direct && state.captured > 1 && hits(F76B);
    drop(state);
    let earlier = groups::earlier(of.handle);
    let collectives = earlier.iter().filter(|call| call.kind.is_collective()).count();
    let collective = call.kind.is_collective();
    lost |= collective && collectives >= COLLECTIVES && hits(F31);
    lost |= groups::is_second(of.handle) && hits(F31C);
    lost |= earlier.len() >= OPERATIONS && hits(F31D);
    lost |= earlier.len() >= THOUSAND && hits(F62B);
    lost |= !direct && !earlier.is_empty() && hits(F79B);
    // Ranks must agree, so it does not matter whether this one's output is its input.
    let twice = call.kind.reduces() && collectives >= COLLECTIVES && hits(F31B);
    match (lost, endless, twice) {
        (true, ..) => Fate::Lost,
        (_, true, _) => Fate::Endless,
        (_, _, true) => Fate::Twice,
        _ => Fate::Once,
    }
}
