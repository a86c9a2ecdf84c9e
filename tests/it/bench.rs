//! `collspec bench`: what it measures, writes and refuses.
use crate::step_words::wait_for_program;
use crate::support::{Home, Run, SUM};
use serde_json::Value;

const QUICK: [&str; 8] = ["--backend", "soft", "--samples", "2", "-n", "3", "-w", "1"];

fn bench(home: &Home, args: &[&str]) -> Run {
    home.run(&[&["bench"], args, &QUICK].concat())
}

/// The lines of the table that are rows, in columns.
fn rows(run: &Run) -> Vec<Vec<&str>> {
    let lines = run.out.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().collect()).collect()
}

#[test]
fn a_sweep_has_the_rows_and_columns_of_nccl_tests_and_all_is_verified() {
    let home = Home::new();
    let run = bench(&home, &["all_reduce", "-b", "8", "-e", "1K", "-f", "4", "-g", "2", "-J", "out.json"]);
    assert_eq!(run.code, 0, "{run}");
    let rows = rows(&run);
    let sizes: Vec<&str> = rows.iter().map(|row| row[0]).collect();
    assert_eq!(sizes, ["8", "32", "128", "512"], "{run}");
    for row in &rows {
        assert_eq!(row.len(), 13, "{run}");
        assert_eq!((row[2], row[3], row[4], row[8], row[12]), ("float", "sum", "-1", "0", "0"), "{run}");
        assert!(row[5].parse::<f64>().unwrap() > 0.0 && row[9].parse::<f64>().unwrap() > 0.0, "{run}");
    }
    assert!(run.out.contains("# Avg bus bandwidth    : "), "{run}");
    assert!(run.out.contains("# Samples of all_reduce, sum, float, 2 ranks, in place"), "{run}");
    let file: Value = serde_json::from_slice(&std::fs::read(home.path("out.json")).unwrap()).unwrap();
    let results = file["results"].as_array().unwrap();
    assert_eq!(results.len(), 4);
    assert_eq!(results[3]["size"], 512);
    assert_eq!(results[3]["out_of_place"]["nwrong"], 0);
    let samples = results[0]["collspec"]["in_place"]["samples_us"].as_array().unwrap();
    assert!(samples.len() == 2 && samples.iter().all(|time| time.as_f64().unwrap() > 0.0), "{samples:?}");
    assert!(file["nccl_version"].as_i64().unwrap() > 20_000);
    assert_eq!(file["config"]["devices"].as_array().unwrap().len(), 2);
}

#[test]
fn every_operation_type_and_reduction_can_be_measured() {
    let home = Home::new();
    let operations =
        ["reduce", "broadcast", "all_gather", "gather", "reduce_scatter", "scatter", "alltoall_perf", "sendrecv"];
    let sizes =
        ["-b", "256", "-e", "256", "-g", "3", "-r", "2", "-o", "all", "-d", "half,f8e5m2,uint8", "--format", "json"];
    let run = bench(&home, &[&operations[..], &sizes].concat());
    assert_eq!(run.code, 0, "{run}");
    let file: Value = serde_json::from_str(&run.out).unwrap();
    let results = file["results"].as_array().unwrap();
    // 2 reduce, with 6 reductions each; 6 do not; 3 types each
    assert_eq!(results.len(), 3 * (2 * 6 + 6), "{run}");
    for result in results {
        assert_eq!(result["out_of_place"]["nwrong"], 0, "{result}");
        let moves = ["all_to_all", "send_recv"].contains(&result["experiment_name"].as_str().unwrap());
        assert_eq!(result["in_place"].is_null(), moves, "{result}");
    }
}

/// A wrong result is counted, said and an exit code; with `-c 0` nothing is looked at.
#[test]
fn a_wrong_result_is_counted_and_fails() {
    let home = Home::new();
    let wrong = ["all_reduce", "-b", "68", "-e", "68", "-g", "2", "--place", "out", "--fault", "F01b"];
    let run = bench(&home, &wrong);
    assert_eq!(run.code, 1, "{run}");
    let row = rows(&run).remove(0);
    assert!(row[8].parse::<u64>().unwrap() > 0, "{run}");
    assert!(run.out.contains("# FAILED all_reduce, sum, float, 2 ranks, out of place, 68 bytes: "), "{run}");
    assert!(run.out.contains("with the deliberate fault F01b"), "{run}");
    assert!(run.out.contains("FAILED\n# Avg bus bandwidth"), "{run}");
    let blind = bench(&home, &[&wrong[..], &["-c", "0"]].concat());
    assert_eq!((blind.code, rows(&blind)[0][8]), (0, "N/A"), "{blind}");
}

#[test]
fn algorithms_and_protocols_have_rows_of_their_own() {
    let home = Home::new();
    let run = bench(&home, &["all_reduce", "-b", "64", "-e", "64", "--algo", "auto,Ring,Tree", "--place", "in"]);
    assert_eq!(run.code, 0, "{run}");
    for part in [
        "# all_reduce, 4 ranks\n",
        "# all_reduce, 4 ranks, NCCL_ALGO=Ring\n",
        "# all_reduce, 4 ranks, NCCL_ALGO=Tree\n",
    ] {
        assert!(run.out.contains(part), "{part:?} is not in {run}");
    }
    assert_eq!(rows(&run).len(), 3);
}

