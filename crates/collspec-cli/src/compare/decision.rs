//! The answer to the question of moving to the candidate, in two halves: results and speed.
use super::change::{Change, Meaning};
use super::comparison::Comparison;
use super::speed::Speed;
use super::words::{cases, counted};
use crate::record::Header;
use collspec_suite::suite::AtLeast;
use serde::{Deserialize, Serialize};

/// The verdict on one half of a comparison, or on both together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "verdict")]
pub enum GateVerdict {
    /// Nothing got worse.
    NothingWorse,
    /// At least one change is for the worse.
    Worse {
        /// Number of changes for the worse.
        changes: usize,
    },
    /// The comparison is not conclusive.
    NoVerdict {
        /// The reasons, each in one line.
        reasons: Vec<String>,
    },
}

/// The verdicts on results and on speed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The verdict on the cases, the library itself and its starts.
    pub results: GateVerdict,
    /// The verdict on speed, or on work where that is counted; `None` if neither was measured.
    pub speed: Option<GateVerdict>,
    /// True if every change of results that is not accepted counts as worse.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bits: bool,
    /// The accepted changes that did not happen.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stale: Vec<String>,
}

/// A case that already fails on the base cannot get worse. If more than this share of the cases fail there, no verdict is given.
const MOST_FAILING: f64 = 0.5;

impl Decision {
    /// The verdict on both halves: a change for the worse counts even if the other half has no verdict.
    pub fn overall(&self) -> GateVerdict {
        let halves = || std::iter::once(&self.results).chain(&self.speed);
        let worse = |half: &GateVerdict| if let GateVerdict::Worse { changes } = half { *changes } else { 0 };
        let reasons = self.reasons();
        match halves().map(worse).sum() {
            0 if reasons.is_empty() => GateVerdict::NothingWorse,
            0 => GateVerdict::NoVerdict { reasons },
            changes => GateVerdict::Worse { changes },
        }
    }

    /// The reasons a half has no verdict, and the accepted changes that did not happen.
    pub fn reasons(&self) -> Vec<String> {
        let of = |half: &GateVerdict| match half {
            GateVerdict::NoVerdict { reasons } => reasons.clone(),
            GateVerdict::NothingWorse | GateVerdict::Worse { .. } => Vec::new(),
        };
        let speed = self.speed.iter().flat_map(of).map(|reason| format!("speed: {reason}"));
        of(&self.results).into_iter().chain(speed).chain(self.stale.iter().cloned()).collect()
    }

    /// The answer in one line, which begins every report.
    pub fn headline(&self, comparison: &Comparison) -> String {
        let measured = if comparison.work.is_some() { "Work" } else { "Speed" };
        let stale = if self.stale.is_empty() { "" } else { " An accepted change did not happen." };
        format!(
            "Results{}: {}. {measured}: {}.{stale}",
            ran_on(comparison),
            self.results_in_words(comparison),
            self.speed_in_words(comparison)
        )
    }

    /// The verdict on results, and what got better.
    fn results_in_words(&self, comparison: &Comparison) -> String {
        let verdict = self.results_verdict_in_words(comparison);
        match comparison.rows.iter().filter(|row| row.change == Change::Fixed).count() {
            0 => verdict,
            fixed => format!("{verdict}, {}", counted(fixed, "case is fixed", "cases are fixed")),
        }
    }

    fn results_verdict_in_words(&self, comparison: &Comparison) -> String {
        let accepted = comparison.accepted_for_worse(self.bits);
        match &self.results {
            GateVerdict::NothingWorse if accepted == 0 => "nothing got worse".to_owned(),
            GateVerdict::NothingWorse => {
                format!("nothing got worse apart from {}", counted(accepted, "accepted change", "accepted changes"))
            }
            GateVerdict::NoVerdict { .. } if comparison.not_begun.is_some() => {
                "no verdict, because the comparison did not begin".to_owned()
            }
            GateVerdict::NoVerdict { .. } if comparison.interrupted => {
                "no verdict, because the comparison was interrupted".to_owned()
            }
            GateVerdict::NoVerdict { .. } => "no verdict".to_owned(),
            GateVerdict::Worse { .. } => {
                let mut clauses = Vec::new();
                let worse = what_is_worse(comparison);
                clauses.extend((!worse.is_empty()).then(|| format!("{} got worse", worse.join(" and "))));
                let changed = if self.bits { comparison.count_of(Meaning::Changed) } else { 0 };
                let changes = counted(changed, "other change counts", "other changes count");
                clauses.extend((changed > 0).then(|| format!("{changes} because of --bits")));
                clauses.extend(comparison.interrupted.then(|| "the comparison was interrupted".to_owned()));
                clauses.join("; ")
            }
        }
    }

