//! How fast the software library works: the time of an operation by size and number of ranks, its bandwidth, and that time over
//! the floor, in which this machine's memory passes the bytes that any implementation must read and write.
//!
//! Run it with `cargo bench --bench operations`. The floor counts every input and every output once, at the rate of a triad on all cores, measured
//! beside each row; what fits the caches can be below it. Times and ratios are of one run on one machine.
mod measure;

use collspec_cli::bench::{Operation, Plan, Reduction, Request, Row, RowSample, Sampler};
use collspec_suite::suite::{ChosenBackend, RunOptions};
use measure::{KIB, MIB, available_memory, median, size, three_digits, time, triad_rate};
use std::ops::ControlFlow;

/// Process groups for each row.
const SAMPLES: usize = 3;

fn main() {
    collspec::enter_if_asked();
    println!("{}, {SAMPLES} samples\n", measure::machine());
    println!("{}", measure::head(&["operation", "ranks", "bytes", "time", "bus bandwidth", "over the floor"]));
    for operation in [
        Operation::AllReduce,
        Operation::AllGather,
        Operation::ReduceScatter,
        Operation::Broadcast,
        Operation::Reduce,
        Operation::AllToAll,
        Operation::SendRecv,
    ] {
        for ranks in [2, 4, 8] {
            for bytes in [KIB, 64 * KIB, 4 * MIB, 64 * MIB, 256 * MIB] {
                if available_memory() < 6 * ranks * bytes {
                    println!("{} of {} on {ranks} ranks: left out for want of memory", operation.name(), size(bytes));
                } else {
                    println!("{}", line(operation, ranks as usize, bytes));
                }
            }
        }
    }
}

/// Bytes that must be read and written at least, by all ranks together, if `bytes` is the larger buffer.
fn least_traffic(operation: Operation, ranks: usize, bytes: u64) -> f64 {
    let (ranks, bytes) = (ranks as f64, bytes as f64);
    match operation {
        Operation::ReduceScatter | Operation::Reduce | Operation::Broadcast => (ranks + 1.0) * bytes,
        _ => 2.0 * ranks * bytes,
    }
}

fn line(operation: Operation, ranks: usize, bytes: u64) -> String {
    let (warm_up, iterations) = match bytes {
        ..=65_536 => (50, 500),
        65_537..=4_194_304 => (5, 50),
        _ => (1, 5),
    };
    let request = Request {
        operations: Some(vec![operation]),
        reductions: Some(vec![Reduction::Sum]),
        ranks: Some(vec![ranks]),
        sizes: Some(vec![bytes]),
        in_place: Some(vec![false]),
        warm_up: Some(warm_up),
        iterations: Some(iterations),
        samples: Some(SAMPLES),
        ..Request::default()
    };
    let Plan { sweep, timing, samples } = request.plan(ranks).expect("one row");
    let rows = sweep.rows().expect("one row");
    let mut options = RunOptions::default();
    (options.reading.limits.memory, options.reading.limits.work) = (u64::MAX, u64::MAX);
    let sampler = Sampler::new(options, ChosenBackend::default(), timing).expect("a sampler");
    let (mut times, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        rates.push(triad_rate());
        times.push(sample(&sampler, &rows));
    }
    let (seconds, rate) = (median(times), median(rates));
    let cells = [
        operation.name().to_owned(),
        ranks.to_string(),
        size(bytes),
        time(seconds),
        format!("{} GB/s", three_digits(rows[0].bus_bandwidth(seconds))),
        three_digits(seconds * rate / least_traffic(operation, ranks, bytes)),
    ];
    measure::row(&cells)
}

/// Seconds in a new process group, whose results were right.
fn sample(sampler: &Sampler, rows: &[Row]) -> f64 {
    let samples = sampler.sample(rows, &mut |_| ControlFlow::Continue(())).expect("a worker");
    let [RowSample { row, outcome }] = &samples[..] else { panic!("one row") };
    assert_eq!(outcome.trouble(), None, "{row}");
    outcome.seconds().unwrap_or_else(|| panic!("{row} was not timed: {outcome:?}"))
}
