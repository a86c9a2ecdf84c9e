//! Computes an order of additions under a model for many elements at once, and compares the results with observed ones.
use super::float::{Float, fused};
use super::reduction_models::{Fusion, ReductionModel};
use super::rows::{Machine, ROW, Row, each};
use crate::num::{DType, decode_f64, get_element};
use std::ops::Range;

/// One step of computing an order, on a stack of partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowStep {
    /// Puts a rank's input on the stack.
    Input(usize),
    /// Adds a rank's own input to the top.
    AddInput(usize),
    /// Adds the two topmost partial results.
    Add,
    /// Rounds the top to the type of the result.
    Narrow,
}

/// The elements of a block.
#[derive(Clone, Copy, Debug)]
pub(super) enum RowElements<'a> {
    /// This many elements from the first index on.
    From(usize, usize),
    /// The elements with these indices.
    Listed(&'a [u32]),
}

impl RowElements<'_> {
    fn len(self) -> usize {
        match self {
            Self::From(_, count) => count.min(ROW),
            Self::Listed(elements) => elements.len().min(ROW),
        }
    }

    /// Decodes these elements into a row.
    fn decode<W: Machine>(self, dtype: DType, bytes: &[u8], row: &mut [W]) {
        match self {
            Self::From(first, _) => W::decode(dtype, bytes.get(first * dtype.size()..).unwrap_or_default(), row),
            Self::Listed(elements) => {
                for (value, element) in row.iter_mut().zip(elements) {
                    *value = W::of_f64(decode_f64(dtype, get_element(dtype, bytes, *element as usize)));
                }
            }
        }
    }
}

/// An order with a way of computing it, and the data to compare with.
pub(super) struct RowTrial<'a, S: Fn(&mut dyn FnMut(RowStep))> {
    pub model: &'a ReductionModel,
    /// The scalars by rank; empty if the reduction has none.
    pub scalars: &'a [f64],
    /// Indices of the model's final steps that may give the result.
    pub finishes: Range<usize>,
    /// Calls its argument with every step of the order.
    pub steps: S,
    pub dtype: DType,
    pub inputs: &'a [&'a [u8]],
    pub observed: &'a [u8],
}

/// Working memory of trials, reused by each.
#[derive(Debug, Default)]
pub(super) struct RowMemory {
    narrow: Stack<f32>,
    wide: Stack<f64>,
}

#[derive(Debug)]
struct Stack<W> {
    /// The partial result of each rank's input alone.
    leaves: Vec<Row<W>>,
    /// The inputs, where their products are added without being rounded.
    inputs: Vec<Row<W>>,
    partials: Vec<Row<W>>,
}

impl<W> Default for Stack<W> {
    fn default() -> Self {
        Self { leaves: Vec::new(), inputs: Vec::new(), partials: Vec::new() }
    }
}

impl RowMemory {
    /// For each of the elements (at most [`ROW`]), true if the trial's results include the observed value.
    pub fn explained<S: Fn(&mut dyn FnMut(RowStep))>(
        &mut self,
        trial: &RowTrial<'_, S>,
        elements: RowElements<'_>,
    ) -> [bool; ROW] {
        if trial.model.fits_f32() {
            self.narrow.explained(trial, elements)
        } else {
            self.wide.explained(trial, elements)
        }
    }
}

impl<W: Machine> Stack<W> {
    fn explained<S: Fn(&mut dyn FnMut(RowStep))>(
        &mut self,
        trial: &RowTrial<'_, S>,
        elements: RowElements<'_>,
    ) -> [bool; ROW] {
        let count = elements.len();
        self.load(trial, elements, count);
        let mut depth = 0;
        (trial.steps)(&mut |step| self.step(trial, step, count, &mut depth));
        let mut hits = [false; ROW];
        let mut observed = [W::ZERO; ROW];
        elements.decode(trial.dtype, trial.observed, &mut observed[..count]);
        let Some(last) = depth.checked_sub(1).and_then(|top| self.partials.get(top)) else { return hits };
        for finish in trial.finishes.clone() {
            let mut result = *last;
            finish_row(trial.model, finish, &mut result[..count]);
            for ((hit, value), observed) in hits[..count].iter_mut().zip(&result).zip(&observed) {
                *hit |= value.is_same(*observed);
            }
        }
        hits
    }

