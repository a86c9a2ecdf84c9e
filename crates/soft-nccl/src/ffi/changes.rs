//! Communicators that lose ranks, are revoked, or give up their memory for a while.
#![allow(unsafe_code)] // exported C functions

use super::{begun, check, enter, write};
use crate::device;
use crate::engine::{self, Arrival, lock};
use crate::failure::Failure;
use crate::group;
use crate::settings::CommConfig;
use crate::transport::id;
use nccl_sys::{
    NCCL_REVOKE_DEFAULT, NCCL_SHRINK_ABORT, NCCL_SHRINK_DEFAULT, NCCL_SUSPEND_MEM, Nccl, ncclComm_t, ncclCommMemStat_t,
    ncclConfig_t, ncclResult_t, ncclUniqueId,
};
use std::ffi::{c_char, c_int};

unsafe extern "C" fn comm_shrink(
    comm: ncclComm_t,
    exclude: *mut c_int,
    count: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
    flags: c_int,
) -> ncclResult_t {
    enter(|| {
        begun(group::grouped(|| {
            let parent = lock().comms.member(comm)?.config;
            let length = usize::try_from(count).ok().filter(|count| *count > 0);
            let length =
                length.ok_or_else(|| Failure::argument(format!("cannot exclude {count} ranks: expected 1 or more")))?;
            if exclude.is_null() {
                return Err(Failure::argument("the list of excluded ranks is null"));
            }
            if flags & !(NCCL_SHRINK_DEFAULT | NCCL_SHRINK_ABORT) != 0 {
                return Err(Failure::argument(format!("{flags} is not a valid set of shrink flags")));
            }
            // SAFETY: NCCL's contract: a list of this many numbers, which the library may sort.
            let list = unsafe { std::slice::from_raw_parts_mut(exclude, length) };
            list.sort_unstable();
            let without = lock().comms.check_shrink(comm, list)?;
            // SAFETY: NCCL's contract: null, or a configuration that begins with its own size.
            let config = unsafe { check::config(config)? }.unwrap_or(parent);
            if flags & NCCL_SHRINK_ABORT != 0 {
                engine::end_operations(comm as usize);
            }
            // SAFETY: NCCL's contract: a place for a handle, valid until the group's end.
            unsafe {
                write(newcomm, std::ptr::null_mut(), "the new communicator")?;
                group::make(Arrival::Shrink { comm: comm as usize, without, config }, newcomm)
            }
        }))
    })
}

unsafe extern "C" fn comm_get_unique_id(comm: ncclComm_t, id: *mut ncclUniqueId) -> ncclResult_t {
    enter(|| {
        let given = lock().id_of_growth(comm)?;
        // SAFETY: NCCL's contract: a place for an id.
        unsafe { write(id, ncclUniqueId { internal: given.map(|byte| byte as c_char) }, "the unique id") }
    })
}

unsafe extern "C" fn comm_grow(
    comm: ncclComm_t,
    n: c_int,
    id: *const ncclUniqueId,
    rank: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    enter(|| {
        begun(group::grouped(|| {
            let size = usize::try_from(n).ok().filter(|n| *n > 0);
            let size = size.ok_or_else(|| Failure::argument(format!("a communicator cannot have {n} ranks")))?;
            // SAFETY: NCCL's contract: null, or a configuration that begins with its own size.
            let config = unsafe { check::config(config)? };
            let arrival = if comm.is_null() {
                if id.is_null() {
                    return Err(Failure::argument("a rank that joins has no unique id"));
                }
                // SAFETY: NCCL's contract: a unique id, which may be unaligned.
                let id = unsafe { id.read_unaligned() }.internal.map(|byte| byte as u8);
                id::growth(&id)?;
                let rank = check::rank(rank, size, "the rank")?;
                let device = device::current(rank as c_int)?;
                let config = config.unwrap_or_else(CommConfig::unset);
                Arrival::Grow { comm: None, id, rank, n: size, device, config, reserved: None }
            } else {
                let mut state = lock();
                let member = state.comms.member(comm)?;
                member.accept_work()?;
                if rank != -1 {
                    return Err(Failure::argument(format!("an old rank passes -1 as its rank, not {rank}")));
                }
                if size <= member.n {
                    let text = format!("a communicator of {} ranks cannot grow to {size}", member.n);
                    return Err(Failure::argument(text));
                }
                let config = config.unwrap_or(member.config);
                let (rank, device) = (member.rank, member.device);
                Arrival::Grow { comm: Some(comm as usize), id: [0; 128], rank, n: size, device, config, reserved: None }
            };
            // SAFETY: NCCL's contract: a place for a handle, valid until the group's end.
            unsafe {
                write(newcomm, std::ptr::null_mut(), "the new communicator")?;
                group::make(arrival, newcomm)
            }
        }))
    })
}

