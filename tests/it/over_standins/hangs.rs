//! A library that hangs fails the cases that it hangs in, wherever it hangs, and within the limits that were set.
use super::{library, run};
use crate::support::{Home, SUM};
use serde_json::Value;

/// A program that makes a communicator besides the world and does not destroy it. With two ranks it meets no fault of rank 2.
const SPLIT: &str = "inputs.x = { each = \"rank\", count = 2 }\nsteps = [\n\
    { op = \"split\", new = \"half\", color = \"0\" },\n\
    { op = \"all_reduce\", comm = \"half\", in = \"x\", out = \"y\" } ]\n";

/// Ends what hangs, and is many times what the cases need that do not; the other limit is never reached.
const LIMIT: &str = "3";
const NEVER: &str = "600";

/// Runs two cases of two ranks and between them one of three with this text, on a library whose rank 2 hangs, and gives the
/// case of three. The first limit is for that case, the second for all others.
fn case_of_three_ranks(fault: &str, text: &str, limits: [&str; 2], more: &[&str]) -> Value {
    let home = Home::new();
    home.file("scenarios/a.toml", SUM);
    home.file("scenarios/b.toml", &format!("world_size = 3\ntimeout = {}\n{text}", limits[0]));
    home.file("scenarios/c.toml", &format!("world_size = 2\n{SPLIT}"));
    let library = library(&home, "faulty", &format!("{fault}@2"));
    let args = ["run", "--format", "jsonl", "--timeout", NEVER, "--opening-timeout", limits[1]];
    let run = run(&home, 3, &library, &[&args, more].concat());
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((run.code, lines.len()), (1, 4), "three cases and the summary: {run}");
    let case = |name: &str| lines.iter().find(|line| line["case"] == name).unwrap().clone();
    for well in ["a", "c"] {
        assert_eq!(case(well)["status"], "pass", "{fault} meets no third rank in {well}: {run}");
    }
    case("b")
}

fn assert_hangs(verdict: &Value, words: &[&str]) {
    assert_eq!((&verdict["status"], &verdict["outcome"]), (&"fail".into(), &"hang".into()), "{verdict}");
    let reason = verdict["reason"].as_str().unwrap_or_default();
    for words in words {
        assert!(reason.contains(words), "{words:?} is not in {reason:?}");
    }
}

const REDUCE: &str = "op = \"all_reduce\"\ninputs = { each = \"rank\", count = 4 }\n";

#[test]
fn in_init() {
    std::thread::scope(|scope| {
        for placement in ["threads", "processes"] {
            scope.spawn(move || {
                let verdict = case_of_three_ranks("hang-init", REDUCE, [NEVER, LIMIT], &["--placement", placement]);
                assert_hangs(&verdict, &["hang while making communicators (not finished within the time limit): "]);
                assert_hangs(&verdict, &["rank 2 in ncclCommInitRank of communicator `world`"]);
            });
        }
    });
}

#[test]
fn in_a_collective() {
    let verdict = case_of_three_ranks("hang-collective", REDUCE, [LIMIT, NEVER], &[]);
    assert_hangs(&verdict, &["hang (not finished within the time limit): ", "rank 2 at step 1 (all_reduce)"]);
}

#[test]
fn in_synchronizing() {
    let verdict = case_of_three_ranks("hang-synchronize", REDUCE, [LIMIT, NEVER], &["--placement", "processes"]);
    assert_hangs(&verdict, &["hang (not finished within the time limit): ", "rank 2 at step 1 (all_reduce)"]);
}

#[test]
fn in_destroy() {
    let step = SPLIT.replace(" } ]", " },\n{ op = \"wait\" },\n{ op = \"destroy\", comm = \"half\" } ]");
    let verdict = case_of_three_ranks("hang-destroy", &step, [LIMIT, NEVER], &[]);
    assert_hangs(&verdict, &["hang (not finished within the time limit): ", "rank 2 at step 4 (destroy)"]);
}

#[test]
fn in_destroying_what_no_step_destroyed() {
    // a communicator that no step destroys is destroyed after the case, whose failure that is
    let verdict = case_of_three_ranks("hang-destroy", SPLIT, [NEVER, LIMIT], &[]);
    assert_hangs(&verdict, &["hang while destroying communicators (not finished within the time limit): rank 2"]);
}

#[test]
fn failing_to_destroy_communicators_fails_the_case_that_made_them() {
    for (fault, outcome, words) in [
        ("error-destroy=3", "error", "error while destroying communicators: rank 2: "),
        ("crash-destroy", "crash", "crash while destroying communicators: signal 11 (SIGSEGV)"),
    ] {
        let verdict = case_of_three_ranks(fault, SPLIT, [NEVER, NEVER], &[]);
        assert_eq!((&verdict["status"], &verdict["outcome"]), (&"fail".into(), &outcome.into()), "{verdict}");
        assert!(verdict["reason"].as_str().unwrap_or_default().contains(words), "{verdict}");
    }
}

#[test]
fn failing_to_destroy_kept_communicators_fails_no_case() {
    let home = Home::new();
    // the worker keeps two sets, so the third and fourth case push one out each
    for ranks in 2..=5 {
        let text = format!("world_size = {ranks}\n{REDUCE}");
        home.file(&format!("scenarios/ranks{ranks}.toml"), &text);
    }
    let library = library(&home, "faulty", "hang-destroy");
    let run = run(&home, 5, &library, &["run", "--timeout", NEVER, "--opening-timeout", LIMIT]);
    assert!(run.code == 0 && run.out.contains("4 passed"), "{run}");
}

/// Work that the library leaves on its own stream holds up the freeing of memory; the next case does not suffer.
#[test]
fn in_freeing_memory_and_streams() {
    let verdict = case_of_three_ranks("hang-default", REDUCE, [NEVER, LIMIT], &[]);
    assert_hangs(&verdict, &["hang while memory and streams were released"]);
}
