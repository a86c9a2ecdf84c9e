//! The ways in which NCCL may compute a reduction of floats: what a leaf, a join and the end of it are in each.
//!
//! | way | where it comes from |
//! |---|---|
//! | each step | src/device/reduce_kernel.h: f16, bf16, f32, f64 add in the type; 8 bits add in f16 and are narrowed, saturating |
//! | once | in-switch reductions and src/device/symmetric/primitives.cuh: f16, bf16 accumulate in f32, 8 bits in f16 or f32 |
//! | mixed | hierarchies of the two: any join may or may not be narrowed |
//! | before | src/device/common_kernel.h: the rank's own element times its scalar, narrowed, then the addition |
//! | before-fused | the same with product and addition contracted into one operation, which no build option forbids; not with 8 bits, which convert in between |
//! | after | reduce_kernel.h's operation applied to the sum (times 1/n in the type, or in the accumulator), avg only; symmetric kernels |
//!
//! f32 and f64 have no wider accumulator, and products (prod) none in any type, so there is only "each step".
use super::answer::{ReduceKind, Reduction};
use super::exact::reciprocal;
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

/// One way of computing.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub rounding: Rounding,
    pub scale: Scale,
    /// The type of partial results.
    pub acc: Float,
    /// The type of the result.
    pub out: Float,
    pub fuse: Fuse,
    multiplies: bool,
    /// What the sum may be multiplied with at the end; empty if it is not.
    after: Vec<f64>,
}

/// An input with its scalar (1 if there is none: multiplying by it changes nothing).
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub x: f64,
    pub s: f64,
}

impl Way {
    /// The ways of a reduction: the usual ones, and those that contain them and are looked at only if the usual ones do
    /// not explain a value. Every value of the former is one of the latter.
    pub fn of(reduction: &Reduction) -> (Vec<Self>, Vec<Self>) {
        let (mut usual, mut wider) = (Vec::new(), Vec::new());
        let Some(out) = Float::of(reduction.dtype) else { return (usual, wider) };
        let multiplies = reduction.kind == ReduceKind::Prod;
        let scales = match reduction.kind {
            ReduceKind::Avg => &[Scale::Before, Scale::BeforeFused, Scale::After][..],
            ReduceKind::PreMulSum { .. } => &[Scale::Before, Scale::BeforeFused],
            _ => &[Scale::None],
        };
        for &scale in scales.iter().filter(|s| **s != Scale::BeforeFused || can_fuse(out)) {
            let fuse = if scale == Scale::BeforeFused { Fuse::Always } else { Fuse::Never };
            let way = |rounding, acc, fuse| {
                let after = match scale {
                    Scale::After => vec![reciprocal(out, reduction.ranks), reciprocal(acc, reduction.ranks)],
                    _ => Vec::new(),
                };
                Self { rounding, scale, acc, out, fuse, multiplies, after }
            };
            usual.push(way(Rounding::EachStep, out, fuse));
            if fuse == Fuse::Always {
                wider.push(way(Rounding::EachStep, out, Fuse::May));
            }
            for &acc in if multiplies { &[] } else { accumulators(out) } {
                usual.push(way(Rounding::Once, acc, fuse));
                let free = if fuse == Fuse::Always { Fuse::May } else { fuse };
                if free == Fuse::May {
                    wider.push(way(Rounding::Once, acc, free));
                }
                wider.push(way(Rounding::Mixed, acc, free));
            }
        }
        (usual, wider)
    }

    /// The families that have a value of this way.
    pub fn families(&self, shape: Shape) -> FamilySet {
        let has_wide = !self.multiplies && !accumulators(self.out).is_empty();
        FamilySet::with_wider(shape, self.rounding, self.scale, has_wide, can_fuse(self.out))
    }

    /// The leaves of a column.
    pub fn leaves(&self, values: &[f64], scalars: &[f64]) -> Vec<Leaf> {
        let scaled = matches!(self.scale, Scale::Before | Scale::BeforeFused);
        let scalar = |rank| if scaled { scalars.get(rank).copied().unwrap_or(1.0) } else { 1.0 };
        values.iter().enumerate().map(|(rank, x)| Leaf { x: *x, s: scalar(rank) }).collect()
    }

    /// What a leaf may be as a partial result of its own.
    #[inline]
    pub fn alone(&self, leaf: Leaf, mut emit: impl FnMut(f64)) {
        if self.scale == Scale::None || self.scale == Scale::After {
            return emit(if leaf.x.is_nan() { f64::NAN } else { leaf.x });
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

    /// What the result may be, given the last partial result.
    pub fn finish(&self, value: f64, mut emit: impl FnMut(f64)) {
        if self.after.is_empty() {
            return emit(self.out.round(value));
        }
        for scalar in &self.after {
            emit(self.out.round(self.acc.round(value * scalar)));
            if self.rounding == Rounding::Mixed {
                let narrowed = self.out.round(value);
                emit(self.out.round(self.acc.round(narrowed * scalar)));
                emit(self.out.round(narrowed * scalar));
            }
        }
    }
}

/// The wider types in which a type may be accumulated.
pub(super) const fn accumulators(out: Float) -> &'static [Float] {
    match out {
        Float::F64 | Float::F32 => &[],
        Float::F16 | Float::Bf16 => &[Float::F32],
        Float::E4m3 | Float::E5m2 => &[Float::F16, Float::F32],
    }
}

/// 8 bits convert between multiplication and addition.
pub(super) const fn can_fuse(out: Float) -> bool {
    !out.saturates()
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
