//! The backend nccl without a GPU: the command runs scenarios on libraries opened by path, over the stand-in driver opened
//! by cudarc. Everything above the two vendor libraries is tested.

mod algorithms;
mod compare;
mod deaths;
mod flaky;
mod footprints;
mod graphs;
mod hangs;
mod locks;
mod messages;
mod own_library;
mod refusals;
mod windows;

use crate::support::{Home, Run, SUM, libraries};
use collspec_run::library::standin;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The stand-in driver's folder.
fn driver() -> PathBuf {
    standin::folder().unwrap()
}

/// The command over the stand-in driver with so many devices. Locks lie in the home, apart from other tests'.
fn command(home: &Home, devices: usize, library: &Path, args: &[&str]) -> Command {
    let mut command = home.command(args);
    command.arg("--nccl").arg(library).arg("--driver").arg(driver());
    command.env("COLLSPEC_STANDIN_DEVICES", devices.to_string()).env("XDG_RUNTIME_DIR", home.path("."));
    command.env_remove("COLLSPEC_STANDIN_FAULT");
    command
}

fn run(home: &Home, devices: usize, library: &Path, args: &[&str]) -> Run {
    Run::of(&mut command(home, devices, library, args))
}

/// A copy of the stand-in library, in its own folder, with these demands.
fn library(home: &Home, name: &str, demands: &str) -> PathBuf {
    libraries::demanding(&home.path(name), demands)
}

/// A copy that lacks these functions.
fn without(home: &Home, name: &str, functions: &[&str]) -> PathBuf {
    let path = library(home, name, "");
    libraries::without(&standin::library().unwrap(), functions, &path)
}

fn documented() -> String {
    format!("{}/scenarios/documented", env!("CARGO_MANIFEST_DIR"))
}

/// What a report in JSON lines says of each case, without what may differ between backends.
fn results(run: &Run) -> BTreeMap<String, (String, Value)> {
    let case = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        (text("case"), (format!("{} {}", text("status"), text("outcome")), object["outputs"].clone()))
    };
    run.out.lines().filter(|line| !line.starts_with("{\"summary\":")).map(case).collect()
}

#[test]
#[ignore = "slow"]
fn documented_scenarios_give_the_same_outputs_as_in_software() {
    let home = Home::new();
    let soft = home.run(&["run", &documented(), "--backend", "soft", "--format", "jsonl"]);
    let nccl = run(&home, 64, &standin::library().unwrap(), &["run", &documented(), "--format", "jsonl"]);
    assert_eq!((soft.code, nccl.code), (0, 0), "{nccl}");
    let (soft, nccl) = (results(&soft), results(&nccl));
    let ran = nccl.iter().filter(|(_, (status, _))| !status.starts_with("skip"));
    let mut count = 0;
    for (case, result) in ran {
        assert_eq!(Some(result), soft.get(case), "{case}");
        count += 1;
    }
    assert!(count > 100, "{count} cases ran");
}

#[test]
fn the_name_stand_in_means_the_library_built_with_the_program() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let mut command = home.command(&["run", "sum.toml", "--nccl", "stand-in", "--driver", "stand-in"]);
    command.env("XDG_RUNTIME_DIR", home.path(".")).env_remove("COLLSPEC_STANDIN_FAULT");
    let run = Run::of(&mut command);
    assert!(run.code == 0 && run.err.contains("backend nccl") && run.err.contains("stand-in CUDA driver"), "{run}");
}

#[test]
fn two_libraries_by_path_give_their_own_results() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let (right, wrong) = (library(&home, "a", "version=22809"), library(&home, "b", "version=22502\nwrong-data"));
    let (right, wrong) = (run(&home, 2, &right, &["run", "sum.toml"]), run(&home, 2, &wrong, &["run", "sum.toml"]));
    assert!(right.code == 0 && right.err.contains("NCCL 2.28.9 ("), "{right}");
    assert!(
        wrong.code == 1 && wrong.err.contains("NCCL 2.25.2 (") && wrong.out.contains("exact: ranks 0 and 1, out[0]"),
        "{wrong}"
    );
}

