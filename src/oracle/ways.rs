//! The ways in which a library may compute a reduction of floats: what a leaf, a join and the end of it are in each.
//!
//! | way | where it comes from |
//! |---|---|
//! | each step | NCCL's src/device/reduce_kernel.h: f16, bf16, f32, f64 add in the type; 8 bits add in f16 and are narrowed, saturating |
//! | once | NCCL's in-switch reductions and src/device/symmetric/primitives.cuh: f16, bf16 accumulate in f32, 8 bits in f16 or f32; f32 in f64, and products in f32 or f64: NCCL's user guide says nothing of the width |
//! | mixed | hierarchies of the two: any join may or may not be narrowed |
//! | before | NCCL's src/device/common_kernel.h: the rank's own element times its scalar, narrowed, then the addition |
//! | before-fused | the same with a product that is not narrowed: contracted with the addition, or kept in the accumulator |
//! | after | NCCL's reduce_kernel.h applied to the sum (times 1/n in the type, or in a wider one), avg only; symmetric kernels |
//! | after-divided | NCCL's user guide on ncclAvg: "a sum across all ranks, divided by the number of ranks" |
//! | before-divided | the same of each input, by a division or by 1/n in a wider type |
//!
//! f64 has no wider accumulator: neither GPUs nor NCCL's types have a wider one.
use super::answer::{ReduceKind, Reduction};
use super::exact::{on_one_grid, reciprocal};
use super::families::{FamilySet, Rounding, Scale, Shape};
use super::float::{Float, fused};

/// Whether a product may enter an addition unrounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fuse {
    Never,
    /// Wherever a rank's own element joins a partial result.
    Always,
    /// There or not, by join.
    May,
}

/// What becomes of a rank's element before it is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Input {
    /// Nothing.
    Plain,
    /// It is multiplied by its scalar.
    Product,
    /// It is divided by the number of ranks, or multiplied by its reciprocal, in a type; then perhaps narrowed to another.
    Part { part: Part, narrowed: Option<Float> },
}

/// One n-th of a number, computed in a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Times(f64, Float),
    Over(f64, Float),
}

impl Part {
    fn of(self, value: f64) -> f64 {
        match self {
            Self::Times(reciprocal, float) => float.round(value * reciprocal),
            Self::Over(n, float) => float.round(value / n),
        }
    }
}

/// One way of computing.
#[derive(Clone, Debug)]
pub(super) struct ReductionModel {
    pub rounding: Rounding,
    /// The type of partial results.
    pub acc: Float,
    /// The type of the result.
    pub out: Float,
    pub fuse: Fuse,
    pub input: Input,
    multiplies: bool,
    /// What may become of the sum at the end, by family; empty if nothing does.
    after: Vec<(Part, FamiliesByShape)>,
    families: FamiliesByShape,
}

type FamiliesByShape = [FamilySet; 2];

/// An input with its scalar (1 if there is none: multiplying by it changes nothing).
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub x: f64,
    pub s: f64,
}

/// The ways of a reduction by how soon they are looked at: later ones only where the earlier ones do not explain a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Ways {
    /// What libraries are known to do, and what is as plain.
    pub usual: Vec<ReductionModel>,
    /// Those that contain them: mixed rounding, fusing now and then; and what is seldom done.
    pub wider: Vec<ReductionModel>,
    /// Averages that divide every input.
    pub rare: Vec<ReductionModel>,
}

impl Ways {
    pub fn of(reduction: &Reduction) -> Self {
        let mut ways = Self::default();
        let Some(out) = Float::of(reduction.dtype) else { return ways };
        let scales = match reduction.kind {
            ReduceKind::Avg => &[Scale::Before, Scale::BeforeFused, Scale::After][..],
            ReduceKind::PreMulSum { .. } => &[Scale::Before, Scale::BeforeFused],
            _ => &[Scale::None],
        };
        let multiplies = reduction.kind == ReduceKind::Prod;
        let wide = if multiplies { factors(out) } else { accumulators(out) };
        for &scale in scales {
            let way = |rounding, acc, fuse| ReductionModel::new(reduction, out, rounding, scale, acc, fuse);
            let fuse = if scale == Scale::BeforeFused { Fuse::Always } else { Fuse::Never };
            // 8 bits convert between multiplication and addition, so they have no contracted operation.
            let seldom = fuse == Fuse::Always && out.saturates();
            let group = if seldom { &mut ways.wider } else { &mut ways.usual };
            group.push(way(Rounding::EachStep, out, fuse));
            if fuse == Fuse::Always {
                ways.wider.push(way(Rounding::EachStep, out, Fuse::May));
            }
            for &acc in wide {
                let group = if multiplies { &mut ways.wider } else { &mut ways.usual };
                group.push(way(Rounding::Once, acc, fuse));
                let free = if fuse == Fuse::Always { Fuse::May } else { fuse };
                if free == Fuse::May {
                    ways.wider.push(way(Rounding::Once, acc, free));
                }
                ways.wider.push(way(Rounding::Mixed, acc, free));
            }
        }
        if reduction.kind == ReduceKind::Avg && !reciprocal_is_exact(out, reduction.ranks) {
            ways.rare = parts_first(reduction, out);
        }
        ways
    }
}

