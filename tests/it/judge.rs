//! `collspec judge` looks at a program's results: it finds wrong ones, says what it did not look at, and leaves nothing behind.
use crate::faults::example;
use crate::support::{Home, Run};
use collspec_run::library::standin;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use wrong_nccl::TABLE;

/// Every operation, types that round, factors, splits, groups, messages and a graph.
pub const ALL: &str = r#"
world_size = 4
inputs.x = { random = { seed = 1 }, count = 1000, dtype = "f32" }
inputs.b = { random = { seed = 2 }, count = 4000, dtype = "bf16" }
inputs.k = { each = "rank + i", count = 5000, dtype = "i32" }
inputs.e = { random = { seed = 3, low = 0, high = 2 }, count = 100, dtype = "f8e4m3" }
comms.pairs = { color = "rank % 2" }
steps = [
  { op = "all_reduce", in = "x", out = "y" },
  { op = "all_reduce", reduce = { premul_sum = [0.5, 0.5, 0.25, 0.5] }, in = "x", out = "y2" },
  { op = "all_reduce", reduce = { premul_sum = [3, 1, 2, 5], scalar = "device" }, in = "b", out = "b2" },
  { op = "all_reduce", reduce = "avg", in = "b", out = "b" },
  { op = "all_reduce", reduce = "prod", in = "k", out = "k2" },
  { op = "all_reduce", in = "e", out = "e2" },
  { op = "all_gather", in = "x", out = "z" },
  { op = "reduce_scatter", in = "b", out = "rs" },
  { op = "all_to_all", in = "k", out = "a2a" },
  { op = "broadcast", root = 2, in = "k", out = "bc" },
  { op = "reduce", root = 1, reduce = "max", in = "x", out = "rd" },
  { op = "gather", root = 3, in = "x", out = "ga" },
  { op = "scatter", root = 1, in = "k", out = "sc" },
  { op = "group", steps = [
    { op = "all_gather", comm = "pairs", in = "x", out = "zz" },
    { op = "send", ranks = [0], peer = 3, in = "x" },
    { op = "recv", ranks = [3], peer = 0, out = "w" },
  ] },
  { op = "all_reduce", graph = "g", in = "x", out = "gy" },
  { op = "loop", times = 3, steps = [{ op = "launch", graph = "g" }] },
]
"#;
/// Calls of all ranks: 14 steps, two halves of a message, and a graph that was captured once and launched three times.
const CALLS: u64 = 14 * 4 + 2 + 3 * 4;

/// The folder with the driver and the library that is wrong if it is asked to be.
pub fn wrong(home: &Home) -> String {
    let library = standin::installed("libcollspec_standin_wrong.so").unwrap();
    fs::create_dir_all(home.path("wrong")).unwrap();
    for name in ["libcuda.so.1", "libcuda.so", "libnccl.so.2"] {
        let _ = std::os::unix::fs::symlink(&library, home.path("wrong").join(name));
    }
    home.path("wrong").to_str().unwrap().to_owned()
}

/// Runs `collspec judge` with a folder for temporary files, in which nothing must be left.
fn judge(home: &Home, arguments: &[&str], fault: &str) -> Run {
    fs::create_dir_all(home.path("tmp")).unwrap();
    let mut command = home.command(&[&["judge"], arguments].concat());
    command.env("TMPDIR", home.path("tmp"));
    if !fault.is_empty() {
        command.env("COLLSPEC_STANDIN_FAULT", fault);
    }
    let run = Run::of(&mut command);
    assert_eq!(fs::read_dir(home.path("tmp")).unwrap().count(), 0, "{run}");
    run
}

/// Runs a scenario as the program, on the library that may be wrong.
fn scenario(home: &Home, options: &[&str], text: &str, fault: &str, run_options: &[&str]) -> Run {
    home.file("program.toml", text);
    let folder = wrong(home);
    let library = format!("{folder}/libnccl.so.2");
    let program = [env!("CARGO_BIN_EXE_collspec"), "run", "program.toml", "--nccl", &library, "--driver", &folder];
    judge(home, &[options, &["--json", "verdict.json", "--"], &program, run_options].concat(), fault)
}

fn verdict(home: &Home) -> Value {
    serde_json::from_str(&fs::read_to_string(home.path("verdict.json")).unwrap()).unwrap()
}

