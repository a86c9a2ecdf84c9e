//! The points at which the library can be made to behave wrongly.
//!
//! The default body of every method is the behaviour of a sound library. [`install`] replaces it for the process; the
//! engine, the groups and the C functions do not know the replacement.
#![allow(unsafe_code)] // what hooks must be promised

mod step;

pub(crate) use step::{Sound, StepHooks};

use super::{Member, Memory, Operation, Request, SignalKey, State};
use crate::algo::{Algorithm, Lane, Part, Protocol, Selection};
use crate::arith::Scalar;
use crate::device::Done;
use crate::failure::Outcome;
use crate::op::{Kind, Signature, Spec};
use nccl_sys::ncclResult_t;
use std::any::Any;
use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

static INSTALLED: OnceLock<&'static dyn Hooks> = OnceLock::new();

/// Sets the process's hooks. Later calls change nothing.
pub(crate) fn install(hooks: &'static dyn Hooks) {
    // Only the first call installs.
    let _ = INSTALLED.set(hooks);
}

/// The hooks of this process.
pub(crate) fn hooks() -> &'static dyn Hooks {
    INSTALLED.get().copied().unwrap_or(&Sound)
}

/// Memory that must stay allocated as long as tasks use its address.
pub(crate) type HeldMemory = Arc<dyn Any + Send + Sync>;

/// The effect of ending a group inside another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InnerGroupEnd {
    /// None: everything begins at the outermost end. This is what NCCL documents.
    Waits,
    /// The calls collected so far begin.
    Begins,
    /// The outer group ends as well.
    Ends,
}

/// A rank that takes part in a split.
pub(crate) struct SplitRank<'a> {
    /// Its number in the communicator that is split.
    pub rank: usize,
    pub color: &'a mut Option<i32>,
    pub key: &'a mut i32,
}

/// A rank of a communicator that is derived from another one with fewer or more ranks.
pub(crate) struct ChangedRank {
    /// Its number in the old one; `None` for a rank that joins.
    pub old: Option<usize>,
    /// Its number in the new one.
    pub new: usize,
    /// True if the rank gets a separate communicator of its own instead.
    pub lost: bool,
}

/// The way a communicator was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Created with an id.
    Id,
    Split,
    Shrink,
    /// Grown, for a rank that was there before.
    Grow,
}

/// The communicator of a group's requests.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    pub rank: usize,
    pub n: usize,
    pub origin: Origin,
    /// The devices of the communicator's ranks.
    pub devices: &'a [i32],
    /// Counts the rank's operations that are not finished.
    pub in_flight: &'a dyn Fn() -> usize,
    /// True if the group's first request was for another communicator.
    pub second: bool,
}

/// The fate of a group's requests on one communicator.
pub(crate) struct Requested {
    /// Requests that are repeated in a batch after this one.
    pub again: Vec<Request>,
    /// The hooks of the requests' batch.
    pub batch: Box<dyn BatchHooks>,
}

/// A node of a graph: the operations of one group on one communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphNode {
    /// Number of the capture.
    pub graph: u64,
    /// The node's number among the communicator's nodes in the graph.
    pub index: usize,
    pub rank: usize,
    pub n: usize,
}

/// The fate of operations that are captured.
#[derive(Default)]
pub(crate) struct Captured {
    /// Memory that must live as long as the graph.
    pub held: Vec<HeldMemory>,
    /// Operations that run at once, outside the stream.
    pub now: Vec<Request>,
}

/// An operation that starts, and its rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationContext {
    /// The rank's handle of the communicator.
    pub comm: usize,
    /// Number of the communicator in this process, the same for all its ranks.
    pub shared: u64,
    /// The operation's number in the communicator.
    pub sequence: u64,
    pub rank: usize,
    pub n: usize,
    /// Number of ranks of the original communicator that this one descends from, through all splits.
    pub world_size: usize,
    /// Number of elements per chunk.
    pub chunk: usize,
}

/// The way an operation starts.
pub(crate) enum Start {
    /// It runs, and this memory is held until its last task ends.
    Runs(Vec<HeldMemory>),
    /// It counts as done.
    Skipped,
    /// The operation never ends.
    Stalls,
}

