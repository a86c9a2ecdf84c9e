//! `collspec record` writes down the NCCL calls of a program.
use crate::support::Home;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const PROGRAM: &str = r#"
world_size = 4
inputs.x = { each = "rank + i", count = 1000 }
comms.pairs = { color = "rank % 2" }
steps = [
  { op = "all_reduce", reduce = { premul_sum = 0.5 }, scalar = "host", in = "x", out = "y" },
  { op = "group", steps = [
    { op = "all_gather", comm = "pairs", in = "x", out = "z" },
    { op = "send", ranks = [0], peer = 3, in = "x" },
    { op = "recv", ranks = [3], peer = 0, out = "w" },
  ] },
]
"#;

/// Runs a scenario on the stand-ins under the recorder, and gives the lines of all files.
fn recorded(home: &Home, text: &str, placement: &str) -> Vec<String> {
    home.file("program.toml", text);
    let program = env!("CARGO_BIN_EXE_collspec");
    let standin = ["--nccl", "stand-in", "--driver", "stand-in", "--placement", placement];
    let run = home.run(&[&["record", "--", program, "run", "program.toml"], &standin[..]].concat());
    assert_eq!(run.code, 0, "{run}");
    lines(home)
}

fn files(home: &Home) -> Vec<PathBuf> {
    fs::read_dir(home.path("nccl-calls")).unwrap().map(|file| file.unwrap().path()).collect()
}

fn lines(home: &Home) -> Vec<String> {
    let all: Vec<String> = files(home).iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    all.concat().lines().map(str::to_owned).collect()
}

/// Two streams, groups of messages and of collectives on several communicators, a group that only some ranks make, calls that are
/// neighbours without being a group, in place, and factors.
const TRAINING: &str = r#"
world_size = 4
inputs.x = { each = "rank + i", count = 64 }
inputs.y = { each = "rank - i", count = 32 }
comms.rows = { color = "rank / 2" }
comms.columns = { color = "rank % 2", key = "-rank" }
steps = [
  { op = "loop", times = 2, steps = [
    { op = "all_reduce", reduce = { premul_sum = [0.5, 0.5, 0.25, 0.5] }, in = "x", out = "a" },
    { op = "all_reduce", comm = "rows", reduce = { premul_sum = 3 }, in = "y", out = "y", stream = "side" },
    { op = "group", steps = [
      { op = "all_gather", comm = "rows", in = "x", out = "b" },
      { op = "reduce_scatter", comm = "columns", in = "x", out = "c" },
      { op = "all_reduce", in = "x", out = "d", stream = "side" },
      { op = "send", ranks = [0], peer = 3, in = "x" },
      { op = "recv", ranks = [3], peer = 0, out = "e" },
    ] },
    { op = "send_recv", to = "(rank + 1) % n", from = "(rank - 1) % n", in = "x", out = "f" },
    { op = "group", comm = "columns", steps = [
      { op = "send", peer = "(rank + 1) % n", in = "x" },
      { op = "recv", peer = "(rank - 1) % n", out = "g" },
      { op = "send", peer = "(rank + 1) % n", in = "x[0 : 7]" },
      { op = "recv", peer = "(rank - 1) % n", out = "h" },
    ] },
    { op = "send", ranks = [1], peer = 2, in = "x" },
    { op = "recv", ranks = [2], peer = 1, out = "k" },
    { op = "send", ranks = [1], peer = 2, in = "x" },
    { op = "recv", ranks = [2], peer = 1, out = "j" },
  ] },
]
"#;

