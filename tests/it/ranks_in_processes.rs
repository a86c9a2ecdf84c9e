//! Cases with a process per rank, from text to verdict.

use crate::step_words::are_in_program;
use crate::support::processes::wait_until;
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::scenario::{Case, Placement, SourceFile, parse};
use collspec_run::child::Workers;
use collspec_suite::suite::{RunOptions, Runner};
use rustix::process::{Pid, Signal, kill_process};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn options() -> RunOptions {
    RunOptions {
        jobs: NonZeroUsize::new(1),
        workers: Workers::Command(env!("CARGO_BIN_EXE_collspec").into()),
        ..RunOptions::default()
    }
}

fn runner() -> Runner {
    Runner::soft(options()).unwrap()
}

fn case(name: &str, text: &str) -> Arc<Case> {
    let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: text.into() });
    Arc::new(parse(&file, name).unwrap_or_else(|faults| panic!("{faults}")).remove(0))
}

fn assert_passes(verdict: &Verdict) {
    assert_eq!(verdict.status, Status::Pass, "{}: {:?} {:?}", verdict.case, verdict.reason, verdict.findings);
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
}

const SUM: &str = "world_size = 3\nplacement = \"processes\"\nop = \"all_reduce\"\n\
    inputs = [[1, 2], [3, 4], [5, 6]]\nexpect = { each = \"9 + 3 * i\" }\n";
