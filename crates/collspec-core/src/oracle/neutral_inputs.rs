//! Neutral inputs: zeros in a sum, ones in a product. Without them a column of many ranks may be small enough to be searched.
//!
//! Adding zero or multiplying by one leaves a partial result unchanged, or narrows it. The same narrowing is possible at the
//! next join, or at the leaf itself, so it does not add a result. The sign of a sum of zeros depends on whether one of them is
//! positive, so one zero of each sign is kept. Two products that have each been added to a zero are then added without a fused
//! operation; [`Fusion::May`](super::reduction_models::Fusion::May) has that sum, too. In the types that saturate, an
//! infinity changes when a zero is added, so a column with an infinity is left whole.
use super::answer::{ColumnReduction, ReduceKind};
use crate::plan::cost::SEARCH_RANKS;

impl ColumnReduction {
    /// The reduction without neutral inputs, which has the same results, and the other inputs. `None` if these are too many
    /// for a search.
    pub(super) fn without_neutral_inputs(&self, values: &[f64]) -> Option<(Self, Vec<f64>)> {
        let scalars = self.scalar_values();
        let zero = |x: f64| (x == 0.0).then(|| usize::from(x.is_sign_negative()));
        let neutral = |rank: usize, x: f64| match (&self.kind, scalars.get(rank)) {
            (ReduceKind::Prod, _) => (x == 1.0).then_some(0),
            (ReduceKind::PreMulSum { .. }, Some(s)) if *s == 0.0 => zero(x * s),
            (ReduceKind::PreMulSum { .. }, Some(s)) => zero(x).map(|sign| sign ^ usize::from(s.is_sign_negative())),
            // The value of 1/n in a type does not matter: an average may divide instead.
            _ => zero(x),
        };
        if values.iter().chain(&scalars).any(|value| !value.is_finite()) {
            return None;
        }
        let mut has = [false; 2];
        let mut kept = Vec::with_capacity(SEARCH_RANKS);
        for (rank, x) in values.iter().enumerate() {
            if neutral(rank, *x).is_some_and(|kind| std::mem::replace(&mut has[kind], true)) {
                continue;
            }
            if kept.len() == SEARCH_RANKS {
                return None;
            }
            kept.push(rank);
        }
        let kind = match &self.kind {
            ReduceKind::PreMulSum { scalars } => {
                let scalars = kept.iter().filter_map(|rank| scalars.get(*rank).copied()).collect();
                ReduceKind::PreMulSum { scalars }
            }
            other => other.clone(),
        };
        // An average divides by all ranks.
        let ranks = if kind == ReduceKind::Avg { self.ranks } else { kept.len() };
        Some((Self { dtype: self.dtype, kind, ranks }, kept.into_iter().map(|rank| values[rank]).collect()))
    }
}
