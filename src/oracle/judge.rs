//! The judgement on one observed element: exact if a pass over the column shows that nothing matters, else cheap chains, the
//! search, and last the bound.
use super::admissible::GROUPS;
use super::answer::{Answer, Judged, Lane, Reduction, Ruling};
use super::budget::Budget;
use super::float::Float;
use crate::num::{canonical_nan, decode_f64, is_nan, mask};
use crate::plan::cost::SEARCH_RANKS;

const WIDE_NOTE: &str = "partial products may be subnormal; judged by a wider bound";
const BUDGET_NOTE: &str = "the search budget is used up; judged by the bound";

impl Reduction {
    /// Judges one observed element (bits) of a column. What is accepted is right under some admissible order, rounding and
    /// scale; the budget, shared by the elements of a case, pays for searching.
    ///
    /// Families are complete among the usual ways (see `Ways`); of the others only those are searched that an element needs.
    pub fn judge(&self, column: &[u64], observed: u64, budget: &mut Budget) -> Judged {
        let mut observed = observed & mask(self.dtype);
        if let Some(answer) = self.exact(column) {
            // Of either zero nothing can be learnt, so nothing is said of families.
            let size = if let Answer::OneOf(choices) = &answer { choices.len() } else { 1 };
            return match answer.admits(self.dtype, observed) {
                true => accept(Lane::Exact, None, Some(size), None),
                false => Judged { lane: Lane::Exact, ruling: Ruling::Reject { answer }, note: None },
            };
        }
        let (Some(float), true) = (Float::of(self.dtype), self.covers(column.len())) else {
            let why = format!("the column has {} elements for {} ranks", column.len(), self.ranks);
            return Judged { lane: Lane::Exact, ruling: Ruling::Unable { why }, note: None };
        };
        if is_nan(self.dtype, observed) {
            observed = canonical_nan(self.dtype);
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        if self.ranks <= SEARCH_RANKS {
            self.judge_few(float, &values, observed, budget)
        } else {
            self.judge_many(float, &values, observed, budget)
        }
    }

    fn judge_few(&self, float: Float, values: &[f64], observed: u64, budget: &mut Budget) -> Judged {
        let by_chain = |budget: &mut Budget| {
            let mut steps = u64::MAX;
            let found = self.chain_found(values, observed, budget, &mut steps);
            found.then(|| accept(Lane::Admissible, None, None, None))
        };
        // Enough elements have told their families: for the others it suffices to be right.
        let told = budget.samples == 0;
        if told && let Some(judged) = by_chain(budget) {
            return judged;
        }
        budget.samples = budget.samples.saturating_sub(1);
        if let Some(judged) = self.judge_by_search(values, observed, false, budget) {
            return judged;
        }
        budget.blow();
        if !told && let Some(judged) = by_chain(budget) {
            return judged;
        }
        let prepared = budget.prepared(self);
        let why = match self.bound(float, values, &prepared.scalars) {
            Ok(answer) => return self.judge_by_bound(answer, observed, Some(BUDGET_NOTE)),
            Err(why) => why,
        };
        self.judge_by_search(values, observed, true, budget).unwrap_or_else(|| {
            self.judge_by_wide_bound(float, values, observed, format!("the search budget is used up, and {why}"))
        })
    }

    /// The last resort for a column that the plan could not look at, because its inputs are results of the run.
    fn judge_by_wide_bound(&self, float: Float, values: &[f64], observed: u64, why: String) -> Judged {
        match self.wide_bound(float, values) {
            Some(answer) => self.judge_by_bound(answer, observed, Some(WIDE_NOTE)),
            None => Judged { lane: Lane::Bounded, ruling: Ruling::Unable { why }, note: None },
        }
    }

    /// `None` if the budget does not suffice.
    fn judge_by_search(&self, values: &[f64], observed: u64, reserve: bool, budget: &mut Budget) -> Option<Judged> {
        let accepted = |(families, size)| accept(Lane::Admissible, Some(families), Some(size), None);
        for groups in 1..=GROUPS {
            let set = self.search(values, groups, reserve, budget).ok()?;
            if let Some(found) = set.find(observed) {
                return Some(accepted(found));
            }
            if groups == GROUPS {
                let ruling = Ruling::Reject { answer: set.answer(self) };
                return Some(Judged { lane: Lane::Admissible, ruling, note: None });
            }
        }
        None
    }

    fn judge_many(&self, float: Float, values: &[f64], observed: u64, budget: &mut Budget) -> Judged {
        let mut steps = budget.chain_steps;
        let found = self.chain_found(values, observed, budget, &mut steps);
        budget.chain_steps = steps;
        if found {
            return accept(Lane::Admissible, None, None, None);
        }
        if let Some((few, values)) = self.essential(values)
            && let Some(judged) = few.judge_essential(&values, observed, budget)
        {
            return judged;
        }
        let prepared = budget.prepared(self);
        if self.surely_within(float, values, &prepared.scalars, decode_f64(self.dtype, observed)) {
            return accept(Lane::Bounded, None, None, None);
        }
        match self.bound(float, values, &prepared.scalars) {
            Ok(answer) => self.judge_by_bound(answer, observed, None),
            Err(why) => self.judge_by_wide_bound(float, values, observed, why),
        }
    }

    /// Judges what is left of a column of many ranks without the inputs that change nothing; `None` if the budget does not
    /// suffice. The order among them says nothing of the order among all, so nothing is said of families.
    fn judge_essential(&self, values: &[f64], observed: u64, budget: &mut Budget) -> Option<Judged> {
        let mut steps = u64::MAX;
        if self.chain_found(values, observed, budget, &mut steps) {
            return Some(accept(Lane::Admissible, None, None, None));
        }
        let Some(judged) = self.judge_by_search(values, observed, false, budget) else {
            budget.blow();
            return None;
        };
        Some(match judged.ruling {
            Ruling::Accept { .. } => accept(judged.lane, None, None, judged.note),
            _ => judged,
        })
    }

    fn judge_by_bound(&self, answer: Answer, observed: u64, note: Option<&'static str>) -> Judged {
        match answer.admits(self.dtype, observed) {
            true => accept(Lane::Bounded, None, None, note),
            false => Judged { lane: Lane::Bounded, ruling: Ruling::Reject { answer }, note },
        }
    }

    fn chain_found(&self, values: &[f64], observed: u64, budget: &mut Budget, steps: &mut u64) -> bool {
        let prepared = budget.prepared(self);
        let last = *budget.last_chain(self);
        let found = self.find_chain(&prepared, values, observed, last, steps);
        *budget.last_chain(self) = found.or(last);
        found.is_some()
    }

    /// Whether the column can be judged at all, to be asked before running: up to [`SEARCH_RANKS`] ranks always; beyond only
    /// what is exact, or has a bound, which holds when the budget for searching is used up.
    pub fn judgeable(&self, column: &[u64]) -> Result<(), String> {
        if !self.covers(column.len()) {
            return Err(format!("the column has {} elements for {} ranks", column.len(), self.ranks));
        }
        let Some(float) = Float::of(self.dtype) else { return Ok(()) };
        if self.ranks <= SEARCH_RANKS || self.exact(column).is_some() {
            return Ok(());
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        self.bound(float, &values, &self.scalar_values()).map(|_| ())
    }

    /// Everything that may come out: the exact answer, else the whole admissible set, else the bound. For tests;
    /// `judge` does not need all of it.
    #[cfg(test)]
    pub fn answer(&self, column: &[u64], budget: &mut Budget) -> Result<Answer, String> {
        self.judgeable(column)?;
        if let Some(answer) = self.exact(column) {
            return Ok(answer);
        }
        let Some(float) = Float::of(self.dtype) else { return Err("integers are exact".into()) };
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(self.dtype, *bits)).collect();
        let few =
            if self.ranks <= SEARCH_RANKS { Some((self.clone(), values.clone())) } else { self.essential(&values) };
        if let Some((few, values)) = few
            && let Ok(found) = few.search(&values, GROUPS, false, budget)
        {
            return Ok(found.answer(self));
        }
        let prepared = budget.prepared(self);
        self.bound(float, &values, &prepared.scalars)
    }
}

fn accept(
    lane: Lane,
    families: Option<super::FamilySet>,
    set_size: Option<usize>,
    note: Option<&'static str>,
) -> Judged {
    Judged { lane, ruling: Ruling::Accept { families, set_size }, note }
}
