//! How the cost of a case grows: with the number of ranks, 2 to 1,024, and with the bytes of its buffers, 1 KiB to 1 GiB.
//!
//! Run it with `cargo bench --bench growth`. In the last column stands what a unit of growth costs: it stays the same, or falls while a fixed cost is
//! spread over more, if the growth is linear. `benches/small_cases.rs` shows the growth with the number of cases. The figures
//! are of one run on one machine.
mod measure;

use collspec_core::judge::Status;
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_suite::suite::{RunOptions, Runner};
use measure::{
    KIB, MIB, available_memory, head, median, peak_during, processor_seconds, row, size, three_digits, time,
};
use std::sync::Arc;
use std::time::Instant;

/// What a case took.
struct Cost {
    /// Its middle time once its worker and communicators were there.
    warm: f64,
    /// The first time: with the start of a worker and the making of communicators.
    first: f64,
    /// Processor time of one of all runs, in programs and in the kernel.
    processor: (f64, f64),
    most_memory: u64,
}

fn main() {
    collspec::enter_if_asked();
    println!("{}\n", measure::machine());
    for (operation, messages) in [("all_reduce", "2 n (n - 1)"), ("all_gather", "n (n - 1)"), ("broadcast", "n - 1")] {
        println!("{operation} of 8 elements; a ring has {messages} messages");
        println!(
            "{}",
            head(&[
                "ranks",
                "first time",
                "time",
                "processor time",
                "of it in the kernel",
                "most memory",
                "time by rank"
            ])
        );
        for ranks in [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024] {
            let cost = cost(&case(operation, ranks, 8), 3);
            let mut cells = vec![ranks.to_string()];
            cells.extend(cells_of(&cost));
            cells.push(time(cost.warm / ranks as f64));
            println!("{}", row(&cells));
        }
        println!();
    }
    println!("all_reduce of f32 between two ranks, each input so large");
    println!(
        "{}",
        head(&[
            "bytes",
            "first time",
            "time",
            "processor time",
            "of it in the kernel",
            "most memory",
            "GB/s of all four buffers"
        ])
    );
    for bytes in [KIB, 16 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB] {
        if available_memory() < 3 * 4 * bytes {
            println!("{}: left out for want of memory", size(bytes));
            continue;
        }
        let runs = if bytes > 64 * MIB { 1 } else { 3 };
        let cost = cost(&case("all_reduce", 2, bytes / 4), runs);
        let mut cells = vec![size(bytes)];
        cells.extend(cells_of(&cost));
        cells.push(three_digits(4.0 * bytes as f64 / cost.warm / 1e9));
        println!("{}", row(&cells));
    }
}

fn cells_of(cost: &Cost) -> [String; 5] {
    let (user, system) = cost.processor;
    let memory = format!("{} MiB", cost.most_memory / MIB);
    [time(cost.first), time(cost.warm), time(user + system), time(system), memory]
}

fn case(operation: &str, ranks: usize, count: u64) -> Arc<Case> {
    let text = format!(
        "world_size = {ranks}\nop = \"{operation}\"\ninputs = {{ each = \"(97 * rank + i) % 251\", count = {count} }}\n"
    );
    let file = Arc::new(SourceFile { path: "growth.toml".into(), text: text.into() });
    Arc::new(parse(&file, "growth").unwrap_or_else(|faults| panic!("{faults}")).remove(0))
}

/// Runs a case on a new worker, and then so many times more.
fn cost(case: &Arc<Case>, runs: usize) -> Cost {
    let mut options = RunOptions::default();
    (options.reading.limits.memory, options.reading.limits.work) = (u64::MAX, u64::MAX);
    let runner = Runner::soft(options).expect("a runner");
    let once = || {
        let began = Instant::now();
        let verdict = runner.run_case(case);
        assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.reason);
        began.elapsed().as_secs_f64()
    };
    let before = processor_seconds();
    let (most_memory, (first, warm)) = peak_during(|| (once(), median((0..runs).map(|_| once()).collect())));
    // The worker's time counts when it has ended.
    drop(runner);
    let after = processor_seconds();
    let each = |seconds: f64| seconds / (runs + 1) as f64;
    Cost { warm, first, processor: (each(after.0 - before.0), each(after.1 - before.1)), most_memory }
}