/// The same groups: calls of ranks whose groups or factors differ are steps of their own.
const IMPORTED: &str = r#"steps = [
  { op = "loop", times = 2, steps = [
    { op = "all_reduce", ranks = [0, 1, 3], reduce = { premul_sum = 0.5 }, in = "ar0", out = "ar0_out" },
    { op = "all_reduce", ranks = [2], reduce = { premul_sum = 0.25 }, in = "ar0", out = "ar0_out" },
    { op = "all_reduce", comm = "split", reduce = { premul_sum = 3.0 }, in = "ar1", out = "ar1", stream = "s1" },  # in place
    { op = "group", ranks = [0], steps = [
      { op = "all_gather", comm = "split", in = "ag", out = "ag_out" },
      { op = "reduce_scatter", comm = "split_2", in = "rs", out = "rs_out" },
      { op = "all_reduce", in = "ar2", out = "ar2_out", stream = "s1" },
      { op = "send", peer = 3, in = "sent0" },
    ] },
    { op = "group", ranks = [1, 2], steps = [
      { op = "all_gather", comm = "split", in = "ag", out = "ag_out" },
      { op = "reduce_scatter", comm = "split_2", in = "rs", out = "rs_out" },
      { op = "all_reduce", in = "ar2", out = "ar2_out", stream = "s1" },
    ] },
    { op = "group", ranks = [3], steps = [
      { op = "all_gather", comm = "split", in = "ag", out = "ag_out" },
      { op = "reduce_scatter", comm = "split_2", in = "rs", out = "rs_out" },
      { op = "all_reduce", in = "ar2", out = "ar2_out", stream = "s1" },
      { op = "recv", peer = 0, count = 64, dtype = "f32", out = "got0" },
    ] },
    { op = "send_recv", to = "(rank + 1) % n", from = "(rank - 1) % n", in = "sent0", out = "got1" },
    { op = "group", comm = "split_2", steps = [
      { op = "send", peer = "(rank + 1) % n", in = "sent0" },
      { op = "send", peer = "(rank + 1) % n", in = "sent1" },
      { op = "recv", peer = "(rank + 1) % n", count = 64, dtype = "f32", out = "got0" },
      { op = "recv", peer = "(rank + 1) % n", count = 7, dtype = "f32", out = "got2" },
    ] },
    { op = "send", ranks = [1], peer = 2, in = "sent0" },
    { op = "send", ranks = [1], peer = 2, in = "sent0" },
    { op = "recv", ranks = [2], peer = 1, count = 64, dtype = "f32", out = "got1" },
    { op = "recv", ranks = [2], peer = 1, count = 64, dtype = "f32", out = "got1" },
  ] },
]
"#;

#[test]
fn an_imported_recording_has_the_groups_of_the_program() {
    for placement in ["threads", "processes"] {
        let home = Home::new();
        recorded(&home, TRAINING, placement);
        let files: Vec<String> = files(&home).iter().map(|path| path.to_str().unwrap().to_owned()).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        let import = home.run(&[&["import", "nccl-log", "--rounds", "-o", "imported.toml"], &files[..]].concat());
        assert_eq!(import.code, 0, "{import}");
        let text = fs::read_to_string(home.path("imported.toml")).unwrap();
        let run = home.run(&["run", "imported.toml"]);
        assert_eq!(run.code, 0, "{run}\n{text}");
        assert!(text.ends_with(IMPORTED), "{text}");
        assert_eq!(text.matches("guessed").count(), 1, "only values are guessed: {text}");
    }
}

/// Builds the programs of record.c; false if that is not possible here.
fn built(home: &Home) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/record.c");
    let builds: [&[&str]; 3] = [
        &["-DNCCL", "-shared", "-fPIC", "-o", "libnothing.so", source],
        &["-DEXTENSION", "-shared", "-fPIC", "-o", "extension.so", source, "-L.", "-lnothing", "-Wl,-rpath,$ORIGIN"],
        &["-o", "program", source, "-ldl"],
    ];
    for arguments in builds {
        match Command::new("cc").args(arguments).current_dir(home.path("")).status() {
            Ok(status) => assert!(status.success(), "{arguments:?}"),
            Err(error) => {
                eprintln!("skipped: no C compiler (cc: {error})");
                return false;
            }
        }
    }
    true
}

#[test]
fn a_program_that_opens_nccl_for_an_extension_alone_is_recorded_and_its_own_files_are_not_written() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let run = home.run(&["record", "--", "./program"]);
    assert_eq!((run.code, run.err.lines().count()), (0, 1), "only the command itself says something: {run}");
    let lines = lines(&home);
    let calls: Vec<&str> = lines.iter().filter_map(|line| Some(line.split_once(" NCCL INFO ")?.1)).collect();
    let calls = calls.iter().filter(|call| **call != "collspec record");
    let calls: Vec<String> = calls.map(|call| call.split(' ').take(3).collect::<Vec<_>>().join(" ")).collect();
    let is_init = |call: &String| call.starts_with("ncclCommInitRankConfig commId ");
    assert_eq!(calls.len(), 6, "{lines:#?}");
    for round in calls.chunks(3) {
        assert!(is_init(&round[0]) && round[1..] == ["Broadcast: opCount 0", "Broadcast: opCount 1"], "{lines:#?}");
    }
    assert_eq!(fs::read_to_string(home.path("own.txt")).unwrap(), "");
}

