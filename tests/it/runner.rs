//! Cases from text to verdict, on real worker processes.

use crate::step_words::are_in_program;
use crate::support::processes::wait_until;
use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_run::child::Workers;
use collspec_suite::suite::{RunOptions, Runner};
use std::num::NonZeroUsize;
use std::sync::Arc;

fn runner(jobs: usize) -> Runner {
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    Runner::soft(RunOptions { jobs: NonZeroUsize::new(jobs), workers: worker, ..RunOptions::default() }).unwrap()
}

fn cases(name: &str, text: &str) -> Vec<Arc<Case>> {
    let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: text.into() });
    parse(&file, name).unwrap_or_else(|faults| panic!("{faults}")).into_iter().map(Arc::new).collect()
}

fn case(name: &str, text: &str) -> Arc<Case> {
    cases(name, text).remove(0)
}

fn assert_passes(verdict: &Verdict) {
    assert_eq!(verdict.status, Status::Pass, "{}: {:?} {:?}", verdict.case, verdict.reason, verdict.findings);
}

const SUM: &str = "world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2], [3, 4]]\nexpect = [[4, 6], [4, 6]]\n";
/// The time limit is an hour, so only a proof of the standstill can end the case.
const HANG: &str = "world_size = 2\ntimeout = 3600\noutcome = \"hang\"\ninputs.x = { each = \"rank\", count = 4 }\nsteps = [\n\
    { op = \"send\", peer = \"1 - rank\", in = \"x\" },\n{ op = \"recv\", peer = \"1 - rank\", out = \"y\" } ]\n";

#[test]
fn a_case_passes_and_its_worker_is_kept() {
    let runner = runner(1);
    assert_passes(&runner.run_case(&case("sum", SUM)));
    let pids = runner.idle_workers();
    assert_eq!(pids.len(), 1);
    for i in 0..20 {
        assert_passes(&runner.run_case(&case(&format!("sum{i}"), SUM)));
    }
    assert_eq!(runner.idle_workers(), pids);
}

#[test]
fn a_wrong_expectation_fails_and_costs_no_worker() {
    let runner = runner(1);
    let verdict = runner.run_case(&case("wrong", &SUM.replace("[4, 6], [4, 6]", "[4, 6], [4, 7]")));
    assert_eq!((verdict.status, verdict.outcome), (Status::Fail, Some(Outcome::Ok)));
    assert_passes(&runner.run_case(&case("right", SUM)));
    assert_eq!(runner.idle_workers().len(), 1);
}

#[test]
fn a_hang_is_proved_at_once_and_named() {
    let runner = runner(1);
    for i in 0..10 {
        let verdict = runner.run_case(&case(&format!("hang{i}"), HANG));
        assert_passes(&verdict);
        assert_eq!(verdict.outcome, Some(Outcome::Hang));
    }
    assert!(runner.idle_workers().is_empty(), "a worker that hangs is not kept");
}

#[test]
fn eager_sends_make_it_finish() {
    let worker = Workers::Command(env!("CARGO_BIN_EXE_collspec").into());
    let runner = Runner::soft(RunOptions { eager: Some(1 << 20), workers: worker, ..RunOptions::default() }).unwrap();
    let verdict = runner.run_case(&case("eager", &HANG.replace("\"hang\"", "[\"hang\", \"ok\"]")));
    assert_passes(&verdict);
    assert_eq!(verdict.outcome, Some(Outcome::Ok));
}

#[test]
fn a_worker_killed_while_idle_is_replaced_in_silence() {
    let runner = runner(1);
    assert_passes(&runner.run_case(&case("first", SUM)));
    let pid = i32::try_from(runner.idle_workers()[0]).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), rustix::process::Signal::KILL).unwrap();
    assert_passes(&runner.run_case(&case("second", SUM)));
    assert_ne!(runner.idle_workers()[0], pid.unsigned_abs());
}

#[test]
fn a_worker_killed_in_the_middle_costs_one_case() {
    let runner = runner(1);
    let text = "world_size = 3\ntimeout = 900\ncomms.alone = { groups = [[0]] }\ninputs.x = [[1], [2], [3]]\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n\
        { op = \"all_reduce\", in = \"x\", out = \"z\", comm = \"alone\" },\n{ op = \"sleep\", seconds = 600 } ]\n";
    assert_passes(&runner.run_case(&case("before", SUM)));
    let pid = i32::try_from(runner.idle_workers()[0]).unwrap();
    let sleeping = case("killed", text);
    let verdict = std::thread::scope(|scope| {
        let run = scope.spawn(|| runner.run_case(&sleeping));
        // Only this case has a third rank.
        wait_until("the ranks are in their program", || are_in_program(pid, 3));
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        run.join().unwrap()
    });
    assert_eq!((verdict.status, verdict.outcome), (Status::Error, None), "it says nothing about the library");
    assert!(verdict.reason.as_ref().is_some_and(|r| r.contains("signal 9 (SIGKILL)")), "{:?}", verdict.reason);
    assert_passes(&runner.run_case(&case("after", SUM)));
}

