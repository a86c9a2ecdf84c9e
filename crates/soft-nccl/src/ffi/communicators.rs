//! Making, splitting, asking and ending communicators.
#![allow(unsafe_code)] // exported C functions

use super::{begun, check, check_settings, enter, write};
use crate::device;
use crate::engine::{self, Arrival, lock};
use crate::failure::{Failure, Outcome};
use crate::group;
use crate::settings::CommConfig;
use crate::transport::id;
use nccl_sys::{NCCL_SPLIT_NOCOLOR, Nccl, ncclComm_t, ncclConfig_t, ncclResult_t, ncclUniqueId};
use std::ffi::{c_char, c_int};

fn check_id(id: &ncclUniqueId) -> Outcome<[u8; 128]> {
    id::check(id.internal.map(|byte| byte as u8))
}

unsafe extern "C" fn get_unique_id(id: *mut ncclUniqueId) -> ncclResult_t {
    enter(|| {
        let given = ncclUniqueId { internal: engine::public_id().map(|byte| byte as c_char) };
        // SAFETY: NCCL's contract: a place for an id.
        unsafe { write(id, given, "the unique id") }
    })
}

/// Adds a rank of a new communicator to the thread's group.
///
/// # Safety
/// `place` is null, or writable until the thread's outermost group has ended.
unsafe fn init(
    place: *mut ncclComm_t,
    n: c_int,
    id: [u8; 128],
    rank: c_int,
    device: c_int,
    config: CommConfig,
) -> Outcome<()> {
    check_settings()?;
    let size = usize::try_from(n).ok().filter(|n| *n > 0);
    let n = size.ok_or_else(|| Failure::argument(format!("a communicator cannot have {n} ranks")))?;
    let rank = check::rank(rank, n, "the rank")?;
    // SAFETY: the caller makes the same promise. The handle stays null if the call is refused.
    unsafe {
        write(place, std::ptr::null_mut(), "the communicator")?;
        group::make(Arrival::Init { id, rank, n, device, config, reserved: None }, place)
    }
}

unsafe extern "C" fn comm_init_rank(comm: *mut ncclComm_t, n: c_int, id: ncclUniqueId, rank: c_int) -> ncclResult_t {
    enter(|| {
        group::grouped(|| {
            let (id, device) = (check_id(&id)?, device::current(rank)?);
            // SAFETY: NCCL's contract: a place for a handle, valid until the group's end.
            unsafe { init(comm, n, id, rank, device, CommConfig::unset()) }
        })
    })
}

unsafe extern "C" fn comm_init_rank_config(
    comm: *mut ncclComm_t,
    n: c_int,
    id: ncclUniqueId,
    rank: c_int,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    enter(|| {
        group::grouped(|| {
            // SAFETY: NCCL's contract: null, or a configuration that begins with its own size; and a place for a handle, valid
            // until the group's end.
            unsafe {
                let config = check::config(config)?.unwrap_or_else(CommConfig::unset);
                init(comm, n, check_id(&id)?, rank, device::current(rank)?, config)
            }
        })
    })
}

unsafe extern "C" fn comm_init_rank_scalable(
    comm: *mut ncclComm_t,
    n: c_int,
    rank: c_int,
    count: c_int,
    ids: *mut ncclUniqueId,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    enter(|| {
        group::grouped(|| {
            let length = usize::try_from(count).ok().filter(|_| count <= n).filter(|count| *count > 0);
            let length = length.ok_or_else(|| {
                Failure::argument(format!("{count} unique ids cannot make a communicator of {n} ranks"))
            })?;
            if ids.is_null() {
                return Err(Failure::argument("the list of unique ids is null"));
            }
            // SAFETY: NCCL's contract: this many ids.
            let list = unsafe { std::slice::from_raw_parts(ids, length) };
            let checked = list.iter().map(check_id).collect::<Outcome<Vec<_>>>()?;
            // SAFETY: NCCL's contract: null, or a configuration that begins with its own size; and a place for a handle, valid
            // until the group's end.
            unsafe {
                let config = check::config(config)?.unwrap_or_else(CommConfig::unset);
                init(comm, n, id::of_several(&checked), rank, device::current(rank)?, config)
            }
        })
    })
}

unsafe extern "C" fn comm_init_all(comms: *mut ncclComm_t, n: c_int, devices: *const c_int) -> ncclResult_t {
    enter(|| {
        group::grouped(|| {
            let size = usize::try_from(n).ok().filter(|n| *n > 0);
            let size = size.ok_or_else(|| Failure::argument(format!("a communicator cannot have {n} ranks")))?;
            if comms.is_null() {
                return Err(Failure::argument("the place for the communicators is null"));
            }
            let id = id::private();
            // a communicator cannot exist without a device
            device::current(0)?;
            for rank in 0..size {
                // SAFETY: NCCL's contract: both arrays have `n` entries, `devices` may be null.
                let (place, device) = unsafe {
                    (comms.add(rank), if devices.is_null() { rank as c_int } else { devices.add(rank).read() })
                };
                if device < 0 {
                    return Err(Failure::argument(format!("there is no device {device}")));
                }
                // SAFETY: NCCL's contract: the entry is a place for a handle, valid until the group's end.
                unsafe { init(place, n, id, rank as c_int, device, CommConfig::unset())? };
            }
            Ok(())
        })
    })
}

