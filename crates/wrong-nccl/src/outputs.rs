//! Outputs that are changed after their operation has run: parts that were not written, or elsewhere, and memory beside them.
#![allow(unsafe_code)] // a program's buffers are addresses

use crate::call::Kind;
use crate::element::Type;
use crate::fault::{Fault, hit, sought, wanted};
use crate::inputs::Input;
use crate::memory::{is_there, read, write};
use crate::numbers;
use crate::placed::Placed;
use crate::plain::named::*;
use crate::situations;
use crate::streams;
use gpuless_device::Stream;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Bytes that are processed at once.
const PACK: usize = 16;
/// Parts that work is cut into.
const PARTS: usize = 4;
/// Bytes of a chunk, and of the half of one that is moved at a time; a buffer holds eight chunks.
pub(crate) const CHUNK: usize = 64 << 10;
const SLICE: usize = CHUNK / 2;
const BUFFER: usize = 8 * CHUNK;
/// Bytes at which offsets of 16 and of 24 bits wrap.
const OFFSETS: usize = 1 << 16;
const FAR: usize = 1 << 24;
/// Bytes of a message, and of a collective's result, that arrive under the faults that limit them.
const MESSAGE: usize = 1_200_000;
const RESULT: usize = 4 << 20;
/// Bytes that F16 writes to the output of a rank that is not the root. That output may be smaller than the root's.
const LEAK: usize = 2048;

/// Faults that change outputs, or an input after it was read.
const FAULTS: [Fault; 21] =
    [F01, F01B, F02, F03, F06, F07, F08, F09, F10, F11, F13, F16, F17, F17B, F18, F20, F20B, F61, F61B, F61C, F76C];

/// The last result of each communicator.
static RESULTS: LazyLock<Mutex<HashMap<usize, Vec<u8>>>> = LazyLock::new(Mutex::default);

