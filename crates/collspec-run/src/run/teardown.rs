//! Destroys the communicators that a worker does not keep, with a time limit.
use super::remote_images::bring_step_words;
use super::worker::{Incoming, Worker};
use crate::child::patience::Patience;
use crate::job::arena::Step;
use crate::job::{Finish, Reply, Request, SetId};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The way destroying communicators ended. Unless it is `Done` or `Errors`, the worker is dead.
pub enum TeardownResult {
    /// All communicators are destroyed.
    Done,
    /// World ranks, and the errors that the library returned.
    Errors(Vec<(u32, String)>),
    /// The time limit passed; these ranks were destroying communicators.
    Late(Vec<u32>),
    /// A part died; the text says how.
    Dead(String),
}

/// Ends a case: its communicators are kept as `keep` or destroyed, and the sets in `destroy` are destroyed. Waits at most
/// `limit`.
pub fn tear_down(
    worker: &mut Worker,
    ranks: u32,
    keep: Option<SetId>,
    destroy: Vec<SetId>,
    limit: Duration,
) -> TeardownResult {
    let mut patience = Patience::new(limit);
    // a dead part is noticed below
    let _ = worker.send(&Request::Finish(Finish { keep, destroy, answer: true }));
    let mut all = Vec::new();
    let mut waiting = worker.living();
    while waiting > 0 {
        match worker.hear(&mut patience) {
            (_, Incoming::Reply(Reply::Finished { errors })) => {
                all.extend(errors);
                waiting -= 1;
            }
            (_, Incoming::Reply(Reply::Trouble(text)) | Incoming::Garbled(text)) => {
                worker.end(0);
                return TeardownResult::Dead(text);
            }
            (_, Incoming::Reply(_)) => {}
            (_, Incoming::Silence) => {
                bring_step_words(worker, ranks);
                let arena = worker.arena.mapping();
                let at_it = |rank: &u32| {
                    arena.word(*rank).is_ok_and(|word| Step::of(word.load(Ordering::Acquire)) == Step::Ending)
                };
                let at_it = (0..ranks).filter(at_it).collect();
                worker.end(0);
                return TeardownResult::Late(at_it);
            }
            (part, Incoming::End) => return TeardownResult::Dead(worker.end(part)),
        }
    }
    all.sort();
    if all.is_empty() { TeardownResult::Done } else { TeardownResult::Errors(all) }
}
