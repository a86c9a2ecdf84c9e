//! Libraries that misbehave: this program is its own worker, on a software library with a fault that the case names in
//! its environment. Each gets the right verdict, and the case after it passes.
#![allow(unsafe_code)] // a table of C functions

#[path = "it/support/processes.rs"]
mod processes;

use collspec_core::judge::{Outcome, Status, Verdict};
use collspec_core::scenario::{AllowEnv, Case, SourceFile, parse_with};
use collspec_run::backend::{Backend, Device, Library};
use collspec_run::child::Workers;
use collspec_suite::suite::{RunOptions, Runner};
use libtest_mimic::{Arguments, Trial};
use nccl_sys::{Nccl, cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use processes::{Process, wait_until_readable};
use std::ffi::c_void;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

static REAL: OnceLock<Nccl> = OnceLock::new();
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn table() -> Nccl {
    let real = REAL.get_or_init(soft_nccl::table).clone();
    match std::env::var("NCCL_TEST_FAULT") {
        Ok(_) => Nccl { ncclAllReduce: Some(all_reduce), ncclCommGetAsyncError: Some(async_error), ..real },
        Err(_) => real,
    }
}

unsafe extern "C" fn async_error(comm: ncclComm_t, out: *mut ncclResult_t) -> ncclResult_t {
    if std::env::var("NCCL_TEST_FAULT").as_deref() == Ok("async") && CALLS.load(Ordering::SeqCst) > 0 {
        // SAFETY: the caller's place for the answer.
        unsafe { *out = ncclResult_t::RemoteError };
        return ncclResult_t::Success;
    }
    match REAL.get().and_then(|real| real.ncclCommGetAsyncError) {
        // SAFETY: handed on as it came.
        Some(f) => unsafe { f(comm, out) },
        None => ncclResult_t::InternalError,
    }
}

unsafe extern "C" fn all_reduce(
    send: *const c_void,
    recv: *mut c_void,
    mut count: usize,
    dtype: ncclDataType_t,
    op: ncclRedOp_t,
    comm: ncclComm_t,
    stream: cudaStream_t,
) -> ncclResult_t {
    let call = CALLS.fetch_add(1, Ordering::SeqCst);
    match std::env::var("NCCL_TEST_FAULT").as_deref() {
        // SAFETY: not safe at all, which is the point.
        Ok("segv") => unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        Ok("abort") => std::process::abort(),
        Ok("hang") => {
            announce();
            wait_forever();
        }
        Ok("noise") => {
            println!("a word on standard output");
            eprintln!("a word on standard error");
            return ncclResult_t::InternalError;
        }
        // a process is left that has all descriptors of the worker
        Ok("fork") => {
            // SAFETY: the child only waits.
            let child = unsafe { libc::fork() };
            if child == 0 {
                wait_forever();
            }
            eprintln!("left behind: {child}.");
            // SAFETY: ends the process, with success at that.
            unsafe { libc::_exit(0) }
        }
        // the call returns in two processes, in one of them with an error
        // SAFETY: not safe at all, which is the point.
        Ok("twice") if unsafe { libc::fork() } == 0 => return ncclResult_t::InternalError,
        Ok("close") => {
            // SAFETY: not safe at all, which is the point.
            (0..1024).for_each(|descriptor| _ = unsafe { libc::close(descriptor) });
            wait_forever();
        }
        Ok("read") => {
            // SAFETY: no memory is involved.
            unsafe { libc::fcntl(0, libc::F_SETFL, libc::O_NONBLOCK) };
            let mut stolen = [0; 4096];
            while matches!(std::io::stdin().read(&mut stolen), Ok(1..)) {}
        }
        // as NCCL writes its log, and then the end
        Ok("log") => {
            if let Some(path) = std::env::var_os("NCCL_DEBUG_FILE") {
                let file =
                    std::fs::File::create(path).and_then(|mut file| writeln!(file, "host:1 NCCL WARN out of luck"));
                file.unwrap_or_else(|error| eprintln!("no log: {error}"));
            }
            std::process::abort();
        }
        // from the second use of the communicators on (two ranks), the last element is left out
        Ok("stale") if call >= 2 => count -= 1,
        _ => {}
    }
    match REAL.get().and_then(|real| real.ncclAllReduce) {
        // SAFETY: handed on as it came.
        Some(f) => unsafe { f(send, recv, count, dtype, op, comm, stream) },
        None => ncclResult_t::InternalError,
    }
}

fn wait_forever() -> ! {
    loop {
        // SAFETY: no memory is involved.
        unsafe { libc::pause() };
    }
}

/// Tells the test, if it wants to know, that a rank of this process hangs in a call.
fn announce() {
    if let Some(path) = std::env::var_os(ANNOUNCE) {
        let line = format!("{}\n", std::process::id());
        let written = File::options().write(true).open(path).and_then(|mut pipe| pipe.write_all(line.as_bytes()));
        written.unwrap_or_else(|error| eprintln!("not announced: {error}"));
    }
}

fn case(name: &str, fault: &str, more: &str) -> Arc<Case> {
    let env = if fault.is_empty() { String::new() } else { format!("env.NCCL_TEST_FAULT = \"{fault}\"\n") };
    let text = format!("world_size = 2\nop = \"all_reduce\"\ninputs = [[1, 2, 3], [4, 5, 6]]\n{env}{more}");
    let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: text.into() });
    let allowed = AllowEnv::parse("NCCL_TEST_FAULT").unwrap();
    let mut cases = parse_with(&file, name, &allowed).unwrap_or_else(|faults| panic!("{faults}"));
    Arc::new(cases.remove(0))
}

