//! Faults of registered memory.
#![allow(unsafe_code)] // memory of the caller is read

use super::memory::{Extent, Substitute, read};
use super::{hit, named, wanted};
use crate::algo::Algorithm;
use crate::engine::Memory;
use crate::engine::hooks::{HeldMemory, OperationContext};
use crate::failure::{Failure, Outcome};
use crate::op::Spec;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The algorithm reported for a call that has none.
const NONE: Algorithm = Algorithm::Direct;
/// The rank reported for a call that does not belong to a communicator.
const NO_RANK: usize = 0;

/// The state that faults keep for registered memory.
#[derive(Default)]
struct Kept {
    /// Registrations by the handle of a communicator, in the order in which they were made.
    registered: HashMap<usize, Vec<Memory>>,
    /// Windows that a communicator has had.
    windows: HashMap<usize, u64>,
    /// The contents of memory when it was deregistered.
    stale: Vec<(Memory, Vec<u8>)>,
    /// A registration was refused.
    refused: bool,
    /// Blocks of the library by address: their size, and how often they were given beyond the first time.
    blocks: BTreeMap<usize, (usize, usize)>,
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets all but the blocks, which live on.
pub(super) fn forget() {
    let mut kept = kept();
    let blocks = std::mem::take(&mut kept.blocks);
    *kept = Kept { blocks, ..Kept::default() };
}

fn is_asked() -> bool {
    use named::{F82, F82B, F82D, F83C};
    [F82, F82B, F82D, F83C].into_iter().any(wanted)
}

/// Records that memory was registered.
pub(super) fn registered(comm: usize, memory: Memory, window: bool) {
    if is_asked() {
        let mut kept = kept();
        kept.stale.retain(|(other, _)| other.base != memory.base);
        kept.registered.entry(comm).or_default().push(memory);
        *kept.windows.entry(comm).or_default() += u64::from(window);
    }
}

/// Memory was deregistered.
///
/// # Safety
/// The memory is still there.
pub(super) unsafe fn deregistered(comm: usize, memory: Memory) {
    if !is_asked() {
        return;
    }
    let mut kept = kept();
    if let Some(list) = kept.registered.get_mut(&comm) {
        let at = list.iter().rposition(|other| *other == memory);
        at.map(|at| list.remove(at));
    }
    if wanted(named::F82) {
        // SAFETY: the caller vouches for the memory.
        kept.stale.push((memory, unsafe { read(memory.base, memory.len) }));
    }
}

/// Redirects an operation to memory other than its caller's; returns what must live as long as its tasks, or nothing if it never ends.
///
/// # Safety
/// The operation's turn has come on its stream, and its caller keeps the buffers.
pub(super) unsafe fn begin(context: &OperationContext, spec: &mut Spec) -> Option<Vec<HeldMemory>> {
    if !is_asked() || spec.kind.is_one_sided() {
        return Some(Vec::new());
    }
    let kept = kept();
    let hits = |fault| hit(fault, context.rank, NONE);
    let has_windows = kept.windows.get(&context.comm).is_some_and(|windows| *windows > 0);
    let first = spec.kind.is_collective() && context.sequence == 1 && context.n == 2 && spec.count > 0;
    if first && has_windows && hits(named::F82D) {
        return None;
    }
    let extent = Extent::of(spec, context.rank, context.n);
    let ((to, written), (from, len)) = (extent.recv, extent.send);
    if let Some(list) = kept.registered.get(&context.comm)
        && written > 0
        && let Some(own) = list.iter().skip(1).find(|memory| memory.holds(to, written))
        && let Some(other) = list.first().filter(|other| !other.holds(to, written))
        && other.holds(other.base + (to - own.base), written)
        && hits(named::F82B)
    {
        spec.recv = other.base + (to - own.base);
    }
    let stale = kept.stale.iter().rev().find(|(memory, _)| len > 0 && memory.holds(from, len));
    let old = stale.and_then(|(memory, bytes)| bytes.get(from - memory.base..from - memory.base + len));
    if let Some(old) = old.filter(|_| !extent.overlaps())
        // SAFETY: the caller vouches for the buffers.
        && unsafe { read(from, len) } != old
        && hits(named::F82)
    {
        let substitute = Arc::new(Substitute::new(old.to_vec()));
        spec.send = substitute.address();
        return Some(vec![substitute as HeldMemory]);
    }
    Some(Vec::new())
}

/// The outcome of a call that registers memory.
pub(super) fn outcome<T>(rank: usize, outcome: Outcome<T>) -> Outcome<T> {
    if !wanted(named::F83C) {
        return outcome;
    }
    match outcome {
        Ok(_) if std::mem::take(&mut kept().refused) && hit(named::F83C, rank, NONE) => {
            Err(Failure::usage("an earlier registration was refused"))
        }
        Ok(done) => Ok(done),
        Err(failure) => {
            kept().refused = true;
            Err(failure)
        }
    }
}

/// True if a window may begin at this byte of its allocation, which is not a multiple of 4,096.
pub(super) fn takes_any_start() -> bool {
    hit(named::F83B, NO_RANK, NONE)
}

/// The block that a caller receives for the allocated one. The caller of this function frees the other one.
pub(super) fn given(base: usize, len: usize) -> usize {
    if !wanted(named::F83) {
        return base;
    }
    let mut kept = kept();
    let used = kept.blocks.iter().find(|(_, (size, _))| *size >= len).map(|(base, _)| *base);
    if let Some(used) = used
        && hit(named::F83, NO_RANK, NONE)
    {
        if let Some((_, times)) = kept.blocks.get_mut(&used) {
            *times += 1;
        }
        return used;
    }
    kept.blocks.insert(base, (len, 0));
    base
}

/// True if a block that is given back is really freed.
pub(super) fn is_free(base: usize) -> bool {
    let mut kept = kept();
    match kept.blocks.get_mut(&base) {
        Some((_, times)) if *times > 0 => {
            *times -= 1;
            false
        }
        _ => {
            kept.blocks.remove(&base);
            true
        }
    }
}

/// The answer of `ncclWinGetUserPtr` for a window, or for a null window.
pub(super) fn pointer(rank: usize, memory: Option<Memory>) -> Outcome<usize> {
    let Some(memory) = memory else {
        return if hit(named::F84, rank, NONE) { Err(Failure::internal("there is no window")) } else { Ok(0) };
    };
    let block = crate::device::block_of(memory.base, memory.len).filter(|block| *block != memory.base);
    Ok(block.filter(|_| hit(named::F84B, rank, NONE)).unwrap_or(memory.base))
}