/// A new program begins.
pub(crate) fn forget() {
    RESULTS.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// An operation whose output is looked at before and after it.
pub(crate) struct Watched {
    output: Option<Arc<Output>>,
    stream: Stream,
}

struct Output {
    kind: Kind,
    ty: Type,
    rank: usize,
    n: usize,
    is_root: bool,
    overlaps: bool,
    captured: bool,
    comm: usize,
    count: usize,
    send: (usize, usize),
    recv: (usize, usize),
    /// The situations in which the end of the output is wrong.
    situations: Vec<Fault>,
    before: Mutex<Vec<u8>>,
    launched: AtomicBool,
}

/// Looks at the output of a call before it is made, if a fault may change it.
pub(crate) fn watch(placed: &Placed<'_>) -> Watched {
    let Placed { of, call, stream, capture } = placed;
    let extent = call.extent(of.rank, of.n);
    let situations = situations::of(placed);
    let asked = FAULTS.into_iter().any(wanted) || numbers::copies_are_wanted() || !situations.is_empty();
    let output = call.ty().filter(|_| asked).map(|ty| {
        Arc::new(Output {
            kind: call.kind,
            ty,
            rank: of.rank,
            n: of.n,
            is_root: call.is_root(of.rank),
            overlaps: extent.overlaps(),
            captured: capture.is_some(),
            comm: of.handle,
            count: call.count,
            send: extent.send,
            recv: (call.recv, extent.recv.1),
            situations,
            before: Mutex::default(),
            launched: AtomicBool::new(false),
        })
    });
    if let Some(output) = output.clone() {
        streams::then(stream, move || output.begin());
    }
    Watched { output, stream: (*stream).clone() }
}

impl Watched {
    /// Adds the work that changes the output to the stream, on which the operation itself is by now.
    pub(crate) fn end(self, input: Option<Input>) {
        let end = input.map(Input::end);
        let Some(output) = self.output else {
            if let Some(end) = end {
                streams::then(&self.stream, end);
            }
            return;
        };
        let ended = Arc::clone(&output);
        streams::then(&self.stream, move || {
            if let Some(end) = &end {
                end();
            }
            ended.end();
        });
        if output.comes_late() {
            output.delay(&self.stream);
        }
    }
}

/// `count` rounded down to a multiple of `unit`.
fn whole(count: usize, unit: usize) -> usize {
    count - count % unit.max(1)
}

impl Output {
    fn hits(&self, fault: Fault) -> bool {
        hit(fault, self.rank)
    }

    fn size(&self) -> usize {
        self.ty.size()
    }

    fn before(&self) -> Vec<u8> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn begin(&self) {
        // SAFETY: the stream has come to the operation, whose caller keeps the output until it is over.
        let bytes = unsafe { read(self.recv.0, self.recv.1) };
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// Changes the output, and the input; the operation is over.
    fn end(&self) {
        if self.recv.1 > 0 {
            // SAFETY: the stream is just behind the operation, so that the program keeps the output.
            let after = unsafe { read(self.recv.0, self.recv.1) };
            if let Some(wrong) = self.changed(&after) {
                // SAFETY: as above, and the wrong output has the same length.
                unsafe { write(self.recv.0, &wrong) };
            }
            if wanted(F10) || wanted(F11) {
                RESULTS.lock().unwrap_or_else(PoisonError::into_inner).insert(self.comm, after);
            }
            self.write_beyond();
        }
        self.leak();
        self.spoil_input();
    }

    /// The output as a fault has it, if that is different.
    fn changed(&self, after: &[u8]) -> Option<Vec<u8>> {
        let before = self.before();
        let mut wrong = None;
        let mut take = |fault: Fault, other: &dyn Fn() -> Option<Vec<u8>>| {
            if wrong.is_none() && sought(fault) {
                wrong = other().filter(|other| other.len() == after.len() && other != after && self.hits(fault));
            }
        };
        let unit = |unit: usize| self.in_blocks(&before, after, whole(self.count, unit) * self.size());
        take(F01, &|| Some(unit(PARTS)));
        take(F01B, &|| (self.kind == Kind::AllReduce).then(|| unit(self.n)));
        take(F02, &|| Some(unit(PACK / self.size())));
        let upto = |limit: usize| Some([&after[..limit.min(after.len())], &before[limit.min(after.len())..]].concat());
        take(F61, &|| if self.kind == Kind::Recv { upto(MESSAGE) } else { None });
        take(F61B, &|| if self.kind.is_collective() { upto(RESULT) } else { None });
        take(F06, &|| wrapped(&before, after, OFFSETS));
        take(F61C, &|| wrapped(&before, after, FAR));
        take(F07, &|| Some(self.sliced(&before, after)));
        take(F08, &|| moved_down(&before, after));
        take(F09, &|| chunk_twice(after));
        let last = || RESULTS.lock().unwrap_or_else(PoisonError::into_inner).get(&self.comm).cloned();
        take(F10, &|| {
            let last = last().filter(|last| last.len() > after.len())?;
            let from = after.len().saturating_sub(PACK);
            Some([&after[..from], &last[from..after.len()]].concat())
        });
        take(F11, &|| {
            let (last, half) = (last()?, after.len() / 2);
            let to = last.len().clamp(half, after.len());
            Some([&after[..half], last.get(half..to)?, &after[to..]].concat())
        });
        let gathers = matches!(self.kind, Kind::AllGather | Kind::AlltoAll | Kind::Gather);
        let block = self.count * self.size();
        take(F17, &|| gathers.then(|| self.arranged(after, |at| (self.rank + self.n - at) % self.n)));
        take(F17B, &|| gathers.then(|| self.arranged(after, |at| (at + 1) % self.n)));
        take(F18, &|| {
            let moves = !self.kind.reduces() && self.kind.is_collective() || self.n == 1;
            let own = if after.len() > block { self.rank * block } else { 0 };
            let is_own = gathers || self.n == 1 || self.is_root;
            (moves && is_own && !self.overlaps)
                .then(|| [&after[..own], before.get(own..own + block)?, &after[own + block..]].concat().into())
                .flatten()
        });
        take(F76C, &|| self.launched.load(Ordering::Relaxed).then(|| before.clone()));
        if self.captured {
            self.launched.store(true, Ordering::Relaxed);
        }
        let last = after.len().saturating_sub(self.size());
        for fault in &self.situations {
            take(*fault, &|| Some([&after[..last], &before[last..]].concat()));
        }
        if !self.kind.reduces() || self.n == 1 {
            wrong = wrong.or_else(|| numbers::miscopied(self.kind, self.ty, self.rank, after));
        }
        wrong
    }

    /// The output in which every block is new up to a length and old from there on.
    fn in_blocks(&self, before: &[u8], after: &[u8], upto: usize) -> Vec<u8> {
        let block = (self.count * self.size()).max(1);
        let mut wrong = after.to_vec();
        for (new, old) in wrong.chunks_mut(block).zip(before.chunks(block)) {
            new[upto..].copy_from_slice(&old[upto..]);
        }
        wrong
    }

    /// The output with its blocks elsewhere: `to` gives the place of each.
    fn arranged(&self, after: &[u8], to: impl Fn(usize) -> usize) -> Vec<u8> {
        let block = (self.count * self.size()).max(1);
        let mut wrong = after.to_vec();
        for (at, bytes) in after.chunks_exact(block).enumerate() {
            if let Some(place) = wrong.get_mut(to(at) * block..(to(at) + 1) * block) {
                place.copy_from_slice(bytes);
            }
        }
        wrong
    }

    /// F07: every slice of a chunk but the first is written to the first one's place.
    fn sliced(&self, before: &[u8], after: &[u8]) -> Vec<u8> {
        let mut wrong = before.to_vec();
        for (chunk, new) in wrong.chunks_mut(CHUNK).zip(after.chunks(CHUNK)) {
            for slice in new.chunks(SLICE) {
                chunk[..slice.len()].copy_from_slice(slice);
            }
        }
        wrong
    }

    /// F03: the last pack is written in full.
    fn write_beyond(&self) {
        let beyond = self.recv.1.next_multiple_of(PACK) - self.recv.1;
        if beyond > 0 && sought(F03) && self.hits(F03) {
            // SAFETY: outside the buffer by less than the width of the guards that programs under test have around theirs;
            // that it is written is the fault.
            unsafe { write(self.recv.0 + self.recv.1, &[0x5a; PACK][..beyond]) };
        }
    }

    /// F16: a rank that is not the root has something written to its output.
    fn leak(&self) {
        let ignored = matches!(self.kind, Kind::Reduce | Kind::Gather) && !self.is_root && self.recv.0 != 0;
        let len = (self.count * self.size()).min(LEAK);
        if ignored && sought(F16) && is_there(self.recv.0, len) && self.hits(F16) {
            // SAFETY: it is device memory, of the call's caller.
            let bytes: Vec<u8> = unsafe { read(self.recv.0, len) }.iter().map(|byte| !byte).collect();
            // SAFETY: as above; that it is written is the fault.
            unsafe { write(self.recv.0, &bytes) };
        }
    }

    /// F20: the input changes.
    fn spoil_input(&self) {
        let (address, len) = self.send;
        let size = self.size().min(len);
        let fault = if self.kind.reduces() { F20 } else { F20B };
        if len == 0 || self.overlaps || !sought(fault) {
            return;
        }
        // SAFETY: the stream is just behind the operation, so that the program keeps the input.
        let mut first = unsafe { read(address, size) };
        if self.kind.reduces() {
            first[size - 1] ^= 1;
        } else if first.iter().all(|byte| *byte == 0) {
            return;
        } else {
            first.fill(0);
        }
        if self.hits(fault) {
            // SAFETY: as above; that it is written is the fault.
            unsafe { write(address, &first) };
        }
    }

    /// True if the last chunk of the output is to come late.
    fn comes_late(&self) -> bool {
        !self.captured && self.recv.1 > 0 && wanted(F13) && self.hits(F13)
    }

    /// F13: takes the last chunk back behind the operation, and brings it again on another stream.
    fn delay(self: Arc<Self>, stream: &Stream) {
        let chunk = (self.recv.1 - 1) / CHUNK * CHUNK;
        let (address, len) = (self.recv.0 + chunk, self.recv.1 - chunk);
        let right: Arc<Mutex<Vec<u8>>> = Arc::default();
        let kept = Arc::clone(&right);
        streams::then(stream, move || {
            // SAFETY: the stream is just behind the operation, so that the program keeps the output.
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = unsafe { read(address, len) };
            // SAFETY: as above.
            unsafe { write(address, &self.before()[chunk..]) };
        });
        let beside = streams::beside(stream);
        streams::dawdle(&beside);
        streams::then(&beside, move || {
            if is_there(address, len) {
                // SAFETY: it is device memory still; that it may be used by something else is the fault.
                unsafe { write(address, &right.lock().unwrap_or_else(PoisonError::into_inner)) };
            }
        });
    }
}

/// The output of a library whose offsets wrap at a number of bytes.
fn wrapped(before: &[u8], after: &[u8], at: usize) -> Option<Vec<u8>> {
    let (first, rest) = after.split_at_checked(at)?;
    let mut wrong = [first, &before[at..]].concat();
    for chunk in rest.chunks(at) {
        wrong[..chunk.len()].copy_from_slice(chunk);
    }
    Some(wrong)
}

/// F08: beyond a whole buffer, everything lies one pack lower.
fn moved_down(before: &[u8], after: &[u8]) -> Option<Vec<u8>> {
    let (first, rest) = after.split_at_checked(BUFFER)?;
    let end = before.len().saturating_sub(PACK).max(BUFFER);
    let wrong = [&first[..BUFFER - PACK], rest, &before[end..]].concat();
    wrong.get(..after.len()).map(<[u8]>::to_vec)
}

/// F09: at the wrap of a buffer, a chunk comes a second time.
fn chunk_twice(after: &[u8]) -> Option<Vec<u8>> {
    let mut wrong = after.to_vec();
    let len = after.len().checked_sub(BUFFER)?.min(CHUNK);
    wrong.copy_within(BUFFER - CHUNK..BUFFER - CHUNK + len, BUFFER);
    Some(wrong)
}
