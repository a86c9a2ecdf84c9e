//! What the benches share: how fast this machine's memory is, what processes take, and how results are written.
#![allow(dead_code)] // each bench uses a part

pub mod observed;

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// How often the memory in use is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// The shortest of `times` runs, and what it computed.
pub fn shortest<T>(times: usize, run: impl Fn() -> T) -> (Duration, T) {
    shortest_on(times, || (), |()| run())
}

/// Does the same as [`shortest`] for runs that each take something, the making of which is not timed.
pub fn shortest_on<I, T>(times: usize, make: impl Fn() -> I, run: impl Fn(I) -> T) -> (Duration, T) {
    let timed = || {
        let input = make();
        let start = Instant::now();
        let result = black_box(run(input));
        (start.elapsed(), result)
    };
    (1..times).map(|_| timed()).fold(timed(), |best, next| if next.0 < best.0 { next } else { best })
}

/// The middle one of some numbers, or the mean of the two in the middle.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let half = numbers.len() / 2;
    match (numbers.get(half), half.checked_sub(1).and_then(|low| numbers.get(low))) {
        (Some(high), Some(low)) if numbers.len().is_multiple_of(2) => (low + high) / 2.0,
        (Some(middle), _) => *middle,
        (None, _) => f64::NAN,
    }
}

/// The cores on which this process may run.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Bytes per second of `a[i] = b[i] + 3 * c[i]` on every core, reads and writes counted (the STREAM triad): the best of some passes.
pub fn triad_rate() -> f64 {
    const ELEMENTS: usize = 8 << 20;
    const PASSES: usize = 5;
    let threads = cores();
    let start = Barrier::new(threads);
    let seconds: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let each = || {
            let (mut a, b, c) = (vec![0f32; ELEMENTS], vec![1f32; ELEMENTS], vec![2f32; ELEMENTS]);
            let pass = |_| {
                start.wait();
                let began = Instant::now();
                for ((a, b), c) in a.iter_mut().zip(black_box(&b)).zip(black_box(&c)) {
                    *a = b + 3.0 * c;
                }
                black_box(&mut a);
                began.elapsed().as_secs_f64()
            };
            (0..PASSES).map(pass).collect()
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(each)).collect();
        all.into_iter().map(|thread| thread.join().expect("a thread that only computes")).collect()
    });
    let slowest = |pass: usize| seconds.iter().map(|times: &Vec<f64>| times[pass]).fold(0.0, f64::max);
    let best = (0..PASSES).map(slowest).fold(f64::INFINITY, f64::min);
    (3 * ELEMENTS * size_of::<f32>() * threads) as f64 / best
}

/// The least of several times in which one thread copies so many bytes to memory that it has written before.
pub fn copy_seconds(bytes: usize) -> f64 {
    // Small copies are so short that something else may disturb three of them.
    let times = (2 * GIB / (bytes as u64).max(1)).max(3);
    let (from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    let once = |_| {
        let began = Instant::now();
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        began.elapsed().as_secs_f64()
    };
    (0..times).map(once).fold(f64::INFINITY, f64::min)
}

/// The most memory that this process and its children had at one time, beyond what this process had before.
pub fn peak_during<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let (most, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let before = resident(std::process::id());
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let now: u64 = family(std::process::id()).into_iter().map(resident).sum();
                most.fetch_max(now.saturating_sub(before), Ordering::Relaxed);
                std::thread::sleep(LOOK);
            }
        });
        // A panic of the work must end the other thread too, or the scope waits for it forever.
        let _over = SetWhenDropped(&over);
        work()
    });
    (most.into_inner(), result)
}

/// Sets a flag when it goes out of scope.
struct SetWhenDropped<'a>(&'a AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
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

/// Bytes of memory that new work can take.
pub fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// Seconds of processor time of this process and of children that have ended: in programs, and in the kernel.
pub fn processor_seconds() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces, stand the state and from the 12th field on the times.
    let fields: Vec<u64> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(4).flat_map(str::parse).collect();
    let [user, system, child_user, child_system] = fields[..] else { return (f64::NAN, f64::NAN) };
    let seconds = |ticks: u64| ticks as f64 / rustix::param::clock_ticks_per_second() as f64;
    (seconds(user + child_user), seconds(system + child_system))
}

/// `4 KiB`, `256 MiB`.
pub fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} bytes"),
    }
}

/// `4.1 us`, `72 ms`.
pub fn time(seconds: f64) -> String {
    let (number, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    format!("{} {unit}", three_digits(number))
}

/// A number with three digits that count.
pub fn three_digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A line of a table as Markdown has it.
pub fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// The first two lines of a table.
pub fn head(cells: &[&str]) -> String {
    format!("| {} |\n|{}", cells.join(" | "), "---|".repeat(cells.len()))
}

/// What the processor is called, the number of cores and the memory.
pub fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpu.lines().find_map(|line| line.strip_prefix("model name")).and_then(|line| line.split(':').nth(1));
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total: u64 = memory.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0);
    format!(
        "{} cores of {}, {} GiB of memory",
        cores(),
        name.unwrap_or("an unknown processor").trim(),
        (total * KIB) >> 30
    )
}
