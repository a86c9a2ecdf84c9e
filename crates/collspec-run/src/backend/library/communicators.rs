//! Calls that change communicators: shrink, grow, revoke, suspend and resume.
use super::{CommHandle, CommSlot, Library, Result, lend};
use crate::backend::config::CommConfig;
use crate::job::MemoryAnswer;
use collspec_core::ops::ConfigValue;
use nccl_sys::*;
use std::ptr;

/// The configuration as NCCL takes it; `None` if no field is set.
fn given(version: i32, config: &[(String, ConfigValue)]) -> Result<Option<Box<CommConfig>>> {
    if config.is_empty() { Ok(None) } else { Ok(Some(Box::new(CommConfig::new(version, config)?))) }
}

impl Library {
    /// Makes a communicator of the ranks of another one that are not excluded.
    ///
    /// # Errors
    ///
    /// A configuration that NCCL does not have, a library that lacks the function, or an error that it returns.
    pub fn shrink(
        &self,
        comm: CommHandle,
        exclude: &[i32],
        abort: bool,
        slot: &CommSlot,
        config: &[(String, ConfigValue)],
    ) -> Result<()> {
        let mut given = given(self.version, config)?;
        let config = given.as_mut().map_or(ptr::null_mut(), |c| c.as_mut().as_mut());
        // The library may sort the list in place.
        let mut exclude = exclude.to_vec();
        let count = i32::try_from(exclude.len()).unwrap_or(i32::MAX);
        let list = if exclude.is_empty() { ptr::null_mut() } else { exclude.as_mut_ptr() };
        let flags = if abort { NCCL_SHRINK_ABORT } else { NCCL_SHRINK_DEFAULT };
        let code = call!(self, ncclCommShrink(comm.0, list, count, slot.0.as_ptr(), config, flags))?;
        let unfinished = self.goes_on(comm, slot, code);
        lend(slot, given, unfinished);
        super::lend_list(exclude, unfinished);
        self.check("ncclCommShrink", comm, code)
    }

    /// Joins a new communicator that is created by several ids.
    ///
    /// # Errors
    ///
    /// A configuration that NCCL does not have, a library that lacks the function, or an error that it returns.
    pub fn init_rank_scalable(
        &self,
        slot: &CommSlot,
        n: i32,
        mut ids: Vec<ncclUniqueId>,
        rank: i32,
        config: &[(String, ConfigValue)],
    ) -> Result<()> {
        let mut given = given(self.version, config)?;
        let config = given.as_mut().map_or(ptr::null_mut(), |c| c.as_mut().as_mut());
        let count = i32::try_from(ids.len()).unwrap_or(i32::MAX);
        let (out, list) = (slot.0.as_ptr(), ids.as_mut_ptr());
        let code = call!(self, ncclCommInitRankScalable(out, n, rank, count, list, config))?;
        let unfinished = code == ncclResult_t::InProgress;
        lend(slot, given, unfinished);
        super::lend_ids(ids, unfinished);
        self.check("ncclCommInitRankScalable", CommHandle::NULL, code)
    }

    /// A unique id with which ranks join a live communicator.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn unique_id_of(&self, comm: CommHandle) -> Result<ncclUniqueId> {
        let mut id = ncclUniqueId { internal: [0; 128] };
        let code = call!(self, ncclCommGetUniqueId(comm.0, &mut id))?;
        self.check("ncclCommGetUniqueId", comm, code).map(|()| id)
    }

    /// Makes a communicator with more ranks: a rank of `comm` passes no id and -1 as its rank, any other a null communicator.
    ///
    /// # Errors
    ///
    /// A configuration that NCCL does not have, a library that lacks the function, or an error that it returns.
    pub fn grow(
        &self,
        comm: CommHandle,
        n: i32,
        id: Option<ncclUniqueId>,
        rank: i32,
        slot: &CommSlot,
        config: &[(String, ConfigValue)],
    ) -> Result<()> {
        let mut given = given(self.version, config)?;
        let config = given.as_mut().map_or(ptr::null_mut(), |c| c.as_mut().as_mut());
        let ids: Vec<ncclUniqueId> = id.into_iter().collect();
        let place = ids.first().map_or(ptr::null(), ptr::from_ref);
        let code = call!(self, ncclCommGrow(comm.0, n, place, rank, slot.0.as_ptr(), config))?;
        let unfinished = self.goes_on(comm, slot, code);
        lend(slot, given, unfinished);
        super::lend_ids(ids, unfinished);
        self.check("ncclCommGrow", comm, code)
    }

    /// True once the calls on a communicator that were in progress are over.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or one of the calls has failed.
    pub fn calls_are_over(&self, comm: CommHandle) -> Result<bool> {
        let mut state = ncclResult_t(super::UNWRITTEN);
        let code = call!(self, ncclCommGetAsyncError(comm.0, &mut state))?;
        self.check("ncclCommGetAsyncError", comm, code)?;
        if state == ncclResult_t::InProgress {
            return Ok(false);
        }
        self.check("a call that was in progress", comm, state).map(|()| true)
    }

    /// Waits until the calls on a communicator that are in progress are over. False if the library cannot wait for them.
    pub fn await_calls(&self, comm: CommHandle) -> bool {
        matches!(call!(self, collspecAwait(comm.0)), Ok(ncclResult_t::Success))
    }

    /// Ends the communicator's operations; later ones are refused.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn revoke(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommRevoke(comm.0, NCCL_REVOKE_DEFAULT))?;
        self.check("ncclCommRevoke", comm, code)
    }

    /// Releases the communicator's device memory until [`Self::resume`].
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn suspend(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommSuspend(comm.0, NCCL_SUSPEND_MEM))?;
        self.check("ncclCommSuspend", comm, code)
    }

    /// One of the communicator's memory statistics; `None` if the library does not provide any.
    pub fn memory_statistic(&self, comm: CommHandle, stat: ncclCommMemStat_t) -> Option<MemoryAnswer> {
        // A value that no real amount of memory reaches.
        const UNWRITTEN: u64 = u64::MAX;
        let mut value = UNWRITTEN;
        let code = call!(self, ncclCommMemStats(comm.0, stat, &mut value)).ok()?;
        Some(match code {
            ncclResult_t::Success if value == UNWRITTEN => MemoryAnswer::Nothing,
            ncclResult_t::Success => MemoryAnswer::Is(value),
            code => MemoryAnswer::Refused(code.0),
        })
    }

    /// Takes the communicator's device memory again.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn resume(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommResume(comm.0))?;
        self.check("ncclCommResume", comm, code)
    }
}
