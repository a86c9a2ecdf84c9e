//! What to do after a comparison, in one sentence with its reasons and its limits.
use super::comparison::Comparison;
use super::decision::{Decision, GateVerdict};
use super::words::{cases, counted};

impl Decision {
    /// The advice; `None` where the comparison did not begin.
    pub fn advice(&self, comparison: &Comparison) -> Option<String> {
        if comparison.not_begun.is_some() {
            return None;
        }
        let to = &comparison.candidate.name;
        Some(match self.overall() {
            GateVerdict::Worse { .. } => format!(
                "do not move to {to} before each change for the worse is understood: mended, or accepted with a reason in a \
                 file for --rules{}",
                bugs(comparison)
            ),
            GateVerdict::NoVerdict { .. } => {
                format!("these runs do not tell whether {to} is as good: see the reasons above, and compare again")
            }
            GateVerdict::NothingWorse => {
                format!("nothing here speaks against {to}{}; {}", bugs(comparison), limits(comparison))
            }
        })
    }
}

/// The known bugs that one side alone has.
fn bugs(comparison: &Comparison) -> String {
    let of = |is_new: bool| comparison.known_bugs.iter().filter(move |bug| bug.is_new == is_new);
    let shown = |is_new: bool| of(is_new).filter(|bug| bug.cases > 0 || bug.measured.is_some()).count();
    let words = |is_new: bool, does: &str| {
        let count = of(is_new).count();
        let seen = match (count, shown(is_new)) {
            (_, 0) => "which none of these cases can show".to_owned(),
            (1, _) => "which these cases can show".to_owned(),
            (_, shown) => format!("of which these cases can show {shown}"),
        };
        (count > 0).then(|| format!("{does} {}, {seen}", counted(count, "known bug", "known bugs")))
    };
    let both: Vec<String> = [words(false, "it mends"), words(true, "it brings")].into_iter().flatten().collect();
    if both.is_empty() { String::new() } else { format!("; {}", both.join("; ")) }
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
    limits.push("it says nothing of operations, sizes and numbers of ranks that these cases do not use".to_owned());
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
        let bug = |is_new, cases| Difference { bug: "b".into(), is_new, cases, example: None, measured: None };
        assert_eq!(
            advice(&["same-bits", "skipped"], vec![bug(false, 2), bug(false, 0), bug(true, 0)]),
            "nothing here speaks against 2.32.3; it mends 2 known bugs, of which these cases can show 1; it brings 1 known bug, \
             which none of these cases can show; speed was not measured (--bench); 1 case did not run on both sides; it says \
             nothing of operations, sizes and numbers of ranks that these cases do not use"
        );
        assert!(advice(&["now-wrong"], Vec::new()).starts_with("do not move to 2.32.3 before"));
        assert!(advice(&["undecided"], Vec::new()).starts_with("these runs do not tell"));
    }
}
