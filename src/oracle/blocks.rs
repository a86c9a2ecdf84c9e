//! Goes through large memory in blocks that fit the cache, on all cores.
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bytes of a block.
pub const BLOCK: usize = 64 << 10;
/// From so many bytes on threads are worth their start.
const MANY: usize = 4 << 20;

/// Calls `work` for each block of `len` bytes with what `own` made for its thread, in any order and perhaps at the same time.
///
/// # Errors
///
/// That of the first block that has one; blocks behind it may have been left out.
pub fn each_block<S, E: Send>(
    len: usize,
    own: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, Range<usize>) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let blocks = len.div_ceil(BLOCK);
    let next = AtomicUsize::new(0);
    // The least block with an error, and the error.
    let wrong: Mutex<Option<(usize, E)>> = Mutex::new(None);
    let end = AtomicUsize::new(blocks);
    let run = || {
        let mut own = own();
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block >= end.load(Ordering::Relaxed) {
                return;
            }
            let Err(error) = work(&mut own, block * BLOCK..len.min((block + 1) * BLOCK)) else { continue };
            let mut wrong = wrong.lock().unwrap_or_else(PoisonError::into_inner);
            if wrong.as_ref().is_none_or(|(first, _)| block < *first) {
                *wrong = Some((block, error));
                end.fetch_min(block, Ordering::Relaxed);
            }
        }
    };
    let threads = if len < MANY { 1 } else { std::thread::available_parallelism().map_or(1, usize::from).min(blocks) };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // Where no thread can be started the others do its share.
            let _ = std::thread::Builder::new().name("blocks".into()).spawn_scoped(scope, run);
        }
        run();
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
        for len in [0, 1, BLOCK, BLOCK + 1, MANY - 1, 3 * MANY + 5] {
            let seen = Mutex::new(vec![0u8; len]);
            let all = each_block(
                len,
                || (),
                |(), range| -> Result<(), ()> {
                    seen.lock().unwrap()[range].iter_mut().for_each(|count| *count += 1);
                    Ok(())
                },
            );
            assert!(all.is_ok() && seen.into_inner().unwrap().iter().all(|count| *count == 1), "{len}");
            let first = each_block(len, || (), |(), range| if range.start < BLOCK { Ok(()) } else { Err(range.start) });
            assert_eq!(first.err(), (len > BLOCK).then_some(BLOCK), "{len}");
        }
    }
}
