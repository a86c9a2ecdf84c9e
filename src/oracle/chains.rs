//! Cheap candidates: chains by rank order and its rotations, both directions, which is what rings do.
use super::answer::Reduction;
use super::budget::Prepared;
use super::ways::{Fuse, Leaf, Way};
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
        let forwards: Vec<Vec<Leaf>> = prepared.usual.iter().map(|w| w.leaves(values, &prepared.scalars)).collect();
        let backwards: Vec<Vec<Leaf>> = forwards.iter().map(|l| l.iter().rev().copied().collect()).collect();
        let every = (0..prepared.usual.len())
            .flat_map(|way| [false, true].into_iter().map(move |backwards| (way, backwards)))
            .flat_map(|(way, backwards)| (0..n).map(move |start| Chain { way, start, backwards }));
        for chain in hint.into_iter().chain(every) {
            *steps = steps.checked_sub(n as u64)?;
            let leaves = if chain.backwards { &backwards } else { &forwards };
            let (Some(way), Some(leaves)) = (prepared.usual.get(chain.way), leaves.get(chain.way)) else { continue };
            let mut hit = false;
            way.finish(result(way, leaves, chain.start), |value| hit |= encode_f64(self.dtype, value) == bits);
            if hit {
                return Some(chain);
            }
        }
        None
    }
}

/// The last partial result of the chain that begins at `start`.
fn result(way: &Way, leaves: &[Leaf], start: usize) -> f64 {
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
