//! One operation in collspec's software library, in Open MPI and in gloo, in turn, and the ratios of their times.
//!
//! Run it with `cargo bench --bench peers`. It builds the programs beside this file, and says which library is absent; on Debian
//! the packages `libopenmpi-dev`, `openmpi-bin` and `libgloo-dev` have both.
//!
//! Each library's time is the median of samples, a sample the median of a new process group's iterations, an iteration the mean
//! over the ranks. The floor is the time in which this machine's memory passes the bytes that any implementation must read and
//! write, at the rate of a triad on all cores, measured between the samples.
#[path = "../measure/mod.rs"]
mod measure;
mod programs;

use collspec_cli::bench::{Operation, Plan, Reduction, Request, Row, RowSample, Sampler};
use collspec_suite::suite::{ChosenBackend, RunOptions};
use measure::{KIB, MIB, available_memory, median, size, three_digits, time, triad_rate};
use programs::{Gloo, OpenMpi, Peer};
use std::ops::ControlFlow;

/// Samples of each library.
const SAMPLES: usize = 3;

/// One row of the table.
struct Work {
    operation: Operation,
    ranks: usize,
    bytes: u64,
}

impl Work {
    /// Iterations that are not timed, and those that are: more of them where one is short.
    fn iterations(&self) -> (u32, u32) {
        match self.bytes {
            ..=65_536 => (100, 1000),
            65_537..=1_048_576 => (20, 200),
            1_048_577..=67_108_864 => (2, 10),
            _ => (1, 5),
        }
    }

    /// Bytes that must be read and written at least: every input once, every output once.
    fn least_traffic(&self) -> f64 {
        let (ranks, bytes) = (self.ranks as f64, self.bytes as f64);
        match self.operation {
            Operation::ReduceScatter => (ranks + 1.0) * bytes,
            _ => 2.0 * ranks * bytes,
        }
    }

    /// What collspec takes: inputs and outputs, and their images before and after.
    fn memory(&self) -> u64 {
        6 * self.ranks as u64 * self.bytes
    }
}

fn main() {
    collspec::enter_if_asked();
    let works = works();
    println!("{}, {SAMPLES} samples in turn\n", measure::machine());
    let openmpi = OpenMpi::build();
    let gloo = Gloo::build();
    let peers: Vec<(&str, Option<&dyn Peer>)> = vec![
        ("Open MPI", said("Open MPI", &openmpi).map(|peer| peer as &dyn Peer)),
        ("gloo", said("gloo", &gloo).map(|peer| peer as &dyn Peer)),
    ];
    let columns = [
        "operation",
        "ranks",
        "bytes",
        "collspec",
        "Open MPI",
        "gloo",
        "floor",
        "over Open MPI",
        "over gloo",
        "over the floor",
    ];
    println!("{}", measure::head(&columns));
    let mut rates = Vec::new();
    for work in works {
        if available_memory() < work.memory() {
            println!("{} of {}: left out for want of memory", work.operation.name(), size(work.bytes));
            continue;
        }
        println!("{}", line(&work, &peers, &mut rates));
    }
    println!(
        "\nThe triad moved {} GB/s (median), {:.1} to {:.1}.",
        three_digits(median(rates.clone()) / 1e9),
        least(&rates) / 1e9,
        most(&rates) / 1e9
    );
}

/// Says that a library is absent, and why.
fn said<'a, T>(name: &str, built: &'a Result<T, String>) -> Option<&'a T> {
    match built {
        Ok(peer) => Some(peer),
        Err(why) => {
            println!("{name} is absent: {why}\n");
            None
        }
    }
}

fn works() -> Vec<Work> {
    let mut works = Vec::new();
    for ranks in [2, 4] {
        for bytes in [4 * KIB, 64 * KIB, MIB, 64 * MIB, 256 * MIB] {
            works.push(Work { operation: Operation::AllReduce, ranks, bytes });
        }
    }
    for operation in [Operation::AllGather, Operation::ReduceScatter] {
        for ranks in [2, 4] {
            for bytes in [4 * KIB, MIB, 64 * MIB] {
                works.push(Work { operation, ranks, bytes });
            }
        }
    }
    works
}

/// Takes the samples of a row in turn and writes it.
fn line(work: &Work, peers: &[(&str, Option<&dyn Peer>)], rates: &mut Vec<f64>) -> String {
    let own = OwnLibrary::new(work);
    let mut own_samples = Vec::new();
    let mut samples: Vec<Option<Vec<f64>>> = peers.iter().map(|(_, peer)| peer.map(|_| Vec::new())).collect();
    let mut here = Vec::new();
    for _ in 0..SAMPLES {
        here.push(triad_rate());
        own_samples.push(own.sample());
        for ((name, peer), samples) in peers.iter().zip(&mut samples) {
            let (Some(peer), Some(taken)) = (peer, samples.as_mut()) else { continue };
            if !peer.has(work.operation) {
                *samples = None;
                continue;
            }
            match peer.sample(work) {
                Ok(seconds) => taken.push(seconds),
                Err(why) => {
                    eprintln!(
                        "{name}, {} of {} on {} ranks: {why}",
                        work.operation.name(),
                        size(work.bytes),
                        work.ranks
                    );
                    *samples = None;
                }
            }
        }
    }
    let (floor, own) = (work.least_traffic() / median(here.clone()), median(own_samples));
    rates.extend(here);
    let others: Vec<Option<f64>> = samples.into_iter().map(|samples| samples.map(median)).collect();
    let shown = |seconds: &Option<f64>| seconds.map_or_else(|| "-".to_owned(), time);
    let over = |seconds: &Option<f64>| seconds.map_or_else(|| "-".to_owned(), |other| three_digits(own / other));
    let mut cells = vec![work.operation.name().to_owned(), work.ranks.to_string(), size(work.bytes), time(own)];
    cells.extend(others.iter().map(shown));
    cells.push(time(floor));
    cells.extend(others.iter().map(over));
    cells.push(three_digits(own / floor));
    measure::row(&cells)
}

/// collspec's software library.
struct OwnLibrary {
    sampler: Sampler,
    rows: Vec<Row>,
}

impl OwnLibrary {
    fn new(work: &Work) -> Self {
        let (warm_up, iterations) = work.iterations();
        let request = Request {
            operations: Some(vec![work.operation]),
            reductions: Some(vec![Reduction::Sum]),
            ranks: Some(vec![work.ranks]),
            sizes: Some(vec![work.bytes]),
            in_place: Some(vec![false]),
            warm_up: Some(warm_up),
            iterations: Some(iterations),
            samples: Some(1),
            ..Request::default()
        };
        let Plan { sweep, timing, .. } = request.plan(work.ranks).expect("one row");
        let mut options = RunOptions::default();
        (options.reading.limits.memory, options.reading.limits.work) = (u64::MAX, u64::MAX);
        let sampler = Sampler::new(options, ChosenBackend::default(), timing).expect("a sampler");
        Self { sampler, rows: sweep.rows().expect("one row") }
    }

    /// Seconds in a new process group, whose results were right.
    fn sample(&self) -> f64 {
        let samples = self.sampler.sample(&self.rows, &mut |_| ControlFlow::Continue(())).expect("a worker");
        let [RowSample { row, outcome }] = &samples[..] else { panic!("one row") };
        assert_eq!(outcome.trouble(), None, "{row}");
        outcome.seconds().unwrap_or_else(|| panic!("{row} was not timed: {outcome:?}"))
    }
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn most(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(0.0, f64::max)
}
