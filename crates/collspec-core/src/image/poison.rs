//! Poison and guards: patterns in memory that no event has written. Poison differs from the right values.
use super::contents::Contents;
use crate::num::splitmix64;
use std::ops::Range;
use std::sync::OnceLock;

/// Number of allocations whose guard bytes are kept: recomputing them took an eighth of a small case's instructions.
const KEPT_ALLOCATIONS: usize = 32;
/// Number of bytes that are kept of the pattern of such an allocation.
const KEPT_BYTES: usize = 16 << 10;

/// The pattern of guard bytes: it depends on allocation and position, so that a shifted copy is detected too.
pub fn guard(alloc: usize, from: usize, len: usize) -> Contents {
    Contents::pattern(guard_key(alloc, from), 0, len)
}

/// Appends the guard bytes of an allocation at these positions in its image.
pub(crate) fn append_guard(bytes: &mut Vec<u8>, alloc: usize, places: Range<usize>) {
    static KEPT: [OnceLock<Box<[u8]>>; KEPT_ALLOCATIONS] = [const { OnceLock::new() }; KEPT_ALLOCATIONS];
    // The pattern continues from word to word, so a guard that begins at a word boundary is a part of the kept bytes.
    if let Some(kept) = KEPT.get(alloc)
        && places.start.is_multiple_of(8)
        && places.end <= KEPT_BYTES
    {
        let kept = kept.get_or_init(|| {
            let mut all = vec![0; KEPT_BYTES];
            fill(&mut all, guard_key(alloc, 0), 0);
            all.into()
        });
        bytes.extend_from_slice(&kept[places]);
        return;
    }
    let before = bytes.len();
    bytes.resize(before + places.len(), 0);
    fill(&mut bytes[before..], guard_key(alloc, places.start), 0);
}

/// The key of the pattern of an allocation's guard bytes from a position on, from which [`fill`] makes the bytes.
pub fn guard_key(alloc: usize, from: usize) -> u64 {
    splitmix64(0x6775_6172_6473 ^ (alloc as u64) << 32).wrapping_add(from as u64)
}

/// The poison of an allocation's bytes from a position on, for a key from [`poison_key`].
pub(crate) fn pattern(key: u64, from: usize, len: usize) -> Contents {
    Contents::pattern(key.wrapping_add(from as u64), 0, len)
}

/// The key of an allocation's poison.
pub(crate) fn poison_key(case: &str, seed: u64, alloc: usize) -> u64 {
    let name = case.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    splitmix64(splitmix64(name ^ seed).wrapping_add(alloc as u64))
}

/// Changes the poison of bytes where it equals the final contents.
pub(crate) fn avoid(poison: &mut [u8], last: &[u8]) {
    for (p, d) in poison.iter_mut().zip(last).filter(|(p, d)| p == d) {
        // Poison is the complement of the first value, so this differs from both the first and the last.
        *p = d ^ 0x5a;
    }
}

/// Fills bytes with the pattern of a key, which continues from word to word; `from` is the position of the first byte in it.
pub fn fill(bytes: &mut [u8], key: u64, from: usize) {
    let word = |place: usize| splitmix64(key.wrapping_add(place as u64)).to_le_bytes();
    let (head, rest) = bytes.split_at_mut(bytes.len().min((8 - from % 8) % 8));
    head.iter_mut().zip(word(from - from % 8).into_iter().skip(from % 8)).for_each(|(place, byte)| *place = byte);
    let from = from + head.len();
    let (words, last) = rest.as_chunks_mut();
    words.iter_mut().enumerate().for_each(|(i, place)| *place = word(from + i * 8));
    last.iter_mut().zip(word(from + words.len() * 8)).for_each(|(place, byte)| *place = byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appended_guards_are_the_bytes_of_their_pattern() {
        for alloc in [0, 1, KEPT_ALLOCATIONS - 1, KEPT_ALLOCATIONS, 1000] {
            for start in [0, 4096, 4104, 4107, KEPT_BYTES - 4096, KEPT_BYTES - 4095, KEPT_BYTES, 1 << 20] {
                for len in [0, 1, 4096] {
                    let mut bytes = vec![7];
                    append_guard(&mut bytes, alloc, start..start + len);
                    assert_eq!(bytes.remove(0), 7);
                    assert!(guard(alloc, start, len) == *bytes, "{len} bytes from {start} on of {alloc}");
                }
            }
        }
    }
}
