//! Every scenario of the corpus, with a faultless run.
use crate::judge::test_case::try_planned_case;
use crate::judge::{Status, judge_refusal, missing_refusal};
use crate::scenario::{ExpectedOutcome, ScenarioFile, discover, load};
use std::path::PathBuf;
use std::sync::Arc;

/// The files of the documented examples and of the language: small and of every kind. (The sweeps of the conformance
/// corpus take minutes here, and in 8 and 16 bits a flipped exponent may give a value that some other order gives too.)
pub(super) fn files() -> Vec<ScenarioFile> {
    let root = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios"));
    ["documented", "language"].iter().flat_map(|name| discover(&[root.join(name)]).expect("the corpus")).collect()
}

#[test]
fn a_faultless_run_passes() {
    let mut wrong = Vec::new();
    let (mut judged, mut cases_seen) = (0, 0);
    for scenario in files() {
        // Whether a file can be read is the scenario room's test.
        let Ok(cases) = load(&scenario.path, &scenario.name, 1 << 20) else { continue };
        for case in cases.into_iter().map(Arc::new) {
            cases_seen += 1;
            let planned = match try_planned_case(&case) {
                Ok(planned) => planned,
                Err(diagnostics) => {
                    let verdict = judge_refusal(&case, &diagnostics);
                    if verdict.status != Status::Pass {
                        wrong.push(format!("{}: {:?}", case.name, verdict.reason));
                    }
                    continue;
                }
            };
            if let Some(verdict) = missing_refusal(&case) {
                wrong.push(format!("{}: {:?}", case.name, verdict.reason));
                continue;
            }
            // Without an engine nothing hangs, fails or takes time.
            let ok = case.outcome.as_ref().is_none_or(|o| o.value.contains(&ExpectedOutcome::Ok));
            if !ok || case.asserts.iter().any(|a| a.value.text.contains(".seconds")) {
                continue;
            }
            judged += 1;
            let seen = vec![planned.perfect(); case.repeat as usize];
            let verdict = planned.judge(&seen);
            if verdict.status != Status::Pass {
                wrong.push(format!("{}: {:#?}", case.name, verdict.findings.first().map(|f| &f.text)));
            }
        }
    }
    println!("{cases_seen} cases, {judged} judged");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(judged > 20, "only {judged} cases were judged");
}
