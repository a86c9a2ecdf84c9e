//! Fetches the results of ranks on other processes of the job, as far as they are not known here already.
//!
//! Where only one result is right, a single hash tells if all ranks of a part have it. For results that differ, or of which several
//! are right, hashes of blocks are requested: blocks that are already here are not sent, and no block is sent twice. Every request
//! goes to all parts before the first answer is awaited.
use super::Error;
use super::images::Images;
use super::remote_images::{add_to_hash, blocks, by_place, image_blocks, places};
use super::remote_part::RemotePart;
use super::worker::Worker;
use crate::cluster::{PartMessage, PartOrder, Place};
use crate::job::Job;
use collspec_core::image::contents::Contents;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Number of bytes covered by one hash of many images.
const DIGESTED: u64 = 256 << 20;
/// Bytes of the blocks whose hashes are requested at a time.
const HASHED: u64 = 64 << 20;
/// Bytes that are requested at a time, which limits the size of an answer.
const SENT: u64 = 4 << 20;
/// Number of places in one request.
const MANY: usize = 4096;

/// The results fetched from remote ranks.
#[derive(Default)]
pub struct Brought {
    /// Parts that can no longer be reached, so that their ranks' results are lost.
    pub lost: BTreeSet<usize>,
    /// Allocations whose final images are as expected and were not fetched.
    pub as_expected: BTreeSet<usize>,
}

/// A block that is to be fetched.
#[derive(Clone, Copy)]
struct Block {
    part: usize,
    /// Its allocation, and its first byte in the allocation's image; `None` for a checkpoint.
    of: Option<(usize, u64)>,
    place: Place,
}

/// Images of a part that are covered by one hash.
#[derive(Default)]
struct Digest {
    allocs: Vec<usize>,
    places: Vec<Place>,
    hash: Xxh3,
}

/// Fetches the final images and checkpoints of remote ranks, if `done` says that they are complete.
///
/// # Errors
///
/// The arena of this process cannot be read or written.
pub fn bring_last(
    worker: &mut Worker,
    images: &dyn Images,
    job: &Job,
    done: &dyn Fn(u32) -> bool,
) -> Result<Brought, Error> {
    let mut results = Results { worker, images, job, brought: Brought::default() };
    let mut open = results.compare_with_expected(done)?;
    let places = places(results.worker, job.n);
    let checkpoints = by_place(&places, job.checkpoints.iter().map(|spec| spec.rank));
    for ((part, _), checkpoints) in places.into_iter().zip(checkpoints) {
        let own = checkpoints.into_iter().filter_map(|checkpoint| job.checkpoints.get(checkpoint));
        for spec in own.filter(|spec| done(spec.rank)) {
            open.extend(blocks(spec.at, spec.bytes).map(|place| Block { part, of: None, place }));
        }
    }
    results.bring(open).map_err(Error::Resources)?;
    Ok(results.brought)
}

struct Results<'a> {
    worker: &'a mut Worker,
    images: &'a dyn Images,
    job: &'a Job,
    brought: Brought,
}

