//! Judges many elements that round at once: in blocks those that a chain explains, the others one by one.
use super::answer::{ColumnReduction, JudgedElement};
use super::budget::{Budget, PreparedReduction, Purpose};
use super::chains::Chain;
use super::parts::parts;
use super::row_models::{RowElements, RowMemory, RowStep, RowTrial};
use super::rows::ROW;
use super::search::Search;
use crate::cores::in_parallel;
use crate::num::{canonical_nan, decode_f64, get_element, is_nan};
use crate::plan::cost::SEARCH_RANKS;
use std::collections::HashSet;
use std::ops::Range;

/// Number of elements on which a chain is tried first that may explain only a few.
const FIRST_TRIED: usize = 16;
/// Number of elements without an explaining chain that are searched at once.
const SEARCHED_AHEAD: usize = 1024;

/// Inputs and observed results of elements without an exact answer.
pub(crate) struct RoundingElements<'a> {
    /// The reduction that gave them.
    pub reduction: &'a ColumnReduction,
    /// Inputs by rank of the communicator, from the first of these elements on.
    pub inputs: Vec<&'a [u8]>,
    /// The observed results; their length determines the number of elements.
    pub observed: &'a [u8],
}

impl RoundingElements<'_> {
    /// Judges all elements with the same results as [`ColumnReduction::judge`] one by one. Those that a chain explains and that are not
    /// samples for the fingerprint are only counted; `settle` gets the others in ascending order. Returns how many it did not get.
    pub fn judge(&self, budget: &mut Budget, mut settle: impl FnMut(usize, JudgedElement)) -> u64 {
        let count = self.observed.len() / self.reduction.dtype.size();
        let mut from = 0;
        // With few ranks, the first elements may be samples for the fingerprint, which are searched.
        if self.reduction.ranks <= SEARCH_RANKS {
            let samples: Vec<usize> = (0..count.min(budget.samples as usize)).collect();
            self.search_ahead(&samples, Purpose::Fingerprint, budget);
        }
        while from < count && self.reduction.ranks <= SEARCH_RANKS && budget.samples > 0 {
            settle(from, self.reduction.judge(&self.column(from), self.observed_bits(from), budget));
            from += 1;
        }
        let mut settled = from as u64;
        let mut settle = |element, judged| {
            settled += 1;
            settle(element, judged);
        };
        if self.reduction.ranks <= SEARCH_RANKS {
            self.judge_few(from..count, budget, &mut settle);
        } else {
            self.judge_many(from..count, budget, &mut settle);
        }
        count as u64 - settled
    }

    /// Searches elements on all cores, if that is much work; of those with equal inputs only one.
    fn search_ahead(&self, elements: &[usize], purpose: Purpose, budget: &mut Budget) {
        // There are 3^n / 2 pairs of groups of n ranks, with a few partial results each.
        let each = 3usize.pow(self.reduction.ranks as u32);
        let is_much = |count| parts(count, each, 1).len() > 1;
        if !is_much(elements.len()) || *budget.joins_for(purpose) == 0 {
            return;
        }
        let prepared = budget.prepared(self.reduction);
        let mut keys = HashSet::new();
        let mut columns: Vec<Vec<f64>> = Vec::new();
        for &element in elements {
            let values: Vec<f64> = self.values(element);
            if self.reduction.is_far_off(&prepared, &values, self.observed_bits(element)) {
                continue;
            }
            let key = self.reduction.key(&values);
            if budget.cached(purpose, &key).is_none() && keys.insert(key) {
                columns.push(values);
            }
        }
        if !is_much(columns.len()) {
            return;
        }
        let searched = in_parallel(parts(columns.len(), each, 1), |part| {
            let mut search = Search::default();
            let each = |values: &Vec<f64>| self.reduction.search_ahead(&prepared, values, &mut search);
            columns.get(part).unwrap_or_default().iter().filter_map(each).collect::<Vec<_>>()
        });
        budget.set_ahead(searched.into_iter().flatten());
    }

    /// With few ranks the chains do not use the budget, so each core may try them on a part.
    fn judge_few(&self, elements: Range<usize>, budget: &mut Budget, settle: &mut impl FnMut(usize, JudgedElement)) {
        let prepared = budget.prepared(self.reduction);
        let hint = *budget.last_chain(self.reduction);
        let each = 2 * self.reduction.ranks;
        let parts: Vec<Range<usize>> = parts(elements.len(), each, ROW)
            .into_iter()
            .map(|part| elements.start + part.start..elements.start + part.end)
            .collect();
        let found = in_parallel(parts, |part| self.unexplained(&prepared, part, hint));
        for (unexplained, last) in found {
            *budget.last_chain(self.reduction) = last;
            for elements in unexplained.chunks(SEARCHED_AHEAD) {
                if !budget.is_exhausted() {
                    self.search_ahead(elements, Purpose::Verdict, budget);
                }
                for &element in elements {
                    let values: Vec<f64> = self.values(element);
                    settle(element, self.reduction.judge_without_chains(&values, self.observed_bits(element), budget));
                }
            }
        }
    }

    /// The elements that no chain explains, and the last chain that explained one.
    fn unexplained(
        &self,
        prepared: &PreparedReduction,
        elements: Range<usize>,
        mut hint: Option<Chain>,
    ) -> (Vec<usize>, Option<Chain>) {
        let (mut unexplained, mut memory) = (Vec::new(), RowMemory::default());
        let (mut from, mut length) = (elements.start, FIRST_TRIED);
        'blocks: while from < elements.end {
            let count = length.min(elements.end - from);
            let hits = self.explained(prepared, hint, from, count, &mut memory);
            for element in (from..from + count).filter(|element| !hits[element - from]) {
                let (values, bits) = (self.values(element), self.observed_bits(element));
                if self.reduction.is_far_off(prepared, &values, bits) {
                    unexplained.push(element);
                    continue;
                }
                match self.reduction.find_chain(prepared, &values, bits, None, &mut u64::MAX.clone()) {
                    Some(chain) => {
                        (hint, from, length) = (Some(chain), element + 1, FIRST_TRIED);
                        continue 'blocks;
                    }
                    None => unexplained.push(element),
                }
            }
            (from, length) = (from + count, (2 * length).min(ROW));
        }
        (unexplained, hint)
    }

    /// With many ranks every chain that is tried uses up the budget, so the elements are judged in order.
    fn judge_many(&self, elements: Range<usize>, budget: &mut Budget, settle: &mut impl FnMut(usize, JudgedElement)) {
        let prepared = budget.prepared(self.reduction);
        let cost = self.reduction.ranks as u64;
        let mut memory = RowMemory::default();
        let (mut from, mut length) = (elements.start, FIRST_TRIED);
        while from < elements.end {
            let hint = *budget.last_chain(self.reduction);
            let affordable = usize::try_from(budget.chain_steps / cost).unwrap_or(usize::MAX);
            let count = length.min(elements.end - from).min(affordable);
            let hits = self.explained(&prepared, hint, from, count, &mut memory);
            let explained = hits[..count].iter().position(|hit| !hit).unwrap_or(count);
            budget.chain_steps -= explained as u64 * cost;
            from += explained;
            length = (2 * length).min(ROW);
            if explained < count || count == 0 {
                settle(from, self.reduction.judge(&self.column(from), self.observed_bits(from), budget));
                (from, length) = (from + 1, FIRST_TRIED);
            }
        }
    }

    /// For each of these elements, true if the chain explains it.
    fn explained(
        &self,
        prepared: &PreparedReduction,
        chain: Option<Chain>,
        from: usize,
        count: usize,
        memory: &mut RowMemory,
    ) -> [bool; ROW] {
        let Some((chain, model)) = chain.and_then(|chain| Some((chain, prepared.models.usual.get(chain.model)?)))
        else {
            return [false; ROW];
        };
        let ranks = self.inputs.len();
        let steps = |visit: &mut dyn FnMut(RowStep)| {
            for (place, rank) in chain.ranks(ranks).enumerate() {
                visit(if place == 0 { RowStep::Input(rank) } else { RowStep::AddInput(rank) });
            }
        };
        let trial = RowTrial {
            model,
            scalars: &prepared.scalars,
            finishes: 0..model.finishes(),
            steps,
            dtype: self.reduction.dtype,
            inputs: &self.inputs,
            observed: self.observed,
        };
        memory.explained(&trial, RowElements::From(from, count))
    }

    fn column(&self, element: usize) -> Vec<u64> {
        self.reduction.column(&self.inputs, element)
    }

    fn values(&self, element: usize) -> Vec<f64> {
        let dtype = self.reduction.dtype;
        self.inputs.iter().map(|input| decode_f64(dtype, get_element(dtype, input, element))).collect()
    }

    /// The observed bits, with every NaN replaced by the canonical one.
    fn observed_bits(&self, element: usize) -> u64 {
        let dtype = self.reduction.dtype;
        let bits = get_element(dtype, self.observed, element);
        if is_nan(dtype, bits) { canonical_nan(dtype) } else { bits }
    }
}
