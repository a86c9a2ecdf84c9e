//! Turns a case into a plan: the buffers and their places, communicators, every rank's calls, the meaning of each call, the
//! predicted course, and the memory required.
//!
//! The stages: `unroll` turns steps into every rank's items; `graphs` puts the work of each launch after it; `resolve` finds counts
//! and types; `place` lays buffers into allocations; `lower` makes calls with pointers; `race` refuses unordered use; `deadlock`
//! simulates the program, which gives the order of events and shows if it can hang; `inputs` and `expect` check the given and
//! expected values against the buffers; `cost` computes the total cost.
mod assemble;
pub(crate) mod asserts;
mod comms;
pub mod cost;
mod deadlock;
mod deaths;
mod eval;
pub(crate) mod expect;
pub(crate) mod expr_fill;
pub(crate) mod graphs;
pub(crate) mod inputs;
mod item;
mod launch_mode;
mod launch_order;
mod limits;
mod lower;
mod operation;
mod order;
mod outside;
mod outstanding;
mod place;
mod progress;
mod race;
mod rank_op;
mod ranks_hint;
mod registration;
mod resolve;
mod simulate;
mod types;
mod uneven_ends;
mod uneven_groups;
mod unfinished;
mod unroll;

pub use cost::Cost;
pub use deadlock::sentences;
pub(crate) use deadlock::some_ranks;
pub use limits::{Limits, SetBy};
pub use types::*;

use crate::job::CallKind;
use crate::scenario::{self, Case, Diagnostic, ExpectedOutcome};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Plans a case, or reports all errors in it.
///
/// # Errors
///
/// Every error that shows only with counts, communicators or the order of calls.
pub fn plan(case: &Arc<Case>, limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    let history = case.history().map(|history| plan_history(&Arc::new(history), limits)).transpose()?;
    let mut plan = plan_steps(case, limits)?;
    if let Some(history) = history {
        // The steps run twice, the second time after the history.
        plan.cost.memory = plan.cost.memory.max(history.cost.memory);
        plan.cost.work = plan.cost.work.saturating_mul(2).saturating_add(history.cost.work);
        plan.history = Some(Arc::new(history));
    }
    Ok(plan)
}

/// Plans the steps that run first; they must end.
fn plan_history(case: &Arc<Case>, limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    let plan = plan_steps(case, limits)?;
    if let Some(exit) = plan.programs.iter().flatten().find(|call| matches!(call.kind, CallKind::Exit { .. })) {
        let span = plan.steps.get(exit.step as usize).map_or(case.span, |step| step.span);
        return Err(vec![Diagnostic::new(span, "no rank may end in `before`").help("put the `exit` into `steps`")]);
    }
    if plan.foresight == Foresight::Completes && plan.undefined.is_none() {
        return Ok(plan);
    }
    let span = plan.steps.first().map_or(case.span, |step| step.span);
    let text = "the steps of `before` may wait for each other without end";
    Err(vec![Diagnostic::new(span, text).help("`before` must end well, because the case's own steps run after it")])
}

fn plan_steps(case: &Arc<Case>, limits: &Limits) -> Result<Plan, Vec<Diagnostic>> {
    let mut program = unroll::unroll(case, limits)?;
    graphs::expand(&mut program, limits)?;
    let sizes = resolve::resolve(&mut program)?;
    let placed = place::place(&program, sizes, limits)?;
    let mut lowered = lower::lower(program, placed)?;
    graphs::check_registrations(&lowered)?;
    lowered.deaths = deaths::Deaths::of(&lowered)?;
    race::check(&lowered)?;
    outstanding::check(&lowered)?;
    unfinished::check(&lowered)?;
    let analysis = deadlock::analyse(&lowered)?;
    let mut warnings = launch_order::warnings(&lowered);
    deadlock::warn_of_connecting(&lowered, &analysis.connecting, &mut warnings);
    warnings.extend(uneven_ends::warnings(&lowered));
    warnings.extend(uneven_groups::warnings(&lowered));
    if analysis.foresight == Foresight::Completes {
        warnings.extend(launch_mode::warning(&lowered));
    }
    let mut plan = assemble::assemble(lowered, analysis);
    plan.warnings = warnings;
    // The cost comes first: the later checks evaluate every element.
    plan.cost = cost::check(&plan, limits)?;
    let mut wrong = inputs::diagnostics(&plan);
    wrong.append(&mut expect::diagnostics(&plan));
    if !wrong.is_empty() {
        return Err(scenario::dedupe(wrong));
    }
    plan.limits = *limits;
    check_hang(case, &plan, limits)?;
    Ok(plan)
}

/// Refuses an expected hang, alone or in addition to a good ending, that cannot occur: the program would not be refused
/// without it either.
fn check_hang(case: &Arc<Case>, plan: &Plan, limits: &Limits) -> Result<(), Vec<Diagnostic>> {
    let Some(outcome) = &case.outcome else { return Ok(()) };
    let hangs_or_ends_well = |e: &ExpectedOutcome| matches!(e, ExpectedOutcome::Hang | ExpectedOutcome::Ok);
    if !outcome.value.contains(&ExpectedOutcome::Hang)
        || !outcome.value.iter().all(hangs_or_ends_well)
        || plan.foresight != Foresight::Completes
        || plan.undefined.is_some()
    {
        return Ok(());
    }
    let mut without = Case::clone(case);
    without.outcome = None;
    if plan_steps(&Arc::new(without), limits).is_err() {
        return Ok(());
    }
    let text = "no rank of this program waits without end, so it cannot hang";
    Err(vec![Diagnostic::new(outcome.span, text).help("remove `outcome`, or look again at who waits for whom")])
}

impl Plan {
    /// The calls of a rank that may return an error because a rank of their communicator has died.
    pub fn may_fail(&self, rank: usize) -> BTreeSet<u32> {
        let members = |comm: u32| self.comms.get(comm as usize).map_or_else(Vec::new, |comm| comm.members.clone());
        self.programs.get(rank).map_or_else(BTreeSet::new, |program| deaths::may_fail(program, members))
    }
}
