//! The live communicators of this process, and the calls on them that are not over.
use super::channel::{ChannelKey, Reach};
use super::counts::{handle, number};
use super::member::{CommShared, Member, Spread, UserOp};
use super::waiting::{Ticket, is_in_background};
use crate::arith::Type;
use crate::failure::{Failure, Outcome};
use crate::op::PreMul;
use crate::transport::Name;
use crate::transport::wire::ChannelName;
use nccl_sys::{ncclComm_t, ncclResult_t};
use rustc_hash::FxHashMap;
use std::collections::HashMap;

/// The progress of the calls on a handle.
#[derive(Default)]
pub(super) struct Progress {
    /// Calls that are not over.
    pub running: usize,
    /// The reason the first failed call failed.
    pub failure: Option<Failure>,
    /// Host threads that wait for the end of all calls.
    pub waiting: Vec<Ticket>,
}

#[derive(Default)]
pub(crate) struct Comms {
    /// Those of single ranks, by handle. A handle is a number that is never used again.
    pub(crate) members: FxHashMap<usize, Member>,
    pub(super) shared: FxHashMap<u64, CommShared>,
    /// Communicators that span processes, by their names among these processes.
    pub(super) uids: HashMap<u128, u64>,
    /// Non-blocking calls that are not over, by handle.
    pub(super) progress: FxHashMap<usize, Progress>,
    /// Communicators of single ranks that must be stopped because another process is gone.
    pub(super) doomed: Vec<usize>,
}

impl Comms {
    /// Creates a communicator; returns one handle per rank.
    pub(super) fn create(&mut self, devices: &[i32]) -> Vec<usize> {
        let ranks: Vec<usize> = (0..devices.len()).collect();
        self.create_part(devices, &ranks, None).1
    }

    /// Creates this process's part of a communicator: the devices of all ranks, and its own ranks; returns its number and the
    /// handles.
    pub(super) fn create_part(
        &mut self,
        devices: &[i32],
        ranks: &[usize],
        spread: Option<Spread>,
    ) -> (u64, Vec<usize>) {
        let shared = number();
        self.uids.extend(spread.as_ref().map(|spread| (spread.uid, shared)));
        self.shared.insert(shared, CommShared::new(ranks.len(), devices.len(), spread));
        let own = ranks.iter().filter_map(|rank| devices.get(*rank).map(|device| (*rank, *device)));
        let handles = own.map(|(rank, device)| {
            let handle = handle();
            self.members.insert(handle, Member::new(shared, rank, devices.len(), device));
            handle
        });
        (shared, handles.collect())
    }

    /// The communicator that a handle refers to.
    pub(crate) fn member(&mut self, comm: ncclComm_t) -> Outcome<&mut Member> {
        if comm.is_null() {
            return Err(Failure::argument("the communicator is null"));
        }
        self.check_progress(comm as usize)?;
        self.members
            .get_mut(&(comm as usize))
            .ok_or_else(|| Failure::argument("no live communicator has this handle (destroyed, aborted or never made)"))
    }

    /// The connection of a communicator to other processes.
    pub(super) fn spread(&self, shared: u64) -> Option<&Spread> {
        self.shared.get(&shared)?.spread.as_ref()
    }

    pub(super) fn spread_mut(&mut self, shared: u64) -> Option<&mut Spread> {
        self.shared.get_mut(&shared)?.spread.as_mut()
    }

    /// The communicator with this name among processes, and its connection to them.
    pub(super) fn spread_of(&self, uid: u128) -> Option<(u64, &Spread)> {
        let shared = *self.uids.get(&uid)?;
        Some((shared, self.spread(shared)?))
    }

    /// The other process in which a rank lives.
    pub(super) fn place(&self, shared: u64, rank: usize) -> Option<Name> {
        self.shared.get(&shared)?.place(rank)
    }

