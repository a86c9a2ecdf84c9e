//! Measures what a library costs a process and changes in it, for a run's header.
use crate::backend::cuda::DriverState;
use crate::footprint::{Footprint, Measurement, Request, ask};
use crate::run::Backend;
use crate::suite::{ChosenBackend, RunOptions};
use std::time::Duration;

/// Processes that measure a library.
pub const PROCESSES: usize = 5;
/// Of these, how many make and destroy further communicators in turn, and how many of them.
const WITH_CYCLES: usize = 2;
const CYCLES: usize = 8;
/// After so many failures it is tried no more: each may last until its time limit.
const MOST_FAILURES: usize = 2;
/// Seconds that a process may take where no time limit for making communicators is given.
const LIMIT: f64 = 60.0;
/// Ranks at most: memory and time are those of a communicator between two devices.
const MOST_RANKS: usize = 2;
/// Bytes of the largest operation on GPUs, and in software.
const LARGEST: u64 = 64 << 20;
const LARGEST_IN_SOFTWARE: u64 = 1 << 20;

/// What to measure of a backend with these options.
pub fn footprint_request(chosen: &ChosenBackend, options: &RunOptions) -> Request {
    let library = match &chosen.backend {
        Backend::Soft => None,
        Backend::Nccl { library, .. } => Some(library.clone()),
    };
    let machine = chosen.machine.as_deref();
    let devices = machine.map_or(MOST_RANKS, |machine| match machine.gpus.state {
        DriverState::Devices(count) => count,
        _ => machine.gpus.devices.len(),
    });
    let on_gpus = machine.is_some_and(|machine| machine.gpus.standin.is_none());
    let mut variables = chosen.backend.env();
    // A worker's variable would make the process that measures a worker's.
    variables.retain(|(name, _)| name != crate::child::LIBRARY);
    variables.extend(options.variables.iter().cloned());
    variables.extend(options.soft_variables());
    Request {
        library,
        ranks: devices.clamp(1, MOST_RANKS),
        largest: if on_gpus { LARGEST } else { LARGEST_IN_SOFTWARE },
        limit: Duration::try_from_secs_f64(options.opening_timeout.unwrap_or(LIMIT)).unwrap_or(Duration::MAX),
        variables,
        workers: options.workers.clone(),
    }
}

/// Measures once more, in a new process, unless enough was measured or too much failed.
pub fn measure_once(request: &Request, so_far: &mut Vec<Result<Measurement, String>>) {
    if so_far.len() < PROCESSES && so_far.iter().filter(|result| result.is_err()).count() < MOST_FAILURES {
        let cycles = if so_far.len() < WITH_CYCLES { CYCLES } else { 0 };
        so_far.push(ask(request, cycles));
    }
}

/// Measures a library that stands alone.
pub fn measure(chosen: &ChosenBackend, options: &RunOptions) -> Footprint {
    let request = footprint_request(chosen, options);
    let mut results = Vec::new();
    (0..PROCESSES).for_each(|_| measure_once(&request, &mut results));
    Footprint::of(request.ranks, results)
}