#[test]
fn a_program_goes_on_when_its_recording_cannot_be_written() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let run = home.run(&["record", "--", "sh", "-c", "trap '' XFSZ; ulimit -f 0; exec ./program"]);
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(run.err.matches("collspec record: nothing is recorded: ").count(), 1, "{run}");
}

#[test]
fn every_call_is_written_down_with_its_group_and_its_communicator() {
    for placement in ["threads", "processes"] {
        let home = Home::new();
        let lines = recorded(&home, PROGRAM, placement);
        let count = |words: &[&str]| lines.iter().filter(|line| words.iter().all(|word| line.contains(word))).count();
        assert_eq!(count(&["ncclCommInitRank", " nranks 4 ", "Init START"]), 4, "{lines:#?}");
        assert_eq!(count(&["ncclCommSplit ", " splitCount 1 color 1 ", " nranks 2 "]), 2, "{lines:#?}");
        assert_eq!(count(&["ncclRedOpCreatePreMulSum op ", " factor 0.5 "]), 4, "{lines:#?}");
        assert_eq!(count(&[" AllReduce: opCount 0 ", " count 1000 datatype 7 ", "[nranks=4]"]), 4, "{lines:#?}");
        assert_eq!(count(&[" AllGather: opCount 0 ", "[nranks=2]", " group 1"]), 4, "{lines:#?}");
        assert_eq!(count(&[" Send: opCount 1 ", " root 3 ", " group 1"]), 1, "{lines:#?}");
        assert_eq!(count(&[" Recv: opCount 1 ", " root 0 ", " group 1"]), 1, "{lines:#?}");
    }
}

#[test]
fn the_calls_before_a_kill_are_there() {
    let home = Home::new();
    let text = r#"
world_size = 2
placement = "processes"
inputs.x = { each = "rank", count = 8 }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "wait" },
  { op = "exit", ranks = [1], status = "SIGKILL" },
]
"#;
    let lines = recorded(&home, text, "processes");
    assert_eq!(lines.iter().filter(|line| line.contains(" AllReduce: ")).count(), 2, "{lines:#?}");
}

#[test]
fn a_folder_with_a_recording_is_refused_and_so_is_a_program_that_does_not_exist() {
    let home = Home::new();
    home.file("not-executable", "#!/bin/sh\n");
    for program in ["./no-such-program", "no-such-program", "./not-executable", ".", ""] {
        let absent = home.run(&["record", "--", program]);
        assert_eq!(absent.code, 2, "{absent}");
        let told = absent.err.contains(&format!("cannot start {program}")) && !absent.err.contains("afterwards");
        assert!(told && !home.path("nccl-calls").exists(), "{absent}");
    }
    home.file("nccl-calls/host.1.log", "");
    let again = home.run(&["record", "--", "true"]);
    assert_eq!(again.code, 2, "{again}");
    assert!(again.err.contains("nccl-calls has the files of an earlier recording"), "{again}");
}

/// Calls after the place where ranks disagree are not left out: they are what `check` tells of.
#[test]
fn check_names_the_ranks_that_disagree_in_a_recording() {
    let home = Home::new();
    let program = r#"
world_size = 3
inputs.x = { each = "rank + i", count = 64 }
outcome = ["hang", "error", "ok", "crash"]
timeout = 1
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_reduce", ranks = [0, 1], in = "x", out = "y" },
  { op = "all_gather", ranks = [2], in = "x", out = "z" },
]
"#;
    recorded(&home, program, "threads");
    let files: Vec<String> = files(&home).iter().map(|path| path.to_str().unwrap().to_owned()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let import = home.run(&[&["import", "nccl-log", "--rounds", "-o", "imported.toml"], &files[..]].concat());
    let said = "ranks 0 and 1: all_reduce of 64 f32; rank 2: all_gather of 64 f32";
    assert!(import.code == 0 && import.err.contains(said), "{import}");
    let check = home.run(&["check", "imported.toml"]);
    assert!(check.code == 2 && check.err.contains("rank 2 calls AllGather of 64 f32"), "{check}");
}

#[test]
fn a_static_program_is_told_to_record_nothing() {
    let home = Home::new();
    home.file("program.c", "int main(void) { return 0; }");
    let said = |options: &[&str]| {
        let compiled =
            Command::new("cc").arg(home.path("program.c")).args(options).arg("-o").arg(home.path("program")).status();
        assert!(compiled.unwrap().success());
        let run = home.run(&["record", "--", "./program"]);
        assert_eq!(run.code, 0, "{run}");
        run.err.contains("./program is linked statically, so its own calls cannot be recorded")
    };
    assert!(said(&["-static"]) && !said(&[]));
}
