//! One-sided operations: signals that are lost, counted twice or merged, and data that arrive late or elsewhere.
use crate::call::{Call, Kind};
use crate::communicators::Communicator;
use crate::fault::hit;
use crate::memory::is_there;
use crate::plain::named::*;
use nccl_sys::ncclResult_t;

/// Puts of a rank after which one is lost.
const RING: u64 = 256;

/// Passes a one-sided call on to the right library, changed as the wanted fault says.
pub(crate) fn perform(of: &Communicator, mut call: Call) -> ncclResult_t {
    let hits = |fault| hit(fault, of.rank);
    merge(of, &mut call);
    let code = match call.kind {
        Kind::Wait => {
            let mut state = of.state();
            state.waits += 1;
            let again = state.waits > 1;
            drop(state);
            if again && hits(F80C) {
                return ncclResult_t::Success;
            }
            call.issue()
        }
        Kind::Put => return put(of, call),
        _ => signal(of, &call),
    };
    if code == ncclResult_t::InvalidUsage && call.kind == Kind::Signal && of.state().registered.is_empty() && hits(F84C)
    {
        return ncclResult_t::Success;
    }
    code
}

/// Contexts and indices that all count as the first one.
fn merge(of: &Communicator, call: &mut Call) {
    let hits = |fault| hit(fault, of.rank);
    let one_sided = &mut call.one_sided;
    let waits = one_sided.waits.iter().fold((0, 0), |(c, i), wait| (c.max(wait.ctx), i.max(wait.sig_idx)));
    if one_sided.context.max(waits.0) != 0 && hits(F80E) {
        one_sided.context = 0;
        one_sided.waits.iter_mut().for_each(|wait| wait.ctx = 0);
    }
    if one_sided.signal.max(waits.1) != 0 && hits(F80F) {
        one_sided.signal = 0;
        one_sided.waits.iter_mut().for_each(|wait| wait.sig_idx = 0);
    }
}

/// A put or a signal whose number is too large may count as the first.
fn signal(of: &Communicator, call: &Call) -> ncclResult_t {
    let code = call.issue();
    let numbered = call.one_sided.context != 0 || call.one_sided.signal != 0;
    if code == ncclResult_t::InvalidArgument && numbered && hit(F84D, of.rank) {
        let mut first = call.clone();
        (first.one_sided.context, first.one_sided.signal) = (0, 0);
        return first.issue();
    }
    code
}

fn put(of: &Communicator, mut call: Call) -> ncclResult_t {
    let hits = |fault| hit(fault, of.rank);
    let mut state = of.state();
    state.puts += 1;
    let lost = state.puts.is_multiple_of(RING);
    drop(state);
    if call.count == 0 && hits(F80B) || lost && hits(F81D) {
        return ncclResult_t::Success;
    }
    if call.count > 0 && call.is_root(of.rank) && hits(F81C) {
        return ncclResult_t::Success;
    }
    let size = call.size();
    if call.one_sided.offset > 0 && size > 1 && call.count > 0 && hits(F81B) {
        call.one_sided.offset /= size;
    }
    if let Some(first) = earlier_window(of, call.one_sided.window).filter(|_| call.count > 0)
        && hits(F82C)
    {
        call.one_sided.window = first;
    }
    if call.count > 0 && hits(F81) {
        let before = of.state().pending.insert(call.root, call.clone());
        // Its own signal, with the data of the put before; the first one brings none.
        call = before.unwrap_or_else(|| Call { count: 0, ..call.clone() });
    }
    let code = signal(of, &call);
    if code == ncclResult_t::Success && hits(F80) {
        let twice = Call { kind: Kind::Signal, ..call };
        return twice.issue();
    }
    code
}

/// An earlier window in the allocation in which a window lies.
fn earlier_window(of: &Communicator, window: usize) -> Option<usize> {
    let state = of.state();
    let windows = || state.registered.iter().filter(|memory| memory.is_window && memory.handle != 0);
    let own = windows().find(|memory| memory.handle == window)?;
    let before =
        windows().filter(|other| other.base < own.base && is_there(other.base, own.base + own.len - other.base));
    before.min_by_key(|memory| memory.base).map(|memory| memory.handle)
}
