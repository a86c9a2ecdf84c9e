//! The hooks of a library that is wrong in the way it is asked to be.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::communicators::{self, Comm};
use super::named::{F40, F40B, F63, F63B, F63C, F70D};
use super::site::Site;
use super::{
    CONFIGURED, FaultMode, blocks, calls, changes, deaths, mode, one_sided, order, prepare, registration, selections,
    wanted,
};
use crate::algo::{Algorithm, Lane, Part, Protocol, Selection};
use crate::arith::Scalar;
use crate::engine::hooks::{ChangedRank, CommHooks, Hooks, InnerGroupEnd, OperationContext, SplitRank, StepHooks};
use crate::engine::{Member, Memory, SignalKey, State};
use crate::failure::{Failure, Outcome};
use crate::op::{Kind, Spec};
use nccl_sys::ncclResult_t;
use std::ffi::c_int;

pub(super) struct Injector;

impl Hooks for Injector {
    fn before_init(&self) -> Outcome<()> {
        prepare();
        let error = |error| Failure::usage(format!("COLLSPEC_SOFT_FAULT: {error}"));
        CONFIGURED.as_ref().map(|_| ()).map_err(error)
    }

    fn root(&self, kind: Kind, root: c_int, n: usize, rank: usize) -> c_int {
        calls::root(kind, root, n, rank)
    }

    fn check_null_stream(&self, rank: usize) -> Outcome<()> {
        calls::null_stream(rank)
    }

    fn negation(
        &self,
        sound: Result<Selection, String>,
        opposite: &dyn Fn() -> Result<Selection, String>,
        kind: Kind,
        rank: usize,
    ) -> Result<Selection, String> {
        selections::negation(sound, opposite, kind, rank)
    }

    fn forces(&self, forced: bool, rank: usize) -> bool {
        selections::forces(forced, rank)
    }

    fn unread_selection(&self, fine: bool, rank: usize) -> Outcome<()> {
        selections::unread(fine, rank)
    }

    fn variables_win(&self, rank: usize, kind: Kind, variables: (Algorithm, Protocol), asked: Selection) -> bool {
        selections::variables_win(rank, kind, variables, asked)
    }

    fn forgets_root(&self, root: c_int, rank: usize) -> bool {
        selections::forgets_root(root, rank)
    }

    fn forgets_reduction(&self, is_sum: bool, rank: usize) -> bool {
        selections::forgets_reduction(is_sum, rank)
    }

    fn check_request(&self, spec: &Spec, rank: usize) -> Outcome<()> {
        blocks::demands(spec, rank)
    }

    fn check_empty_group(&self) -> Outcome<()> {
        calls::empty_group()
    }

    fn inner_group_end(&self, has_operations: bool) -> InnerGroupEnd {
        calls::inner_group_end(has_operations)
    }

    fn changes_outcomes(&self) -> bool {
        wanted(F40) || wanted(F40B)
    }

    fn comm_count(&self, member: &Member) -> usize {
        deaths::count(member).unwrap_or_else(|| calls::count(member))
    }

    fn comm_rank(&self, member: &Member) -> c_int {
        changes::old_rank(member).unwrap_or_else(|| calls::rank(member))
    }

    fn comm_device(&self, member: &Member) -> c_int {
        calls::device(member)
    }

    fn async_error(&self, member: &Member) -> Option<ncclResult_t> {
        let error = communicators::async_error(member.rank, deaths::error(member.rank, member.error));
        calls::writes_async_error(member).then_some(error)
    }

    fn has_error_text(&self, result: ncclResult_t) -> bool {
        !calls::lacks_text(result)
    }

    fn has_last_error(&self) -> bool {
        !calls::lacks_last_error()
    }

    fn communicator(&self) -> Box<dyn CommHooks> {
        Box::new(Comm::default())
    }

    fn watches_ends(&self) -> bool {
        [F63, F63B, F63C, F70D].into_iter().any(wanted)
    }

