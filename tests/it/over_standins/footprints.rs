//! What a library costs a process and changes in it: `collspec compare` names it, and proves which library was loaded.
use super::compare::{compare, home};
use super::{driver, library, run};
use crate::support::{Home, Run, SUM};
use collspec_run::library::standin;
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// The changes of the library itself, with what they mean.
fn changes(run: &Run) -> Vec<(String, String)> {
    let lines = run.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let change = |line: Value| {
        let change = line.get("library")?;
        Some((text(&change["subject"]), text(&change["meaning"])))
    };
    lines.filter_map(change).collect()
}

fn worse(subject: &str) -> Vec<(String, String)> {
    vec![(subject.to_owned(), "worse".to_owned())]
}

#[test]
#[ignore = "slow"]
fn what_a_library_leaves_behind_and_changes_is_called_by_its_name_and_nothing_else_is() {
    let assert_change = |demands: &str, code: i32, subject: &str, meaning: &str| {
        let home = home(SUM);
        let candidate = library(&home, "candidate", demands);
        let run = compare(&home, &candidate, &["--runs", "1", "--starts", "0", "--format", "jsonl"]);
        assert_eq!((run.code, changes(&run)), (code, vec![(subject.into(), meaning.into())]), "{demands}\n{run}");
    };
    std::thread::scope(|scope| {
        // Making many communicators takes seconds then, in which nothing is computed.
        scope.spawn(|| assert_change("slow-init=250", 0, "init time", "changed"));
        for (demands, subject) in [
            ("leak=1048576", "device memory left behind"),
            ("leak-host=1048576", "host memory left behind"),
            ("leak-descriptor", "descriptors left behind"),
            ("leak-thread", "threads left behind"),
            ("set-variable=NCCL_CHANGED", "changed variable NCCL_CHANGED"),
            ("crash-destroy", "measuring"),
        ] {
            assert_change(demands, 1, subject, "worse");
        }
    });
}

#[test]
#[ignore = "slow"]
fn the_report_says_how_much_is_left_behind_and_by_what() {
    let home = home(SUM);
    let candidate = library(&home, "candidate", "leak=1048576; leak-thread; slow-init=250");
    let run = compare(&home, &candidate, &["--runs", "1", "--starts", "0"]);
    for words in [
        "the candidate leaves behind 2 MiB of device memory with each communicator of 2 ranks, 8 times in a row; the base at most",
        "the candidate leaves behind 2 threads (standin-leak) with each communicator of 2 ranks",
        "making a communicator of 2 ranks takes ",
        // The library's own breakdown, from its log.
        "; in seconds: rest ",
    ] {
        assert!(run.code == 1 && run.out.contains(words), "{words}\n{run}");
    }
}

#[test]
fn changed_processors_are_named_where_there_are_several() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        eprintln!("skipped: this process has one processor");
        return;
    }
    let home = home(SUM);
    let candidate = library(&home, "candidate", "change-affinity");
    let run = compare(&home, &candidate, &["--runs", "1", "--starts", "0", "--format", "jsonl"]);
    assert_eq!((run.code, changes(&run)), (1, worse("processors")), "{run}");
}

#[test]
fn another_algorithm_is_told_by_operation_and_is_not_worse() {
    let home = home(SUM);
    let candidate = library(&home, "candidate", "algorithm=Tree");
    let run = compare(&home, &candidate, &["--runs", "1", "--starts", "0"]);
    let words = "AllReduce between 2 ranks: 1 KiB to 256 KiB ring, 2 messages in a row -> 1 KiB to 256 KiB tree, ";
    assert!(run.code == 0 && run.out.contains(words), "{run}");
}

#[test]
#[ignore = "slow"]
fn a_copy_of_a_library_is_never_worse_or_changed() {
    let home = home(SUM);
    let candidate = library(&home, "candidate", "");
    for _ in 0..4 {
        let run = compare(&home, &candidate, &["--runs", "1", "--starts", "0", "--format", "jsonl"]);
        assert_eq!((run.code, changes(&run)), (0, Vec::new()), "{run}");
    }
}