/// Runs the case, and then one that must pass.
fn run(runner: &Runner, name: &str, fault: &str, more: &str) -> Verdict {
    let verdict = runner.run_case(&case(name, fault, more));
    let next = runner.run_case(&case("next", "", ""));
    assert_eq!(next.status, Status::Pass, "the case after {name}: {:?}", next.reason);
    verdict
}

fn assert_fails_with(verdict: &Verdict, outcome: Outcome, text: &str) {
    let reason = verdict.reason.clone().unwrap_or_default();
    assert_eq!((verdict.status, verdict.outcome), (Status::Fail, Some(outcome)), "{reason}");
    assert!(reason.contains(text), "{reason}");
}

fn crashes(runner: &Runner) {
    assert_fails_with(&run(runner, "segv", "segv", ""), Outcome::Crash, "signal 11 (SIGSEGV)");
    assert_fails_with(&run(runner, "abort", "abort", ""), Outcome::Crash, "signal 6 (SIGABRT)");
    assert_eq!(run(runner, "wanted", "abort", "outcome = \"crash\"").status, Status::Pass);
}

/// Descriptors that are copied, closed or read do not disturb the parent, and no process that has them outlives the case.
fn descriptors(runner: &Runner) {
    for placement in ["", "placement = \"processes\"\n"] {
        let verdict = run(runner, "fork", "fork", placement);
        assert_fails_with(&verdict, Outcome::Crash, "exit status 0");
        let notes = verdict.notes.join("\n");
        let pids: Vec<i32> = notes
            .lines()
            .filter_map(|line| line.split("left behind: ").nth(1)?.strip_suffix('.')?.parse().ok())
            .collect();
        assert!(!pids.is_empty(), "{notes}");
        Process::find_all(&pids).iter().for_each(Process::wait_for_end);
    }
    assert_fails_with(&run(runner, "close", "close", ""), Outcome::Crash, "after it had closed its pipe to collspec");
    // with one thread for all ranks the child comes to the case's end too, but cannot report it
    for _ in 0..4 {
        assert_eq!(run(runner, "twice", "twice", "placement = \"one_thread\"").status, Status::Pass);
    }
    // the request that it would steal is the one after it
    assert_eq!(run(runner, "read", "read", "").status, Status::Pass);
    assert_eq!(runner.run_case(&case("again", "read", "")).status, Status::Pass);
}

/// What NCCL logs before a crash is quoted, and no file is needed for it.
fn logs(runner: &Runner) {
    for placement in ["", "placement = \"processes\"\n"] {
        let verdict = run(runner, "log", "log", placement);
        assert_fails_with(&verdict, Outcome::Crash, "signal 6 (SIGABRT)");
        let is_quoted = verdict.notes.iter().any(|note| note.contains("host:1 NCCL WARN out of luck"));
        assert!(is_quoted, "{:?}", verdict.notes);
    }
}

