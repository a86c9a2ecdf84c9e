//! Runs of which more was asked than that no case fails.
use crate::support::processes::wait_until;
use crate::support::{Home, SUM};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// A case that runs, and one that no library can run.
fn home() -> Home {
    let home = Home::new();
    home.file("scenarios/runs.toml", SUM);
    home.file("scenarios/skipped.toml", &format!("requires.nccl = \">=900.0\"\n{SUM}"));
    home
}

#[test]
fn skips_are_failures_where_cases_were_required() {
    let home = home();
    let code = |args: &[&str]| home.run(&[&["run", "--backend", "soft"], args].concat()).code;
    assert_eq!(code(&["scenarios"]), 0);
    assert_eq!(code(&["scenarios", "--at-least", "1"]), 0);
    assert_eq!(code(&["scenarios", "--at-least", "50%"]), 0);
    assert_eq!(code(&["scenarios", "--at-least", "2"]), 3);
    assert_eq!(code(&["scenarios/skipped.toml"]), 0);
    assert_eq!(code(&["scenarios/skipped.toml", "--require", "soft"]), 3);
    let none = home.run(&["run", "--backend", "soft", "scenarios", "--no-skips"]);
    assert_eq!(none.code, 3, "{none}");
    assert!(
        none.err.contains("1 of 2 cases ran, and all were required") && none.err.contains("needs NCCL >=900.0"),
        "{none}"
    );
}

/// What was done until an interrupt is reported whole.
#[test]
fn an_interrupted_run_reports_what_it_has_done() {
    let home = Home::new();
    let values: Vec<usize> = (0..500).collect();
    home.file(
        "scenarios/many.toml",
        &format!("world_size = 8\nop = \"all_reduce\"\nmatrix.k = {values:?}\ninputs = {{ each = \"rank + k\", count = 100000 }}\n"),
    );
    let mut command = home.command(&[
        "run",
        "scenarios",
        "--backend",
        "soft",
        "--format",
        "jsonl",
        "--output",
        "run.jsonl",
        "--format",
        "junit",
        "--output",
        "run.xml",
    ]);
    let mut run = command.process_group(0).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lines = || fs::read_to_string(home.path("run.jsonl")).unwrap_or_default().lines().count();
    wait_until("a case is done", || lines() > 1);
    let group = rustix::process::Pid::from_child(&run);
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130));
    let text = fs::read_to_string(home.path("run.jsonl")).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let done = lines.iter().filter(|line| line["status"] == "pass").count();
    assert!((1..500).contains(&done), "{done}");
    assert!(lines.last().unwrap().get("summary").is_some(), "{text}");
    let report = fs::read_to_string(home.path("run.xml")).unwrap();
    // A program that reads nothing else must not take it for green.
    assert_eq!(report.matches("<testcase ").count(), done + 1, "{report}");
    assert!(report.contains(&format!("{} of 500 cases were not run", 500 - done)), "{report}");
}

/// Reports that are read alone say what was required, and are not those of an earlier run.
#[test]
fn a_report_is_red_where_cases_were_required_or_nothing_began() {
    let home = home();
    let report = |args: &[&str]| {
        let options = ["run", "--backend", "soft", "--format", "junit", "--output", "run.xml"];
        let run = home.run(&[&options, args].concat());
        (run.code, fs::read_to_string(home.path("run.xml")).unwrap())
    };
    let (code, green) = report(&["scenarios"]);
    assert!(code == 0 && green.contains("errors=\"0\"") && !green.contains("<error"), "{green}");
    let (code, red) = report(&["scenarios", "--no-skips"]);
    assert!(code == 3 && red.contains("<error message=\"1 of 2 cases ran, and all were required\""), "{red}");
    report(&["scenarios"]);
    let (code, none) = report(&["scenarios", "--filter", "no case is called so"]);
    assert_eq!((code, none.as_str()), (2, ""));
    // A recording is kept to be compared with.
    home.file("kept.jsonl", "a recording\n");
    let missing = home.run(&[
        "run",
        "--backend",
        "soft",
        "--record",
        "kept.jsonl",
        "scenarios",
        "--filter",
        "no case is called so",
    ]);
    assert_eq!((missing.code, fs::read_to_string(home.path("kept.jsonl")).unwrap().as_str()), (2, "a recording\n"));
}
