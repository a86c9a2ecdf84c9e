//! Judges one observed element: exactly if a pass over the column shows that neither order nor rounding matters, otherwise by
//! chains, the search, and finally the bound.
use super::admissible::GROUPS;
use super::answer::{ColumnReduction, ElementLane, JudgedElement, RightResults, Ruling};
use super::budget::{Budget, PreparedReduction, Purpose};
use super::float::Float;
use crate::num::{canonical_nan, decode_f64, is_nan, mask};
use crate::plan::cost::SEARCH_RANKS;

const WIDE_NOTE: &str = "partial products may be subnormal; judged by a wider bound";
const BUDGET_NOTE: &str = "the search budget is used up; judged by the bound";

impl ColumnReduction {
    /// Judges one observed element (bits) of a column. An accepted element is right under some admissible order, rounding
    /// and scale. All elements of a case share the budget of searches.
    ///
    /// The families of the usual models are complete (see `ReductionModels`);
    /// the other models are searched only for elements that need them.
    pub fn judge(&self, column: &[u64], observed: u64, budget: &mut Budget) -> JudgedElement {
        let mut observed = observed & mask(self.dtype);
        if let Some(answer) = self.exact(column) {
            // A zero of either sign does not distinguish families.
            let size = if let RightResults::OneOf(choices) = &answer { choices.len() } else { 1 };
            return match answer.admits(self.dtype, observed) {
                true => accepted(ElementLane::Exact, None, Some(size), None),
                false => JudgedElement {
                    lane: ElementLane::Exact,
                    ruling: Ruling::Reject { answer: Some(answer) },
                    note: None,
                },
            };
        }
        let (Some(float), true) = (Float::of(self.dtype), self.has_one_input_per_rank(column.len())) else {
            let why = format!("the column has {} elements for {} ranks", column.len(), self.ranks);
            return unable(why);
        };
        if is_nan(self.dtype, observed) {
            observed = canonical_nan(self.dtype);
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        if self.ranks <= SEARCH_RANKS {
            self.judge_few(float, &values, observed, true, budget)
        } else {
            self.judge_many(float, &values, observed, budget)
        }
    }

    /// Judges an element of few ranks that has no exact answer and that no chain explains.
    pub(super) fn judge_without_chains(&self, values: &[f64], observed: u64, budget: &mut Budget) -> JudgedElement {
        match Float::of(self.dtype) {
            Some(float) => self.judge_few(float, values, observed, false, budget),
            None => unable("integers are exact".into()),
        }
    }

    fn judge_few(
        &self,
        float: Float,
        values: &[f64],
        observed: u64,
        try_chains: bool,
        budget: &mut Budget,
    ) -> JudgedElement {
        let is_sample = budget.samples > 0;
        budget.samples = budget.samples.saturating_sub(1);
        if self.is_far_off(&budget.prepared(self), values, observed) {
            return JudgedElement {
                lane: ElementLane::Admissible,
                ruling: Ruling::Reject { answer: None },
                note: None,
            };
        }
        if try_chains && self.chain_found(values, observed, budget, &mut u64::MAX.clone()) {
            let sampled = if is_sample { self.search(values, 1, Purpose::Fingerprint, budget).ok() } else { None };
            let (families, size) = sampled.and_then(|set| set.find(observed)).unzip();
            return accepted(ElementLane::Admissible, families, size, None);
        }
        if let Some(judged) = self.judge_by_search(values, observed, Purpose::Verdict, budget) {
            return judged;
        }
        budget.set_exhausted();
        let prepared = budget.prepared(self);
        if self.surely_within(float, values, &prepared.scalars, decode_f64(self.dtype, observed)) {
            return accepted(ElementLane::Bounded, None, None, Some(BUDGET_NOTE));
        }
        let why = match self.bound(float, values, &prepared.scalars) {
            Ok(answer) => return self.judge_by_bound(answer, observed, Some(BUDGET_NOTE)),
            Err(why) => why,
        };
        self.judge_by_search(values, observed, Purpose::LastResort, budget).unwrap_or_else(|| {
            self.judge_by_wide_bound(float, values, observed, format!("the search budget is used up, and {why}"))
        })
    }

    /// True if the value is wrong beyond doubt, so that a search is unnecessary.
    pub(super) fn is_far_off(&self, prepared: &PreparedReduction, values: &[f64], observed: u64) -> bool {
        let outside = |float| self.surely_outside(float, values, &prepared.scalars, decode_f64(self.dtype, observed));
        values.len() <= SEARCH_RANKS && Float::of(self.dtype).is_some_and(outside)
    }

    /// Judges a column whose inputs are results of the run, so that the plan could not refuse it, by the wide bound.
    fn judge_by_wide_bound(&self, float: Float, values: &[f64], observed: u64, why: String) -> JudgedElement {
        match self.wide_bound(float, values) {
            Some(answer) => self.judge_by_bound(answer, observed, Some(WIDE_NOTE)),
            None => JudgedElement { lane: ElementLane::Bounded, ruling: Ruling::Unable { why }, note: None },
        }
    }

    /// Judges by a search; `None` if the budget does not suffice.
    fn judge_by_search(
        &self,
        values: &[f64],
        observed: u64,
        purpose: Purpose,
        budget: &mut Budget,
    ) -> Option<JudgedElement> {
        let accepted = |(families, size)| accepted(ElementLane::Admissible, Some(families), Some(size), None);
        for groups in 1..=GROUPS {
            let set = self.search(values, groups, purpose, budget).ok()?;
            if let Some(found) = set.find(observed) {
                return Some(accepted(found));
            }
            if groups == GROUPS {
                let ruling = Ruling::Reject { answer: Some(set.answer(self)) };
                return Some(JudgedElement { lane: ElementLane::Admissible, ruling, note: None });
            }
        }
        None
    }

    fn judge_many(&self, float: Float, values: &[f64], observed: u64, budget: &mut Budget) -> JudgedElement {
        let mut steps = budget.chain_steps;
        let found = self.chain_found(values, observed, budget, &mut steps);
        budget.chain_steps = steps;
        if found {
            return accepted(ElementLane::Admissible, None, None, None);
        }
        if let Some((few, values)) = self.without_neutral_inputs(values)
            && let Some(judged) = few.judge_without_neutral_inputs(&values, observed, budget)
        {
            return judged;
        }
        let prepared = budget.prepared(self);
        if self.surely_within(float, values, &prepared.scalars, decode_f64(self.dtype, observed)) {
            return accepted(ElementLane::Bounded, None, None, None);
        }
        match self.bound(float, values, &prepared.scalars) {
            Ok(answer) => self.judge_by_bound(answer, observed, None),
            Err(why) => self.judge_by_wide_bound(float, values, observed, why),
        }
    }

    /// Judges a column of many ranks without its neutral inputs; `None` if the budget does not suffice. The order of the
    /// other inputs does not determine the order of all, so the ruling has no families.
    fn judge_without_neutral_inputs(
        &self,
        values: &[f64],
        observed: u64,
        budget: &mut Budget,
    ) -> Option<JudgedElement> {
        let mut steps = u64::MAX;
        if self.chain_found(values, observed, budget, &mut steps) {
            return Some(accepted(ElementLane::Admissible, None, None, None));
        }
        let Some(judged) = self.judge_by_search(values, observed, Purpose::Verdict, budget) else {
            budget.set_exhausted();
            return None;
        };
        Some(match judged.ruling {
            Ruling::Accept { .. } => accepted(judged.lane, None, None, judged.note),
            _ => judged,
        })
    }

    fn judge_by_bound(&self, answer: RightResults, observed: u64, note: Option<&'static str>) -> JudgedElement {
        match answer.admits(self.dtype, observed) {
            true => accepted(ElementLane::Bounded, None, None, note),
            false => {
                JudgedElement { lane: ElementLane::Bounded, ruling: Ruling::Reject { answer: Some(answer) }, note }
            }
        }
    }

    fn chain_found(&self, values: &[f64], observed: u64, budget: &mut Budget, steps: &mut u64) -> bool {
        let prepared = budget.prepared(self);
        let last = *budget.last_chain(self);
        let found = self.find_chain(&prepared, values, observed, last, steps);
        *budget.last_chain(self) = found.or(last);
        found.is_some()
    }

    /// Checks before a run that the column can be judged: always with up to [`SEARCH_RANKS`] ranks, beyond that if it is exact or
    /// has a bound, which is used when the budget is used up.
    ///
    /// # Errors
    ///
    /// The reason why it cannot be judged.
    pub fn judgeable(&self, column: &[u64]) -> Result<(), String> {
        if !self.has_one_input_per_rank(column.len()) {
            return Err(format!("the column has {} elements for {} ranks", column.len(), self.ranks));
        }
        let Some(float) = Float::of(self.dtype) else { return Ok(()) };
        if self.ranks <= SEARCH_RANKS || self.exact(column).is_some() {
            return Ok(());
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        self.bound(float, &values, &self.scalar_values()).map(|_| ())
    }

    /// All right results: the exact answer, else the whole admissible set, else the bound (not the wide one). [`Self::judge`] does
    /// not need all of them.
    ///
    /// # Errors
    ///
    /// The reason why the column cannot be judged.
    pub fn right_results(&self, column: &[u64], budget: &mut Budget) -> Result<RightResults, String> {
        self.judgeable(column)?;
        if let Some(answer) = self.exact(column) {
            return Ok(answer);
        }
        let Some(float) = Float::of(self.dtype) else { return Err("integers are exact".into()) };
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        let few = if self.ranks <= SEARCH_RANKS {
            Some((self.clone(), values.clone()))
        } else {
            self.without_neutral_inputs(&values)
        };
        if let Some((few, values)) = few
            && let Ok(found) = few.search(&values, GROUPS, Purpose::Verdict, budget)
        {
            return Ok(found.answer(self));
        }
        let prepared = budget.prepared(self);
        self.bound(float, &values, &prepared.scalars)
    }
}

fn unable(why: String) -> JudgedElement {
    JudgedElement { lane: ElementLane::Exact, ruling: Ruling::Unable { why }, note: None }
}

fn accepted(
    lane: ElementLane,
    families: Option<super::FamilySet>,
    set_size: Option<usize>,
    note: Option<&'static str>,
) -> JudgedElement {
    JudgedElement { lane, ruling: Ruling::Accept { families, set_size }, note }
}
