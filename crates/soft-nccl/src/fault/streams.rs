//! Faults of when data are read and written: too early, too late, or those of somebody else.
use super::memory::{Block, Extent, read, write};
use super::requests::{Ill, State, WRAP};
use super::{Wish, aimed, aims, hit, named, wanted, wish};
use crate::algo::Algorithm;
use crate::device::Done;
use crate::engine::read_scalar;
use crate::op::{Kind, PreMul, Spec};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of a staging buffer that communicators share, or that is taken for the next one's.
const STAGED: usize = 64 * 1024;
/// The turn before a counter wraps.
const LAST: u64 = WRAP - 1;
/// Streams whose last operation is remembered.
const MOST_STREAMS: usize = 16 * 1024;

/// State of streams and memory that faults keep.
#[derive(Default)]
pub(crate) struct Streams {
    /// The last operation of each stream: its communicator and the start of its input.
    last: HashMap<usize, (u64, Vec<u8>)>,
    /// Inputs of running operations: the batch, the address of the first byte and of the one behind the last.
    reading: Vec<(u64, usize, usize)>,
}

/// An input that a fault has changed while its operation runs.
pub(crate) struct Changed {
    address: usize,
    /// The original contents, which the operation reads.
    truth: Arc<Block>,
}

impl Changed {
    pub(crate) fn block(&self) -> Arc<Block> {
        Arc::clone(&self.truth)
    }
}

impl Streams {
    /// Restores the inputs of a batch that has ended.
    pub(crate) fn restore(&mut self, batch: u64, changed: Vec<Changed>) {
        self.reading.retain(|(reader, ..)| *reader != batch);
        for Changed { address, truth } in changed.into_iter().rev() {
            // SAFETY: the stream is still at the operation, whose caller has promised the input until then.
            unsafe { write(address, &truth.bytes()) };
        }
    }
}

/// Called when an operation begins to read its input. With F64 the operation reads a copy, and the input itself holds other
/// data until the operation ends.
pub(crate) fn reads(streams: &mut Streams, batch: u64, who: Who, spec: &mut Spec) -> Option<Changed> {
    let extent = Extent::of(spec, who.rank, who.n);
    let (address, len) = extent.send;
    if !wanted(named::F64) || len == 0 || extent.overlaps() {
        return None;
    }
    let end = address.saturating_add(len);
    let shared = streams.reading.iter().any(|(_, from, to)| *from < end && address < *to);
    streams.reading.push((batch, address, end));
    let notes = shared && hit(named::F64, who.rank, spec.algorithm);
    let strikes = aims(named::F64, spec.algorithm) && aimed(named::F64).is_none_or(|only| only == who.rank);
    if !notes && !strikes {
        return None;
    }
    // SAFETY: the operation's turn has come on its stream: its input is what it reads next.
    let bytes = unsafe { read(address, len) };
    let wrong: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let truth = Arc::new(Block::new(bytes));
    spec.send = truth.address();
    // SAFETY: as above; that it is the caller's to write is the fault.
    unsafe { write(address, &wrong) };
    Some(Changed { address, truth })
}

/// Whether a stream goes on although a batch that only reads on this rank has not begun (F60).
pub(crate) fn is_overtaken<'a>(rank: usize, specs: impl Iterator<Item = &'a Spec> + Clone, done: &Done) -> bool {
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
    if specs.clone().any(|spec| of(spec).is_none()) || !done.may_let_pass() {
        return false;
    }
    // Every operation is asked, so that all reached faults are noted.
    let mut all = true;
    for spec in specs {
        all &= of(spec).is_some_and(|fault| hit(fault, rank, spec.algorithm));
    }
    all
}

/// A rank in a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Who {
    pub core: u64,
    pub rank: usize,
    pub n: usize,
}

/// An output that is not where it belongs yet.
pub(crate) struct Late {
    stream: usize,
    to: usize,
    /// Bytes before the last chunk.
    whole: usize,
    rank: usize,
    algorithm: Algorithm,
    /// The output; without it the library is right and only says what would be wrong.
    output: Option<Arc<Block>>,
}

