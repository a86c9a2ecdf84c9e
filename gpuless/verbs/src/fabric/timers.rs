//! What is to happen later, on the delivery thread.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

type Task = Box<dyn FnOnce() + Send>;

/// Tasks by their time; those of equal times in the order in which they came.
pub struct Timers {
    tasks: Mutex<(u64, BTreeMap<(Instant, u64), Task>)>,
}

impl Timers {
    pub const fn new() -> Self {
        Self { tasks: Mutex::new((0, BTreeMap::new())) }
    }

    /// True if the task comes before all others.
    pub fn add(&self, at: Instant, task: Task) -> bool {
        let mut tasks = lock(&self.tasks);
        tasks.0 += 1;
        let key = (at, tasks.0);
        tasks.1.insert(key, task);
        tasks.1.first_key_value().is_some_and(|(first, _)| *first == key)
    }

    pub fn next(&self) -> Option<Instant> {
        lock(&self.tasks).1.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn take_due(&self, now: Instant) -> Option<Task> {
        let tasks = &mut lock(&self.tasks).1;
        let first = tasks.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}
