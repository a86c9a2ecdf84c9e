//! What stores of kernels have replaced, so that a load can find it.
#![allow(unsafe_code)] // the old bytes are read at addresses of the host, as kernels do

use super::aliases::Aliases;
use super::weak::LINE;
use super::word::load_bits;
use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Changes that are kept of a line, and of all lines, at most.
const MOST_OF_A_LINE: usize = 128;
const MOST: usize = 1 << 16;

/// The latest changes of lines of memory. Time is counted in moments: what changes at the same moment is seen at once.
#[derive(Debug, Default)]
pub struct History {
    now: u64,
    aliases: Aliases,
    /// By the number of the line's place.
    lines: FxHashMap<u64, VecDeque<Change>>,
    /// The line and the moment of every change, the oldest first.
    kept: VecDeque<(u64, u64)>,
}

/// A store of at most 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The first moment at which the new bytes are there.
    pub moment: u64,
    /// The number of the block that has stored.
    pub block: u64,
    offset: u8,
    len: u8,
    old: [u8; 16],
}

impl Change {
    /// Calls `put` with those bytes that it has replaced and that are among `len` from an offset in the line on, each with its place there.
    pub fn undo(&self, offset: usize, len: usize, mut put: impl FnMut(usize, u8)) {
        let start = usize::from(self.offset);
        for (at, byte) in (start..).zip(&self.old[..usize::from(self.len)]) {
            if (offset..offset + len).contains(&at) {
                put(at - offset, *byte);
            }
        }
    }
}

impl History {
    /// The present moment.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Learns anew what is mapped at several addresses.
    pub fn update_aliases(&mut self) {
        self.aliases.update();
    }

    /// The line of an address, and the byte in it.
    pub fn line(&self, address: u64) -> (u64, usize) {
        let place = self.aliases.place(address);
        (place / LINE, (place % LINE) as usize)
    }

    /// The changes of a line that are kept, the oldest first.
    pub fn of(&self, line: u64) -> Option<&VecDeque<Change>> {
        self.lines.get(&line)
    }

    fn add(&mut self, line: u64, change: Change) {
        let changes = self.lines.entry(line).or_default();
        changes.push_back(change);
        self.kept.push_back((line, change.moment));
        if changes.len() > MOST_OF_A_LINE {
            let oldest = changes.front().map_or(0, |oldest| oldest.moment);
            self.forget(line, oldest);
        }
        if self.kept.len() > MOST
            && let Some((line, moment)) = self.kept.pop_front()
        {
            self.forget(line, moment);
        }
    }

    /// Forgets the changes of a line up to a moment. Loads cannot find what was there before.
    fn forget(&mut self, line: u64, moment: u64) {
        let Some(changes) = self.lines.get_mut(&line) else { return };
        while changes.front().is_some_and(|change| change.moment <= moment) {
            changes.pop_front();
        }
        if changes.is_empty() {
            self.lines.remove(&line);
        }
    }
}

/// Records the stores of a block.
#[derive(Clone, Debug)]
pub struct Recorder {
    history: Arc<Mutex<History>>,
    /// The block's number.
    pub block: u64,
}

impl Recorder {
    /// For the block with this number among those that share a history.
    pub fn new(history: Arc<Mutex<History>>, block: u64) -> Self {
        Self { history, block }
    }

    /// The history of all blocks.
    pub fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a moment: the changes that are added next are seen at once.
    pub fn begin(&self) {
        self.history().now += 1;
    }

    /// Bytes are about to be replaced.
    ///
    /// # Safety
    /// The address was admitted for an access of these bytes: 1, 2, 4, 8 or a multiple of 16.
    pub unsafe fn add(&self, address: u64, len: u64) {
        for at in (0..len).step_by(16) {
            let bytes = (len - at).min(16);
            // SAFETY: as the caller says.
            let old = unsafe { load_bits(address + at, bytes as u32) };
            self.add_known(address + at, bytes, old);
        }
    }

    /// Bytes that were `old` are replaced: at most 16, which do not reach beyond a line.
    pub fn add_known(&self, address: u64, len: u64, old: u128) {
        let mut history = self.history();
        let (line, offset) = history.line(address);
        let (moment, block) = (history.now, self.block);
        history.add(line, Change { moment, block, offset: offset as u8, len: len as u8, old: old.to_le_bytes() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_bytes_are_kept_up_to_a_limit() {
        let recorder = Recorder::new(Arc::default(), 3);
        for value in 0..1000u32 {
            recorder.begin();
            recorder.add_known(LINE + 4, 4, value.into());
        }
        let history = recorder.history();
        let changes = history.of(1).unwrap();
        assert_eq!((changes.len(), changes[0].moment, history.now()), (MOST_OF_A_LINE, 1001 - 128, 1000));
        let mut bytes = [9; 4];
        changes[127].undo(2, 4, |at, byte| bytes[at] = byte);
        assert_eq!(bytes, [9, 9, 231, 3], "999 begins at the third byte");
        drop(history);
        for line in 10..10 + MOST as u64 {
            recorder.begin();
            recorder.add_known(line * LINE, 1, 0);
        }
        let history = recorder.history();
        assert!(history.of(1).is_none() && history.lines.len() == MOST);
    }
}
