//! Brings the memory of ranks on other processes of the job there, and what they left behind back.
//!
//! The arena here has a place for every rank. What it holds for a rank elsewhere is a copy: it is sent before the job, and brought
//! back block by block afterwards, but for the blocks that are here already, by their hashes.
use super::Error;
use super::remote_part::RemotePart;
use super::worker::Worker;
use crate::cluster::{PartMessage, PartOrder};
use crate::job::Job;
use crate::job::arena::{Arena, Mapping};
use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes that are sent and hashed at a time.
pub(super) const BLOCK: u64 = 256 << 10;

/// Bytes whose hashes are asked for at a time: a whole number of blocks.
const PIECE: u64 = 64 * BLOCK;

/// The blocks of some bytes.
pub(super) fn blocks(at: u64, len: u64) -> impl Iterator<Item = (u64, usize)> {
    (0..len.div_ceil(BLOCK)).map(move |block| (at + block * BLOCK, (len - block * BLOCK).min(BLOCK) as usize))
}

/// Sends the initial images of ranks elsewhere, after they have been put down here.
///
/// # Errors
///
/// The arena cannot be read. A part that is not reached is noticed by its end.
pub fn send_initial(worker: &mut Worker, job: &Job, first_round: bool) -> Result<(), Error> {
    let places = places(worker, job.n);
    for (part, ranks) in places {
        let Some((arena, remote)) = worker.arena_and_remote(part) else { continue };
        let _ = remote.order(&PartOrder::Arena(arena.mapping().size()));
        for rank in ranks.clone() {
            let word = arena.mapping().word(rank)?.load(Ordering::Acquire);
            let _ = remote.order(&PartOrder::Put { at: u64::from(rank) * 8, bytes: word.to_ne_bytes().to_vec() });
        }
        for spec in job.allocs.iter().filter(|spec| ranks.contains(&spec.rank)) {
            if !first_round && !spec.is_in_arena() {
                continue;
            }
            for (at, len) in blocks(spec.initial, spec.image) {
                let mut bytes = vec![0; len];
                arena.take(at, &mut bytes).map_err(Error::Resources)?;
                if remote.order(&PartOrder::Put { at, bytes }).is_err() {
                    break;
                }
            }
        }
    }
    Ok(())
}

/// Brings the final images and checkpoints of ranks elsewhere, if `done` says that they are there. A part that is not reached any
/// more is returned.
///
/// # Errors
///
/// The arena here cannot be read or written.
pub fn bring_last(worker: &mut Worker, job: &Job, done: &dyn Fn(u32) -> bool) -> Result<Option<usize>, Error> {
    let mut known = KnownBlocks::default();
    for (part, ranks) in places(worker, job.n) {
        let own = |rank: u32| ranks.contains(&rank) && done(rank);
        let images = job.allocs.iter().filter(|spec| own(spec.rank)).map(|spec| (spec.last, spec.image));
        let checkpoints = job.checkpoints.iter().filter(|spec| own(spec.rank)).map(|spec| (spec.at, spec.bytes));
        let pieces =
            |(at, len): (u64, u64)| (0..len.div_ceil(PIECE)).map(move |k| (at + k * PIECE, PIECE.min(len - k * PIECE)));
        for (at, len) in images.chain(checkpoints).flat_map(pieces) {
            let Some((arena, remote)) = worker.arena_and_remote(part) else { continue };
            if bring(arena, remote, &mut known, at, len).map_err(Error::Resources)?.is_none() {
                return Ok(Some(part));
            }
        }
    }
    Ok(None)
}

/// Step words of ranks elsewhere, as far as their parts can tell; the first part that does not answer.
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
fn places(worker: &mut Worker, n: u32) -> Vec<(usize, Range<u32>)> {
    let numbers: Vec<usize> = worker.remote().map(|(number, _)| number).collect();
    numbers.into_iter().map(|part| (part, worker.ranks(part, n))).collect()
}

/// Where bytes with a hash and a length lie here.
type KnownBlocks = HashMap<(u128, usize), u64>;

/// Brings some bytes; `None` if the part does not answer.
fn bring(arena: &Arena, remote: &mut RemotePart, known: &mut KnownBlocks, at: u64, len: u64) -> io::Result<Option<()>> {
    let hashes = remote.ask(&PartOrder::Hash { at, len }, |message| match message {
        PartMessage::Hashes(hashes) => Ok(hashes),
        other => Err(other),
    });
    let Some(hashes) = hashes.filter(|hashes| hashes.len() == blocks(at, len).count()) else { return Ok(None) };
    for ((at, len), hash) in blocks(at, len).zip(hashes) {
        let mut here = vec![0; len];
        arena.take(at, &mut here)?;
        if xxh3_128(&here) == hash {
            known.insert((hash, len), at);
            continue;
        }
        if let Some(same) = known.get(&(hash, len)) {
            arena.take(*same, &mut here)?;
            if xxh3_128(&here) == hash {
                arena.put(at, &here)?;
                continue;
            }
        }
        let bytes = remote.ask(&PartOrder::Get { at, len: len as u64 }, |message| match message {
            PartMessage::Bytes(bytes) => Ok(bytes),
            other => Err(other),
        });
        let Some(bytes) = bytes.filter(|bytes| bytes.len() == len) else { return Ok(None) };
        arena.put(at, &bytes)?;
        known.insert((hash, len), at);
    }
    Ok(Some(()))
}