/// Rank 1 sleeps for long, the others wait for it.
const SLEEP: &str = "world_size = 3\ntimeout = 900\nplacement = \"processes\"\ncomms.other = { groups = [[2, 1, 0]] }\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
    { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
    { op = \"sleep\", ranks = [1], seconds = 600 },\n{ op = \"all_reduce\", comm = \"other\", in = \"x\", out = \"z\" } ]\n";

#[test]
fn a_process_for_each_rank_is_kept_with_its_communicators() {
    let runner = runner();
    assert_passes(&runner.run_case(&case("sum", SUM)));
    let pids = runner.idle_workers();
    assert_eq!(pids.len(), 3);
    for i in 0..20 {
        assert_passes(&runner.run_case(&case(&format!("sum{i}"), &format!("repeat = {}\n{SUM}", 1 + i % 3))));
    }
    assert_eq!(runner.idle_workers(), pids);
    let wrong = runner.run_case(&case("wrong", &SUM.replace("9 +", "8 +")));
    assert_eq!((wrong.status, wrong.outcome), (Status::Fail, Some(Outcome::Ok)));
    assert_passes(&runner.run_case(&case("after", SUM)));
    let kept = runner.idle_workers();
    assert!(pids.iter().all(|pid| kept.contains(pid)), "a wrong result costs no process");
}

#[test]
fn communicators_are_made_from_ids_on_the_way_and_in_every_run() {
    let text = "world_size = 4\nplacement = \"processes\"\nrepeat = 3\ninputs.x = { each = \"10 ^ rank\", count = 1 }\n\
        steps = [\n{ op = \"init\", new = \"pairs\", groups = [[3, 1], [0, 2]] },\n\
        { op = \"all_gather\", comm = \"pairs\", in = \"x\", out = \"a\" },\n\
        { op = \"wait\" },\n{ op = \"split\", new = \"alone\", comm = \"pairs\", color = \"rank\" },\n\
        { op = \"all_reduce\", comm = \"alone\", in = \"x\", out = \"b\" },\n{ op = \"wait\" },\n\
        { op = \"destroy\", comm = \"alone\" },\n{ op = \"destroy\", comm = \"pairs\" } ]\n\
        expect.a = [[1, 100], [1000, 10], [1, 100], [1000, 10]]\n";
    let runner = runner();
    for i in 0..3 {
        assert_passes(&runner.run_case(&case(&format!("init{i}"), text)));
    }
    assert_eq!(runner.idle_workers().len(), 4);
}

#[test]
fn variables_differ_by_rank_and_workers_by_variables() {
    let by_rank = |last: &str| format!("{SUM}env.NCCL_HOSTID = [\"a\", \"b\", \"{last}\"]\n");
    let runner = runner();
    assert_passes(&runner.run_case(&case("c", &by_rank("c"))));
    let first = runner.idle_workers();
    assert_passes(&runner.run_case(&case("c again", &by_rank("c"))));
    assert_eq!(runner.idle_workers(), first);
    assert_passes(&runner.run_case(&case("d", &by_rank("d"))));
    assert_eq!(runner.idle_workers().len(), 6, "another value is another worker");
    let environment = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    for (pid, value) in first.iter().zip(["a", "b", "c"]) {
        assert!(environment(*pid).contains(&format!("NCCL_HOSTID={value}\0")), "{}", environment(*pid));
    }
    let threads = runner.run_case(&case("threads", &by_rank("c").replace("processes", "threads")));
    assert_eq!(threads.status, Status::Skip);
    assert!(threads.reason.as_ref().is_some_and(|r| r.contains("needs placement = \"processes\"")), "{threads:?}");
}

#[test]
fn more_ranks_than_processes_allowed_are_a_skip() {
    let text =
        "world_size = 17\nplacement = \"processes\"\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = 1 }\n";
    let verdict = runner().run_case(&case("many", text));
    assert_eq!(verdict.status, Status::Skip);
    assert!(verdict.reason.as_ref().is_some_and(|r| r.contains("at most 16 processes")), "{:?}", verdict.reason);
}

#[test]
fn the_end_of_one_process_is_the_end_of_the_case() {
    let runner = runner();
    let exit = SLEEP.replace("op = \"sleep\", ranks = [1], seconds = 600", "op = \"exit\", ranks = [1]");
    let verdict = runner.run_case(&case("exit", &format!("outcome = \"crash\"\n{exit}")));
    assert_passes(&verdict);
    assert_eq!(verdict.outcome, Some(Outcome::Crash));
    assert!(runner.idle_workers().is_empty());
    assert_passes(&runner.run_case(&case("next", SUM)));
}

#[test]
fn a_process_killed_in_the_middle_costs_one_case_and_the_others_with_it() {
    let runner = runner();
    assert_passes(&runner.run_case(&case("before", SUM)));
    let pids = runner.idle_workers();
    let sleeping = case("killed", SLEEP);
    let verdict = std::thread::scope(|scope| {
        let run = scope.spawn(|| runner.run_case(&sleeping));
        wait_until("the ranks are in their program", || are_in_program(pids[0].cast_signed(), 3));
        kill(pids[2]);
        run.join().unwrap()
    });
    assert_eq!((verdict.status, verdict.outcome), (Status::Error, None), "{:?}", verdict.reason);
    let reason = verdict.reason.unwrap_or_default();
    assert!(reason.contains("the process of rank 2: signal 9 (SIGKILL)"), "{reason}");
    for pid in pids {
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid} lives");
    }
    assert_passes(&runner.run_case(&case("after", SUM)));
}

#[test]
fn a_process_killed_while_idle_is_replaced_in_silence() {
    let runner = runner();
    for victim in 0..3 {
        assert_passes(&runner.run_case(&case("first", SUM)));
        let pids = runner.idle_workers();
        kill(pids[victim]);
        assert_passes(&runner.run_case(&case("second", SUM)));
        assert!(runner.idle_workers().iter().all(|pid| !pids.contains(pid)));
    }
}

#[test]
fn an_error_of_one_process_stops_the_others_in_time() {
    let runner = runner();
    // of the others one sleeps and one waits
    let text = "world_size = 3\ntimeout = 900\nplacement = \"processes\"\noutcome = \"error\"\ninputs.x = { each = \"rank\", count = 1 }\n\
        steps = [\n{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"send\", ranks = [1], peer = 7, in = \"x\" },\n\
        { op = \"sleep\", ranks = [0], seconds = 600 },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";
    let verdict = runner.run_case(&case("error", text));
    assert_eq!(verdict.outcome, Some(Outcome::Error), "{:?}", verdict.reason);
    assert_passes(&verdict);
    assert!(runner.idle_workers().is_empty(), "nothing can be expected of them");
    assert_passes(&runner.run_case(&case("next", SUM)));
}

#[test]
#[ignore = "slow"]
fn a_hang_between_processes_is_ended_by_the_time_limit() {
    let runner = runner();
    let text = "world_size = 2\nplacement = \"processes\"\noutcome = \"hang\"\ninputs.x = { each = \"rank\", count = 4 }\n\
        steps = [\n{ op = \"recv\", peer = \"1 - rank\", out = \"y\" },\n{ op = \"send\", peer = \"1 - rank\", in = \"x\" } ]\n";
    for (name, more) in [("own", "timeout = 0.5\n"), ("foreseen", "")] {
        let begun = Instant::now();
        let verdict = runner.run_case(&case(name, &format!("{more}{text}")));
        assert_passes(&verdict);
        assert_eq!(verdict.outcome, Some(Outcome::Hang));
        assert!(begun.elapsed() >= Duration::from_millis(500));
    }
    assert!(runner.idle_workers().is_empty());
    assert_passes(&runner.run_case(&case("next", SUM)));
}

#[test]
fn the_option_places_what_a_file_leaves_open() {
    let open = SUM.replace("placement = \"processes\"\n", "");
    let with = |placement| Runner::soft(RunOptions { placement: Some(placement), ..options() }).unwrap();
    let count = |runner: &Runner, text: &str| {
        assert_passes(&runner.run_case(&case("case", text)));
        runner.idle_workers().len()
    };
    let processes = with(Placement::Processes);
    assert_eq!(count(&processes, &open), 3);
    assert_eq!(count(&with(Placement::OneThread), &open), 1);
    assert_eq!(count(&with(Placement::Threads), SUM), 3, "the file's own word goes first");
    let many = "world_size = 40\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = 1 }\n";
    assert_eq!(count(&processes, many), 4, "as in the file: one process more");
    let steps = "world_size = 2\ninputs.x = { each = \"rank\", count = 4 }\nsteps = [\n\
        { op = \"send\", ranks = [0], peer = 1, in = \"x\" },\n{ op = \"recv\", ranks = [1], peer = 0, out = \"y\" } ]\n";
    assert_eq!(count(&with(Placement::OneThread), steps), 1, "which one thread cannot do, so threads do it");
}