impl Results<'_> {
    /// Compares all images that have only one right contents with it, and returns the blocks of the others.
    fn compare_with_expected(&mut self, done: &dyn Fn(u32) -> bool) -> Result<Vec<Block>, Error> {
        let mut open = Vec::new();
        let mut asked: Vec<(usize, Vec<Digest>)> = Vec::new();
        let places = places(self.worker, self.job.n);
        let allocs = by_place(&places, self.job.allocs.iter().map(|spec| spec.rank));
        for ((part, _), allocs) in places.iter().zip(allocs) {
            let mut digests: Vec<Digest> = Vec::new();
            let mut bytes = DIGESTED;
            for alloc in allocs {
                let Some(spec) = self.job.allocs.get(alloc).filter(|spec| done(spec.rank)) else { continue };
                let right = self.images.right(alloc).filter(|right| right.len() as u64 == spec.image);
                let Some(right) = right else {
                    open.extend(self.blocks(*part, alloc));
                    continue;
                };
                if bytes >= DIGESTED {
                    digests.push(Digest::default());
                    bytes = 0;
                }
                bytes += spec.image;
                if let Some(digest) = digests.last_mut() {
                    digest.allocs.push(alloc);
                    digest.places.push((spec.last, spec.image));
                    add_to_hash(&mut digest.hash, &right);
                }
            }
            if let Some((_, remote)) = self.worker.arena_and_remote(*part) {
                for digest in &digests {
                    // A part that cannot be reached does not answer.
                    let _ = remote.order(&PartOrder::Digest(digest.places.clone()));
                }
            }
            asked.push((*part, digests));
        }
        for (part, digests) in asked {
            for digest in digests {
                let Some(hash) = self.hashes(part, 1).and_then(|hashes| hashes.first().copied()) else { break };
                let same = hash == digest.hash.digest128();
                for alloc in digest.allocs {
                    if !same {
                        open.extend(self.blocks(part, alloc));
                    } else if self.images.only_last(alloc).is_some() {
                        self.brought.as_expected.insert(alloc);
                    } else {
                        self.put_expected(alloc).map_err(Error::Resources)?;
                    }
                }
            }
        }
        Ok(open)
    }

    fn blocks(&self, part: usize, alloc: usize) -> Vec<Block> {
        let Some(spec) = self.job.allocs.get(alloc) else { return Vec::new() };
        let block = |(from, len)| Block { part, of: Some((alloc, from)), place: (spec.last + from, len) };
        image_blocks(spec).map(block).collect()
    }

    /// Stores the image that the rank has according to its hash.
    fn put_expected(&mut self, alloc: usize) -> io::Result<()> {
        let (Some(spec), Some(right)) = (self.job.allocs.get(alloc), self.images.right(alloc)) else { return Ok(()) };
        for (from, len) in image_blocks(spec) {
            if let Some(bytes) = right.get(from as usize..(from + len) as usize) {
                self.worker.arena.put(spec.last + from, &bytes)?;
            }
        }
        Ok(())
    }

    /// Fetches the blocks.
    fn bring(&mut self, open: Vec<Block>) -> io::Result<()> {
        let mut hashed = Vec::new();
        self.in_rounds(&open, HASHED, PartOrder::Hash, |results, part, blocks| {
            let Some(hashes) = results.hashes(part, blocks.len()) else { return Ok(false) };
            hashed.extend(blocks.iter().copied().zip(hashes));
            Ok(true)
        })?;
        // The place where a block with this hash and length is or will be stored.
        let mut known: HashMap<(u128, u64), u64> = HashMap::new();
        let (mut to_come, mut to_copy) = (Vec::new(), Vec::new());
        let mut contents = (usize::MAX, Vec::new());
        for (block, hash) in hashed {
            let (at, len) = block.place;
            if let Some(bytes) = self.known_bytes(block, hash, &mut contents) {
                self.worker.arena.put(at, &bytes)?;
                continue;
            }
            let first = *known.entry((hash, len)).or_insert(at);
            if first == at { to_come.push(block) } else { to_copy.push((block, hash, first)) }
        }
        self.fetch(&to_come)?;
        let mut changed = Vec::new();
        for (block, hash, first) in to_copy {
            let (at, len) = block.place;
            let mut bytes = vec![0; len as usize];
            self.worker.arena.take(first, &mut bytes)?;
            // Its first holder may be lost, or may have changed it after it was hashed.
            if xxh3_128(&bytes) == hash { self.worker.arena.put(at, &bytes)? } else { changed.push(block) }
        }
        self.fetch(&changed)
    }

    /// The bytes of a block if they are those of the expected or of the initial image.
    fn known_bytes(&self, block: Block, hash: u128, cached: &mut (usize, Vec<Contents>)) -> Option<Vec<u8>> {
        let (alloc, from) = block.of?;
        if cached.0 != alloc {
            let initial = self.images.initial(alloc).map(|initial| initial.into_owned());
            *cached = (alloc, self.images.right(alloc).into_iter().chain(initial).collect());
        }
        cached.1.iter().find_map(|contents| {
            let bytes = contents.get(from as usize..(from + block.place.1) as usize)?;
            (xxh3_128(&bytes) == hash).then(|| bytes.into_owned())
        })
    }

    fn fetch(&mut self, blocks: &[Block]) -> io::Result<()> {
        self.in_rounds(blocks, SENT, PartOrder::Get, |results, part, blocks| {
            let Some((arena, remote)) = results.worker.arena_and_remote(part) else { return Ok(false) };
            let all: u64 = blocks.iter().map(|block| block.place.1).sum();
            let Some(bytes) = bytes_of(remote).filter(|bytes| bytes.len() as u64 == all) else { return Ok(false) };
            let mut rest = bytes.as_slice();
            for Block { place: (at, len), .. } in blocks {
                let (own, behind) = rest.split_at((*len as usize).min(rest.len()));
                arena.put(*at, own)?;
                rest = behind;
            }
            Ok(true)
        })
    }

    /// Asks every part about its blocks, a limited number of bytes at a time: in each round all parts are asked before `answer` takes the
    /// answer of the first. It returns true if the part has answered; a part that has not is not asked again.
    fn in_rounds(
        &mut self,
        blocks: &[Block],
        most: u64,
        question: fn(Vec<Place>) -> PartOrder,
        mut answer: impl FnMut(&mut Self, usize, &[Block]) -> io::Result<bool>,
    ) -> io::Result<()> {
        let mut by_part: BTreeMap<usize, VecDeque<(u64, Vec<Block>)>> = BTreeMap::new();
        for block in blocks {
            let questions = by_part.entry(block.part).or_default();
            let len = block.place.1;
            match questions.back_mut().filter(|(all, blocks)| blocks.len() < MANY && *all + len <= most) {
                Some((all, blocks)) => {
                    *all += len;
                    blocks.push(*block);
                }
                None => questions.push_back((len, vec![*block])),
            }
        }
        while by_part.values().any(|questions| !questions.is_empty()) {
            let mut asked = Vec::new();
            for (part, questions) in &mut by_part {
                let Some((_, blocks)) = questions.pop_front() else { continue };
                if let Some((_, remote)) =
                    self.worker.arena_and_remote(*part).filter(|_| !self.brought.lost.contains(part))
                {
                    // A part that cannot be reached does not answer.
                    let _ = remote.order(&question(blocks.iter().map(|block| block.place).collect()));
                    asked.push((*part, blocks));
                }
            }
            for (part, blocks) in asked {
                if !answer(self, part, &blocks)? {
                    self.brought.lost.insert(part);
                }
            }
        }
        Ok(())
    }

    /// Receives this many hashes that the part was asked for; a part that does not answer is lost.
    fn hashes(&mut self, part: usize, number: usize) -> Option<Vec<u128>> {
        let (_, remote) = self.worker.arena_and_remote(part)?;
        let hashes = remote.answer(|message| match message {
            PartMessage::Hashes(hashes) => Ok(hashes),
            other => Err(other),
        });
        let hashes = hashes.filter(|hashes| hashes.len() == number);
        if hashes.is_none() {
            self.brought.lost.insert(part);
        }
        hashes
    }
}

fn bytes_of(remote: &mut RemotePart) -> Option<Vec<u8>> {
    remote.answer(|message| match message {
        PartMessage::Bytes(bytes) => Ok(bytes),
        other => Err(other),
    })
}
