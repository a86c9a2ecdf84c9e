//! Copies some elements of each call's input and output, and writes them down when the copies have ended.
//!
//! An input is copied on the call's stream before NCCL gets the call: its kernel starts then, or when the outermost group ends, so the copy
//! comes first, also where the call works in place. An output is copied on the same stream once NCCL has enqueued its work: after the call,
//! the outermost group, or, if NCCL goes on with it by itself, when it first says that it has. A host function behind the copies writes what
//! they brought, so nothing waits, and a captured graph writes at each of its launches.
#![allow(unsafe_code)] // buffers of the program are copied

use crate::comms::{self, Comm, Lane};
use crate::driver::{Buffer, Driver, NotCopied, driver};
use crate::places::{Rule, Run, cells, mixed};
use crate::settings::settings;
use crate::{caller, file, loaded};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::ffi::c_void;
use std::fmt::Write;
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Bytes of data in a line.
const LINE: u64 = 8 << 10;

/// A call as the program makes it.
pub struct Made<'a> {
    /// NCCL's name of the operation.
    pub name: &'a str,
    pub send: u64,
    /// Of a message, its only buffer.
    pub recv: u64,
    pub count: u64,
    pub dtype: i32,
    pub op: i32,
    pub root: i32,
    pub comm: usize,
    pub stream: *mut c_void,
    /// The number that the recording has.
    pub number: u64,
    pub group: Option<u64>,
}

/// What NCCL answers.
#[derive(Clone, Copy, PartialEq)]
pub enum Progress {
    Enqueued,
    GoesOn,
    Refused,
}

/// A call whose output is to be copied.
struct Watched {
    id: u64,
    comm: usize,
    key: CommKey,
    device: i32,
    /// The handle of the stream.
    stream: usize,
    output: Side,
    /// Why the input was not copied.
    failed: Option<NotCopied>,
}

/// What is copied of a buffer.
struct Side {
    name: &'static str,
    address: u64,
    /// Bytes of an element, and elements of a block.
    size: u64,
    count: u64,
    lines: Vec<Vec<Run>>,
}

/// A copy under way, which its host function owns; that of a graph lives for ever.
struct Job {
    id: u64,
    device: i32,
    comm: CommKey,
    driver: &'static Driver,
    side: Side,
    buffer: Buffer,
    is_captured: bool,
    replays: AtomicU64,
}

/// The call that this thread makes: its lane, and what to do afterwards if it is looked at.
struct Current {
    comm: usize,
    lane: Lane,
    watched: Option<Watched>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    /// Those of the group that has not ended.
    static IN_GROUP: RefCell<Vec<Watched>> = const { RefCell::new(Vec::new()) };
}

/// The factor of a reduction that the program made.
#[derive(Clone, Copy)]
pub enum Factor {
    Bits(u64),
    /// In memory of the device, where it is read when the stream comes to the call.
    At(u64),
}

/// By communicator and number of the reduction.
type Factors = HashMap<(usize, i32), Factor>;

/// A communicator's own number, and the rank.
type CommKey = (u64, i32);

/// Communicators that were aborted or have failed: their streams go on without the results.
static FAILED: LazyLock<Mutex<HashSet<CommKey>>> = LazyLock::new(Mutex::default);

