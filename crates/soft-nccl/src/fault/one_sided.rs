//! Faults of one-sided operations: signals that are lost, counted twice or merged, and data that arrives late or elsewhere.
#![allow(unsafe_code)] // memory of the caller is written late

use super::site::Site;
use super::{FaultMode, aims, hit, mode, named, wanted};
use crate::algo::Algorithm;
use crate::engine::{Memory, SignalKey, write};
use crate::op::{Kind, Spec};
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The algorithm reported for a call that has none.
const NONE: Algorithm = Algorithm::Direct;

/// One-sided operations of a rank after which one is lost.
const RING: u64 = 256;

/// Data that are written later: the number of their put, the address, and the bytes.
type Late = (u64, usize, Vec<u8>);

/// Late data by communicator and the rank that they are for.
type AllLate = HashMap<(u64, usize), Vec<Late>>;

static LATE: LazyLock<Mutex<AllLate>> = LazyLock::new(Mutex::default);

fn late() -> MutexGuard<'static, AllLate> {
    LATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets data that was never written.
pub(super) fn forget() {
    late().clear();
}

/// The number of signals that an operation sends.
pub(super) fn signals(rank: usize, spec: &Spec) -> u64 {
    if spec.kind == Kind::Put && spec.count == 0 && hit(named::F80B, rank, NONE) {
        return 0;
    }
    1 + u64::from(hit(named::F80, rank, NONE))
}

/// True if a wait uses its signals up.
pub(super) fn consumes(rank: usize, before: u64) -> bool {
    // The first wait is right in any case.
    let changes = before > 0 || aims(named::F80C, NONE);
    !(changes && hit(named::F80C, rank, NONE))
}

pub(super) fn counted_as(rank: usize, mut key: SignalKey) -> SignalKey {
    if key.source != 0 && hit(named::F80D, rank, NONE) {
        key.source = 0;
    }
    if key.context != 0 && hit(named::F80E, rank, NONE) {
        key.context = 0;
    }
    if key.index != 0 && hit(named::F80F, rank, NONE) {
        key.index = 0;
    }
    key
}

/// The bytes from a window's start at which a put writes.
pub(super) fn put_offset(spec: &Spec) -> usize {
    let (offset, size) = (spec.signal.offset, spec.ty.size());
    let changes = offset > 0 && size > 1 && spec.count > 0;
    if changes && hit(named::F81B, spec.peer, NONE) { offset.saturating_mul(size) } else { offset }
}

/// The memory that a put writes, given all windows of the rank.
pub(super) fn put_memory(rank: usize, own: Memory, all: &mut dyn Iterator<Item = Memory>) -> Memory {
    if !wanted(named::F82C) {
        return own;
    }
    let block = |memory: &Memory| crate::device::block_of(memory.base, memory.len);
    let first = all.filter(|other| other.base < own.base && block(other) == block(&own)).min_by_key(|other| other.base);
    first.filter(|_| hit(named::F82C, rank, NONE)).unwrap_or(own)
}

/// True if an operation is lost; `number` counts the rank's one-sided operations on the communicator from 1.
pub(super) fn is_lost(rank: usize, spec: &Spec, number: u64) -> bool {
    let own = spec.kind == Kind::Put && spec.peer == rank && spec.count > 0;
    (own && hit(named::F81C, rank, NONE)) || (number.is_multiple_of(RING) && hit(named::F81D, rank, NONE))
}

impl Site {
    /// F81: keeps the data of a put until the next put to the same rank. True if the data are kept.
    ///
    /// # Safety
    /// The data lie inside a window, and windows live as long as their communicator's operations.
    pub(super) unsafe fn comes_late(&self, address: usize, data: &[u8]) -> bool {
        if self.spec.kind != Kind::Put || data.is_empty() || !self.hit(named::F81) {
            return false;
        }
        let (shared, sequence) = self.operation();
        let mut all = late();
        let kept = all.entry((shared, self.spec.peer)).or_default();
        let (earlier, own): (Vec<Late>, Vec<Late>) =
            std::mem::take(kept).into_iter().partition(|(number, ..)| *number != sequence);
        for (_, address, bytes) in earlier {
            // SAFETY: the caller vouches for windows.
            unsafe { write(address, &bytes) };
        }
        *kept = own;
        kept.push((sequence, address, data.to_vec()));
        true
    }
}

/// True if signals need a window first; asked where there is no window.
pub(super) fn needs_window(rank: usize) -> bool {
    !hit(named::F84C, rank, NONE)
}

/// The replacement for a context or an index that is too large.
pub(super) fn too_large(rank: usize, value: u32, most: u32) -> Option<u32> {
    let strikes = mode() != FaultMode::Sound && hit(named::F84D, rank, NONE);
    strikes.then(|| value % most.max(1))
}
