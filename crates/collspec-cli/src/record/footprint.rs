//! Measures a library's cost for a process and its effects on it, for a run's header.
use crate::footprint::{Footprint, Measurement, Request, ask};
use crate::tuning::variables_of;
use collspec_run::backend::cuda::DeviceInfo;
use collspec_run::run::Backend;
use collspec_run::run::lock::{self, Locks};
use collspec_suite::suite::{ChosenBackend, RunOptions};
use std::time::Duration;

/// Processes that measure a library.
pub const PROCESSES: usize = 5;
/// The number of these processes that create and destroy further communicators in turn; below, the number of communicators.
const WITH_CYCLES: usize = 2;
const CYCLES: usize = 8;
/// After this many failures there are no further attempts: each may last until its time limit.
const MOST_FAILURES: usize = 2;
/// Seconds that a process may take where no time limit for making communicators is given.
const LIMIT: f64 = 60.0;
/// Ranks at most: memory and time are those of a communicator between two devices.
const MOST_RANKS: usize = 2;
/// Bytes of the largest operation on GPUs, and in software.
const LARGEST: u64 = 64 << 20;
const LARGEST_IN_SOFTWARE: u64 = 1 << 20;

/// The measuring of a library, process by process.
pub struct Measuring {
    request: Request,
    /// The devices of the ranks.
    devices: Vec<DeviceInfo>,
    results: Vec<Result<Measurement, String>>,
}

impl Measuring {
    /// Prepares to measure a backend with these options; nothing is started yet.
    pub fn new(chosen: &ChosenBackend, options: &RunOptions) -> Self {
        let library = match &chosen.backend {
            Backend::Soft => None,
            Backend::Nccl { library, .. } => Some(library.clone()),
        };
        let machine = chosen.machine.as_deref();
        let ranks = machine.map_or(MOST_RANKS, |machine| machine.gpus.devices.len()).clamp(1, MOST_RANKS);
        let on_gpus = machine.is_some_and(|machine| machine.gpus.standin.is_none());
        let request = Request {
            library,
            ranks,
            largest: if on_gpus { LARGEST } else { LARGEST_IN_SOFTWARE },
            limit: Duration::try_from_secs_f64(options.opening_timeout.unwrap_or(LIMIT)).unwrap_or(Duration::MAX),
            variables: variables_of(chosen, options, 0),
            workers: options.workers.clone(),
        };
        let devices = machine.map(|machine| machine.used(ranks).to_vec()).unwrap_or_default();
        Self { request, devices, results: Vec::new() }
    }

    /// Measures once more, in a new process, unless enough was measured or too much failed.
    pub fn once(&mut self) {
        let failures = self.results.iter().filter(|result| result.is_err()).count();
        if self.results.len() >= PROCESSES || failures >= MOST_FAILURES {
            return;
        }
        let cycles = if self.results.len() < WITH_CYCLES { CYCLES } else { 0 };
        // Times and memory are those of the library only if no other process of this program uses the devices.
        let result = match Locks::take(&lock::folder(), &self.devices) {
            Ok(_locks) => ask(&self.request, cycles),
            Err(error) => Err(format!("the devices cannot be locked: {error}")),
        };
        self.results.push(result);
    }

    /// The measured footprint.
    pub fn done(self) -> Footprint {
        Footprint::of(self.request.ranks, self.results)
    }
}

/// Measures a single library.
pub fn measure(chosen: &ChosenBackend, options: &RunOptions) -> Footprint {
    let mut measuring = Measuring::new(chosen, options);
    (0..PROCESSES).for_each(|_| measuring.once());
    measuring.done()
}
