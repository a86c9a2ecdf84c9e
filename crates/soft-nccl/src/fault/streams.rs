//! Faults of when data are read and written: too early, too late, or those of another operation.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::memory::{Extent, Substitute, read, write};
use super::requests::{CommState, Injected, WRAP};
use super::{FaultMode, aimed, aims, hit, mode, named, wanted};
use crate::algo::Algorithm;
use crate::device::Done;
use crate::engine::hooks::{HeldMemory, OperationContext};
use crate::engine::{Operation, read_scalar};
use crate::op::{Kind, PreMul, Spec};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// Bytes of a staging buffer that communicators share, or that is mistaken for the next one's.
const STAGED: usize = 64 * 1024;
/// The turn before a counter wraps.
const LAST: u64 = WRAP - 1;
/// Streams whose last operation is remembered.
const MOST_STREAMS: usize = 16 * 1024;

/// State of streams and memory that faults keep.
#[derive(Default)]
struct Streams {
    /// The last operation of each stream: its communicator and the start of its input.
    last: HashMap<usize, (u64, Vec<u8>)>,
    /// Inputs of running operations: the batch, the address of the first byte and the address past the last.
    reading: Vec<(u64, usize, usize)>,
}

static STREAMS: LazyLock<Mutex<Streams>> = LazyLock::new(Mutex::default);

fn streams() -> MutexGuard<'static, Streams> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An input that a fault has changed while its operation runs.
pub(super) struct ChangedInput {
    address: usize,
    /// The original contents, which the operation reads.
    original: Arc<Substitute>,
}

impl ChangedInput {
    pub(super) fn original(&self) -> Arc<Substitute> {
        Arc::clone(&self.original)
    }
}

/// Restores the inputs of a batch that has ended.
///
/// # Safety
/// The streams of the batch, for which the inputs were changed, are still at it.
pub(super) unsafe fn restore(batch: u64, changed: Vec<ChangedInput>) {
    streams().reading.retain(|(reader, ..)| *reader != batch);
    for ChangedInput { address, original } in changed.into_iter().rev() {
        // SAFETY: the stream is still at the operation, whose caller has promised the input until then.
        unsafe { write(address, &original.bytes()) };
    }
}

/// Called when an operation begins to read its input. With F64 the operation reads a copy, and the input itself holds other
/// data until the operation ends.
///
/// # Safety
/// The operation's turn has come on its stream, and its caller keeps the input until the stream continues.
pub(super) unsafe fn reads(batch: u64, context: &OperationContext, spec: &mut Spec) -> Option<ChangedInput> {
    let extent = Extent::of(spec, context.rank, context.n);
    let (address, len) = extent.send;
    if !wanted(named::F64) || len == 0 || extent.overlaps() {
        return None;
    }
    let end = address.saturating_add(len);
    let shared = {
        let mut streams = streams();
        let shared = streams.reading.iter().any(|(_, from, to)| *from < end && address < *to);
        streams.reading.push((batch, address, end));
        shared
    };
    let notes = shared && hit(named::F64, context.rank, spec.algorithm);
    let strikes = aims(named::F64, spec.algorithm) && aimed(named::F64).is_none_or(|only| only == context.rank);
    if !notes && !strikes {
        return None;
    }
    // SAFETY: the operation's turn has come on its stream: it reads its input next.
    let bytes = unsafe { read(address, len) };
    let wrong: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let original = Arc::new(Substitute::new(bytes));
    spec.send = original.address();
    // SAFETY: the memory is valid; that the operation's input is written is the fault.
    unsafe { write(address, &wrong) };
    Some(ChangedInput { address, original })
}

/// True if a stream continues although a batch that only reads on this rank has not begun (F60).
pub(super) fn is_overtaken(rank: usize, operations: &[Operation], done: &Done) -> bool {
    if ![named::F60, named::F60B, named::F60C].into_iter().any(wanted) {
        return false;
    }
    let of = |spec: &Spec| match (spec.kind, rank == spec.peer) {
        _ if spec.count == 0 => None,
        (Kind::Send, _) => Some(named::F60),
        (Kind::Reduce | Kind::Gather, false) => Some(named::F60B),
        (Kind::Broadcast | Kind::Scatter, true) => Some(named::F60C),
        _ => None,
    };
    if operations.iter().any(|operation| of(&operation.spec).is_none()) || !done.may_let_pass() {
        return false;
    }
    // `hit` is called for every operation, so that all reached faults are noted.
    let mut all = true;
    for Operation { spec, .. } in operations {
        all &= of(spec).is_some_and(|fault| hit(fault, rank, spec.algorithm));
    }
    all
}

/// An output that is not where it belongs yet.
pub(super) struct DelayedOutput {
    stream: usize,
    to: usize,
    /// Bytes before the last chunk.
    whole: usize,
    rank: usize,
    algorithm: Algorithm,
    /// The output; if `None`, the library is right and only reports what could go wrong.
    output: Option<Arc<Substitute>>,
}

