//! Lists of values to measure, and the rows that they produce.
use super::operation::{Operation, Reduction};
use super::row::Row;
use collspec_core::num::DType;

/// The most rows of a sweep.
const MAX_ROWS: usize = 20_000;

/// Lists of values; every meaningful combination is a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sweep {
    pub operations: Vec<Operation>,
    pub reductions: Vec<Reduction>,
    pub dtypes: Vec<DType>,
    /// Values of NCCL_ALGO; `None` leaves the choice to the library.
    pub algorithms: Vec<Option<String>>,
    /// Values of NCCL_PROTO to measure.
    pub protocols: Vec<Option<String>>,
    pub ranks: Vec<usize>,
    pub roots: Vec<usize>,
    /// Sizes in bytes.
    pub sizes: Vec<u64>,
    pub in_place: Vec<bool>,
}

/// The reason a sweep does not produce rows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// Sizes begin at 0, or never grow.
    #[error("sizes begin at 1 byte or more and grow: by a factor of 2 or more, or by 1 byte or more")]
    Sizes,
    /// The last size is smaller than the first.
    #[error("the largest size, {to} bytes, is smaller than the smallest, {from} bytes")]
    Backwards {
        /// The first size in bytes.
        from: u64,
        /// The last size in bytes.
        to: u64,
    },
    /// The combinations are too many rows.
    #[error("these lists make more than {MAX_ROWS} rows")]
    TooMany,
    /// No combination is left.
    #[error("no row is left: {0}")]
    Nothing(&'static str),
    /// A root that does not exist in any communicator.
    #[error("root {root} needs more than {ranks} ranks")]
    Root {
        /// The root that was requested.
        root: usize,
        /// The smallest number of ranks.
        ranks: usize,
    },
}

/// A range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The first size in bytes.
    pub from: u64,
    /// The upper bound on sizes, in bytes.
    pub to: u64,
    /// The step to the next.
    pub step: Step,
}

/// The step from a size to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Multiplies the size by this factor.
    Factor(u64),
    /// Adds this number of bytes to the size.
    Bytes(u64),
}

impl Sizes {
    /// All sizes, ascending.
    ///
    /// # Errors
    ///
    /// The sizes do not grow, or are too many.
    pub fn list(self) -> Result<Vec<u64>, SweepError> {
        let Self { from, to, step } = self;
        if from == 0 || matches!(step, Step::Factor(..=1) | Step::Bytes(0)) {
            return Err(SweepError::Sizes);
        }
        if to < from {
            return Err(SweepError::Backwards { from, to });
        }
        let next = |size: &u64| match step {
            Step::Factor(factor) => size.checked_mul(factor),
            Step::Bytes(bytes) => size.checked_add(bytes),
        };
        let sizes: Vec<u64> =
            std::iter::successors(Some(from), next).take_while(|size| *size <= to).take(MAX_ROWS + 1).collect();
        if sizes.len() > MAX_ROWS { Err(SweepError::TooMany) } else { Ok(sizes) }
    }
}

impl Sweep {
    /// The rows, in the order in which they are measured: rows of one environment are adjacent, sizes ascend, and out of place
    /// comes before in place for each size. Meaningless combinations are left out (a reduction of a broadcast, an all_to_all in
    /// place), and so are sizes without elements, and sizes that are rounded to the same one.
    ///
    /// # Errors
    ///
    /// There are too many rows, or none at all.
    pub fn rows(&self) -> Result<Vec<Row>, SweepError> {
        let mut rows: Vec<Row> = Vec::new();
        for curve in self.curves()? {
            let mut last = None;
            for bytes in &self.sizes {
                let (count, bytes) = curve.operation.count(*bytes, curve.dtype, curve.ranks);
                if count == 0 || last.replace(bytes) == Some(bytes) {
                    continue;
                }
                for in_place in [false, true] {
                    if self.in_place.contains(&in_place) && (!in_place || curve.operation.works_in_place()) {
                        rows.push(Row { in_place, bytes, ..curve.clone() });
                    }
                }
                if rows.len() > MAX_ROWS {
                    return Err(SweepError::TooMany);
                }
            }
        }
        if rows.is_empty() {
            let only_in_place = self.in_place == [true] && !self.operations.iter().any(|op| op.works_in_place());
            return Err(SweepError::Nothing(if only_in_place {
                "the operation does not work in place"
            } else {
                "every size is less than one element, or less than 16 bytes for every rank"
            }));
        }
        Ok(rows)
    }