/// Hooks of calls, and the source of all other hooks.
pub(crate) trait Hooks: Sync {
    /// Called before a communicator is created; the error refuses it.
    fn before_init(&self) -> Outcome<()> {
        Ok(())
    }

    /// The root or peer that the library uses for the one in the call.
    fn root(&self, _kind: Kind, root: c_int, _n: usize, _rank: usize) -> c_int {
        root
    }

    /// Returns an error if an operation may not use the null stream.
    fn check_null_stream(&self, _rank: usize) -> Outcome<()> {
        Ok(())
    }

    /// The result of reading a selection with `^`; `opposite` reads it without.
    fn negation(
        &self,
        sound: Result<Selection, String>,
        _opposite: &dyn Fn() -> Result<Selection, String>,
        _kind: Kind,
        _rank: usize,
    ) -> Result<Selection, String> {
        sound
    }

    /// True if a selection that cannot be met makes the call fail; `forced` is the call's own setting.
    fn forces(&self, forced: bool, _rank: usize) -> bool {
        forced
    }

    /// The end of a call without elements; `fine` is false if its selection cannot be met.
    fn unread_selection(&self, _fine: bool, _rank: usize) -> Outcome<()> {
        Ok(())
    }

    /// True if the variables that force an algorithm take precedence over the call's selection.
    fn variables_win(&self, _rank: usize, _kind: Kind, _variables: (Algorithm, Protocol), _asked: Selection) -> bool {
        true
    }

    /// True if a call with a configuration forgets its root.
    fn forgets_root(&self, _root: c_int, _rank: usize) -> bool {
        false
    }

    /// True if a call with a configuration treats its reduction as a sum.
    fn forgets_reduction(&self, _is_sum: bool, _rank: usize) -> bool {
        false
    }

    /// Checks that an operation, whose algorithm is chosen, may be enqueued.
    fn check_request(&self, _spec: &Spec, _rank: usize) -> Outcome<()> {
        Ok(())
    }

    /// Checks that a group without calls may end.
    fn check_empty_group(&self) -> Outcome<()> {
        Ok(())
    }

    /// The effect of an inner group's end; `has_operations` is true if the group has any operation so far.
    fn inner_group_end(&self, _has_operations: bool) -> InnerGroupEnd {
        InnerGroupEnd::Waits
    }

    /// True if [`CommHooks::outcome`] can change the answer of a call.
    fn changes_outcomes(&self) -> bool {
        false
    }

    /// The answer of `ncclCommCount`.
    fn comm_count(&self, member: &Member) -> usize {
        member.n
    }

    /// The answer of `ncclCommUserRank`.
    fn comm_rank(&self, member: &Member) -> c_int {
        member.rank as c_int
    }

    /// The answer of `ncclCommCuDevice`.
    fn comm_device(&self, member: &Member) -> c_int {
        member.device
    }

    /// The answer of `ncclCommGetAsyncError`; `None` leaves the caller's memory unchanged.
    fn async_error(&self, member: &Member) -> Option<ncclResult_t> {
        Some(member.error.unwrap_or(ncclResult_t::Success))
    }

    /// True if `ncclGetErrorString` has a text for this code.
    fn has_error_text(&self, _result: ncclResult_t) -> bool {
        true
    }

    /// True if `ncclGetLastError` answers with a text after a call has failed.
    fn has_last_error(&self) -> bool {
        true
    }

    /// The hooks of a new communicator of one rank.
    fn communicator(&self) -> Box<dyn CommHooks> {
        Box::new(Sound)
    }

    /// True if [`CommHooks::child_ends`] or [`CommHooks::parent_ends`] does anything.
    fn watches_ends(&self) -> bool {
        false
    }

