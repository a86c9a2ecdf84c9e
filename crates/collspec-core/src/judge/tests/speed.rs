//! The cost of judging; the limits are far above what a quiet machine needs.
use crate::judge::Status;
use crate::judge::test_case::planned_case;
use crate::oracle::Forecast;
use std::time::Instant;

/// The best of several times, in microseconds.
fn best(times: u32, mut what: impl FnMut()) -> f64 {
    (0..times).fold(f64::INFINITY, |best, _| {
        let start = Instant::now();
        what();
        best.min(start.elapsed().as_secs_f64() * 1e6)
    })
}

#[test]
fn a_small_case_costs_little() {
    let planned = planned_case(
        "world_size = 4\nop = \"all_reduce\"\ninputs = { each = \"rank + i\", count = 16 }\nexpect = { each = \"6 + 4 * i\" }\n",
    );
    let seen = [planned.perfect()];
    let judge = best(200, || assert_eq!(planned.judge(&seen).status, Status::Pass));
    let forecast = best(200, || drop(Forecast::new(&planned.plan, 1)));
    println!("judge {judge:.0} us, forecast {forecast:.0} us");
    assert!(judge < 1000.0 && forecast < 1000.0, "judge {judge:.0} us, forecast {forecast:.0} us");
}

#[test]
#[ignore = "for measuring"]
fn a_large_case() {
    for (name, each) in [("exact", "rank + i % 1000"), ("inexact", "sin(rank + i)")] {
        let text = format!(
            "world_size = 8\nop = \"all_reduce\"\ninputs = {{ each = \"{each}\", count = 1048576 }}\nexpect = \"any\"\n"
        );
        let start = Instant::now();
        let planned = planned_case(&text);
        println!("{name}: plan and forecast {:?}", start.elapsed());
        let seen = [planned.perfect()];
        let start = Instant::now();
        let verdict = planned.judge(&seen);
        println!("{name}: judge {:?} {:?} {:?}", start.elapsed(), verdict.status, verdict.lanes);
    }
}
