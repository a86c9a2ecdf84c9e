//! The admissible set of a column: every value that some way of computing yields, with the families that do.
use super::answer::{Answer, Choice, ReduceKind, Reduction};
use super::budget::{Budget, Prepared};
use super::families::FamilySet;
use super::search::{Search, Stop};
use crate::num::{decode_f64, encode_f64};
use std::sync::Arc;

/// A set; `wider` is false while only the usual ways have been searched.
#[derive(Clone, Debug)]
pub(super) struct Admissible {
    pub choices: Vec<Choice>,
    pub wider: bool,
}

impl Admissible {
    /// The member that is these bits (canonical, if a NaN).
    pub fn find(&self, bits: u64) -> Option<&Choice> {
        self.choices.iter().find(|c| c.bits == bits)
    }

    pub fn answer(&self, reduction: &Reduction) -> Answer {
        match self.choices.as_slice() {
            [only] => reduction.answer_of(decode_f64(reduction.dtype, only.bits)),
            all => Answer::OneOf(all.to_vec()),
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
        if let Some(known) = known.as_ref().filter(|known| known.wider || !wider) {
            return Ok(Arc::clone(known));
        }
        let mut joins = if use_reserve { budget.reserve } else { budget.joins };
        let prepared = budget.prepared(self);
        let found = self.search_ways(&prepared, values, known.as_deref(), wider, &mut budget.search, &mut joins);
        *if use_reserve { &mut budget.reserve } else { &mut budget.joins } = joins;
        let found = Arc::new(found?);
        budget.keep(key, &found);
        Ok(found)
    }

    pub(super) fn search_ways(
        &self,
        prepared: &Prepared,
        values: &[f64],
        known: Option<&Admissible>,
        wider: bool,
        search: &mut Search,
        joins: &mut u64,
    ) -> Result<Admissible, Stop> {
        let mut found: Vec<(u64, FamilySet)> = Vec::new();
        if let Some(known) = known {
            found.extend(known.choices.iter().map(|c| (c.bits, c.families)));
        }
        let first = if known.is_none() { prepared.usual.as_slice() } else { &[] };
        for way in first.iter().chain(if wider { prepared.wider.as_slice() } else { &[] }) {
            for member in search.run(way, &way.leaves(values, &prepared.scalars), joins)? {
                let families = way.families(member.shape());
                way.finish(member.value, |value| found.push((encode_f64(self.dtype, value), families)));
            }
        }
        found.sort_unstable_by(|a, b| {
            let number = |bits| decode_f64(self.dtype, bits);
            number(a.0).total_cmp(&number(b.0)).then(a.cmp(b))
        });
        let mut choices: Vec<Choice> = Vec::new();
        for (bits, families) in found {
            match choices.last_mut() {
                Some(last) if last.bits == bits => last.families = last.families.union(families),
                _ => choices.push(Choice { bits, families }),
            }
        }
        Ok(Admissible { choices, wider })
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
