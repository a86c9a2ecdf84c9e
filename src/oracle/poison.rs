//! Poison and guards: the patterns in memory that no event has written. Poison differs from the right values.
use super::memory::{Certainty, Memory, MemoryRun};

/// Fills guard bytes with a function of allocation and place, so that a shifted copy is detected too.
pub(crate) fn fill_guard(bytes: &mut [u8], alloc: usize, from: usize) {
    fill(bytes, mix(0x6775_6172_6473 ^ (alloc as u64) << 32), from);
}

/// The key of an allocation's poison.
pub(crate) fn poison_key(case: &str, seed: u64, alloc: usize) -> u64 {
    let name = case.bytes().fold(0xcbf2_9ce4_8422_2325, |h: u64, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    mix(mix(name ^ seed).wrapping_add(alloc as u64))
}

/// Changes the poison of bytes where it equals the final contents. `begin` are the runs before the first step.
pub(crate) fn avoid_final_values(poison: &mut [u8], begin: &[MemoryRun], last: &Memory) {
    let mut from = 0;
    for run in begin {
        let range = from..run.end;
        from = run.end;
        if run.certainty != Certainty::Unwritten {
            continue;
        }
        for (part, _) in
            last.runs_in(range).filter(|(_, run)| matches!(run.certainty, Certainty::Known | Certainty::Ambiguous))
        {
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

/// Fills bytes with a pattern of the key; `from` is the place of the first byte in memory.
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
