//! The command while its processes are killed at random, and when it is killed itself.

use crate::step_words::{are_in_program, wait_for_program};
use crate::support::Home;
use crate::support::processes::{Descendants, Process, children, end_of, ending_signals, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Per placement, as many cases of two ranks that end, and of three ranks that do not.
const CASES: usize = 30;

/// A case of two ranks ends at once; one of three ranks sleeps until it is killed.
fn cases_that_end_or_must_be_killed(home: &Home) {
    let numbers = (1..=CASES).map(|k| k.to_string()).collect::<Vec<_>>().join(", ");
    let body = format!(
        "timeout = 900\nmatrix.k = [{numbers}]\nmatrix.world_size = [2, 3]\n\
         inputs.x = {{ each = \"k + rank\", count = 3 }}\nsteps = [\n{{ op = \"all_reduce\", in = \"x\", out = \"y\" }},\n\
         {{ op = \"wait\" }},\n{{ op = \"sleep\", seconds = \"600 * (world_size - 2)\" }},\n\
         {{ op = \"all_reduce\", in = \"y\", out = \"z\" }} ]\nexpect.y = {{ each = \"2 * k + 1\" }}\n"
    );
    home.file("scenarios/processes.toml", &format!("placement = \"processes\"\n{body}"));
    home.file("scenarios/threads.toml", &body);
}

/// A pseudo-random sequence.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
fn a_killed_process_costs_one_case_and_no_other_verdict() {
    let home = Home::new();
    cases_that_end_or_must_be_killed(&home);
    let command = home.command(&["run", "--jobs", "2", "--format", "jsonl"]);
    let (mut run, descendants) =
        Descendants::of(&command, |command| _ = command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let out = BufReader::new(run.stdout.take().unwrap());
    let lines = std::thread::spawn(move || out.lines().map(Result::unwrap).collect::<Vec<_>>());
    let mut state = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {state}");
    let mut killed = 0;
    wait_until("the run ends", || {
        let workers = children(run.id());
        // only a case that sleeps has a third rank that stays in its program
        let (asleep, others): (Vec<i32>, Vec<i32>) = workers.into_iter().partition(|pid| are_in_program(*pid, 3));
        // one time in four the victim may be in any state: starting, running a case, waiting for one, or ending
        let victims = if next(&mut state).is_multiple_of(4) { &others } else { &asleep };
        if !victims.is_empty() {
            let victim = Process::find(victims[next(&mut state) % victims.len()]);
            killed += usize::from(victim.is_some_and(|victim| victim.signal(Signal::KILL)));
        }
        lines.is_finished()
    });
    run.wait().unwrap();
    let mut lines: Vec<Value> = lines.join().unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.pop().is_some_and(|last| last["summary"].is_object()));
    let names: BTreeSet<_> = lines.iter().map(|line| line["case"].to_string()).collect();
    assert_eq!((lines.len(), names.len()), (4 * CASES, 4 * CASES), "every case has one verdict");
    let failed: Vec<_> = lines.iter().filter(|line| line["status"] != "pass").collect();
    println!("{killed} kills, {} cases failed", failed.len());
    assert!(failed.len() <= killed, "{killed} kills cost {} cases", failed.len());
    let of_three = |line: &&Value| line["case"].as_str().is_some_and(|name| name.contains("world_size=3"));
    assert_eq!(failed.iter().filter(|line| of_three(line)).count(), 2 * CASES, "a case that was killed fails");
    for line in failed {
        let reason = line["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("SIGKILL"), "only a kill makes a case fail: {line}");
    }
    descendants.wait_for_end();
}

/// A run with four processes that are in the program of a case.
fn run_with_four_processes(home: &Home) -> (Child, Descendants) {
    let text = "world_size = 4\nplacement = \"processes\"\ntimeout = 900\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
        { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"sleep\", ranks = [0], seconds = 600 },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";
    home.file("scenarios/asleep.toml", text);
    let (mut run, descendants) =
        Descendants::of(&home.command(&["run"]), |command| _ = command.stdout(Stdio::null()).stderr(Stdio::null()));
    wait_for_program(&mut run, 4, 4);
    (run, descendants)
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
    for signal in ending_signals() {
        let home = Home::new();
        let (mut run, descendants) = run_with_four_processes(&home);
        send_signal(&run, signal);
        end_of(&mut run);
        descendants.wait_for_end();
    }
    assert_eq!(left_behind(), before);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_running() {
    if !std::path::Path::new("/dev/full").exists() {
        return;
    }
    let home = Home::new();
    for placement in ["threads", "processes"] {
        let numbers = (1..=250).map(|k| k.to_string()).collect::<Vec<_>>().join(", ");
        let body = format!("placement = \"{placement}\"\nmatrix.repeat = [{numbers}]\n{}", crate::support::SUM);
        home.file(&format!("scenarios/{placement}.toml"), &body);
    }
    let command = home.command(&["run", "--format", "jsonl", "--output", "/dev/full"]);
    let (mut run, descendants) =
        Descendants::of(&command, |command| _ = command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut words = String::new();
    run.stderr.take().unwrap().read_to_string(&mut words).unwrap();
    let code = run.wait().unwrap().code();
    assert!(matches!(code, Some(1 | 2)), "{code:?}: {words}");
    assert!(words.contains("No space left") || words.contains("cannot write"), "{words}");
    descendants.wait_for_end();
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
    assert!(run.code == 2 && run.out.contains("2 passed, 0 failed, 0 skipped, 1 not run"), "{run}");
    assert!(run.out.contains("NOT RUN b") && run.out.contains("File too large"), "{run}");
    let run = limited(&home, "ulimit -f 0", &["run", "--output", "words", "a.toml"]);
    assert!(run.code == 2, "no signal ends it: {run}");
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
    assert!(run.code == 2 && run.out.contains("2 passed, 0 failed, 0 skipped, 2 not run"), "{run}");
    assert!(run.out.contains("not enough memory: this case needs"), "{run}");
}

/// 1.6 MB of results per run: keeping all runs would take more memory than the limit.
#[test]
#[ignore = "slow"]
fn runs_are_judged_as_they_come() {
    let home = Home::new();
    let text = "world_size = 2\nrepeat = 900\nop = \"all_reduce\"\ninputs = { each = \"i\", count = 100000 }\n";
    home.file("a.toml", text);
    let run = limited(&home, "ulimit -v 600000", &["run", "--jobs", "1", "--timeout", "600", "a.toml"]);
    assert!(run.code == 0 && run.out.contains("1 passed"), "{run}");
}

#[test]
fn workers_are_of_the_build_that_was_started_although_another_takes_its_place() {
    let home = Home::new();
    let text = "world_size = 2\ntimeout = 900\noutcome = \"crash\"\ninputs.x = [[1], [2]]\nmatrix.seconds = [601, 602, 603, 604]\n\
        steps = [\n{ op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
        { op = \"sleep\", seconds = \"seconds\" } ]\n";
    home.file("scenarios/killed.toml", text);
    let program = home.path("collspec");
    // By another program: while this one has the file open for writing, a child of another test would have it too, and it could not be run.
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_collspec")).arg(&program).status().unwrap().success());
    let given = home.command(&["run", "--jobs", "1", "--format", "jsonl"]);
    let mut command = Command::new(&program);
    command.args(given.get_args()).current_dir(home.path("."));
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // each case ends when its worker is killed, and the next needs a new worker
    for case in 0..4 {
        let [worker] = &wait_for_program(&mut run, 2, 1)[..] else { panic!("one worker") };
        if case == 0 {
            std::fs::copy("/bin/false", home.path("other")).unwrap();
            std::fs::rename(home.path("other"), &program).unwrap();
        }
        assert!(worker.signal(Signal::KILL));
        worker.wait_for_end();
    }
    let output = run.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 5, "four cases and the summary");
    for line in lines.lines().take(4) {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["status"] == "error" && line["reason"].as_str().unwrap().contains("SIGKILL"), "{line}");
    }
    assert_eq!(output.status.code(), Some(2));
}

fn send_signal(run: &Child, signal: Signal) {
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), signal).unwrap();
}

/// The case sleeps while it is stopped, so that the time which counts is far below the limit.
#[test]
#[ignore = "slow"]
fn time_in_which_the_command_is_stopped_does_not_count() {
    const SLEEP: u64 = 4;
    const LIMIT: u64 = SLEEP + 1;
    let home = Home::new();
    let text = format!(
        "world_size = 2\ninputs.x = {{ each = \"rank\", count = 1 }}\nsteps = [\n\
         {{ op = \"all_reduce\", in = \"x\", out = \"y\" }},\n{{ op = \"wait\" }},\n\
         {{ op = \"sleep\", seconds = {SLEEP} }},\n{{ op = \"all_reduce\", in = \"x\", out = \"z\" }} ]\n"
    );
    home.file("a.toml", &text);
    let limit = LIMIT.to_string();
    let mut run = home.command(&["run", "--timeout", &limit, "a.toml"]).stdout(Stdio::piped()).spawn().unwrap();
    let [worker] = &wait_for_program(&mut run, 2, 1)[..] else { panic!("one worker") };
    // The worker is stopped too, so that its answer comes after the case's time limit.
    assert!(worker.signal(Signal::STOP));
    send_signal(&run, Signal::STOP);
    assert!(are_in_program(worker.pid, 2), "the case was stopped in its middle");
    // No event can say that a time limit has passed.
    std::thread::sleep(Duration::from_secs(LIMIT + 1));
    send_signal(&run, Signal::CONT);
    assert!(worker.signal(Signal::CONT));
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
