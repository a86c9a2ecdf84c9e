//! Misbehaviour at the right moments.
use crate::faults::{Fault, wanted};
use crate::log::warn;
use crate::slow::{self, Timed};
use crate::{driver, effects, table};
use nccl_sys::{NCCL_SPLIT_NOCOLOR, cudaStream_t, ncclComm_t, ncclDataType_t, ncclResult_t};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

const WORKS: ncclResult_t = ncclResult_t::Success;

/// The kind of a call, which faults are aimed at.
pub(crate) enum Moment {
    /// Creating the communicator of this rank, with this number of ranks.
    Init(c_int, c_int),
    /// Creating the communicators of this many ranks, on these devices or on those with the ranks' numbers.
    InitAll(c_int, *const c_int),
    /// Splitting a communicator, with this colour.
    Split(ncclComm_t, c_int),
    /// Enqueueing an operation on a stream.
    Operation(ncclComm_t, cudaStream_t),
    Destroy(ncclComm_t),
    Abort(ncclComm_t),
    GroupStart,
    GroupEnd,
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
    /// Streams of its operations, with the per cent by which they are slowed down.
    slow: Vec<(usize, u32)>,
    /// The timed operations, from the outermost group end, or an operation outside groups, until that call returns.
    timed: Vec<Timed>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}
/// An operation was enqueued: from now on an asynchronous error is due.
static ENQUEUED: AtomicBool = AtomicBool::new(false);

/// Blocks the thread for ever.
pub(crate) fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Ends the process as a wild pointer would.
fn crash() -> ! {
    // SAFETY: no pointers are involved. The default action is set, because a handler that continues may be in place.
    unsafe {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        libc::raise(libc::SIGSEGV);
    }
    std::process::abort()
}

/// The communicator's device, if it is one.
fn device_of(comm: ncclComm_t) -> Option<c_int> {
    let mut device = 0;
    // SAFETY: the library checks the handle; a place for a number.
    let code = table().ncclCommCuDevice.map(|f| unsafe { f(comm, &mut device) });
    (code == Some(WORKS)).then_some(device)
}

/// The communicator's rank, if it is one.
fn rank_of(comm: ncclComm_t) -> Option<c_int> {
    let mut rank = 0;
    // SAFETY: the library checks the handle; a place for a number.
    let code = table().ncclCommUserRank.map(|f| unsafe { f(comm, &mut rank) });
    (code == Some(WORKS)).then_some(rank)
}

fn meant(rank: impl Fn() -> Option<c_int>) -> impl Iterator<Item = &'static Fault> {
    let demands = wanted().unwrap_or_default();
    demands.iter().filter(move |demand| demand.rank.is_none() || demand.rank == rank()).map(|demand| &demand.fault)
}

/// True if this process is the one in `one_in` that a kind of fault strikes.
fn is_drawn(kind: &str, one_in: u32) -> bool {
    static DRAW: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    is_drawn_by(&DRAW, kind, one_in)
}

