//! The number of unique ids with which a communicator is created (`ncclCommInitRankScalable`).
use super::super::eval::ranks;
use crate::scenario::{Diagnostic, Span};

/// A number of ids as given in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScalableIds {
    pub count: i128,
    pub span: Span,
    /// True if the call may be refused.
    pub may_fail: bool,
}

/// The id whose root a rank reports to: each id has an equal share of the ranks, as far as possible, in order.
pub fn id_of(rank: usize, n: usize, ids: usize) -> usize {
    let ids = ids.clamp(1, n.max(1));
    let (share, more) = (n / ids, n % ids);
    let larger = more * (share + 1);
    if rank < larger { rank / (share + 1) } else { more + (rank - larger) / share.max(1) }
}

/// Upper bound on the number of ids: more than any communicator has ranks.
const MOST: i128 = 1024;

impl ScalableIds {
    /// The number of ids for a communicator of `n` ranks.
    ///
    /// # Errors
    ///
    /// A number that NCCL refuses, unless the step expects this.
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

#[cfg(test)]
mod tests {
    use super::id_of;

    #[test]
    fn ids_have_shares_in_the_order_of_ranks() {
        let of = |n: usize, ids: usize| (0..n).map(|rank| id_of(rank, n, ids)).collect::<Vec<_>>();
        assert_eq!(of(7, 3), [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!(of(4, 4), [0, 1, 2, 3]);
        assert_eq!(of(5, 1), [0; 5]);
        assert_eq!(of(2, 5), [0, 1]);
    }
}