/// The ways of an average that divide every input.
fn parts_first(reduction: &Reduction, out: Float) -> Vec<ReductionModel> {
    let way = |rounding, acc, part, narrowed| ReductionModel {
        input: Input::Part { part, narrowed },
        ..ReductionModel::new(reduction, out, rounding, Scale::BeforeDivided, acc, Fuse::Never)
    };
    let n = reduction.ranks;
    let mut ways = vec![way(Rounding::EachStep, out, Part::Over(n as f64, out), None)];
    for &acc in accumulators(out) {
        let times = Part::Times(reciprocal(acc, n), acc);
        ways.push(way(Rounding::EachStep, out, times, Some(out)));
        for part in [Part::Over(n as f64, acc), times] {
            ways.push(way(Rounding::Once, acc, part, None));
            ways.push(way(Rounding::Once, acc, part, Some(out)));
            ways.push(way(Rounding::Mixed, acc, part, None));
        }
    }
    ways
}

impl ReductionModel {
    fn new(reduction: &Reduction, out: Float, rounding: Rounding, scale: Scale, acc: Float, fuse: Fuse) -> Self {
        let multiplies = reduction.kind == ReduceKind::Prod;
        let n = reduction.ranks;
        let has_wide = !accumulators(out).is_empty();
        let is_exact = reciprocal_is_exact(out, n);
        let families = |scales: &[Scale]| {
            [Shape::Chain, Shape::Tree].map(|shape| {
                let of = |scale: &Scale| FamilySet::with_wider(shape, rounding, *scale, has_wide);
                scales.iter().map(of).fold(FamilySet::EMPTY, FamilySet::union)
            })
        };
        let input = match scale {
            Scale::Before | Scale::BeforeFused => Input::Product,
            _ => Input::Plain,
        };
        let mut after = Vec::new();
        if scale == Scale::After {
            // Multiplying by an exact reciprocal is dividing.
            let both = &[Scale::After, Scale::AfterDivided][..];
            let times = if is_exact { both } else { &[Scale::After] };
            after.push((Part::Times(reciprocal(out, n), acc), families(times)));
            let wider = accumulators(out).iter().copied().filter(|wide| wide.precision() > acc.precision());
            for float in std::iter::once(acc).chain(wider).filter(|_| !is_exact) {
                after.push((Part::Times(reciprocal(float, n), float), families(&[Scale::After])));
                after.push((Part::Over(n as f64, float), families(&[Scale::AfterDivided])));
            }
        }
        let divides_too = scale == Scale::Before && reduction.kind == ReduceKind::Avg && is_exact;
        let families = if divides_too { families(&[scale, Scale::BeforeDivided]) } else { families(&[scale]) };
        Self { rounding, acc, out, fuse, input, multiplies, after, families }
    }

    /// The leaves of a column.
    pub fn leaves(&self, values: &[f64], scalars: &[f64]) -> Vec<Leaf> {
        let leaf = |(rank, x): (usize, &f64)| match self.input {
            Input::Plain => Leaf { x: *x, s: 1.0 },
            Input::Product => Leaf { x: *x, s: scalars.get(rank).copied().unwrap_or(1.0) },
            Input::Part { part, narrowed } => {
                let part = part.of(*x);
                Leaf { x: narrowed.map_or(part, |to| to.round(part)), s: 1.0 }
            }
        };
        values.iter().enumerate().map(leaf).collect()
    }

