//! Faults on demand in what surrounds an operation: its size, the number of operations before it, the next work on its stream,
//! other readers of its input, ended parents and children of its communicator, answers of query functions, groups, the null
//! stream, arguments.
use super::ending::{Seen, Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, fails, hangs, runner, silent};

const SHOWN: &[Shown] = &[
    silent("F60"),
    silent("F60b"),
    silent("F60c"),
    silent("F61"),
    silent("F61b"),
    silent("F61c"),
    silent("F61d"),
    silent("F62"),
    silent("F62b"),
    fails("F63"),
    hangs("F63b"),
    fails("F63c"),
    silent("F64"),
    silent("F65"),
    silent("F65b"),
    silent("F65c"),
    fails("F65d"),
    silent("F65e"),
    silent("F65f"),
    fails("F66"),
    hangs("F66b"),
    fails("F66c"),
    fails("F67"),
    silent("F67b"),
    silent("F68"),
    silent("F68b"),
    silent("F68c"),
    silent("F68d"),
];

/// Faults that strike in every program.
const ALWAYS: [&str; 2] = ["F65c", "F65e"];

#[test]
#[ignore = "slow"]
fn each_fault_of_structure_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_that_meets_no_fault_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &ALWAYS);
}

#[test]
fn a_lost_call_is_found_among_more_results_than_can_be_copied() {
    let text = "world_size = 2\ninputs.x = { each = \"rank + i\", count = 1024 }\nsteps = [{ op = \"loop\", times = 4200, steps = [\n\
                { op = \"map\", expr = \"(rank + i + t) % 512\", count = 1024, out = \"x\" },\n\
                { op = \"all_reduce\", in = \"x\", out = \"y\" },\n] }]\n";
    Seen::of(&runner(), "", text).passes();
    let reason = Seen::of(&runner(), "F62", text).verdict.reason.unwrap_or_default();
    assert!(reason.contains("`y[0]` after step 1.2 (all_reduce, round 4095) is"), "{reason}");
    assert!(reason.contains("stale: they still hold the values from before this step"), "{reason}");
}

/// The input that an operation has changed is not there any more at the end.
#[test]
fn a_changed_input_is_found_although_it_is_overwritten() {
    for placement in ["", "placement = \"one_thread\"\n", "placement = \"processes\"\n"] {
        let text = format!(
            "{placement}world_size = 2\ninputs.x = {{ each = \"rank + i\", count = 8 }}\nsteps = [\n\
             {{ op = \"all_reduce\", in = \"x\", out = \"y\" }},\n{{ op = \"wait\" }},\n\
             {{ op = \"map\", expr = \"i\", out = \"x\", count = 8 }},\n]\n"
        );
        Seen::of(&runner(), "", &text).passes();
        let reason = Seen::of(&runner(), "F20", &text).verdict.reason.unwrap_or_default();
        assert!(reason.contains("input `x` modified") && reason.contains("step 1 (all_reduce)"), "{reason}");
    }
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_structure_has_a_scenario() {
    let all: Vec<&str> =
        wrong_nccl::TABLE.iter().filter(|e| ("F60".."F70").contains(&e.class())).map(|e| e.id).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}
