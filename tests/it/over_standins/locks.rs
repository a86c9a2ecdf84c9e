//! One case at a time runs on a device, whichever process runs it, and a process that is killed leaves no lock.
use super::{command, standin};
use crate::step_words::wait_for_program;
use crate::support::processes::{Process, end_of, ending_signals};
use crate::support::{Home, Run, SUM};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SLEEP: &str = "world_size = 2\ntimeout = 600\ninputs.x = { each = \"rank\", count = 1 }\nsteps = [\n\
    { op = \"all_reduce\", in = \"x\", out = \"y\" },\n{ op = \"wait\" },\n\
    { op = \"sleep\", ranks = [0], seconds = 300 },\n{ op = \"all_reduce\", in = \"x\", out = \"z\" } ]\n";

/// The time limit of the case that waits; its own work takes a small part of it.
const LIMIT: Duration = Duration::from_secs(3);

fn locks(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path(".")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "lock")).collect()
}

/// True if a process has the file's lock.
fn is_held(path: &Path) -> bool {
    flock(File::open(path).unwrap(), FlockOperation::NonBlockingLockExclusive).is_err()
}

/// The command over stand-in devices on which runs take turns as on GPUs.
fn exclusive(home: &Home, devices: usize, args: &[&str]) -> Command {
    let mut command = command(home, devices, &standin::library().unwrap(), args);
    command.env("COLLSPEC_STANDIN_EXCLUSIVE", "1");
    command
}

fn start(home: &Home, devices: usize, args: &[&str]) -> Child {
    let mut command = exclusive(home, devices, args);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// A run that sleeps with two devices, and its workers.
fn holder(home: &Home, placement: &str) -> (Child, Vec<Process>) {
    home.file("sleep.toml", SLEEP);
    let mut run = start(home, 2, &["run", "sleep.toml", "--placement", placement]);
    let workers = wait_for_program(&mut run, 2, if placement == "processes" { 2 } else { 1 });
    let held = locks(home);
    assert!(held.len() == 2 && held.iter().all(|path| is_held(path)), "a case runs with its devices locked");
    (run, workers)
}

fn kill(run: &Child, signal: Signal) {
    kill_process(Pid::from_raw(run.id().cast_signed()).unwrap(), signal).unwrap();
}

#[test]
#[ignore = "slow"]
fn a_second_process_waits_for_the_devices_with_its_clock_standing_still() {
    let home = Home::new();
    home.file("sum.toml", &format!("timeout = {}\n{SUM}", LIMIT.as_secs()));
    let (first, workers) = holder(&home, "threads");
    let mut second = exclusive(&home, 2, &["run", "sum.toml", "--format", "jsonl"]);
    let mut second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(second.stderr.take().unwrap()).lines().map(Result::unwrap);
    let message = lines.find(|line| line.contains("waiting for GPU-")).unwrap();
    let holder = format!("which process {} (", first.id());
    assert!(message.contains(&holder) && message.contains(".lock)"), "{message}");
    // Longer than its limit; no event can say that this time has passed.
    std::thread::sleep(LIMIT + Duration::from_millis(500));
    assert!(second.try_wait().unwrap().is_none(), "it still waits");
    // Stand-in devices are every process's own, unless it is said otherwise.
    let third = Run::of(&mut command(&home, 2, &standin::library().unwrap(), &["run", "sum.toml"]));
    assert_eq!(third.code, 0, "{third}");

    kill(&first, Signal::KILL);
    let second = second.wait_with_output().unwrap();
    let out = String::from_utf8(second.stdout).unwrap();
    let verdict: Value = serde_json::from_str(out.lines().next().unwrap()).unwrap();
    assert_eq!((second.status.code(), &verdict["status"]), (Some(0), &"pass".into()), "{verdict}");
    assert!(verdict["seconds"].as_f64().unwrap() < LIMIT.as_secs_f64(), "{verdict}");
    let mut first = first;
    first.wait().unwrap();
    workers.iter().for_each(Process::wait_for_end);
}

#[test]
fn a_lock_ends_with_its_process_however_that_ends() {
    for placement in ["threads", "processes"] {
        for signal in ending_signals() {
            let home = Home::new();
            let (mut run, workers) = holder(&home, placement);
            kill(&run, signal);
            end_of(&mut run);
            for path in locks(&home) {
                assert!(!is_held(&path), "{signal:?}: {} is free", path.display());
                assert_eq!(fs::metadata(&path).unwrap().len(), 0);
            }
            workers.iter().for_each(Process::wait_for_end);
            let names = fs::read_dir(home.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
            names.retain(|name| !name.ends_with(".lock"));
            assert_eq!(names, ["sleep.toml"], "nothing else is left");
            // the lock files that are left do not hold up the next run
            home.file("sum.toml", SUM);
            let after = Run::of(&mut exclusive(&home, 2, &["run", "sum.toml"]));
            assert_eq!(after.code, 0, "{after}");
        }
    }
}

#[test]
fn lock_files_that_exist_already_do_no_harm() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    home.file("sum.toml", SUM);
    let run = || Run::of(&mut exclusive(&home, 1, &["run", "sum.toml", "--ranks-per-gpu", "2"]));
    let first = run();
    assert_eq!(first.code, 0, "{first}");
    let [lock] = locks(&home).try_into().unwrap();
    // a lock file of another user, which may only be read
    fs::set_permissions(&lock, fs::Permissions::from_mode(0o444)).unwrap();
    assert_eq!(run().code, 0);
    // opening a pipe as a file must not wait forever
    fs::remove_file(&lock).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, &lock, rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(run().code, 0);
    // a link is not followed, because it may lead anywhere
    fs::remove_file(&lock).unwrap();
    std::os::unix::fs::symlink(home.path("sum.toml"), &lock).unwrap();
    let link = run();
    assert!(link.code == 2 && link.out.contains("cannot lock the GPUs: "), "{link}");
    assert!(link.out.contains(lock.file_name().unwrap().to_str().unwrap()), "{link}");
}

#[test]
fn a_folder_that_takes_no_lock_files_is_named() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    let mut command = exclusive(&home, 2, &["run", "sum.toml"]);
    // not even the superuser may create files here
    let run = Run::of(command.env("XDG_RUNTIME_DIR", "/proc"));
    assert!(run.code == 2 && run.out.contains("cannot lock the GPUs: /proc/collspec-"), "{run}");
    assert!(!run.err.contains("panicked"), "{run}");
}

