//! The command while its processes are killed at random, and when it is killed itself.
mod support;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Home, children};

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
    let out = File::create(home.path("out")).unwrap();
    let mut run = command.stdout(out).stderr(Stdio::null()).spawn().unwrap();
    let mut state = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {state}");
    let (mut killed, mut seen) = (0, BTreeSet::new());
    while run.try_wait().unwrap().is_none() {
        std::thread::sleep(Duration::from_millis(5 + next(&mut state) % 40));
        let workers = children(run.id());
        seen.extend(&workers);
        if killed < KILLS && !workers.is_empty() {
            let victim = workers[next(&mut state) as usize % workers.len()];
            killed += usize::from(kill_process(Pid::from_raw(victim).unwrap(), Signal::KILL).is_ok());
        }
    }
    let out = std::fs::read_to_string(home.path("out")).unwrap();
    let lines: Vec<Value> = out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
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
    support::within(Duration::from_secs(10), "no process is left", || !seen.iter().any(|pid| lives(*pid)));
}

fn asleep(home: &Home) -> (Child, Vec<i32>) {
    let text = "world_size = 4\nplacement = \"processes\"\ntimeout = 60\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"sleep\", ranks = [0], seconds = 40 },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";
    home.file("scenarios/asleep.toml", text);
    let mut run = home.command(&["run"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut workers = Vec::new();
    support::within(Duration::from_secs(20), "four processes start", || {
        workers = children(run.id());
        workers.len() == 4 || run.try_wait().unwrap().is_some()
    });
    // ranks are in a sleep or in a wait by then
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(children(run.id()).len(), 4);
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
        let begun = Instant::now();
        run.wait().unwrap();
        support::within(Duration::from_secs(10), "all four end", || !workers.iter().any(|pid| lives(*pid)));
        println!("{signal:?}: gone after {:?}", begun.elapsed());
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
    support::within(Duration::from_secs(10), "no process is left", || children(pid).is_empty());
}
