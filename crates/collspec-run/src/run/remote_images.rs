//! Sends the initial memory of ranks to other processes of the job, and fetches their step words.
//!
//! Bytes that this process can describe are not sent: guards are patterns of a key, and data that a part has received once is copied there.
use super::Error;
use super::images::{Images, initial};
use super::worker::Worker;
use crate::cluster::{PartOrder, Place};
use crate::job::arena::{Arena, Mapping, Step};
use crate::job::{AllocSpec, Job};
use collspec_core::image::contents::Contents;
use collspec_core::image::poison;
use collspec_core::plan::GUARD;
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Number of bytes that are sent and hashed at a time.
pub(super) const BLOCK: u64 = 256 << 10;
/// Fewer bytes are sent directly: a description would be as long.
const FEW: usize = 64;

/// The blocks of some bytes.
pub(super) fn blocks(at: u64, len: u64) -> impl Iterator<Item = Place> {
    (0..len.div_ceil(BLOCK)).map(move |block| (at + block * BLOCK, (len - block * BLOCK).min(BLOCK)))
}

/// Divides an image into blocks, in order. No block holds guard bytes and payload: two ranks with the same payload have different guards,
/// and a shared block could not be sent once for both.
pub(super) fn image_blocks(spec: &AllocSpec) -> impl Iterator<Item = Place> + use<> {
    let start = spec.start.min(spec.image);
    let end = spec.image.saturating_sub(GUARD).max(start);
    [(0, start), (start, end - start), (end, spec.image - end)].into_iter().flat_map(|(at, len)| blocks(at, len))
}

/// The hash of these bytes of an arena, one place after the other.
pub(super) fn arena_hash(arena: &Arena, places: &[Place]) -> io::Result<u128> {
    let mut hash = Xxh3::new();
    let mut block = Vec::new();
    for (at, len) in places.iter().flat_map(|(at, len)| blocks(*at, *len)) {
        block.resize(len as usize, 0);
        arena.take(at, &mut block)?;
        hash.update(&block);
    }
    Ok(hash.digest128())
}

/// Adds contents to a hash as [`arena_hash`] adds a place.
pub(super) fn add_to_hash(hash: &mut Xxh3, contents: &Contents) {
    for (at, len) in blocks(0, contents.len() as u64) {
        if let Some(bytes) = contents.get(at as usize..(at + len) as usize) {
            hash.update(&bytes);
        }
    }
}

/// Sends the initial images of remote ranks, which are not stored in this process, and resets their step words.
///
/// If a part cannot be reached, its end shows that.
///
/// # Errors
///
/// An image does not have the length of its place.
pub fn send_initial(worker: &mut Worker, images: &dyn Images, job: &Job, first_round: bool) -> Result<(), Error> {
    let places = places(worker, job.n);
    let allocs = by_place(&places, job.allocs.iter().map(|spec| spec.rank));
    for ((part, ranks), allocs) in places.into_iter().zip(allocs) {
        let Some((arena, remote)) = worker.arena_and_remote(part) else { continue };
        let mut send = |order: PartOrder| remote.order_later(&order).is_ok();
        let words = ranks.clone().flat_map(|_| Step::Before.word().to_ne_bytes()).collect();
        let mut reached = send(PartOrder::Arena(arena.mapping().size()))
            && send(PartOrder::Put { at: u64::from(ranks.start) * 8, bytes: words });
        let mut sent = HashMap::new();
        for (alloc, spec) in allocs.into_iter().filter_map(|alloc| Some((alloc, job.allocs.get(alloc)?))) {
            if !reached || (!first_round && !spec.is_in_arena()) {
                continue;
            }
            let Some(image) = initial(images, alloc, spec)? else { continue };
            for (from, len) in image_blocks(spec) {
                let Some(bytes) = image.get(from as usize..(from + len) as usize) else { continue };
                reached = reached && send(order_for(alloc, from, spec.initial + from, &bytes, &mut sent));
            }
        }
    }
    Ok(())
}

