//! A job of several processes of which some end before the run is over.
use crate::support::jobs::{Ended, Job, LONG};
use crate::support::processes::{Process, children, wait_until};
use crate::support::{Home, SUM};
use rustix::process::Signal;
use std::fs;

/// Takes long enough to lose a process in it, and can be run again as a whole.
const FEW_SECONDS: &str =
    "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\nrepeat = 3000\ntimeout = 600\n";

/// True if a part that this process has started is at work: a case that loses a part before that goes to other processes.
fn runs_a_rank(process: u32) -> bool {
    let threads = |pid: i32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let is_rank = |thread: fs::DirEntry| {
        fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.starts_with("rank "))
    };
    children(process).into_iter().any(|pid| threads(pid).any(is_rank))
}

/// True if no thread of a process executes, because a signal has stopped it.
fn is_stopped(process: i32) -> bool {
    let mut threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads
        .all(|thread| fs::read_to_string(thread.unwrap().path().join("stat")).is_ok_and(|stat| stat.contains(") T ")))
}

#[test]
fn a_process_that_is_killed_costs_its_case_and_is_named() {
    let home = Home::new();
    home.file("cases/a.toml", LONG);
    home.file("cases/b.toml", SUM);
    let args = ["run", "cases", "--jobs", "1", "--verbose", "--timeout", "600"];
    for victim in [0, 1] {
        let job = Job::start(&home, 3, &args, |rank, command| {
            command.env("NCCL_HOSTID", format!("m{rank}"));
        });
        wait_until("the second process's part runs a rank", || runs_a_rank(job.children[1].0.id()));
        Process::find(job.children[victim].0.id().cast_signed()).unwrap().signal(rustix::process::Signal::KILL);
        let ended = job.end(&home);
        let words = format!("{:?} {:?} {:?}", ended.codes, ended.out, ended.err);
        assert_eq!(ended.codes[victim], -1, "{words}");
        if victim == 0 {
            assert_eq!(ended.codes[1..], [2, 2], "{words}");
            assert!(ended.err[1].contains("the leading process has gone"), "{words}");
        } else {
            assert!(ended.out[0].contains("rank 1 on m1"), "{words}");
            assert!(ended.out[0].contains("1 passed, 1 failed"), "the other case runs on the third process: {words}");
            assert_eq!((ended.codes[0], ended.codes[2]), (1, 1), "{words}");
        }
    }
}

/// Three processes on two machines; the second machine's is killed once it has a part of a case.
fn lose_the_second_machine(home: &Home, args: &[&str]) -> Ended {
    let job = Job::start(home, 3, args, |rank, command| {
        command.env("NCCL_HOSTID", if rank < 2 { "m0" } else { "m1" });
    });
    let victim = job.children[2].0.id();
    wait_until("the part on the second machine runs a rank", || runs_a_rank(victim));
    Process::find(victim.cast_signed()).unwrap().signal(rustix::process::Signal::KILL);
    job.end(home)
}

#[test]
fn what_needs_a_machine_that_is_lost_is_not_run() {
    let home = Home::new();
    home.file("cases/a.toml", LONG);
    home.file("cases/b.toml", &format!("{SUM}requires = {{ nodes = 2 }}\n"));
    home.file("cases/c.toml", SUM);
    let ended = lose_the_second_machine(&home, &["run", "cases", "--jobs", "1", "--verbose", "--timeout", "600"]);
    let words = format!("{:?} {:?} {:?}", ended.codes, ended.out, ended.err);
    assert!(ended.out[0].contains("1 passed, 1 failed, 0 skipped, 1 not run"), "{words}");
    assert!(ended.out[0].contains("not run, because the job broke: rank 2 on m1 is lost"), "{words}");
    assert!(!ended.out[0].contains("only after"), "the lost process is the cause: {words}");
}

#[test]
#[ignore = "slow"]
fn a_comparison_in_which_a_process_is_lost_has_no_verdict() {
    let home = Home::new();
    home.file("long.toml", FEW_SECONDS);
    let args = ["compare", "--base", "soft", "--candidate", "soft", "long.toml", "--no-footprint", "--timeout", "600"];
    let args: Vec<&str> = args.into_iter().chain(["--starts", "0", "--repeats", "0", "--runs", "1"]).collect();
    let ended = lose_the_second_machine(&home, &args);
    assert_eq!(ended.codes[..2], [4, 4], "{:?} {:?}", ended.out, ended.err);
    assert!(ended.out[0].contains("did not run on the same processes"), "{:?}", ended.out);
}