/// Redirects an operation that begins to memory other than its caller's; returns what must live as long as its tasks, and
/// what remains to be done at its end.
///
/// # Safety
/// The operation's turn has come on its stream, and its caller keeps its buffers until the stream continues.
pub(super) unsafe fn begin(
    state: &mut CommState,
    context: &OperationContext,
    injected: Injected,
    spec: &mut Spec,
) -> (Vec<HeldMemory>, Option<DelayedOutput>) {
    let mut held: Vec<HeldMemory> = Vec::new();
    let extent = Extent::of(spec, context.rank, context.n);
    // SAFETY: the caller makes the same promise.
    let input = unsafe { input(state, context, &injected, spec, extent.send) };
    if let Some(input) = input {
        let substitute = Arc::new(Substitute::new(input));
        spec.send = substitute.address();
        held.push(substitute);
    }
    if let (Some(early), PreMul::Device(address)) = (injected.early_scalar, spec.premul) {
        // SAFETY: the caller that created the operator has promised a readable element at the address while operations run.
        let now = unsafe { read_scalar(address, spec.ty) };
        if early != now && hit(named::F53, context.rank, spec.algorithm) {
            spec.premul = PreMul::Value(early);
        }
    }
    // SAFETY: the caller makes the same promise.
    let delayed = unsafe { output(context, &injected, spec, extent.recv) };
    held.extend(delayed.as_ref().and_then(|delayed| delayed.output.clone()).map(|output| output as HeldMemory));
    held.extend(injected.stand_ins.into_iter().map(|memory| memory as HeldMemory));
    (held, delayed)
}

/// The data that the rank contributes instead of its input.
///
/// # Safety
/// The operation's turn has come on its stream, and `len` bytes are readable at the input's address.
unsafe fn input(
    state: &mut CommState,
    context: &OperationContext,
    injected: &Injected,
    spec: &Spec,
    (address, len): (usize, usize),
) -> Option<Vec<u8>> {
    let hits = |fault| hit(fault, context.rank, spec.algorithm);
    let turns = wanted(named::F37) && matches!(injected.turn % WRAP, 0 | LAST);
    if len == 0 {
        return None;
    }
    let graph = injected.place.filter(|_| wanted(named::F75) || wanted(named::F75B));
    if !turns && injected.early.is_none() && !wanted(named::F35) && graph.is_none() {
        return None;
    }
    // SAFETY: the operation's turn has come on its stream: it reads its input next.
    let now = unsafe { read(address, len) };
    let mut instead = graph.and_then(|place| state.graphs.stale_input(place, context.rank, spec, &now));
    if let Some(early) = &injected.early
        && *early != now
        && (hits(named::F12) || (injected.null_stream && hits(named::F67B)))
    {
        instead = Some(early.clone());
    }
    if wanted(named::F35) {
        let last = {
            let mut streams = streams();
            if streams.last.len() >= MOST_STREAMS {
                streams.last.clear();
            }
            streams.last.insert(injected.stream, (context.shared, staged(&now)))
        };
        let theirs = last.filter(|(comm, _)| *comm != context.shared).and_then(|(_, theirs)| over(&now, &theirs));
        if theirs.is_some() && hits(named::F35) {
            instead = theirs;
        }
    }
    if turns {
        let (turn, last) = std::mem::replace(&mut state.last_input, (injected.turn, staged(&now)));
        let stale =
            if turn + 1 == injected.turn && injected.turn.is_multiple_of(WRAP) { over(&now, &last) } else { None };
        if stale.is_some() && hits(named::F37) {
            instead = stale;
        }
    }
    instead
}

fn staged(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(STAGED)].to_vec()
}

/// `bytes` with its start overwritten by `other`, if that makes a difference.
fn over(bytes: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let len = other.len().min(bytes.len());
    (bytes[..len] != other[..len]).then(|| [&other[..len], &bytes[len..]].concat())
}

/// Leads an output to other memory, from which [`end`] brings it to its place.
///
/// # Safety
/// The operation's turn has come on its stream, and `len` bytes are readable at the output's address.
unsafe fn output(
    context: &OperationContext,
    injected: &Injected,
    spec: &mut Spec,
    (to, len): (usize, usize),
) -> Option<DelayedOutput> {
    if len == 0 || !(wanted(named::F13) || wanted(named::F13B)) {
        return None;
    }
    let chunk = context.chunk.saturating_mul(spec.ty.size()).max(1);
    let whole = (len - 1) / chunk * chunk;
    let (rank, algorithm) = (context.rank, spec.algorithm);
    let mut delayed = DelayedOutput { stream: injected.stream, to, whole, rank, algorithm, output: None };
    if !matches!(mode(), FaultMode::Trace) {
        // SAFETY: the operation's turn has come on its stream: it writes its output next.
        let substitute = Arc::new(Substitute::new(unsafe { read(to, len) }));
        spec.recv = substitute.address();
        delayed.output = Some(substitute);
    }
    Some(delayed)
}

/// Copies the outputs of finished operations to where they belong, or lets their streams continue before that.
///
/// # Safety
/// The streams of the operations are still at them, and their callers keep the outputs.
pub(super) unsafe fn end(delayed: Vec<DelayedOutput>, dones: &[Done]) {
    for delayed in delayed {
        let done = dones.iter().find(|done| done.stream() == Some(delayed.stream));
        let hits = |fault| hit(fault, delayed.rank, delayed.algorithm);
        let passes = match done {
            Some(done) if done.is_followed() && hits(named::F13) => Some((done, 0)),
            Some(done) if hits(named::F13B) => Some((done, 1)),
            _ => None,
        };
        let Some(output) = delayed.output.as_ref().map(|output| output.bytes()) else { continue };
        let (first, last) = output.split_at(delayed.whole);
        // SAFETY: the stream is still at the operation, whose caller has promised the output until then.
        unsafe { write(delayed.to, first) };
        let (to, last) = (delayed.to + delayed.whole, last.to_vec());
        // SAFETY: as above; and later the device does this only while the stream's work lasts, until whose end a
        // program keeps its memory.
        let work = move || unsafe { write(to, &last) };
        match passes {
            Some((done, passes)) => done.finish_later(passes, Box::new(work)),
            None => work(),
        }
    }
}