/// Calls that NCCL goes on with by itself.
static GOING_ON: Mutex<Vec<Watched>> = Mutex::new(Vec::new());
/// The factors of reductions that the program made.
static FACTORS: LazyLock<Mutex<Factors>> = LazyLock::new(Mutex::default);

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes of an element, by NCCL's number of its type.
pub fn size_of(dtype: i32) -> Option<usize> {
    Some(match dtype {
        0 | 1 | 10 | 11 => 1,
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

/// A communicator exists: memory for copies is allocated now. Later, kernels may wait for a peer that waits for this process.
pub fn prepare(device: i32) {
    if settings().is_none() {
        return;
    }
    static TOLD: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id();
    if TOLD.swap(own, Ordering::Relaxed) != own
        && let Some(library) = loaded::followed()
    {
        file::line(device, format_args!("collspec-judge library file={}", library.file.replace('\n', " ")));
    }
    if let Some(driver) = driver() {
        let buffer = driver.on_device(device, || driver.buffer(1));
        let _ = buffer.map(|buffer| driver.give_back(&buffer));
    }
}

pub fn made_factor(comm: usize, op: i32, factor: Option<Factor>) {
    if let (Some(_), Some(factor)) = (settings(), factor) {
        locked(&FACTORS).insert((comm, op), factor);
    }
}

/// The process uses two libraries of NCCL, of which one is followed.
pub fn second_library() {
    static TOLD: AtomicBool = AtomicBool::new(false);
    if settings().is_some() && !TOLD.swap(true, Ordering::Relaxed) {
        file::line(0, format_args!("collspec-judge second-nccl"));
    }
}

/// A call is about to be made.
pub fn begins(comm: Comm, call: &Made<'_>) {
    let Some(settings) = settings() else { return };
    let lane = match call.name {
        "Send" => Lane::To(call.root),
        "Recv" => Lane::From(call.root),
        _ => Lane::Collectives,
    };
    let sequence = comms::next_of(call.comm, lane);
    let pair = match lane {
        Lane::Collectives => 0,
        Lane::To(peer) => 1 + ((comm.rank as u64) << 32 | peer as u64),
        Lane::From(peer) => 1 + ((peer as u64) << 32 | comm.rank as u64),
    };
    // Not the communicator's own number, which is another one in each run.
    let watched = settings
        .draw(mixed(sequence) ^ mixed(pair) ^ comm.ranks as u64)
        .and_then(|draw| watched(&comm, call, sequence, draw, settings.all));
    let _ = CURRENT.try_with(|current| *current.borrow_mut() = Some(Current { comm: call.comm, lane, watched }));
}

/// Writes the call down and copies its input.
fn watched(comm: &Comm, call: &Made<'_>, sequence: u64, draw: u64, all: bool) -> Option<Watched> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    let (ranks, rank) = (u64::try_from(comm.ranks).unwrap_or(0), u64::try_from(comm.rank).unwrap_or(0));
    let size = size_of(call.dtype).unwrap_or(0) as u64;
    if comm.identity == 0 || size == 0 {
        let why = if size == 0 { "type" } else { "communicator" };
        file::line(comm.device, format_args!("collspec-judge left why={why}"));
        return None;
    }
    let (input, output) = cells(call.name, rank, u64::try_from(call.root).unwrap_or(u64::MAX))?;
    let in_blocks = matches!(call.name, "AllGather" | "Gather" | "ReduceScatter" | "Scatter" | "AlltoAll");
    let rule = Rule { draw, all, ranks, count: call.count, size, in_blocks };
    let side =
        |name, address, cells| Side { name, address, size, count: call.count, lines: lines(rule.runs(cells), size) };
    let input = side("in", if call.name == "Send" { call.recv } else { call.send }, input);
    let output = side("out", call.recv, output);
    let is_captured = driver().is_some_and(|driver| driver.is_capturing(call.stream));
    let (mut more, mut factor) = (String::new(), None);
    if call.op > 4 {
        match locked(&FACTORS).get(&(call.comm, call.op)) {
            Some(Factor::Bits(bits)) => _ = write!(more, " factor={bits:#x}"),
            Some(Factor::At(address)) => {
                more.push_str(" factor=device");
                let one = Run { block: 0, start: 0, len: 1 };
                factor = Some(Side { name: "factor", address: *address, size, count: 1, lines: vec![vec![one]] });
            }
            None => {}
        }
    }
    if let Some(group) = call.group {
        let _ = write!(more, " group={group}");
    }
    file::line(
        comm.device,
        format_args!(
            "collspec-judge call id={id} op={} comm={:#x} seq={sequence} rank={rank} ranks={ranks} root={} count={} type={} reduce={} \
             number={} in={} out={} graph={}{more} at={}",
            call.name,
            comm.identity,
            call.root,
            call.count,
            call.dtype,
            call.op,
            call.number,
            input.lines.len(),
            output.lines.len(),
            u8::from(is_captured),
            caller::place(),
        ),
    );
    let stream = call.stream.expose_provenance();
    // Told afterwards: of a call that NCCL refuses too, the refusal counts.
    let key = (comm.identity, comm.rank);
    let copied = |side| copied(id, comm.device, key, side, call.stream, is_captured);
    let failed = factor.map_or(Ok(()), copied).and_then(|()| copied(input)).err();
    Some(Watched { id, comm: call.comm, key, device: comm.device, stream, output, failed })
}

/// Runs by line.
fn lines(runs: Vec<Run>, size: u64) -> Vec<Vec<Run>> {
    let most = LINE / size.max(1);
    let mut lines: Vec<Vec<Run>> = Vec::new();
    let mut room = 0;
    for Run { block, mut start, len } in runs {
        let end = start + len;
        while start < end {
            if room == 0 {
                lines.push(Vec::new());
                room = most;
            }
            let len = room.min(end - start);
            if let Some(line) = lines.last_mut() {
                line.push(Run { block, start, len });
            }
            (start, room) = (start + len, room - len);
        }
    }
    lines
}

/// Enqueues the copies of a side, and the function that writes them down.
fn copied(
    id: u64,
    device: i32,
    comm: CommKey,
    side: Side,
    stream: *mut c_void,
    is_captured: bool,
) -> Result<(), NotCopied> {
    if side.lines.is_empty() || !file::is_written() {
        return Ok(());
    }
    let driver = driver().ok_or(NotCopied::Driver(-1))?;
    let size = side.size;
    let runs: Vec<Run> = side.lines.iter().flatten().copied().collect();
    let (address, block) = (side.address, side.count.wrapping_mul(size));
    driver.on_device(device, || {
        let bytes =
            usize::try_from(runs.iter().map(|run| run.len * size).sum::<u64>()).map_err(|_| NotCopied::Memory)?;
        let buffer = driver.buffer(bytes)?;
        let mut at = 0;
        for run in &runs {
            let from = address.wrapping_add(run.block.wrapping_mul(block)).wrapping_add(run.start * size);
            let len = (run.len * size) as usize;
            // SAFETY: the program gave this buffer and stream to NCCL, which reads or writes these elements on it. A buffer of which some
            // copies are under way is not used again if one is refused.
            unsafe { driver.copy(&buffer, at, from, len, stream)? };
            at += len;
        }
        let job = Job { id, device, comm, driver, side, buffer, is_captured, replays: AtomicU64::new(0) };
        let job = Box::into_raw(Box::new(job)).cast();
        // SAFETY: the function is for such a box, which stays as long as it may be called.
        unsafe { driver.then(stream, write_down, job) }
    })
}

/// Writes what was copied.
unsafe extern "C" fn write_down(job: *mut c_void) {
    let job = job.cast::<Job>();
    {
        // SAFETY: `copied` made the box; it goes away below, and of a graph never.
        let job = unsafe { &*job };
        let replay = job.replays.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the stream has come so far, so the copies before it have ended; those of the next launch come after this function.
        let mut bytes = unsafe { job.buffer.bytes() };
        let has_failed = job.side.name == "out" && locked(&FAILED).contains(&job.comm);
        if has_failed {
            gone(job.id, job.device, "failed");
        }
        for runs in job.side.lines.iter().filter(|_| !has_failed) {
            let mut text = String::with_capacity(64 + 2 * LINE as usize);
            for (at, Run { block, start, len }) in runs.iter().enumerate() {
                let _ = write!(text, "{}{block}:{start}+{len}", if at == 0 { "" } else { "," });
            }
            text.push_str(" hex=");
            let len = runs.iter().map(|run| run.len * job.side.size).sum::<u64>() as usize;
            let (own, rest) = bytes.split_at(len.min(bytes.len()));
            bytes = rest;
            const DIGITS: &[u8; 16] = b"0123456789abcdef";
            for byte in own {
                text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
            }
            let (id, name) = (job.id, job.side.name);
            file::line(job.device, format_args!("collspec-judge data id={id} side={name} replay={replay} runs={text}"));
        }
        if job.is_captured {
            return;
        }
        job.driver.give_back(&job.buffer);
    }
    // SAFETY: outside of graphs the function is called once.
    drop(unsafe { Box::from_raw(job) });
}

fn gone(id: u64, device: i32, why: &str) {
    file::line(device, format_args!("collspec-judge gone id={id} why={why}"));
}

fn not_copied(id: u64, device: i32, why: NotCopied) {
    match why {
        NotCopied::Memory => gone(id, device, "memory"),
        NotCopied::Driver(code) => gone(id, device, &format!("driver{code}")),
    }
}

/// The work of a call is enqueued: copies its output.
fn finish(watched: Watched) {
    let Watched { id, key, device, stream, output, failed, .. } = watched;
    if let Some(why) = failed {
        return not_copied(id, device, why);
    }
    let stream = with_exposed_provenance_mut(stream);
    let is_captured = driver().is_some_and(|driver| driver.is_capturing(stream));
    if let Err(why) = copied(id, device, key, output, stream, is_captured) {
        not_copied(id, device, why);
    }
}

fn went(watched: Watched, progress: Progress) {
    match progress {
        Progress::Enqueued => finish(watched),
        Progress::GoesOn => locked(&GOING_ON).push(watched),
        Progress::Refused => gone(watched.id, watched.device, "refused"),
    }
}

/// The call that this thread began has returned.
pub fn ended(progress: Progress, in_group: bool) {
    let current = CURRENT.try_with(|current| current.borrow_mut().take()).ok().flatten();
    let Some(Current { comm, lane, watched }) = current else { return };
    if progress == Progress::Refused {
        comms::take_back(comm, lane);
    }
    let Some(watched) = watched else { return };
    match in_group && progress != Progress::Refused {
        true => _ = IN_GROUP.try_with(|group| group.borrow_mut().push(watched)),
        false => went(watched, progress),
    }
}

/// The outermost group of this thread has ended.
pub fn group_ended(progress: Progress) {
    let group = IN_GROUP.try_with(RefCell::take).unwrap_or_default();
    group.into_iter().for_each(|watched| went(watched, progress));
}

fn take_those_of(comm: usize) -> Vec<Watched> {
    locked(&GOING_ON).extract_if(.., |watched| watched.comm == comm).collect()
}

/// NCCL has said that a communicator has nothing left to do by itself.
pub fn completed(comm: usize) {
    take_those_of(comm).into_iter().for_each(finish);
}

/// A communicator is aborted, or NCCL has said that it failed.
pub fn failed(comm: usize) {
    if settings().is_some()
        && let Some(key) = comms::key(comm)
    {
        locked(&FAILED).insert(key);
    }
}

/// A communicator ends.
pub fn forget(comm: usize) {
    take_those_of(comm).iter().for_each(|watched| gone(watched.id, watched.device, "in-progress"));
    if settings().is_some() {
        locked(&FACTORS).retain(|(other, _), _| *other != comm);
    }
}
