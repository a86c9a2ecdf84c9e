//! `collspec hang` on what jobs leave behind.
use crate::support::{Home, Run};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// The dumps of four ranks, of which rank 2 makes another call than the others.
fn dumps(home: &Home) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/collspec-cli/tests/import/fr_missing_rank");
    fs::create_dir(home.path("dumps")).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let from = entry.unwrap().path();
        if from.extension().is_none() {
            fs::copy(&from, home.path("dumps").join(from.file_name().unwrap())).unwrap();
        }
    }
}

fn verdict(run: &Run) -> &str {
    run.out.lines().next().unwrap_or_default()
}

#[test]
fn the_rank_that_left_the_others_is_named_with_its_call() {
    let home = Home::new();
    dumps(&home);
    let run = home.run(&["hang", "dumps"]);
    assert_eq!(run.code, 1, "{run}");
    assert!(verdict(&run).starts_with("Rank 2 left out the all_reduce of 1 f32 at train.py:150"), "{run}");
    let json = home.run(&["hang", "dumps", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["verdict"].as_str(), Some(verdict(&run)));
    assert_eq!(value["findings"][0]["ranks"], serde_json::json!([2]));
    let markdown = home.run(&["hang", "dumps", "--markdown"]);
    assert!(markdown.code == 1 && markdown.out.contains("| ranks | where they are |"), "{markdown}");
    let imported = home.run(&["import", "flight-recorder", "dumps"]);
    assert!(imported.out.contains(verdict(&run).trim_end_matches('.')), "{imported}");
}

#[test]
fn the_scenario_of_a_hang_runs() {
    let home = Home::new();
    dumps(&home);
    assert_eq!(home.run(&["hang", "dumps", "-o", "hang.toml"]).code, 1);
    let run = home.run(&["run", "hang.toml", "--backend", "soft"]);
    assert!(run.code == 0 && run.out.contains("1 passed"), "{run}");
    for paths in ["dumps/nccl_trace_rank_0", "dumps"] {
        let over = home.run(&["hang", paths, "-o", "dumps/nccl_trace_rank_0"]);
        assert!(over.code == 2 && over.err.contains("which this command reads"), "{over}");
    }
}

/// A rank whose dump cannot be read is one of which nothing is known.
#[test]
fn broken_dumps_among_good_ones_are_left_out() {
    let home = Home::new();
    dumps(&home);
    let whole = fs::read(home.path("dumps/nccl_trace_rank_1")).unwrap();
    for broken in [&whole[..0], &whole[..whole.len() / 2]] {
        fs::write(home.path("dumps/nccl_trace_rank_1"), broken).unwrap();
        let run = home.run(&["hang", "dumps"]);
        assert!(run.code == 1 && verdict(&run).starts_with("Rank 2 left out"), "{run}");
        assert!(run.out.contains("the dump of rank 1 is left out"), "{run}");
    }
    for rank in [0, 2, 3] {
        fs::remove_file(home.path(&format!("dumps/nccl_trace_rank_{rank}"))).unwrap();
    }
    let none = home.run(&["hang", "dumps"]);
    assert!(none.code == 2 && none.err.contains("the dump of rank 1 is left out"), "{none}");
    home.file("dumps/rankless.json", "{\"version\": \"2.5\",\n \"entries\": []}");
    let rankless = home.run(&["hang", "dumps/rankless.json"]);
    assert!(rankless.code == 2 && rankless.err.contains("nothing says of which rank it is"), "{rankless}");
    assert_eq!(home.run(&["hang", "nowhere"]).code, 2);
}

/// Names of files, and what they hold, are a stranger's.
#[test]
fn odd_files_in_a_folder_do_not_matter() {
    let home = Home::new();
    dumps(&home);
    home.file("dumps/nccl_trace_rank_4095", "{\"entries\": []}\n");
    fs::write(home.path("dumps/job.log.gz"), b"\x1f\x8b\x08").unwrap();
    let run = home.run(&["hang", "dumps"]);
    assert!(run.code == 1 && verdict(&run).starts_with("Rank 2 left out"), "{run}");
    assert!(run.out.contains("nccl_trace_rank_4095 is left out") && run.out.contains("job.log.gz"), "{run}");
    let line = r#"{"pg_config": {"0": {"desc": "w", "ranks": "[0, 1]"}}, "entries": [{"profiling_name": "nccl:recv 0<-1", "process_group": ["0", "w"],
        "p2p_seq_id": 1, "input_sizes": [[1]], "output_sizes": [[1]], "state": "started",
        "frames": [{"name": "f\u202e", "filename": "/j/t.py", "line": 1}]}]}"#;
    home.file("one/nccl_trace_rank_0", &format!("{}\n", line.replace('\n', "")));
    let alone = home.run(&["hang", "one", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&alone.out).unwrap_or_else(|error| panic!("{error}: {alone}"));
    assert_eq!((alone.code, &value["findings"][0]["ranks"]), (4, &serde_json::json!([1])), "{alone}");
    assert_eq!(value["findings"][0]["call"]["stack"][0]["function"], "f\u{202e}");
}

#[test]
fn a_guess_is_no_verdict_and_logs_are_read_from_the_standard_input() {
    let home = Home::new();
    dumps(&home);
    fs::remove_file(home.path("dumps/nccl_trace_rank_2")).unwrap();
    let guess = home.run(&["hang", "dumps"]);
    assert!(guess.code == 4 && verdict(&guess).starts_with("Nothing is known of rank 2"), "{guess}");
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/collspec-cli/tests/import/nccl_fsdp");
    let files = home.run(&["hang", logs.to_str().unwrap()]);
    let mut child = home.command(&["hang", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut paths: Vec<_> = fs::read_dir(logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().for_each(|path| input.write_all(&fs::read(path).unwrap()).unwrap());
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(files.code), "{files}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), files.out);
}

/// Windows writes texts in UTF-16, and a line of a log driver may be long.
#[test]
fn dumps_in_utf_16_and_long_lines_of_log_drivers_are_read() {
    let home = Home::new();
    let entries = |state: &str| {
        format!(
            r#"{{"pg_config": {{"0": {{"desc": "w", "ranks": "[0, 1]"}}}}, "entries": [{{"record_id": 0, "profiling_name": "nccl:barrier",
            "process_group": ["0", "w"], "collective_seq_id": 1, "input_sizes": [], "output_sizes": [], "state": "{state}", "frames": []}}]}}"#
        )
    };
    fs::create_dir(home.path("dumps")).unwrap();
    for rank in 0..2 {
        let text: Vec<u8> =
            [0xfeff].into_iter().chain(entries("started").encode_utf16()).flat_map(u16::to_le_bytes).collect();
        fs::write(home.path(&format!("dumps/rank_{rank}")), text).unwrap();
    }
    let run = home.run(&["hang", "dumps"]);
    assert!(run.code == 0 && run.out.contains("barrier"), "{run}");
    let line = format!("{{\"log\":\"{}\\n\",\"stream\":\"stdout\"}}\n", "x".repeat(20_000));
    home.file("driver.log", &line.repeat(3));
    let run = home.run(&["hang", "driver.log"]);
    assert!(run.code == 2 && !run.err.contains("nothing says of which rank"), "{run}");
}