unsafe extern "C" fn comm_revoke(comm: ncclComm_t, flags: c_int) -> ncclResult_t {
    enter(|| {
        if comm.is_null() {
            return Ok(());
        }
        if flags != NCCL_REVOKE_DEFAULT {
            return Err(Failure::argument(format!("{flags} is not a valid set of revoke flags")));
        }
        let nonblocking = {
            let mut state = lock();
            state.comms.forget_failure(comm as usize);
            state.comms.member(comm)?.config.nonblocking
        };
        let comm = comm as usize;
        engine::mark_revoked(comm)?;
        engine::run(nonblocking, comm, move || {
            engine::end_operations(comm);
            Ok(())
        })
    })
}

unsafe extern "C" fn comm_suspend(comm: ncclComm_t, flags: c_int) -> ncclResult_t {
    enter(|| {
        let mut state = lock();
        let member = state.comms.member(comm)?;
        if flags & NCCL_SUSPEND_MEM == 0 {
            return Ok(());
        }
        if member.suspended {
            let failure = Failure::usage("the communicator is suspended already");
            state.comms.keep_failure(comm as usize, &failure);
            return Err(failure);
        }
        member.suspended = true;
        Ok(())
    })
}

unsafe extern "C" fn comm_resume(comm: ncclComm_t) -> ncclResult_t {
    enter(|| {
        let mut state = lock();
        let member = state.comms.member(comm)?;
        if !member.suspended {
            let failure = Failure::usage("the communicator is not suspended");
            state.comms.keep_failure(comm as usize, &failure);
            return Err(failure);
        }
        member.suspended = false;
        Ok(())
    })
}

unsafe extern "C" fn comm_mem_stats(comm: ncclComm_t, stat: ncclCommMemStat_t, value: *mut u64) -> ncclResult_t {
    enter(|| {
        let memory = lock().comms.member(comm)?.memory();
        let number = match stat {
            ncclCommMemStat_t::GpuMemSuspend => memory.suspendable,
            ncclCommMemStat_t::GpuMemSuspended => u64::from(memory.suspended),
            ncclCommMemStat_t::GpuMemPersist => memory.persistent,
            ncclCommMemStat_t::GpuMemTotal => memory.suspendable + memory.persistent,
            other => return Err(Failure::argument(format!("there is no statistic {}", other.0))),
        };
        // SAFETY: NCCL's contract: a place for the number.
        unsafe { write(value, number, "the statistic") }
    })
}

pub(super) fn fill(table: &mut Nccl) {
    table.ncclCommShrink = Some(comm_shrink);
    table.ncclCommGetUniqueId = Some(comm_get_unique_id);
    table.ncclCommGrow = Some(comm_grow);
    table.ncclCommRevoke = Some(comm_revoke);
    table.ncclCommSuspend = Some(comm_suspend);
    table.ncclCommResume = Some(comm_resume);
    table.ncclCommMemStats = Some(comm_mem_stats);
}
