//! Shows that a fault of a library makes a small scenario end as it should, that the scenario passes without it,
//! and that the library itself says that the fault would change it.
use collspec_cli::audit::FaultOrFlaw;
use collspec_cli::audit::examples::scenario_for;
use collspec_core::judge::{Outcome, Status, Verdict, judge};
use collspec_core::scenario::{SourceFile, parse};
use collspec_run::child::Workers;
use collspec_suite::suite::{Experiment, Prepared, RunOptions, Runner, Variation};
use std::num::NonZeroUsize;
use std::sync::Arc;
use wrong_nccl::{Fault, FaultMode};

/// A fault, and the ending of the case that the audit's advice gives for it.
pub struct Shown {
    pub fault: &'static str,
    pub ends: Outcome,
}

pub const fn silent(fault: &'static str) -> Shown {
    Shown { fault, ends: Outcome::Ok }
}

pub const fn hangs(fault: &'static str) -> Shown {
    Shown { fault, ends: Outcome::Hang }
}

pub const fn fails(fault: &'static str) -> Shown {
    Shown { fault, ends: Outcome::Error }
}

/// The scenario that the audit's advice gives for a fault.
pub fn example(fault: &str) -> String {
    scenario_for(FaultOrFlaw::Fault(Fault::parse(fault).unwrap())).unwrap_or_else(|| panic!("{fault} has no scenario"))
}

pub fn runner() -> Runner {
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    Runner::soft(RunOptions { jobs: NonZeroUsize::new(1), workers: worker, ..RunOptions::default() }).unwrap()
}

/// The verdict of a run with this wish (an empty wish means no fault), and the faults that struck or would have.
pub struct Seen {
    pub verdict: Verdict,
    pub reached: Vec<Vec<u64>>,
}

impl Seen {
    pub fn of(runner: &Runner, wish: &str, text: &str) -> Self {
        let file = Arc::new(SourceFile { path: "case.toml".into(), text: text.into() });
        let case = Arc::new(parse(&file, wish).unwrap_or_else(|faults| panic!("{wish}: {faults}")).remove(0));
        let ready = match runner.prepare(&case).unwrap() {
            Prepared::Ready(ready) => ready,
            Prepared::Settled(verdict) => panic!("{wish}: {:?}", verdict.reason),
        };
        let wish: FaultMode = if wish.is_empty() { FaultMode::Sound } else { wish.parse().unwrap() };
        let (verdict, seen) = runner
            .run_once(
                &ready,
                &Experiment {
                    variation: Variation { fault: wish.to_string(), ..Variation::default() },
                    limit: Some(600.0),
                    judge: &judge,
                },
            )
            .unwrap();
        Self { verdict, reached: seen.into_iter().filter_map(|seen| seen.reached).collect() }
    }

    pub fn has_reached(&self, fault: &str) -> bool {
        let number = Fault::parse(fault).unwrap().number();
        self.reached.iter().any(|words| words[number / 64] >> (number % 64) & 1 == 1)
    }

    pub fn passes(&self) {
        let Verdict { case, status, reason, findings, .. } = &self.verdict;
        assert_eq!(*status, Status::Pass, "{case}: {reason:?} {findings:?}");
    }
}

/// A message if an entry does not end as it should.
fn complaint(runner: &Runner, Shown { fault, ends }: &Shown) -> Option<String> {
    let text = &example(fault);
    Seen::of(runner, "", text).passes();
    let traced = Seen::of(runner, "trace", text);
    traced.passes();
    let Seen { verdict: Verdict { status, outcome, reason, .. }, .. } = &Seen::of(runner, fault, text);
    // The reason for a hang that was ended by the time limit; one that was proved has another reason.
    let waited = reason.as_deref().is_some_and(|reason| reason.contains("when the time was up"));
    let right = (*status, *outcome) == (Status::Fail, Some(*ends)) && !waited;
    let noted = traced.has_reached(fault);
    (!right || !noted).then(|| format!("{fault} (noted: {noted}): {status:?}, {outcome:?}, {reason:?}"))
}

/// Every entry ends as it should.
pub fn assert_each_is_shown(all: &[Shown]) {
    let runner = runner();
    let wrong: Vec<String> = all.iter().filter_map(|shown| complaint(&runner, shown)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A sum of two ranks passes with each of these faults and reaches none of them, except those that it is known to meet.
pub fn assert_a_plain_sum_meets_none(all: &[Shown], except: &[&str]) {
    let runner = runner();
    let sum = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\n";
    let trace = Seen::of(&runner, "trace", sum);
    for Shown { fault, .. } in all.iter().filter(|shown| !except.contains(&shown.fault)) {
        assert!(!trace.has_reached(fault), "{fault}");
        let seen = Seen::of(&runner, fault, sum);
        seen.passes();
        assert!(!seen.has_reached(fault), "{fault}");
    }
}