    /// Where the ends of a channel are.
    pub(super) fn reach(&self, key: &ChannelKey) -> Reach {
        match (self.place(key.shared, key.source), self.place(key.shared, key.destination)) {
            (_, Some(there)) => Reach::To(there),
            (Some(there), None) => Reach::From(there),
            (None, None) => Reach::Here,
        }
    }

    pub(super) fn channel_name(&self, key: &ChannelKey) -> Option<ChannelName> {
        let uid = self.spread(key.shared)?.uid;
        let ChannelKey { sequence, source, destination, lane, signature, .. } = *key;
        Some(ChannelName { uid, sequence, source, destination, lane, signature })
    }

    /// The local key of a channel; `None` if its communicator no longer exists in this process.
    pub(super) fn channel_key(&self, name: &ChannelName) -> Option<ChannelKey> {
        let shared = *self.uids.get(&name.uid)?;
        let ChannelName { sequence, source, destination, lane, signature, .. } = *name;
        Some(ChannelKey { shared, sequence, source, destination, lane, signature })
    }

    /// True if a message on this channel can come from that process, to a rank that is `here` or has gone.
    pub(super) fn may_come_from(&self, from: Name, key: &ChannelKey, here: bool) -> bool {
        let Some(shared) = self.shared.get(&key.shared) else { return false };
        let ranks = shared.spread.as_ref().map_or(0, |spread| spread.places.len());
        let fits = shared.place(key.source) == Some(from) && key.destination < ranks;
        fits && (!here || shared.place(key.destination).is_none())
    }

    /// Gives a communicator the number by which messages call it.
    pub(crate) fn label(&mut self, comm: ncclComm_t, label: u32) -> Outcome<()> {
        let shared = self.member(comm)?.shared;
        if let Some(there) = self.shared.get_mut(&shared) {
            there.label = Some(label);
        }
        Ok(())
    }

    /// A communicator in messages: by its user's number, or by this library's own.
    pub(super) fn text(&self, shared: u64) -> String {
        match self.shared.get(&shared).and_then(|there| there.label) {
            Some(label) => format!("communicator #{label}"),
            None => format!("communicator {shared}"),
        }
    }

    /// Registers a user operator; its number is good for this communicator only and never used again.
    pub(crate) fn create_op(&mut self, comm: ncclComm_t, ty: Type, premul: PreMul) -> Outcome<i32> {
        let member = self.member(comm)?;
        let number = i32::try_from(number()).map_err(|_| Failure::internal("no operator numbers are left"))?;
        // 0 to 4 are NCCL's own.
        let number = number.saturating_add(5);
        member.user_ops.insert(number, UserOp { ty, premul });
        Ok(number)
    }

    pub(crate) fn destroy_op(&mut self, comm: ncclComm_t, number: i32) -> Outcome<()> {
        let gone = self.member(comm)?.user_ops.remove(&number);
        gone.map(|_| ()).ok_or_else(|| Failure::argument(format!("operator {number} is unknown to this communicator")))
    }

    /// Calls begin on these handles, which are those of live communicators or of some that are being created.
    pub(super) fn begin(&mut self, handles: &[usize]) {
        for handle in handles {
            self.progress.entry(*handle).or_default().running += 1;
        }
    }

    /// A call is over; answers the threads that wait for the end of all.
    pub(super) fn end(&mut self, handle: usize, outcome: Outcome<()>) -> Vec<Ticket> {
        let member_error = self.members.get(&handle).and_then(|member| member.error);
        let Some(progress) = self.progress.get_mut(&handle) else { return Vec::new() };
        progress.running = progress.running.saturating_sub(1);
        // Calls that met the end of another rank do not keep the communicator from being revoked or shrunk, however late they met it.
        if let Err(failure) = outcome
            && member_error != Some(failure.code)
        {
            progress.failure.get_or_insert(failure);
        }
        if progress.running > 0 {
            return Vec::new();
        }
        let waiting = std::mem::take(&mut progress.waiting);
        if progress.failure.is_none() {
            self.progress.remove(&handle);
        }
        waiting
    }

