//! Chains in rank order and its rotations, in both directions, as rings compute them; they are cheap to try.
use super::answer::ColumnReduction;
use super::budget::PreparedReduction;
use super::families::Shape;
use super::reduction_models::{Fusion, Leaf, ReductionModel};
use crate::num::encode_f64;

/// A chain: the model, the first rank and the direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    /// Index into the usual models.
    pub model: usize,
    start: usize,
    backwards: bool,
}

impl Chain {
    /// The ranks in the order in which they are added.
    pub fn ranks(self, ranks: usize) -> impl Iterator<Item = usize> {
        let Self { start, backwards, .. } = self;
        (start..ranks).chain(0..start.min(ranks)).map(move |place| if backwards { ranks - 1 - place } else { place })
    }
}

impl ColumnReduction {
    /// The first chain that yields these bits (canonical, if a NaN) in one of the usual models. `hint`, the last chain that
    /// was found, is tried first, because neighbouring elements are mostly reduced the same way. The cost is subtracted from
    /// `steps`; `None` also if they are used up.
    pub(super) fn find_chain(
        &self,
        prepared: &PreparedReduction,
        values: &[f64],
        bits: u64,
        hint: Option<Chain>,
        steps: &mut u64,
    ) -> Option<Chain> {
        let n = values.len();
        let mut yields = |chain: Chain, model: &ReductionModel, leaves: &[Leaf], last: Option<f64>| {
            *steps = steps.checked_sub(n as u64)?;
            let last = last.unwrap_or_else(|| chain_result(model, leaves, chain));
            let mut hit = false;
            model.final_results(last, Shape::Chain, |value, _| hit |= encode_f64(self.dtype, value) == bits);
            Some(hit)
        };
        let models = &prepared.models.usual;
        if let Some((chain, model)) = hint.and_then(|hint| Some((hint, models.get(hint.model)?)))
            && yields(chain, model, &model.leaves(values, &prepared.scalars), None)?
        {
            return Some(chain);
        }
        for (number, model) in models.iter().enumerate() {
            let leaves = model.leaves(values, &prepared.scalars);
            // One chain represents all of them where the order does not matter.
            let only = model.order_independent_sum(&leaves);
            for (backwards, start) in [false, true].into_iter().flat_map(|back| (0..n).map(move |start| (back, start)))
            {
                let chain = Chain { model: number, start, backwards };
                if yields(chain, model, &leaves, only)? {
                    return Some(chain);
                }
                if only.is_some() {
                    break;
                }
            }
        }
        None
    }
}

/// The last partial result of the chain.
fn chain_result(model: &ReductionModel, leaves: &[Leaf], chain: Chain) -> f64 {
    let mut partial = None;
    for leaf in chain.ranks(leaves.len()).filter_map(|rank| leaves.get(rank)) {
        let mut next = f64::NAN;
        match partial {
            None => model.leaf_results(*leaf, |value| next = value),
            Some(so_far) if model.fuse == Fusion::Always => model.join_fused(*leaf, so_far, |value| next = value),
            Some(so_far) => {
                let mut own = f64::NAN;
                model.leaf_results(*leaf, |value| own = value);
                model.join(so_far, own, |value| next = value);
            }
        }
        partial = Some(next);
    }
    partial.unwrap_or(f64::NAN)
}
