//! Misbehaviour at the right moments.
use crate::faults::{Fault, wanted};
use crate::log::warn;
use crate::table;
use nccl_sys::{cudaStream_t, ncclComm_t, ncclDataType_t, ncclResult_t};
use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

const WORKS: ncclResult_t = ncclResult_t::Success;

/// What kind of call it is: faults are aimed at kinds.
pub(crate) enum Moment {
    /// Making a communicator, for this rank where the call says it.
    Init(Option<c_int>),
    /// Enqueueing an operation.
    Operation(ncclComm_t, cudaStream_t),
    Destroy(ncclComm_t),
    Abort(ncclComm_t),
    Other,
}

/// The bytes that an operation writes, less all but the first element.
#[derive(Clone, Copy)]
struct Target {
    last_byte: usize,
    stream: usize,
}

#[derive(Default)]
struct Group {
    depth: usize,
    targets: Vec<Target>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}
/// An operation was enqueued: from now on an asynchronous error is due.
static ENQUEUED: AtomicBool = AtomicBool::new(false);

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Ends the process as a wild pointer would.
fn crash() -> ! {
    // SAFETY: no pointers are involved. The default action, because a handler may be in place that goes on.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::raise(libc::SIGSEGV);
    }
    std::process::abort()
}

/// The communicator's rank, if it is one.
fn rank_of(comm: ncclComm_t) -> Option<c_int> {
    let mut rank = 0;
    // SAFETY: the library checks the handle; a place for a number.
    let code = table().ncclCommUserRank.map(|f| unsafe { f(comm, &mut rank) });
    (code == Some(WORKS)).then_some(rank)
}

/// The faults that are for a rank.
fn meant(rank: impl Fn() -> Option<c_int>) -> impl Iterator<Item = Fault> {
    let demands = wanted().unwrap_or_default();
    demands.iter().filter(move |demand| demand.rank.is_none() || demand.rank == rank()).map(|demand| demand.fault)
}

/// An answer that was asked for, and NCCL's word on it.
fn error(fault: &str, code: c_int) -> ncclResult_t {
    warn(&format!("{fault}: this call was asked to answer {code}"));
    ncclResult_t(code)
}

/// A hold on the stream that never ends.
fn stop_stream(stream: cudaStream_t) -> ncclResult_t {
    // SAFETY: the stream is the one of the call at hand, or null.
    unsafe { soft_nccl::device::launch(stream, Box::new(std::mem::forget)) }
}

/// What goes wrong before a call; the answer it gives instead, if it gives one.
pub(crate) fn before(moment: &Moment) -> Option<ncclResult_t> {
    if wanted().is_err() {
        return Some(ncclResult_t::InvalidUsage);
    }
    match *moment {
        Moment::Init(rank) => meant(move || rank).find_map(|fault| match fault {
            Fault::HangInit => hang(),
            Fault::CrashInit => crash(),
            Fault::ErrorInit(code) => Some(error("error-init", code)),
            _ => None,
        }),
        Moment::Operation(comm, stream) => meant(move || rank_of(comm)).find_map(|fault| match fault {
            Fault::HangCollective => hang(),
            Fault::CrashCollective => crash(),
            Fault::ExitCollective => std::process::exit(0),
            Fault::ErrorCollective(code) => Some(error("error-collective", code)),
            Fault::HangSynchronize => Some(stop_stream(stream)).filter(|code| *code != WORKS),
            Fault::HangDefault => Some(stop_stream(std::ptr::null_mut())).filter(|code| *code != WORKS),
            Fault::AsyncError(_) => {
                ENQUEUED.store(true, Ordering::Release);
                Some(stop_stream(stream)).filter(|code| *code != WORKS)
            }
            Fault::CrashStream => {
                // SAFETY: the stream is the one of the call at hand.
                Some(unsafe { soft_nccl::device::launch(stream, Box::new(|_| crash())) }).filter(|code| *code != WORKS)
            }
            _ => None,
        }),
        Moment::Destroy(comm) => meant(move || rank_of(comm)).find_map(|fault| match fault {
            Fault::HangDestroy => hang(),
            Fault::CrashDestroy => crash(),
            Fault::ErrorDestroy(code) => Some(error("error-destroy", code)),
            _ => None,
        }),
        Moment::Abort(comm) => meant(move || rank_of(comm)).find_map(|fault| match fault {
            Fault::HangAbort => hang(),
            _ => None,
        }),
        Moment::Other => None,
    }
}

/// The version that is claimed.
pub(crate) fn false_version() -> Option<c_int> {
    meant(|| None).find_map(|fault| if let Fault::Version(number) = fault { Some(number) } else { None })
}

/// The asynchronous error that is claimed.
pub(crate) fn false_error(comm: ncclComm_t) -> Option<ncclResult_t> {
    if !ENQUEUED.load(Ordering::Acquire) {
        return None;
    }
    meant(|| rank_of(comm))
        .find_map(|fault| if let Fault::AsyncError(code) = fault { Some(ncclResult_t(code)) } else { None })
}

/// Bytes of an element.
fn size(dtype: ncclDataType_t) -> usize {
    match dtype {
        ncclDataType_t::Int64 | ncclDataType_t::Uint64 | ncclDataType_t::Float64 => 8,
        ncclDataType_t::Int32 | ncclDataType_t::Uint32 | ncclDataType_t::Float32 => 4,
        ncclDataType_t::Float16 | ncclDataType_t::Bfloat16 => 2,
        _ => 1,
    }
}

/// An accepted operation writes `count` elements here; `root` is the only rank that receives, if there is one.
pub(crate) fn spoil(
    to: *mut c_void,
    count: usize,
    dtype: ncclDataType_t,
    root: Option<c_int>,
    comm: ncclComm_t,
    stream: cudaStream_t,
) {
    if to.is_null() || count == 0 || root.is_some_and(|root| rank_of(comm) != Some(root)) {
        return;
    }
    if !meant(|| rank_of(comm)).any(|fault| fault == Fault::WrongData) {
        return;
    }
    let target = Target { last_byte: to.expose_provenance() + size(dtype) - 1, stream: stream.addr() };
    let now = GROUP.with_borrow_mut(|group| {
        if group.depth > 0 {
            group.targets.push(target);
        }
        group.depth == 0
    });
    if now {
        strike(target);
    }
}

/// Puts the wrong byte behind the operation, in stream order.
fn strike(target: Target) {
    let stream = std::ptr::without_provenance_mut(target.stream);
    let work = Box::new(move |done: soft_nccl::device::Done| {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(target.last_byte);
        // SAFETY: the operation before it wrote this byte, so it is memory that the stream may write.
        unsafe { byte.write(byte.read() ^ 0x41) };
        done.finish();
    });
    // SAFETY: the stream is the one of the operation, which was just put on it.
    let _ = unsafe { soft_nccl::device::launch(stream, work) };
}

/// `ncclGroupStart` was accepted.
pub(crate) fn group_started() {
    GROUP.with_borrow_mut(|group| group.depth += 1);
}

/// `ncclGroupEnd` returned: at the outermost end the group's operations are on their streams, if it was accepted.
pub(crate) fn group_ended(code: ncclResult_t) {
    let targets = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        if group.depth > 0 { Vec::new() } else { std::mem::take(&mut group.targets) }
    });
    if code == WORKS {
        targets.into_iter().for_each(strike);
    }
}
