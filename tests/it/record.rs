//! `collspec record` writes down the NCCL calls of a program.
use crate::support::Home;
use std::fs;

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
    let files = fs::read_dir(home.path("nccl-calls")).unwrap().map(|file| file.unwrap().path());
    files.flat_map(|path| fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect::<Vec<_>>()).collect()
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
    let absent = home.run(&["record", "--", "./no-such-program"]);
    assert_eq!(absent.code, 2, "{absent}");
    assert!(absent.err.contains("cannot start ./no-such-program"), "{absent}");
    home.file("nccl-calls/host.1.log", "");
    let again = home.run(&["record", "--", "true"]);
    assert_eq!(again.code, 2, "{again}");
    assert!(again.err.contains("nccl-calls has the files of an earlier recording"), "{again}");
}
