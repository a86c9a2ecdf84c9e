//! Logs and dumps become scenarios that run as their origin did.
use crate::support::{Home, Run};
use std::fs;
use std::path::{Path, PathBuf};

/// A file or folder of the importer's test data.
fn data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/collspec-cli/tests/import").join(name).display().to_string()
}

fn logs(folder: &str) -> Vec<String> {
    let entries = fs::read_dir(data(folder)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| path.display().to_string()).collect()
}

/// Imports with these arguments into `imported.toml`.
fn import(home: &Home, args: &[&str]) -> Run {
    let run = home.run(&[&["import"], args, &["-o", "imported.toml"]].concat());
    assert_eq!(run.code, 0, "{run}");
    run
}

fn passes(home: &Home, what: &str) {
    let run = home.run(&["run", "imported.toml", "--backend", "soft"]);
    let text = fs::read_to_string(home.path("imported.toml")).unwrap();
    assert!(run.code == 0 && run.out.contains(" 0 failed, 0 skipped"), "{what}: {run}\n{text}");
}

#[test]
fn a_hyphen_is_the_standard_output() {
    let home = Home::new();
    let line = ["import", "nccl-tests", "all_reduce_perf", "-b", "8", "-e", "8"];
    let (run, plain) = (home.run(&[&["import", "nccl-tests", "-o", "-"], &line[2..]].concat()), home.run(&line));
    assert!(run.code == 0 && run.out.contains("world_size") && run.out == plain.out, "{run}");
    assert!(!home.path("-").exists());
}

#[test]
fn what_is_imported_from_logs_passes_in_software() {
    let home = Home::new();
    for form in ["--unique", "--rounds"] {
        let files = logs("nccl_fsdp");
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let run = import(&home, &[&["nccl-log", form], files.as_slice()].concat());
        assert!(run.err.contains("not in any log"), "{run}");
        passes(&home, form);
        for log in logs("nccl_log") {
            import(&home, &["nccl-log", form, &log]);
            passes(&home, &log);
        }
    }
}

/// Calls of PyTorch's that are several of NCCL's, or of numbers that NCCL does not have.
#[test]
fn what_is_imported_from_dumps_passes_in_software() {
    let home = Home::new();
    for rank in 0..2 {
        let (send, recv) = (format!("send {rank}->{}", 1 - rank), format!("recv {rank}<-{}", 1 - rank));
        let calls = [
            (1, "allreduce_coalesced", "[10], [3, 4], [7]", "[10], [3, 4], [7]", "Float"),
            (2, "all_gather_into_tensor_coalesced", "[4], [6]", "[8], [12]", "BFloat16\", \"Long"),
            (3, "reduce_scatter_tensor_coalesced", "[8], [12]", "[4], [6]", "Half"),
            (4, "all_reduce", "[5]", "[5]", "ComplexFloat"),
            (5, "all_to_all", "[1], [2]", ["[1], [3]", "[2], [2]"][rank], "ComplexDouble"),
            (6, "all_gather", "[4, 5]", "[2, 4, 5]", "Double"),
            (7, "reduce_scatter", "[2, 4, 5]", "[4, 5]", "Float"),
            (8, "_broadcast_oop", "[3]", "[3]", "Float"),
            (8, "_broadcast_oop", "[5]", "[5]", "Float"),
            (8, "ALLGATHER_coalesced", "", "", ""),
            (9, "_reduce_oop", "[3]", "[3]", "Float"),
            (9, "_reduce_oop", "[5]", "[5]", "Float"),
            (9, "REDUCE_SCATTER_coalesced", "", "", ""),
            (10, &send, "[6]", "[6]", "ComplexHalf"),
            (10, &recv, "[6]", "[6]", "ComplexHalf"),
            (10, "coalesced", "", "", ""),
        ];
        let calls = calls.map(|(number, name, given, got, types)| {
            let given = if name == "all_to_all" && rank == 1 { "[3], [2]" } else { given };
            format!(
                r#"{{"process_group": ["w", "default_pg"], "collective_seq_id": {number}, "p2p_seq_id": {number},
                    "profiling_name": "nccl:{name}", "input_sizes": [{given}], "output_sizes": [{got}],
                    "input_dtypes": ["{types}"], "output_dtypes": ["{types}"], "state": "completed"}}"#
            )
        });
        let groups = r#"{"w": {"desc": "default_pg", "ranks": "[0, 1]"}}"#;
        let dump = format!(r#"{{"version": "2.10", "pg_config": {groups}, "entries": [{}]}}"#, calls.join(","));
        fs::write(home.path(&format!("nccl_trace_rank_{rank}")), dump).unwrap();
    }
    let run = import(&home, &["flight-recorder", "."]);
    for told in ["guessed: f32", "guessed: root", "guessed: the pieces", "left out"] {
        assert!(!run.err.contains(told), "{run}");
    }
    passes(&home, "dumps");
}

