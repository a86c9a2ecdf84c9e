//! Calls of an NCCL library. Their errors name the function, the result code and the library's text.
#![allow(unsafe_code)] // the one place where the table's functions are called

use super::call::{CallError, CollectiveCall, CommHandle, CommSlot, TransferCall};
use super::call_config::CallConfig;
use super::config::CommConfig;
use super::device::Address;
use super::lent_memory::{self, LentMemory};
use crate::job::{Answer, Reached, Traffic};
use collspec_core::num::DType;
use collspec_core::ops::{ConfigValue, NcclCall};
use nccl_sys::*;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

type Result<T> = std::result::Result<T, CallError>;

/// The value before a library writes a number: it is not a valid rank, count, device, code or version.
const UNWRITTEN: i32 = i32::MIN;
/// Beginnings of the names of functions that make communicators.
const MAKES_COMMUNICATORS: [&str; 4] = ["ncclCommInit", "ncclCommSplit", "ncclCommShrink", "ncclCommGrow"];

/// The answer of a library function that writes a number.
fn answer(code: Result<ncclResult_t>, written: &i32) -> Answer {
    match code {
        Err(_) => Answer::Absent,
        Ok(ncclResult_t::Success) if *written == UNWRITTEN => Answer::Nothing,
        Ok(ncclResult_t::Success) => Answer::Is(*written),
        Ok(code) => Answer::Refused(code.0),
    }
}

/// A loaded NCCL library, or the software library.
pub struct Library {
    table: Nccl,
    version: i32,
    /// NCCL's text of the last error when the first communicator was made. Until then NCCL may have warned of a transport that this machine
    /// does not have, which is not the reason for a later error.
    text_before: OnceLock<String>,
}

/// Calls a function of the table; absent, it is an error.
macro_rules! call {
    ($self:ident, $name:ident($($arg:expr),*)) => {
        match $self.table.$name {
            // SAFETY: the arguments are addresses of the device that belongs to this library, handles that it made (or
            // null), or pointers to memory that outlives the call. If the library may use the memory after the call, it
            // also outlives the group around the call ([`lend`]). The library itself is under test and may do anything, so
            // it runs in a worker process.
            Some(f) => Ok(unsafe { f($($arg),*) }),
            None => Err($self.missing(stringify!($name))),
        }
    };
}

mod communicators;
mod one_sided;
mod parameters;
mod windows;

/// Keeps the memory that the library may still use after a call that creates a communicator; `unfinished` if the call continues.
fn lend(slot: &CommSlot, config: Option<Box<CommConfig>>, unfinished: bool) {
    let things = [Some(LentMemory::Slot(slot.clone())), config.map(LentMemory::Config)];
    lent_memory::lend(things.into_iter().flatten(), unfinished);
}

/// Keeps a list of ranks that the library may still read.
fn lend_list(list: Vec<i32>, unfinished: bool) {
    lent_memory::lend([LentMemory::Ranks(list)], unfinished);
}

/// Keeps unique ids that the library may still read.
fn lend_ids(ids: Vec<ncclUniqueId>, unfinished: bool) {
    lent_memory::lend([LentMemory::Ids(ids)], unfinished);
}

impl Library {
    /// The library of a table; its version is 0 if it cannot report one.
    pub fn new(table: Nccl) -> Self {
        let mut library = Self { table, version: 0, text_before: OnceLock::new() };
        let mut version = 0;
        if let Ok(ncclResult_t::Success) = call!(library, ncclGetVersion(&mut version)) {
            library.version = version;
        }
        library
    }

