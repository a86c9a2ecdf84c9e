//! The admissible set of a column: every value that some way of computing yields, with the families that do.
use super::answer::{Answer, Choice, ReduceKind, Reduction};
use super::budget::{Budget, Prepared};
use super::families::FamilySet;
use super::search::{Search, Stop};
use super::ways::Way;
use crate::num::{decode_f64, encode_f64};
use std::sync::Arc;

/// The values of the usual ways, and once they were needed those of all ways. The first keep their families, which so do not
/// depend on what was asked before.
#[derive(Clone, Debug)]
pub(super) struct Admissible {
    pub usual: Vec<Choice>,
    pub all: Option<Vec<Choice>>,
}

impl Admissible {
    /// The member that is these bits (canonical, if a NaN), and of how many, as far as was searched.
    pub fn find(&self, bits: u64) -> Option<(FamilySet, usize)> {
        [Some(&self.usual), self.all.as_ref()]
            .into_iter()
            .flatten()
            .find_map(|choices| choices.iter().find(|c| c.bits == bits).map(|c| (c.families, choices.len())))
    }

    /// For people.
    pub fn answer(&self, reduction: &Reduction) -> Answer {
        match self.all.as_ref().unwrap_or(&self.usual).as_slice() {
            [only] => reduction.answer_of(decode_f64(reduction.dtype, only.bits)),
            several => Answer::OneOf(several.to_vec()),
        }
    }
}

impl Reduction {
    /// The set of a column, from memory or by searching: the usual ways, and with `wider` the wider ones as well.
    pub(super) fn search(
        &self,
        values: &[f64],
        wider: bool,
        use_reserve: bool,
        budget: &mut Budget,
    ) -> Result<Arc<Admissible>, Stop> {
        let key = self.key(values);
        let known = budget.kept(&key);
        if let Some(known) = known.as_ref().filter(|known| known.all.is_some() || !wider) {
            return Ok(Arc::clone(known));
        }
        let prepared = budget.prepared(self);
        let mut joins = if use_reserve { budget.reserve } else { budget.joins };
        let found = self.search_ways(&prepared, values, known.as_deref(), wider, &mut budget.search, &mut joins);
        *if use_reserve { &mut budget.reserve } else { &mut budget.joins } = joins;
        let found = Arc::new(found?);
        budget.keep(key, &found);
        Ok(found)
    }

    fn search_ways(
        &self,
        prepared: &Prepared,
        values: &[f64],
        known: Option<&Admissible>,
        wider: bool,
        search: &mut Search,
        joins: &mut u64,
    ) -> Result<Admissible, Stop> {
        let mut run = |ways: &[Way]| -> Result<Vec<Choice>, Stop> {
            let mut found = Vec::new();
            for way in ways {
                for member in search.run(way, &way.leaves(values, &prepared.scalars), joins)? {
                    let families = way.families(member.shape());
                    way.finish(member.value, |v| found.push(Choice { bits: encode_f64(self.dtype, v), families }));
                }
            }
            Ok(self.merged(found))
        };
        let usual = match known {
            Some(known) => known.usual.clone(),
            None => run(&prepared.usual)?,
        };
        let all = match wider {
            true => {
                let mut all = usual.clone();
                let known = |c: &Choice| usual.iter().any(|u| u.bits == c.bits);
                all.extend(run(&prepared.wider)?.into_iter().filter(|c| !known(c)));
                Some(self.merged(all))
            }
            false => None,
        };
        Ok(Admissible { usual, all })
    }

    /// In ascending order, each value once.
    fn merged(&self, mut found: Vec<Choice>) -> Vec<Choice> {
        let number = |c: &Choice| decode_f64(self.dtype, c.bits);
        found.sort_unstable_by(|a, b| number(a).total_cmp(&number(b)));
        found.dedup_by(|next, kept| {
            let same = next.bits == kept.bits;
            if same {
                kept.families = kept.families.union(next.families);
            }
            same
        });
        found
    }

    /// What the set depends on: type, kind, and the inputs (with their scalars) in any order.
    fn key(&self, values: &[f64]) -> Vec<u64> {
        let kind = match self.kind {
            ReduceKind::Sum => 0,
            ReduceKind::Prod => 1,
            ReduceKind::Min => 2,
            ReduceKind::Max => 3,
            ReduceKind::Avg => 4,
            ReduceKind::PreMulSum { .. } => 5,
        };
        let mut key = vec![(self.dtype as u64) << 8 | kind];
        match &self.kind {
            ReduceKind::PreMulSum { scalars } => {
                let mut pairs: Vec<_> = values.iter().zip(scalars).map(|(x, s)| (x.to_bits(), *s)).collect();
                pairs.sort_unstable();
                key.extend(pairs.into_iter().flat_map(|(x, s)| [x, s]));
            }
            _ => {
                key.extend(values.iter().map(|x| x.to_bits()));
                key[1..].sort_unstable();
            }
        }
        key
    }
}