#[test]
fn exit_is_a_crash_and_the_run_goes_on() {
    let runner = runner(1);
    let exit = "world_size = 2\noutcome = \"crash\"\ninputs.x = [[1], [2]]\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"exit\", ranks = [1] } ]\n";
    let verdict = runner.run_case(&case("exit", exit));
    assert_eq!(verdict.outcome, Some(Outcome::Crash), "{:?}", verdict.reason);
    assert_passes(&verdict);
    assert_passes(&runner.run_case(&case("next", SUM)));
}

#[test]
fn placements_repeat_environment_and_needs() {
    let runner = runner(1);
    assert_passes(&runner.run_case(&case("one", &format!("placement = \"one_thread\"\n{SUM}"))));
    assert_passes(&runner.run_case(&case("repeat", &format!("repeat = 5\n{SUM}"))));
    assert_passes(&runner.run_case(&case("tree", &format!("env.NCCL_ALGO = \"Tree\"\n{SUM}"))));
    for (text, reason) in [
        ("requires = { gpus = 2 }\n", "needs 2 GPUs"),
        ("requires = { nccl = \"<2.0\" }\n", "needs NCCL <2.0.0"),
        ("requires = { backend = \"nccl\" }\n", "needs the backend nccl"),
        ("env.NCCL_DEBUG = [\"INFO\", \"WARN\"]\n", "differs by rank"),
    ] {
        let verdict = runner.run_case(&case("skip", &format!("{text}{SUM}")));
        assert_eq!(verdict.status, Status::Skip, "{text}");
        assert!(verdict.reason.as_ref().is_some_and(|r| r.contains(reason)), "{:?}", verdict.reason);
    }
}

fn assert_fails_with(name: &str, text: &str, words: &str) {
    let verdict = runner(1).run_case(&case(name, text));
    assert_eq!(verdict.status, Status::Fail, "{name}");
    assert!(verdict.findings.iter().any(|f| f.text.contains(words)), "{name}: {:?}", verdict.findings);
}

#[test]
fn a_map_without_a_value_is_not_the_error_that_a_file_expects() {
    // The index hangs on a result with several right values, so that only the run can find it outside.
    let text = "world_size = 3\ninputs.x = { random = { seed = 1 }, count = 3 }\noutcome = \"error\"\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n\
        { op = \"map\", expr = \"x[floor(0 * y[0]) + 5 * rank]\", count = 1, out = \"z\" } ]\n";
    assert_fails_with("map", text, "outside the buffer");
    assert_fails_with("listed", &text.replace("\"error\"", "[\"error\", \"ok\"]"), "outside the buffer");
}

#[test]
fn an_assert_that_cannot_be_checked_fails() {
    let counted = |steps: &str, assert: &str| {
        format!(
            "world_size = 2\ncomms.c = {{ groups = [[0, 1]] }}\ninputs.x = {{ each = \"rank\", count = 2 }}\n\
             steps = [\n{steps}\n]\nassert = [\"{assert}\"]\n"
        )
    };
    let sum = "{ op = \"all_reduce\", in = \"x\", out = \"y\", comm = \"c\", name = \"a\" },";
    assert_passes(&runner(1).run_case(&case("counted", &counted(sum, "a.rounds == 2"))));
    let ended = format!("{sum} {{ op = \"destroy\", comm = \"c\" }}");
    assert_fails_with("ended", &counted(&ended, "a.rounds == 2"), "went with its communicator");
    let map = format!("{sum} {{ op = \"map\", expr = \"y\", out = \"z\", name = \"m\" }}");
    assert_fails_with("map", &counted(&map, "m.rounds + a.rounds == 2"), "not a call of the library");
    let apart = format!(
        "{sum} {{ op = \"map\", ranks = [0], expr = \"y\", out = \"p\" }}, \
         {{ op = \"map\", ranks = [1], expr = \"y\", out = \"q\" }}"
    );
    assert_fails_with("apart", &counted(&apart, "same(p, q) + 0 * a.sent"), "no rank has all that it names");
}

#[test]
fn a_program_that_is_no_worker_is_an_error_not_a_hang() {
    for program in ["/bin/true", "/nonexistent"] {
        let runner =
            Runner::soft(RunOptions { workers: Workers::Command(program.into()), ..RunOptions::default() }).unwrap();
        let verdict = runner.run_case(&case("none", SUM));
        assert_eq!(verdict.status, Status::Error);
        assert!(verdict.reason.as_ref().is_some_and(|r| r.contains(program)), "{:?}", verdict.reason);
    }
}

#[test]
fn a_thousand_ranks_from_text_to_verdict() {
    let text = "world_size = 1024\nop = \"all_reduce\"\ninputs = { each = \"rank % 7 + i\", count = 4 }\n";
    assert_passes(&runner(1).run_case(&case("large", text)));
}

