//! Memory of the process as a network card sees it: stores in ascending order and of whole words, reads, and whether memory is there.
#![allow(unsafe_code)] // addresses that callers have registered

use crate::settings::{Arrival, arrival};
use libc::c_void;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a word that is never stored in parts.
const WORD: usize = 8;
/// After as many shuffled lines the storing thread pauses, so that others look at memory in between.
const LINES_AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_micros(100);

/// The bytes that are stored or read at once at an address: as many as a word has, or the largest part that is aligned and fits.
fn step(address: usize, left: usize) -> usize {
    let aligned = if address == 0 { WORD } else { 1 << address.trailing_zeros().min(3) };
    let fitting = if left >= WORD { WORD } else { 1 << left.max(1).ilog2() };
    aligned.min(fitting)
}

/// Stores bytes in ascending order, in whole aligned words. Kernels poll lines of 8 and 128 bytes whose flag comes last, while the line
/// arrives: a copy by the C library or the kernel may store in any order.
///
/// # Safety
///
/// The memory is mapped and writable. Others may read and write it at the same time.
pub unsafe fn store(to: *mut u8, from: &[u8]) {
    let mut at = 0;
    while at < from.len() {
        // SAFETY: within the range that the caller promises.
        let place = unsafe { to.add(at) };
        let bytes = step(place as usize, from.len() - at);
        if bytes == WORD {
            let (words, _) = from[at..].as_chunks::<WORD>();
            for (index, word) in words.iter().enumerate() {
                // SAFETY: aligned, by `step`, and within the range.
                unsafe { place.cast::<u64>().add(index).write_volatile(u64::from_ne_bytes(*word)) };
            }
            at += words.len() * WORD;
            continue;
        }
        // SAFETY: aligned, by `step`, and within the range.
        unsafe {
            match from[at..at + bytes] {
                [a, b, c, d] => place.cast::<u32>().write_volatile(u32::from_ne_bytes([a, b, c, d])),
                [a, b] => place.cast::<u16>().write_volatile(u16::from_ne_bytes([a, b])),
                [a] => place.write_volatile(a),
                _ => {}
            }
        }
        at += bytes;
    }
    // What is announced next, a completion for instance, must not be seen before these bytes.
    std::sync::atomic::fence(Ordering::Release);
}

/// Stores a write that has arrived, in the order that [`set_arrival`](crate::set_arrival) decides.
///
/// # Safety
///
/// As for [`store`].
pub unsafe fn store_arriving(to: *mut u8, from: &[u8]) {
    let Arrival::ShuffledLines { bytes: line, seed } = arrival() else {
        // SAFETY: as the caller says.
        return unsafe { store(to, from) };
    };
    for (count, part) in shuffled(to as usize, from.len(), line.max(1), seed).into_iter().enumerate() {
        // SAFETY: a part of the same range.
        unsafe { store(to.add(part.start), &from[part]) };
        if count % LINES_AT_ONCE == LINES_AT_ONCE - 1 {
            std::thread::sleep(PAUSE);
        }
    }
}

/// The lines that a range of memory touches, as parts of the range, in random order.
pub fn shuffled(start: usize, len: usize, line: usize, seed: u64) -> Vec<Range<usize>> {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let mut random = Random(seed ^ WRITES.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut parts = Vec::with_capacity(len / line + 2);
    let mut at = 0;
    while at < len {
        let end = (at + line - (start + at) % line).min(len);
        parts.push(at..end);
        at = end;
    }
    for last in (1..parts.len()).rev() {
        parts.swap(last, random.below(last + 1));
    }
    parts
}

/// Copies memory that others may be writing.
///
/// # Safety
///
/// The memory is mapped and readable.
pub unsafe fn load(from: *const u8, len: usize, into: &mut Vec<u8>) {
    into.reserve(len);
    let mut at = 0;
    while at < len {
        // SAFETY: within the range that the caller promises.
        let place = unsafe { from.add(at) };
        if step(place as usize, len - at) == WORD {
            let words = (len - at) / WORD;
            // SAFETY: aligned, by `step`, and within the range.
            let word = |index| unsafe { place.cast::<u64>().add(index).read_volatile() };
            let room = &mut into.spare_capacity_mut()[..words * WORD];
            for (index, to) in room.as_chunks_mut::<WORD>().0.iter_mut().enumerate() {
                *to = word(index).to_ne_bytes().map(MaybeUninit::new);
            }
            // SAFETY: these bytes have just been written.
            unsafe { into.set_len(into.len() + words * WORD) };
            at += words * WORD;
        } else {
            // SAFETY: within the range.
            into.push(unsafe { place.read_volatile() });
            at += 1;
        }
    }
}

/// Whether memory can be used, as far as one look can say: its owner may unmap registered memory, which would kill the process at the
/// next store. The pages are faulted in, as the access would do. Between this look and the access another thread can still unmap them.
pub fn is_usable(address: usize, len: usize, to_write: bool) -> bool {
    let advice = if to_write { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
    with_pages(address, len, |start, bytes| {
        // SAFETY: the contents of the pages stay as they are.
        let answer = unsafe { libc::madvise(start, bytes, advice) };
        answer == 0 || (!knows_populate() && is_mapped(address, len))
    })
}

/// Whether every page of a range belongs to a mapping, whatever that allows. It costs little even for ranges of gigabytes.
pub fn is_mapped(address: usize, len: usize) -> bool {
    // SAFETY: without MS_SYNC nothing is written; it answers ENOMEM if a page is not mapped.
    with_pages(address, len, |start, bytes| unsafe { libc::msync(start, bytes, libc::MS_ASYNC) } == 0)
}

pub fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    // SAFETY: it only answers.
    *SIZE.get_or_init(|| usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1))
}

fn with_pages(address: usize, len: usize, ask: impl FnOnce(*mut c_void, usize) -> bool) -> bool {
    let page = page_size();
    let start = address / page * page;
    let end = address.checked_add(len).and_then(|end| end.checked_next_multiple_of(page));
    len == 0 || end.is_some_and(|end| ask(start as *mut c_void, end - start))
}

/// Linux before 5.14 does not know the advice, and refuses it even for no memory at all.
fn knows_populate() -> bool {
    static KNOWS: OnceLock<bool> = OnceLock::new();
    // SAFETY: an empty range.
    *KNOWS.get_or_init(|| unsafe { libc::madvise(std::ptr::null_mut(), 0, libc::MADV_POPULATE_READ) } == 0)
}

/// xorshift64*: decides places and orders by a seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        let mut x = self.0 | u64::from(self.0 == 0);
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        self.0 = x;
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from((u128::from(self.next()) * end as u128) >> 64).unwrap_or(0)
    }
}