#[test]
fn the_results_of_a_right_library_are_judged_and_none_is_wrong() {
    for placement in ["threads", "processes", "one_thread"] {
        let home = Home::new();
        let run = scenario(&home, &[], ALL, "", &["--placement", placement]);
        let verdict = verdict(&home);
        assert_eq!(run.code, 0, "{run}");
        assert_eq!(verdict["wrong"], 0, "{run}");
        // That of the capture itself is not a call of its own.
        assert_eq!(verdict["calls"]["judged"], CALLS, "{verdict:#} {run}");
        let count = |lane: &str| verdict["elements"][lane].as_u64().unwrap();
        assert!(count("exact") > 1000 && count("orders") > 500 && count("undecided") == 0, "{verdict:#}");
    }
}

#[test]
fn every_element_is_looked_at_if_asked() {
    let home = Home::new();
    let run = scenario(
        &home,
        &["--all"],
        "world_size = 2\nop = \"all_gather\"\ninputs = { each = \"i\", count = 30000 }\n",
        "",
        &[],
    );
    assert_eq!(run.code, 0, "{run}");
    assert_eq!(verdict(&home)["elements"]["exact"], 2 * 60_000, "{run}");
}

#[test]
fn a_wrong_element_is_told_and_becomes_a_scenario_that_shows_it_again() {
    let home = Home::new();
    let run = scenario(&home, &["-o", "wrong.toml"], ALL, "F01", &[]);
    assert_eq!(run.code, 1, "{run}");
    let told = run.err.lines().find(|line| line.contains("collspec: wrong: rank ")).unwrap_or_default();
    assert!(told.contains(" of 4, call ") && told.contains(": all_to_all of 1250 i32; element "), "{run}");
    assert!(verdict(&home)["wrong"].as_u64().unwrap() > 0, "{run}");
    let folder = wrong(&home);
    let library = format!("{folder}/libnccl.so.2");
    let again = |fault: &str| {
        let mut command = home.command(&["run", "wrong.toml", "--nccl", &library, "--driver", &folder]);
        Run::of(if fault.is_empty() { &mut command } else { command.env("COLLSPEC_STANDIN_FAULT", fault) })
    };
    let (right, wrong) = (again(""), again("F01"));
    assert!(right.code == 0 && wrong.code == 1, "{right}{wrong}");
}

/// Every operation's scenario is one that is accepted and passes on a right library.
#[test]
fn scenarios_of_every_operation_are_accepted() {
    let sum = "inputs = { each = \"rank + i\", count = 8 }\n";
    let operations =
        ["all_reduce", "reduce", "broadcast", "all_gather", "gather", "reduce_scatter", "scatter", "all_to_all"];
    for op in operations {
        let home = Home::new();
        let text = format!("world_size = 4\nop = \"{op}\"\n{sum}");
        let run = scenario(&home, &["--output", "copies"], &text, "", &[]);
        assert_eq!(run.code, 0, "{run}");
        // One digit of an output is another.
        for file in fs::read_dir(home.path("copies")).unwrap() {
            let path = file.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let changed = text.lines().map(|line| match line.split_once("side=out ") {
                Some((before, after)) => format!("{before}side=out {}", after.replace("hex=0", "hex=9")),
                None => line.to_owned(),
            });
            fs::write(&path, changed.collect::<Vec<_>>().join("\n") + "\n").unwrap();
        }
        let changed = home.run(&["judge", "-o", "wrong.toml", "copies"]);
        assert!(changed.code == 1 && changed.out.contains(&format!(": {op} ")), "{op}: {changed}");
        let run = home.run(&["run", "wrong.toml"]);
        assert_eq!(run.code, 0, "{op}: {run}\n{}", fs::read_to_string(home.path("wrong.toml")).unwrap());
    }
}

/// Builds the program of judge.c; false if that is not possible here.
pub fn built(home: &Home) -> bool {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/judge.c");
    match Command::new("cc").args(["-o", "program", source, "-ldl"]).current_dir(home.path("")).status() {
        Ok(status) => {
            assert!(status.success());
            true
        }
        Err(error) => {
            eprintln!("skipped: no C compiler (cc: {error})");
            false
        }
    }
}

/// The program, with two calls in each round.
fn program(home: &Home, options: &[&str], rounds: &str, what: &[&str], fault: &str) -> Run {
    let folder = wrong(home);
    judge(
        home,
        &[options, &["--json", "verdict.json", "--driver", "cuda", "--", "./program", &folder, rounds], what].concat(),
        fault,
    )
}

