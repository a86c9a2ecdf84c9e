//! The way of a call from the program to the right library, with the places at which it can go wrong.
use crate::arguments;
use crate::call::{Call, Kind};
use crate::communicators::{self, Communicator};
use crate::fault::{FaultMode, hit, mode};
use crate::graphs;
use crate::groups::{self, After};
use crate::inputs;
use crate::lost::{self, Fate};
use crate::memory;
use crate::one_sided;
use crate::outputs;
use crate::placed::Placed;
use crate::plain::named::*;
use crate::streams;
use crate::sums;
use nccl_sys::ncclResult_t;
use std::sync::Arc;

/// Passes a call on to the right library, changed as the wanted fault says.
pub(crate) fn perform(mut call: Call) -> ncclResult_t {
    if mode() == FaultMode::Sound {
        return call.issue();
    }
    let Some(of) = communicators::communicator(call.comm) else { return outcome_of_unknown(&call) };
    let Some(stream) = streams::stream(call.stream, of.device) else { return call.issue() };
    let capture = streams::capture(&stream);
    if let Some(refusal) = refusal(&of, &call) {
        return refusal;
    }
    let asked = call.clone();
    graphs::follow(&of, &mut call, capture);
    let _config = arguments::change(&of, &mut call);
    let fate = lost::fate(&of, &asked, capture);
    groups::add(&asked);
    match fate {
        Fate::Lost => return ncclResult_t::Success,
        Fate::Endless => {
            streams::stop(&stream);
            return ncclResult_t::Success;
        }
        Fate::Once | Fate::Twice => {}
    }
    if call.kind.is_one_sided() {
        return outcome(&of, one_sided::perform(&of, call));
    }
    let placed = Placed { of: &of, call: &call, stream: &stream, capture };
    // Work of a communicator that does not block may reach its stream after the call, so nothing can be put around it.
    let follows = call.count > 0 && call.ty().is_some() && !of.made.nonblocking && is_valid(&of, &call);
    if !follows {
        return outcome(&of, call.issue());
    }
    let gathered = sums::gather(&placed);
    let watched = outputs::watch(&placed);
    let input = inputs::instead(&placed);
    let mut made = call.clone();
    if let Some(input) = &input {
        made.send = input.address();
    }
    if let Some(other) = overtaken(&placed) {
        made.stream = other;
    }
    if groups::holds(&made) {
        return ncclResult_t::Success;
    }
    let code = issue(&of, &made);
    if fate == Fate::Twice {
        let _ = made.issue();
    }
    if code == ncclResult_t::Success {
        let gathered = gathered.map(Arc::new);
        let calls = gathered.clone().map(|gathered| Box::new(move || gathered.exchange()) as Box<dyn FnOnce() -> _>);
        let work = Box::new(move |exchanged| {
            watched.end(input);
            match gathered {
                Some(gathered) if exchanged => gathered.end(),
                // Of several exchanges in a group, only one may have failed: the others still use their memory.
                unfinished => memory::keep(unfinished),
            }
        });
        groups::after(After { calls, work });
    }
    outcome(&of, code)
}

/// False for a call that the right library refuses, whose buffers need not be there.
fn is_valid(of: &Communicator, call: &Call) -> bool {
    let extent = call.extent(of.rank, of.n);
    let inside = usize::try_from(call.root).is_ok_and(|root| root < of.n);
    let given = |(address, len): (usize, usize)| len == 0 || address != 0;
    inside && given(extent.send) && given(extent.recv)
}

/// Calls the right library; a call that asks for an algorithm which it cannot have may take another one.
fn issue(of: &Communicator, call: &Call) -> ncclResult_t {
    let code = call.issue();
    if code == ncclResult_t::InvalidArgument && call.config.is_some() && hit(F85B, of.rank) {
        return Call { config: None, ..call.clone() }.issue();
    }
    code
}

/// A call on a communicator that is unknown, such as one that is not ready, or none at all.
fn outcome_of_unknown(call: &Call) -> ncclResult_t {
    match call.issue() {
        ncclResult_t::InvalidArgument if hit(F40, groups::NO_RANK) => ncclResult_t::Success,
        code => code,
    }
}

/// The answer to a call that is refused although it should not be.
fn refusal(of: &Communicator, call: &Call) -> Option<ncclResult_t> {
    let hits = |fault| hit(fault, of.rank);
    let ignored = matches!(call.kind, Kind::Reduce | Kind::Gather) && !call.is_root(of.rank);
    if ignored && call.recv == 0 && call.count > 0 && hits(F16B) {
        return Some(ncclResult_t::InvalidArgument);
    }
    if call.stream == 0 && hits(F67) {
        return Some(ncclResult_t::InvalidArgument);
    }
    if call.count == 0 && call.config.is_some() && !call.kind.is_one_sided() {
        if hits(F89C) {
            std::process::abort();
        }
        if hits(F89D) {
            return Some(ncclResult_t::InvalidArgument);
        }
    }
    let state = of.state();
    if (state.child_destroyed && hits(F63)) || (state.parent_ended && hits(F63C)) {
        return Some(ncclResult_t::InvalidUsage);
    }
    None
}

/// The answer to a call, given the right one.
pub(crate) fn outcome(of: &Communicator, code: ncclResult_t) -> ncclResult_t {
    let mut state = of.state();
    if code == ncclResult_t::RemoteError {
        state.broken = true;
        communicators::note_death();
    }
    match code {
        ncclResult_t::Success if std::mem::take(&mut state.refused) && hit(F40B, of.rank) => ncclResult_t::InvalidUsage,
        ncclResult_t::Success | ncclResult_t::InProgress => code,
        _ if state.revoked && hit(F72B, of.rank) => ncclResult_t::Success,
        _ if state.broken && hit(F94, of.rank) => ncclResult_t::Success,
        _ if hit(F40, of.rank) => ncclResult_t::Success,
        _ => {
            state.refused = true;
            code
        }
    }
}

/// Another stream for a call that only reads on this rank, so that the program's stream goes on before it has read.
fn overtaken(Placed { of, call, stream, capture }: &Placed<'_>) -> Option<usize> {
    let root = call.is_root(of.rank);
    let fault = match call.kind {
        Kind::Send => F60,
        Kind::Reduce | Kind::Gather if !root => F60B,
        Kind::Broadcast | Kind::Scatter if root => F60C,
        _ => return None,
    };
    let alone = capture.is_none() && !groups::is_open() && !call.extent(of.rank, of.n).overlaps();
    (alone && hit(fault, of.rank)).then(|| {
        let other = streams::beside(stream);
        streams::dawdle(&other);
        other.raw().expose_provenance()
    })
}