    fn load<S: Fn(&mut dyn FnMut(RowStep))>(
        &mut self,
        trial: &RowTrial<'_, S>,
        elements: RowElements<'_>,
        count: usize,
    ) {
        let model = trial.model;
        self.leaves.resize(trial.inputs.len(), [W::ZERO; ROW]);
        for (row, bytes) in self.leaves.iter_mut().zip(trial.inputs) {
            elements.decode(trial.dtype, bytes, &mut row[..count]);
        }
        if model.fuse == Fusion::Always {
            self.inputs.clone_from(&self.leaves);
        }
        if model.is_plain() {
            return;
        }
        for (rank, row) in self.leaves.iter_mut().enumerate() {
            for value in &mut row[..count] {
                let leaf = model.leaf(rank, value.to_f64(), trial.scalars);
                model.leaf_results(leaf, |result| *value = W::of_f64(result));
            }
        }
    }

    fn step<S: Fn(&mut dyn FnMut(RowStep))>(
        &mut self,
        trial: &RowTrial<'_, S>,
        step: RowStep,
        count: usize,
        depth: &mut usize,
    ) {
        let model = trial.model;
        if let RowStep::Input(rank) = step {
            let Some(leaf) = self.leaves.get(rank) else { return };
            if self.partials.len() <= *depth {
                self.partials.push([W::ZERO; ROW]);
            }
            self.partials[*depth][..count].copy_from_slice(&leaf[..count]);
            *depth += 1;
            return;
        }
        let (below, above) = self.partials.split_at_mut(depth.saturating_sub(1));
        let Some(top) = above.first_mut() else { return };
        let top = &mut top[..count];
        match step {
            RowStep::AddInput(rank) if model.fuse == Fusion::Always => {
                let Some(input) = self.inputs.get(rank) else { return };
                let scalar = trial.scalars.get(rank).copied().unwrap_or(1.0);
                each(top, input, |partial, x| W::of_f64(fused(model.acc, x.to_f64(), scalar, partial.to_f64())));
            }
            RowStep::AddInput(rank) => {
                let Some(leaf) = self.leaves.get(rank) else { return };
                join(model, top, leaf);
            }
            RowStep::Add => {
                let Some(below) = below.last_mut() else { return };
                join(model, &mut below[..count], top);
                *depth -= 1;
            }
            RowStep::Narrow => W::round_row(model.out, top),
            RowStep::Input(_) => {}
        }
    }
}

/// Joins partial results like [`ReductionModel::join`].
fn join<W: Machine>(model: &ReductionModel, row: &mut [W], other: &[W]) {
    if model.multiplies() {
        each(row, other, |a, b| a * b);
        W::round_row(model.acc, row);
    } else {
        W::add_rounded(model.acc, row, other);
    }
}

/// Turns last partial results into results like [`ReductionModel::finished`].
fn finish_row<W: Machine>(model: &ReductionModel, finish: usize, row: &mut [W]) {
    if model.divides_after() {
        row.iter_mut().for_each(|value| *value = W::of_f64(model.finished(finish, value.to_f64())));
    } else if model.acc != model.out {
        W::round_row(model.out, row);
    }
}

/// The canonical values of sums (see `canonical`): a chain by rank order, each step rounded, products first.
pub(super) fn canonical_row<W: Machine>(
    float: Float,
    scalars: &[f64],
    rows: &[Row<W>],
    count: usize,
    out: &mut Row<W>,
) {
    let mut product = [W::ZERO; ROW];
    for (rank, row) in rows.iter().enumerate() {
        let mut leaf = &row[..count];
        if let Some(scalar) = scalars.get(rank) {
            let scaled = |value: &W| W::of_f64(float.round(value.to_f64() * scalar));
            product.iter_mut().zip(leaf).for_each(|(place, value)| *place = scaled(value));
            leaf = &product[..count];
        }
        if rank == 0 {
            out[..count].copy_from_slice(leaf);
        } else {
            W::add_rounded(float, &mut out[..count], leaf);
        }
    }
}
