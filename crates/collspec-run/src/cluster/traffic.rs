//! Counts the traffic between the leading process and the others, to show how it grows with the ranks.
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the connections of a process.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    writes: AtomicU64,
    come: AtomicU64,
    questions: AtomicU64,
}

/// The amount of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Bytes that went to the others.
    pub sent: u64,
    /// Number of writes in which it was sent.
    pub writes: u64,
    /// Bytes that came from parts.
    pub come: u64,
    /// Answers that were waited for before anything else was done.
    pub questions: u64,
}

impl Traffic {
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn came(&self, bytes: usize) {
        self.come.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn asked(&self) {
        self.questions.fetch_add(1, Ordering::Relaxed);
    }

    /// The traffic so far.
    pub fn counted(&self) -> Counted {
        let [sent, writes, come, questions] =
            [&self.sent, &self.writes, &self.come, &self.questions].map(|count| count.load(Ordering::Relaxed));
        Counted { sent, writes, come, questions }
    }
}
