//! The judgement on one observed element.
use super::answer::{Judged, Lane, Reduction, Ruling};
use super::budget::Budget;
use crate::num::mask;

/// Up to so many ranks the whole admissible set can be searched.
pub const SEARCH_RANKS: usize = 8;

impl Reduction {
    /// Judges one observed element (bits) of a column. What is accepted is right under some admissible order, rounding and
    /// scale; the budget, shared by the elements of a case, pays for searching.
    pub fn judge(&self, column: &[u64], observed: u64, budget: &mut Budget) -> Judged {
        let _ = budget;
        let observed = observed & mask(self.dtype);
        match self.exact(column) {
            Some(answer) => {
                let ruling = match answer.admits(self.dtype, observed) {
                    true => Ruling::Accept { families: None, set_size: Some(1) },
                    false => Ruling::Reject { answer },
                };
                Judged { lane: Lane::Exact, ruling, note: None }
            }
            None => Judged {
                lane: Lane::Admissible,
                ruling: Ruling::Unable { why: "the search is not there yet".into() },
                note: None,
            },
        }
    }

    /// Whether the column can be judged at all, to be asked before running.
    pub fn judgeable(&self, column: &[u64]) -> Result<(), String> {
        match self.exact(column) {
            Some(_) => Ok(()),
            None if self.ranks <= SEARCH_RANKS => Ok(()),
            None => Err("the bound is not there yet".into()),
        }
    }
}
