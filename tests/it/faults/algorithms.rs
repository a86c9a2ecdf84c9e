//! Faults on demand of the algorithm that a call asks for.
use super::ending::{Seen, Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, example, fails, runner, silent};
use collspec_core::judge::Outcome;

const SHOWN: &[Shown] = &[
    silent("F85"),
    silent("F85b"),
    silent("F86"),
    silent("F89"),
    silent("F89b"),
    Shown { fault: "F89c", ends: Outcome::Crash },
    fails("F89d"),
    silent("F89e"),
];

#[test]
fn each_fault_of_algorithms_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_that_asks_for_no_algorithm_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &[]);
}

#[test]
fn an_algorithm_that_is_not_taken_is_told_by_the_order_of_the_sums() {
    let text = "world_size = 5\nop = \"all_reduce\"\nalgorithm = \"tree\"\n\
                inputs = { random = { seed = 5 }, count = 200 }\n";
    Seen::of(&runner(), "", text).passes();
    let reason = Seen::of(&runner(), "F85", text).verdict.reason.unwrap_or_default();
    assert!(
        reason.contains("asks for the algorithm tree, but the order in which `out` was summed is a ring's"),
        "{reason}"
    );
}

#[test]
fn bits_that_depend_on_history_are_told() {
    let text = example("F89e");
    let reason = Seen::of(&runner(), "F89e", &text).verdict.reason.unwrap_or_default();
    assert!(reason.contains("the run after `before` differs from the run without it"), "{reason}");
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_algorithms_has_a_scenario() {
    let mine = |class: &str| ("F85"..="F89").contains(&class);
    let all: Vec<&str> = wrong_nccl::TABLE.iter().filter(|e| mine(e.class())).map(|e| e.id).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}
