//! The number of unique ids with which a communicator is created (`ncclCommInitRankScalable`).
use super::super::eval::ranks;
use crate::scenario::{Diagnostic, Spanned};

/// The id whose root a rank reports to: each id has an equal share of the ranks, as far as possible, in order.
pub fn id_of(rank: usize, n: usize, ids: usize) -> usize {
    let ids = ids.clamp(1, n.max(1));
    let (share, more) = (n / ids, n % ids);
    let larger = more * (share + 1);
    if rank < larger { rank / (share + 1) } else { more + (rank - larger) / share.max(1) }
}

/// Upper bound on the number of ids: more than any communicator has ranks.
const MOST: i128 = 1024;

/// The number of ids for a communicator of `n` ranks, as given in the file.
///
/// # Errors
///
/// A number that NCCL refuses, unless all ranks' calls are expected to fail: the ranks pass the same number, so none of them can succeed.
pub(super) fn scalable_ids(given: &Spanned<i128>, n: usize, all_fail: bool) -> Result<u32, Diagnostic> {
    let fits = (1..=n as i128).contains(&given.value);
    match u32::try_from(given.value) {
        Ok(count) if fits || (all_fail && given.value <= MOST) => Ok(count),
        _ => {
            let text = format!("{} unique ids for a communicator of {}", given.value, ranks(n));
            Err(Diagnostic::new(given.span, text).help(format!(
                "1 to {n} are possible; a step that is to fail, with 0 to {MOST} ids, has `error = \"invalid_argument\"`"
            )))
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
