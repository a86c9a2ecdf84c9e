//! A case's own fault must strike.
use crate::job::{FAULT_IN_LOG, MachineReport};
use crate::judge::Status;
use crate::judge::test_case::planned_case;

#[test]
fn a_fault_that_did_not_strike_fails_its_case() {
    let case = planned_case(
        "world_size = 2\nop = \"all_reduce\"\ninputs = [[1], [2]]\nfault = { kind = \"ib_repeat\", rank = 1, at = 3, seed = 5 }\n",
    );
    let missed = case.perfect();
    let verdict = case.judge(std::slice::from_ref(&missed));
    assert_eq!(verdict.status, Status::Fail);
    let reason = verdict.reason.unwrap_or_default();
    assert!(reason.contains("the fault ib_repeat of the process of rank 1 did not strike"), "{reason}");
    let mut reported = missed.clone();
    reported.ranks[0].machine = Some(MachineReport { fault: Some("written again".into()), ..MachineReport::default() });
    assert_eq!(case.judge(&[reported]).status, Status::Pass);
    let mut logged = missed;
    logged.log = format!("before\n{FAULT_IN_LOG}written again\n");
    assert_eq!(case.judge(&[logged]).status, Status::Pass);
}
