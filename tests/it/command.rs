//! The command, as people and scripts meet it.

use crate::step_words::wait_for_program;
use crate::support::processes::{Descendants, end_of};
use crate::support::{Home, Run, SUM, WRONG};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

#[test]
fn a_green_run_ends_with_zero_and_one_line() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["run"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.starts_with("1 passed, 0 failed, 0 skipped in "), "{run}");
    assert_eq!(run.out.lines().count(), 1, "{run}");
    assert_eq!(run.err.lines().count(), 1, "the banner and nothing else: {run}");
    assert!(run.err.starts_with(concat!("collspec ", env!("CARGO_PKG_VERSION"), ", backend soft")), "{run}");
}

#[test]
fn a_wrong_result_is_told_with_place_values_and_the_way_back() {
    let home = Home::new();
    home.file("my cases/it's wrong.toml", WRONG);
    let run = home.run(&["run", "my cases"]);
    assert_eq!(run.code, 1, "{run}");
    for words in [
        "FAIL it's wrong\n",
        "at my cases/it's wrong.toml:4:",
        "rank 1",
        "out[1]",
        "expect: rank 1: `out[1]` is 6, expected 7; 1 of 2 elements wrong\n",
        "expect = [[4, 6], [4, 7]]",
        "    the library's result is what the oracle expects; the expectation is probably wrong\n",
        "run it again: collspec run 'my cases/it'\\''s wrong.toml'\n",
        "0 passed, 1 failed, 0 skipped",
    ] {
        assert!(run.out.contains(words), "{words:?} is not in {run}");
    }
    // The command that was printed does what it says.
    let again = home.run(&["run", "my cases/it's wrong.toml"]);
    assert_eq!(again.code, 1, "{again}");
    assert!(again.out.contains("FAIL it's wrong"), "{again}");
}

#[test]
fn a_point_of_a_matrix_can_be_run_again_by_name() {
    let home = Home::new();
    home.file(
        "scenarios/deep/swept.toml",
        "matrix.k = [1, 16]\nworld_size = 2\nop = \"all_reduce\"\ninputs = { each = \"k\", count = 2 }\nassert = [\"out[0] == 2\"]\n",
    );
    let run = home.run(&["run"]);
    assert_eq!(run.code, 1, "{run}");
    let again = "collspec run scenarios/deep/swept.toml --exact --filter 'swept[k=16]'";
    assert!(run.out.contains(&format!("run it again: {again}\n")), "{run}");
    let run = home.run(&["run", "scenarios/deep/swept.toml", "--exact", "--filter", "swept[k=16]"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("0 passed, 1 failed"), "{run}");
    let run = home.run(&["run", "--filter", "k=1"]);
    assert!(run.out.contains("1 passed, 1 failed"), "a filter is part of a name: {run}");
    let run = home.run(&["run", "--exact", "--filter", "deep/swept[k=1]"]);
    assert_eq!(run.code, 0, "{run}");
}

#[test]
fn what_is_inherited_is_told_and_the_command_repeats_it() {
    let home = Home::new();
    home.file("it's/-x.toml", &format!("variants.\"a b\" = {{}}\n{WRONG}"));
    let mut command = home.command(&["run", "--seed", "3", "--eager", "64", "--", "-x.toml"]);
    command.current_dir(home.path("it's")).env("NCCL_ALGO", "Ring;allreduce:Tree");
    let run = Run::of(&mut command);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.err.trim_end().ends_with("; inherited: NCCL_ALGO='Ring;allreduce:Tree'"), "{run}");
    let again = run.out.lines().find_map(|line| line.trim().strip_prefix("run it again: ")).unwrap();
    assert!(
        again.starts_with("NCCL_ALGO='Ring;allreduce:Tree' collspec run ./-x.toml --seed 3 --eager 64 "),
        "{again}"
    );

    // A shell that knows where `collspec` is gets the same failure from it.
    let mut shell = Command::new("sh");
    shell.args(["-c", again]).current_dir(home.path("it's"));
    let folder = Path::new(env!("CARGO_BIN_EXE_collspec")).parent().unwrap();
    shell.env("PATH", format!("{}:/usr/bin:/bin", folder.display()));
    let second = Run::of(&mut shell);
    assert_eq!((second.code, &second.err), (1, &run.err), "{second}");
    assert!(second.out.contains(again), "{second}");
}

