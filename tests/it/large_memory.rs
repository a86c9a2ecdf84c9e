//! Large buffers are judged where the library left them, and a library's faults give the same verdicts as on copies.
use collspec_core::judge::{Status, Verdict, judge};
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_run::child::Workers;
use collspec_run::run::PoolLimits;
use collspec_suite::suite::{Experiment, Prepared, RunOptions, Runner, Variation};
use std::path::PathBuf;
use std::sync::Arc;
use wrong_nccl::{Fault, FaultMode, Injection};

/// More than a mebibyte in each result, with elements that repeat, follow a formula or are random.
const CASES: [&str; 3] = [
    "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"(97 * rank + i) % 251\", count = 270001 }\n",
    "world_size = 2\nop = \"all_gather\"\ndtype = \"f16\"\nrepeat = 2\ninputs = { each = \"(i * i + rank) % 2039\", count = 270001 }\n\
     assert = [\"out[0] >= 0\"]\n",
    "world_size = 2\nop = \"all_reduce\"\ndtype = \"i32\"\nin_place = true\ninputs = { random = { seed = 7 }, count = 270001 }\n",
];

/// Faults that write too little, write beyond the end, or change inputs.
const FAULTS: [&str; 3] = ["F01", "F03", "F20"];

fn runner(fault: FaultMode) -> Runner {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_collspec"));
    let variation = Variation { fault: fault.to_string(), ..Variation::default() };
    Runner::soft(RunOptions { variation, workers: Workers::Command(program), ..RunOptions::default() }).unwrap()
}

fn cases(text: &str) -> Vec<Arc<Case>> {
    let file = Arc::new(SourceFile { path: "large.toml".into(), text: text.into() });
    parse(&file, "large").unwrap_or_else(|faults| panic!("{faults}")).into_iter().map(Arc::new).collect()
}

/// All that does not depend on the clock.
fn words(verdict: &Verdict) -> String {
    format!("{:?} {:?} {:#?} {:#?}", verdict.status, verdict.reason, verdict.lanes, verdict.findings)
}

#[test]
fn what_is_judged_in_place_gets_the_verdict_that_copies_get() {
    let mut failed = 0;
    for case in CASES.into_iter().flat_map(cases) {
        let faults = FAULTS.map(|id| Fault::parse(id).unwrap());
        let injected = faults.map(|fault| FaultMode::Inject(Injection { fault, rank: Some(1) }));
        for fault in [FaultMode::Sound].into_iter().chain(injected) {
            let in_place = runner(fault).run_case(&case);
            let copies = runner(FaultMode::Sound);
            let Prepared::Ready(ready) = copies.prepare(&case).unwrap() else { panic!("{} is not run", case.name) };
            let experiment = Experiment {
                variation: Variation { fault: fault.to_string(), ..Variation::default() },
                limit: None,
                judge: &judge,
            };
            let (copied, _) = copies.run_once(&ready, &experiment).unwrap();
            assert_eq!(words(&in_place), words(&copied), "{} with {fault}", case.name);
            assert!(fault != FaultMode::Sound || in_place.status == Status::Pass, "{:?}", in_place.reason);
            failed += usize::from(in_place.status == Status::Fail);
        }
    }
    assert!(failed >= CASES.len(), "only {failed} runs failed");
}

/// A case whose arena is larger than that of small cases.
fn large_arena(shift: u32) -> Arc<Case> {
    cases(&format!(
        "world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"(97 * rank + i + {shift}) % 251\", count = 4300001 }}\n"
    ))
    .remove(0)
}

#[test]
fn large_cases_in_a_row_have_the_memory_of_one_worker_as_far_as_the_limit_allows() {
    let keeps = runner(FaultMode::Sound);
    let kept = [0, 1].map(|shift| {
        assert_eq!(keeps.run_case(&large_arena(shift)).status, Status::Pass);
        keeps.idle_workers()
    });
    assert_eq!(kept[0].len(), 1);
    assert_eq!(kept[0], kept[1], "the second case ran on the worker of the first");
    let limits = PoolLimits { bytes: 60 << 20, ..PoolLimits::of(2) };
    let keeps_less = runner(FaultMode::Sound).with_pool_limits(limits);
    assert_eq!(keeps_less.run_case(&large_arena(0)).status, Status::Pass);
    assert!(keeps_less.idle_workers().is_empty());
}

/// A small case has taken little memory; a large arena stays idle meanwhile, where the limit counts it.
#[test]
fn a_small_case_does_not_take_the_worker_of_a_large_one() {
    let small = cases("world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"rank + i\", count = 4 }\n").remove(0);
    let runner = runner(FaultMode::Sound);
    assert_eq!(runner.run_case(&large_arena(0)).status, Status::Pass);
    let large = runner.idle_workers();
    assert_eq!(runner.run_case(&small).status, Status::Pass);
    let both = runner.idle_workers();
    assert_eq!(both.len(), 2);
    assert!(both.contains(&large[0]), "{both:?} without {large:?}");
    assert_eq!(runner.run_case(&large_arena(1)).status, Status::Pass);
    // The worker that has run last stands last.
    let after = runner.idle_workers();
    assert_eq!((after.len(), after.last()), (2, large.last()), "the large one was taken again");
}

#[test]
#[ignore = "slow"]
fn what_an_earlier_case_left_in_the_memory_does_not_hide_a_fault() {
    let case = large_arena(0);
    for id in FAULTS {
        let fault = FaultMode::Inject(Injection { fault: Fault::parse(id).unwrap(), rank: Some(1) });
        let [after_a_right_run, fresh] = [true, false].map(|before| {
            let runner = runner(FaultMode::Sound);
            let Prepared::Ready(ready) = runner.prepare(&case).unwrap() else { panic!("{} is not run", case.name) };
            let run = |fault: FaultMode| {
                let variation = Variation { fault: fault.to_string(), ..Variation::default() };
                runner.run_once(&ready, &Experiment { variation, limit: None, judge: &judge }).unwrap().0
            };
            // Workers whose library can be wrong are not those of other runs; a traced run on one is right.
            let earlier = before.then(|| run(FaultMode::Trace).status);
            assert!(earlier.is_none_or(|status| status == Status::Pass), "{id}: {earlier:?}");
            let kept = runner.idle_workers();
            let verdict = run(fault);
            assert!(!before || kept == runner.idle_workers(), "{id}: it ran on the same memory");
            verdict
        });
        assert_eq!(after_a_right_run.status, Status::Fail, "{id}");
        assert_eq!(words(&after_a_right_run), words(&fresh), "{id}");
    }
}
