//! What a case with large buffers costs: its time over the time in which one thread copies all its buffers, and the most memory
//! that this process and its worker take over the buffers' bytes.
//!
//! Run it with `cargo bench --bench memory`. The ratios are of one run on one machine. Processor time counts both processes, so it
//! says more than the time on the clock where other programs run as well.
mod measure;

use collspec_core::judge::Status;
use collspec_core::scenario::{Case, SourceFile, parse};
use collspec_suite::suite::{RunOptions, Runner};
use measure::{MIB, available_memory, copy_seconds, peak_during, processor_seconds};
use std::sync::Arc;
use std::time::Instant;

/// Two ranks, with an input and an output each.
const BUFFERS: u64 = 4;

fn main() {
    collspec::enter_if_asked();
    let inputs = [("repeated", "(97 * rank + i) % 251"), ("formula", "(i * i + rank) % 65536 - 32768")];
    for mib in [64, 256, 1024] {
        let bytes = BUFFERS * mib * MIB;
        let available = available_memory();
        if available < 3 * bytes {
            println!("{mib:5} MiB for each buffer: left out, {} MiB of memory are free", available / MIB);
            continue;
        }
        let copy = copy_seconds((mib * MIB) as usize) * BUFFERS as f64;
        for (name, expression) in inputs {
            let case = case(mib * MIB / 4, expression);
            let mut options = RunOptions::default();
            (options.reading.limits.memory, options.reading.limits.work) = (u64::MAX, u64::MAX);
            let runner = Runner::soft(options).expect("a runner");
            let (began, before) = (Instant::now(), processor_seconds());
            let (most, verdict) = peak_during(|| runner.run_case(&case));
            let clock = began.elapsed().as_secs_f64();
            // The worker's time counts when it has ended.
            drop(runner);
            let after = processor_seconds();
            let (user, system) = (after.0 - before.0, after.1 - before.1);
            assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.reason);
            let most = most as f64 / bytes as f64;
            println!(
                "{mib:5} MiB for each buffer, {name:8}: {:5.1} copies on the clock ({clock:.2} s), {:5.1} of processor time ({user:.2} s in \
                 programs, {system:.2} s in the kernel), {most:.2} times their memory; a copy of all takes {copy:.3} s",
                clock / copy,
                (user + system) / copy,
            );
        }
    }
}

fn case(count: u64, expression: &str) -> Arc<Case> {
    let text =
        format!("world_size = 2\nop = \"all_reduce\"\ninputs = {{ each = \"{expression}\", count = {count} }}\n");
    let file = Arc::new(SourceFile { path: "memory.toml".into(), text: text.into() });
    Arc::new(parse(&file, "memory").unwrap_or_else(|faults| panic!("{faults}")).remove(0))
}