    /// The rows without sizes and places.
    fn curves(&self) -> Result<Vec<Row>, SweepError> {
        let fewest = self.ranks.iter().min().copied().unwrap_or(0);
        if let Some(root) = self.roots.iter().find(|root| **root >= fewest)
            && self.operations.iter().any(|operation| operation.is_rooted())
        {
            return Err(SweepError::Root { root: *root, ranks: fewest });
        }
        let reductions: Vec<Option<Reduction>> = self.reductions.iter().copied().map(Some).collect();
        let roots: Vec<Option<usize>> = self.roots.iter().copied().map(Some).collect();
        let mut curves = Vec::new();
        for &operation in &self.operations {
            let reductions = if operation.reduces() { reductions.as_slice() } else { &[None] };
            let roots = if operation.is_rooted() { roots.as_slice() } else { &[None] };
            let lists = [reductions.len(), self.dtypes.len(), self.algorithms.len(), self.protocols.len()];
            let all = lists.iter().chain(&[self.ranks.len(), roots.len()]).try_fold(1usize, |a, b| a.checked_mul(*b));
            if all.is_none_or(|all| all.saturating_add(curves.len()) > MAX_ROWS) {
                return Err(SweepError::TooMany);
            }
            for (algorithm, protocol) in pairs(&self.algorithms, &self.protocols) {
                for (reduction, dtype) in pairs(reductions, &self.dtypes) {
                    for (ranks, root) in pairs(&self.ranks, roots) {
                        let (algorithm, protocol) = (algorithm.clone(), protocol.clone());
                        let (reduction, dtype, ranks, root) = (*reduction, *dtype, *ranks, *root);
                        let (bytes, in_place) = (0, false);
                        curves.push(Row {
                            operation,
                            reduction,
                            dtype,
                            algorithm,
                            protocol,
                            ranks,
                            root,
                            bytes,
                            in_place,
                        });
                    }
                }
            }
        }
        Ok(curves)
    }
}

fn pairs<'a, A, B>(first: &'a [A], second: &'a [B]) -> impl Iterator<Item = (&'a A, &'a B)> {
    first.iter().flat_map(move |a| second.iter().map(move |b| (a, b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn sweep() -> Sweep {
        Sweep {
            operations: vec![Operation::AllReduce],
            reductions: vec![Reduction::Sum],
            dtypes: vec![DType::F32],
            algorithms: vec![None],
            protocols: vec![None],
            ranks: vec![4],
            roots: vec![0],
            sizes: vec![8, 16, 64],
            in_place: vec![false, true],
        }
    }

    #[test]
    fn sizes_grow_by_factors_or_bytes_to_the_last() {
        let list = |from, to, step| Sizes { from, to, step }.list();
        assert_eq!(list(8, 64, Step::Factor(2)), Ok(vec![8, 16, 32, 64]));
        assert_eq!(list(8, 30, Step::Bytes(10)), Ok(vec![8, 18, 28]));
        assert_eq!(list(u64::MAX - 1, u64::MAX, Step::Factor(2)), Ok(vec![u64::MAX - 1]));
        assert_eq!(list(8, 4, Step::Factor(2)), Err(SweepError::Backwards { from: 8, to: 4 }));
        for broken in [list(0, 4, Step::Factor(2)), list(1, 4, Step::Factor(1)), list(1, 4, Step::Bytes(0))] {
            assert_eq!(broken, Err(SweepError::Sizes));
        }
        assert_eq!(list(1, u64::MAX, Step::Bytes(1)), Err(SweepError::TooMany));
    }

    #[test]
    fn every_combination_with_a_meaning_is_a_row() {
        let rows = sweep().rows().unwrap();
        let seen: Vec<(u64, bool)> = rows.iter().map(|row| (row.bytes, row.in_place)).collect();
        assert_eq!(seen, [(8, false), (8, true), (16, false), (16, true), (64, false), (64, true)]);
        let gather = Sweep {
            operations: vec![Operation::AllGather, Operation::AllToAll, Operation::Broadcast],
            roots: vec![0, 1],
            reductions: vec![Reduction::Sum, Reduction::Max],
            sizes: vec![64, 65],
            ..sweep()
        };
        let rows = gather.rows().unwrap();
        let of = |operation| rows.iter().filter(move |row| row.operation == operation);
        assert_eq!(of(Operation::AllGather).count(), 2, "65 bytes are 64 in parts of 16 bytes");
        assert_eq!(of(Operation::AllToAll).count(), 1, "it does not work in place");
        assert_eq!(of(Operation::Broadcast).count(), 4, "two roots, each in and out of place");
        assert!(rows.iter().all(|row| row.reduction.is_none()));
    }

    #[test]
    fn what_makes_no_rows_says_why() {
        let none = Sweep { operations: vec![Operation::AllGather], sizes: vec![8], ..sweep() };
        assert!(matches!(none.rows(), Err(SweepError::Nothing(why)) if why.contains("16 bytes")));
        let root = Sweep { operations: vec![Operation::Reduce], roots: vec![4], ..sweep() };
        assert_eq!(root.rows(), Err(SweepError::Root { root: 4, ranks: 4 }));
        let many = Sweep { ranks: (1..1000).collect(), roots: (0..1).collect(), sizes: (8..4000).collect(), ..sweep() };
        assert_eq!(many.rows(), Err(SweepError::TooMany));
        let place = Sweep { operations: vec![Operation::SendRecv], in_place: vec![true], ..sweep() };
        assert!(matches!(place.rows(), Err(SweepError::Nothing(why)) if why.contains("in place")));
    }
}
