//! What a case with large buffers costs: its time over the time in which one thread copies all its buffers, and the most memory
//! that this process and its worker take over the buffers' bytes.
//!
//! Run it with `cargo bench --bench memory`. The ratios are of one run on one machine. Processor time counts both processes, so it
//! says more than the time on the clock where other programs run as well.
use collspec::internals::judge::Status;
use collspec::internals::scenario::{Case, SourceFile, parse};
use collspec::internals::suite::{RunOptions, Runner};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const MIB: usize = 1 << 20;
/// Two ranks, with an input and an output each.
const BUFFERS: usize = 4;
/// How often the memory in use is looked at.
const LOOK: Duration = Duration::from_millis(2);

fn main() {
    collspec::enter_if_asked();
    let inputs = [("repeated", "(97 * rank + i) % 251"), ("formula", "(i * i + rank) % 65536 - 32768")];
    for mib in [64, 256, 1024] {
        let bytes = BUFFERS * mib * MIB;
        let available = meminfo("MemAvailable:");
        if available < 3 * bytes as u64 {
            println!("{mib:5} MiB for each buffer: left out, {} MiB of memory are free", available / MIB as u64);
            continue;
        }
        let copy = copy_seconds(mib * MIB) * BUFFERS as f64;
        for (name, expression) in inputs {
            let case = case(mib * MIB / 4, expression);
            let mut options = RunOptions::default();
            (options.reading.limits.memory, options.reading.limits.work) = (u64::MAX, u64::MAX);
            let runner = Runner::soft(options).expect("a runner");
            let peak = Peak::default();
            let (began, cpu) = (Instant::now(), processor_seconds());
            let verdict = peak.during(|| runner.run_case(&case));
            let (clock, cpu) = (began.elapsed().as_secs_f64(), processor_seconds() - cpu);
            assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.reason);
            let most = peak.most.load(Ordering::Relaxed) as f64 / bytes as f64;
            println!(
                "{mib:5} MiB for each buffer, {name:8}: {:5.1} copies on the clock ({clock:.2} s), {:5.1} of processor time ({cpu:.2} s), \
                 {most:.2} times their memory; a copy takes {copy:.3} s",
                clock / copy,
                cpu / copy,
            );
        }
    }
}

fn case(count: usize, expression: &str) -> Arc<Case> {
    let text =
        format!("world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"{expression}\", count = {count} }}\n");
    let file = Arc::new(SourceFile { path: "memory.toml".into(), text: text.into() });
    Arc::new(parse(&file, "memory").unwrap_or_else(|faults| panic!("{faults}")).remove(0))
}

/// The least of three times in which one thread copies so many bytes to memory that it has written before.
fn copy_seconds(bytes: usize) -> f64 {
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    let once = |_| {
        let began = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        began.elapsed().as_secs_f64()
    };
    (0..3).map(once).fold(f64::INFINITY, f64::min)
}

/// The most memory that this process and its children had at one time.
#[derive(Default)]
struct Peak {
    most: AtomicU64,
    over: AtomicBool,
}

impl Peak {
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let before = resident(std::process::id());
                while !self.over.load(Ordering::Relaxed) {
                    let now: u64 = family(std::process::id()).into_iter().map(resident).sum();
                    self.most.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
                    std::thread::sleep(LOOK);
                }
            });
            let result = work();
            self.over.store(true, Ordering::Relaxed);
            result
        })
    }
}

/// A process with its children and theirs.
fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    for task in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
        let children = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse().ok()).flat_map(family));
    }
    all
}

/// Bytes of memory that a process has.
fn resident(process: u32) -> u64 {
    let pages = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: u64 = pages.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn meminfo(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// Seconds of processor time of this process and of children that have ended.
fn processor_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces, stand the state and from the 12th field on the times.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4);
    let ticks: u64 = fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
