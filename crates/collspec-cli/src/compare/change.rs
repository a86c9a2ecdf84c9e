//! The kinds of changes in a case from one library to another, and their meanings.
use serde::{Deserialize, Serialize};
use std::fmt;

/// The kind of change in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The base passes; the candidate crashes.
    NowCrashes,
    /// The base passes; the candidate hangs.
    NowHangs,
    /// The base passes; the candidate gives wrong results.
    NowWrong,
    /// The base passes; a call of the candidate fails, or one that should fail does not.
    NowFails,
    /// Failures occur in some runs, and the candidate's rate is higher.
    FailsMoreOften,
    /// The base's results are the same in every run, the candidate's are not.
    NowUnstable,
    /// The case ran on the base and is skipped on the candidate.
    NoLongerRuns,
    /// Failures occur in some runs, and the candidate may be worse.
    Undecided,
    /// Results differ from run to run on the candidate, too rarely to conclude that they do not on the base.
    PerhapsUnstable,
    /// The case ends in a different way, which the scenario also admits and which is not worse.
    OtherEnding,
    /// The results differ, and another order of summation explains that.
    OtherOrder,
    /// The results differ, with the same order of summation but another rounding or scale.
    OtherRounding,
    /// The results differ and are right, but order maps do not explain the difference.
    OtherBits,
    /// Both fail, in different ways.
    FailsOtherwise,
    /// Calls return other error codes.
    OtherErrorCode,
    /// Calls return the same error codes with other texts.
    OtherErrorText,
    /// The base fails; the candidate passes.
    Fixed,
    /// Failures occur in some runs, and the candidate's rate is lower.
    FailsLessOften,
    /// The candidate's results are the same in every run, the base's are not.
    NowStable,
    /// The case is skipped on the base and runs on the candidate.
    NowRuns,
    /// Both fail in the same way.
    StillFails,
    /// Both fail in some runs, at rates that do not differ.
    ComesAndGoes,
    /// The results of both differ from run to run.
    Unstable,
    /// All runs of both gave the same results.
    SameBits,
    /// The behaviour is the same, and there are no results to compare.
    SameBehaviour,
    /// The case was skipped on both sides.
    Skipped,
    /// Only one of two recordings has the case, or its file differs.
    NotComparable,
}

/// The significance of a change for the decision to move to the candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// The candidate is worse.
    Worse,
    /// It is unclear whether the candidate is worse.
    Undecided,
    /// The candidate is different, but not known to be worse.
    Changed,
    /// The candidate is better.
    Better,
    /// The case did not change.
    Same,
    /// The case was not compared.
    NotCompared,
}

impl Meaning {
    /// True if such a change is worse or leaves the verdict open; with `bits`, every other change is worse too.
    pub fn counts(self, bits: bool) -> bool {
        matches!(self, Self::Worse | Self::Undecided) || bits && self == Self::Changed
    }
}

/// Every change with its name and meaning, in the order of reports.
const TABLE: &[(Change, &str, Meaning)] = &[
    (Change::NowCrashes, "now crashes", Meaning::Worse),
    (Change::NowHangs, "now hangs", Meaning::Worse),
    (Change::NowWrong, "now wrong", Meaning::Worse),
    (Change::NowFails, "now fails", Meaning::Worse),
    (Change::FailsMoreOften, "fails more often", Meaning::Worse),
    (Change::NowUnstable, "no longer the same from run to run", Meaning::Worse),
    (Change::NoLongerRuns, "no longer runs", Meaning::Worse),
    (Change::Undecided, "fails at times; too few runs to say whether more often", Meaning::Undecided),
    (Change::PerhapsUnstable, "not the same in every run; too few runs to say whether that is new", Meaning::Undecided),
    (Change::OtherEnding, "ends in another way that the scenario admits", Meaning::Changed),
    (Change::OtherOrder, "other order of summation", Meaning::Changed),
    (Change::OtherRounding, "same order, other rounding", Meaning::Changed),
    (Change::OtherBits, "other bits, right but without an order map", Meaning::Changed),
    (Change::FailsOtherwise, "fails in another way", Meaning::Changed),
    (Change::OtherErrorCode, "other error code", Meaning::Changed),
    (Change::OtherErrorText, "other error text", Meaning::Changed),
    (Change::Fixed, "fixed", Meaning::Better),
    (Change::FailsLessOften, "fails less often", Meaning::Better),
    (Change::NowStable, "now the same from run to run", Meaning::Better),
    (Change::NowRuns, "now runs", Meaning::Better),
    (Change::StillFails, "fails as before", Meaning::Same),
    (Change::ComesAndGoes, "fails at times, as before", Meaning::Same),
    (Change::Unstable, "differs from run to run, as before", Meaning::Same),
    (Change::SameBits, "same bits", Meaning::Same),
    (Change::SameBehaviour, "same behaviour", Meaning::Same),
    (Change::Skipped, "skipped on both", Meaning::NotCompared),
    (Change::NotComparable, "not comparable", Meaning::NotCompared),
];

impl Change {
    /// Every change, in the order of reports: worse ones first.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|(change, _, _)| *change)
    }

    fn entry(self) -> Option<&'static (Change, &'static str, Meaning)> {
        TABLE.iter().find(|(change, _, _)| *change == self)
    }

    /// The change's name in reports.
    pub fn title(self) -> &'static str {
        self.entry().map_or("", |(_, title, _)| title)
    }

    /// The change's significance for the decision.
    pub fn meaning(self) -> Meaning {
        self.entry().map_or(Meaning::Undecided, |(_, _, meaning)| *meaning)
    }

    /// True if the runs of one side differ among themselves.
    pub fn comes_and_goes(self) -> bool {
        matches!(
            self,
            Self::FailsMoreOften
                | Self::FailsLessOften
                | Self::Undecided
                | Self::ComesAndGoes
                | Self::NowUnstable
                | Self::PerhapsUnstable
                | Self::NowStable
                | Self::Unstable
        )
    }

    /// True if the case ran on both sides.
    pub fn was_compared(self) -> bool {
        !matches!(self.meaning(), Meaning::NotCompared) && !matches!(self, Self::NoLongerRuns | Self::NowRuns)
    }

    /// The change's word in files, such as `other-order`.
    pub fn word(self) -> String {
        serde_json::to_value(self).ok().and_then(|word| word.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Parses the word used in files of accepted changes.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::all().find(|change| change.word() == word)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

/// A change that does not belong to a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryChange {
    /// The subject as a file of accepted changes names it, for instance `function ncclCommShrink`.
    pub subject: String,
    /// A description of the change in one line.
    pub text: String,
    /// The names that `text` shortens to the first few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<String>,
    /// The significance of the change.
    pub meaning: Meaning,
    /// The reason the change is accepted, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_change_once_in_the_order_of_meanings() {
        let listed: Vec<Change> = Change::all().collect();
        let mut sorted = listed.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(listed, sorted);
        // The last variant's place is the number of variants.
        assert_eq!(Change::NotComparable as usize + 1, listed.len());
        let meanings: Vec<Meaning> = Change::all().map(Change::meaning).collect();
        assert!(meanings.is_sorted());
    }

    #[test]
    fn words_are_read_back() {
        for change in Change::all() {
            assert_eq!(Change::from_word(&change.word()), Some(change));
        }
        assert_eq!(Change::OtherOrder.word(), "other-order");
        assert_eq!(Change::from_word("worse"), None);
    }
}