    fn speed_in_words(&self, comparison: &Comparison) -> String {
        let Some(half) = &self.speed else { return "not measured".to_owned() };
        let words = match (&comparison.speed, &comparison.work) {
            (Some(speed), _) => speed.in_words(),
            (None, Some(work)) => work.in_words(),
            (None, None) => String::new(),
        };
        match half {
            GateVerdict::NoVerdict { .. } if comparison.speed_interrupted => {
                "no verdict, because the comparison was interrupted".to_owned()
            }
            GateVerdict::NoVerdict { .. } => "no verdict".to_owned(),
            GateVerdict::NothingWorse | GateVerdict::Worse { .. } => words,
        }
    }
}

/// Software GPUs, and what cannot be seen there.
pub const SOFTWARE_GPUS: &str = "software GPUs (without a GPU's speed and memory ordering)";

/// What both sides ran on, and what cannot be seen there. Empty if that is unknown or differs.
fn ran_on(comparison: &Comparison) -> String {
    let one = |header: &Header| {
        if header.has_software_gpus() {
            return Some(SOFTWARE_GPUS.to_owned());
        }
        if header.library.backend == "soft" {
            return Some("the software model (without NCCL)".to_owned());
        }
        Some(header.devices_in_words().join(" and ")).filter(|devices| !devices.is_empty())
    };
    let sides = [&comparison.base, &comparison.candidate].map(|side| one(&side.header));
    match sides {
        [Some(base), Some(candidate)] if base == candidate => format!(" on {base}"),
        _ => String::new(),
    }
}

/// The parts of the candidate that got worse, apart from its speed.
fn what_is_worse(comparison: &Comparison) -> Vec<String> {
    let Comparison { rows, library, starts, .. } = comparison;
    let worse = |meaning: Meaning, accepted: &Option<String>| meaning == Meaning::Worse && accepted.is_none();
    let number = rows.iter().filter(|row| worse(row.change.meaning(), &row.accepted)).count();
    let library = library.iter().filter(|change| worse(change.meaning, &change.accepted)).count();
    let starts = starts.iter().filter(|starts| worse(starts.change().meaning(), &starts.accepted)).count();
    let properties = counted(library, "property", "properties");
    let parts = [
        (number, cases(number)),
        (library, format!("{properties} of the library")),
        (starts, "the rate of starts that fail".to_owned()),
    ];
    parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, words)| words).collect()
}

impl Comparison {
    /// The decision. There is none if fewer cases than `at_least` ran on both sides. With `bits`, every change of results that is not accepted
    /// counts as worse.
    pub fn decision(&self, at_least: AtLeast, bits: bool) -> Decision {
        let stale = self.stale.clone();
        Decision { results: self.results_verdict(at_least, bits), speed: self.speed_verdict(), bits, stale }
    }

    /// The reason nothing can be concluded, if there is one.
    fn void(&self) -> Option<GateVerdict> {
        let lost = self.lost.as_ref().map(|lost| {
            let why =
                "the two sides did not run on the same processes, so that what failed may be no change of the library";
            format!("{lost}: {why}")
        });
        let reason = self.not_begun.clone().or(lost)?;
        Some(GateVerdict::NoVerdict { reasons: vec![reason] })
    }

    fn results_verdict(&self, at_least: AtLeast, bits: bool) -> GateVerdict {
        if let Some(void) = self.void() {
            return void;
        }
        let worse = self.count_of(Meaning::Worse) + if bits { self.count_of(Meaning::Changed) } else { 0 };
        if worse > 0 {
            return GateVerdict::Worse { changes: worse };
        }
        let mut reasons = Vec::new();
        if self.interrupted {
            reasons.push("the comparison was interrupted".to_owned());
        }
        let (compared, cases) = (self.compared(), self.rows.len());
        if let Some(unmet) = at_least.unmet(compared, cases) {
            reasons.push(format!("too little was compared: on both sides, {unmet}"));
        }
        let failing = self.rows.iter().filter(|row| row.change.was_compared() && row.base.passed == 0).count();
        if compared > 0 && failing as f64 > compared as f64 * MOST_FAILING {
            reasons.push(format!("the base itself fails {failing} of the {compared} cases that were compared"));
        }
        let mut undecided = self.count_of(Meaning::Undecided);
        let starts = self.starts.as_ref().filter(|starts| starts.accepted.is_none());
        if let Some(starts) = starts.filter(|starts| starts.change().meaning() == Meaning::Undecided) {
            undecided -= 1;
            let words = starts.words();
            let what = format!("some starts fail, too few to say whether more often than before ({words})");
            reasons.push(format!("{what}: more --starts would tell"));
        }
        if undecided > 0 {
            let what = counted(undecided, "result comes and goes", "results come and go");
            reasons
                .push(format!("{what}, too rarely to say whether more often than before: more --repeats would tell"));
        }
        let missing =
            self.rows.iter().filter(|row| row.change == Change::NotComparable && row.candidate.is_empty()).count();
        if missing > 0 && self.candidate.recorded {
            reasons.push(format!("{} not in the candidate's recording", counted(missing, "case is", "cases are")));
        }
        for (name, side) in [("base", &self.base), ("candidate", &self.candidate)] {
            if side.cut_short {
                reasons.push(format!("the recording of the {name} has no end: its run was cut short"));
            }
        }
        if reasons.is_empty() { GateVerdict::NothingWorse } else { GateVerdict::NoVerdict { reasons } }
    }

