//! What searching may cost in one case, counted in operations and not in time, so that verdicts do not depend on the machine.
use super::admissible::Admissible;
use super::answer::Reduction;
use super::chains::Chain;
use super::search::Search;
use super::ways::Ways;
use std::collections::HashMap;
use std::sync::Arc;

/// Elements whose families are worked out in full, for the fingerprint.
const SAMPLES: u32 = 1024;
/// Answers kept for columns that come again.
const MAX_KEPT: usize = 1 << 15;

/// Reductions that elements are judged of in turn: one, and what is left of it without the inputs that change nothing.
const MAX_KNOWN: usize = 8;

/// Operations left to a case, and the memory of its searches.
#[derive(Debug)]
pub struct Budget {
    pub(super) joins: u64,
    /// For elements that no bound can judge, once `joins` is used up.
    pub(super) reserve: u64,
    /// For chains of many ranks.
    pub(super) chain_steps: u64,
    pub(super) samples: u32,
    pub(super) search: Search,
    kept: HashMap<Vec<u64>, Arc<Admissible>>,
    /// The last used stands first.
    known: Vec<Known>,
    blown: bool,
}

/// A reduction that elements were judged of.
#[derive(Debug)]
struct Known {
    reduction: Reduction,
    prepared: Arc<Prepared>,
    /// The chain that explained an element last.
    chain: Option<Chain>,
}

/// What is the same for all elements of a reduction.
#[derive(Debug)]
pub(super) struct Prepared {
    pub ways: Ways,
    /// By rank; empty if there are none.
    pub scalars: Vec<f64>,
}

impl Prepared {
    pub fn new(reduction: &Reduction) -> Self {
        Self { ways: Ways::of(reduction), scalars: reduction.scalar_values() }
    }
}

impl Budget {
    /// A budget of so many joins of two partial results (some nanoseconds each); four times as many are held in reserve for
    /// elements that nothing but searching can judge.
    pub fn new(joins: u64) -> Self {
        Self {
            joins,
            reserve: joins.saturating_mul(4),
            chain_steps: joins.saturating_mul(4),
            samples: SAMPLES,
            search: Search::default(),
            kept: HashMap::new(),
            known: Vec::new(),
            blown: false,
        }
    }

    /// True if some element was judged by less than a search because the budget was used up.
    #[cfg(test)]
    pub fn blown(&self) -> bool {
        self.blown
    }

    pub(super) fn blow(&mut self) {
        self.blown = true;
    }

    pub(super) fn kept(&self, key: &[u64]) -> Option<Arc<Admissible>> {
        self.kept.get(key).cloned()
    }

    pub(super) fn keep(&mut self, key: Vec<u64>, admissible: &Arc<Admissible>) {
        if self.kept.len() < MAX_KEPT || self.kept.contains_key(&key) {
            self.kept.insert(key, Arc::clone(admissible));
        }
    }

    pub(super) fn prepared(&mut self, reduction: &Reduction) -> Arc<Prepared> {
        Arc::clone(&self.known(reduction).prepared)
    }

    /// The chain that explained the last element of a reduction.
    pub(super) fn last_chain(&mut self, reduction: &Reduction) -> &mut Option<Chain> {
        &mut self.known(reduction).chain
    }

    fn known(&mut self, reduction: &Reduction) -> &mut Known {
        match self.known.iter().position(|known| known.reduction == *reduction) {
            Some(at) => self.known[..=at].rotate_right(1),
            None => {
                self.known.truncate(MAX_KNOWN - 1);
                let prepared = Arc::new(Prepared::new(reduction));
                self.known.insert(0, Known { reduction: reduction.clone(), prepared, chain: None });
            }
        }
        &mut self.known[0]
    }
}

impl Default for Budget {
    /// About half a second in a release build.
    fn default() -> Self {
        Self::new(100_000_000)
    }
}