unsafe extern "C" fn comm_split(
    comm: ncclComm_t,
    color: c_int,
    key: c_int,
    newcomm: *mut ncclComm_t,
    config: *mut ncclConfig_t,
) -> ncclResult_t {
    enter(|| {
        begun(group::grouped(|| {
            let parent = {
                let mut state = lock();
                let member = state.comms.member(comm)?;
                member.accept_split()?;
                member.config
            };
            let color = match color {
                NCCL_SPLIT_NOCOLOR => None,
                color if color >= 0 => Some(color),
                color => return Err(Failure::argument(format!("{color} is not a colour"))),
            };
            // A rank without a colour gets no communicator, and NCCL does not look at what it passes.
            // SAFETY: NCCL's contract: null, or a configuration that begins with its own size.
            let config = color.map_or(Ok(None), |_| unsafe { check::config(config) })?.unwrap_or(parent);
            // SAFETY: NCCL's contract: a place for a handle, valid until the group's end.
            unsafe {
                write(newcomm, std::ptr::null_mut(), "the new communicator")?;
                group::make(Arrival::Split { comm: comm as usize, color, key, config }, newcomm)
            }
        }))
    })
}

unsafe extern "C" fn comm_finalize(comm: ncclComm_t) -> ncclResult_t {
    enter(|| {
        if comm.is_null() {
            return Ok(());
        }
        let mut state = lock();
        let member = state.comms.member(comm)?;
        if member.finalized || member.revoked {
            let what = if member.revoked { "revoked, so it cannot be finalized" } else { "finalized before" };
            let failure = Failure::argument(format!("the communicator was {what}"));
            state.comms.keep_failure(comm as usize, &failure);
            return Err(failure);
        }
        member.finalized = true;
        let nonblocking = member.config.nonblocking;
        drop(state);
        let comm = comm as usize;
        engine::run(nonblocking, comm, move || engine::finalize(comm))
    })
}

unsafe extern "C" fn comm_destroy(comm: ncclComm_t) -> ncclResult_t {
    enter(|| {
        if comm.is_null() {
            return Ok(());
        }
        lock().comms.check_destroy(comm)?;
        engine::destroy(comm as usize)
    })
}

unsafe extern "C" fn comm_abort(comm: ncclComm_t) -> ncclResult_t {
    enter(|| {
        if comm.is_null() {
            return Ok(());
        }
        lock().comms.check_abort(comm)?;
        engine::abort(comm as usize);
        Ok(())
    })
}

unsafe extern "C" fn comm_get_async_error(comm: ncclComm_t, result: *mut ncclResult_t) -> ncclResult_t {
    enter(|| {
        let mut state = lock();
        let error = match state.comms.progress_of(comm as usize) {
            Some(code) => code,
            None => state.comms.member(comm)?.error.unwrap_or(ncclResult_t::Success),
        };
        drop(state);
        // SAFETY: NCCL's contract: a place for a result.
        unsafe { write(result, error, "the error") }
    })
}

unsafe extern "C" fn comm_count(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t {
    enter(|| {
        let n = lock().comms.member(comm)?.n as c_int;
        // SAFETY: NCCL's contract: a place for an int.
        unsafe { write(count, n, "the count") }
    })
}

unsafe extern "C" fn comm_cu_device(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t {
    enter(|| {
        let its = lock().comms.member(comm)?.device;
        // SAFETY: NCCL's contract: a place for an int.
        unsafe { write(device, its, "the device") }
    })
}

unsafe extern "C" fn comm_user_rank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t {
    enter(|| {
        let its = lock().comms.member(comm)?.rank as c_int;
        // SAFETY: NCCL's contract: a place for an int.
        unsafe { write(rank, its, "the rank") }
    })
}

pub(super) fn fill(table: &mut Nccl) {
    table.ncclGetUniqueId = Some(get_unique_id);
    table.ncclCommInitRank = Some(comm_init_rank);
    table.ncclCommInitRankConfig = Some(comm_init_rank_config);
    table.ncclCommInitRankScalable = Some(comm_init_rank_scalable);
    table.ncclCommInitAll = Some(comm_init_all);
    table.ncclCommSplit = Some(comm_split);
    table.ncclCommFinalize = Some(comm_finalize);
    table.ncclCommDestroy = Some(comm_destroy);
    table.ncclCommAbort = Some(comm_abort);
    table.ncclCommGetAsyncError = Some(comm_get_async_error);
    table.ncclCommCount = Some(comm_count);
    table.ncclCommCuDevice = Some(comm_cu_device);
    table.ncclCommUserRank = Some(comm_user_rank);
}
