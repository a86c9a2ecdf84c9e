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

/// A library's fault, the program that meets it, the limits of [`case_of_three_ranks`], further options and what the report says.
type Hang<'a> = (&'a str, &'a str, [&'a str; 2], &'a [&'a str], &'a [&'a str]);

#[test]
#[ignore = "slow"]
fn wherever_a_library_hangs_the_limit_ends_it_and_the_report_says_where() {
    let destroyed = SPLIT.replace(" } ]", " },\n{ op = \"wait\" },\n{ op = \"destroy\", comm = \"half\" } ]");
    let init: &[&str] = &[
        "hang while making communicators (not finished within the time limit): ",
        "ranks 0 to 2 in ncclCommInitRank of communicator `world`",
    ];
    let step: &[&str] = &["hang (not finished within the time limit): ", "ranks 0 to 2 at step 1 (all_reduce)"];
    let processes: &[&str] = &["--placement", "processes"];
    let hangs: [Hang<'_>; 7] = [
        ("hang-init", REDUCE, [NEVER, LIMIT], &["--placement", "threads"], init),
        ("hang-init", REDUCE, [NEVER, LIMIT], processes, init),
        ("hang-collective", REDUCE, [LIMIT, NEVER], &[], step),
        ("hang-synchronize", REDUCE, [LIMIT, NEVER], processes, step),
        (
            "hang-destroy",
            &destroyed,
            [LIMIT, NEVER],
            &[],
            &["hang (not finished within the time limit): ", "rank 2 at step 4 (destroy)"],
        ),
        // A communicator that no step destroys is destroyed after the case, which fails then.
        (
            "hang-destroy",
            SPLIT,
            [NEVER, LIMIT],
            &[],
            &["hang while destroying communicators (not finished within the time limit): rank 2"],
        ),
        // Work that the library leaves on its own stream holds up the freeing of memory.
        ("hang-default", REDUCE, [NEVER, LIMIT], &[], &["hang while memory and streams were released"]),
    ];
    // All at once, because each waits for its limit.
    std::thread::scope(|scope| {
        for (fault, program, limits, options, words) in hangs {
            scope.spawn(move || assert_hangs(&case_of_three_ranks(fault, program, limits, options), words));
        }
    });
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
#[ignore = "slow"]
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

/// The host has issued all steps; what is stuck is the first operation that the device has not ended.
#[test]
fn the_place_of_a_hang_is_the_first_unfinished_operation_of_the_streams() {
    let home = Home::new();
    home.file(
        "scenarios/a.toml",
        "world_size = 3\ntimeout = 3\ninputs.x = { each = \"rank + i\", count = 100 }\nsteps = [\n\
         { op = \"map\", expr = \"x + 1\", out = \"y\" },\n\
         { op = \"all_reduce\", in = \"y\", out = \"a\" },\n\
         { op = \"all_gather\", in = \"x\", out = \"b\", stream = \"other\" },\n\
         { op = \"group\", steps = [{ op = \"broadcast\", root = 2, in = \"x\", out = \"c\" }] },\n]\n",
    );
    let library = library(&home, "faulty", "hang-synchronize@1");
    for placement in ["threads", "processes"] {
        let run = run(&home, 3, &library, &["run", "--format", "jsonl", "--placement", placement]);
        let line = run.out.lines().next().unwrap_or_default();
        let case: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {run}"));
        assert_hangs(&case, &["hang (not finished within the time limit): ranks 0 to 2 at step 2 (all_reduce)"]);
        assert_eq!(
            (&case["findings"][0]["step"], &case["findings"][0]["place"]["line"]),
            (&"step 2 (all_reduce)".into(), &6.into())
        );
    }
}
