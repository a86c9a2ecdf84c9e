//! A communicator: the state that its ranks share, and that of one rank.
#![allow(unsafe_code)] // scalars of the caller are read

use super::State;
use super::capture::GraphNodes;
use super::hosts::Ticket;
use super::one_sided::OneSided;
use crate::arith::{Scalar, Type};
use crate::failure::{Failure, Outcome};
use crate::op::PreMul;
use crate::settings::{CommConfig, settings};
use crate::transport::terms::Connection;
use crate::transport::{Address, Name};
use nccl_sys::{collspecTraffic_t, ncclComm_t, ncclResult_t};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The state shared by all ranks of a communicator.
#[derive(Default)]
pub(super) struct CommShared {
    /// Ranks of this process that still have a handle.
    pub live: usize,
    /// Ranks of all processes.
    pub ranks: usize,
    /// The number by which its user calls it in messages.
    pub label: Option<u32>,
    /// The ranks that have reached each connection that is made at a first call.
    pub connections: BTreeMap<Connection, BTreeSet<usize>>,
    /// The connection to other processes, if the communicator spans several.
    pub spread: Option<Spread>,
}

/// A communicator's part in other processes.
pub(super) struct Spread {
    /// The communicator's name among processes.
    pub uid: u128,
    /// The process of each rank; `None` for this one.
    pub places: Vec<Option<Name>>,
    /// The other processes, those that have left included.
    pub peers: Vec<Name>,
    /// The other process that has rank 0, if it is another one.
    pub home: Option<Address>,
    /// Those that gave up their ranks in an orderly way.
    pub left: BTreeSet<Name>,
    /// Tokens and handles of ranks that wait until all processes have created their part.
    pub waiting: Vec<(u64, usize)>,
    /// It cannot work any more.
    pub failed: bool,
}

impl CommShared {
    /// The other process in which a rank lives.
    pub fn place(&self, rank: usize) -> Option<Name> {
        self.spread.as_ref().and_then(|spread| spread.places.get(rank).copied().flatten())
    }
}

/// An operator created by `ncclRedOpCreatePreMulSum`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserOp {
    pub ty: Type,
    pub premul: PreMul,
}

/// The communicator of one rank.
pub(crate) struct Member {
    pub shared: u64,
    pub rank: usize,
    pub n: usize,
    pub device: i32,
    /// Derived communicators inherit it unless they get their own.
    pub config: CommConfig,
    pub tag: u32,
    pub traffic: BTreeMap<u32, collspecTraffic_t>,
    /// Collectives enqueued so far.
    pub(super) collectives: u64,
    /// Sends enqueued so far, by peer.
    pub(super) sends: FxHashMap<usize, u64>,
    /// Receives enqueued so far, by peer.
    pub(super) receives: FxHashMap<usize, u64>,
    pub(super) splits: u64,
    /// Windows asked for so far.
    pub(crate) windows: u64,
    pub(super) one_sided: OneSided,
    /// Shrinks so far, by the ranks that they leave out.
    pub(super) shrinks: BTreeMap<Vec<usize>, u64>,
    /// Number of grows so far.
    pub(super) grows: u64,
    /// Number of batches that are not finished.
    pub(super) unfinished: usize,
    /// Host threads that wait for `unfinished` to be 0.
    pub(super) flushes: Vec<Ticket>,
    pub(super) graphs: GraphNodes,
    /// Host threads that wait for a connection.
    pub(super) connects: Vec<(Ticket, Connection)>,
    pub(crate) finalized: bool,
    pub(crate) revoked: bool,
    pub(crate) suspended: bool,
    pub(crate) error: Option<ncclResult_t>,
    user_ops: FxHashMap<i32, UserOp>,
}