    /// Called when all ranks of a split have arrived, in the order of their ranks.
    fn split<'a>(&self, _ranks: &mut dyn Iterator<Item = SplitRank<'a>>) {}

    /// Called when all ranks of a shrink or grow have arrived, in the order of their old numbers, then that of those that join.
    fn renumber(&self, _ranks: &mut [ChangedRank]) {}

    /// True if a shrink waits for the ranks that it leaves out.
    fn shrink_waits_for_all(&self, _rank: usize) -> bool {
        false
    }

    /// The number of ranks in a shrink's exclusion list that are read, from the first one on.
    fn read_of_exclusions(&self, list: &[c_int]) -> usize {
        list.len()
    }

    /// Checks that a rank may shrink a communicator.
    fn check_shrink(&self, _rank: usize) -> Outcome<()> {
        Ok(())
    }

    /// Called when a rank's part of a communicator that came from a shrink is destroyed, if [`Hooks::watches_ends`].
    fn shrunk_is_destroyed(&self) {}

    /// True if a non-blocking call is held back. `making` is true for a communicator that is being created and false for a live one;
    /// `polled` is true if the caller has asked for progress.
    fn holds_call(&self, _making: bool, _polled: bool) -> bool {
        false
    }

    /// True if a call that is in progress counts as over.
    fn hides_progress(&self, _rank: usize, _making: bool) -> bool {
        false
    }

    /// True if a revoke does not end the operations of the communicator.
    fn revoke_leaves_operations(&self, _member: &Member) -> bool {
        false
    }

    /// True if a revoked communicator accepts operations.
    fn revoke_lets_calls_pass(&self, _member: &Member) -> bool {
        false
    }

    /// True if a communicator of this rank does not notice that a process of it has ended.
    fn death_is_missed(&self, _rank: usize) -> bool {
        false
    }

    /// True if the end of a process breaks a communicator of this rank that the process has no part in.
    fn death_spreads(&self, _rank: usize) -> bool {
        false
    }

    /// True if a communicator accepts operations after a process of it has ended.
    fn death_is_forgotten(&self, _rank: usize) -> bool {
        false
    }

    /// Another communicator whose operations an abort of `comm` waits for.
    fn abort_waits_for(&self, _state: &State, _comm: usize) -> Option<usize> {
        None
    }

    /// The number of signals that an operation sends when it is over.
    fn signals_of(&self, _rank: usize, _spec: &Spec) -> u64 {
        1
    }

    /// True if a wait uses its signals up, so that the next wait needs others; `before` were used up already.
    fn consumes_signals(&self, _rank: usize, _before: u64) -> bool {
        true
    }

    /// The key by which a signal that this rank receives is counted.
    fn counted_as(&self, _rank: usize, key: SignalKey) -> SignalKey {
        key
    }

    /// The memory of a rank that a put writes, given all its windows of the communicator.
    fn put_memory(&self, _rank: usize, own: Memory, _all: &mut dyn Iterator<Item = Memory>) -> Memory {
        own
    }

    /// True if signals need a window first; asked where there is no window.
    fn signals_need_window(&self, _rank: usize) -> bool {
        true
    }

    /// The replacement for a context or a signal's index that is too large; `None` refuses the call.
    fn too_large_signal(&self, _rank: usize, _value: u32, _most: u32) -> Option<u32> {
        None
    }

    /// Called when memory has been registered.
    fn registered(&self, _comm: usize, _memory: Memory, _window: bool) {}

    /// Called when memory has been deregistered.
    ///
    /// # Safety
    /// The memory is still there.
    unsafe fn deregistered(&self, _comm: usize, _memory: Memory) {}

    /// The outcome of a registration that is returned to the caller.
    fn registration(&self, _rank: usize, outcome: Outcome<()>) -> Outcome<()> {
        outcome
    }

    /// True if a window may begin at any byte of its allocation; asked where it does not begin at a multiple of 4,096.
    fn takes_any_start(&self) -> bool {
        false
    }

    /// The block of memory that a caller receives for the allocated one; the latter is freed if they differ.
    fn given_block(&self, base: usize, _len: usize) -> usize {
        base
    }

    /// True if a block that a caller gives back is to be freed.
    fn is_free_block(&self, _base: usize) -> bool {
        true
    }

    /// The answer of `ncclWinGetUserPtr` for a window, or for none.
    fn window_pointer(&self, _rank: usize, memory: Option<Memory>) -> Outcome<usize> {
        Ok(memory.map_or(0, |memory| memory.base))
    }

    /// The bytes from a window's start at which a put writes.
    fn put_offset(&self, spec: &Spec) -> usize {
        spec.signal.offset
    }

    /// True if several threads may run tasks at the same time, and a channel's data may travel in several lanes.
    fn works_beside(&self) -> bool {
        true
    }

    /// Other lanes than those of the operation's algorithm.
    fn lanes(&self, _spec: &Spec, _part: Part) -> Option<Vec<Lane>> {
        None
    }

    /// The hooks of a new task's steps; `None` for a sound task.
    ///
    /// # Safety
    /// The hooks are used only while the operation runs, as long as its caller keeps the buffers that `spec` names.
    unsafe fn steps(
        &self,
        _context: &OperationContext,
        _spec: &Spec,
        _premul: Option<Scalar>,
    ) -> Option<Box<dyn StepHooks>> {
        None
    }
}