/// The command with a file system of this size at `disk` in the home, in its own name space; `None`, with the reason
/// on standard error, where that is not allowed.
fn on_a_small_disk(home: &Home, options: &str, args: &[&str]) -> Option<Command> {
    fs::create_dir_all(home.path("disk")).unwrap();
    let mount = format!("mount -t tmpfs -o {options} none disk");
    let small = |then: &str| {
        let mut shell = Command::new("unshare");
        shell.args(["--user", "--map-root-user", "--mount", "sh", "-c"]).arg(format!("{mount} && {then}"));
        shell.current_dir(home.path("."));
        shell
    };
    if !small("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: no file system can be mounted here");
        return None;
    }
    let inner = exclusive(home, 2, args);
    let mut shell = small("\"$0\" \"$@\"; code=$?; ls disk >&2; exit $code");
    shell.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("XDG_RUNTIME_DIR", home.path("disk")).env("TMPDIR", home.path("disk"));
    Some(shell)
}

#[test]
fn a_full_disk_is_said_and_nothing_is_left_on_it() {
    let home = Home::new();
    home.file("sum.toml", SUM);
    // no room for a lock
    if let Some(mut full) = on_a_small_disk(&home, "size=64k,nr_inodes=1", &["run", "sum.toml"]) {
        let run = Run::of(&mut full);
        assert!(run.code == 2 && run.out.contains("cannot lock the GPUs: "), "{run}");
        assert!(run.out.contains("No space left on device") && !run.err.contains("panicked"), "{run}");
    }
    // room for locks, and for the beginning of the report
    let numbers: Vec<String> = (0..200).map(|k| k.to_string()).collect();
    let text = format!(
        "matrix.k = [{}]\nworld_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"k\", count = 60 }}\n",
        numbers.join(", ")
    );
    home.file("many.toml", &text);
    let args = ["run", "many.toml", "--format", "jsonl", "--output", "disk/report"];
    if let Some(mut full) = on_a_small_disk(&home, "size=16k", &args) {
        let run = Run::of(&mut full);
        assert!(run.code == 2 && run.err.contains("cannot write disk/report: No space left on device"), "{run}");
        let left: Vec<&str> = run.err.lines().filter(|line| line.ends_with(".lock") || *line == "report").collect();
        assert_eq!(
            (left.len(), run.err.lines().last()),
            (3, Some("report")),
            "two free lock files and the report: {run}"
        );
    }
}