impl State {
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
        let shared = self.number();
        self.uids.extend(spread.as_ref().map(|spread| (spread.uid, shared)));
        self.shared.insert(
            shared,
            CommShared { live: ranks.len(), ranks: devices.len(), label: None, connections: BTreeMap::new(), spread },
        );
        let mut handles = Vec::with_capacity(ranks.len());
        for (rank, device) in ranks.iter().filter_map(|rank| devices.get(*rank).map(|device| (rank, device))) {
            // Handles look like addresses but are not: a stale or foreign one is detected and never dereferenced.
            let handle = (self.number() as usize) << 6;
            let member = Member {
                shared,
                rank: *rank,
                n: devices.len(),
                device: *device,
                config: CommConfig::default(),
                tag: 0,
                traffic: BTreeMap::new(),
                collectives: 0,
                sends: FxHashMap::default(),
                receives: FxHashMap::default(),
                splits: 0,
                windows: 0,
                one_sided: OneSided::default(),
                shrinks: BTreeMap::new(),
                grows: 0,
                unfinished: 0,
                flushes: Vec::new(),
                graphs: GraphNodes::default(),
                connects: Vec::new(),
                finalized: false,
                revoked: false,
                suspended: false,
                error: None,
                user_ops: FxHashMap::default(),
            };
            self.members.insert(handle, member);
            handles.push(handle);
        }
        (shared, handles)
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
    pub(super) fn comm_text(&self, shared: u64) -> String {
        match self.shared.get(&shared).and_then(|there| there.label) {
            Some(label) => format!("communicator #{label}"),
            None => format!("communicator {shared}"),
        }
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

    /// Removes a rank's communicator; with the last rank go the channels.
    pub(crate) fn remove_member(&mut self, handle: usize) {
        let Some(member) = self.members.remove(&handle) else { return };
        self.forget_registrations(handle, member.shared, member.rank);
        self.forget_signals(member.shared, Some(member.rank));
        self.changed();
        for (ticket, _) in member.connects {
            self.answer(ticket, Err(Failure::usage("the communicator was destroyed meanwhile")));
        }
        if let Some(shared) = self.shared.get_mut(&member.shared) {
            shared.live = shared.live.saturating_sub(1);
            if shared.live == 0 {
                let spread = self.shared.remove(&member.shared).and_then(|shared| shared.spread);
                self.remove_channels(member.shared);
                self.forget_signals(member.shared, None);
                if let Some(spread) = spread {
                    self.leave(member.shared, &spread);
                }
            }
        }
    }

    /// Registers a user operator; its number is good for this communicator only and never used again.
    pub(crate) fn create_op(&mut self, comm: ncclComm_t, ty: Type, premul: PreMul) -> Outcome<i32> {
        self.member(comm)?;
        let number = i32::try_from(self.number()).map_err(|_| Failure::internal("no operator numbers are left"))?;
        // 0 to 4 are NCCL's own.
        let number = number.saturating_add(5);
        self.member(comm)?.user_ops.insert(number, UserOp { ty, premul });
        Ok(number)
    }

    pub(crate) fn destroy_op(&mut self, comm: ncclComm_t, number: i32) -> Outcome<()> {
        let gone = self.member(comm)?.user_ops.remove(&number);
        gone.map(|_| ()).ok_or_else(|| Failure::argument(format!("operator {number} is unknown to this communicator")))
    }
}

/// The device memory that a rank's communicator accounts for.
pub(crate) struct MemoryUse {
    /// Bytes that suspending releases.
    pub suspendable: u64,
    pub suspended: bool,
    /// Bytes that stay allocated.
    pub persistent: u64,
}

impl Member {
    /// The memory that NCCL would use on the device for this many ranks: the software library uses none on it.
    pub(crate) fn memory(&self) -> MemoryUse {
        const BOOKKEEPING: u64 = 64 << 10;
        let buffers = (settings().buffer_bytes as u64).saturating_mul(self.n as u64);
        MemoryUse { suspendable: buffers, suspended: self.suspended, persistent: BOOKKEEPING }
    }

    pub(crate) fn user_op(&self, number: i32) -> Option<UserOp> {
        self.user_ops.get(&number).copied()
    }

    /// Refuses new work on a communicator that does not accept any.
    pub(crate) fn accept_work(&self) -> Outcome<()> {
        if self.revoked {
            return Err(Failure::usage("the communicator was revoked"));
        }
        if self.suspended {
            return Err(Failure::usage("the communicator is suspended"));
        }
        self.accept_split()
    }

    /// Checks that a communicator may be shrunk, which is allowed even after a process with ranks of it is gone.
    pub(crate) fn accept_shrink(&self) -> Outcome<()> {
        if self.finalized {
            return Err(Failure::usage("the communicator was finalized: it can only be destroyed or aborted"));
        }
        Ok(())
    }

    /// Checks that a communicator may be split.
    pub(crate) fn accept_split(&self) -> Outcome<()> {
        if self.finalized {
            return Err(Failure::usage("the communicator was finalized: it can only be destroyed or aborted"));
        }
        if self.error == Some(ncclResult_t::RemoteError) {
            return Err(Failure::remote("a process with ranks of the communicator is gone"));
        }
        Ok(())
    }
}

/// Reads a scalar of device memory.
///
/// # Safety
/// `address` is readable for an element of the type.
pub(super) unsafe fn read_scalar(address: usize, ty: Type) -> Scalar {
    let mut scalar = Scalar::default();
    // SAFETY: the caller vouches for the source; the target is larger than any element.
    unsafe { std::ptr::copy_nonoverlapping(address as *const u8, scalar.as_mut_ptr(), ty.size()) };
    scalar
}
