//! A file of limits: the bus bandwidth in GB/s that the candidate must reach, by operation, type and size.
use super::rules_file::{self, RulesError, at_places};
use crate::bench::{Operation, Row, RowSample};
use collspec_core::num::DType;
use collspec_core::scenario::{SourceFile, size_in_bytes};
use collspec_core::stats::median;
use collspec_core::suggest::nearest;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// A row that does not reach its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BelowLimit {
    pub row: Row,
    /// The candidate's bus bandwidth in GB/s; `None` if the row has no time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busbw: Option<f64>,
    /// The limit in GB/s.
    pub limit: f64,
}

impl BelowLimit {
    /// The row, its bandwidth and its limit in one line.
    pub fn words(&self) -> String {
        let busbw = self.busbw.map_or("no time".to_owned(), |busbw| format!("{busbw:.2} GB/s"));
        format!("{}: {busbw}, limit {} GB/s", self.row, self.limit)
    }
}

/// The keys of a file: operation, type and size.
type File = BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, Spanned<f64>>>>;

/// The limits of a file.
#[derive(Debug)]
pub struct Limits {
    file: SourceFile,
    limits: Vec<Limit>,
}

#[derive(Debug)]
struct Limit {
    operation: Operation,
    dtype: DType,
    bytes: u64,
    busbw: f64,
    place: Range<usize>,
}

impl Limits {
    /// Reads a file of limits.
    ///
    /// # Errors
    ///
    /// The file cannot be read or is not TOML, or a key or a number is wrong.
    pub fn read(path: &Path) -> Result<Self, RulesError> {
        Self::parse(rules_file::read(path)?)
    }

    fn parse(file: SourceFile) -> Result<Self, RulesError> {
        let (mut limits, mut faults) = (Vec::new(), Vec::new());
        for (operation, by_type) in rules_file::parse::<File>(&file)? {
            let Some(known) = Operation::parse(operation.get_ref()) else {
                faults.push((
                    operation.span(),
                    unknown("operation", operation.get_ref(), &Operation::ALL.map(Operation::name)),
                ));
                continue;
            };
            for (dtype, by_size) in by_type {
                let Some(dtype) = DType::parse(dtype.get_ref()) else {
                    faults.push((
                        dtype.span(),
                        unknown("type", dtype.get_ref(), &DType::all().map(|dtype| dtype.name())),
                    ));
                    continue;
                };
                for (size, busbw) in by_size {
                    let place = size.span();
                    match size_in_bytes(size.get_ref()) {
                        _ if !(busbw.get_ref().is_finite() && *busbw.get_ref() > 0.0) => {
                            faults.push((busbw.span(), "expected a bus bandwidth in GB/s, above 0".to_owned()));
                        }
                        Some(bytes) => {
                            limits.push(Limit { operation: known, dtype, bytes, busbw: *busbw.get_ref(), place })
                        }
                        None => faults.push((place, "expected a size such as 64M, 128MiB or 1G".to_owned())),
                    }
                }
            }
        }
        if faults.is_empty() { Ok(Self { file, limits }) } else { Err(at_places(&file, &faults)) }
    }

    /// The limits of these rows.
    ///
    /// # Errors
    ///
    /// A limit applies to none of them, or to one that has a limit.
    pub fn of_rows(&self, rows: &[Row]) -> Result<Vec<(Row, f64)>, RulesError> {
        let (mut of_rows, mut faults) = (Vec::<(Row, f64)>::new(), Vec::new());
        for limit in &self.limits {
            let with: Vec<_> =
                rows.iter().filter(|row| limit.applies_to(row)).map(|row| (row.clone(), limit.busbw)).collect();
            let place = || limit.place.clone();
            if with.is_empty() {
                faults.push((place(), "--bench measures no row of this operation, type and size".to_owned()));
            } else if with.iter().any(|(row, _)| of_rows.iter().any(|(limited, _)| limited == row)) {
                faults.push((place(), "this row has a limit already".to_owned()));
            } else {
                of_rows.extend(with);
            }
        }
        if faults.is_empty() { Ok(of_rows) } else { Err(at_places(&self.file, &faults)) }
    }
}

