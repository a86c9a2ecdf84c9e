//! The command while its processes are killed at random, and when it is killed itself.

use crate::support::{Home, children, has_ranks, stand_still};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const KILLS: usize = 50;

/// 500 cases that take a while, so that a kill often meets one: half of them with a process per rank.
fn many(home: &Home) {
    let body = "matrix.k = \"1..=250\"\ninputs.x = { each = \"k + rank\", count = 3 }\n\
        steps = [{ op = \"all_reduce\", in = \"x\", out = \"y\" }, { op = \"wait\" }, { op = \"sleep\", seconds = 0.02 }, \
        { op = \"all_reduce\", in = \"y\", out = \"z\" }]\nexpect.y = { each = \"2 * k + 1\" }\n";
    let numbers = (1..=250).map(|k| k.to_string()).collect::<Vec<_>>().join(", ");
    let body = body.replace("\"1..=250\"", &format!("[{numbers}]"));
    home.file("scenarios/a.toml", &format!("world_size = 2\nplacement = \"processes\"\n{body}"));
    home.file("scenarios/b.toml", &format!("world_size = 2\n{body}"));
}

/// A sequence that looks like chance.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

#[test]
fn a_killed_process_costs_one_case_and_no_other_verdict() {
    let home = Home::new();
    many(&home);
    let mut command = home.command(&["run", "--jobs", "2", "--format", "jsonl"]);
    // A small pipe, so that the run cannot get far ahead of the lines that were read.
    let (out, write) = rustix::pipe::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&write, 4096).unwrap();
    let mut run = command.stdout(write).stderr(Stdio::null()).spawn().unwrap();
    drop(command);
    let mut state = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {state}");
    let (mut killed, mut seen) = (0, BTreeSet::new());
    let mut lines: Vec<Value> = Vec::new();
    for line in BufReader::with_capacity(256, File::from(out)).lines() {
        lines.push(serde_json::from_str(&line.unwrap()).unwrap());
        if killed == KILLS || lines.len() < killed * 8 {
            continue;
        }
        std::thread::sleep(Duration::from_millis(next(&mut state) % 40));
        let workers = children(run.id());
        seen.extend(&workers);
        if !workers.is_empty() {
            let victim = workers[next(&mut state) as usize % workers.len()];
            killed += usize::from(kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).is_ok());
        }
    }
    run.wait().unwrap();
    let names: BTreeSet<_> = lines.iter().map(|line| line["case"].to_string()).collect();
    assert_eq!((lines.len(), names.len()), (500, 500), "every case has one verdict");
    let failed: Vec<_> = lines.iter().filter(|line| line["status"] != "pass").collect();
    println!("{killed} kills, {} cases failed", failed.len());
    assert!(killed >= KILLS, "only {killed} kills");
    assert!(failed.len() <= killed, "{killed} kills cost {} cases", failed.len());
    assert!(!failed.is_empty(), "no kill met a case");
    for line in failed {
        let reason = line["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("SIGKILL"), "only a kill makes a case fail: {line}");
    }
    crate::support::within("no process is left", || !seen.iter().any(|pid| lives(*pid)));
}

fn asleep(home: &Home) -> (Child, Vec<i32>) {
    let text = "world_size = 4\nplacement = \"processes\"\ntimeout = 900\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"sleep\", ranks = [0], seconds = 600 },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";
    home.file("scenarios/asleep.toml", text);
    let mut run = home.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut workers = Vec::new();
    crate::support::within("four processes with a rank sleep or wait", || {
        assert!(run.try_wait().unwrap().is_none(), "it has ended");
        workers = children(run.id());
        workers.len() == 4 && workers.iter().all(|pid| has_ranks(*pid)) && stand_still(&workers)
    });
    (run, workers)
}

fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// What the command and its processes may have left in the folders for temporary files.
fn left_behind() -> BTreeSet<String> {
    let folders = [std::env::temp_dir(), "/dev/shm".into()];
    let entries = folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).filter(|path| path.contains("collspec")).collect()
}

#[test]
fn no_process_and_no_file_outlives_a_parent_that_is_killed_or_interrupted() {
    let before = left_behind();
    for signal in [Signal::KILL, Signal::INT, Signal::TERM] {
        let home = Home::new();
        let (mut run, workers) = asleep(&home);
        kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), signal).unwrap();
        run.wait().unwrap();
        crate::support::within("all four end", || !workers.iter().any(|pid| lives(*pid)));
    }
    assert_eq!(left_behind(), before);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_running() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let home = Home::new();
    many(&home);
    let mut command: Command = home.command(&["run", "--format", "jsonl", "--output", "/dev/full"]);
    let mut run = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = run.id();
    let mut words = String::new();
    std::io::Read::read_to_string(&mut run.stderr.take().unwrap(), &mut words).unwrap();
    let code = run.wait().unwrap().code();
    assert!(matches!(code, Some(1 | 2)), "{code:?}: {words}");
    assert!(words.contains("No space left") || words.contains("cannot write"), "{words}");
    crate::support::within("no process is left", || children(pid).is_empty());
}

