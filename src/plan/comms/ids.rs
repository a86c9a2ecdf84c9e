//! The number of unique ids by which a communicator is made (`ncclCommInitRankScalable`).
use super::super::eval::ranks;
use crate::scenario::{Diagnostic, Span};

/// A number of ids as a file gives it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalableIds {
    pub count: i128,
    pub span: Span,
    /// True if the call may be refused.
    pub may_fail: bool,
}

/// More ids than any communicator has ranks.
const MOST: i128 = 1024;

impl ScalableIds {
    /// The number for a communicator of so many ranks.
    ///
    /// # Errors
    ///
    /// A number that NCCL refuses, unless the step says so.
    pub fn of(self, n: usize) -> Result<u32, Diagnostic> {
        let fits = (1..=n as i128).contains(&self.count);
        match u32::try_from(self.count) {
            Ok(count) if fits || (self.may_fail && self.count <= MOST) => Ok(count),
            _ => {
                let text = format!("{} unique ids for a communicator of {}", self.count, ranks(n));
                Err(Diagnostic::new(self.span, text).help(format!(
                    "1 to {n} are possible; a step that is to fail, with 0 to {MOST} ids, has `error = \"invalid_argument\"`"
                )))
            }
        }
    }
}
