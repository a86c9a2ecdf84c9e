//! Faults of membership and of failures: the ranks of a communicator, and the effect of a refusal.
use super::batches::InjectedBatch;
use super::requests::{self, CommState};
use super::{FaultMode, hit, mode, named, selections, wanted};
use crate::algo::{Algorithm, Protocol, Selection};
use crate::engine::hooks::{Captured, CommHooks, GraphNode, RequestContext, Requested, Sound, SplitRank};
use crate::engine::{Request, State};
use crate::failure::{Failure, Outcome};
use crate::op::{Kind, Spec};
use nccl_sys::ncclResult_t;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The algorithm reported for these requests, which have none, or none yet.
const NONE: Algorithm = Algorithm::Direct;

/// Colours that a split of 16 bits can tell apart.
const COLORS: i32 = 1 << 16;
/// Ranks whose equal keys are put in order even by a sort that forgets about it for more.
const FEW_RANKS: usize = 8;

/// The state that faults keep for a rank's communicator.
#[derive(Default)]
pub(super) struct Comm(Arc<Mutex<CommState>>);

impl Comm {
    fn state(&self) -> MutexGuard<'_, CommState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CommHooks for Comm {
    fn requested(&mut self, context: RequestContext<'_>, requests: &mut [Request]) -> Requested {
        if mode() == FaultMode::Sound {
            return Requested { again: Vec::new(), batch: Box::new(Sound) };
        }
        let (again, operations) = requests::misread(context, &mut self.state(), requests);
        Requested { again, batch: Box::new(InjectedBatch::new(Arc::clone(&self.0), operations)) }
    }

    fn automatic(&self, rank: usize, shared: u64, spec: &Spec, chosen: Algorithm) -> Algorithm {
        selections::by_history(rank, shared, spec, chosen)
    }

    fn selection(
        &mut self,
        rank: usize,
        kind: Kind,
        selection: Option<Selection>,
        automatic: (Algorithm, Protocol),
    ) -> Option<Selection> {
        selections::of_call(rank, kind, selection, automatic, &mut self.state().last_selection)
    }

    fn captured(&mut self, node: GraphNode, requests: &mut Vec<Request>) -> Captured {
        self.state().graphs.captured(node, requests)
    }

    fn replayed(&mut self, node: GraphNode, total: usize, requests: &mut Vec<Request>) -> bool {
        self.state().graphs.replayed(node, total, requests)
    }

    fn released(&mut self, graph: u64) {
        self.state().graphs.released(graph);
    }

    /// Refuses work on a communicator whose child or parent has ended.
    fn check_work(&self, rank: usize) -> Outcome<()> {
        let state = self.state();
        let hits = |fault| hit(fault, rank, NONE);
        if (state.child_destroyed && hits(named::F63)) || (state.parent_ended && hits(named::F63C)) {
            return Err(Failure::usage("the communicator ended with another one"));
        }
        Ok(())
    }

    fn outcome(&mut self, rank: usize, outcome: Outcome<()>) -> Outcome<()> {
        let mut state = self.state();
        match outcome {
            Ok(()) if std::mem::take(&mut state.unbalanced) && hit(named::F40B, rank, NONE) => {
                Err(Failure::usage("an earlier call has left the group open"))
            }
            Ok(()) => Ok(()),
            Err(_) if hit(named::F40, rank, NONE) => Ok(()),
            Err(failure) => {
                state.unbalanced = true;
                Err(failure)
            }
        }
    }

    fn child_ends(&mut self, aborted: bool) {
        let mut state = self.state();
        state.child_aborted |= aborted;
        state.child_destroyed |= !aborted;
    }

    fn outlives(&mut self) {
        self.state().after_death = true;
    }

    fn resumed(&mut self) {
        let mut state = self.state();
        (state.resumed, state.was_suspended) = (true, true);
    }

    fn parent_ends(&mut self) {
        self.state().parent_ended = true;
    }
}

/// Changes the requests of a split's ranks; they come in their old order.
pub(super) fn misjudge<'a>(arrived: &mut dyn Iterator<Item = SplitRank<'a>>) {
    if ![named::F36, named::F36B, named::F36C, named::F36D, named::F36E].into_iter().any(wanted) {
        return;
    }
    let mut ranks: Vec<SplitRank<'a>> = arrived.collect();
    let asked: BTreeSet<Option<i32>> = ranks.iter().map(|asking| *asking.color).collect();
    for SplitRank { rank, color, .. } in &mut ranks {
        let low = color.map(|color| color % COLORS);
        if low != **color && asked.contains(&low) && hit(named::F36E, *rank, NONE) {
            **color = low;
        }
    }
    let mut colors: BTreeMap<Option<i32>, Vec<SplitRank<'a>>> = BTreeMap::new();
    for asking in ranks {
        colors.entry(*asking.color).or_default().push(asking);
    }
    let lowest = colors.keys().flatten().next().copied();
    for (color, ranks) in &mut colors {
        if color.is_none() {
            for SplitRank { rank, color, .. } in ranks {
                if lowest.is_some() && hit(named::F36C, *rank, NONE) {
                    **color = lowest;
                }
            }
            continue;
        }
        if !ranks.is_sorted_by_key(|asking| *asking.key) {
            for SplitRank { rank, key, .. } in &mut *ranks {
                if hit(named::F36, *rank, NONE) {
                    **key = 0;
                }
            }
        }
        let mut keys: Vec<i32> = ranks.iter().map(|asking| *asking.key).collect();
        keys.sort_unstable();
        if keys.windows(2).any(|pair| pair[0] == pair[1]) {
            // Of equal keys the later ranks come first.
            let many = ranks.len() > FEW_RANKS;
            let unstable = |rank: usize| {
                let wrong = hit(named::F36B, rank, NONE) || (many && hit(named::F36D, rank, NONE));
                if wrong { -(rank as i64) } else { rank as i64 }
            };
            let numbered = ranks.iter().enumerate();
            let mut order: Vec<(i32, i64, usize)> =
                numbered.map(|(at, asking)| (*asking.key, unstable(asking.rank), at)).collect();
            order.sort_unstable();
            for (place, (_, _, at)) in order.into_iter().enumerate() {
                *ranks[at].key = place as i32;
            }
        }
    }
}

/// The asynchronous error of a communicator that is returned to the caller.
pub(super) fn async_error(rank: usize, error: Option<ncclResult_t>) -> ncclResult_t {
    error.filter(|_| !hit(named::F40, rank, NONE)).unwrap_or(ncclResult_t::Success)
}

/// The communicator whose operations an abort waits for, though it is another's.
pub(super) fn abort_waits_for(state: &State, comm: usize) -> Option<usize> {
    if !wanted(named::F40C) {
        return None;
    }
    let own = state.members.get(&comm)?;
    let others = state.members.iter().filter(|(_, other)| other.shared != own.shared && other.is_at_work());
    let other = others.map(|(handle, _)| *handle).min()?;
    hit(named::F40C, own.rank, NONE).then_some(other)
}