/// The output of a run under a limit that the shell sets.
fn limited(home: &Home, limit: &str, args: &[&str]) -> crate::support::Run {
    let mut shell = Command::new("sh");
    let program = home.command(args);
    shell
        .arg("-c")
        .arg(format!("{limit} && exec \"$@\""))
        .arg("sh")
        .arg(program.get_program())
        .args(program.get_args());
    shell.current_dir(home.path("."));
    crate::support::Run::of(&mut shell)
}

#[test]
fn a_limit_of_file_sizes_costs_the_cases_that_need_more_and_no_other_verdict() {
    let home = Home::new();
    home.file("a.toml", crate::support::SUM);
    home.file("b.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 1000000 }\n");
    home.file("c.toml", crate::support::SUM);
    // The unit is 512 bytes or a kilobyte, depending on the shell: one or two megabytes are enough for all but `b`.
    let run = limited(&home, "ulimit -f 2048", &["run", "--jobs", "1", "a.toml", "b.toml", "c.toml"]);
    assert!(run.code == 1 && run.out.contains("2 passed, 1 failed"), "{run}");
    assert!(run.out.contains("FAIL b") && run.out.contains("File too large"), "{run}");
    let run = limited(&home, "ulimit -f 0", &["run", "--output", "words", "a.toml"]);
    assert!(matches!(run.code, 1 | 2), "no signal ends it: {run}");
    assert!(run.err.contains("File too large"), "{run}");
}

#[test]
fn memory_that_is_not_there_costs_the_cases_that_need_it() {
    let home = Home::new();
    home.file("a.toml", crate::support::SUM);
    home.file("large.toml", "world_size = 2\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 60000000 }\n");
    home.file("many.toml", "world_size = 1000\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 1 }\n");
    home.file("z.toml", crate::support::SUM);
    let args = ["run", "--jobs", "1", "a.toml", "large.toml", "many.toml", "z.toml"];
    let run = limited(&home, "ulimit -v 900000", &args);
    assert!(run.code == 1 && run.out.contains("2 passed, 2 failed"), "{run}");
    assert!(run.out.contains("no memory for the"), "{run}");
}

/// 1.6 MB of results per run: keeping all runs would take more memory than the limit.
#[test]
fn runs_are_judged_as_they_come() {
    let home = Home::new();
    let text = "world_size = 2\nrepeat = 1500\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 100000 }\n";
    home.file("a.toml", text);
    let run = limited(&home, "ulimit -v 900000", &["run", "--jobs", "1", "--timeout", "600", "a.toml"]);
    assert!(run.code == 0 && run.out.contains("1 passed"), "{run}");
}

#[test]
fn workers_are_of_the_build_that_was_started_although_another_takes_its_place() {
    let home = Home::new();
    let exit = "world_size = 2\noutcome = \"crash\"\ninputs.x = [[1], [2]]\nmatrix.k = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n\
        steps = [\n{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"sleep\", seconds = \"0.1 + 0 * k\" },\n{ op = \"exit\", ranks = [1] } ]\n";
    home.file("scenarios/exit.toml", exit);
    let program = home.path("collspec");
    std::fs::copy(env!("CARGO_BIN_EXE_collspec"), &program).unwrap();
    let given = home.command(&["run", "--jobs", "1", "--format", "jsonl"]);
    let mut command = Command::new(&program);
    command.args(given.get_args()).current_dir(home.path("."));
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first = lines.next().unwrap();
    std::fs::copy("/bin/false", home.path("other")).unwrap();
    std::fs::rename(home.path("other"), &program).unwrap();
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest.len(), 9);
    for line in [first].iter().chain(&rest) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["status"], "pass", "{line}");
    }
    assert_eq!(run.wait().unwrap().code(), Some(0));
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn time_in_which_the_command_is_stopped_does_not_count() {
    let home = Home::new();
    let text = "world_size = 2\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n{ op = \"sleep\", seconds = 2 },\n\
        { op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";
    home.file("a.toml", text);
    let run = home.command(&["run", "--timeout", "8", "a.toml"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut worker = None;
    crate::support::within("the ranks are at work", || {
        worker = children(run.id()).into_iter().find(|pid| has_ranks(*pid));
        worker.is_some()
    });
    let worker = worker.unwrap().unsigned_abs();
    // The worker is stopped too, so that its answer comes after the case's time limit.
    signal(worker, Signal::STOP);
    signal(run.id(), Signal::STOP);
    // Longer than the limit.
    std::thread::sleep(Duration::from_secs(9));
    signal(run.id(), Signal::CONT);
    signal(worker, Signal::CONT);
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