impl Limit {
    fn applies_to(&self, row: &Row) -> bool {
        let size = || self.operation.count(self.bytes, self.dtype, row.ranks).1;
        (row.operation, row.dtype) == (self.operation, self.dtype) && row.bytes == size()
    }
}

fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    let near = nearest(word, known.iter().copied());
    let hint =
        near.map_or_else(|| format!("expected one of {}", known.join(", ")), |near| format!("did you mean `{near}`?"));
    format!("there is no {what} `{}`: {hint}", word.escape_debug())
}

/// The rows whose median on the candidate does not reach their limit, from the samples of each round.
pub fn below(limits: &[(Row, f64)], candidate: &[Vec<RowSample>]) -> Vec<BelowLimit> {
    let mut times: HashMap<&Row, Vec<f64>> = HashMap::new();
    for RowSample { row, outcome } in candidate.iter().flatten() {
        times.entry(row).or_default().extend(outcome.seconds());
    }
    let below = |(row, limit): &(Row, f64)| {
        let seconds = times.get(row).and_then(|times| median(times));
        let busbw = seconds.map(|seconds| row.bus_bandwidth(seconds));
        let reached = busbw.is_some_and(|busbw| busbw >= *limit);
        (!reached).then(|| BelowLimit { row: row.clone(), busbw, limit: *limit })
    };
    limits.iter().filter_map(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::RowOutcome::Timed;
    use crate::bench::row::fixture::sum;

    fn limits(text: &str) -> Result<Limits, RulesError> {
        Limits::parse(SourceFile { path: "limits.toml".into(), text: text.into() })
    }

    #[test]
    fn a_row_below_its_limit_or_without_a_time_is_told() {
        let rows = [sum(2, 1 << 20, false), sum(2, 1 << 20, true), sum(2, 4096, false)];
        let found = limits("[all_reduce.float]\n1M = 1.5\n4K = 1\n").unwrap().of_rows(&rows).unwrap();
        // 2^20 bytes in 1 ms are 1.05 GB/s, also of bus bandwidth between two ranks.
        let timed = |seconds| Timed { seconds, iterations: Vec::new(), wrong: None, finding: None };
        let sample = |row: &Row, seconds| RowSample { row: row.clone(), outcome: timed(seconds) };
        let below_with = |seconds| {
            let samples: Vec<_> = rows[..2].iter().map(|row| sample(row, seconds)).collect();
            below(&found, &[samples])
        };
        let slow = below_with(1e-3);
        assert_eq!(slow.len(), 3);
        assert!(
            slow.iter().any(|row| row.words()
                == "all_reduce, sum, float, 2 ranks, in place, 1,048,576 bytes: 1.05 GB/s, limit 1.5 GB/s"),
            "{slow:?}"
        );
        assert_eq!(below_with(1e-4), [BelowLimit { row: rows[2].clone(), busbw: None, limit: 1.0 }]);
    }

    #[test]
    fn mistakes_have_their_places() {
        for (text, words) in [
            (
                "[all_reduc.float]\n1M = 1\n",
                "limits.toml:1:2: there is no operation `all_reduc`: did you mean `all_reduce`?",
            ),
            ("[all_reduce.floaty]\n1M = 1\n", "limits.toml:1:13: there is no type `floaty`: "),
            ("[all_reduce.f32]\n1X = 1\n", "limits.toml:2:1: expected a size such as 64M"),
            ("[all_reduce.f32]\n1M = -1\n", "limits.toml:2:6: expected a bus bandwidth in GB/s, above 0"),
            ("[all_reduce.f32]\n1M = \"x\"\n", "limits.toml:2:6: invalid type"),
            ("all_reduce = 3\n", "limits.toml:1:14: invalid type"),
        ] {
            let error = limits(text).unwrap_err().to_string();
            assert!(error.starts_with(words), "{text}: {error}");
        }
        let idle = limits("[all_reduce.half]\n1M = 1\n").unwrap().of_rows(&[sum(2, 1 << 20, false)]).unwrap_err();
        assert_eq!(idle.to_string(), "limits.toml:2:1: --bench measures no row of this operation, type and size");
    }
}
