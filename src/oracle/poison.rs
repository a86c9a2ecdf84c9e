//! What memory holds that nobody has written: patterns that depend on the case and the place, and never look right.
use super::contents::{Certainty, Memory, Run};

/// Guard bytes: a function of allocation and place, so that a shifted copy is seen too.
pub(crate) fn guard(bytes: &mut [u8], alloc: usize, from: usize) {
    fill(bytes, mix(0x6775_6172_6473 ^ (alloc as u64) << 32), from);
}

/// The key of poison by case, seed and allocation.
pub(crate) fn key(case: &str, seed: u64, alloc: usize) -> u64 {
    let name = case.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    mix(mix(name ^ seed).wrapping_add(alloc as u64))
}

/// Where poison happens to be what the program leaves there, it changes. What was there from the `begin`ning stays.
pub(crate) fn differ(poison: &mut [u8], begin: &[Run], last: &Memory) {
    let mut from = 0;
    for run in begin {
        let range = from..run.end;
        from = run.end;
        if run.sure != Certainty::Blank {
            continue;
        }
        for (part, _) in last.over(range).filter(|(_, run)| matches!(run.sure, Certainty::Known | Certainty::Soft)) {
            let part = part.start as usize..part.end as usize;
            if let (Some(place), Some(data)) = (poison.get_mut(part.clone()), last.data.get(part)) {
                for (p, d) in place.iter_mut().zip(data).filter(|(p, d)| p == d) {
                    // Poison is the complement of what comes first, so this is neither that nor the last.
                    *p = d ^ 0x5a;
                }
            }
        }
    }
}

/// A pattern that a key and the place in memory of the first byte give.
pub(crate) fn fill(bytes: &mut [u8], key: u64, from: usize) {
    let word = |i: usize| mix(key.wrapping_add((from + i * 8) as u64)).to_le_bytes();
    let (words, rest) = bytes.as_chunks_mut();
    words.iter_mut().enumerate().for_each(|(i, place)| *place = word(i));
    let last = word(words.len());
    rest.iter_mut().zip(last).for_each(|(place, byte)| *place = byte);
}

/// A 64-bit finaliser: every input bit changes about half of the output bits.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
