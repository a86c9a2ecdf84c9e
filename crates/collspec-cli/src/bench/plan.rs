//! Combines the requested settings with defaults into a plan of what to measure and how.
use super::operation::{Operation, Reduction};
use super::sample::OverRanks;
use super::sampler::Timing;
use super::sweep::{Sizes, Step, Sweep, SweepError};
use collspec_core::num::DType;

/// The parameters of a run of measurements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rows to measure.
    pub sweep: Sweep,
    /// The way each row is timed.
    pub timing: Timing,
    /// Number of samples of each row.
    pub samples: usize,
}

/// The requested settings; `None` where the default applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub operations: Option<Vec<Operation>>,
    pub reductions: Option<Vec<Reduction>>,
    pub dtypes: Option<Vec<DType>>,
    pub algorithms: Option<Vec<Option<String>>>,
    pub protocols: Option<Vec<Option<String>>>,
    pub ranks: Option<Vec<usize>>,
    pub roots: Option<Roots>,
    pub sizes: Option<Vec<u64>>,
    pub in_place: Option<Vec<bool>>,
    pub warm_up: Option<u32>,
    pub iterations: Option<u32>,
    pub samples: Option<usize>,
    pub over_ranks: Option<OverRanks>,
    pub verify: Option<bool>,
}

/// The roots to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// Every rank in turn.
    All,
    /// These ranks.
    These(Vec<usize>),
}

/// The sizes if none are given.
pub const SIZES: Sizes = Sizes { from: 8, to: 4 << 20, step: Step::Factor(2) };
/// Default number of iterations that are not timed.
pub const WARM_UP: u32 = 5;
/// Default number of iterations that are timed.
pub const ITERATIONS: u32 = 20;
/// Default number of samples.
pub const SAMPLES: usize = 5;

impl From<&collspec_core::scenario::Bench> for Request {
    fn from(bench: &collspec_core::scenario::Bench) -> Self {
        fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
            (!list.is_empty()).then_some(list)
        }
        Self {
            operations: given(bench.operations.iter().filter_map(|name| Operation::parse(name)).collect()),
            reductions: given(bench.reductions.iter().filter_map(|name| Reduction::parse(name)).collect()),
            dtypes: given(bench.dtypes.clone()),
            algorithms: given(bench.algorithms.clone()),
            protocols: given(bench.protocols.clone()),
            ranks: given(bench.ranks.clone()),
            roots: given(bench.roots.clone()).map(Roots::These),
            sizes: given(bench.sizes.clone()),
            in_place: given(bench.in_place.clone()),
            warm_up: bench.warm_up,
            iterations: bench.iterations,
            samples: bench.samples.map(|samples| samples as usize),
            over_ranks: None,
            verify: None,
        }
    }
}

impl Request {
    /// This request, completed by another one where it has no settings.
    pub fn or(self, other: Self) -> Self {
        Self {
            operations: self.operations.or(other.operations),
            reductions: self.reductions.or(other.reductions),
            dtypes: self.dtypes.or(other.dtypes),
            algorithms: self.algorithms.or(other.algorithms),
            protocols: self.protocols.or(other.protocols),
            ranks: self.ranks.or(other.ranks),
            roots: self.roots.or(other.roots),
            sizes: self.sizes.or(other.sizes),
            in_place: self.in_place.or(other.in_place),
            warm_up: self.warm_up.or(other.warm_up),
            iterations: self.iterations.or(other.iterations),
            samples: self.samples.or(other.samples),
            over_ranks: self.over_ranks.or(other.over_ranks),
            verify: self.verify.or(other.verify),
        }
    }

    /// Fills in the defaults, with this number of ranks if none was requested.
    ///
    /// # Errors
    ///
    /// The sizes do not grow.
    pub fn plan(self, ranks: usize) -> Result<Plan, SweepError> {
        let ranks = self.ranks.unwrap_or_else(|| vec![ranks]);
        let fewest = ranks.iter().min().copied().unwrap_or(0);
        let roots = match self.roots {
            Some(Roots::All) => (0..fewest).collect(),
            Some(Roots::These(roots)) => roots,
            None => vec![0],
        };
        let sizes = self.sizes.map_or_else(|| SIZES.list(), Ok)?;
        let sweep = Sweep {
            operations: self.operations.unwrap_or_else(|| vec![Operation::AllReduce]),
            reductions: self.reductions.unwrap_or_else(|| vec![Reduction::Sum]),
            dtypes: self.dtypes.unwrap_or_else(|| vec![DType::F32]),
            algorithms: self.algorithms.unwrap_or_else(|| vec![None]),
            protocols: self.protocols.unwrap_or_else(|| vec![None]),
            ranks,
            roots,
            sizes,
            in_place: self.in_place.unwrap_or_else(|| vec![false, true]),
        };
        let timing = Timing {
            warm_up: self.warm_up.unwrap_or(WARM_UP),
            iterations: self.iterations.unwrap_or(ITERATIONS).max(1),
            over_ranks: self.over_ranks.unwrap_or_default(),
            verify: self.verify.unwrap_or(true),
        };
        Ok(Plan { sweep, timing, samples: self.samples.unwrap_or(SAMPLES).max(1) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_first_counts_and_the_rest_has_defaults() {
        let line = Request { samples: Some(9), roots: Some(Roots::All), ..Request::default() };
        let file = Request { samples: Some(2), ranks: Some(vec![3]), warm_up: Some(0), ..Request::default() };
        let plan = line.or(file).plan(8).unwrap();
        assert_eq!((plan.samples, plan.timing.warm_up, plan.timing.iterations), (9, 0, ITERATIONS));
        assert_eq!((plan.sweep.ranks, plan.sweep.roots), (vec![3], vec![0, 1, 2]));
        assert_eq!(Request::default().plan(8).unwrap().sweep.ranks, [8]);
    }
}
