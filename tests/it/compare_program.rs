//! `collspec compare -- PROGRAM`: a program runs on two libraries, and what differs is told, call by call.
use crate::judge::{ALL, built, wrong};
use crate::support::{Home, Run};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Compares a scenario as the program, on the library as it is and on one with this fault.
fn compare(home: &Home, options: &[&str], text: &str, fault: &str, run_options: &[&str]) -> Run {
    home.file("program.toml", text);
    let folder = wrong(home);
    let library = format!("{folder}/libnccl.so.2");
    let candidate =
        if fault.is_empty() { library.clone() } else { format!("{library} COLLSPEC_STANDIN_FAULT={fault}") };
    let sides = ["compare", "--driver", "cuda", "--base", &library, "--candidate", &candidate];
    let reports = ["--format", "human", "--format", "jsonl", "--output", "report.json", "--"];
    let program = [env!("CARGO_BIN_EXE_collspec"), "run", "program.toml", "--nccl", &library, "--driver", &folder];
    fs::create_dir_all(home.path("tmp")).unwrap();
    let mut command = home.command(&[&sides, options, &reports, &program, run_options].concat());
    let run = Run::of(command.env("TMPDIR", home.path("tmp")));
    assert_eq!(fs::read_dir(home.path("tmp")).unwrap().count(), 0, "{run}");
    run
}

fn report(home: &Home) -> Value {
    serde_json::from_str(&fs::read_to_string(home.path("report.json")).unwrap()).unwrap()
}

#[test]
fn the_same_library_gives_the_same_calls_and_bits() {
    for placement in ["threads", "processes"] {
        let home = Home::new();
        let run = compare(&home, &[], ALL, "", &["--placement", placement]);
        assert_eq!(run.code, 0, "{run}");
        assert!(run.out.starts_with("Results: nothing got worse.\n"), "{run}");
        let report = report(&home);
        // 13 collectives, two groups of one, a message, and a graph that is launched three times; not as often as ranks make them.
        assert_eq!(report["calls"]["both"], 13 + 2 + 1 + 3, "{run}");
        assert_eq!(report["calls"]["compared"], report["calls"]["both"], "{run}");
        let differing = ["base_alone", "candidate_alone", "others", "other_inputs", "other_bits"];
        assert!(differing.iter().all(|kind| report["calls"][kind]["calls"] == 0), "{report:#}");
        assert_eq!(report["base"]["runs"].as_array().unwrap().len(), 2);
        // The program's own output is not among the report.
        assert!(!run.out.contains("program.toml") && run.err.contains("1 passed"), "{run}");
    }
}

#[test]
fn wrong_results_are_worse() {
    let home = Home::new();
    let run = compare(&home, &["--runs", "1"], ALL, "F01", &[]);
    assert_eq!(run.code, 1, "{run}");
    assert!(
        run.out.starts_with("Results: worse.\n  the program failed in 1 of 1 runs on the candidate alone\n"),
        "{run}"
    );
    assert!(run.out.contains("elements are wrong on the candidate, and none on the base"), "{run}");
    assert_eq!(report(&home)["verdict"], "worse");
}

/// Another order of a sum is right, and told with its call and the order; it is worse only if asked.
#[test]
fn other_bits_are_told_and_worse_only_if_asked() {
    let text = r#"world_size = 4
inputs.x = { random = { seed = 3 }, count = 100, dtype = "bf16" }
comms.again = { groups = [[0, 1, 2, 3]] }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_reduce", comm = "again", in = "x", out = "z" },
]"#;
    let home = Home::new();
    let run = compare(&home, &["--runs", "1"], text, "F89e", &[]);
    assert_eq!(run.code, 0, "{run}");
    let report = report(&home);
    assert_eq!(report["calls"]["other_bits"]["calls"], 1, "{run}");
    let first = report["calls"]["other_bits"]["first"].as_str().unwrap();
    assert!(first.contains(": all_reduce sum of "), "{first}");
    let orders = report["calls"]["orders"].as_str().unwrap();
    assert!(orders.starts_with("element ") && orders.contains("chain "), "{orders}");
    let run = compare(&home, &["--runs", "1", "--bits"], text, "F89e", &[]);
    assert!(run.code == 1 && run.out.contains("1 calls with the same inputs and other bits"), "{run}");
}