#[test]
fn a_file_says_what_is_measured_and_the_command_line_what_else() {
    let home = Home::new();
    let table = "[bench]\nbytes = { from = 64, to = \"1KiB\", factor = 4 }\nin_place = false\ndtype = [\"f16\", \"f32\"]\nsamples = 2\niterations = 3\nwarm_up = 0\n";
    home.file("s/sum.toml", &format!("{SUM}{table}"));
    home.file("s/plain.toml", SUM);
    let run = home.run(&["bench", "s", "--backend", "soft"]);
    assert_eq!(run.code, 0, "{run}");
    let seen: Vec<String> = rows(&run).iter().map(|row| format!("{} {}", row[0], row[2])).collect();
    assert_eq!(seen, ["64 half", "256 half", "1024 half", "64 float", "256 float", "1024 float"], "{run}");
    assert!(run.out.contains("# 2 samples, each the median of 3 iterations"), "{run}");
    let other =
        home.run(&["bench", "s/sum.toml", "-b", "32", "-e", "32", "-g", "3", "-d", "int8", "--backend", "soft"]);
    assert_eq!((other.code, rows(&other).len()), (0, 1), "{other}");
    assert!(other.out.contains("# all_reduce, 3 ranks"), "{other}");
    // The table is nothing to `run`.
    assert_eq!(home.run(&["run", "s"]).code, 0);
    let none = home.run(&["bench", "s/plain.toml"]);
    assert_eq!(none.code, 2, "{none}");
    assert!(none.err.contains("has a table `[bench]`"), "{none}");
}

#[test]
fn what_cannot_be_measured_says_why() {
    let home = Home::new();
    home.file("s/sum.toml", SUM);
    for (args, words) in [
        (vec!["al_reduce"], "did you mean all_reduce?"),
        (vec!["barrier"], "there is no operation `barrier` to measure"),
        (vec!["all_reduce", "-b", "1M", "-e", "8"], "smaller than the smallest"),
        (vec!["all_gather", "-b", "8", "-e", "16"], "less than 16 bytes for every rank"),
        (vec!["reduce", "-r", "9"], "root 9 needs more than 4 ranks"),
        (vec!["all_reduce", "s/sum.toml"], "name operations or files, not both"),
        (vec!["all_reduce", "--agg_iters", "4"], "there is no option `--agg_iters`"),
        (vec!["all_reduce", "--algo", "a\nb"], "cannot"),
    ] {
        let run = bench(&home, &args);
        if words == "cannot" {
            assert_eq!(run.code, 1, "{run}");
            continue;
        }
        assert_eq!(run.code, 2, "{run}");
        assert!(run.err.contains(words), "{words:?} is not in {run}");
    }
}

#[test]
fn a_picture_is_made_of_the_same_rows() {
    let home = Home::new();
    let run = bench(&home, &["all_gather", "-b", "64", "-e", "64K", "-f", "4", "-g", "2,3", "--plot", "p.svg"]);
    assert_eq!(run.code, 0, "{run}");
    let svg = std::fs::read_to_string(home.path("p.svg")).unwrap();
    assert_eq!(svg.matches("<polyline").count(), 2 * 4, "two panels, four curves: {svg}");
}

/// On the backend nccl the device's events are the clock.
#[test]
fn events_of_the_device_are_the_clock_on_nccl() {
    let home = Home::new();
    let library = ["--nccl", "stand-in", "--driver", "stand-in"];
    let args = ["bench", "all_reduce", "-b", "64", "-e", "256", "-n", "3", "-w", "1", "--samples", "2"];
    let mut command = home.command(&[&args[..], &library].concat());
    command.env("COLLSPEC_STANDIN_DEVICES", "3").env("XDG_RUNTIME_DIR", home.path("."));
    let run = Run::of(&mut command);
    assert_eq!(run.code, 0, "{run}");
    assert!(run.out.contains("times: CUDA events, mean over ranks; verified"), "{run}");
    assert!(run.out.contains("# all_reduce, 3 ranks"), "as many ranks as GPUs: {run}");
    assert_eq!(rows(&run).len(), 3, "{run}");
    for row in rows(&run) {
        assert!(row[5].parse::<f64>().unwrap() > 0.0 && (row[8], row[12]) == ("0", "0"), "{run}");
    }
}

/// After SIGINT the report has what was measured until then.
#[test]
fn an_interrupt_leaves_what_was_measured() {
    let home = Home::new();
    let args = [
        "bench",
        "all_reduce",
        "-b",
        "8",
        "-e",
        "64",
        "-g",
        "2",
        "-n",
        "50000",
        "--samples",
        "1000",
        "--backend",
        "soft",
    ];
    let mut command = home.command(&args);
    command.args(["-J", "out.json"]).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_for_program(&mut child, 2, 1);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(err.contains("measurements; the report has these"), "{err}");
    let file: Value = serde_json::from_slice(&std::fs::read(home.path("out.json")).unwrap()).unwrap();
    assert!(file["results"].as_array().unwrap().iter().any(|row| row["out_of_place"]["time"].is_number()), "{file}");
}
