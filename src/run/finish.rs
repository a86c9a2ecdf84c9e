//! The end of communicators that a worker does not keep, watched like the case before it.
use super::process::{Incoming, Worker};
use crate::child::patience::Patience;
use crate::job::arena::Step;
use crate::job::{Finish, Reply, Request, SetId};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What came of destroying them. Unless it is `Well` or `Errors`, the worker is dead.
pub enum Finished {
    /// They are gone.
    Well,
    /// World ranks, and what the library answered.
    Errors(Vec<(u32, String)>),
    /// Not done when the time was up; these ranks were at it.
    Late(Vec<u32>),
    /// A part died, in words.
    Dead(String),
}

/// Ends a case whose communicators are kept under this name or destroyed, with other sets; waits for that for `limit` at
/// most.
pub fn finish(worker: &mut Worker, ranks: u32, keep: Option<SetId>, destroy: Vec<SetId>, limit: Duration) -> Finished {
    let mut patience = Patience::new(limit);
    // a dead part is noticed below
    let _ = worker.send(&Request::Finish(Finish { keep, destroy, answer: true }));
    let mut all = Vec::new();
    let mut waiting = worker.parts();
    while waiting > 0 {
        match worker.hear(&mut patience) {
            (_, Incoming::Reply(Reply::Finished { errors })) => {
                all.extend(errors);
                waiting -= 1;
            }
            (_, Incoming::Reply(Reply::Trouble(text)) | Incoming::Garbled(text)) => {
                worker.end(0);
                return Finished::Dead(text);
            }
            (_, Incoming::Reply(_)) => {}
            (_, Incoming::Silence) => {
                let arena = worker.arena.mapping();
                let at_it = |rank: &u32| {
                    arena.word(*rank).is_ok_and(|word| Step::of(word.load(Ordering::Acquire)) == Step::Ending)
                };
                let at_it = (0..ranks).filter(at_it).collect();
                worker.end(0);
                return Finished::Late(at_it);
            }
            (part, Incoming::End) => return Finished::Dead(worker.end(part)),
        }
    }
    all.sort();
    if all.is_empty() { Finished::Well } else { Finished::Errors(all) }
}