#[test]
fn json_lines_hold_what_the_interface_promises() {
    let home = Home::new();
    home.file("scenarios/a/sum.toml", SUM);
    home.file("scenarios/wrong.toml", WRONG);
    home.file("scenarios/skipped.toml", &format!("requires = {{ gpus = 64 }}\n{SUM}"));
    let begun = std::time::Instant::now();
    let run = home.run(&["run", "--format", "jsonl"]);
    let whole = begun.elapsed().as_secs_f64();
    assert_eq!(run.code, 1, "{run}");
    let mut lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["case"].as_str().unwrap_or_default().to_owned());
    let [summary, sum, skipped, wrong] = &lines[..] else { panic!("three cases and a summary, {run}") };

    let count = |name: &str| summary["summary"][name].as_u64();
    assert_eq!(["pass", "fail", "skip"].map(count), [Some(1); 3], "{summary}");

    assert_eq!(sum["case"], "a/sum");
    assert_eq!(sum["status"], "pass");
    assert_eq!(sum["backend"], "soft");
    assert_eq!(sum["outcome"], "ok");
    assert_eq!(sum["reason"], Value::Null);
    assert!(sum["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0 && seconds < whole), "{sum}");
    let wall = sum["wall_seconds"].as_f64();
    assert!(wall.is_some_and(|wall| wall < whole && Some(wall) >= sum["seconds"].as_f64()), "{sum}");
    assert_eq!(sum["outputs"], json!({"out": [[4.0, 6.0], [4.0, 6.0]]}));

    assert_eq!(wrong["status"], "fail");
    assert_eq!(wrong["outcome"], "ok");
    assert!(wrong["reason"].as_str().is_some_and(|reason| reason.contains("rank 1")), "{wrong}");

    assert_eq!(skipped["status"], "skip");
    assert_eq!(skipped["outcome"], Value::Null);
    assert!(skipped["reason"].as_str().is_some_and(|reason| reason.contains("GPU")), "{skipped}");
}

#[test]
fn a_report_can_go_to_a_file() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["run", "--format", "jsonl", "--output", "report.jsonl"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.starts_with("1 passed, 0 failed"), "the text is printed too: {run}");
    let report = std::fs::read_to_string(home.path("report.jsonl")).unwrap();
    assert_eq!(report.lines().count(), 2);
    let run = home.run(&["run", "--output", "report.txt"]);
    assert_eq!((run.code, run.out.as_str()), (0, ""), "{run}");
    assert!(std::fs::read_to_string(home.path("report.txt")).unwrap().starts_with("1 passed, 0 failed"));
    let run = home.run(&["run", "--output", "no/such/folder"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("cannot write no/such/folder"), "{run}");
}

#[test]
fn a_report_is_not_written_over_a_scenario_file() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/other.toml", SUM);
    std::os::unix::fs::symlink("scenarios/other.toml", home.path("link")).unwrap();
    std::fs::hard_link(home.path("scenarios/other.toml"), home.path("second")).unwrap();
    for command in ["run", "audit"] {
        for output in ["scenarios/sum.toml", "scenarios/../scenarios/other.toml", "link", "second"] {
            // One that the filter leaves out is a file of the run, too.
            let run = home.run(&[command, "--filter", "sum", "--output", output]);
            assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
            assert!(run.err.contains("the report would be written over scenarios/"), "{run}");
        }
    }
    for file in ["sum", "other"] {
        assert_eq!(std::fs::read_to_string(home.path(&format!("scenarios/{file}.toml"))).unwrap(), SUM);
    }
    let run = home.run(&["run", "scenarios/sum.toml", "--output", "link"]);
    assert_eq!(run.code, 0, "a file that is not read can be written: {run}");
}

#[test]
fn an_audit_whose_report_cannot_be_written_does_not_begin() {
    let home = Home::new();
    home.file("scenarios/wrong.toml", WRONG);
    let run = home.run(&["audit", "--output", "no/such/folder"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("cannot write no/such/folder") && !run.err.contains("wrong"), "{run}");
}

#[test]
fn the_command_names_its_own_option_for_a_limit() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    for (option, value) in [("--max-work", "10"), ("--max-memory", "10")] {
        let run = home.run(&["run", option, value]);
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains(&format!("`{option} ")) && !run.err.contains("COLLSPEC_MAX"), "{run}");
    }
}

