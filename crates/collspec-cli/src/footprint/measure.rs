//! The child's side: the actions on the library, and the measurements before and after.
use super::log::{self, Choice, InitTimings};
use super::process::{ProcessState, VariableChange, changed_variables, variables};
use super::rank::{Done, Order, Ranks, SMALL};
use collspec_core::num::DType;
use collspec_core::ops::NcclCall;
use collspec_run::backend::cuda::Cuda;
use collspec_run::backend::{Device, Library, software_gpus};
use collspec_run::job::{MappedLibrary, mapped_libraries};
use nccl_sys::Nccl;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The measurement that a child is to make.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The library; without one it is the software library.
    pub library: Option<PathBuf>,
    /// Number of ranks.
    pub ranks: usize,
    /// Bytes of the largest operation.
    pub largest: u64,
    /// Communicators to make and destroy in turn after the first one.
    pub cycles: usize,
    /// How often many calls are made on one further communicator: [`CALLS`] each time.
    pub batches_of_calls: usize,
    /// Seconds after which no further one of either is begun.
    pub seconds: f64,
}

/// The measurements of one process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// The files of NCCL libraries that the process has mapped at its end, if it can tell.
    pub mapped: Option<Vec<MappedLibrary>>,
    /// The library's parameters with their values, if it lists them.
    pub parameters: Option<Vec<(String, String)>>,
    /// Seconds in which the library was loaded.
    pub load_seconds: f64,
    /// Seconds taken to create the first communicator.
    pub init_seconds: f64,
    /// Seconds of the first all-reduce, of 1 MiB.
    pub first_call_seconds: f64,
    /// The process before the library was loaded; the driver and each rank's buffers exist already.
    pub before: ProcessState,
    /// After the first communicator was created.
    pub initialised: ProcessState,
    /// After the first call.
    pub called: ProcessState,
    /// After each communicator was destroyed, the first one included.
    pub destroyed: Vec<ProcessState>,
    /// After each batch of calls on a communicator of all ranks.
    pub calls: Vec<ProcessState>,
    /// The same on a communicator of one rank, where libraries take other ways than between ranks.
    pub calls_alone: Vec<ProcessState>,
    /// The processors of each rank's thread before and after the first communicator.
    pub processors: Vec<(Vec<usize>, Vec<usize>)>,
    /// The variables of the environment that the library changed.
    pub variables: Vec<VariableChange>,
    /// The choices for operations of several sizes.
    pub choices: Vec<Choice>,
    /// The library's own timings of the first communicator, by rank, from its log.
    pub timings: Vec<InitTimings>,
}

/// Calls of each rank in a batch, after which the state of the process is looked at: the kernel counts memory in pages, so that
/// what a single call leaves behind cannot be seen.
pub const CALLS: usize = 1000;
/// The bytes of the first call.
const FIRST_CALL: u64 = 1 << 20;
/// The factor between two sizes whose choices are examined, beginning with that of a small call: many of these then add no choice.
const FACTOR: u64 = 16;
/// The operations whose choices are examined, as NCCL's log names them.
pub const OPERATIONS: [(NcclCall, &str); 5] = [
    (NcclCall::AllReduce, "AllReduce"),
    (NcclCall::Broadcast, "Broadcast"),
    (NcclCall::Reduce, "Reduce"),
    (NcclCall::AllGather, "AllGather"),
    (NcclCall::ReduceScatter, "ReduceScatter"),
];

/// The process under measurement.
struct Subject {
    device: Device,
    library: &'static Library,
    ranks: Ranks,
    count: usize,
}

/// Measures in this process.
///
/// # Errors
///
/// The library or the driver cannot be used, or a call fails.
pub fn measure(task: &Task) -> Result<Measurement, String> {
    let begun = Instant::now();
    let device = match task.library {
        Some(_) if collspec_run::child::wants_software_gpus() => {
            let count = software_gpus::device_count(None).map_err(|error| error.to_string())?;
            Device::Software { offset: 0, count }
        }
        Some(_) => Device::Cuda(Cuda::open(0).map_err(|state| state.to_string())?),
        None => Device::Host,
    };
    let (ranks, ready) = Ranks::start(0..task.ranks, task.ranks, device, task.largest.max(FIRST_CALL))?;
    let before = state(device, task.ranks);
    let old_variables = variables();
    let (library, load_seconds) = timed(|| load(task.library.as_deref(), device))?;
    let library: &'static Library = Box::leak(Box::new(library));
    let subject = Subject { device, library, ranks, count: task.ranks };

    let ((), init_seconds) = timed(|| subject.init())?;
    let initialised = subject.state();
    let first = Order::Collective { call: NcclCall::AllReduce, bytes: FIRST_CALL, dtype: DType::F32, tag: None };
    let (_, first_call_seconds) = timed(|| subject.ranks.all(&first))?;
    let called = subject.state();
    let choices = subject.choices(task.largest);
    let parted = subject.ranks.all(&Order::Destroy)?;
    let mut destroyed = vec![subject.state()];
    let processors = ready.into_iter().zip(parted).map(|(old, new)| (old.processors, new.processors)).collect();
    let variables = changed_variables(&old_variables, &variables());
    let parameters = library.parameters();
    let is_time_left = || begun.elapsed() <= Duration::try_from_secs_f64(task.seconds).unwrap_or(Duration::MAX);
    for _ in 0..task.cycles {
        if !is_time_left() {
            break;
        }
        subject.init()?;
        subject.ranks.all(&first)?;
        subject.ranks.all(&Order::Destroy)?;
        destroyed.push(subject.state());
    }
    let (mut calls, mut calls_alone) = (Vec::new(), Vec::new());
    if task.batches_of_calls > 0 && is_time_left() {
        subject.init()?;
        while calls.len() < task.batches_of_calls && is_time_left() {
            subject.ranks.all(&Order::SmallCalls { count: CALLS })?;
            calls.push(subject.state_without_free_memory());
        }
        subject.ranks.all(&Order::Destroy)?;
        subject.init_alone()?;
        while calls_alone.len() < task.batches_of_calls && is_time_left() {
            subject.ranks.first_alone(&Order::SmallCalls { count: CALLS })?;
            calls_alone.push(subject.state_without_free_memory());
        }
        subject.ranks.first_alone(&Order::Destroy)?;
    }
    let mapped = mapped_libraries(library.name().as_ref());
    Ok(Measurement {
        mapped,
        parameters,
        load_seconds,
        init_seconds,
        first_call_seconds,
        before,
        initialised,
        called,
        destroyed,
        calls,
        calls_alone,
        processors,
        variables,
        choices,
        timings: Vec::new(),
    })
}

