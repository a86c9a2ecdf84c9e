//! Every fault of memory, chunks, blocks and arithmetic on demand: a small scenario passes
//! without it and fails with it, everywhere, on one rank, in one algorithm; and a run that only traces faults reports it.
use super::shown::assert_all_are_shown;
use collspec_cli::audit::examples::transport::EXAMPLES;

#[test]
#[ignore = "slow"]
fn each_fault_of_transport_fails_its_scenario() {
    assert_all_are_shown(EXAMPLES);
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_transport_has_a_scenario() {
    let mine = |class: &str| ("F01"..="F11").contains(&class) || ("F16"..="F29").contains(&class);
    let all: Vec<&str> = wrong_nccl::TABLE.iter().filter(|e| mine(e.class())).map(|e| e.id).collect();
    assert_eq!(EXAMPLES.iter().map(|(id, _)| *id).collect::<Vec<_>>(), all);
}