    /// What a leaf may be as a partial result of its own.
    #[inline]
    pub fn alone(&self, leaf: Leaf, mut emit: impl FnMut(f64)) {
        if self.input != Input::Product {
            let value = if leaf.x.is_nan() { f64::NAN } else { leaf.x };
            emit(value);
            if self.rounding == Rounding::Mixed && self.input != Input::Plain {
                emit(self.out.round(value));
            }
            return;
        }
        if self.fuse != Fuse::Always || self.acc == self.out {
            emit(self.out.round(leaf.x * leaf.s));
        }
        if self.fuse != Fuse::Never && self.acc != self.out {
            emit(self.acc.round(leaf.x * leaf.s));
        }
    }

    /// What joining two partial results may give.
    #[inline]
    pub fn join(&self, a: f64, b: f64, mut emit: impl FnMut(f64)) {
        let value = self.acc.round(if self.multiplies { a * b } else { a + b });
        emit(value);
        if self.rounding == Rounding::Mixed {
            emit(self.out.round(value));
        }
    }

    /// What joining a leaf to a partial result may give if its product is not rounded.
    #[inline]
    pub fn join_fused(&self, leaf: Leaf, partial: f64, mut emit: impl FnMut(f64)) {
        let value = fused(self.acc, leaf.x, leaf.s, partial);
        emit(value);
        if self.rounding == Rounding::Mixed {
            emit(self.out.round(value));
            emit(fused(self.out, leaf.x, leaf.s, partial));
        }
    }

    /// The last partial result, if a pass over the leaves shows that every order gives the same: a wide accumulator holds
    /// most sums exactly.
    pub fn only_sum(&self, leaves: &[Leaf]) -> Option<f64> {
        if self.rounding != Rounding::Once || self.multiplies || self.fuse == Fuse::May {
            return None;
        }
        let mut terms = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let mut term = leaf.x;
            if self.input == Input::Product {
                self.alone(*leaf, |value| term = value);
                // Of types below f64 the product is exact in f64, and so shows whether the accumulator holds it.
                if self.fuse == Fuse::Always && term != leaf.x * leaf.s {
                    return None;
                }
            }
            if !term.is_finite() {
                return None;
            }
            terms.push(term);
        }
        let size = terms.iter().map(|term| term.abs()).sum();
        on_one_grid(self.acc, &terms, size).then(|| terms.iter().fold(-0.0, |sum, term| sum + term))
    }

    /// What the result may be, given the last partial result, and the families that give it.
    pub fn finish(&self, value: f64, shape: Shape, mut emit: impl FnMut(f64, FamilySet)) {
        let at = usize::from(shape == Shape::Tree);
        if self.after.is_empty() {
            return emit(self.out.round(value), self.families[at]);
        }
        for (part, families) in &self.after {
            emit(self.out.round(part.of(value)), families[at]);
            if self.rounding == Rounding::Mixed {
                let narrowed = self.out.round(value);
                emit(self.out.round(part.of(narrowed)), families[at]);
                let (Part::Times(by, _) | Part::Over(by, _)) = *part;
                let exact = if matches!(part, Part::Times(..)) { narrowed * by } else { narrowed / by };
                emit(self.out.round(exact), families[at]);
            }
        }
    }
}

/// The wider types in which a type may be accumulated.
pub(super) const fn accumulators(out: Float) -> &'static [Float] {
    match out {
        Float::F64 => &[],
        Float::F32 => &[Float::F64],
        Float::F16 | Float::Bf16 => &[Float::F32],
        Float::E4m3 | Float::E5m2 => &[Float::F16, Float::F32],
    }
}

/// The wider types in which a type may be multiplied. Products of 8 bits soon leave f16's range.
pub(super) const fn factors(out: Float) -> &'static [Float] {
    match out {
        Float::E4m3 | Float::E5m2 => &[Float::F32],
        _ => accumulators(out),
    }
}

/// True if 1/n is a number of the type: then multiplying by it is dividing by n.
fn reciprocal_is_exact(float: Float, ranks: usize) -> bool {
    reciprocal(float, ranks) * ranks as f64 == 1.0 && ranks.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::num::{DType, decode_f64};

    #[test]
    fn adding_8_bits_through_f16_is_rounding_once() {
        for (dtype, out) in [(DType::F8e4m3, Float::E4m3), (DType::F8e5m2, Float::E5m2)] {
            for a in 0..256 {
                for b in 0..256 {
                    let (x, y) = (decode_f64(dtype, a), decode_f64(dtype, b));
                    for exact in [x + y, x * y] {
                        let (once, twice) = (out.round(exact), out.round(Float::F16.round(exact)));
                        assert_eq!(once.to_bits(), twice.to_bits(), "{dtype:?} {a:#x} {b:#x}");
                    }
                }
            }
        }
    }
}