#[test]
fn a_recorded_run_brings_what_was_measured_and_what_was_loaded() {
    let home = home(SUM);
    let base = home.path("base/libnccl.so.2");
    let record = |options: &[&str]| {
        let run = run(&home, 4, &base, &[&["run", "scenarios", "--record", "base.jsonl"], options].concat());
        assert_eq!(run.code, 0, "{run}");
        let text = std::fs::read_to_string(home.path("base.jsonl")).unwrap();
        serde_json::from_str::<Value>(text.lines().next().unwrap()).unwrap()
    };
    assert_eq!(record(&["--no-footprint"])["footprint"], Value::Null);
    let header = record(&[]);
    let footprint = &header["footprint"];
    assert_eq!(footprint["init_seconds"].as_array().map(Vec::len), Some(5), "{footprint}");
    assert_eq!(footprint["loaded"][0]["path"], base.canonicalize().unwrap().to_str().unwrap());
    assert_eq!(footprint["loaded"][0]["build_id"], header["library"]["build_id"]);
    let candidate = library(&home, "candidate", "leak-descriptor");
    let mut command =
        home.command(&["compare", "scenarios", "--base", "base.jsonl", "--starts", "0", "--format", "jsonl"]);
    command.arg("--candidate").arg(candidate).arg("--driver").arg(driver());
    command.env("COLLSPEC_STANDIN_DEVICES", "4").env("XDG_RUNTIME_DIR", home.path("."));
    let run = Run::of(&mut command);
    assert_eq!((run.code, changes(&run)), (1, worse("descriptors left behind")), "{run}");
}

#[test]
fn a_mix_of_two_libraries_is_refused() {
    let home = home(SUM);
    let other = library(&home, "other", "");
    let words = "the process has loaded several NCCL libraries";
    let mut command = super::command(&home, 2, &home.path("base/libnccl.so.2"), &["run", "scenarios"]);
    let run = Run::of(command.env("LD_PRELOAD", &other));
    assert!(run.code == 2 && run.out.contains(words) && run.out.contains("other/libnccl.so.2"), "{run}");
    let mut command = home.command(&["compare", "scenarios", "--driver"]);
    command.arg(driver()).arg("--base").arg(home.path("base/libnccl.so.2")).arg("--candidate").arg(&other);
    let compared = Run::of(command.env("LD_PRELOAD", &other).env("XDG_RUNTIME_DIR", home.path(".")));
    assert!(compared.code == 2 && compared.err.contains(words), "{compared}");
}

/// A library that was compiled with these options; `None`, with the reason on standard error, where there is no C compiler.
fn compiled(home: &Home, name: &str, options: &[&str]) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/over_standins/own_library.c");
    let library = home.path(name);
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source).args(options).arg("-lpthread");
    match compiler.output() {
        Ok(done) => {
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
            Some(library)
        }
        Err(error) => {
            eprintln!("skipped: no C compiler (gcc): {error}");
            None
        }
    }
}

#[test]
fn a_debug_build_is_refused_unless_it_is_asked_for() {
    let home = home(SUM);
    let (Some(debug), Some(release)) =
        (compiled(&home, "libdebug.so", &["-g", "-O0"]), compiled(&home, "librelease.so", &["-g", "-O2"]))
    else {
        return;
    };
    let refused = compare(&home, &debug, &["--runs", "1", "--starts", "0", "--no-footprint"]);
    assert!(refused.code == 2 && refused.err.contains("compiled without optimisation"), "{refused}");
    assert!(refused.err.contains("--allow-debug-build") && refused.err.contains("libdebug.so"), "{refused}");
    for (candidate, options) in [(&debug, &["--allow-debug-build"][..]), (&release, &[])] {
        let run = compare(&home, candidate, &[&["--runs", "1", "--starts", "0", "--no-footprint"], options].concat());
        // It lacks most of NCCL's functions.
        assert!(run.code == 1 && run.out.contains("1  same bits"), "{run}");
    }
    // A library of this project is Rust, and its debug profile optimises.
    assert!(standin::library().is_ok());
}
