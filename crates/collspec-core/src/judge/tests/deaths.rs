//! Verdicts on cases in which one rank's process ends and the others continue.
use crate::job::CallKind;
use crate::judge::Status;
use crate::judge::test_case::{cases, planned_case, try_planned_case};
use nccl_sys::ncclResult_t;

const SHRUNK: &str = r#"
world_size = 3
placement = "processes"
inputs.x = { each = "10 ^ rank", count = 2, dtype = "i32" }
steps = [
  { op = "all_reduce", in = "x", out = "before" },
  { op = "wait" },
  { op = "all_reduce", in = "x", out = "lost" },
  { op = "exit", ranks = [1], status = 3 },
  { op = "all_reduce", in = "x", out = "after" },
  { op = "shrink", new = "rest", without = [1], abort = true },
  { op = "all_reduce", comm = "rest", in = "x", out = "sum" },
]
"#;

#[test]
fn the_process_must_end_as_the_file_says() {
    let case = planned_case(SHRUNK);
    let right = case.perfect();
    assert_eq!(right.deaths, [(1, "exit status 3".to_owned())]);
    assert_eq!(case.judge(std::slice::from_ref(&right)).status, Status::Pass);
    for wrong in [vec![], vec![(1, "signal 11 (SIGSEGV)".to_owned())], vec![(0, "exit status 3".to_owned())]] {
        let mut seen = right.clone();
        seen.deaths = wrong;
        let verdict = case.judge(&[seen]);
        assert_eq!(verdict.status, Status::Fail);
        assert!(
            verdict.reason.is_some_and(|reason| reason.contains("rank 1: its process was to end with exit status 3"))
        );
    }
}

#[test]
fn calls_behind_a_death_may_fail_and_no_others() {
    let case = planned_case(SHRUNK);
    let program = &case.plan.programs[0];
    let collectives: Vec<u32> = (0u32..)
        .zip(program)
        .filter(|(_, call)| matches!(call.kind, CallKind::Collective { .. }))
        .map(|(index, _)| index)
        .collect();
    let [before, lost, after, on_the_rest] = collectives[..] else { panic!("{collectives:?}") };
    let status = |call: u32, code: ncclResult_t| {
        let mut seen = case.perfect();
        seen.ranks[0].codes.push((call, code.0, "no".to_owned()));
        case.judge(&[seen]).status
    };
    assert_eq!(status(after, ncclResult_t::RemoteError), Status::Pass);
    assert_eq!(status(after, ncclResult_t::SystemError), Status::Pass);
    assert_eq!(status(after, ncclResult_t::InvalidArgument), Status::Fail);
    for call in [before, lost, on_the_rest] {
        assert_eq!(status(call, ncclResult_t::RemoteError), Status::Fail, "call {call}");
    }
}

#[test]
fn what_is_lost_is_not_judged_and_the_rest_is() {
    let case = planned_case(SHRUNK);
    let status = |buffer: &str, rank: usize| {
        let mut seen = case.perfect();
        case.element(&mut seen, buffer, rank, 1)[0] ^= 0x55;
        case.judge(&[seen]).status
    };
    for rank in 0..3 {
        assert_eq!(status("lost", rank), Status::Pass, "rank {rank}");
        assert_eq!(status("before", rank), Status::Fail, "rank {rank}");
        assert_eq!(status("x", rank), Status::Fail, "rank {rank}");
    }
    assert_eq!(status("after", 0), Status::Pass);
    assert_eq!(status("sum", 0), Status::Fail);
    assert_eq!(status("sum", 2), Status::Fail);
}

#[test]
fn without_a_process_of_its_own_no_rank_ends_alone() {
    for placement in ["threads", "one_thread"] {
        let text = SHRUNK.replace("\"processes\"", &format!("\"{placement}\""));
        let Err(refused) = try_planned_case(&cases(&text)[0]) else { panic!("{placement} is accepted") };
        let help = refused[0].help.clone().unwrap_or_default();
        assert!(help.contains("a rank can end alone"), "{placement}: {refused:?}");
    }
}