    /// Refuses a call on a communicator whose earlier calls are not over, or failed.
    fn check_progress(&self, comm: usize) -> Outcome<()> {
        let Some(progress) = self.progress.get(&comm).filter(|_| !is_in_background()) else { return Ok(()) };
        match &progress.failure {
            _ if progress.running > 0 => Err(Failure::argument(
                "the communicator's last call is still in progress: ncclCommGetAsyncError has to say that it is over first",
            )),
            Some(failure) => Err(failure.clone()),
            None => Ok(()),
        }
    }

    /// Keeps the reason a call on a communicator was refused. As in NCCL, a non-blocking one reports it from then on and refuses every
    /// call but an abort; a revoked one does not keep failures.
    pub(crate) fn keep_failure(&mut self, comm: usize, failure: &Failure) {
        let keeps =
            |member: &Member| member.config.nonblocking && !member.revoked && member.error != Some(failure.code);
        if failure.code == ncclResult_t::InProgress || !self.members.get(&comm).is_some_and(keeps) {
            return;
        }
        let progress = self.progress.entry(comm).or_default();
        if progress.running == 0 {
            progress.failure.get_or_insert_with(|| failure.clone());
        }
    }

    /// Forgets the error that a communicator keeps: NCCL allows a revoke in spite of it.
    pub(crate) fn forget_failure(&mut self, comm: usize) {
        let may_be_revoked = self.members.get(&comm).is_some_and(|member| !member.finalized && !member.revoked);
        if may_be_revoked && self.progress.get(&comm).is_some_and(|progress| progress.running == 0) {
            self.progress.remove(&comm);
        }
    }

    /// True if calls on a handle are not over, and it was not given up in the meantime.
    pub(crate) fn is_in_progress(&self, handle: usize) -> bool {
        self.progress.get(&handle).is_some_and(|progress| progress.running > 0)
    }

    /// The answer of `ncclCommGetAsyncError` on calls that are not over, or failed.
    pub(crate) fn progress_of(&self, comm: usize) -> Option<ncclResult_t> {
        let progress = self.progress.get(&comm)?;
        if progress.running > 0 {
            return Some(ncclResult_t::InProgress);
        }
        progress.failure.as_ref().map(|failure| failure.code)
    }

    /// Checks that a handle has something that can be aborted: a communicator, or one that is being created.
    pub(crate) fn check_abort(&mut self, comm: ncclComm_t) -> Outcome<()> {
        if self.progress.contains_key(&(comm as usize)) { Ok(()) } else { self.member(comm).map(|_| ()) }
    }

    /// Checks that a communicator can be destroyed: its calls are over, and no call has failed except the one that was to create it.
    pub(crate) fn check_destroy(&mut self, comm: ncclComm_t) -> Outcome<()> {
        let failed = |progress: &Progress| progress.running == 0 && progress.failure.is_some();
        let unmade = !self.members.contains_key(&(comm as usize));
        if unmade && self.progress.get(&(comm as usize)).is_some_and(failed) {
            Ok(())
        } else {
            self.member(comm).map(|_| ())
        }
    }

    /// Tokens and handles of the ranks that wait until all processes have created their part of a communicator.
    pub(super) fn take_waiting(&mut self, uid: u128) -> Vec<(u64, usize)> {
        let shared = self.uids.get(&uid).copied();
        let spread = shared.and_then(|shared| self.spread_mut(shared));
        spread.map(|spread| std::mem::take(&mut spread.waiting)).unwrap_or_default()
    }

    /// The rank's host threads that wait for the end of its operations, or for a connection of it.
    pub(super) fn take_tickets(&mut self, handle: usize) -> Vec<Ticket> {
        let Some(member) = self.members.get_mut(&handle) else { return Vec::new() };
        let mut tickets = std::mem::take(&mut member.flushes);
        tickets.append(&mut member.graphs.waits);
        tickets.extend(std::mem::take(&mut member.connects).into_iter().map(|(ticket, _)| ticket));
        tickets
    }
}
