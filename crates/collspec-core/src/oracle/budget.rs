//! The limit on a case's searches, counted in operations instead of time, so that verdicts do not depend on the machine.
use super::admissible::{Admissible, SearchedAhead};
use super::answer::ColumnReduction;
use super::chains::Chain;
use super::reduction_models::ReductionModels;
use super::search::Search;
use std::collections::HashMap;
use std::sync::Arc;

/// Number of elements whose families are computed completely, for the fingerprint.
const FINGERPRINT_SAMPLES: u32 = 1024;
/// Number of admissible sets that are cached.
const MAX_CACHED: usize = 1 << 15;

/// Number of prepared reductions that are kept: the current one, with and without neutral inputs, and some others.
const MAX_KNOWN: usize = 8;

/// The purpose of a search. Each has its own number of joins, so that searches for the fingerprint do not use up those
/// that decide verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// For the verdict on an element.
    Verdict,
    /// For the verdict on an element without a bound, once the usual joins are used up.
    LastResort,
    /// For the families that explain a right element.
    Fingerprint,
}

/// The operations that a case's searches may still use, and their caches.
#[derive(Debug)]
pub struct Budget {
    pub(super) joins: u64,
    /// Number of joins for elements without a bound, once `joins` is used up.
    pub(super) reserve: u64,
    /// Number of joins for searches that only the fingerprint needs.
    pub(super) sample_joins: u64,
    /// Number of steps for chains of many ranks.
    pub(super) chain_steps: u64,
    pub(super) samples: u32,
    pub(super) search: Search,
    cache: HashMap<Vec<u64>, Arc<Admissible>>,
    /// Sets that were searched for the fingerprint.
    sample_cache: HashMap<Vec<u64>, Arc<Admissible>>,
    /// Sets that were searched before they were needed.
    ahead: HashMap<Vec<u64>, SearchedAhead>,
    /// Prepared reductions, the most recently used first.
    known: Vec<KnownReduction>,
    exhausted: bool,
}

/// A reduction whose elements were judged.
#[derive(Debug)]
struct KnownReduction {
    reduction: ColumnReduction,
    prepared: Arc<PreparedReduction>,
    /// The chain that explained an element last.
    chain: Option<Chain>,
}

/// The data that all elements of a reduction share.
#[derive(Debug)]
pub(super) struct PreparedReduction {
    pub models: ReductionModels,
    /// The scalars by rank; empty if the reduction has none.
    pub scalars: Vec<f64>,
}

impl PreparedReduction {
    pub fn new(reduction: &ColumnReduction) -> Self {
        Self { models: ReductionModels::for_reduction(reduction), scalars: reduction.scalar_values() }
    }
}

impl Budget {
    /// A budget of `joins` joins of two partial results (some nanoseconds each); the fingerprint gets as many, and four times as
    /// many are reserved for elements that only a search can judge.
    pub fn new(joins: u64) -> Self {
        Self {
            joins,
            reserve: joins.saturating_mul(4),
            sample_joins: joins,
            chain_steps: joins.saturating_mul(4),
            samples: FINGERPRINT_SAMPLES,
            search: Search::default(),
            cache: HashMap::new(),
            sample_cache: HashMap::new(),
            ahead: HashMap::new(),
            known: Vec::new(),
            exhausted: false,
        }
    }

    /// The budget without any searches for the fingerprint.
    pub fn without_samples(self) -> Self {
        Self { samples: 0, ..self }
    }

    /// True if the budget was used up, so that an element was not judged by a search.
    pub fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    pub(super) fn set_exhausted(&mut self) {
        self.exhausted = true;
    }

    pub(super) fn joins_for(&mut self, purpose: Purpose) -> &mut u64 {
        match purpose {
            Purpose::Verdict => &mut self.joins,
            Purpose::LastResort => &mut self.reserve,
            Purpose::Fingerprint => &mut self.sample_joins,
        }
    }

    fn cache_for(&mut self, purpose: Purpose) -> &mut HashMap<Vec<u64>, Arc<Admissible>> {
        match purpose {
            Purpose::Verdict | Purpose::LastResort => &mut self.cache,
            Purpose::Fingerprint => &mut self.sample_cache,
        }
    }

    pub(super) fn cached(&mut self, purpose: Purpose, key: &[u64]) -> Option<Arc<Admissible>> {
        self.cache_for(purpose).get(key).cloned()
    }

    /// Stores sets that were searched ahead, replacing all others.
    pub(super) fn set_ahead(&mut self, searched: impl IntoIterator<Item = SearchedAhead>) {
        self.ahead = searched.into_iter().map(|searched| (searched.key.clone(), searched)).collect();
    }

    /// A set that was searched ahead, if enough joins are left; the joins that it took are subtracted.
    pub(super) fn take_ahead(&mut self, purpose: Purpose, key: &[u64]) -> Option<Admissible> {
        let searched = self.ahead.remove(key)?;
        let joins = self.joins_for(purpose);
        *joins = joins.checked_sub(searched.cost)?;
        Some(searched.found)
    }

    pub(super) fn add_to_cache(&mut self, purpose: Purpose, key: Vec<u64>, admissible: &Arc<Admissible>) {
        let cache = self.cache_for(purpose);
        if cache.len() < MAX_CACHED || cache.contains_key(&key) {
            cache.insert(key, Arc::clone(admissible));
        }
    }

    pub(super) fn prepared(&mut self, reduction: &ColumnReduction) -> Arc<PreparedReduction> {
        Arc::clone(&self.known_reduction(reduction).prepared)
    }

    /// The chain that explained the previous element of a reduction.
    pub(super) fn last_chain(&mut self, reduction: &ColumnReduction) -> &mut Option<Chain> {
        &mut self.known_reduction(reduction).chain
    }

    fn known_reduction(&mut self, reduction: &ColumnReduction) -> &mut KnownReduction {
        match self.known.iter().position(|known| known.reduction == *reduction) {
            Some(at) => self.known[..=at].rotate_right(1),
            None => {
                self.known.truncate(MAX_KNOWN - 1);
                let prepared = Arc::new(PreparedReduction::new(reduction));
                self.known.insert(0, KnownReduction { reduction: reduction.clone(), prepared, chain: None });
            }
        }
        &mut self.known[0]
    }
}

impl Default for Budget {
    /// A budget for about a second in a release build.
    fn default() -> Self {
        Self::new(100_000_000)
    }
}
