//! With `placement = "one_thread"` one thread makes the calls of all ranks, step by step; those of a group are one step. While it waits
//! for one rank, no other rank makes a call of a later step.
use super::super::lower::LoweredProgram;
use super::super::types::StepId;
use super::Simulation;
use crate::scenario::Placement;
use std::collections::BTreeMap;

/// For each step: the number of ranks whose next call is in it.
pub(super) struct Turns(BTreeMap<StepId, usize>);

impl Turns {
    /// `None` unless the case has `placement = "one_thread"`.
    pub fn of(lowered: &LoweredProgram) -> Option<Self> {
        if lowered.unrolled.case.placement != Placement::OneThread {
            return None;
        }
        let mut ranks = BTreeMap::new();
        for first in lowered.programs.iter().filter_map(|program| program.first()) {
            *ranks.entry(lowered.unrolled.units[first.step as usize]).or_default() += 1;
        }
        Some(Self(ranks))
    }

    fn step(&self) -> Option<StepId> {
        self.0.first_key_value().map(|(step, _)| *step)
    }

    /// The next call of a rank is in step `to` and no longer in `from`. Returns true if all ranks have left the earliest step.
    fn passes(&mut self, from: StepId, to: Option<StepId>) -> bool {
        let before = self.step();
        if let Some(ranks) = self.0.get_mut(&from) {
            *ranks -= 1;
            if *ranks == 0 {
                self.0.remove(&from);
            }
        }
        if let Some(to) = to {
            *self.0.entry(to).or_default() += 1;
        }
        self.step() != before
    }
}

impl Simulation<'_> {
    /// True if calls of this step may be made now.
    pub(super) fn is_at(&self, step: StepId) -> bool {
        let unit = self.lowered.unrolled.units[step as usize];
        self.turns.as_ref().and_then(Turns::step).is_none_or(|turn| turn >= unit)
    }

    /// A rank's host has made its call and moves to the next.
    pub(super) fn goes_on(&mut self, rank: usize) {
        let program = &self.lowered.programs[rank];
        let cursor = self.ranks[rank].cursor;
        self.ranks[rank].cursor += 1;
        let unit = |step: StepId| self.lowered.unrolled.units[step as usize];
        let (from, to) = (unit(program[cursor].step), program.get(cursor + 1).map(|call| unit(call.step)));
        if self.turns.as_mut().is_some_and(|turns| turns.passes(from, to)) {
            self.clocks_thread_goes_on();
            (0..self.ranks.len()).filter(|other| *other != rank).for_each(|other| self.wake(other));
        }
    }
}
