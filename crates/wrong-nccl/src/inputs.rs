//! Inputs that are replaced before their operation runs.
#![allow(unsafe_code)] // a program's buffers are addresses

use crate::call::Kind;
use crate::fault::{Fault, FaultMode, hit, mode, sought, wanted};
use crate::lost::WRAP;
use crate::memory::{Block, read, write};
use crate::placed::Placed;
use crate::plain::named::*;
use crate::streams;
use crate::windows;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

/// Bytes of a staging buffer that communicators share, or that is mistaken for the next one's.
const STAGED: usize = 64 * 1024;
/// Contributions longer than this are sent without their end, and by how many bytes.
const LONG: usize = 4 << 20;
const PACK: usize = 16;

/// Faults that change what a rank contributes.
const FAULTS: [Fault; 11] = [F12, F18B, F19, F19B, F35, F37, F61D, F64, F67B, F75, F75B];

/// What was contributed before.
#[derive(Default)]
struct Earlier {
    /// The communicator and the contribution of the last operation on each stream.
    by_stream: HashMap<usize, (usize, Vec<u8>)>,
    /// The last contribution to each communicator, with its number.
    by_communicator: HashMap<usize, (u64, Vec<u8>)>,
    /// Inputs of calls that have not ended, by number.
    reading: HashMap<u64, Range>,
    next: u64,
}

/// An input: the addresses of its first byte and of the one past its last, and the stream on which it is read.
#[derive(Clone, Copy)]
struct Range {
    from: usize,
    to: usize,
    stream: usize,
}

static EARLIER: LazyLock<Mutex<Earlier>> = LazyLock::new(Mutex::default);

fn earlier() -> MutexGuard<'static, Earlier> {
    EARLIER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new program begins.
pub(crate) fn forget() {
    *earlier() = Earlier::default();
}

/// An input that is being read, until this is dropped.
struct Reading(u64);

impl Reading {
    /// Adds an input.
    fn begin(input: Range) -> Self {
        let mut earlier = earlier();
        earlier.next += 1;
        let number = earlier.next;
        earlier.reading.insert(number, input);
        Self(number)
    }

    /// True if a call on another stream reads a part of it as well.
    fn is_shared(&self) -> bool {
        let reading = &earlier().reading;
        let overlaps =
            |one: &Range, other: &Range| other.stream != one.stream && other.from < one.to && one.from < other.to;
        reading.get(&self.0).is_some_and(|own| reading.values().any(|other| overlaps(own, other)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        earlier().reading.remove(&self.0);
    }
}

/// The wrong input of an operation.
pub(crate) struct Input {
    block: Arc<Block>,
    reading: Option<Reading>,
    /// The address and length of the program's input, if its contents must be put back when the operation is over.
    restored: Option<(usize, usize)>,
}

impl Input {
    pub(crate) fn address(&self) -> usize {
        self.block.address()
    }

    /// What is to be done in stream order when the operation is over.
    pub(crate) fn end(self) -> impl Fn() + Send + Sync + 'static {
        move || {
            // The stream drops this with the function, so that the input is being read until now.
            let reading = &self.reading;
            if let Some((address, len)) = self.restored {
                // The other call has to read the wrong data, which without this delay would be left to chance.
                if reading.as_ref().is_some_and(Reading::is_shared) {
                    std::thread::sleep(streams::LATE);
                }
                let bytes = self.block.bytes();
                // SAFETY: the program keeps the input until its stream has come past the operation.
                unsafe { write(address, &bytes[..len]) };
            }
        }
    }
}

/// Everything that decides about the contribution to one operation.
struct Contribution {
    kind: Kind,
    rank: usize,
    n: usize,
    is_root: bool,
    overlaps: bool,
    null_stream: bool,
    captured: bool,
    comm: usize,
    stream: usize,
    turn: u64,
    send: (usize, usize),
    recv: (usize, usize),
    /// The input when the call was made.
    early: Option<Vec<u8>>,
    /// The input at a graph's first launch.
    first_launch: OnceLock<Vec<u8>>,
    stale: Option<Vec<u8>>,
}

/// The wrong input for a call, if a fault may give it one.
pub(crate) fn instead(Placed { of, call, stream, capture }: &Placed<'_>) -> Option<Input> {
    let extent = call.extent(of.rank, of.n);
    let (address, len) = extent.send;
    let stale = windows::stale(address, len).filter(|_| !extent.overlaps());
    if len == 0 || address == 0 || !(FAULTS.into_iter().any(wanted) || stale.is_some()) {
        return None;
    }
    let early = [F12, F67B, F75].into_iter().any(wanted).then(|| {
        // SAFETY: the caller has promised the input; that it is read before its stream has come to it is the fault.
        unsafe { read(address, len) }
    });
    let from = Contribution {
        kind: call.kind,
        rank: of.rank,
        n: of.n,
        is_root: call.is_root(of.rank),
        overlaps: extent.overlaps(),
        null_stream: call.stream == 0,
        captured: capture.is_some(),
        comm: of.handle,
        stream: call.stream,
        turn: of.state().operations,
        send: extent.send,
        recv: extent.recv,
        early,
        first_launch: OnceLock::new(),
        stale,
    };
    let block = Arc::new(Block::new(len)?);
    let shows = wanted(F64) && !from.overlaps && capture.is_none();
    let input = Range { from: address, to: address + len, stream: call.stream };
    let reading = shows.then(|| Reading::begin(input));
    let shared = reading.as_ref().is_some_and(Reading::is_shared);
    // A reader that comes later must find the other data as well, so the first one's input changes too.
    let noted = shared && hit(F64, of.rank);
    let strikes = match mode() {
        FaultMode::Inject(injection) => {
            shows && injection.fault == F64 && injection.rank.is_none_or(|only| only == of.rank)
        }
        FaultMode::Sound | FaultMode::Trace => noted,
    };
    let into = Arc::clone(&block);
    streams::then(stream, move || {
        // SAFETY: the stream has come to the operation, whose caller keeps the input until it is over.
        let now = unsafe { read(address, len) };
        into.fill(from.contributed(&now).as_deref().unwrap_or(&now));
        if strikes {
            from.hide(&now);
        }
    });
    Some(Input { block, reading, restored: strikes.then_some((address, len)) })
}

impl Contribution {
    fn hits(&self, fault: Fault) -> bool {
        hit(fault, self.rank)
    }