/// With a process per rank, what happens to one is attributed to its rank.
fn processes_of_ranks(runner: &Runner) {
    let of = |fault: &str, more: &str| {
        let env = format!("env.NCCL_TEST_FAULT = [\"\", \"{fault}\"]\nplacement = \"processes\"\n{more}");
        run(runner, fault, "", &env)
    };
    assert_fails_with(&of("segv", ""), Outcome::Crash, "the process of rank 1: signal 11 (SIGSEGV)");
    assert_fails_with(&of("noise", ""), Outcome::Error, "rank 1 at step 1 (all_reduce): internal_error");
    assert_fails_with(&of("hang", "timeout = 2\n"), Outcome::Hang, "ranks 0 and 1 at step 1 (all_reduce)");
    assert_eq!(of("none", "").status, Status::Pass);
}

/// The library hangs in a call: no proof is possible, so the time limit ends the case, and not before its time.
fn time_limit(runner: &Runner) {
    let begun = Instant::now();
    assert_fails_with(&run(runner, "late", "hang", "timeout = 0.3"), Outcome::Hang, "");
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

fn errors(runner: &Runner) {
    assert_fails_with(&run(runner, "noise", "noise", ""), Outcome::Error, "ncclAllReduce");
    assert_eq!(run(runner, "wanted", "noise", "outcome = \"internal_error\"").status, Status::Pass);
    assert_fails_with(&run(runner, "async", "async", ""), Outcome::Error, "asynchronous");
}

/// Wrong only on communicators that an earlier case has used: still a failure, and it says after which.
fn stale_communicators(runner: &Runner) {
    let first = runner.run_case(&case("first", "stale", ""));
    assert_eq!(first.status, Status::Pass, "{:?}", first.reason);
    let second = runner.run_case(&case("second", "stale", ""));
    assert_fails_with(&second, Outcome::Ok, "only after `first`");
    // the worker in which `second` passed has used its communicators once by now
    assert_fails_with(&runner.run_case(&case("third", "stale", "")), Outcome::Ok, "only after `second`");
}

fn no_runner_inside_a_worker() {
    let exe = std::env::current_exe().unwrap();
    let status =
        std::process::Command::new(exe).env("COLLSPEC_WORKER", "1:7:8:1").stderr(std::process::Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(102), "a variable that was meant for another process");
}

/// The parent is killed while its worker's ranks hang in a call of the library: the worker ends all the same.
fn parent_killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("announced");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RWXU).unwrap();
    let mut announced = File::options().read(true).write(true).open(&path).unwrap();
    let mut parent = std::process::Command::new(std::env::current_exe().unwrap());
    let mut parent = parent.env(PARENT, "1").env(ANNOUNCE, &path).spawn().unwrap();
    let mut lines = String::new();
    while lines.matches('\n').count() < 2 {
        wait_until_readable("both ranks are in the call", &announced);
        let mut bytes = [0; 64];
        let count = announced.read(&mut bytes).unwrap();
        lines.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    let pids: Vec<i32> = lines.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids[0], pids[1], "both ranks are threads of one worker");
    let worker = Process::find(pids[0]).unwrap();
    parent.kill().unwrap();
    parent.wait().unwrap();
    worker.wait_for_end();
}

/// Makes this program a parent whose only case hangs.
const PARENT: &str = "FAULTY_LIBRARY_PARENT";
/// Names the pipe in which a worker says that a rank hangs.
const ANNOUNCE: &str = "FAULTY_LIBRARY_ANNOUNCE";

fn main() {
    collspec_run::enter::enter_with(|| Backend { library: Library::new(table()), device: Device::Host });
    if std::env::var_os(PARENT).is_some() {
        let runner = Runner::soft(RunOptions {
            jobs: NonZeroUsize::new(1),
            workers: Workers::CurrentExe,
            ..RunOptions::default()
        })
        .unwrap();
        runner.run_case(&case("hang", "hang", "timeout = 600"));
        return;
    }
    let args = Arguments::from_args();
    let trial = |name: &str, test: fn(&Runner)| {
        Trial::test(name, move || {
            let runner = Runner::soft(RunOptions {
                jobs: NonZeroUsize::new(1),
                workers: Workers::CurrentExe,
                ..RunOptions::default()
            });
            test(&runner.map_err(|e| e.to_string())?);
            Ok(())
        })
    };
    let trials = vec![
        trial("crashes", crashes),
        trial("time_limit", time_limit),
        trial("logs", logs),
        trial("descriptors", descriptors),
        trial("processes_of_ranks", processes_of_ranks),
        trial("errors", errors),
        trial("stale_communicators", stale_communicators),
        trial("parent_killed", |_| parent_killed()),
        trial("no_runner_inside_a_worker", |_| no_runner_inside_a_worker()),
    ];
    libtest_mimic::run(&args, trials).exit();
}