    /// The verdict on speed or work; `None` if neither was to be measured.
    fn speed_verdict(&self) -> Option<GateVerdict> {
        let (speed, work) = (self.speed.as_ref(), self.work.as_ref());
        if speed.is_none() && work.is_none() && !self.speed_interrupted {
            return None;
        }
        if let Some(void) = self.void() {
            return Some(void);
        }
        let worse = speed.map_or(0, Speed::counted_as_worse)
            + work.filter(|work| work.accepted.is_none()).map_or(0, |work| work.failed.len());
        if worse > 0 {
            return Some(GateVerdict::Worse { changes: worse });
        }
        let mut reasons = Vec::new();
        if self.speed_interrupted {
            reasons.push("the comparison was interrupted".to_owned());
        }
        if let Some(work) = work.filter(|work| work.not_counted > work.rows.len() / 10) {
            let all = work.not_counted + work.rows.len();
            reasons
                .push(format!("{} of the {all} rows of --bench could not be counted on both sides", work.not_counted));
        }
        reasons.extend(speed.and_then(Speed::no_verdict).map(str::to_owned));
        Some(if reasons.is_empty() { GateVerdict::NothingWorse } else { GateVerdict::NoVerdict { reasons } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::row::fixture::sum;
    use crate::compare::change::LibraryChange;
    use crate::compare::fixture::{comparison, none};
    use serde_json::json;

    fn headline(comparison: &Comparison, bits: bool) -> String {
        comparison.decision(AtLeast::Cases(1), bits).headline(comparison)
    }

    #[test]
    fn the_headline_is_true_of_every_outcome() {
        let of = |changes: &[&str]| headline(&comparison(changes), false);
        assert_eq!(of(&["same-bits", "other-order"]), "Results: nothing got worse. Speed: not measured.");
        assert_eq!(of(&["same-bits", "now-wrong"]), "Results: 1 case got worse. Speed: not measured.");
        // Failures that come and go, or too few cases, leave it open.
        assert_eq!(of(&["same-bits", "undecided"]), "Results: no verdict. Speed: not measured.");
        assert_eq!(of(&["skipped"]), "Results: no verdict. Speed: not measured.");
        let with_bits = headline(&comparison(&["other-order", "other-bits"]), true);
        assert_eq!(with_bits, "Results: 2 other changes count because of --bits. Speed: not measured.");
        let did_not_begin = "Results: no verdict, because the comparison did not begin. Speed: not measured.";
        assert_eq!(headline(&none(), false), did_not_begin);

        let mut some = comparison(&["now-hangs", "now-wrong", "same-bits"]);
        some.library.push(LibraryChange {
            subject: "processors".into(),
            text: String::new(),
            names: Vec::new(),
            meaning: Meaning::Worse,
            accepted: None,
        });
        some.interrupted = true;
        let words = "Results: 2 cases and 1 property of the library got worse; the comparison was interrupted. Speed: not measured.";
        assert_eq!(headline(&some, false), words);
        some.rows.iter_mut().for_each(|row| row.accepted = Some("known".into()));
        some.library.clear();
        some.interrupted = false;
        some.speed_interrupted = true;
        let words = "Results: nothing got worse apart from 2 accepted changes. \
                     Speed: no verdict, because the comparison was interrupted.";
        assert_eq!(headline(&some, false), words);
        assert!(matches!(some.decision(AtLeast::Cases(1), false).overall(), GateVerdict::NoVerdict { .. }));
    }

    #[test]
    fn one_half_without_a_verdict_does_not_hide_the_other() {
        let mut open = comparison(&["undecided", "same-bits"]);
        let failed = json!({ "row": sum(2, 4096, false), "reason": "it hangs" });
        let work = json!({ "rows": [], "failed": [failed], "not_counted": 0 });
        open.work = Some(serde_json::from_value(work).unwrap());
        let words = "Results: no verdict. Work: no row was counted on both sides; 1 row fails on the candidate alone.";
        assert_eq!(headline(&open, false), words);
        assert_eq!(open.decision(AtLeast::Cases(1), false).overall(), GateVerdict::Worse { changes: 1 });
    }
}
