//! What becomes of communicators that are not kept, counted until the last is gone.
use super::job::Reply;
use super::session::Replies;
use std::sync::{Arc, Mutex, PoisonError};

/// Held by everything that still has something to destroy; when the last lets go, the parent hears of it if it asked.
pub struct Ending {
    errors: Mutex<Vec<(u32, String)>>,
    replies: Option<Arc<Replies>>,
}

impl Ending {
    /// Nothing destroyed yet. `replies` is where the end is told, if it is to be.
    pub fn new(replies: Option<Arc<Replies>>) -> Arc<Self> {
        Arc::new(Self { errors: Mutex::default(), replies })
    }

    /// A rank's communicator would not be destroyed.
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
