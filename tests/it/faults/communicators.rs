//! Faults on demand of communicators that lose or gain ranks, are revoked, suspended, or made without waiting.
use super::ending::{Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, fails, hangs, silent};

const SHOWN: &[Shown] =
    &[silent("F70"), fails("F70d"), hangs("F70e"), hangs("F72"), silent("F72b"), silent("F73"), silent("F74b")];

#[test]
fn each_fault_of_communicators_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_that_changes_no_communicator_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &[]);
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_communicators_has_a_scenario() {
    let of = |class: &str| ("F70".."F75").contains(&class);
    let all: Vec<&str> = wrong_nccl::TABLE.iter().filter(|e| of(e.class())).map(|e| e.id).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}
