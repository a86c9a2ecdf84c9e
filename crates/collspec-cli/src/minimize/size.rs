//! The size of a case.
use collspec_core::plan::Plan;
use collspec_core::scenario::{Case, all_steps};
use std::fmt;

/// The size of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Number of ranks in the world.
    pub ranks: usize,
    /// Elements of the largest buffer of a rank.
    pub elements: u64,
    /// Steps, with those in groups and loops.
    pub steps: usize,
}

impl Size {
    /// The size of a planned case.
    pub(super) fn of(plan: &Plan, case: &Case) -> Self {
        let counts = plan.buffers.iter().flat_map(|buffer| buffer.places.iter().flatten()).map(|place| place.count);
        let steps = all_steps(&case.steps).filter(|step| step.inner().is_empty());
        Self { ranks: plan.n, elements: counts.max().unwrap_or(0), steps: steps.count() }
    }

    /// Ranks, elements and steps, with their names.
    pub(super) fn dimensions(self) -> [(u64, &'static str); 3] {
        [(self.ranks as u64, "rank"), (self.elements, "element"), (self.steps as u64, "step")]
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [ranks, elements, steps] = self.dimensions().map(|(number, one)| counted(number, one));
        write!(f, "{ranks}, {elements}, {steps}")
    }
}

/// `1 rank`, `2 ranks`.
pub(super) fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", collspec_core::printable::thousands(number))
}