#[test]
fn a_faulty_file_ends_the_run_before_it_begins() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file(
        "scenarios/typo.toml",
        "world_size = 2\nop = \"all_reduce\"\nredcue = \"max\"\ninputs = [[1], [2]]\nroto = 1\n",
    );
    home.file("scenarios/plan.toml", "world_size = 2\nop = \"broadcast\"\nroot = 5\ninputs = [[1], [2]]\n");
    let run = home.run(&["run"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    for words in ["redcue", "typo.toml:3:", "did you mean `reduce`", "roto", "typo.toml:5:", "nothing was run"] {
        assert!(run.err.contains(words), "{words:?} is not in {run}");
    }
    // What only planning can see is as much an error, and needs no worker either.
    std::fs::remove_file(home.path("scenarios/typo.toml")).unwrap();
    let run = home.run(&["run"]);
    assert_eq!((run.code, run.out.as_str()), (2, ""), "{run}");
    assert!(run.err.contains("plan.toml:3:") && run.err.contains("root 5"), "{run}");
    let check = home.run(&["check"]);
    assert_eq!(check.code, 2, "{check}");
    assert!(check.out.contains("scenarios/sum.toml: 1 case, completes\n"), "{check}");
}

/// Files that are made to be slow to refuse: each has its error thousands of times.
#[test]
#[ignore = "slow"]
fn files_with_thousands_of_mistakes_are_refused_in_few_words() {
    let home = Home::new();
    let axis = (0..300).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let step = |k: usize| format!("{{ op = \"broadcast\", root = \"a + 2\", in = \"x\", out = \"y{k}\" }},");
    let files = [
        (
            "root -1",
            format!(
                "world_size = 1024\nop = \"broadcast\"\nroot = -1\n\
                 inputs = {{ each = \"a\", count = 1 }}\nmatrix.a = [{axis}]\n"
            ),
        ),
        (
            "is not in the communicator",
            format!(
                "world_size = 2\ninputs.x = {{ each = \"a\", count = 1 }}\nsteps = [{}]\nmatrix.a = [{axis}]\n",
                (0..200).map(step).collect::<String>()
            ),
        ),
        (
            "more than 2000 parts",
            format!("world_size = 1024\nop = \"all_gather\"\ninputs = {{ text = \"{}\" }}\n", "{rank}".repeat(160_000)),
        ),
        ("more than 16384 steps", format!("world_size = 2\nsteps = [{}]\n", "{op=\"barrier\"},".repeat(60_000))),
    ];
    for (words, text) in files {
        home.file("bad.toml", &text);
        for command in ["run", "check"] {
            let run = home.run(&[command, "bad.toml"]);
            assert_eq!(run.code, 2, "{run}");
            assert!(run.err.contains(words) && run.err.len() < 100_000, "{words}: {run}");
        }
    }
}

#[test]
fn nothing_to_run_is_never_green() {
    let home = Home::new();
    std::fs::create_dir(home.path("scenarios")).unwrap();
    for args in [&["run"][..], &["check"], &["run", "elsewhere"], &["run", "--jobs", "0"], &["walk"], &[]] {
        let run = home.run(args);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{args:?} {run}");
        assert!(!run.err.is_empty());
    }
    home.file("scenarios/sum.toml", SUM);
    let run = home.run(&["run", "--filter", "product"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.err.contains("no case in scenarios has `product` in its name or as a tag"), "{run}");
}

#[test]
fn a_missing_backend_has_its_own_code() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    for args in [&["run", "--require", "nccl"][..], &["run", "--backend", "nccl"]] {
        let run = home.run(args);
        assert_eq!((run.code, run.out.as_str()), (3, ""), "{run}");
        assert!(run.err.contains("nccl is required but missing"), "{run}");
    }
    assert_eq!(home.run(&["run", "--require", "soft"]).code, 0);
}

#[test]
fn check_says_what_may_block_and_runs_nothing() {
    let home = Home::new();
    home.file(
        "scenarios/circle.toml",
        "world_size = 2\noutcome = [\"hang\", \"ok\"]\ninputs.x = [[1], [2]]\nsteps = [\n  \
         { op = \"send\", peer = \"1 - rank\", in = \"x\" },\n  { op = \"recv\", peer = \"1 - rank\", out = \"y\" },\n]\n",
    );
    let check = home.run(&["check", "scenarios/circle.toml"]);
    assert_eq!(check.code, 0, "{check}");
    assert!(check.out.starts_with("scenarios/circle.toml: 1 case, may block: rank "), "{check}");
    assert!(check.out.ends_with("\n1 file, 1 case: no errors\n"), "{check}");
    assert_eq!(check.out.lines().count(), 2, "{check}");
}

#[test]
fn check_does_not_say_that_calls_complete_which_do_not_match() {
    let home = Home::new();
    home.file(
        "scenarios/counts.toml",
        "world_size = 2\noutcome = \"hang\"\ninputs.x = { each = \"rank\", count = [4, 8] }\n\
         steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }]\n",
    );
    let check = home.run(&["check"]);
    let words = "scenarios/counts.toml: 1 case, how it ends is not defined: rank 0 calls AllReduce sum of 4 f32, but rank 1 calls";
    assert!(check.code == 0 && check.out.starts_with(words), "{check}");
    let lines = home.run(&["check", "--format", "jsonl"]);
    let summary: Value = serde_json::from_str(lines.out.trim_end()).unwrap();
    assert_eq!((&summary["complete"], &summary["undefined"]), (&json!(0), &json!(1)), "{lines}");
}

#[test]
fn check_counts_files_cases_forms_and_errors() {
    let home = Home::new();
    home.file("scenarios/sum.toml", &format!("forms = [\"sub\"]\nmatrix.dtype = [\"f32\", \"f64\"]\n{SUM}"));
    let run = home.run(&["check"]);
    assert!(run.out.ends_with("\n1 file, 4 cases (2 in forms): no errors\n"), "{run}");
    home.file("scenarios/typo.toml", "world_size = 2\nopp = \"all_reduce\"\ninputs = [[1], [2]]\n");
    home.file("scenarios/plan.toml", "world_size = 2\nop = \"broadcast\"\nroot = 5\ninputs = [[1], [2]]\n");
    let run = home.run(&["check"]);
    assert_eq!(run.code, 2, "{run}");
    assert!(run.out.ends_with("\n3 files: errors in 2; 4 cases (2 in forms) in the others\n"), "{run}");
    let run = home.run(&["check", "scenarios/typo.toml"]);
    assert_eq!((run.code, run.out.as_str()), (2, "1 file: errors in it\n"), "{run}");
}

#[test]
fn check_has_its_diagnostics_as_json() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    home.file("scenarios/typo.toml", "world_size = 2\nop = \"all_reduce\"\nredcue = \"max\"\ninputs = [[1], [2]]\n");
    home.file(
        "scenarios/plan.toml",
        "matrix.k = [0, 5]\nworld_size = 2\nop = \"broadcast\"\nroot = \"k\"\ninputs = [[1], [2]]\n",
    );
    let run = home.run(&["check", "--format", "jsonl"]);
    assert_eq!((run.code, run.err.as_str()), (2, ""), "{run}");
    let lines: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let [diagnostics @ .., summary] = &lines[..] else { panic!("{run}") };
    let of = |file: &str| diagnostics.iter().find(|line| line["file"] == file).unwrap_or_else(|| panic!("{run}"));
    let typo = of("scenarios/typo.toml");
    assert_eq!((&typo["kind"], &typo["line"], &typo["column"]), (&json!("diagnostic"), &json!(3), &json!(1)), "{run}");
    assert!(typo["message"].as_str().is_some_and(|words| words.contains("redcue")), "{run}");
    assert!(typo["help"].as_str().is_some_and(|words| words.contains("reduce")), "{run}");
    assert_eq!(typo["case"], Value::Null);
    let plan = of("scenarios/plan.toml");
    assert_eq!((&plan["line"], &plan["column"], &plan["case"]), (&json!(4), &json!(8), &json!("plan[k=5]")), "{run}");
    let numbers = ["files", "invalid_files", "diagnostics", "cases", "forms", "complete"].map(|name| &summary[name]);
    assert_eq!(
        (&summary["kind"], numbers),
        (&json!("summary"), [3, 2, 2, 1, 0, 1].map(|n| json!(n)).each_ref()),
        "{run}"
    );
}