    /// NCCL's version code (2.30.7 is 23007).
    pub fn version(&self) -> i32 {
        self.version
    }
    /// The path that it was opened by.
    pub fn name(&self) -> &str {
        &self.table.library
    }
    /// The functions that it has.
    pub fn symbols(&self) -> Vec<&'static str> {
        self.table.present()
    }

    fn missing(&self, symbol: &'static str) -> CallError {
        CallError::Missing(self.table.missing(symbol, self.version))
    }

    /// True if a call that makes a communicator from another one continues after it has returned. The result alone does not show that:
    /// NCCL's `ncclCommSplit` returns success for a non-blocking communicator that it is still splitting.
    fn goes_on(&self, parent: CommHandle, made: &CommSlot, answer: ncclResult_t) -> bool {
        let asks = answer == ncclResult_t::Success && self.table.ncclCommGetAsyncError.is_some();
        let in_progress =
            |comm: CommHandle| comm != CommHandle::NULL && self.calls_are_over(comm).is_ok_and(|over| !over);
        let made = || !made.is_unset() && in_progress(made.get());
        answer == ncclResult_t::InProgress || asks && (in_progress(parent) || made())
    }

    /// Turns a result code into an error with the library's text.
    fn check(&self, function: &'static str, comm: CommHandle, code: ncclResult_t) -> Result<()> {
        let last_error = || self.owned_text(call!(self, ncclGetLastError(comm.0)).ok());
        if code == ncclResult_t::Success {
            if MAKES_COMMUNICATORS.iter().any(|maker| function.starts_with(maker)) {
                self.text_before.get_or_init(last_error);
            }
            return Ok(());
        }
        let mut text = self.owned_text(call!(self, ncclGetErrorString(code)).ok());
        let more = last_error();
        let is_of_before = self.text_before.get().is_some_and(|before| *before == more);
        if !more.is_empty() && more != text && !is_of_before && code != ncclResult_t::InProgress {
            text = if text.is_empty() { more } else { format!("{text}: {more}") };
        }
        Err(CallError::Failed { function, code, text })
    }

    /// The outcome of a call that ends a communicator: if that continues in the background, there is nothing left to ask about it.
    fn check_end(&self, function: &'static str, code: ncclResult_t) -> Result<()> {
        if code == ncclResult_t::InProgress { Ok(()) } else { self.check(function, CommHandle::NULL, code) }
    }

    fn owned_text(&self, text: Option<*const c_char>) -> String {
        match text {
            // SAFETY: NCCL's texts are static or last until its next call of the kind on this thread.
            Some(p) if !p.is_null() => unsafe { CStr::from_ptr(p) }.to_string_lossy().trim().to_owned(),
            _ => String::new(),
        }
    }

    /// A new id with which ranks find each other.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn unique_id(&self) -> Result<ncclUniqueId> {
        let mut id = ncclUniqueId { internal: [0; 128] };
        let code = call!(self, ncclGetUniqueId(&mut id))?;
        self.check("ncclGetUniqueId", CommHandle::NULL, code).map(|()| id)
    }

    /// Joins a new communicator.
    ///
    /// # Errors
    ///
    /// A configuration that NCCL does not have, a library that lacks the function, or an error that it returns.
    pub fn init_rank(
        &self,
        slot: &CommSlot,
        n: i32,
        id: ncclUniqueId,
        rank: i32,
        config: &[(String, ConfigValue)],
    ) -> Result<()> {
        let out = slot.0.as_ptr();
        if config.is_empty() {
            let code = call!(self, ncclCommInitRank(out, n, id, rank))?;
            lend(slot, None, code == ncclResult_t::InProgress);
            return self.check("ncclCommInitRank", CommHandle::NULL, code);
        }
        let mut config = Box::new(CommConfig::new(self.version, config)?);
        let code = call!(self, ncclCommInitRankConfig(out, n, id, rank, config.as_mut().as_mut()))?;
        lend(slot, Some(config), code == ncclResult_t::InProgress);
        self.check("ncclCommInitRankConfig", CommHandle::NULL, code)
    }

    /// Splits a communicator.
    ///
    /// # Errors
    ///
    /// A configuration that NCCL does not have, a library that lacks the function, or an error that it returns.
    pub fn split(
        &self,
        comm: CommHandle,
        color: i32,
        key: i32,
        slot: &CommSlot,
        config: &[(String, ConfigValue)],
    ) -> Result<()> {
        let mut given = if config.is_empty() { None } else { Some(Box::new(CommConfig::new(self.version, config)?)) };
        let config = given.as_mut().map_or(ptr::null_mut(), |c| c.as_mut().as_mut());
        let code = call!(self, ncclCommSplit(comm.0, color, key, slot.0.as_ptr(), config))?;
        lend(slot, given, self.goes_on(comm, slot, code));
        self.check("ncclCommSplit", comm, code)
    }

    /// Finishes the communicator's work.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn finalize(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommFinalize(comm.0))?;
        self.check("ncclCommFinalize", comm, code)
    }
    /// Frees the communicator.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn destroy(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommDestroy(comm.0))?;
        self.check_end("ncclCommDestroy", code)
    }
    /// Frees the communicator and ends its work.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn abort(&self, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclCommAbort(comm.0))?;
        self.check_end("ncclCommAbort", code)
    }
    /// The communicator's asynchronous error; `None` if the library lacks the function.
    ///
    /// # Errors
    ///
    /// The asynchronous error.
    pub fn async_error(&self, comm: CommHandle) -> Result<()> {
        if self.table.ncclCommGetAsyncError.is_none() {
            return Ok(());
        }
        // A value that the library did not write must not count as success.
        let mut state = ncclResult_t(UNWRITTEN);
        let code = call!(self, ncclCommGetAsyncError(comm.0, &mut state))?;
        self.check("ncclCommGetAsyncError", comm, code)?;
        match state {
            ncclResult_t::InProgress => Ok(()),
            state => self.check("asynchronous error", comm, state),
        }
    }
    /// The communicator's number of ranks, from the library.
    pub fn count(&self, comm: CommHandle) -> Answer {
        let mut count = UNWRITTEN;
        answer(call!(self, ncclCommCount(comm.0, &mut count)), &count)
    }
    /// This rank's number in the communicator, from the library.
    pub fn user_rank(&self, comm: CommHandle) -> Answer {
        let mut rank = UNWRITTEN;
        answer(call!(self, ncclCommUserRank(comm.0, &mut rank)), &rank)
    }
    /// The communicator's device, from the library.
    pub fn device(&self, comm: CommHandle) -> Answer {
        let mut device = UNWRITTEN;
        answer(call!(self, ncclCommCuDevice(comm.0, &mut device)), &device)
    }
    /// The code of the communicator's asynchronous error.
    pub fn error_code(&self, comm: CommHandle) -> Answer {
        let mut state = ncclResult_t(UNWRITTEN);
        let code = call!(self, ncclCommGetAsyncError(comm.0, &mut state));
        answer(code, &state.0)
    }
    /// The library's text for each of NCCL's codes; `None` for a null pointer. Empty if the library lacks the function.
    pub fn error_texts(&self) -> Vec<(i32, Option<String>)> {
        let text = |code: i32| {
            let text = call!(self, ncclGetErrorString(ncclResult_t(code))).ok()?;
            Some((code, (!text.is_null()).then(|| self.owned_text(Some(text)))))
        };
        (ncclResult_t::Success.0..=ncclResult_t::Timeout.0).filter_map(text).collect()
    }
    /// The version code that the library reports; `None` if it lacks the function.
    pub fn reported_version(&self) -> Option<i32> {
        let mut version = UNWRITTEN;
        let code = call!(self, ncclGetVersion(&mut version)).ok()?;
        Some(if code == ncclResult_t::Success { version } else { UNWRITTEN })
    }
    /// True if the library gives a null pointer for the text of the last error.
    pub fn lacks_error_text(&self) -> bool {
        matches!(call!(self, ncclGetLastError(ptr::null_mut())), Ok(text) if text.is_null())
    }
    /// Opens a group.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn group_start(&self) -> Result<()> {
        let code = call!(self, ncclGroupStart())?;
        if code == ncclResult_t::Success {
            lent_memory::group_opened();
        }
        self.check("ncclGroupStart", CommHandle::NULL, code)
    }
    /// Closes a group.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn group_end(&self) -> Result<()> {
        let code = call!(self, ncclGroupEnd())?;
        lent_memory::group_closed(code == ncclResult_t::InProgress);
        self.check("ncclGroupEnd", CommHandle::NULL, code)
    }

    /// Calls a collective.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn collective(&self, c: &CollectiveCall<'_>) -> Result<()> {
        let (send, recv) = (c.send.as_ptr().cast_const(), c.recv.as_ptr());
        let (count, dtype, op, root) = (c.count as usize, c.dtype.nccl(), c.op, c.root);
        let (comm, stream) = (c.comm.0, c.stream.raw());
        let config = c.algorithm.map(|algorithm| Box::new(CallConfig::new(self.version, algorithm)));
        let mut symbol = c.call.symbol();
        macro_rules! dispatch {
            (@ $function:ident () $($config:expr)?) => {
                call!(self, $function(send, recv, count, dtype, comm, stream $(, $config)?))?
            };
            (@ $function:ident (reduction) $($config:expr)?) => {
                call!(self, $function(send, recv, count, dtype, op, comm, stream $(, $config)?))?
            };
            (@ $function:ident (root) $($config:expr)?) => {
                call!(self, $function(send, recv, count, dtype, root, comm, stream $(, $config)?))?
            };
            (@ $function:ident (reduction, root) $($config:expr)?) => {
                call!(self, $function(send, recv, count, dtype, op, root, comm, stream $(, $config)?))?
            };
            ($($variant:ident $function:ident $with_config:ident $takes:tt $written:ident;)*) => {
                match c.call {
                    $(
                        NcclCall::$variant if config.is_some() && self.table.$with_config.is_some() => {
                            let config = config.as_ref().map_or(ptr::null(), |config| config.as_ptr());
                            symbol = c.call.symbol_with_config();
                            dispatch!(@ $with_config $takes config)
                        }
                        NcclCall::$variant if c.call.is_pairwise() && self.table.$function.is_none() => {
                            return self.pairwise(c);
                        }
                        NcclCall::$variant => dispatch!(@ $function $takes),
                    )*
                }
            };
        }
        let code = nccl_sys::collectives!(dispatch);
        lent_memory::lend(config.map(LentMemory::CallConfig), code == ncclResult_t::InProgress);
        self.check(symbol, c.comm, code)
    }
    /// The communicator's number of ranks, and this rank's number.
    pub(super) fn size_and_rank(&self, comm: CommHandle) -> Result<(i32, i32)> {
        let (mut n, mut rank) = (0, 0);
        let code = call!(self, ncclCommCount(comm.0, &mut n))?;
        self.check("ncclCommCount", comm, code)?;
        let code = call!(self, ncclCommUserRank(comm.0, &mut rank))?;
        self.check("ncclCommUserRank", comm, code)?;
        Ok((n, rank))
    }
    /// Calls ncclSend.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn send(&self, t: &TransferCall<'_>) -> Result<()> {
        let (ptr, count, dtype) = (t.ptr.as_ptr().cast_const(), t.count as usize, t.dtype.nccl());
        let code = call!(self, ncclSend(ptr, count, dtype, t.peer, t.comm.0, t.stream.raw()))?;
        self.check("ncclSend", t.comm, code)
    }
    /// Calls ncclRecv.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn recv(&self, t: &TransferCall<'_>) -> Result<()> {
        let (ptr, count, dtype) = (t.ptr.as_ptr(), t.count as usize, t.dtype.nccl());
        let code = call!(self, ncclRecv(ptr, count, dtype, t.peer, t.comm.0, t.stream.raw()))?;
        self.check("ncclRecv", t.comm, code)
    }

    /// Makes a sum whose inputs are multiplied by a scalar: its bytes, or its address on the device.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn premul_sum(
        &self,
        scalar: &[u8],
        device: Option<Address>,
        dtype: DType,
        comm: CommHandle,
    ) -> Result<ncclRedOp_t> {
        let mut op = ncclRedOp_t::Sum;
        // the library reads the number of bytes of the type, aligned
        let mut word = [0u64; 1];
        for (i, byte) in scalar.iter().take(8).enumerate() {
            word[0] |= u64::from(*byte) << (8 * i);
        }
        let (ptr, place) = match device {
            Some(address) => (address.as_ptr(), ncclScalarResidence_t::Device),
            None => (word.as_mut_ptr().cast::<c_void>(), ncclScalarResidence_t::HostImmediate),
        };
        let code = call!(self, ncclRedOpCreatePreMulSum(&mut op, ptr, dtype.nccl(), place, comm.0))?;
        self.check("ncclRedOpCreatePreMulSum", comm, code).map(|()| op)
    }
    /// Ends a reduction created by [`Library::premul_sum`].
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn end_op(&self, op: ncclRedOp_t, comm: CommHandle) -> Result<()> {
        let code = call!(self, ncclRedOpDestroy(op, comm.0))?;
        self.check("ncclRedOpDestroy", comm, code)
    }

    /// Counts the traffic of later calls on the communicator under `tag`. False if the library cannot count.
    pub fn count_traffic_under(&self, comm: CommHandle, tag: u32) -> bool {
        matches!(call!(self, collspecMark(comm.0, tag)), Ok(ncclResult_t::Success))
    }
    /// Gives the communicator the number by which [`Self::waiting_text`] calls it, if the library can.
    pub fn label(&self, comm: CommHandle, label: u32) {
        let _ = call!(self, collspecLabel(comm.0, label));
    }
    /// The traffic that was counted under `tag`, if the library can count.
    pub fn traffic(&self, comm: CommHandle, tag: u32) -> Option<Traffic> {
        let mut t = collspecTraffic_t::default();
        match call!(self, collspecTraffic(comm.0, tag, &mut t)) {
            Ok(ncclResult_t::Success) => {
                Some(Traffic { rounds: t.rounds, sent: t.sent, received: t.received, inner: t.inner })
            }
            _ => None,
        }
    }
    /// The activity of library and device, if the library can report one.
    pub fn activity(&self) -> Option<collspecCensus_t> {
        let mut census = collspecCensus_t::default();
        matches!(call!(self, collspecCensus(&mut census)), Ok(ncclResult_t::Success)).then_some(census)
    }
    /// Sets the function that is called when the library falls idle. False if it cannot.
    pub fn set_idle_hook(&self, hook: Option<extern "C" fn()>) -> bool {
        matches!(call!(self, collspecIdleHook(hook)), Ok(ncclResult_t::Success))
    }
    /// Requests a fault of the library from now on; an empty text requests none.
    ///
    /// # Errors
    ///
    /// The library does not have the fault, or has no faults on demand.
    pub fn request_fault(&self, fault: &str) -> std::result::Result<(), String> {
        let text = CString::new(fault).map_err(|_| "a fault with a zero in its name".to_owned())?;
        match call!(self, collspecFault(text.as_ptr())) {
            Ok(ncclResult_t::Success) => Ok(()),
            // a real library has no faults, and none have to be revoked
            Err(_) if fault.is_empty() => Ok(()),
            Ok(code) => Err(format!("the library does not know the fault `{fault}`: code {}", code.0)),
            Err(_) => Err(format!("the library has no fault on demand, so not `{fault}` either")),
        }
    }
    /// The faults that changed something, or would have, since the last call; empty if the library has no faults.
    pub fn faults_reached(&self) -> Reached {
        let mut words = Reached::default();
        match call!(self, collspecReached(words.as_mut_ptr(), words.len() as u64)) {
            Ok(ncclResult_t::Success) => words,
            _ => Reached::default(),
        }
    }
    /// The ranks that wait and the operations they wait for, as text; empty if the library cannot report them.
    pub fn waiting_text(&self) -> String {
        let mut text = vec![0u8; 64 << 10];
        match call!(self, collspecWhoWaits(text.as_mut_ptr().cast(), text.len() as u64)) {
            Ok(len) => {
                text.truncate(usize::try_from(len).unwrap_or(usize::MAX).min(text.len()));
                String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned()
            }
            Err(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests;