#[test]
fn check_names_the_rank_that_a_dump_waits_for() {
    let home = Home::new();
    import(&home, &["flight-recorder", &data("fr_missing_rank")]);
    let check = home.run(&["check", "imported.toml"]);
    assert!(check.code == 2 && check.err.contains("but rank 2 calls AllGather"), "{check}");
    import(&home, &["flight-recorder", &data("fr_missing_rank"), "--hang"]);
    let check = home.run(&["check", "imported.toml"]);
    assert!(
        check.code == 0 && check.out.contains("calls AllReduce sum of 1 f32, but rank 2 calls AllGather"),
        "{check}"
    );
    passes(&home, "a hang");
}

/// Dumps, NCCL's logs and a recording of one program, which PyTorch 2.11 ran on two ranks that share an H200.
#[test]
fn all_sources_tell_that_ranks_of_pytorch_disagree() {
    let home = Home::new();
    let [logs, recording] = ["logs", "recording"].map(|part| logs(&format!("torch_disagrees/{part}")));
    let [logs, recording] = [&logs, &recording].map(|files| files.iter().map(String::as_str).collect::<Vec<_>>());
    for args in [
        vec!["flight-recorder", &data("torch_disagrees/dumps")],
        [&["nccl-log", "--rounds"], logs.as_slice()].concat(),
        [&["nccl-log", "--rounds"], recording.as_slice()].concat(),
    ] {
        import(&home, &args);
        let check = home.run(&["check", "imported.toml"]);
        let both = check.out.clone() + &check.err;
        assert!(
            both.contains("rank 1 calls Broadcast of ") && both.contains("rank 0 calls AllReduce sum of 1024 f32"),
            "{args:?}: {check}"
        );
    }
}

#[test]
fn an_input_that_is_not_understood_is_an_error_with_its_place() {
    let home = Home::new();
    home.file("empty.log", "nothing\n");
    home.file("dumps/nccl_trace_rank_0", "\u{1}");
    for (args, words) in [
        (&["nccl-log", "empty.log"][..], "no line says that a communicator begins (1 read)"),
        (&["nccl-log", "missing.log"], "cannot read missing.log"),
        (&["flight-recorder", "dumps"], "dumps/nccl_trace_rank_0: byte 0: "),
        (&["flight-recorder", "."], "has no dumps"),
        (&["nccl-log", "empty.log", "-o", "empty.log"], "would be written over empty.log"),
    ] {
        let run = home.run(&[&["import"], args].concat());
        assert!(run.code == 2 && run.out.is_empty() && run.err.contains(words), "{args:?}: {run}");
    }
}

/// Not every combination of the operations, sizes and types.
#[test]
fn bench_of_an_imported_log_measures_the_calls_that_were_made() {
    let home = Home::new();
    let files = logs("nccl_fsdp");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    import(&home, &[&["nccl-log", "--bench"], files.as_slice()].concat());
    let bench = home.run(&["bench", "imported.toml", "-n", "1", "-w", "0", "--samples", "1", "--format", "json"]);
    assert_eq!(bench.code, 0, "{bench}");
    let report: serde_json::Value = serde_json::from_str(&bench.out).unwrap();
    let rows = report["results"].as_array().unwrap();
    assert_eq!(rows.len(), 5, "{bench}");
}
