//! Case to plan: buffers and where they lie, communicators, every rank's calls, what each call means, what can be
//! foreseen, and how much memory it takes.
//!
//! The way of a case: `unroll` turns steps into every rank's items; `resolve` finds counts and types; `place`
//! lays buffers into allocations; `lower` makes calls with pointers; `foresee` plays the program through, which
//! gives the order of events and says whether it can hang; `race` refuses unordered use; `expect` checks what is
//! expected against what there is.
mod comms;
mod each;
mod eval;
pub(crate) mod expect;
mod foresee;
pub(crate) mod inputs;
mod item;
mod lower;
mod order;
mod place;
mod race;
mod resolve;
mod types;
mod unroll;

pub use eval::{Names, Ranked};
pub use foresee::sentences;
pub use types::*;

use crate::scenario::{Case, Diagnostic};
use std::sync::Arc;

/// What a plan may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of buffers in all their copies.
    pub memory: u64,
    /// Ranks.
    pub ranks: usize,
    /// Calls of all ranks together, loops unrolled.
    pub calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: 16 << 30, ranks: 1024, calls: 200_000 }
    }
}

/// Plans a case, or says all that is wrong with it.
///
/// # Errors
///
/// Every fault that needs counts, communicators or the order of calls to be seen.
pub fn plan(case: &Arc<Case>, limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    let mut program = unroll::unroll(case, limits)?;
    let sizes = resolve::resolve(&mut program)?;
    let placed = place::place(&program, sizes, limits)?;
    let low = lower::lower(program, placed)?;
    race::check(&low)?;
    let plan = foresee::foresee(low)?;
    expect::check(&plan)?;
    Ok(plan)
}
