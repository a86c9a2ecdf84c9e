//! Faults on demand of communicators that lose a rank because its process ends.
use super::ending::{Seen, Shown, assert_a_plain_sum_meets_none, assert_each_is_shown, fails, runner, silent};
use collspec_core::judge::Status;

const SHOWN: &[Shown] = &[silent("F90"), silent("F91"), silent("F92"), fails("F93"), silent("F94")];

/// With this fault the ranks wait for each other until the time limit, because a hang between processes cannot be proved. The
/// audit shows that it is caught.
const ENDED_BY_THE_CLOCK: &str = "F92b";

#[test]
fn each_fault_of_deaths_fails_its_scenario() {
    assert_each_is_shown(SHOWN);
}

#[test]
fn a_sum_that_loses_no_rank_passes_with_each() {
    assert_a_plain_sum_meets_none(SHOWN, &[]);
}

/// No entry of these classes is without a scenario.
#[test]
fn every_fault_of_deaths_has_a_scenario() {
    let of = |class: &str| ("F90".."F95").contains(&class);
    let all = wrong_nccl::TABLE.iter().filter(|e| of(e.class())).map(|e| e.id);
    let all: Vec<&str> = all.filter(|id| *id != ENDED_BY_THE_CLOCK).collect();
    assert_eq!(SHOWN.iter().map(|shown| shown.fault).collect::<Vec<_>>(), all);
}

/// Rank 1 has two communicators that lose a rank. The right error of the one does not hide the wrong error of the other.
#[test]
fn each_communicator_must_report_the_right_error() {
    let text = r#"
world_size = 4
placement = "processes"
comms.sub = { groups = [[1, 3]] }
inputs.x = { each = "rank + i", count = 300 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_reduce", comm = "sub", in = "x", out = "z" },
  { op = "wait" },
  { op = "exit", ranks = [3], status = "SIGKILL" },
  { op = "wait", error = "remote_error" },
]
"#;
    let runner = runner();
    Seen::of(&runner, "", text).passes();
    for rank in 0..3 {
        let seen = Seen::of(&runner, &format!("F92,rank={rank}"), text);
        assert!(seen.has_reached("F92"), "rank {rank}");
        assert_eq!(seen.verdict.status, Status::Fail, "rank {rank}: {:?}", seen.verdict.findings);
    }
}
