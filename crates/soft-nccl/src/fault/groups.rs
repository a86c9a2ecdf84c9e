//! Faults of groups: attributes of the first operation that hold for all, and operations beyond a budget.
use super::{hit, named};
use crate::engine::Request;
use crate::engine::hooks::RequestContext;
use crate::op::{Kind, PreMul, Reduction, Spec};

/// Collectives of one group that are done as they should be.
const COLLECTIVES: usize = 4;
/// Operations of one group that are done at all.
const OPERATIONS: usize = 64;

/// The same limit in a library with a larger budget.
const THOUSAND: usize = 1000;

/// The progress of a group on one communicator.
#[derive(Default)]
pub(super) struct Group {
    collectives: usize,
}

impl Group {
    /// True if the operation with the number `at` in the group is skipped.
    pub(super) fn loses(&mut self, of: RequestContext<'_>, at: usize, spec: &Spec) -> bool {
        let hits = |fault| spec.count > 0 && hit(fault, of.rank, spec.algorithm);
        let collective = spec.kind.is_collective();
        self.collectives += usize::from(collective);
        (collective && self.collectives > COLLECTIVES && hits(named::F31))
            || (of.second && hits(named::F31C))
            || (at >= OPERATIONS && hits(named::F31D))
            || (at >= THOUSAND && hits(named::F62B))
    }

    /// True if the operation is done twice. Ranks must agree, so it does not matter if this one's output is its input.
    pub(super) fn repeats(&self, of: RequestContext<'_>, spec: &Spec) -> bool {
        let reduces = spec.reduction.is_some() && spec.count > 0;
        reduces && self.collectives > COLLECTIVES && hit(named::F31B, of.rank, spec.algorithm)
    }
}

/// Gives the collectives of a group the type, the operator, the root or the count of the first.
pub(super) fn share_attributes(of: RequestContext<'_>, requests: &mut [Request]) {
    let mut collectives = requests.iter_mut().map(|request| &mut request.spec).filter(|spec| spec.kind.is_collective());
    let Some(first) = collectives.next() else { return };
    let (ty, count) = (first.ty, first.count);
    let mut reduction = first.reduction;
    let mut root = first.kind.has_root().then_some(first.peer);
    for spec in collectives {
        let (rank, algorithm) = (of.rank, spec.algorithm);
        let hits = |fault| hit(fault, rank, algorithm);
        if let Some(first) = reduction
            && let Some(own) = spec.reduction
            && first != own
            && spec.count > 0
            && hits(named::F30B)
        {
            operator(of, spec, first);
        }
        reduction = reduction.or(spec.reduction);
        if let (Some(first), true) = (root, spec.kind.has_root())
            && first != spec.peer
            && spec.count > 0
            && hits(named::F30C)
        {
            spec.peer = first;
        }
        root = root.or(spec.kind.has_root().then_some(spec.peer));
        // A wider type covers no more bytes than there are.
        let covered = if ty.size() > spec.ty.size() { spec.count * spec.ty.size() / ty.size() } else { spec.count };
        let moved = covered * ty.size() != spec.count * spec.ty.size();
        let scalar = matches!(spec.premul, PreMul::Device(_));
        if ty != spec.ty && spec.count > 0 && !scalar && (moved || spec.reduction.is_some()) && hits(named::F30) {
            spec.ty = ty;
            spec.count = covered;
        }
        if count < spec.count && hits(named::F30D) {
            spec.count = count;
        }
    }
}

fn operator(of: RequestContext<'_>, spec: &mut Spec, first: Reduction) {
    // The first one's scalar may be of another type: this one's sums are then plain.
    let (reduction, premul) = match first {
        Reduction::Average => (first, spec.ty.reciprocal(of.n).map_or(PreMul::None, PreMul::Value)),
        Reduction::PreMulSum => (Reduction::Plain(crate::arith::Combine::Sum), PreMul::None),
        Reduction::Plain(_) => (first, PreMul::None),
    };
    (spec.reduction, spec.premul) = (Some(reduction), premul);
}

impl Kind {
    /// One rank is its root.
    pub(super) fn has_root(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }
}