#[test]
#[ignore = "slow"]
fn images_larger_than_the_pinned_memory_come_through_it_whole() {
    let home = Home::new();
    // No two pieces of an image are alike. One piece and a bit, an odd number of pieces, and an even one with a rest.
    let text = "world_size = 2\nop = \"all_reduce\"\nmatrix.count = [1050000, 1550000, 2200001]\n\
                inputs = { each = \"(i * 7 + rank) % 65521 + floor(i / 65521)\", count = \"count\" }\n";
    home.file("large.toml", text);
    let run = run(&home, 2, &standin::library().unwrap(), &["run", "large.toml"]);
    assert!(run.code == 0 && run.out.contains("3 passed, 0 failed, 0 skipped"), "{run}");
}

#[test]
#[ignore = "slow"]
fn faults_of_a_library_end_in_the_right_verdicts() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    for (fault, words) in [
        ("wrong-data", "is wrong after step 1"),
        ("error-collective=1", "unhandled_cuda_error"),
        ("error-init=2", "while making communicators: system_error"),
        ("async-error=6", "remote_error (asynchronous error: "),
        ("hang-collective", "hang (not finished within the time limit)"),
        ("hang-synchronize", "hang (not finished within the time limit)"),
        ("crash-collective", "crash: signal 11 (SIGSEGV)"),
        ("crash-init", "crash while making communicators: signal 11 (SIGSEGV)"),
        ("crash-stream", "crash: signal 11 (SIGSEGV)"),
        ("exit-collective", "crash: exit status 0"),
        ("hang-start=1", "hang (not finished within the time limit)"),
        ("wrong-start=1", "is wrong after step 1"),
    ] {
        let library = library(&home, fault, fault);
        // Only a hang may be ended by the time limit.
        let limit = if fault.starts_with("hang") { "1" } else { "600" };
        let run = run(&home, 2, &library, &["run", "sum.toml", "--timeout", limit]);
        assert!(run.code == 1 && run.out.contains(words), "{fault}: {run}");
    }
    // A hang or failure after the verdict changes no verdict, and neither does what is not drawn, slow or left behind.
    for fault in [
        "hang-destroy",
        "error-destroy=3",
        "hang-start=4000000000; wrong-start=4000000000",
        "slow=50; slow-init=1; leak=1048576; leak-host=1048576; leak-descriptor; leak-thread",
        "change-affinity; set-variable=NCCL_CHANGED",
    ] {
        let run = run(&home, 2, &library(&home, fault, fault), &["run", "sum.toml"]);
        assert_eq!(run.code, 0, "{fault}: {run}");
    }
}

#[test]
fn a_library_that_lacks_a_function_is_listed_with_it() {
    let home = Home::new();
    let library = without(&home, "lacking", &["ncclCommSplit"]);
    let mut list = home.command(&["nccl", "list"]);
    let listed = Run::of(list.env("LD_LIBRARY_PATH", library.parent().unwrap()));
    let entry: Vec<&str> = listed.out.lines().skip_while(|line| !line.ends_with(library.to_str().unwrap())).collect();
    let words = entry.get(1).copied().unwrap_or_default();
    assert!(words.contains("2.18 ncclCommSplit"), "{listed}");
    let doctor = run(&home, 2, &library, &["doctor"]);
    assert!(doctor.out.contains("functions, which `collspec nccl list` names"), "{doctor}");
    assert!(doctor.out.contains("cases that use ncclCommSplit: this library does not have it"), "{doctor}");
}

#[test]
fn libraries_that_prefer_other_algorithms_give_other_bits() {
    let home = Home::new();
    // Each order of these four gives another sum.
    let inputs = "inputs = [[1e8], [1.5], [-1e8], [0.75]]\n";
    home.file("sum.toml", &format!("world_size = 4\nop = \"all_reduce\"\n{inputs}"));
    let outputs = |demands: &str, algorithm: Option<&str>| {
        let library = library(&home, "preferring", demands);
        let mut command = command(&home, 4, &library, &["run", "sum.toml", "--format", "jsonl"]);
        let run = Run::of(command.envs(algorithm.map(|name| ("NCCL_ALGO", name))));
        assert_eq!(run.code, 0, "{run}");
        results(&run)
    };
    let (ring, tree) = (outputs("algorithm=Ring", None), outputs("algorithm=Tree", None));
    assert_ne!(ring, tree);
    assert_eq!(outputs("", None), ring);
    assert_eq!(outputs("default=NCCL_ALGO:Tree", None), tree);
    let wide = outputs("default=COLLSPEC_SOFT_ARITHMETIC:wide", None);
    assert!(wide != ring && wide != tree);
    assert_eq!(outputs("algorithm=Tree; default=NCCL_ALGO:Tree", Some("Ring")), ring, "the environment comes first");
}