#[test]
fn a_program_that_succeeds_with_wrong_results_does_not_pass() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let right = program(&home, &[], "3", &[], "");
    assert!(right.code == 0 && right.err.contains("collspec: 6 calls seen, 6 judged, 0 not; "), "{right}");
    let wrong = program(&home, &[], "3", &[], "F49-f32-sum");
    let line = wrong.err.lines().find(|line| line.contains("wrong: ")).unwrap_or_default();
    assert!(wrong.code == 1 && line.contains("all_reduce sum of 1000 f32") && line.contains("; program+0x"), "{wrong}");
    let few = program(&home, &["--at-least", "1000"], "3", &[], "");
    assert!(few.code == 3 && few.err.contains("fewer elements"), "{few}");
}

#[test]
fn programs_that_end_otherwise_keep_their_exit_code_and_are_told_of() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let early = program(&home, &[], "3", &["early"], "");
    assert_eq!(early.code, 3, "{early}");
    let killed = program(&home, &[], "3", &["kill"], "");
    assert_eq!(killed.code, 128 + 9, "{killed}");
    assert_eq!(verdict(&home)["calls"]["judged"], 2, "what had ended is judged: {killed}");
    let forked = program(&home, &[], "2", &["fork"], "");
    assert!(forked.code == 0 && verdict(&home)["calls"]["judged"] == 4, "{forked}");
    let descriptors = program(&home, &[], "2", &["descriptors"], "");
    assert_eq!(descriptors.code, 0, "{descriptors}");
    let said = descriptors.err.contains("collspec judge: nothing is recorded: ");
    assert!(said || verdict(&home)["calls"]["judged"] == 4, "{descriptors}");
    let folder = home.path("second");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(standin::library().unwrap(), folder.join("libnccl.so.2")).unwrap();
    let second = program(&home, &[], "2", &["second", folder.to_str().unwrap()], "");
    assert!(second.code == 0 && second.err.contains("1 processes use a second NCCL library"), "{second}");
    let none = judge(&home, &["--driver", "cuda", "--", "sh", "-c", "exit 7"], "");
    assert!(none.code == 7 && none.err.contains("no call of NCCL was seen"), "{none}");
    let absent = judge(&home, &["--", "./no-such-program"], "");
    assert!(absent.code == 2 && absent.err.contains("cannot start ./no-such-program"), "{absent}");
}

#[test]
fn a_full_disk_or_a_limit_ends_the_copies_and_not_the_program() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let limited = program(&home, &["--limit-bytes", "4096", "--output", "copies"], "50", &[], "");
    assert!(limited.code == 0 && limited.err.contains("1 files reached their limit"), "{limited}");
    let files = fs::read_dir(home.path("copies")).unwrap().map(|file| file.unwrap().metadata().unwrap().len());
    assert!(files.sum::<u64>() < 4096 + 1000, "{limited}");
    let folder = wrong(&home);
    let line = format!("trap '' XFSZ; ulimit -f 0; exec ./program {folder} 2");
    let full = judge(&home, &["--driver", "cuda", "--", "sh", "-c", &line], "");
    assert!(full.code == 0 && full.err.matches("collspec judge: nothing is recorded: ").count() == 1, "{full}");
}

#[test]
fn ranks_agree_on_the_sample() {
    let home = Home::new();
    if !built(&home) {
        return;
    }
    let run = program(&home, &["--sample", "0.25", "--seed", "5"], "200", &[], "");
    let verdict = verdict(&home);
    let judged = verdict["calls"]["judged"].as_u64().unwrap();
    assert!(run.code == 0 && judged.is_multiple_of(2) && (50..150).contains(&judged), "{run}");
    assert_eq!(verdict["calls"]["not_judged"], serde_json::json!({ "not in the sample": 400 - judged }), "{run}");
}

