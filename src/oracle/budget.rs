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
    pub(super) last_chain: Option<Chain>,
    kept: HashMap<Vec<u64>, Arc<Admissible>>,
    prepared: Option<(Reduction, Arc<Prepared>)>,
    blown: bool,
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
            last_chain: None,
            kept: HashMap::new(),
            prepared: None,
            blown: false,
        }
    }

    /// True if some element was judged by less than a search because the budget was used up.
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
        match &self.prepared {
            Some((known, prepared)) if known == reduction => Arc::clone(prepared),
            _ => {
                let prepared = Arc::new(Prepared::new(reduction));
                self.prepared = Some((reduction.clone(), Arc::clone(&prepared)));
                self.last_chain = None;
                prepared
            }
        }
    }
}

impl Default for Budget {
    /// About half a second in a release build.
    fn default() -> Self {
        Self::new(100_000_000)
    }
}