    fn split<'a>(&self, ranks: &mut dyn Iterator<Item = SplitRank<'a>>) {
        communicators::misjudge(ranks);
    }

    fn renumber(&self, ranks: &mut [ChangedRank]) {
        changes::renumber(ranks);
    }

    fn shrink_waits_for_all(&self, rank: usize) -> bool {
        changes::shrink_waits_for_all(rank)
    }

    fn read_of_exclusions(&self, list: &[c_int]) -> usize {
        changes::read_of_exclusions(list)
    }

    fn check_shrink(&self, rank: usize) -> Outcome<()> {
        changes::check_shrink(rank)
    }

    fn shrunk_is_destroyed(&self) {
        changes::shrunk_is_destroyed();
    }

    fn holds_call(&self, making: bool, polled: bool) -> bool {
        changes::holds_call(making, polled)
    }

    fn hides_progress(&self, rank: usize, making: bool) -> bool {
        changes::hides_progress(rank, making)
    }

    fn revoke_leaves_operations(&self, member: &Member) -> bool {
        changes::revoke_leaves_operations(member)
    }

    fn revoke_lets_calls_pass(&self, member: &Member) -> bool {
        changes::revoke_lets_calls_pass(member)
    }

    fn death_is_missed(&self, rank: usize) -> bool {
        deaths::is_missed(rank)
    }

    fn death_spreads(&self, rank: usize) -> bool {
        deaths::spreads(rank)
    }

    fn death_is_forgotten(&self, rank: usize) -> bool {
        deaths::is_forgotten(rank)
    }

    fn abort_waits_for(&self, state: &State, comm: usize) -> Option<usize> {
        communicators::abort_waits_for(state, comm)
    }

    fn signals_of(&self, rank: usize, spec: &Spec) -> u64 {
        one_sided::signals(rank, spec)
    }

    fn consumes_signals(&self, rank: usize, before: u64) -> bool {
        one_sided::consumes(rank, before)
    }

    fn counted_as(&self, rank: usize, key: SignalKey) -> SignalKey {
        one_sided::counted_as(rank, key)
    }

    fn put_offset(&self, spec: &Spec) -> usize {
        one_sided::put_offset(spec)
    }

    fn put_memory(&self, rank: usize, own: Memory, all: &mut dyn Iterator<Item = Memory>) -> Memory {
        one_sided::put_memory(rank, own, all)
    }

    fn signals_need_window(&self, rank: usize) -> bool {
        one_sided::needs_window(rank)
    }

    fn too_large_signal(&self, rank: usize, value: u32, most: u32) -> Option<u32> {
        one_sided::too_large(rank, value, most)
    }

    fn registered(&self, comm: usize, memory: Memory, window: bool) {
        registration::registered(comm, memory, window);
    }

    unsafe fn deregistered(&self, comm: usize, memory: Memory) {
        // SAFETY: the caller makes the same promise.
        unsafe { registration::deregistered(comm, memory) };
    }

    fn registration(&self, rank: usize, outcome: Outcome<()>) -> Outcome<()> {
        registration::outcome(rank, outcome)
    }

    fn takes_any_start(&self) -> bool {
        registration::takes_any_start()
    }

    fn given_block(&self, base: usize, len: usize) -> usize {
        registration::given(base, len)
    }

    fn is_free_block(&self, base: usize) -> bool {
        registration::is_free(base)
    }

    fn window_pointer(&self, rank: usize, memory: Option<Memory>) -> Outcome<usize> {
        registration::pointer(rank, memory)
    }

    fn works_beside(&self) -> bool {
        // Faults count steps, and depend on earlier ones.
        mode() == FaultMode::Sound
    }

    fn lanes(&self, spec: &Spec, part: Part) -> Option<Vec<Lane>> {
        order::lanes(spec, part)
    }

    unsafe fn steps(
        &self,
        context: &OperationContext,
        spec: &Spec,
        premul: Option<Scalar>,
    ) -> Option<Box<dyn StepHooks>> {
        // SAFETY: the caller makes the same promise.
        let site = unsafe { Site::new(*context, spec, premul) };
        site.map(|site| site as Box<dyn StepHooks>)
    }
}
