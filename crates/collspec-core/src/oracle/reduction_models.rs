//! Models of how a library may compute a reduction of floats: each defines what a leaf, a join and the final step compute.
//!
//! | model | source |
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
//! f64 does not have a wider accumulator: neither GPUs nor NCCL's types have a wider one.
use super::answer::{ColumnReduction, ReduceKind};
use super::exact::{partial_sums_are_exact, reciprocal};
use super::families::{FamilySet, Rounding, Scale, Shape};
use super::float::{Float, fused};

/// The condition under which a product is added without being rounded first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fusion {
    /// Products are always rounded.
    Never,
    /// Not rounded where a rank's own element joins a partial result.
    Always,
    /// May or may not be rounded at these joins.
    May,
}

/// The operation on a rank's element before it is added.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum InputScaling {
    /// The element is added unchanged.
    Plain,
    /// Multiplication by its scalar.
    Product,
    /// Division by the number of ranks in a type, perhaps narrowed to another type.
    Divided { part: Division, narrowed: Option<Float> },
}

/// A division by the number of ranks, computed in a type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Division {
    TimesReciprocal(f64, Float),
    DividedBy(f64, Float),
}

impl Division {
    fn apply(self, value: f64) -> f64 {
        match self {
            Self::TimesReciprocal(reciprocal, float) => float.round(value * reciprocal),
            Self::DividedBy(n, float) => float.round(value / n),
        }
    }
}

/// A way of computing a reduction.
#[derive(Clone, Debug)]
pub(super) struct ReductionModel {
    pub rounding: Rounding,
    /// The type of partial results.
    pub acc: Float,
    /// The type of the result.
    pub out: Float,
    pub fuse: Fusion,
    pub input: InputScaling,
    multiplies: bool,
    /// Divisions of the sum at the end, each with its families; empty if the model does not divide.
    after: Vec<(Division, FamiliesByShape)>,
    families: FamiliesByShape,
}

/// Families of a chain and of a tree.
type FamiliesByShape = [FamilySet; 2];

/// An input with its scalar; 1 if the reduction has no scalars.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub value: f64,
    pub scalar: f64,
}

/// The models of a reduction in the order in which they are tried: later groups only where earlier ones do not explain a
/// value.
#[derive(Clone, Debug, Default)]
pub(super) struct ReductionModels {
    /// Models that libraries are known to use, and models that are as simple.
    pub usual: Vec<ReductionModel>,
    /// Models that contain the usual ones (mixed rounding, fusion at some joins), and rare ones.
    pub wider: Vec<ReductionModel>,
    /// Averages that divide every input.
    pub rare: Vec<ReductionModel>,
}

impl ReductionModels {
    pub fn for_reduction(reduction: &ColumnReduction) -> Self {
        let mut models = Self::default();
        let Some(out) = Float::of(reduction.dtype) else { return models };
        let scales = match reduction.kind {
            ReduceKind::Avg => &[Scale::Before, Scale::BeforeFused, Scale::After][..],
            ReduceKind::PreMulSum { .. } => &[Scale::Before, Scale::BeforeFused],
            _ => &[Scale::None],
        };
        let multiplies = reduction.kind == ReduceKind::Prod;
        let wide = if multiplies { product_accumulators(out) } else { accumulators(out) };
        for &scale in scales {
            let model = |rounding, acc, fuse| ReductionModel::new(reduction, out, rounding, scale, acc, fuse);
            let fuse = if scale == Scale::BeforeFused { Fusion::Always } else { Fusion::Never };
            // 8 bits convert between multiplication and addition, so they have no contracted operation.
            let seldom = fuse == Fusion::Always && out.saturates();
            let group = if seldom { &mut models.wider } else { &mut models.usual };
            group.push(model(Rounding::EachStep, out, fuse));
            if fuse == Fusion::Always {
                models.wider.push(model(Rounding::EachStep, out, Fusion::May));
            }
            for &acc in wide {
                let group = if multiplies { &mut models.wider } else { &mut models.usual };
                group.push(model(Rounding::Once, acc, fuse));
                let free = if fuse == Fusion::Always { Fusion::May } else { fuse };
                if free == Fusion::May {
                    models.wider.push(model(Rounding::Once, acc, free));
                }
                models.wider.push(model(Rounding::Mixed, acc, free));
            }
        }
        if reduction.kind == ReduceKind::Avg && !reciprocal_is_exact(out, reduction.ranks) {
            models.rare = models_dividing_inputs(reduction, out);
        }
        models
    }
}

