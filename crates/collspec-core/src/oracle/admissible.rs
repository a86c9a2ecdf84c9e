//! The admissible set of a column: every value that some model yields, with the families of these models.
use super::answer::{AdmissibleValue, ColumnReduction, ReduceKind, RightResults};
use super::budget::{Budget, PreparedReduction, Purpose};
use super::families::FamilySet;
use super::reduction_models::ReductionModels;
use super::search::{Search, SearchStop};
use crate::num::{decode_f64, encode_f64};
use std::sync::Arc;

/// The values of the usual models; then, as far as needed, those of the usual and the wider models, and those of all models.
/// Values of an earlier group keep their families, so these do not depend on earlier searches.
#[derive(Clone, Debug, Default)]
pub(super) struct Admissible(Vec<Vec<AdmissibleValue>>);

/// A set of the usual models that was searched before it was needed.
#[derive(Debug)]
pub(super) struct SearchedAhead {
    pub key: Vec<u64>,
    pub found: Admissible,
    /// The number of joins that it took, which is subtracted when it is used.
    pub cost: u64,
}

/// Number of groups of models.
pub(super) const GROUPS: usize = 3;

impl Admissible {
    /// The families of the value with these bits (canonical, if a NaN), and the size of its set.
    pub fn find(&self, bits: u64) -> Option<(FamilySet, usize)> {
        self.0.iter().find_map(|choices| choices.iter().find(|c| c.bits == bits).map(|c| (c.families, choices.len())))
    }

    /// The bits of all values.
    #[cfg(test)]
    pub fn bits(&self) -> Vec<u64> {
        self.0.last().into_iter().flatten().map(|choice| choice.bits).collect()
    }

    /// The set as an answer.
    pub fn answer(&self, reduction: &ColumnReduction) -> RightResults {
        match self.0.last().map(Vec::as_slice).unwrap_or_default() {
            [only] => reduction.answer_of(decode_f64(reduction.dtype, only.bits)),
            several => RightResults::OneOf(several.to_vec()),
        }
    }
}

impl ColumnReduction {
    /// The set of a column, from the cache or by searching the first `groups` groups of models.
    pub(super) fn search(
        &self,
        values: &[f64],
        groups: usize,
        purpose: Purpose,
        budget: &mut Budget,
    ) -> Result<Arc<Admissible>, SearchStop> {
        let key = self.key(values);
        let known = budget.cached(purpose, &key);
        if let Some(known) = known.as_ref().filter(|known| known.0.len() >= groups) {
            return Ok(Arc::clone(known));
        }
        if known.is_none()
            && groups == 1
            && purpose != Purpose::LastResort
            && let Some(found) = budget.take_ahead(purpose, &key)
        {
            let found = Arc::new(found);
            budget.add_to_cache(purpose, key, &found);
            return Ok(found);
        }
        let prepared = budget.prepared(self);
        let mut found = known.map(|known| Admissible::clone(&known)).unwrap_or_default();
        let mut joins = *budget.joins_for(purpose);
        let done = self.search_models(&prepared, values, groups, &mut found, &mut budget.search, &mut joins);
        *budget.joins_for(purpose) = joins;
        let found = Arc::new(found);
        budget.add_to_cache(purpose, key, &found);
        done.map(|()| found)
    }

    /// Searches the usual models of a column ahead of [`Self::search`]; `None` if a set is too large.
    pub(super) fn search_ahead(
        &self,
        prepared: &PreparedReduction,
        values: &[f64],
        search: &mut Search,
    ) -> Option<SearchedAhead> {
        let (mut found, mut left) = (Admissible::default(), u64::MAX);
        self.search_models(prepared, values, 1, &mut found, search, &mut left).ok()?;
        Some(SearchedAhead { key: self.key(values), found, cost: u64::MAX - left })
    }

    fn search_models(
        &self,
        prepared: &PreparedReduction,
        values: &[f64],
        groups: usize,
        known: &mut Admissible,
        search: &mut Search,
        joins: &mut u64,
    ) -> Result<(), SearchStop> {
        let ReductionModels { usual, wider, rare } = &prepared.models;
        for models in [usual, wider, rare].into_iter().take(groups).skip(known.0.len()) {
            let mut all = known.0.last().cloned().unwrap_or_default();
            let mut found = Vec::new();
            for model in models {
                for member in search.run(model, &model.leaves(values, &prepared.scalars), joins)? {
                    model.final_results(member.value, member.shape(), |value, families| {
                        let bits = encode_f64(self.dtype, value);
                        if !all.iter().any(|known| known.bits == bits) {
                            found.push(AdmissibleValue { bits, families });
                        }
                    });
                }
            }
            all.extend(found);
            known.0.push(self.merged(all));
        }
        Ok(())
    }

    /// Values in ascending order, each once.
    fn merged(&self, mut found: Vec<AdmissibleValue>) -> Vec<AdmissibleValue> {
        let number = |c: &AdmissibleValue| decode_f64(self.dtype, c.bits);
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

    /// The facts that determine the set: type, kind, number of ranks, and the inputs (with their scalars) in any order.
    pub(super) fn key(&self, values: &[f64]) -> Vec<u64> {
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
