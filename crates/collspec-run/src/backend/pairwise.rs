//! all_to_all, gather and scatter for libraries without calls for them (before 2.28): one group of sends and receives, as
//! NCCL's user guide suggests.
use super::call::{CallError, CollectiveCall, TransferCall};
use super::device::Address;
use super::library::Library;
use collspec_core::ops::NcclCall;

impl Library {
    /// Makes the call as a group. The sends and receives check root and null pointers.
    pub(super) fn pairwise(&self, c: &CollectiveCall<'_>) -> Result<(), CallError> {
        let (n, rank) = self.size_and_rank(c.comm)?;
        let bytes = c.count.saturating_mul(c.dtype.size() as u64);
        let piece = |base: Address, i: i32| base.plus(bytes.saturating_mul(u64::from(i.unsigned_abs())));
        let transfer = |ptr: Address, peer: i32| TransferCall {
            ptr,
            count: c.count,
            dtype: c.dtype,
            peer,
            comm: c.comm,
            stream: c.stream,
        };
        self.group_start()?;
        let enqueued = match c.call {
            NcclCall::AlltoAll => (0..n).try_for_each(|peer| {
                self.send(&transfer(piece(c.send, peer), peer))?;
                self.recv(&transfer(piece(c.recv, peer), peer))
            }),
            NcclCall::Gather => self.send(&transfer(c.send, c.root)).and_then(|()| {
                let mut from = if rank == c.root { 0..n } else { 0..0 };
                from.try_for_each(|peer| self.recv(&transfer(piece(c.recv, peer), peer)))
            }),
            NcclCall::Scatter => {
                let mut to = if rank == c.root { 0..n } else { 0..0 };
                let sent = to.try_for_each(|peer| self.send(&transfer(piece(c.send, peer), peer)));
                sent.and_then(|()| self.recv(&transfer(c.recv, c.root)))
            }
            _ => Ok(()),
        };
        // the group is closed whatever was refused in it; the refusal is the answer then
        let ended = self.group_end();
        enqueued.and(ended)
    }
}
