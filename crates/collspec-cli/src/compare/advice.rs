//! What to do after a comparison, in one sentence with its reasons and its limits.
use super::comparison::Comparison;
use super::decision::{Decision, GateVerdict};
use super::execute::USUAL_STARTS;
use super::words::{cases, counted};

impl Decision {
    /// The advice; `None` where the comparison did not begin.
    pub fn advice(&self, comparison: &Comparison) -> Option<String> {
        if comparison.not_begun.is_some() {
            return None;
        }
        let to = &comparison.candidate.name;
        let advice = match self.overall() {
            GateVerdict::Worse { .. } => {
                let why = "what got worse must first be explained, or accepted in a file for --allow, with a reason";
                format!("do not move to {to} yet: {why}")
            }
            GateVerdict::NoVerdict { .. } if self.results == GateVerdict::NothingWorse && !self.stale.is_empty() => {
                "take out of the file for --allow what did not happen, and compare again".to_owned()
            }
            GateVerdict::NoVerdict { .. } => {
                format!("this comparison is no reason to move to {to}, and none to stay; the reasons are above")
            }
            GateVerdict::NothingWorse => format!("these cases give no reason to stay; {}", limits(comparison)),
        };
        Some(format!("{advice}{}", bugs(comparison)))
    }
}

/// The known bugs that one side alone has.
fn bugs(comparison: &Comparison) -> String {
    let words = |is_new: bool, does: &str| {
        let bugs: Vec<_> = comparison.known_bugs.iter().filter(|bug| bug.is_new == is_new).collect();
        let seen = bugs.iter().filter(|bug| bug.cases > 0 || bug.measured.is_some()).count();
        let seen = match (bugs.len(), seen) {
            (_, 0) => "which nothing in this comparison can show".to_owned(),
            (1, _) => "which this comparison can show".to_owned(),
            (_, seen) => format!("{seen} of which this comparison can show"),
        };
        (!bugs.is_empty()).then(|| format!("{does} {}, {seen}", counted(bugs.len(), "known bug", "known bugs")))
    };
    let to = &comparison.candidate.name;
    let both = [words(false, "fixes"), words(true, "brings")].into_iter().flatten().collect::<Vec<_>>();
    if both.is_empty() { String::new() } else { format!("; {to} {}", both.join(", and ")) }
}

/// What the comparison cannot tell.
fn limits(comparison: &Comparison) -> String {
    let mut limits = Vec::new();
    let sides = [&comparison.base, &comparison.candidate];
    if sides.iter().any(|side| side.header.has_software_gpus()) {
        limits.push("speed and a GPU's memory ordering need a run on GPUs".to_owned());
    } else if comparison.speed.is_none() {
        limits.push("speed was not measured (--bench)".to_owned());
    }
    let left = comparison.rows.len() - comparison.compared();
    if left > 0 {
        limits.push(format!("{} did not run on both sides", cases(left)));
    }
    if let Some(starts) = &comparison.starts {
        let count = starts.base.starts.min(starts.candidate.starts);
        match starts.not_tried {
            Some(_) => limits.push("failures in some starts only were not looked for".to_owned()),
            None if count < USUAL_STARTS as u64 => {
                limits.push(format!("each library was started only {count} times (--starts)"));
            }
            None => {}
        }
    }
    limits.push("nothing is known of operations, sizes and numbers of ranks that they do not use".to_owned());
    limits.join("; ")
}

#[cfg(test)]
mod tests {
    use crate::compare::fixture::comparison;
    use crate::corpus::known_bugs::Difference;
    use collspec_suite::suite::AtLeast;

    fn advice(changes: &[&str], bugs: Vec<Difference>) -> String {
        let mut comparison = comparison(changes);
        comparison.candidate.name = "2.32.3".to_owned();
        comparison.known_bugs = bugs;
        comparison.decision(AtLeast::Cases(1), false).advice(&comparison).unwrap()
    }

    #[test]
    fn advice_follows_from_the_verdict_and_tells_its_limits() {
        let bug =
            |is_new, cases| Difference { bug: "b".into(), what: None, is_new, cases, example: None, measured: None };
        assert_eq!(
            advice(&["same-bits", "skipped"], vec![bug(false, 2), bug(false, 0), bug(true, 0)]),
            "these cases give no reason to stay; speed was not measured (--bench); 1 case did not run on both sides; nothing is \
             known of operations, sizes and numbers of ranks that they do not use; 2.32.3 fixes 2 known bugs, 1 of which this \
             comparison can show, and brings 1 known bug, which nothing in this comparison can show"
        );
        assert!(advice(&["now-wrong"], Vec::new()).starts_with("do not move to 2.32.3 yet: what got worse must"));
        assert!(advice(&["undecided"], Vec::new()).starts_with("this comparison is no reason to move"));
    }
}
