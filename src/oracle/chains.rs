//! Cheap candidates: chains by rank order and its rotations, both directions, which is what rings do.
use super::answer::Reduction;
use super::budget::Prepared;
use super::families::Shape;
use super::ways::{Fuse, Leaf, ReductionModel};
use crate::num::encode_f64;

/// One of the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    way: usize,
    start: usize,
    backwards: bool,
}

impl Reduction {
    /// The first such chain that yields these bits (canonical, if a NaN) in one of the usual ways; `hint`, the last that
    /// did, goes first, as neighbouring elements are mostly reduced alike. Takes what it costs off `steps`, and ends when
    /// they are used up.
    pub(super) fn find_chain(
        &self,
        prepared: &Prepared,
        values: &[f64],
        bits: u64,
        hint: Option<Chain>,
        steps: &mut u64,
    ) -> Option<Chain> {
        let n = values.len();
        let mut yields = |chain: Chain, way: &ReductionModel, last: Option<f64>| {
            *steps = steps.checked_sub(n as u64)?;
            let last = last.unwrap_or_else(|| {
                let mut leaves = way.leaves(values, &prepared.scalars);
                if chain.backwards {
                    leaves.reverse();
                }
                result(way, &leaves, chain.start)
            });
            let mut hit = false;
            way.finish(last, Shape::Chain, |value, _| hit |= encode_f64(self.dtype, value) == bits);
            Some(hit)
        };
        let ways = &prepared.ways.usual;
        if let Some((chain, way)) = hint.and_then(|hint| Some((hint, ways.get(hint.way)?)))
            && yields(chain, way, None)?
        {
            return Some(chain);
        }
        for (number, way) in ways.iter().enumerate() {
            // One chain stands for all where the order does not matter.
            let only = way.only_sum(&way.leaves(values, &prepared.scalars));
            for (backwards, start) in [false, true].into_iter().flat_map(|back| (0..n).map(move |start| (back, start)))
            {
                let chain = Chain { way: number, start, backwards };
                if yields(chain, way, only)? {
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

/// The last partial result of the chain that begins at `start`.
fn result(way: &ReductionModel, leaves: &[Leaf], start: usize) -> f64 {
    let (before, after) = leaves.split_at(start.min(leaves.len()));
    let mut partial = None;
    for leaf in after.iter().chain(before) {
        let mut next = f64::NAN;
        match partial {
            None => way.alone(*leaf, |value| next = value),
            Some(so_far) if way.fuse == Fuse::Always => way.join_fused(*leaf, so_far, |value| next = value),
            Some(so_far) => {
                let mut own = f64::NAN;
                way.alone(*leaf, |value| own = value);
                way.join(so_far, own, |value| next = value);
            }
        }
        partial = Some(next);
    }
    partial.unwrap_or(f64::NAN)
}
