//! Faults on demand in what graphs do.
use super::ending::{Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, silent};

const SHOWN: &[Shown] = &[
    silent("F75"),
    silent("F75b"),
    silent("F76b"),
    silent("F76c"),
    silent("F77"),
    silent("F78"),
    silent("F79"),
    silent("F79b"),
];

#[test]
fn each_fault_of_graphs_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_without_graphs_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &[]);
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_graphs_has_a_scenario() {
    let of_graphs = |class: &str| ("F75".."F80").contains(&class);
    let all: Vec<&str> = wrong_nccl::TABLE.iter().filter(|e| of_graphs(e.class())).map(|e| e.id).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}
