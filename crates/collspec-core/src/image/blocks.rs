//! Processes large memory in blocks that fit the cache, on all cores.
use crate::cores::{Units, share, threads_for};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Number of bytes of a block.
pub const BLOCK: usize = 64 << 10;

/// The cost of copying this many bytes, in additions.
pub fn copying(len: usize) -> usize {
    len / 8
}

/// Calls `work` for each block of `len` bytes with the state that `own` made for its thread, in any order and perhaps in parallel;
/// the total work is about `additions`.
///
/// # Errors
///
/// The error of the first block that fails; later blocks may have been skipped.
pub fn each_block<S, E: Send>(
    len: usize,
    additions: usize,
    own: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    each_part(len, BLOCK, additions, own, work)
}

/// Like [`each_block`], in parts of `part` bytes.
pub fn each_part<S, E: Send>(
    len: usize,
    part: usize,
    additions: usize,
    own: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let blocks = len.div_ceil(part);
    // The first block with an error, and the error.
    let wrong: Mutex<Option<(usize, E)>> = Mutex::new(None);
    let end = AtomicUsize::new(blocks);
    share(blocks, threads_for(additions), |units: &Units| {
        let mut own = own();
        while let Some(block) = units.take() {
            if block >= end.load(Ordering::Relaxed) {
                return;
            }
            let Err(error) = work(&mut own, block * part..len.min((block + 1) * part)) else { continue };
            let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
            if wrong.as_ref().is_none_or(|(first, _)| block < *first) {
                *wrong = Some((block, error));
                end.fetch_min(block, Ordering::Relaxed);
            }
        }
    });
    match wrong.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_one_block_and_the_first_error_is_told() {
        let cost = |len: usize| len.saturating_mul(8);
        for len in [0, 1, BLOCK, BLOCK + 1, (4 << 20) - 1, (12 << 20) + 5] {
            let seen = Mutex::new(vec![0u8; len]);
            let all = each_block(
                len,
                cost(len),
                || (),
                |(), range| -> Result<(), ()> {
                    seen.lock().unwrap()[range].iter_mut().for_each(|count| *count += 1);
                    Ok(())
                },
            );
            assert!(all.is_ok() && seen.into_inner().unwrap().iter().all(|count| *count == 1), "{len}");
            let first = each_block(
                len,
                cost(len),
                || (),
                |(), range| if range.start < BLOCK { Ok(()) } else { Err(range.start) },
            );
            assert_eq!(first.err(), (len > BLOCK).then_some(BLOCK), "{len}");
        }
    }
}
