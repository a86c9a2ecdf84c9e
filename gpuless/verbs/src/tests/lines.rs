//! In which order and in which parts bytes become visible.

use super::alone;
use super::end::*;
use crate::memory::{shuffled, store};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const WORDS: usize = 16;
const TIMES: u64 = 100_000;

#[repr(align(128))]
struct Line([AtomicU64; WORDS]);

/// Whether a reader who looks at the last word first finds an older one in front of it, while lines of equal words are stored `times` times,
/// or until it has found one.
fn is_torn(times: u64, store: impl Fn(*mut u8, &[u8]) + Sync) -> bool {
    let line = Line(std::array::from_fn(|_| AtomicU64::new(0)));
    let (is_torn, is_done, both) = (AtomicBool::new(false), AtomicBool::new(false), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            both.wait();
            while !is_done.load(Ordering::Relaxed) {
                let last = line.0[WORDS - 1].load(Ordering::Acquire);
                if line.0[..WORDS - 1].iter().any(|word| word.load(Ordering::Acquire) < last) {
                    is_torn.store(true, Ordering::Relaxed);
                }
            }
        });
        both.wait();
        for time in 1..=times {
            store(line.0.as_ptr().cast_mut().cast(), &time.to_ne_bytes().repeat(WORDS));
            if is_torn.load(Ordering::Relaxed) {
                break;
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
    is_torn.into_inner()
}

#[test]
fn a_line_is_stored_in_ascending_order() {
    // SAFETY: the line is the test's.
    assert!(!is_torn(TIMES, |to, from| unsafe { store(to, from) }));
}

#[test]
fn a_line_that_is_stored_in_another_order_is_found() {
    let descending = |to: *mut u8, from: &[u8]| {
        for at in (0..from.len()).step_by(8).rev() {
            // SAFETY: the line is the test's.
            unsafe { store(to.add(at), &from[at..at + 8]) };
        }
    };
    let halves = |to: *mut u8, from: &[u8]| {
        let (first, second) = from.split_at(from.len() / 2);
        // SAFETY: the line is the test's.
        unsafe {
            store(to.add(first.len()), second);
            store(to, first);
        }
    };
    assert!(is_torn(1000 * TIMES, descending));
    assert!(is_torn(1000 * TIMES, halves));
}

#[test]
fn a_line_that_is_written_by_a_peer_is_never_torn() {
    let _alone = alone();
    let (a, b) = End::pair();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let b = &b;
        let reader = scope.spawn(|| {
            // SAFETY: within the memory, and aligned.
            let word = |index| unsafe { (*b.memory.cast::<AtomicU64>().add(index)).load(Ordering::Acquire) };
            while !is_done.load(Ordering::Relaxed) {
                let last = word(WORDS - 1);
                assert!((0..WORDS - 1).all(|index| word(index) >= last));
                std::thread::yield_now();
            }
        });
        for time in 1..=5000u64 {
            a.set(0, &time.to_ne_bytes().repeat(WORDS));
            assert_eq!(a.post(&a.request(WRITE, 0, WORDS * 8, b.remote(0))), 0);
            assert_eq!(a.sent().status, 0);
        }
        is_done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
    });
}

#[test]
fn every_length_and_place_is_stored_exactly() {
    let from: Vec<u8> = (1..=64).collect();
    for start in 0..16 {
        for len in 0..48 {
            let mut memory = [0u64; 12];
            let bytes = memory.as_mut_ptr().cast::<u8>();
            // SAFETY: 16 and 48 bytes of 96.
            unsafe { store(bytes.add(start), &from[..len]) };
            let mut wanted = [0; 96];
            wanted[start..start + len].copy_from_slice(&from[..len]);
            // SAFETY: the same memory.
            assert_eq!(unsafe { std::slice::from_raw_parts(bytes, 96) }, &wanted);
            let mut copied = Vec::new();
            // SAFETY: the same memory.
            unsafe { crate::memory::load(bytes.add(start), len, &mut copied) };
            assert_eq!(copied, from[..len]);
        }
    }
}

#[test]
fn shuffled_lines_are_all_lines_in_another_order() {
    let parts = shuffled(0x1000 + 40, 1000, 128, 3);
    let mut sorted = parts.clone();
    sorted.sort_by_key(|part| part.start);
    assert_eq!((sorted[0].clone(), sorted[1].clone()), (0..88, 88..216));
    assert!(sorted.windows(2).all(|two| two[0].end == two[1].start));
    assert_eq!(sorted.last().map(|part| part.end), Some(1000));
    assert_ne!(parts, sorted);
}