#[test]
#[ignore = "slow"]
fn a_program_that_hangs_on_the_candidate_is_ended_and_told() {
    let text = r#"world_size = 2
inputs.x = { each = "rank", count = 8 }
steps = [{ op = "all_reduce", in = "x", out = "y", times = 300 }]"#;
    let home = Home::new();
    let run = compare(&home, &["--runs", "1", "--timeout", "20"], text, "F37b", &["--timeout", "600"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(run.out.contains("not ended after 20 s"), "{run}");
    assert!(run.out.contains("the first call that had not ended: collective 255 of ranks [0, 1]: all_reduce"), "{run}");
}

/// Exit code 0 does not hide a call that never ended.
#[test]
#[ignore = "slow"]
fn a_program_that_gives_up_on_a_call_and_ends_well_is_no_success() {
    let home = Home::new();
    home.file(
        "program.toml",
        "world_size = 2\ninputs.x = { each = \"rank\", count = 8 }\nsteps = [{ op = \"all_reduce\", in = \"x\", out = \"y\", times = 300 }]\n",
    );
    let folder = wrong(&home);
    let library = format!("{folder}/libnccl.so.2");
    let candidate = format!("{library} COLLSPEC_STANDIN_FAULT=F37b");
    let collspec = env!("CARGO_BIN_EXE_collspec");
    let line = format!("timeout 20 {collspec} run program.toml --nccl {library} --driver {folder} --timeout 600; true");
    let sides = ["compare", "--runs", "1", "--driver", "cuda", "--base", &library, "--candidate", &candidate, "--"];
    let run = home.run(&[sides.as_slice(), &["sh", "-c", &line]].concat());
    assert_eq!(run.code, 4, "{run}");
    assert!(run.out.contains("calls had not ended on the candidate in any run, and at most 0 on the base"), "{run}");
    assert!(run.out.contains("the first call that had not ended: collective 255 of ranks [0, 1]"), "{run}");
}

/// All runs have the same input, and what the first one leaves behind does not disturb the second one.
#[test]
#[ignore = "slow"]
fn runs_are_alike_and_leave_nothing_behind() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let folder = wrong(&home);
    let library = format!("{folder}/libnccl.so.2");
    let sides = ["compare", "--runs", "1", "--driver", "cuda", "--base", &library, "--candidate", &library, "--"];
    let line = format!(
        "if read line; then exit 3; fi; ./program {folder} 2; setsid sleep 7781 & (sleep 1; ./program {folder} 3) & exit 0"
    );
    let run = home.run(&[sides.as_slice(), &["sh", "-c", &line]].concat());
    assert!(run.code == 0 && run.out.contains("5 calls are on both, 5 of them compared, 5 with"), "{run}");
    assert_eq!(run.err.matches("1 processes that the program had left behind were ended").count(), 2, "{run}");
}

/// A signal that ends the command also ends the program. The comparison then gives no verdict about the libraries.
#[test]
fn a_signal_ends_the_comparison_without_a_verdict() {
    let home = Home::new();
    let library = format!("{}/libnccl.so.2", wrong(&home));
    let sides = ["compare", "--driver", "cuda", "--base", &library, "--candidate", &library, "--"];
    let mut command = home.command(&[sides.as_slice(), &["sh", "-c", "echo begun >&2; exec sleep 60"]].concat());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap() == "begun"));
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    let told: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{told:?}");
    assert!(told.iter().any(|line| line.starts_with("collspec: interrupted")), "{told:?}");
}

/// A program of which nothing was seen is not one that got no worse.
#[test]
fn without_judged_calls_there_is_no_verdict() {
    let home = Home::new();
    let folder = wrong(&home);
    let library = format!("{folder}/libnccl.so.2");
    let run = home.run(&["compare", "--driver", "cuda", "--base", &library, "--candidate", &library, "--", "true"]);
    assert_eq!(run.code, 4, "{run}");
    assert!(run.out.starts_with("Results: no verdict.\n  no call of the base was judged\n"), "{run}");
    // A program that brings its own library and opens it by its path is not one on the candidate.
    if !built(&home) {
        return;
    }
    let other = home.path("other");
    fs::create_dir_all(&other).unwrap();
    fs::copy(fs::canonicalize(&library).unwrap(), other.join("libnccl.so.2")).unwrap();
    let other = other.join("libnccl.so.2").to_str().unwrap().to_owned();
    let sides = ["compare", "--runs", "1", "--driver", "cuda", "--base", &library, "--candidate", &other, "--"];
    let run = home.run(&[sides.as_slice(), &["./program", &folder, "3"]].concat());
    assert!(run.code == 4 && run.out.contains("the candidate's program calls "), "{run}");
}

#[test]
fn what_a_program_cannot_have_is_refused() {
    let home = Home::new();
    let refused = |options: &[&str], why: &str| {
        let run = home.run(&[&["compare"], options, &["--", "true"]].concat());
        assert!(run.code == 2 && run.err.contains(why), "{run}");
    };
    refused(&["--base", "soft", "--candidate", "soft"], "a program runs on an NCCL library");
    refused(&["--base", "2.30.7", "--candidate", "2.30.7 fault=F01"], "`fault` is a setting of cases");
    let of_cases: [&[&str]; 6] = [
        &["--filter", "x"],
        &["--at-least", "1"],
        &["--max-memory", "1GiB"],
        &["--quick"],
        &["--verbose"],
        &["--launcher", "none"],
    ];
    for options in of_cases {
        refused(&[&["--base", "2.30.7", "--candidate", "2.32.3"], options].concat(), "cannot be used with");
    }
    refused(
        &["--base", "2.30.7", "--candidate", "2.32.3", "--format", "junit", "--output", "x"],
        "human, markdown or jsonl",
    );
    let run = home.run(&["explore", "--filter", "x", "--", "true"]);
    assert!(run.code == 2 && run.err.contains("cannot be used with"), "{run}");
    for options in [["--backend", "soft"], ["--driver", "cuda"]] {
        let run = home.run(&[["explore"].as_slice(), &options, &["--", "true"]].concat());
        assert!(run.code == 2 && run.err.contains("a program runs on software GPUs"), "{run}");
    }
    let missing = ["compare", "--base", "/there/is/none.so", "--candidate", "/there/is/none.so", "--", "true"];
    let run = home.run(&missing);
    assert!(run.code == 3 && !run.err.contains("run 1 of"), "{run}");
}
