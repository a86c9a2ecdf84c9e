//! What the compared cases use of a library: operations with their types, sizes and ranks.
use super::comparison::Row;
use super::words::cases;
use collspec_core::plan::cost::human;
use collspec_core::printable::thousands;
use std::collections::{BTreeMap, BTreeSet};

/// An operation in all compared cases.
#[derive(Debug, PartialEq, Eq)]
pub struct Covered<'a> {
    pub operation: &'a str,
    types: BTreeSet<&'a str>,
    ranks: BTreeSet<usize>,
    bytes: (u64, u64),
    calls: u64,
    cases: usize,
}

/// The operations of the cases that ran on both sides; those with most calls first.
pub fn coverage(rows: &[Row]) -> Vec<Covered<'_>> {
    let mut all: BTreeMap<&str, Covered<'_>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.change.was_compared()) {
        let mut seen = BTreeSet::new();
        for used in &row.used {
            let covered = all.entry(&used.operation).or_insert_with(|| Covered {
                operation: &used.operation,
                types: BTreeSet::new(),
                ranks: BTreeSet::new(),
                bytes: used.bytes,
                calls: 0,
                cases: 0,
            });
            covered.types.insert(&used.dtype);
            covered.ranks.insert(used.ranks);
            covered.bytes = (covered.bytes.0.min(used.bytes.0), covered.bytes.1.max(used.bytes.1));
            covered.calls = covered.calls.saturating_add(used.calls);
            covered.cases += usize::from(seen.insert(&used.operation));
        }
    }
    let mut all: Vec<Covered<'_>> = all.into_values().collect();
    all.sort_by_key(|covered| (std::cmp::Reverse(covered.calls), covered.operation));
    all
}

impl Covered<'_> {
    /// `bf16, f32, 4 bytes to 2 MiB, 4 ranks: 30 calls in 1 case`.
    pub fn words(&self) -> String {
        let types: Vec<&str> = self.types.iter().copied().collect();
        let ranks = match (self.ranks.first(), self.ranks.last()) {
            (Some(1), Some(1)) => "1 rank".to_owned(),
            (Some(first), Some(last)) if first == last => format!("{first} ranks"),
            (Some(first), Some(last)) => format!("{first} to {last} ranks"),
            _ => String::new(),
        };
        let bytes = match self.bytes {
            (least, most) if least == most => human(least),
            (least, most) => format!("{} to {}", human(least), human(most)),
        };
        let calls = if self.calls == 1 { "1 call".to_owned() } else { format!("{} calls", thousands(self.calls)) };
        format!("{}, {bytes}, {ranks}: {calls} in {}", types.join(", "), cases(self.cases))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::fixture::comparison;
    use collspec_core::judge::UsedOperation;

    #[test]
    fn what_compared_cases_use_is_one_line_for_each_operation() {
        let used = |operation: &str, dtype: &str, ranks, calls, bytes| UsedOperation {
            operation: operation.to_owned(),
            dtype: dtype.to_owned(),
            ranks,
            calls,
            bytes,
        };
        let mut all = comparison(&["same-bits", "now-wrong", "skipped"]);
        all.rows[0].used = vec![
            used("all_reduce", "bf16", 4, 10, (8, 2 << 20)),
            used("all_reduce", "f32", 2, 1, (4, 4)),
            used("all_gather", "bf16", 4, 2, (64, 64)),
        ];
        all.rows[1].used = vec![used("all_reduce", "f32", 8, 1_000, (16, 16))];
        all.rows[2].used = vec![used("broadcast", "f32", 8, 1, (16, 16))];
        let words: Vec<String> =
            coverage(&all.rows).iter().map(|covered| format!("{} {}", covered.operation, covered.words())).collect();
        assert_eq!(
            words,
            [
                "all_reduce bf16, f32, 4 bytes to 2 MiB, 2 to 8 ranks: 1,011 calls in 2 cases",
                "all_gather bf16, 64 bytes, 4 ranks: 2 calls in 1 case"
            ]
        );
    }
}