/// Hooks of one rank's communicator.
pub(crate) trait CommHooks: Send {
    /// Called when a group ends, with its requests on this communicator, before they get their numbers.
    fn requested(&mut self, _context: RequestContext<'_>, _requests: &mut [Request]) -> Requested {
        Requested { again: Vec::new(), batch: Box::new(Sound) }
    }

    /// Called when operations become a node of a graph. The requests may change.
    fn captured(&mut self, _node: GraphNode, _requests: &mut Vec<Request>) -> Captured {
        Captured::default()
    }

    /// Called when a graph with `total` nodes of this communicator is launched, for one of them, before the requests get
    /// their numbers; they may change. False leaves the node out.
    fn replayed(&mut self, _node: GraphNode, _total: usize, _requests: &mut Vec<Request>) -> bool {
        true
    }

    /// The algorithm of a call that leaves it to the library, on the communicator with this number in the process.
    fn automatic(&self, _rank: usize, _shared: u64, _spec: &Spec, chosen: Algorithm) -> Algorithm {
        chosen
    }

    /// The selection that a call is made with; `automatic` is the choice without one.
    fn selection(
        &mut self,
        _rank: usize,
        _kind: Kind,
        selection: Option<Selection>,
        _automatic: (Algorithm, Protocol),
    ) -> Option<Selection> {
        selection
    }

    /// The last node of this communicator in a graph is gone.
    fn released(&mut self, _graph: u64) {}

    /// Checks that the communicator accepts a new operation.
    fn check_work(&self, _rank: usize) -> Outcome<()> {
        Ok(())
    }

    /// The outcome of an operation on the communicator that is returned to the caller.
    fn outcome(&mut self, _rank: usize, outcome: Outcome<()>) -> Outcome<()> {
        outcome
    }

    /// The communicator was shrunk from one that had lost a rank.
    fn outlives(&mut self) {}

    /// The communicator was suspended and works again.
    fn resumed(&mut self) {}

    /// A communicator that was split from this one ends.
    fn child_ends(&mut self, _aborted: bool) {}

    /// The communicator that this one was split from ends.
    fn parent_ends(&mut self) {}
}

/// Hooks of the operations of one group on one communicator.
pub(crate) trait BatchHooks: Send {
    /// Gives operations other numbers than their order says.
    fn renumber(&mut self, _rank: usize, _operations: &mut [Operation]) {}

    /// True if the stream continues to its work after the batch before the batch begins. Called when the batch's only stream
    /// has reached it.
    fn lets_stream_pass(&mut self, _rank: usize, _operations: &[Operation], _done: &Done) -> bool {
        false
    }

    /// Called when the operation with this index in the batch starts; it may get other buffers, another scalar and another
    /// signature.
    ///
    /// # Safety
    /// The operation's stream has reached it and stays there until [`BatchHooks::end`], and its caller keeps the buffers
    /// that `spec` names until then.
    unsafe fn start(
        &mut self,
        _index: usize,
        _context: &OperationContext,
        _spec: &mut Spec,
        _signature: &mut Signature,
    ) -> Start {
        Start::Runs(Vec::new())
    }

    /// Called when all operations are finished, before their streams continue.
    fn end(&mut self, _dones: &[Done]) {}
}

impl Hooks for Sound {}
impl CommHooks for Sound {}
impl BatchHooks for Sound {}