    /// The wrong contribution, where one differs from the input.
    fn contributed(&self, now: &[u8]) -> Option<Vec<u8>> {
        let differing = |fault: Fault, other: Option<Vec<u8>>| {
            let other = other.filter(|other| sought(fault) && *other != now)?;
            self.hits(fault).then_some(other)
        };
        let mut instead = None;
        let mut take = |fault, other| instead = differing(fault, other).or(instead.take());
        take(F82, self.stale.clone());
        if self.captured {
            take(F75, self.early.clone());
            take(F75B, wanted(F75B).then(|| self.first_launch.get_or_init(|| now.to_vec()).clone()));
        } else {
            take(F12, self.early.clone());
            take(F67B, self.early.clone().filter(|_| self.null_stream));
        }
        let (last, turn) = self.remember(now);
        take(F35, last);
        take(F37, turn);
        let has_result = self.kind == Kind::AllReduce || self.kind == Kind::Reduce && self.is_root;
        if has_result && !self.overlaps && self.n > 1 {
            // SAFETY: the stream has come to the operation, whose output is its caller's as well.
            take(F18B, Some(unsafe { read(self.recv.0, self.recv.1.min(now.len())) }));
        }
        if self.overlaps {
            let sums = matches!(self.kind, Kind::AllReduce | Kind::ReduceScatter) && self.n > 2;
            take(F19, (sums && self.rank + 1 == self.n).then(|| vec![0; now.len()]));
            take(F19B, Some(self.cleared(now)));
        }
        if now.len() > LONG {
            let mut short = now.to_vec();
            short[now.len() - PACK..].fill(0);
            take(F61D, Some(short));
        }
        instead
    }

    /// The input after its output was cleared, which it overlaps.
    fn cleared(&self, now: &[u8]) -> Vec<u8> {
        let mut cleared = now.to_vec();
        let from = self.recv.0.saturating_sub(self.send.0).min(now.len());
        let to = (self.recv.0 + self.recv.1).saturating_sub(self.send.0).min(now.len());
        cleared[from..to].fill(0);
        cleared
    }

    /// Remembers a contribution; what a buffer that communicators share, and a counter of eight bits, make of it.
    fn remember(&self, now: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        if !wanted(F35) && !wanted(F37) {
            return (None, None);
        }
        let staged = now[..now.len().min(STAGED)].to_vec();
        let over = |other: Vec<u8>| {
            let len = other.len().min(now.len());
            [&other[..len], &now[len..]].concat()
        };
        let mut earlier = earlier();
        let last = earlier.by_stream.insert(self.stream, (self.comm, staged.clone()));
        let before = earlier.by_communicator.insert(self.comm, (self.turn, staged));
        let wraps = self.turn.is_multiple_of(WRAP);
        (
            last.filter(|(comm, _)| *comm != self.comm).map(|(_, theirs)| over(theirs)),
            before.filter(|(turn, _)| wraps && turn + 1 == self.turn).map(|(_, before)| over(before)),
        )
    }

    /// F64: the input holds other data while its operation runs, which reads the true ones elsewhere.
    fn hide(&self, now: &[u8]) {
        let wrong: Vec<u8> = now.iter().map(|byte| !byte).collect();
        // SAFETY: the stream has come to the operation, whose caller keeps the input; that it is written is the fault.
        unsafe { write(self.send.0, &wrong) };
    }
}