/// Leads an operation that begins to other memory than its caller's; answers what must live as long as its tasks, and
/// what is left to do at its end.
pub(crate) fn begin(
    streams: &mut Streams,
    state: &mut State,
    who: Who,
    ill: Ill,
    spec: &mut Spec,
    chunk: usize,
) -> (Vec<Arc<Block>>, Option<Late>) {
    let mut held = Vec::new();
    let extent = Extent::of(spec, who.rank, who.n);
    if extent.send.1 > 0
        && let Some(input) = input(streams, state, who, &ill, spec, extent.send)
    {
        let block = Arc::new(Block::new(input));
        spec.send = block.address();
        held.push(block);
    }
    if let (Some(early), PreMul::Device(address)) = (ill.early_scalar, spec.premul) {
        // SAFETY: the caller that created the operator has promised a readable element at the address while operations run.
        let now = unsafe { read_scalar(address, spec.ty) };
        if early != now && hit(named::F53, who.rank, spec.algorithm) {
            spec.premul = PreMul::Value(early);
        }
    }
    let late = output(who, &ill, spec, extent.recv, chunk);
    held.extend(late.as_ref().and_then(|late| late.output.clone()));
    held.extend(ill.stand_ins);
    (held, late)
}

/// What the rank contributes instead of its input.
fn input(
    streams: &mut Streams,
    state: &mut State,
    who: Who,
    ill: &Ill,
    spec: &Spec,
    (address, len): (usize, usize),
) -> Option<Vec<u8>> {
    let hits = |fault| hit(fault, who.rank, spec.algorithm);
    let turns = wanted(named::F37) && matches!(ill.turn % WRAP, 0 | LAST);
    if !turns && ill.early.is_none() && !wanted(named::F35) {
        return None;
    }
    // SAFETY: the operation's turn has come on its stream: its input is what it reads next.
    let now = unsafe { read(address, len) };
    let mut instead = None;
    if let Some(early) = &ill.early
        && *early != now
        && (hits(named::F12) || (ill.null_stream && hits(named::F67B)))
    {
        instead = Some(early.clone());
    }
    if wanted(named::F35) {
        if streams.last.len() >= MOST_STREAMS {
            streams.last.clear();
        }
        let last = streams.last.insert(ill.stream, (who.core, staged(&now)));
        let theirs = last.filter(|(core, _)| *core != who.core).and_then(|(_, theirs)| over(&now, &theirs));
        if theirs.is_some() && hits(named::F35) {
            instead = theirs;
        }
    }
    if turns {
        let (turn, last) = std::mem::replace(&mut state.last_input, (ill.turn, staged(&now)));
        let stale = if turn + 1 == ill.turn && ill.turn.is_multiple_of(WRAP) { over(&now, &last) } else { None };
        if stale.is_some() && hits(named::F37) {
            instead = stale;
        }
    }
    instead
}

fn staged(bytes: &[u8]) -> Vec<u8> {
    bytes[..bytes.len().min(STAGED)].to_vec()
}

/// `bytes` with `other` over their start, if that makes a difference.
fn over(bytes: &[u8], other: &[u8]) -> Option<Vec<u8>> {
    let len = other.len().min(bytes.len());
    (bytes[..len] != other[..len]).then(|| [&other[..len], &bytes[len..]].concat())
}

fn output(who: Who, ill: &Ill, spec: &mut Spec, (to, len): (usize, usize), chunk: usize) -> Option<Late> {
    if len == 0 || !(wanted(named::F13) || wanted(named::F13B)) {
        return None;
    }
    let chunk = chunk.saturating_mul(spec.ty.size()).max(1);
    let whole = (len - 1) / chunk * chunk;
    let mut late = Late { stream: ill.stream, to, whole, rank: who.rank, algorithm: spec.algorithm, output: None };
    if !matches!(wish(), Wish::Trace) {
        // SAFETY: the operation's turn has come on its stream: its output is what it writes next.
        let block = Arc::new(Block::new(unsafe { read(to, len) }));
        spec.recv = block.address();
        late.output = Some(block);
    }
    Some(late)
}

/// Brings the outputs of operations that are over to where they belong, or lets their streams go on before that.
pub(crate) fn end(lates: Vec<Late>, dones: &[Done]) {
    for late in lates {
        let done = dones.iter().find(|done| done.stream() == Some(late.stream));
        let hits = |fault| hit(fault, late.rank, late.algorithm);
        let passes = match done {
            Some(done) if done.is_followed() && hits(named::F13) => Some((done, 0)),
            Some(done) if hits(named::F13B) => Some((done, 1)),
            _ => None,
        };
        let Some(output) = late.output.as_ref().map(|block| block.bytes()) else { continue };
        let (first, last) = output.split_at(late.whole);
        // SAFETY: the stream is still at the operation, whose caller has promised the output until then.
        unsafe { write(late.to, first) };
        let (to, last) = (late.to + late.whole, last.to_vec());
        // SAFETY: as above; and later the device does this only while the stream's work lasts, until whose end a
        // program keeps its memory.
        let work = move || unsafe { write(to, &last) };
        match passes {
            Some((done, passes)) => done.finish_later(passes, Box::new(work)),
            None => work(),
        }
    }
}