/// A file that is not as the recorder writes it is refused with its place, whatever is wrong with it; it never ends otherwise.
#[test]
fn files_from_strangers_are_judged_or_refused() {
    let home = Home::new();
    let run = scenario(&home, &["--output", "copies"], ALL, "", &[]);
    assert_eq!(run.code, 0, "{run}");
    let path = fs::read_dir(home.path("copies")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&path).unwrap();
    let damaged = home.path("damaged.log");
    let read = |bytes: &[u8]| {
        fs::write(&damaged, bytes).unwrap();
        collspec_cli::judge::judge(std::slice::from_ref(&damaged), None).map_err(|error| error.to_string())
    };
    assert_eq!(read(&whole).unwrap().wrong, 0);
    let mut random = 7u64;
    let mut draw = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize % below
    };
    for _ in 0..300 {
        let mut bytes = whole.clone();
        match draw(3) {
            0 => bytes.truncate(draw(whole.len())),
            1 => _ = bytes.drain(..draw(whole.len())),
            _ => (0..8).for_each(|_| bytes[draw(whole.len())] = b"0123456789abcdefx=:+, \n\0\xff"[draw(25)]),
        }
        if let Err(error) = read(&bytes) {
            assert!(error.contains("damaged.log:"), "{error}");
        }
    }
    let line = |rest: &str| format!("h:1:1 [0] NCCL INFO collspec-judge {rest}\n");
    let call = "call id=0 op=AllReduce comm=0x1 seq=0 rank=0 ranks=2 root=0 count=4 type=7 reduce=0 number=0 in=1 out=1 graph=0 at=x";
    for (text, message) in [
        (line("data id=0 side=in replay=0 runs=0:0+4 hex=00"), "data of a call 0 that is not there"),
        (line(&call.replace("ranks=2", "ranks=99999")), "ranks is 99999, and must be less than 1025"),
        (line(&call.replace("count=4", "count=99999999999999999")), "count is 99999999999999999"),
        (line(&call.replace("op=AllReduce", "op=Nothing")), "an operation that this version does not know"),
        (line(call) + &line("data id=0 side=in replay=0 runs=0:2+4 hex=00"), "are not in the call's buffer"),
        (line(call) + &line("data id=0 side=in replay=0 runs=0:0+4 hex=00"), "2 digits for 4 elements of f32"),
        (line(call) + &line(call), "call 0 of this process was there before"),
        (format!("{}\n", "x".repeat(300 << 10)), "a line of more than 262144 bytes"),
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let captured = read(line(&call.replace("graph=0", "graph=1")).as_bytes()).unwrap();
    let reasons = captured.json()["calls"]["not_judged"].clone();
    assert_eq!(reasons, serde_json::json!({ "of a graph that was never launched": 1 }));
    fs::write(&damaged, "x".repeat(300 << 10)).unwrap();
    let refused = home.run(&["judge", "damaged.log"]);
    assert!(refused.code == 2 && refused.err.contains("damaged.log:1: a line of more than"), "{refused}");
}

/// Faults that write past the end of an output, or into one of a rank that gets none.
const BESIDE: &[&str] = &["F03", "F16", "F16b"];
/// Those that change an input after it was read.
const OF_INPUTS: &[&str] = &["F20", "F20b"];
/// Messages of unlike sizes are exchanged, so that their calls disagree; another order of a sum is admissible, and each call is judged by itself.
const ADMISSIBLE: &[&str] = &["F32b", "F89e"];
/// Those that hang, return or hide errors, answer questions wrongly, or number ranks otherwise.
const WITHOUT_RESULTS: &[&str] = &[
    "F34b", "F36", "F36b", "F36c", "F36d", "F36e", "F37b", "F40", "F40b", "F63", "F63b", "F63c", "F65", "F65c", "F65d",
    "F65e", "F65f", "F66", "F66b", "F66c", "F67", "F68", "F68b", "F68c", "F68d", "F93",
];

/// Found only where a copy for the judgement, or the program's other reader, comes while the input is changed.
const LEFT_TO_CHANCE: &[&str] = &["F64", "F77"];

/// Every other fault that strikes on the stand-in driver is found from the program's own data; the rates by kind are printed.
#[test]
#[ignore = "slow"]
fn faults_of_libraries_are_found() {
    let home = Home::new();
    let mut kinds: BTreeMap<&str, [u64; 3]> = BTreeMap::new();
    let (mut families, mut missed) = (BTreeSet::new(), BTreeSet::new());
    // One member of each family.
    for entry in TABLE.iter().filter(|entry| entry.family.is_none_or(|(family, _)| families.insert(family))) {
        let _ = fs::remove_file(home.path("verdict.json"));
        let run = scenario(&home, &[], &example(entry.id), entry.id, &["--timeout", "3"]);
        assert!(home.path("verdict.json").exists(), "{}: {run}", entry.id);
        let found = verdict(&home)["wrong"].as_u64().unwrap() > 0;
        // Exit code 0: it needs something that this library or the stand-in driver does not have.
        let at = if found { 0 } else { 1 + usize::from(run.code == 0) };
        if at == 1 && !LEFT_TO_CHANCE.contains(&entry.id) {
            missed.insert(entry.id);
        }
        kinds.entry(entry.class()).or_default()[at] += 1;
    }
    for (kind, [found, missed, idle]) in &kinds {
        println!("{kind}: {found} found, {missed} not, {idle} do not strike");
    }
    let known = [BESIDE, OF_INPUTS, ADMISSIBLE, WITHOUT_RESULTS].concat();
    assert_eq!(missed, BTreeSet::from_iter(known));
}
