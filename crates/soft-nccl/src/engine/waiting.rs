//! Host threads that wait for answers, and those of this library that work for calls which have returned.
use super::counts::{changed, number};
use crate::failure::{Failure, Outcome};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::sync::{Arc, Condvar};

thread_local! {
    static IN_BACKGROUND: Cell<bool> = const { Cell::new(false) };
}

/// True on a thread of this library that continues a call.
pub(super) fn is_in_background() -> bool {
    IN_BACKGROUND.get()
}

/// This thread continues a call from now on.
pub(super) fn go_to_background() {
    IN_BACKGROUND.set(true);
}

/// The answer to a waiting thread: a new communicator, none (no colour, or a mere flush), or a refusal.
pub(crate) type Answer = Outcome<Option<usize>>;

/// A host thread that waits for several answers at once (a group of calls).
struct BlockedHost {
    answers: Vec<Option<Answer>>,
    missing: usize,
    condvar: Arc<Condvar>,
    /// The thing that it waits for, for messages.
    text: String,
    /// True if this library started the thread; no call of the user waits for it.
    background: bool,
}

/// The place of an answer: a waiting thread and the answer's index in its list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(super) host: u64,
    pub(super) index: usize,
}

#[derive(Default)]
pub(super) struct Hosts {
    waiting: FxHashMap<u64, BlockedHost>,
    blocked: usize,
    /// Threads that continue non-blocking calls and are not waiting.
    background: usize,
}

impl Hosts {
    /// A waiting thread, whose answers are given by [`Self::answer`].
    pub(super) fn block(&mut self, answers: usize, text: String) -> u64 {
        let id = number();
        let condvar = Arc::new(Condvar::new());
        let background = is_in_background();
        self.waiting
            .insert(id, BlockedHost { answers: vec![None; answers], missing: answers, condvar, text, background });
        if answers > 0 {
            if background { self.background -= 1 } else { self.blocked += 1 }
        }
        changed();
        id
    }

    /// Gives a waiting thread one of its answers; with the last one, it no longer counts as blocked.
    pub(super) fn answer(&mut self, Ticket { host, index }: Ticket, answer: Answer) {
        let Some(blocked) = self.waiting.get_mut(&host) else { return };
        let Some(slot) = blocked.answers.get_mut(index) else { return };
        if slot.replace(answer).is_none() {
            blocked.missing = blocked.missing.saturating_sub(1);
            if blocked.missing == 0 {
                blocked.condvar.notify_all();
                if blocked.background {
                    self.background += 1;
                } else {
                    self.blocked = self.blocked.saturating_sub(1);
                }
            }
        }
        changed();
    }

    /// What a thread whose answers are not complete waits at.
    pub(super) fn still(&self, host: u64) -> Option<Arc<Condvar>> {
        let blocked = self.waiting.get(&host).filter(|blocked| blocked.missing > 0);
        blocked.map(|blocked| Arc::clone(&blocked.condvar))
    }

    /// The answers of a thread that waits no longer.
    pub(super) fn release(&mut self, host: u64) -> Vec<Answer> {
        changed();
        let answers = self.waiting.remove(&host).map(|blocked| blocked.answers).unwrap_or_default();
        let lost = || Err(Failure::internal("an answer got lost"));
        answers.into_iter().map(|answer| answer.unwrap_or_else(lost)).collect()
    }

    /// Threads of this library begin to work for calls.
    pub(super) fn begin_background(&mut self, threads: usize) {
        self.background += threads;
        changed();
    }

    /// One of them is over.
    pub(super) fn end_background(&mut self) {
        self.background = self.background.saturating_sub(1);
        changed();
    }

    pub(super) fn blocked(&self) -> usize {
        self.blocked
    }

    pub(super) fn works_in_background(&self) -> bool {
        self.background > 0
    }

    /// What each waits for. A call whose parts wait has nothing to say besides them.
    pub(super) fn texts(&self) -> impl Iterator<Item = &String> {
        self.waiting.values().map(|blocked| &blocked.text).filter(|text| !text.is_empty())
    }
}