/// Two communicators of the same ranks, used in another order on rank 1, on streams that nothing orders.
const OTHER_ORDER: &str = "world_size = 2\ncomms.a = { groups = [[0, 1]] }\ncomms.b = { groups = [[0, 1]] }\n\
    inputs.x = { each = \"rank\", count = 4 }\nsteps = [\n\
    { op = \"all_reduce\", comm = \"a\", ranks = [0], in = \"x\", out = \"y\", stream = \"first\" },\n\
    { op = \"all_reduce\", comm = \"b\", in = \"x\", out = \"z\", stream = \"second\" },\n\
    { op = \"all_reduce\", comm = \"a\", ranks = [1], in = \"x\", out = \"y\", stream = \"first\" },\n]\n";

#[test]
fn collectives_of_two_communicators_in_different_orders_are_warned_of() {
    let home = Home::new();
    home.file("scenarios/order.toml", OTHER_ORDER);
    home.file("scenarios/first.toml", &OTHER_ORDER.replace("ranks = [0], ", "").replace(", ranks = [1]", ""));
    let check = home.run(&["check", "scenarios/order.toml"]);
    assert_eq!(check.code, 0, "{check}");
    assert!(check.err.contains("warning: rank 0 issues step 1 (all_reduce) on `a` before step 2"), "{check}");
    assert!(check.out.contains("completes"), "{check}");
    let lines = home.run(&["check", "--format", "jsonl", "scenarios/order.toml"]);
    assert!(lines.out.contains("{\"kind\":\"warning\",\"file\":\"scenarios/order.toml\",\"line\":7,"), "{lines}");
    assert!(lines.out.contains("\"warnings\":1,"), "{lines}");
    let run = home.run(&["run", "--format", "jsonl", "scenarios/order.toml"]);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("{\"warnings\":{\"file\":\"scenarios/order.toml\""), "{run}");
    let check = home.run(&["check", "scenarios/first.toml"]);
    assert!(check.code == 0 && !check.err.contains("warning"), "{check}");
}