#[test]
fn all_processes_that_are_lost_at_once_are_named() {
    let home = Home::new();
    let long = LONG.replace("world_size = 2", "world_size = 4").replace("[3, 4]]", "[3, 4], [5, 6], [7, 8]]");
    home.file("cases/a.toml", &long);
    home.file("cases/b.toml", &long);
    let args = ["run", "cases", "--jobs", "1", "--verbose", "--timeout", "600"];
    let job = Job::start(&home, 4, &args, |rank, command| {
        command.env("NCCL_HOSTID", if rank == 0 { "m0" } else { "m1" });
    });
    let process = |rank: usize| Process::find(job.children[rank].0.id().cast_signed()).unwrap();
    wait_until("the parts on the other machine run ranks", || {
        (1..4).all(|rank| runs_a_rank(job.children[rank].0.id()))
    });
    // While the leader does not look, a machine goes with all that runs on it.
    let leader = process(0);
    leader.signal(Signal::STOP);
    wait_until("the leader stands still", || is_stopped(leader.pid));
    for rank in 1..4 {
        let lost = process(rank);
        lost.signal(Signal::KILL);
        lost.wait_for_end();
    }
    leader.signal(Signal::CONT);
    let ended = job.end(&home);
    let words = format!("{:?} {:?} {:?}", ended.codes, ended.out, ended.err);
    assert!(ended.out[0].contains("0 passed, 1 failed, 0 skipped, 1 not run"), "{words}");
    for rank in 1..4 {
        let case = ended.out[0].lines().find(|line| line.contains("lost too")).unwrap_or_default();
        assert!(case.contains(&format!("rank {rank} on m1")), "rank {rank}: {words}");
    }
    let broke = "not run, because the job broke: rank 1 on m1, rank 2 on m1 and rank 3 on m1 are lost";
    assert!(ended.out[0].contains(broke), "{words}");
}

/// Two processes of which the second is killed while the leading one runs what needs itself alone.
fn lose_the_idle_process(home: &Home, args: &[&str]) -> Ended {
    let job = Job::start(home, 2, args, |rank, command| {
        command.env("NCCL_HOSTID", format!("m{rank}"));
    });
    let (leader, idle) = (job.children[0].0.id(), job.children[1].0.id());
    wait_until("the leading process runs a rank", || runs_a_rank(leader));
    let idle = Process::find(idle.cast_signed()).unwrap();
    idle.signal(Signal::KILL);
    job.end(home)
}

#[test]
fn what_needs_a_process_that_is_lost_between_cases_is_not_run() {
    let home = Home::new();
    home.file("cases/a.toml", &LONG.replace("world_size = 2", "world_size = 1").replace(", [3, 4]]", "]"));
    home.file("cases/b.toml", SUM);
    home.file("cases/c.toml", "world_size = 3\nop = \"all_gather\"\ninputs = [[1], [2], [3]]\n");
    let ended = lose_the_idle_process(&home, &["run", "cases", "--jobs", "1", "--verbose", "--timeout", "600"]);
    let words = format!("{:?} {:?} {:?}", ended.codes, ended.out, ended.err);
    assert_eq!(ended.codes[0], 2, "{words}");
    assert!(ended.out[0].contains("1 passed, 0 failed, 1 skipped, 1 not run"), "what never fitted is skipped: {words}");
    assert!(ended.out[0].contains("not run, because the job broke: rank 1 on m1 is lost: it has ended"), "{words}");
    assert!(ended.err[0].contains("collspec: rank 1 on m1 is lost: it has ended"), "{words}");
}

#[test]
fn a_process_that_is_lost_between_rows_fails_those_that_need_it() {
    let home = Home::new();
    let args = "bench all_reduce -b 8 -e 8 -g 1,2 -n 100000 -w 0 --samples 2 -T 600";
    let ended = lose_the_idle_process(&home, &args.split(' ').collect::<Vec<_>>());
    let words = format!("{:?} {:?} {:?}", ended.codes, ended.out, ended.err);
    assert_eq!(ended.codes[0], 1, "{words}");
    assert!(ended.out[0].contains("# all_reduce, 1 ranks"), "what was measured is reported: {words}");
    assert!(ended.out[0].contains("Out of bounds values : 0 FAILED"), "{words}");
    assert!(ended.out[0].contains("not run, because the job broke: rank 1 on m1 is lost"), "{words}");
}
