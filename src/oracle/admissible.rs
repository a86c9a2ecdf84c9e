//! The admissible set of a column: every value that some way of computing yields, with the families that do.
use super::answer::{Answer, Choice, ReduceKind, Reduction};
use super::budget::{Budget, Prepared};
use super::families::FamilySet;
use super::search::{Search, SearchStop};
use super::ways::Ways;
use crate::num::{decode_f64, encode_f64};
use std::sync::Arc;

/// The values of the usual ways; then, as far as they were needed, those of the usual and the wider ways, and those of all.
/// Earlier ones keep their families, which so do not depend on what was asked before.
#[derive(Clone, Debug, Default)]
pub(super) struct Admissible(Vec<Vec<Choice>>);

/// How many groups of ways there are.
pub(super) const GROUPS: usize = 3;

impl Admissible {
    /// The member that is these bits (canonical, if a NaN), and of how many, as far as was searched.
    pub fn find(&self, bits: u64) -> Option<(FamilySet, usize)> {
        self.0.iter().find_map(|choices| choices.iter().find(|c| c.bits == bits).map(|c| (c.families, choices.len())))
    }

    /// All members.
    #[cfg(test)]
    pub fn bits(&self) -> Vec<u64> {
        self.0.last().into_iter().flatten().map(|choice| choice.bits).collect()
    }

    /// For people.
    pub fn answer(&self, reduction: &Reduction) -> Answer {
        match self.0.last().map(Vec::as_slice).unwrap_or_default() {
            [only] => reduction.answer_of(decode_f64(reduction.dtype, only.bits)),
            several => Answer::OneOf(several.to_vec()),
        }
    }
}

impl Reduction {
    /// The set of a column, from memory or by searching the first `groups` groups of ways.
    pub(super) fn search(
        &self,
        values: &[f64],
        groups: usize,
        use_reserve: bool,
        budget: &mut Budget,
    ) -> Result<Arc<Admissible>, SearchStop> {
        let key = self.key(values);
        let known = budget.kept(&key);
        if let Some(known) = known.as_ref().filter(|known| known.0.len() >= groups) {
            return Ok(Arc::clone(known));
        }
        let prepared = budget.prepared(self);
        let mut found = known.map(|known| Admissible::clone(&known)).unwrap_or_default();
        let mut joins = if use_reserve { budget.reserve } else { budget.joins };
        let done = self.search_ways(&prepared, values, groups, &mut found, &mut budget.search, &mut joins);
        *if use_reserve { &mut budget.reserve } else { &mut budget.joins } = joins;
        let found = Arc::new(found);
        budget.keep(key, &found);
        done.map(|()| found)
    }

    fn search_ways(
        &self,
        prepared: &Prepared,
        values: &[f64],
        groups: usize,
        known: &mut Admissible,
        search: &mut Search,
        joins: &mut u64,
    ) -> Result<(), SearchStop> {
        let Ways { usual, wider, rare } = &prepared.ways;
        for ways in [usual, wider, rare].into_iter().take(groups).skip(known.0.len()) {
            let mut all = known.0.last().cloned().unwrap_or_default();
            let mut found = Vec::new();
            for way in ways {
                for member in search.run(way, &way.leaves(values, &prepared.scalars), joins)? {
                    way.finish(member.value, member.shape(), |value, families| {
                        let bits = encode_f64(self.dtype, value);
                        if !all.iter().any(|known| known.bits == bits) {
                            found.push(Choice { bits, families });
                        }
                    });
                }
            }
            all.extend(found);
            known.0.push(self.merged(all));
        }
        Ok(())
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

    /// What the set depends on: type, kind, number of ranks, and the inputs (with their scalars) in any order.
    fn key(&self, values: &[f64]) -> Vec<u64> {
        let kind = match self.kind {
            ReduceKind::Sum => 0,
            ReduceKind::Prod => 1,
            ReduceKind::Min => 2,
            ReduceKind::Max => 3,
            ReduceKind::Avg => 4,
            ReduceKind::PreMulSum { .. } => 5,
        };
        let mut key = vec![(self.ranks as u64) << 16 | (self.dtype as u64) << 8 | kind];
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