#[test]
fn a_killed_worker_costs_one_case() {
    let home = Home::new();
    for name in ["a", "b", "y", "z"] {
        home.file(&format!("scenarios/{name}.toml"), SUM);
    }
    home.file(
        "scenarios/m.toml",
        "world_size = 3\ntimeout = 900\ninputs.x = [[1], [2], [3]]\nsteps = [\n  { op = \"sleep\", seconds = 600 },\n  \
         { op = \"all_reduce\", in = \"x\", out = \"sum\" },\n]\n",
    );
    let mut command = home.command(&["run", "--jobs", "1", "--format", "jsonl"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let before: Vec<Value> = lines.by_ref().take(2).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!([&before[0]["case"], &before[1]["case"]], ["a", "b"]);
    // Only case `m` has a third rank.
    for worker in wait_for_program(&mut run, 3, 1) {
        assert!(worker.signal(Signal::KILL));
    }
    let mut after: Vec<Value> = lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    let summary = after.pop().unwrap();
    assert_eq!((&summary["summary"]["pass"], &summary["summary"]["not_run"]), (&json!(4), &json!(1)), "{summary}");
    let status = run.wait().unwrap();
    let mut words = String::new();
    run.stderr.take().unwrap().read_to_string(&mut words).unwrap();

    let verdicts: Vec<_> =
        after.iter().map(|line| (line["case"].as_str().unwrap(), line["status"].as_str().unwrap())).collect();
    assert_eq!(verdicts, [("m", "error"), ("y", "pass"), ("z", "pass")], "{words}");
    assert_eq!(after[0]["outcome"], Value::Null);
    assert!(after[0]["reason"].as_str().is_some_and(|reason| reason.contains("SIGKILL")), "{}", after[0]);
    assert_eq!(status.code(), Some(2));
}

#[test]
fn workers_end_with_their_parent() {
    let home = Home::new();
    home.file(
        "scenarios/m.toml",
        "world_size = 2\ntimeout = 900\ninputs.x = [[1], [2]]\nsteps = [\n  { op = \"sleep\", seconds = 600 },\n  \
         { op = \"all_reduce\", in = \"x\", out = \"sum\" },\n]\n",
    );
    let (mut run, descendants) =
        Descendants::of(&home.command(&["run"]), |command| _ = command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for_program(&mut run, 2, 1);
    run.kill().unwrap();
    run.wait().unwrap();
    descendants.wait_for_end();
}

#[test]
fn a_forged_worker_variable_ends_the_process() {
    let home = Home::new();
    home.file("scenarios/sum.toml", SUM);
    for value in ["1", "0", "x", "999999"] {
        let mut command = home.command(&["run"]);
        let mut run = command.env("COLLSPEC_WORKER", value).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        assert_ne!(end_of(&mut run).code(), Some(0), "{value}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_run_quietly() {
    let home = Home::new();
    for index in 0..40 {
        home.file(&format!("scenarios/c{index}.toml"), SUM);
    }
    let mut command = home.command(&["run", "--format", "jsonl"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(run.stdout.take());
    let mut words = String::new();
    run.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(141), "as a shell reports for what SIGPIPE ends");
    assert_eq!(words.lines().count(), 1, "the banner: {words}");
}
