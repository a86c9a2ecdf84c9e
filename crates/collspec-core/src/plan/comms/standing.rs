//! The calls that a rank may still make on a communicator that was finalized, revoked, suspended or shrunk with an abort.
use super::super::types::CommId;
use super::Comms;
use crate::ops::{CommOp, Kind, RegistrationOp};
use crate::scenario::Span;
use std::collections::BTreeSet;

/// The restrictions on a rank's use of a communicator, each with the step that caused it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    finalized: Option<Span>,
    revoked: Option<Span>,
    suspended: Option<Span>,
    /// A shrink has aborted its operations.
    aborted: Option<Span>,
    /// A non-blocking call may still be in progress.
    unfinished: Option<Span>,
    /// A call on it has failed, and because it is non-blocking it keeps the error.
    failed: Option<Span>,
    /// True if the rank has not created the communicator, or the call is the one that creates it.
    unmade: bool,
}

/// The result of a call on a restricted communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// NCCL accepts the call.
    Fine,
    /// NCCL documents that it returns an error.
    Fails { why: &'static str, code: &'static str, since: Option<Span> },
    /// NCCL leaves the behaviour undefined.
    Undefined { why: &'static str, since: Option<Span>, help: &'static str },
}

impl Standing {
    /// True if a shrink has aborted its operations.
    pub fn is_aborted(&self) -> bool {
        self.aborted.is_some()
    }

    /// The result of a call of this kind on the communicator in its current state.
    pub fn allows(&self, kind: &Kind) -> Use {
        let op = match kind {
            Kind::Comm(op) => Some(*op),
            // Captured steps of a graph are checked for each of its communicators.
            Kind::Map | Kind::Group | Kind::Loop | Kind::Host(_) | Kind::Graph(_) => return Use::Fine,
            Kind::Registration(RegistrationOp::Deregister) => return Use::Fine,
            _ => None,
        };
        let undefined = |why, since, help| Use::Undefined { why, since, help };
        if let (Some(_), None) = (self.unfinished, op.filter(|op| matches!(op, CommOp::Abort | CommOp::Init))) {
            let help = "it can only be aborted";
            return undefined("a call on this communicator was left in progress", self.unfinished, help);
        }
        let ignores_errors = |op: &CommOp| matches!(op, CommOp::Abort | CommOp::Init | CommOp::Revoke);
        if let (Some(_), None) = (self.failed, op.filter(ignores_errors)) {
            let why =
                "keeps the error of an earlier call, because it is non-blocking: it can only be revoked or aborted";
            return Use::Fails { why, code: "any", since: self.failed };
        }
        if let Some(CommOp::Destroy | CommOp::Abort | CommOp::Init) = op {
            return Use::Fine;
        }
        if self.aborted.is_some() {
            let help = "it can only be destroyed or aborted";
            return undefined("a shrink has aborted this communicator before", self.aborted, help);
        }
        if self.suspended.is_some() {
            return match op {
                Some(CommOp::Resume) => Use::Fine,
                Some(CommOp::Suspend) => {
                    Use::Fails { why: "is suspended already", code: "invalid_usage", since: self.suspended }
                }
                _ => undefined("this communicator is suspended", self.suspended, "resume it before"),
            };
        }
        if self.revoked.is_some() {
            let fails = |code| Use::Fails { why: "was revoked before", code, since: self.revoked };
            return match op {
                None => fails("invalid_usage"),
                Some(CommOp::Finalize | CommOp::Revoke) => fails("invalid_argument"),
                Some(CommOp::Split | CommOp::Shrink) => Use::Fine,
                _ => undefined(
                    "this communicator was revoked",
                    self.revoked,
                    "it can be split, shrunk, destroyed or aborted",
                ),
            };
        }
        if self.finalized.is_some() {
            let fails = |code| Use::Fails { why: "was finalized before", code, since: self.finalized };
            return match op {
                None => fails("invalid_usage"),
                Some(CommOp::Finalize | CommOp::Revoke) => fails("invalid_argument"),
                _ => {
                    undefined("this communicator was finalized", self.finalized, "it can only be destroyed or aborted")
                }
            };
        }
        match op {
            Some(CommOp::Resume) => Use::Fails { why: "is not suspended", code: "invalid_usage", since: None },
            _ => Use::Fine,
        }
    }
}

impl Comms {
    /// Records that a rank does not wait for the end of a call on a communicator, or of the call that creates it.
    pub fn leave_in_progress(&mut self, name: &str, rank: usize, at: Span, makes: bool) {
        if let Some(named) = self.named.get_mut(name) {
            named.standing[rank].unfinished = Some(at);
            named.standing[rank].unmade |= makes;
        }
    }

    /// Records that a call on a non-blocking communicator has failed. A revoked one does not check operations that thoroughly.
    pub fn keep_failure(&mut self, name: &str, rank: usize, op: Option<CommOp>, at: Span) {
        if let Some(named) = self.named.get_mut(name) {
            let standing = &mut named.standing[rank];
            if standing.revoked.is_none() || op.is_some() {
                standing.failed.get_or_insert(at);
            }
        }
    }

    /// The first call that was left in progress, or has failed for good, and whose communicator was not aborted, on ranks that
    /// `live` to the end; and the problem.
    pub fn left_to_abort(&self, live: impl Fn(usize) -> bool) -> Option<(Span, &'static str)> {
        let ranks = self.named.values().flat_map(|named| named.standing.iter().zip(&named.ended).enumerate());
        ranks
            .filter(|(rank, (_, ended))| ended.is_none() && live(*rank))
            .filter_map(|(_, (standing, _))| {
                let unfinished =
                    standing.unfinished.map(|at| (at, "a call is left in progress to the end of the case"));
                unfinished.or(standing.failed.map(|at| {
                    (at, "a non-blocking communicator keeps the error of this call, so it cannot be destroyed")
                }))
            })
            .min_by_key(|(at, _)| at.start)
    }

    /// The communicators that a rank has created and has not ended, aborted or revoked; the world is included even if no
    /// step uses it.
    pub fn in_use(&self, rank: usize) -> Vec<CommId> {
        let named = self.named.values().chain(self.groups.values());
        let used = named.filter_map(|named| {
            let Standing { aborted, revoked, unmade, .. } = named.standing[rank];
            let live = !unmade && [named.ended[rank], aborted, revoked].iter().all(Option::is_none);
            named.of[rank].filter(|_| live).map(|(comm, _)| comm)
        });
        used.collect::<BTreeSet<CommId>>().into_iter().collect()
    }

    /// Records what a rank has done to a communicator.
    pub fn note(&mut self, name: &str, rank: usize, op: CommOp, at: Span) {
        let Some(named) = self.named.get_mut(name) else { return };
        let standing = &mut named.standing[rank];
        match op {
            CommOp::Destroy | CommOp::Abort => named.ended[rank] = Some(at),
            CommOp::Finalize => standing.finalized = Some(at),
            CommOp::Revoke => (standing.revoked, standing.failed) = (Some(at), None),
            CommOp::Suspend => standing.suspended = Some(at),
            CommOp::Resume => standing.suspended = None,
            CommOp::Shrink => standing.aborted = Some(at),
            CommOp::Init | CommOp::Split | CommOp::Grow => {}
        }
    }
}
