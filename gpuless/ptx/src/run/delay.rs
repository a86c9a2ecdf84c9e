//! Stores that others do not see yet.
//!
//! On a GPU others may see a thread's stores late, and in any order that no fence forbids (PTX ISA, "Memory Consistency Model"). Here
//! a block keeps its stores to the device's memory in lines, and a seed decides when others see which. All are seen at a fence for more than
//! the block, before a release, and when the block ends; those that the block itself reads again are seen before the read.
#![allow(unsafe_code)] // stores go to addresses of the host, as those of kernels do

use super::history::Recorder;
use super::launch::Order;
use super::weak::LINE;
use super::word::store_bits;
use rustc_hash::FxHashMap;

/// Lines that a block keeps at most.
const MOST_LINES: usize = 64;

/// The part of a store that others see at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreUnit {
    /// One element of a thread's store: PTX guarantees no more, because a vector's elements are separate accesses.
    Element,
    /// All of a thread's store, at most 16 bytes.
    Thread,
    /// All stores of the block to 128 bytes.
    Line,
}

/// The stores of a block that others do not see yet.
#[derive(Debug)]
pub struct Delayed {
    unit: StoreUnit,
    order: Order,
    /// Records stores when they are seen, if loads may find what was there before.
    recorder: Option<Recorder>,
    lines: FxHashMap<u64, Line>,
    /// The numbers of these lines, so that one can be picked.
    numbers: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    bytes: [u8; LINE as usize],
    /// The bytes that were stored.
    stored: u128,
    /// The first byte of each part that is stored at once.
    starts: u128,
}

impl Line {
    const EMPTY: Self = Self { bytes: [0; LINE as usize], stored: 0, starts: 0 };

    /// Adds a store of parts of `part` bytes. False if it overlaps with parts that were cut differently.
    fn add(&mut self, offset: usize, bytes: &[u8], part: usize) -> bool {
        let end = offset + bytes.len();
        let range = bits(end) & !bits(offset);
        let starts = (offset..end).step_by(part).fold(0, |starts, start| starts | 1 << start);
        let ends_inside = end < LINE as usize && (self.stored & !self.starts) >> end & 1 == 1;
        if self.stored & range != 0 && (self.stored & range != range || self.starts & range != starts || ends_inside) {
            return false;
        }
        self.bytes[offset..end].copy_from_slice(bytes);
        self.stored |= range;
        self.starts |= starts;
        true
    }

    /// Lets all see the part that begins at a byte.
    ///
    /// # Safety
    /// As for [`Delayed::add`].
    unsafe fn show(&mut self, number: u64, start: usize, recorder: Option<&Recorder>) {
        let others = (self.starts | !self.stored) & !bits(start + 1);
        let end = (others.trailing_zeros() as usize).min(LINE as usize);
        let address = number * LINE + start as u64;
        let mut word = [0; 16];
        word[..end - start].copy_from_slice(&self.bytes[start..end]);
        // SAFETY: a part is an aligned word, and the caller of `Delayed::add` has promised that its address stays valid.
        unsafe {
            if let Some(recorder) = recorder {
                recorder.add(address, (end - start) as u64);
            }
            store_bits(address, (end - start) as u32, u128::from_le_bytes(word));
        }
        self.stored &= !(bits(end) & !bits(start));
        self.starts &= !(1 << start);
    }

    /// Lets all see the whole line.
    ///
    /// # Safety
    /// As for [`Delayed::add`].
    unsafe fn show_all(&mut self, number: u64, recorder: Option<&Recorder>) {
        recorder.inspect(|recorder| recorder.begin());
        while self.starts != 0 {
            // SAFETY: as the caller says.
            unsafe { self.show(number, self.starts.trailing_zeros() as usize, recorder) }
        }
    }
}

/// The bytes before one.
fn bits(end: usize) -> u128 {
    if end < LINE as usize { (1 << end) - 1 } else { u128::MAX }
}

impl Delayed {
    /// No stores yet; a seed decides when those to come are seen.
    pub fn new(unit: StoreUnit, seed: u64, recorder: Option<Recorder>) -> Self {
        Self { unit, order: Order(seed), recorder, lines: FxHashMap::default(), numbers: Vec::new() }
    }

    /// Adds a store whose elements have `element` bytes.
    ///
    /// # Safety
    /// The address was admitted for a store of these bytes, which are at most 16, and its memory is not unmapped before this is dropped.
    pub unsafe fn add(&mut self, address: u64, bytes: &[u8], element: usize) {
        let part = if self.unit == StoreUnit::Element { element } else { bytes.len() };
        let (number, offset) = (address / LINE, (address % LINE) as usize);
        if !self.lines.contains_key(&number) {
            if self.numbers.len() >= MOST_LINES {
                self.show_some_line();
            }
            self.numbers.push(number);
        }
        let line = self.lines.entry(number).or_insert(Line::EMPTY);
        if !line.add(offset, bytes, part) {
            // SAFETY: as the caller says.
            unsafe { line.show_all(number, self.recorder.as_ref()) };
            line.add(offset, bytes, part);
        }
    }

    /// True if all see every store.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Lets all see the stores to these bytes, which do not reach beyond a line.
    pub fn show_at(&mut self, address: u64, len: u64) {
        let (number, offset) = (address / LINE, (address % LINE) as usize);
        let range = bits(offset + len as usize) & !bits(offset);
        if self.lines.get(&number).is_some_and(|line| line.stored & range != 0) {
            self.show_line(self.numbers.iter().position(|known| *known == number).unwrap_or_default());
        }
    }

    /// Lets all see every store.
    pub fn show_all(&mut self) {
        while !self.numbers.is_empty() {
            self.show_some_line();
        }
    }

    /// Time passes: all may come to see some of the stores. True if they do.
    pub fn pass(&mut self) -> bool {
        let count = match self.order.below(4) {
            0 | 1 => 0,
            2 => 1,
            _ => 1 + self.order.below(2 * MOST_LINES),
        };
        let before = self.numbers.len();
        for _ in 0..count.min(before) {
            self.show_some_part();
        }
        count > 0 && before > 0
    }

    fn show_some_part(&mut self) {
        if self.unit == StoreUnit::Line {
            return self.show_some_line();
        }
        let at = self.order.below(self.numbers.len());
        let Some((number, line)) = self.numbers.get(at).and_then(|number| Some((*number, self.lines.get_mut(number)?)))
        else {
            return;
        };
        let mut starts = line.starts;
        for _ in 0..self.order.below(starts.count_ones() as usize) {
            starts &= starts - 1;
        }
        let recorder = self.recorder.as_ref().inspect(|recorder| recorder.begin());
        // SAFETY: the caller of `add` has promised that the address stays valid.
        unsafe { line.show(number, starts.trailing_zeros() as usize, recorder) };
        if line.starts == 0 {
            self.lines.remove(&number);
            self.numbers.swap_remove(at);
        }
    }

    fn show_some_line(&mut self) {
        let at = self.order.below(self.numbers.len());
        self.show_line(at);
    }

    fn show_line(&mut self, at: usize) {
        if at >= self.numbers.len() {
            return;
        }
        let number = self.numbers.swap_remove(at);
        if let Some(mut line) = self.lines.remove(&number) {
            // SAFETY: the caller of `add` has promised that the address stays valid.
            unsafe { line.show_all(number, self.recorder.as_ref()) }
        }
    }
}
