//! Ways of computing a reduction in a given order, each with one result: a rounding, a type of partial results, and a scale.
use super::shapes::{Order, Step};
use crate::num::DType;
use crate::oracle::answer::ColumnReduction;
use crate::oracle::budget::PreparedReduction;
use crate::oracle::families::Rounding;
use crate::oracle::reduction_models::{Fusion, InputScaling, Leaf, ReductionModel, ReductionModels};
use crate::oracle::row_models::{RowStep, RowTrial};

/// A way of computing a reduction.
#[derive(Clone, Debug)]
pub(super) struct Computing {
    /// Index among the ways to compute the reduction.
    pub number: usize,
    model: ReductionModel,
    /// A second way in which any element may have been computed instead.
    or: Option<ReductionModel>,
    /// Index of the final step among the model's.
    finish: usize,
    /// True if sums of groups are rounded to the type.
    pub grouped: bool,
    /// A description that is different for each way.
    pub words: String,
}

impl Computing {
    /// The ways of computing a reduction, those that libraries use most first.
    pub fn all(prepared: &PreparedReduction) -> Vec<Self> {
        let ReductionModels { usual, wider, rare } = &prepared.models;
        let mut all: Vec<Self> = Vec::new();
        let mut add = |model: &ReductionModel, grouped: bool| {
            for finish in 0..model.finishes() {
                let words = model.words(finish, grouped);
                if !all.iter().any(|known| known.words == words) {
                    all.push(Self { number: all.len(), model: model.clone(), or: None, finish, grouped, words });
                }
            }
        };
        let single = |model: &&ReductionModel| model.rounding != Rounding::Mixed && model.fuse != Fusion::May;
        for model in usual.iter().chain(wider).chain(rare).filter(single) {
            add(model, false);
        }
        for model in usual.iter().chain(wider).filter(single) {
            if model.rounding == Rounding::Once && model.fuse == Fusion::Never {
                add(model, true);
            }
        }
        all.extend(Self::in_part_fused(usual, all.len()));
        all
    }

    /// A way that fuses only some products: NCCL's LL128 kernels fuse those of some elements that a thread loads, and round the others.
    fn in_part_fused(usual: &[ReductionModel], number: usize) -> Option<Self> {
        let of = |fuse: Fusion| {
            let scaled = |model: &&ReductionModel| model.input == InputScaling::Product && model.fuse == fuse;
            usual.iter().filter(scaled).find(|model| model.rounding == Rounding::EachStep)
        };
        let (rounded, fused) = (of(Fusion::Never)?, of(Fusion::Always)?);
        let words = format!("{}, of some elements without rounding", rounded.words(0, false));
        Some(Self { number, model: fused.clone(), or: Some(rounded.clone()), finish: 0, grouped: false, words })
    }

    /// True if it matters which of two inputs comes first.
    pub fn is_fused(&self) -> bool {
        self.model.fuse == Fusion::Always
    }

    /// True if partial results are wider than the type throughout, so that the order rarely matters.
    pub fn is_wide(&self) -> bool {
        self.model.rounding == Rounding::Once && !self.grouped
    }

    /// The leaves of a column.
    pub fn leaves(&self, values: &[f64], scalars: &[f64], into: &mut Vec<Leaf>) {
        into.clear();
        into.extend(values.iter().enumerate().map(|(rank, value)| self.model.leaf(rank, *value, scalars)));
    }

    /// True if a pass over the leaves shows that every order gives the same result.
    pub fn is_order_independent(&self, leaves: &[Leaf]) -> bool {
        !self.grouped && self.model.order_independent_sum(leaves).is_some()
    }

    /// The results that an order may have.
    pub fn results(&self, order: &Order, leaves: &[Leaf], stack: &mut Vec<f64>) -> impl Iterator<Item = f64> {
        let first = self.result(&self.model, order, leaves, stack);
        let second = self.or.as_ref().map(|model| self.result(model, order, leaves, stack));
        std::iter::once(first).chain(second)
    }

    fn result(&self, model: &ReductionModel, order: &Order, leaves: &[Leaf], stack: &mut Vec<f64>) -> f64 {
        stack.clear();
        let mut top = f64::NAN;
        let leaf = |rank: u32| leaves.get(rank as usize).copied().unwrap_or(Leaf { value: f64::NAN, scalar: 1.0 });
        order.for_each_step(|step| match step {
            Step::Input(rank) => {
                stack.push(top);
                model.leaf_results(leaf(rank), |value| top = value);
            }
            Step::AddInput(rank) if model.fuse == Fusion::Always => {
                model.join_fused(leaf(rank), top, |value| top = value);
            }
            Step::AddInput(rank) => {
                let mut own = f64::NAN;
                model.leaf_results(leaf(rank), |value| own = value);
                model.join(top, own, |value| top = value);
            }
            Step::Add | Step::AddNarrow => {
                let below = stack.pop().unwrap_or(f64::NAN);
                model.join(below, top, |value| top = value);
                if self.grouped && step == Step::AddNarrow {
                    top = model.out.round(top);
                }
            }
            Step::Narrow if self.grouped => top = model.out.round(top),
            Step::Narrow => {}
        });
        model.finished(self.finish, top)
    }
}

impl Computing {
    /// The trials of an order for many elements: each element is explained if one of them explains it.
    pub fn row_trials<'a>(
        &'a self,
        order: &'a Order,
        dtype: DType,
        inputs: &'a [&'a [u8]],
        scalars: &'a [f64],
        observed: &'a [u8],
    ) -> impl Iterator<Item = RowTrial<'a, impl Fn(&mut dyn FnMut(RowStep)) + 'a>> {
        let steps = move |visit: &mut dyn FnMut(RowStep)| {
            order.for_each_step(|step| match step {
                Step::Input(rank) => visit(RowStep::Input(rank as usize)),
                Step::AddInput(rank) => visit(RowStep::AddInput(rank as usize)),
                Step::Add => visit(RowStep::Add),
                Step::AddNarrow => {
                    visit(RowStep::Add);
                    if self.grouped {
                        visit(RowStep::Narrow);
                    }
                }
                Step::Narrow if self.grouped => visit(RowStep::Narrow),
                Step::Narrow => {}
            });
        };
        let finishes = self.finish..self.finish + 1;
        std::iter::once(&self.model).chain(&self.or).map(move |model| RowTrial {
            model,
            scalars,
            finishes: finishes.clone(),
            steps,
            dtype,
            inputs,
            observed,
        })
    }
}

/// Precomputes what the ways of computing a reduction need.
pub(super) fn prepare(reduction: &ColumnReduction) -> PreparedReduction {
    PreparedReduction::new(reduction)
}
