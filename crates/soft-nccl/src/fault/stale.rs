//! Faults of the step buffer: its old contents are mistaken for data.
use super::named::*;
use super::site::Site;
use super::{FaultMode, mode, wanted};
use crate::algo::{Link, Step};
use crate::settings::SLOTS;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The end of a message that its sender did not overwrite.
const LEFT: usize = 16;

/// The data received on a link of one operation.
pub(super) struct Line {
    link: Link,
    messages: usize,
    last: Vec<u8>,
}

/// A slot as earlier operations left it. The length suffices if faults are only searched for.
#[derive(Default)]
struct Slot {
    len: usize,
    data: Vec<u8>,
}

type Slots = HashMap<(usize, usize, u8, usize), Slot>;

/// The slots by communicator of the receiving rank, sender, lane and number.
static SLOTS_USED: LazyLock<Mutex<Slots>> = LazyLock::new(Mutex::default);

fn slots() -> MutexGuard<'static, Slots> {
    SLOTS_USED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Empties all slots, because the next call belongs to another program.
pub(super) fn forget() {
    slots().clear();
}

impl Slot {
    fn keep(&mut self, data: &[u8], upto: usize) {
        self.len = self.len.max(data.len());
        if matches!(mode(), FaultMode::Inject(_)) {
            self.data.resize(self.len, 0);
            self.data[..upto].copy_from_slice(&data[..upto]);
        }
    }
}

impl Site {
    /// F09, F10, F11: a message, or the slot's old contents.
    pub(super) fn stale(&mut self, step: &Step, data: &mut [u8]) {
        let Some(link) = step.recv.filter(|_| [F09, F10, F11].into_iter().any(wanted)) else { return };
        let at = match self.lines.iter().position(|line| line.link == link) {
            Some(at) => at,
            None => {
                self.lines.push(Line { link, messages: 0, last: Vec::new() });
                self.lines.len() - 1
            }
        };
        let number = self.lines[at].messages;
        self.lines[at].messages += 1;
        let len = data.len();

        if wanted(F09) {
            let true_one = data.to_vec();
            let wraps = number > 0 && number.is_multiple_of(SLOTS);
            if wraps && len > 0 && self.hit(F09) {
                let last = &self.lines[at].last;
                let both = len.min(last.len());
                data[..both].copy_from_slice(&last[..both]);
            }
            self.lines[at].last = true_one;
        }

        if len == 0 || !(wanted(F10) || wanted(F11)) {
            return;
        }
        let mut slots = slots();
        let slot = slots.entry((self.context.comm, link.peer, link.lane, number % SLOTS)).or_default();
        if slot.len > len && self.hit(F10) {
            let left = len - len.min(LEFT);
            data[left..].copy_from_slice(&slot.data[left..len]);
            return slot.keep(data, left);
        }
        let half = len / 2;
        if slot.len > half && self.hit(F11) {
            let old = slot.data.clone();
            slot.keep(data, len);
            let end = len.min(old.len());
            return data[half..end].copy_from_slice(&old[half..end]);
        }
        slot.keep(data, len);
    }
}
