//! The minimum that an audit must catch to pass: as much as a recorded one, or a given number of faults.
use super::{AuditReport, FaultOrFlaw, ItemRow};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// A recorded audit: which faults and flaws it has missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Baseline {
    caught: BTreeSet<String>,
    missed: BTreeSet<String>,
}

/// A line that no audit has recorded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected a fault and `caught` or `missed`, as `collspec audit --write-baseline` writes them")]
pub struct BaselineError {
    line: usize,
}

impl FromStr for Baseline {
    type Err = BaselineError;

    fn from_str(text: &str) -> Result<Self, BaselineError> {
        let mut baseline = Self::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let mut words = line.split_whitespace();
            match (words.next(), words.next(), words.next()) {
                (None, ..) => {}
                (Some(id), Some("caught"), None) => _ = baseline.caught.insert(id.to_owned()),
                (Some(id), Some("missed"), None) => _ = baseline.missed.insert(id.to_owned()),
                _ => return Err(BaselineError { line: number + 1 }),
            }
        }
        Ok(baseline)
    }
}

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# What an audit has caught. `collspec audit --baseline FILE` fails if it misses anything else.")?;
        for id in self.caught.union(&self.missed) {
            writeln!(f, "{id} {}", if self.missed.contains(id) { "missed" } else { "caught" })?;
        }
        Ok(())
    }
}

impl Baseline {
    /// Records a report. Items that the report does not cover stay as in `before`.
    pub fn record(report: &AuditReport, before: Option<&Self>) -> Self {
        let mut baseline = before.cloned().unwrap_or_default();
        for row in &report.items {
            let id = row.item.id();
            baseline.caught.remove(id);
            baseline.missed.remove(id);
            let to = if row.missed() { &mut baseline.missed } else { &mut baseline.caught };
            to.insert(id.to_owned());
        }
        baseline
    }

    /// Faults and flaws that the report misses but this record does not.
    pub fn new_misses(&self, report: &AuditReport) -> Vec<FaultOrFlaw> {
        let new = |row: &&ItemRow| row.missed() && !self.missed.contains(row.item.id());
        report.items.iter().filter(new).map(|row| row.item).collect()
    }

    /// Faults and flaws that the report catches but this record misses.
    pub fn new_catches(&self, report: &AuditReport) -> Vec<FaultOrFlaw> {
        let new = |row: &&ItemRow| !row.missed() && self.missed.contains(row.item.id());
        report.items.iter().filter(new).map(|row| row.item).collect()
    }
}

/// The minimum of faults of the library that an audit must catch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AtLeast {
    /// A number of faults.
    Faults(usize),
    /// A percentage of the faults that are looked for.
    Percent(f64),
}

impl FromStr for AtLeast {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "expected a number of faults, or a percentage from 0% to 100%".to_owned();
        match text.strip_suffix('%') {
            None => text.parse().map(Self::Faults).map_err(|_| wrong()),
            Some(number) => match number.trim().parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(Self::Percent(percent)),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for AtLeast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faults(count) => write!(f, "{count}"),
            Self::Percent(percent) => write!(f, "{percent}%"),
        }
    }
}

impl AtLeast {
    /// True if `caught` of `all` are enough.
    pub fn admits(self, caught: usize, all: usize) -> bool {
        match self {
            Self::Faults(count) => caught >= count,
            Self::Percent(percent) => caught as f64 * 100.0 >= percent * all as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let text = "F02 missed # for now\n\nF01 caught\n# J01 caught\n";
        let baseline: Baseline = text.parse().unwrap();
        assert_eq!(baseline.to_string().lines().skip(1).collect::<Vec<_>>(), ["F01 caught", "F02 missed"]);
        assert_eq!(baseline.to_string().parse(), Ok(baseline));
        for (text, line) in [("F01", 1), ("F01 caught\nF02 mised\n", 2), ("F01 caught twice", 1)] {
            assert_eq!(text.parse::<Baseline>(), Err(BaselineError { line }));
        }
    }

    #[test]
    fn so_many_are_enough() {
        let admits = |text: &str, caught| text.parse::<AtLeast>().unwrap().admits(caught, 200);
        assert!(admits("150", 150) && !admits("151", 150));
        assert!(admits("75%", 150) && !admits("75.5%", 150) && admits("100%", 200) && admits("0", 0));
        for wrong in ["", "-1", "101%", "%", "many", "nan%"] {
            assert!(wrong.parse::<AtLeast>().is_err(), "{wrong}");
        }
    }
}