/// The shortest order that puts these bytes of an allocation, from `from` on in its image, to `at`.
fn order_for(alloc: usize, from: u64, at: u64, bytes: &[u8], sent: &mut HashMap<(u128, usize), u64>) -> PartOrder {
    let len = bytes.len() as u64;
    if bytes.len() > FEW {
        if len <= GUARD {
            let key = poison::guard_key(alloc, from as usize);
            let mut guard = vec![0; bytes.len()];
            poison::fill(&mut guard, key, 0);
            if guard == bytes {
                return PartOrder::Pattern { at, len, key };
            }
        }
        let earlier = *sent.entry((xxh3_128(bytes), bytes.len())).or_insert(at);
        if earlier != at {
            return PartOrder::Copy { from: earlier, at, len };
        }
    }
    PartOrder::Put { at, bytes: bytes.to_vec() }
}

/// Fetches the step words of remote ranks from the parts that have them; returns the first part that does not answer.
pub fn bring_step_words(worker: &mut Worker, n: u32) -> Option<usize> {
    let mut silent = None;
    for (part, ranks) in places(worker, n) {
        let Some((arena, remote)) = worker.arena_and_remote(part) else { continue };
        let Some(words) = remote.step_words(ranks.start, ranks.end) else {
            silent = silent.or(Some(part));
            continue;
        };
        let mapping: &Mapping = arena.mapping();
        for (rank, word) in ranks.zip(words) {
            if let Ok(place) = mapping.word(rank) {
                place.store(word, Ordering::Release);
            }
        }
    }
    silent
}

/// The remote parts by number, with their ranks.
pub(super) fn places(worker: &mut Worker, n: u32) -> Vec<(usize, Range<u32>)> {
    let numbers: Vec<usize> = worker.remote().map(|(number, _)| number).collect();
    numbers.into_iter().map(|part| (part, worker.ranks(part, n))).collect()
}

/// The numbers of things that belong to ranks, by the place where the rank is.
pub(super) fn by_place(places: &[(usize, Range<u32>)], ranks: impl Iterator<Item = u32>) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new(); places.len()];
    for (number, rank) in ranks.enumerate() {
        let place = places.partition_point(|(_, ranks)| ranks.end <= rank);
        let own = places.get(place).filter(|(_, ranks)| ranks.contains(&rank)).and_then(|_| all.get_mut(place));
        own.into_iter().for_each(|own| own.push(number));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_an_image_are_all_of_it_and_guards_are_apart() {
        for (start, payload) in [(GUARD, 0), (GUARD, 1), (GUARD + 8, 16), (GUARD, BLOCK), (GUARD + 2, 3 * BLOCK + 7)] {
            let image = start + payload + GUARD;
            let spec = AllocSpec { rank: 0, start, from_library: false, image, initial: 0, last: 0 };
            let all: Vec<Place> = image_blocks(&spec).collect();
            let mut end = 0;
            for (at, len) in &all {
                assert_eq!((*at, *len > 0, *len <= BLOCK), (end, true, true), "{all:?}");
                end += len;
            }
            assert_eq!(end, image);
            let cut = |at: u64| all.iter().any(|(first, len)| *first == at || first + len == at);
            assert!(cut(start) && cut(image - GUARD), "{all:?}");
        }
    }

    #[test]
    fn bytes_that_can_be_described_are_not_sent() {
        let mut sent = HashMap::new();
        let guard = poison::guard(3, 100, 4096).to_vec();
        let key = poison::guard_key(3, 100);
        let order = order_for(3, 100, 5000, &guard, &mut sent);
        assert!(matches!(order, PartOrder::Pattern { at: 5000, len: 4096, key: same } if same == key), "{order:?}");
        let data: Vec<u8> = (0..=255).collect();
        let order = order_for(3, 0, 9000, &data, &mut sent);
        assert!(matches!(&order, PartOrder::Put { at: 9000, bytes } if *bytes == data), "{order:?}");
        let order = order_for(4, 0, 20_000, &data, &mut sent);
        assert!(matches!(order, PartOrder::Copy { from: 9000, at: 20_000, len: 256 }), "{order:?}");
        let mut other = guard.clone();
        other[77] ^= 1;
        let order = order_for(3, 100, 30_000, &other, &mut sent);
        assert!(matches!(order, PartOrder::Put { at: 30_000, .. }), "a guard that is none: {order:?}");
    }

    #[test]
    fn things_go_to_the_place_of_their_rank() {
        let places = [(1, 2..4), (2, 4..4), (3, 6..7)];
        assert_eq!(by_place(&places, [6, 0, 3, 5, 2, 7].into_iter()), [vec![2, 4], vec![], vec![0]]);
    }
}
