//! Destroys communicators that are not kept, and tells the parent when the last is destroyed.
use super::Kept;
use super::rank_threads::RankThreads;
use super::session::Replies;
use crate::backend::{Backend, CommHandle, CommSlot};
use crate::job::Reply;
use crate::job::arena::{Mapping, Step};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// The step words of the job that is being finished. Words beyond its ranks are never written, although a set of communicators
/// may have more ranks.
pub struct StepWords {
    arena: Arc<Mapping>,
    n: u32,
}

impl StepWords {
    /// The step words of a job with `n` ranks.
    pub fn new(arena: Arc<Mapping>, n: u32) -> Self {
        Self { arena, n }
    }

    fn say(&self, rank: usize, step: Step) {
        let rank = u32::try_from(rank).ok().filter(|rank| *rank < self.n);
        if let Some(Ok(word)) = rank.map(|rank| self.arena.word(rank)) {
            word.store(step.word(), Ordering::Release);
        }
    }
}

/// Held by every task that still has something to destroy; when the last one drops it, the parent is notified if it asked.
pub struct Ending {
    words: StepWords,
    errors: Mutex<Vec<(u32, String)>>,
    replies: Option<Arc<Replies>>,
}

impl Ending {
    /// A teardown with nothing destroyed yet. The parent is notified of the end if `replies` is given.
    pub fn new(words: StepWords, replies: Option<Arc<Replies>>) -> Arc<Self> {
        Arc::new(Self { words, errors: Mutex::default(), replies })
    }

    /// Records that a rank's communicator could not be destroyed.
    pub fn failed(&self, rank: usize, error: String) {
        eprintln!("collspec worker: rank {rank}: {error}");
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push((rank as u32, error));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let Some(replies) = &self.replies else { return };
        let errors = std::mem::take(self.errors.get_mut().unwrap_or_else(PoisonError::into_inner));
        replies.send(&Reply::Finished { errors });
    }
}

/// Destroys communicators, each on its rank's thread (one thread for all: in a group), newest first. The step words show
/// which ranks are destroying.
pub fn destroy(threads: &RankThreads, backend: &'static Backend, set: Kept, ending: Arc<Ending>) {
    let library = &backend.library;
    let left_to_abort = set.job.left_to_abort.clone();
    let end = move |rank: usize, (index, slot): (usize, &CommSlot), ending: &Ending| {
        if slot.get() == CommHandle::NULL {
            return;
        }
        let ended = backend.device.bind(rank).map_err(|e| e.to_string());
        let destroy = || {
            if left_to_abort.contains(&(index as u32)) {
                library.abort(slot.get())
            } else {
                library.destroy(slot.get())
            }
        };
        if let Err(error) = ended.and_then(|()| destroy().map_err(|e| e.to_string())) {
            ending.failed(rank, error);
        }
    };
    if set.job.one_thread {
        let group = move || {
            let opened = library.group_start();
            for (rank, slots) in set.comms.iter().enumerate() {
                ending.words.say(rank, Step::Ending);
                slots.iter().enumerate().rev().for_each(|slot| end(rank, slot, &ending));
            }
            if let Err(error) = opened.and_then(|()| library.group_end()) {
                ending.failed(0, error.to_string());
            }
            (0..set.comms.len()).for_each(|rank| ending.words.say(rank, Step::Done));
        };
        return threads.give(0, Box::new(group));
    }
    let own = set.job.ranks.start as usize..set.job.ranks.end as usize;
    let own = set.comms.into_iter().enumerate().filter(|(rank, _)| own.contains(rank));
    for (thread, (rank, slots)) in own.enumerate() {
        let (ending, end) = (ending.clone(), end.clone());
        let all = move || {
            ending.words.say(rank, Step::Ending);
            slots.iter().enumerate().rev().for_each(|slot| end(rank, slot, &ending));
            ending.words.say(rank, Step::Done);
        };
        threads.give(thread, Box::new(all));
    }
}
