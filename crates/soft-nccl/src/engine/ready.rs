//! Tasks that could run: in order of arrival, or in an order drawn from a seed.
use std::collections::VecDeque;

pub(super) type TaskId = u64;

#[derive(Default)]
pub(super) struct Ready {
    queue: VecDeque<TaskId>,
    random: Option<u64>,
}

impl Ready {
    pub(super) fn new(seed: Option<u64>) -> Self {
        // The generator below must not start at 0.
        Self { queue: VecDeque::new(), random: seed.map(|seed| seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) }
    }

    /// Tasks run in the order of this seed from now on.
    pub(super) fn shuffle(&mut self, seed: u64) {
        self.random = Self::new(Some(seed)).random;
    }

    pub(super) fn push(&mut self, task: TaskId) {
        self.queue.push_back(task);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn is_shuffled(&self) -> bool {
        self.random.is_some()
    }

    pub(super) fn pop(&mut self) -> Option<TaskId> {
        if let Some(state) = &mut self.random {
            *state ^= *state << 13;
            *state ^= *state >> 7;
            *state ^= *state << 17;
            let len = self.queue.len().max(1) as u64;
            return self.queue.swap_remove_back((*state % len) as usize);
        }
        self.queue.pop_front()
    }
}