#[test]
fn a_library_that_is_too_old_or_none_is_missing() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    home.file("text", "no library");
    let old = run(&home, 2, &library(&home, "old", "version=20708"), &["run", "sum.toml"]);
    assert!(old.code == 3 && old.err.contains("too old"), "{old}");
    let none = run(&home, 2, &home.path("text"), &["run", "sum.toml"]);
    assert!(none.code == 3 && none.err.contains("cannot be loaded"), "{none}");
}

#[test]
fn what_a_library_lacks_is_done_another_way_or_skipped() {
    let home = Home::new();
    let pairs = without(&home, "pairs", &["ncclAlltoAll", "ncclGather", "ncclScatter"]);
    for (op, inputs, expect) in [
        ("all_to_all", "[[1, 2], [3, 4]]", "[[1, 3], [2, 4]]"),
        ("gather", "[[1, 2], [3, 4]]", "[[[1, 2], [3, 4]], \"untouched\"]"),
        ("scatter", "[[1, 2], []]", "[[1], [2]]"),
    ] {
        home.file(
            &format!("pairs/{op}.toml"),
            &format!("world_size = 2\nop = \"{op}\"\ninputs = {inputs}\nexpect = {expect}\n"),
        );
        let path = home.path(&format!("pairs/{op}.toml"));
        let one = run(&home, 2, &pairs, &["run", path.to_str().unwrap()]);
        assert!(one.code == 0 && one.out.contains("1 passed"), "{op}: {one}");
    }
    let split = without(&home, "split", &["ncclCommSplit"]);
    let file = format!("{}/mpi_comm_split.toml", documented());
    let skipped = run(&home, 16, &split, &["run", &file]);
    assert!(skipped.code == 0 && skipped.out.contains("needs ncclCommSplit (since NCCL 2.18)"), "{skipped}");
    home.file("fp8.toml", "world_size = 2\ndtype = \"f8e4m3\"\nop = \"all_reduce\"\ninputs = [[1], [2]]\n");
    let fp8 = run(&home, 2, &library(&home, "fp8", "version=22304"), &["run", "fp8.toml"]);
    assert!(fp8.code == 0 && fp8.out.contains("needs f8e4m3 (since NCCL 2.24); this is 2.23.4"), "{fp8}");
}

#[test]
fn more_ranks_than_gpus_are_skipped_or_share_them() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let library = standin::library().unwrap();
    let alone = run(&home, 1, &library, &["run", "sum.toml"]);
    assert!(alone.code == 0 && alone.out.contains("needs 2 GPUs, one for each rank; there is 1"), "{alone}");
    let shared = run(&home, 1, &library, &["run", "sum.toml", "--ranks-per-gpu", "auto"]);
    assert!(shared.code == 0 && shared.out.contains("1 passed"), "{shared}");
    home.file("gpus.toml", &format!("{SUM}requires.gpus = 8\n"));
    let gpus = run(&home, 2, &library, &["run", "gpus.toml"]);
    assert!(gpus.out.contains("needs 8 GPUs; there are 2"), "{gpus}");
    home.file("compute.toml", &format!("{SUM}requires.compute = \"10.0\"\n"));
    let compute = run(&home, 2, &library, &["run", "compute.toml"]);
    assert!(compute.out.contains("needs GPUs of compute capability 10.0; the least here is 9.0"), "{compute}");
}

#[test]
fn the_program_names_no_cuda_library() {
    let program = fs::read(env!("CARGO_BIN_EXE_collspec")).unwrap();
    let needed = Command::new("ldd").arg(env!("CARGO_BIN_EXE_collspec")).output();
    if let Ok(needed) = needed {
        let text = String::from_utf8_lossy(&needed.stdout).into_owned();
        assert!(text.contains("libc.so") && !text.contains("cuda") && !text.contains("nccl"), "{text}");
    }
    assert!(program.starts_with(b"\x7fELF"));
}
