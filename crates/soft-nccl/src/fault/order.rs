//! F28: every rank adds in a different order. All ranks send their whole contribution to all, themselves included, and
//! each adds up the contributions, beginning with its own.
use super::named::F28;
use super::{aims, hit};
use crate::algo::{Lane, Link, Operand, Part, Script, Step};
use crate::arith::{Combine, Type};
use crate::op::{Kind, Reduction, Spec};

/// The lanes of an operation whose sums are formed this way; `None` for all others.
pub(super) fn lanes(spec: &Spec, part: Part) -> Option<Vec<Lane>> {
    let rounds = matches!(spec.ty, Type::F16 | Type::F32 | Type::F64 | Type::Bf16 | Type::E4m3 | Type::E5m2);
    let operator = spec.reduction.map(Reduction::combine);
    let depends = rounds && matches!(operator, Some(Combine::Sum | Combine::Prod)) && part.n > 2 && spec.count > 0;
    if spec.kind != Kind::AllReduce || !depends {
        return None;
    }
    let first = if hit(F28, part.rank, spec.algorithm) { part.rank } else { 0 };
    // Ranks that are not targeted take part all the same, and agree among themselves.
    aims(F28, spec.algorithm).then(|| {
        let Part { rank, n, chunk, .. } = part;
        vec![Box::new(OwnOrder { rank, n, chunk, count: spec.count, first }) as Lane]
    })
}

struct OwnOrder {
    rank: usize,
    n: usize,
    chunk: usize,
    count: usize,
    /// The rank whose contribution comes first.
    first: usize,
}

impl Script for OwnOrder {
    fn step(&self, cursor: u64) -> Option<Step> {
        let Self { rank, n, chunk, .. } = *self;
        let steps = 2 * n as u64;
        let offset = usize::try_from(cursor / steps).ok()?.checked_mul(chunk).filter(|offset| *offset < self.count)?;
        let (round, count) = ((cursor % steps) as usize, chunk.min(self.count - offset));
        if round < n {
            let send = Some(Link { lane: 0, peer: (rank + round) % n });
            let source = Some(Operand::In(offset));
            return Some(Step { source, own: true, send, count, fresh: true, ..Step::default() });
        }
        let round = round - n;
        let last = round == n - 1;
        Some(Step {
            recv: Some(Link { lane: 0, peer: (self.first + round) % n }),
            source: (round > 0).then_some(Operand::Scratch),
            last,
            target: Some(if last { Operand::Out(offset) } else { Operand::Scratch }),
            count,
            ..Step::default()
        })
    }
}