fn is_drawn_by(draw: &RandomState, kind: &str, one_in: u32) -> bool {
    draw.hash_one(kind).is_multiple_of(u64::from(one_in))
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

/// Applies the faults that act before a call; returns the answer that replaces the call's, if there is one.
pub(crate) fn before(moment: &Moment) -> Option<ncclResult_t> {
    if wanted().is_err() {
        return Some(ncclResult_t::InvalidUsage);
    }
    match *moment {
        Moment::Init(rank, _) => before_init(Some(rank)),
        Moment::InitAll(..) => before_init(None),
        Moment::Operation(comm, stream) => {
            let answer = before_operation(comm, stream);
            if answer.is_none() {
                slow_down(comm, stream);
            }
            answer
        }
        Moment::Destroy(comm) => meant(move || rank_of(comm)).find_map(|fault| match fault {
            Fault::HangDestroy => hang(),
            Fault::CrashDestroy => crash(),
            Fault::ErrorDestroy(code) => Some(error("error-destroy", *code)),
            _ => None,
        }),
        Moment::Abort(comm) => meant(move || rank_of(comm)).find_map(|fault| match fault {
            Fault::HangAbort => hang(),
            _ => None,
        }),
        Moment::GroupEnd => {
            GROUP.with_borrow_mut(|group| {
                if group.depth == 1 {
                    let streams = std::mem::take(&mut group.slow);
                    group
                        .timed
                        .extend(streams.into_iter().filter_map(|(stream, percent)| slow::begin(stream, percent)));
                }
            });
            None
        }
        Moment::Split(..) | Moment::GroupStart | Moment::Other => None,
    }
}

fn before_init(rank: Option<c_int>) -> Option<ncclResult_t> {
    meant(move || rank).find_map(|fault| match fault {
        Fault::HangInit => hang(),
        Fault::CrashInit => crash(),
        Fault::ErrorInit(code) => Some(error("error-init", *code)),
        fault => {
            effects::at_init(fault);
            None
        }
    })
}

fn before_operation(comm: ncclComm_t, stream: cudaStream_t) -> Option<ncclResult_t> {
    let failed = |code: ncclResult_t| Some(code).filter(|code| *code != WORKS);
    meant(move || rank_of(comm)).find_map(|fault| match fault {
        Fault::HangCollective => hang(),
        Fault::HangStart(one_in) if is_drawn("hang", *one_in) => hang(),
        Fault::CrashCollective => crash(),
        Fault::ExitCollective => std::process::exit(0),
        Fault::ErrorCollective(code) => Some(error("error-collective", *code)),
        Fault::HangSynchronize => failed(stop_stream(stream)),
        Fault::HangDefault => failed(stop_stream(std::ptr::null_mut())),
        Fault::AsyncError(_) => {
            ENQUEUED.store(true, Ordering::Release);
            failed(stop_stream(stream))
        }
        // SAFETY: the stream is the one of the call at hand.
        Fault::CrashStream => failed(unsafe { soft_nccl::device::launch(stream, Box::new(|_| crash())) }),
        _ => None,
    })
}

/// Has the time of an operation taken: at once, or where its group's operations begin.
fn slow_down(comm: ncclComm_t, stream: cudaStream_t) {
    let percent = meant(|| rank_of(comm)).find_map(|fault| if let Fault::Slow(n) = fault { Some(*n) } else { None });
    let Some(percent) = percent else { return };
    GROUP.with_borrow_mut(|group| {
        if group.depth == 0 {
            group.timed.extend(slow::begin(stream.addr(), percent));
        } else if group.slow.iter().all(|(known, _)| *known != stream.addr()) {
            group.slow.push((stream.addr(), percent));
        }
    });
}

/// Applies the faults that act after a call with this answer.
pub(crate) fn after(moment: &Moment, code: ncclResult_t) {
    let works = matches!(code, ncclResult_t::Success | ncclResult_t::InProgress);
    match *moment {
        Moment::Init(rank, _) if works => leak(Some(rank), driver::current_device),
        Moment::InitAll(n, devices) if works => {
            for rank in 0..n {
                // SAFETY: NCCL's contract: null, or an entry for each rank.
                let device = if devices.is_null() { rank } else { unsafe { devices.add(rank as usize).read() } };
                leak(Some(rank), || Some(device));
            }
        }
        Moment::Split(comm, color) if works && color != NCCL_SPLIT_NOCOLOR => leak(rank_of(comm), || device_of(comm)),
        Moment::GroupStart if works => GROUP.with_borrow_mut(|group| group.depth += 1),
        Moment::GroupEnd => group_ended(works),
        Moment::Operation(..) => {
            let timed = GROUP.with_borrow_mut(|group| std::mem::take(&mut group.timed));
            timed.into_iter().for_each(slow::end);
        }
        _ => {}
    }
}

fn leak(rank: Option<c_int>, device: impl Fn() -> Option<c_int>) {
    meant(|| rank).for_each(|fault| effects::of_communicator(fault, device()));
}

/// The text that replaces all texts about errors.
pub(crate) fn false_text() -> Option<*const c_char> {
    meant(|| None).find_map(|fault| if let Fault::Text(text) = fault { Some(text.as_ptr()) } else { None })
}

/// The answer of ncclGetLastError in place of `other`: the mistake in the demands, or the text that replaces all texts
/// about errors, if there is an error.
pub(crate) fn last_error_or(other: *const c_char) -> *const c_char {
    if let Err(why) = wanted() {
        return why.as_ptr();
    }
    // SAFETY: the library's texts have an end.
    let is_empty = other.is_null() || unsafe { CStr::from_ptr(other) }.is_empty();
    false_text().filter(|_| !is_empty).unwrap_or(other)
}

/// The version that is claimed.
pub(crate) fn false_version() -> Option<c_int> {
    meant(|| None).find_map(|fault| if let Fault::Version(number) = fault { Some(*number) } else { None })
}

/// The asynchronous error that is claimed.
pub(crate) fn false_error(comm: ncclComm_t) -> Option<ncclResult_t> {
    if !ENQUEUED.load(Ordering::Acquire) {
        return None;
    }
    meant(|| rank_of(comm))
        .find_map(|fault| if let Fault::AsyncError(code) = fault { Some(ncclResult_t(*code)) } else { None })
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
    let wrong = |fault: &Fault| match fault {
        Fault::WrongData => true,
        Fault::WrongStart(one_in) => is_drawn("wrong", *one_in),
        _ => false,
    };
    if !meant(|| rank_of(comm)).any(wrong) {
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

/// Writes the wrong byte after the operation, in stream order.
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

/// `ncclGroupEnd` returned: at the outermost end the group's operations are on their streams, if it was accepted.
fn group_ended(works: bool) {
    let (targets, timed) = GROUP.with_borrow_mut(|group| {
        group.depth = group.depth.saturating_sub(1);
        let over = group.depth == 0;
        let targets = if over { std::mem::take(&mut group.targets) } else { Vec::new() };
        (targets, if over { std::mem::take(&mut group.timed) } else { Vec::new() })
    });
    if works {
        targets.into_iter().for_each(strike);
        timed.into_iter().for_each(slow::end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_so_many_draws_is_meant_and_each_kind_is_drawn_by_itself() {
        let draws: Vec<RandomState> = (0..10_000).map(|_| RandomState::new()).collect();
        let count = |kinds: &[&str], one_in| {
            draws.iter().filter(|draw| kinds.iter().all(|kind| is_drawn_by(draw, kind, one_in))).count()
        };
        assert_eq!(count(&["hang"], 1), draws.len());
        // Ten standard deviations to both sides.
        assert!((700..1300).contains(&count(&["hang"], 10)), "{}", count(&["hang"], 10));
        assert!((1..300).contains(&count(&["hang", "wrong"], 10)), "{}", count(&["hang", "wrong"], 10));
    }
}