/// Communicators of sixteen ranks are kept, a case with an error makes others by an equal prelude, and smaller cases follow.
#[test]
fn parent_and_worker_agree_on_the_communicators_that_are_kept() {
    let sum = |n: u32| {
        let text = format!("world_size = {n}\nop = \"all_reduce\"\ninputs = {{ each = \"rank\", count = 1 }}\n");
        case(&format!("sum{n}"), &text)
    };
    let error = "world_size = 16\nop = \"broadcast\"\nroot = 16\nerror = \"invalid_argument\"\n\
        inputs = { each = \"rank\", count = 1 }\n";
    for _ in 0..10 {
        let runner = runner(1);
        for case in [sum(16), case("error", error), sum(2), sum(3), sum(4)] {
            assert_passes(&runner.run_case(&case));
        }
        assert_eq!(runner.idle_workers().len(), 1);
    }
}

/// Sums on communicators that its steps make, split, destroy and abort, and on those that were there before.
const COMMS: &str = "world_size = 4\nrepeat = 4\nPLACEMENT\ncomms.c = { groups = [[0, 1], [2, 3]] }\n\
    comms.d = { groups = [[0, 1, 2, 3]] }\ninputs.x = { each = \"rank + i\", count = 3 }\nsteps = [\n\
    { op = \"all_reduce\", in = \"x\", out = \"a\", comm = \"c\" },\n\
    { op = \"finalize\", comm = \"c\" },\n{ op = \"destroy\", comm = \"c\" },\n\
    { op = \"split\", new = \"e\", comm = \"d\", color = \"rank % 2\" },\n\
    { op = \"all_reduce\", in = \"a\", out = \"b\", comm = \"e\" },\n\
    { op = \"destroy\", comm = \"d\" },\n\
    { op = \"init\", new = \"f\", groups = [[0, 1, 2, 3]] },\n\
    { op = \"all_reduce\", in = \"b\", out = \"y\", comm = \"f\" } ]\n";

#[test]
fn runs_that_make_and_end_communicators_each_have_their_own() {
    let runner = runner(1);
    for placement in ["", "placement = \"one_thread\"", "placement = \"processes\""] {
        let verdict = runner.run_case(&case("comms", &COMMS.replace("PLACEMENT", placement)));
        assert_passes(&verdict);
    }
    let error = "world_size = 2\nrepeat = 3\ncomms.c = { groups = [[0, 1]] }\ninputs.x = { each = \"rank\", count = 1 }\n\
        steps = [\n{ op = \"all_reduce\", in = \"x\", out = \"y\", comm = \"c\" },\n{ op = \"destroy\", comm = \"c\" },\n\
        { op = \"broadcast\", in = \"y\", out = \"z\", root = 9, error = \"invalid_argument\" } ]\n";
    assert_passes(&runner.run_case(&case("error", error)));
}

/// After a wrong result the next case makes new communicators, although the worker keeps an equal set: parent and worker must
/// both give the old set up.
#[test]
fn communicators_that_are_not_trusted_make_way_for_new_ones() {
    let runner = runner(1);
    let wide = "world_size = 3\nop = \"all_reduce\"\ninputs = { each = \"rank\", count = 1 }\n";
    assert_passes(&runner.run_case(&case("wide", wide)));
    let pids = runner.idle_workers();
    let wrong = case("wrong", &SUM.replace("[4, 6], [4, 6]", "[4, 6], [4, 7]"));
    for _ in 0..3 {
        assert_eq!(runner.run_case(&wrong).status, Status::Fail);
        assert_passes(&runner.run_case(&case("wide", wide)));
        assert_passes(&runner.run_case(&case("sum", SUM)));
    }
    // A failure on kept communicators is tried again in a second worker.
    assert!(runner.idle_workers().contains(&pids[0]), "nothing was wrong between parent and worker");
}

/// The abort comes long before the streams reach the aborted call, and an earlier step may write the buffer after the abort:
/// the buffer's contents are undefined.
#[test]
fn what_an_abort_ends_is_undefined_whatever_stood_before_it_on_the_stream() {
    let text = "world_size = 2\ncomms.a = { color = [0, 1] }\ninputs.x = { each = \"i\", count = 16 }\nsteps = [\n\
        { op = \"map\", expr = \"x + 1\", out = \"y\" },\n\
        { op = \"all_reduce\", in = \"x\", out = \"z\" },\n\
        { op = \"broadcast\", comm = \"a\", in = \"x\", out = \"y\" },\n\
        { op = \"abort\", comm = \"a\" },\n]\nmatrix.value = [77]\nexpect.y = { each = \"value\" }\n";
    let verdict = runner(1).run_case(&case("aborted", text));
    assert_passes(&verdict);
    assert!(verdict.notes.iter().any(|note| note.contains("is undefined and was not compared")), "{:?}", verdict.notes);
}
