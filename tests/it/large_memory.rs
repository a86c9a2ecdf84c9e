//! Large buffers are judged where the library left them, and a library's faults give the same verdicts as on copies.
use collspec::internals::child::Workers;
use collspec::internals::judge::{Status, Verdict, judge};
use collspec::internals::scenario::{Case, SourceFile, parse};
use collspec::internals::suite::{Experiment, Prepared, RunOptions, Runner};
use soft_nccl::fault::{Fault, FaultMode, Injection};
use std::path::PathBuf;
use std::sync::Arc;

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
    Runner::soft(RunOptions { fault, workers: Workers::Command(program), ..RunOptions::default() }).unwrap()
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
        let injected = faults.map(|fault| FaultMode::Inject(Injection { fault, rank: Some(1), algorithm: None }));
        for fault in [FaultMode::Sound].into_iter().chain(injected) {
            let in_place = runner(fault).run_case(&case);
            let copies = runner(FaultMode::Sound);
            let Prepared::Ready(ready) = copies.prepare(&case).unwrap() else { panic!("{} is not run", case.name) };
            let experiment = Experiment { fault, limit: None, judge: &judge };
            let (copied, _) = copies.run_once(&ready, &experiment).unwrap();
            assert_eq!(words(&in_place), words(&copied), "{} with {fault}", case.name);
            assert!(fault != FaultMode::Sound || in_place.status == Status::Pass, "{:?}", in_place.reason);
            failed += usize::from(in_place.status == Status::Fail);
        }
    }
    assert!(failed >= CASES.len(), "only {failed} runs failed");
}