/// The models of an average that divide every input.
fn models_dividing_inputs(reduction: &ColumnReduction, out: Float) -> Vec<ReductionModel> {
    let model = |rounding, acc, part, narrowed| ReductionModel {
        input: InputScaling::Divided { part, narrowed },
        ..ReductionModel::new(reduction, out, rounding, Scale::BeforeDivided, acc, Fusion::Never)
    };
    let n = reduction.ranks;
    let mut models = vec![model(Rounding::EachStep, out, Division::DividedBy(n as f64, out), None)];
    for &acc in accumulators(out) {
        let times = Division::TimesReciprocal(reciprocal(acc, n), acc);
        models.push(model(Rounding::EachStep, out, times, Some(out)));
        for part in [Division::DividedBy(n as f64, acc), times] {
            models.push(model(Rounding::Once, acc, part, None));
            models.push(model(Rounding::Once, acc, part, Some(out)));
            models.push(model(Rounding::Mixed, acc, part, None));
        }
    }
    models
}

impl ReductionModel {
    fn new(
        reduction: &ColumnReduction,
        out: Float,
        rounding: Rounding,
        scale: Scale,
        acc: Float,
        fuse: Fusion,
    ) -> Self {
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
            Scale::Before | Scale::BeforeFused => InputScaling::Product,
            _ => InputScaling::Plain,
        };
        let mut after = Vec::new();
        if scale == Scale::After {
            // Multiplying by an exact reciprocal is dividing.
            let both = &[Scale::After, Scale::AfterDivided][..];
            let times = if is_exact { both } else { &[Scale::After] };
            after.push((Division::TimesReciprocal(reciprocal(out, n), acc), families(times)));
            let wider = accumulators(out).iter().copied().filter(|wide| wide.precision() > acc.precision());
            for float in std::iter::once(acc).chain(wider).filter(|_| !is_exact) {
                after.push((Division::TimesReciprocal(reciprocal(float, n), float), families(&[Scale::After])));
                after.push((Division::DividedBy(n as f64, float), families(&[Scale::AfterDivided])));
            }
        }
        let divides_too = scale == Scale::Before && reduction.kind == ReduceKind::Avg && is_exact;
        let families = if divides_too { families(&[scale, Scale::BeforeDivided]) } else { families(&[scale]) };
        Self { rounding, acc, out, fuse, input, multiplies, after, families }
    }

    /// True if inputs are added unchanged.
    pub fn is_plain(&self) -> bool {
        self.input == InputScaling::Plain
    }

    /// True if partial results are multiplied.
    pub fn multiplies(&self) -> bool {
        self.multiplies
    }

    /// True if the sum is divided at the end.
    pub fn divides_after(&self) -> bool {
        !self.after.is_empty()
    }

    /// True if f32 has enough bits for all of its additions: see `rows`.
    pub fn fits_f32(&self) -> bool {
        !self.multiplies
            && self.fuse == Fusion::Never
            && self.acc.precision() <= Float::F32.precision()
            && self.out.precision() <= Float::F32.precision()
    }

    /// The leaves of a column: each rank's input with its scalar.
    pub fn leaves(&self, values: &[f64], scalars: &[f64]) -> Vec<Leaf> {
        values.iter().enumerate().map(|(rank, value)| self.leaf(rank, *value, scalars)).collect()
    }

    /// A rank's input with its scalar.
    #[inline]
    pub fn leaf(&self, rank: usize, value: f64, scalars: &[f64]) -> Leaf {
        match self.input {
            InputScaling::Plain => Leaf { value, scalar: 1.0 },
            InputScaling::Product => Leaf { value, scalar: scalars.get(rank).copied().unwrap_or(1.0) },
            InputScaling::Divided { part, narrowed } => {
                let part = part.apply(value);
                Leaf { value: narrowed.map_or(part, |to| to.round(part)), scalar: 1.0 }
            }
        }
    }

    /// The partial results that a single leaf may give.
    #[inline]
    pub fn leaf_results(&self, leaf: Leaf, mut emit: impl FnMut(f64)) {
        if self.input != InputScaling::Product {
            let value = if leaf.value.is_nan() { f64::NAN } else { leaf.value };
            emit(value);
            if self.rounding == Rounding::Mixed && self.input != InputScaling::Plain {
                emit(self.out.round(value));
            }
            return;
        }
        if self.fuse != Fusion::Always || self.acc == self.out {
            emit(self.out.round(leaf.value * leaf.scalar));
        }
        if self.fuse != Fusion::Never && self.acc != self.out {
            emit(self.acc.round(leaf.value * leaf.scalar));
        }
    }

    /// The partial results that joining two partial results may give.
    #[inline]
    pub fn join(&self, a: f64, b: f64, mut emit: impl FnMut(f64)) {
        let value = self.acc.round(if self.multiplies { a * b } else { a + b });
        emit(value);
        if self.rounding == Rounding::Mixed {
            emit(self.out.round(value));
        }
    }

    /// The partial results that joining a leaf with an unrounded product to a partial result may give.
    #[inline]
    pub fn join_fused(&self, leaf: Leaf, partial: f64, mut emit: impl FnMut(f64)) {
        let value = fused(self.acc, leaf.value, leaf.scalar, partial);
        emit(value);
        if self.rounding == Rounding::Mixed {
            emit(self.out.round(value));
            emit(fused(self.out, leaf.value, leaf.scalar, partial));
        }
    }

    /// The sum, if a pass over the leaves shows that every order gives the same one: a wide accumulator holds most sums
    /// exactly.
    pub fn order_independent_sum(&self, leaves: &[Leaf]) -> Option<f64> {
        if self.rounding != Rounding::Once || self.multiplies || self.fuse == Fusion::May {
            return None;
        }
        let mut terms = Vec::with_capacity(leaves.len());
        for leaf in leaves {
            let mut term = leaf.value;
            if self.input == InputScaling::Product {
                self.leaf_results(*leaf, |value| term = value);
                // Of types below f64 the product is exact in f64, and so shows whether the accumulator holds it.
                if self.fuse == Fusion::Always && term != leaf.value * leaf.scalar {
                    return None;
                }
            }
            if !term.is_finite() {
                return None;
            }
            terms.push(term);
        }
        let size = terms.iter().map(|term| term.abs()).sum();
        partial_sums_are_exact(self.acc, &terms, size).then(|| terms.iter().fold(-0.0, |sum, term| sum + term))
    }

    /// Number of ways in which the last partial result may become the final one, if the model is not mixed.
    pub fn finishes(&self) -> usize {
        self.after.len().max(1)
    }

    /// The result that one of these ways gives.
    #[inline]
    pub fn finished(&self, finish: usize, value: f64) -> f64 {
        let scaled = self.after.get(finish).map_or(value, |(part, _)| part.apply(value));
        self.out.round(scaled)
    }

    /// Describes rounding and scale; models have different descriptions unless they compute the same.
    pub fn words(&self, finish: usize, grouped: bool) -> String {
        let acc = self.acc.name();
        let mut words = match self.rounding {
            Rounding::EachStep => "rounded at each step".to_owned(),
            _ if grouped => format!("{acc} inside groups, rounded between"),
            _ => format!("{acc} accumulator"),
        };
        let scale = match (self.input, self.after.get(finish)) {
            (_, Some((Division::TimesReciprocal(_, float), _))) => Some(format!("scaled after in {}", float.name())),
            (_, Some((Division::DividedBy(_, float), _))) => Some(format!("divided after in {}", float.name())),
            (InputScaling::Plain, None) => None,
            (InputScaling::Product, None) if self.fuse == Fusion::Never => Some("scaled before".to_owned()),
            (InputScaling::Product, None) => Some("scaled before without rounding".to_owned()),
            (InputScaling::Divided { part, narrowed }, None) => {
                let (Division::TimesReciprocal(_, float) | Division::DividedBy(_, float)) = part;
                let verb = if matches!(part, Division::DividedBy(..)) { "divided" } else { "scaled" };
                let rounded = if narrowed.is_some() { " and rounded" } else { "" };
                Some(format!("{verb} before in {}{rounded}", float.name()))
            }
        };
        if let Some(scale) = scale {
            words.push_str(", ");
            words.push_str(&scale);
        }
        words
    }

    /// The results that the last partial result may give, each with its families.
    pub fn final_results(&self, value: f64, shape: Shape, mut emit: impl FnMut(f64, FamilySet)) {
        let at = usize::from(shape == Shape::Tree);
        if self.after.is_empty() {
            return emit(self.out.round(value), self.families[at]);
        }
        for (part, families) in &self.after {
            emit(self.out.round(part.apply(value)), families[at]);
            if self.rounding == Rounding::Mixed {
                let narrowed = self.out.round(value);
                emit(self.out.round(part.apply(narrowed)), families[at]);
                let (Division::TimesReciprocal(by, _) | Division::DividedBy(by, _)) = *part;
                let exact = if matches!(part, Division::TimesReciprocal(..)) { narrowed * by } else { narrowed / by };
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
        _ => &[Float::F16, Float::F32],
    }
}

/// The wider types in which a type may be multiplied. Products of 8 bits soon leave f16's range.
pub(super) const fn product_accumulators(out: Float) -> &'static [Float] {
    if out.saturates() { &[Float::F32] } else { accumulators(out) }
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
