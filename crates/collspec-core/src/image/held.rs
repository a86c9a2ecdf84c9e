//! Stored bytes: plain, or a period of bytes that repeat.
use super::blocks::BLOCK;
use crate::num;
use memmap2::{Advice, MmapMut, MmapOptions};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

/// Stored bytes. A large number of them is in a mapping with huge pages, if the system has these.
#[derive(Debug)]
pub enum Held {
    /// A small number of bytes, on the heap.
    Vec(Vec<u8>),
    /// A large number of bytes, in a mapping of its own.
    Map(MmapMut),
}

/// Number of bytes from which memory is mapped separately, so that it can have huge pages.
const MANY: usize = 4 << 20;

impl Held {
    /// Zero bytes.
    pub fn zeros(len: usize) -> Self {
        let map = if len < MANY { None } else { MmapOptions::new().len(len).map_anon().ok() };
        match map {
            Some(map) => {
                // Without huge pages it is slower, but still correct.
                let _ = map.advise(Advice::HugePage);
                Self::Map(map)
            }
            None => Self::Vec(vec![0; len]),
        }
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::Vec(Vec::new())
    }
}

impl From<Vec<u8>> for Held {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Vec(bytes)
    }
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Vec(bytes) => bytes,
            Self::Map(map) => map,
        }
    }
}

impl DerefMut for Held {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Vec(bytes) => bytes,
            Self::Map(map) => map,
        }
    }
}

/// Bytes that repeat. They are stored several times in a row, so that a block from any position is contiguous.
#[derive(Debug)]
pub struct Period {
    bytes: Vec<u8>,
    len: usize,
    /// The inverted bytes, once they were needed: many parts of one result share them.
    inverted: OnceLock<Arc<Period>>,
}

impl Period {
    /// A period of these bytes, which must not be empty.
    pub fn new(mut period: Vec<u8>) -> Self {
        if period.is_empty() {
            period.push(0);
        }
        let len = period.len();
        period.resize(len + BLOCK, 0);
        num::repeat_period(&mut period, len);
        Self { bytes: period, len, inverted: OnceLock::new() }
    }

    /// The period with inverted bytes.
    pub fn complement(&self) -> &Arc<Self> {
        self.inverted.get_or_init(|| {
            let bytes = self.bytes.iter().map(|byte| !byte).collect();
            Arc::new(Self { bytes, len: self.len, inverted: OnceLock::new() })
        })
    }

    /// Number of bytes after which they repeat.
    #[allow(clippy::len_without_is_empty)] // it is never empty
    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.bytes.len() + self.inverted.get().map_or(0, |inverted| inverted.held_bytes())
    }

    /// A range of the repeated bytes; always available for a block, and `None` for more.
    pub fn held(&self, from: usize, len: usize) -> Option<&[u8]> {
        let first = from % self.len;
        self.bytes.get(first..first.checked_add(len)?)
    }

    /// Copies the repeated bytes from `from` on.
    pub fn copy_to(&self, from: usize, to: &mut [u8]) {
        for (number, part) in to.chunks_mut(BLOCK).enumerate() {
            if let Some(bytes) = self.held(from + number * BLOCK, part.len()) {
                part.copy_from_slice(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_goes_on_from_any_place() {
        for len in [1, 3, 1004, BLOCK - 1, BLOCK, BLOCK + 5] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let period = Period::new(bytes.clone());
            for from in [0, 1, len - 1, len, 5 * len + len / 2] {
                let mut all = vec![0; 2 * BLOCK + 7];
                period.copy_to(from, &mut all);
                assert!(all.iter().enumerate().all(|(i, byte)| *byte == bytes[(from + i) % len]), "{len} {from}");
                assert_eq!(period.held(from, BLOCK), Some(&all[..BLOCK]), "{len} {from}");
                assert!(Arc::ptr_eq(period.complement(), period.complement()), "{len}");
                period.complement().copy_to(from, &mut all);
                assert!(all.iter().enumerate().all(|(i, byte)| *byte == !bytes[(from + i) % len]), "{len} {from}");
            }
        }
    }
}