impl Measurement {
    /// Adds information from the log: the timings of the first communicator, and choices in place of those that were counted.
    pub fn with_log(mut self, log: &str, ranks: usize) -> Self {
        self.timings = log::timings(log).into_iter().take(ranks).collect();
        let logged = log::choices(log);
        if !logged.is_empty() {
            self.choices = logged;
        }
        self
    }
}

/// Loads a library for a device.
///
/// # Errors
///
/// It cannot be loaded, or not onto software GPUs.
pub fn load(library: Option<&Path>, device: Device) -> Result<Library, String> {
    Ok(Library::new(match library {
        Some(path) if matches!(device, Device::Software { .. }) => {
            software_gpus::load(path).map_err(|error| error.to_string())?
        }
        Some(path) => Nccl::load(path).map_err(|error| error.to_string())?,
        None => soft_nccl::table(),
    }))
}

fn timed<T>(what: impl FnOnce() -> Result<T, String>) -> Result<(T, f64), String> {
    let begun = Instant::now();
    let done = what()?;
    Ok((done, begun.elapsed().as_secs_f64()))
}

/// The state of this process and its devices. Sets each rank's device as the calling thread's in turn.
fn state(device: Device, ranks: usize) -> ProcessState {
    let device_bytes = match device {
        Device::Host | Device::Software { .. } => device.memory_in_use().ok(),
        Device::Cuda(_) => (0..ranks).map(|rank| device.bind(rank).and_then(|()| device.memory_in_use()).ok()).sum(),
    };
    let mut state = ProcessState::now(device_bytes);
    if device.has_host_memory() {
        state.host_bytes = state.host_bytes.map(|host| host.saturating_sub(device_bytes.unwrap_or(0)));
    }
    state
}

impl Subject {
    fn state(&self) -> ProcessState {
        state(self.device, self.count)
    }

    /// What communicators have freed is a hole that leaks of calls fill without the process growing.
    fn state_without_free_memory(&self) -> ProcessState {
        crate::free_memory::give_back();
        self.state()
    }

    fn init(&self) -> Result<(), String> {
        let id = self.library.unique_id().map_err(|error| error.to_string())?;
        self.ranks.all(&Order::Init { library: self.library, id, ranks: self.count }).map(|_| ())
    }

    /// Creates a communicator of rank 0 alone.
    fn init_alone(&self) -> Result<(), String> {
        let id = self.library.unique_id().map_err(|error| error.to_string())?;
        self.ranks.first_alone(&Order::Init { library: self.library, id, ranks: 1 }).map(|_| ())
    }

    /// Calls operations of several sizes, so that the log contains the choices, and counts their traffic where the library can. An
    /// operation that the library refuses is left out.
    fn choices(&self, largest: u64) -> Vec<Choice> {
        let has = self.library.symbols();
        let mut found = Vec::new();
        let mut tag = 0;
        for (call, name) in OPERATIONS.into_iter().filter(|(call, _)| has.contains(&call.symbol())) {
            let sizes = std::iter::successors(Some(SMALL), |bytes| bytes.checked_mul(FACTOR));
            for bytes in sizes.take_while(|bytes| *bytes <= largest) {
                tag += 1;
                let order = Order::Collective { call, bytes, dtype: DType::F32, tag: Some(tag) };
                let Ok(done) = self.ranks.all_to_the_last(&order) else { break };
                let words = counted(&done);
                found.extend(words.map(|words| Choice { operation: Some(name.to_owned()), bytes, words }));
            }
        }
        found
    }
}

/// A description of an operation from its counted traffic.
fn counted(ranks: &[Done]) -> Option<String> {
    let traffic: Vec<_> = ranks.iter().filter_map(|done| done.traffic.as_ref()).collect();
    let rounds = traffic.iter().map(|traffic| traffic.rounds).max()?;
    let trees = traffic.iter().any(|traffic| traffic.inner > 0);
    let way = if trees { "tree" } else { "ring" };
    let messages = if rounds == 1 { "1 message".to_owned() } else { format!("{rounds} messages") };
    Some(format!("{way}, {messages} in a row"))
}
