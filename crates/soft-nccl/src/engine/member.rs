//! A communicator: the state that its ranks share, and that of one rank.
#![allow(unsafe_code)] // scalars of the caller are read

use super::signals::OneSided;
use super::waiting::Ticket;
use crate::arith::{Scalar, Type};
use crate::failure::{Failure, Outcome};
use crate::op::PreMul;
use crate::settings::{CommConfig, settings};
use crate::transport::terms::{Connection, Meeting};
use crate::transport::{Address, Name};
use nccl_sys::{collspecTraffic_t, ncclResult_t};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// The state shared by all ranks of a communicator.
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

impl Spread {
    /// The other process in which a rank lives.
    pub fn place(&self, rank: usize) -> Option<Name> {
        self.places.get(rank).copied().flatten()
    }
}

impl CommShared {
    /// A communicator of `ranks` ranks, of which `live` are in this process.
    pub fn new(live: usize, ranks: usize, spread: Option<Spread>) -> Self {
        Self { live, ranks, label: None, connections: BTreeMap::new(), spread }
    }

    /// The other process in which a rank lives.
    pub fn place(&self, rank: usize) -> Option<Name> {
        self.spread.as_ref()?.place(rank)
    }
}

/// An operator created by `ncclRedOpCreatePreMulSum`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserOp {
    pub ty: Type,
    pub premul: PreMul,
}

/// The nodes of graphs that a communicator has.
#[derive(Default)]
pub(crate) struct GraphNodes {
    pub(super) alive: usize,
    /// Host threads that wait until no node is left.
    pub(super) waits: Vec<Ticket>,
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
    /// How often it has met others for each purpose.
    pub(super) meetings: BTreeMap<Meeting, u64>,
    /// Windows asked for so far.
    pub(crate) windows: u64,
    pub(super) one_sided: OneSided,
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
    pub(super) user_ops: FxHashMap<i32, UserOp>,
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
    pub(super) fn new(shared: u64, rank: usize, n: usize, device: i32) -> Self {
        Self {
            shared,
            rank,
            n,
            device,
            config: CommConfig::default(),
            tag: 0,
            traffic: BTreeMap::new(),
            collectives: 0,
            sends: FxHashMap::default(),
            receives: FxHashMap::default(),
            meetings: BTreeMap::new(),
            windows: 0,
            one_sided: OneSided::default(),
            unfinished: 0,
            flushes: Vec::new(),
            graphs: GraphNodes::default(),
            connects: Vec::new(),
            finalized: false,
            revoked: false,
            suspended: false,
            error: None,
            user_ops: FxHashMap::default(),
        }
    }

    /// The number of meetings with this purpose so far, which becomes larger by one.
    pub(super) fn number(&mut self, meeting: &Meeting) -> u64 {
        let count = self.meetings.entry(meeting.clone()).or_default();
        *count += 1;
        *count - 1
    }

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
