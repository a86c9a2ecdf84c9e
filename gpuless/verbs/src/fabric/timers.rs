//! What is to happen later, on the delivery thread.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

type Task = Box<dyn FnOnce() + Send>;

/// A time, and a number by which tasks of equal times keep the order in which they came.
type Key = (Instant, u64);

pub struct Timers {
    tasks: Mutex<Tasks>,
}

struct Tasks {
    count: u64,
    by_time: BTreeMap<Key, Task>,
}

impl Timers {
    pub const fn new() -> Self {
        Self { tasks: Mutex::new(Tasks { count: 0, by_time: BTreeMap::new() }) }
    }

    /// True if the task comes before all others.
    pub fn add(&self, at: Instant, task: Task) -> bool {
        let mut tasks = lock(&self.tasks);
        tasks.count += 1;
        let key = (at, tasks.count);
        tasks.by_time.insert(key, task);
        tasks.by_time.first_key_value().is_some_and(|(first, _)| *first == key)
    }

    pub fn next(&self) -> Option<Instant> {
        lock(&self.tasks).by_time.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn take_due(&self, now: Instant) -> Option<Task> {
        let mut tasks = lock(&self.tasks);
        let first = tasks.by_time.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }
}
