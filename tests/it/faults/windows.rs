//! Faults on demand of registered memory, windows and one-sided operations.
use super::ending::{Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, fails, hangs, silent};

const SHOWN: &[Shown] = &[
    silent("F80"),
    hangs("F80b"),
    silent("F80c"),
    silent("F80e"),
    silent("F80f"),
    silent("F81"),
    silent("F81b"),
    hangs("F81c"),
    hangs("F81d"),
    silent("F82"),
    silent("F82b"),
    silent("F82c"),
    hangs("F82d"),
    silent("F83"),
    silent("F83b"),
    fails("F83c"),
    silent("F84"),
    silent("F84b"),
    silent("F84c"),
    silent("F84d"),
];

#[test]
#[ignore = "slow"]
fn every_fault_of_windows_and_one_sided_operations_is_shown() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_plain_sum_meets_none_of_them() {
    assert_a_plain_sum_meets_none(SHOWN, &[]);
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_windows_has_a_scenario() {
    let all: Vec<&str> =
        wrong_nccl::TABLE.iter().filter(|e| ("F80".."F85").contains(&e.class())).map(|e| e.id).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}
