//! What executes the kernels of all libraries in this process: threads, the memory that kernels reach, and the order of turns.
#![allow(unsafe_code)] // kernels reach the memory that the runtime knows

use crate::api::{self, Change, Place};
use gpuless_verbs::Arrival;
use ptx::run::{self, Executable, Memory, Multicast, Pool, Region, Schedule, StoreUnit, Stores};
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The executor of the kernels of all libraries in this process.
pub(crate) struct Machine {
    pub(crate) pool: Pool,
    pub(crate) memory: Arc<Memory>,
    /// Those of the libraries that were loaded, in their order.
    executables: Mutex<Vec<Arc<Executable>>>,
}

impl Machine {
    fn executables(&self) -> MutexGuard<'_, Vec<Arc<Executable>>> {
        self.executables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The multicast memory that the runtime knows.
#[derive(Debug)]
struct OfRuntime;

impl Multicast for OfRuntime {
    fn with_members(&self, address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        api::with_members(address, len, f)
    }
}

/// The order of turns that the machine begins with.
static FIRST_SCHEDULE: OnceLock<Schedule> = OnceLock::new();

/// As [`schedule`], from the first kernel on: threads that are started now would be missing in a process that this one forks.
pub fn schedule_when_needed(schedule: Schedule) {
    let _ = FIRST_SCHEDULE.set(schedule);
}

/// The machine, which begins with the first library.
pub(crate) fn machine() -> io::Result<&'static Machine> {
    static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();
    let begin = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = Pool::new(cores).map_err(|error| error.to_string())?;
        let first = FIRST_SCHEDULE.get().copied();
        pool.schedule(first);
        gpuless_verbs::set_arrival(arrival(first));
        let memory = Arc::new(Memory::default());
        let watched = memory.clone();
        api::watch_memory(Arc::new(move |change| match change {
            // SAFETY: the owner keeps it until the change back is reported, which comes after all kernels that were launched by then.
            Change::Mapped { address, bytes } => unsafe {
                watched.map(Region::new(address as u64, bytes as u64));
            },
            Change::Unmapped { address } => watched.unmap(address as u64),
        }));
        let reached = memory.clone();
        api::ask_for_variables(Box::new(move |address| reached.holds(address as u64)));
        // SAFETY: members stay until the kernels that were running when they were given up have ended.
        unsafe { memory.set_multicast(Box::new(OfRuntime)) };
        Ok(Machine { pool, memory, executables: Mutex::default() })
    };
    let machine = MACHINE.get_or_init(begin);
    machine.as_ref().map_err(|error| io::Error::other(error.clone()))
}

/// From now on kernels take turns in an order that a seed decides; without one, on a thread for each core. The seed does not control the host's
/// actions in between.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn schedule(schedule: Option<Schedule>) -> io::Result<()> {
    machine().map(|machine| machine.pool.schedule(schedule))?;
    gpuless_verbs::set_arrival(arrival(schedule));
    Ok(())
}

/// Stores that a schedule delays come in the same units from another node as from another GPU: an adapter may write parts of a message
/// in any order, too.
fn arrival(schedule: Option<Schedule>) -> Arrival {
    let Some(Schedule { seed, delayed_stores: Some(unit), .. }) = schedule else { return Arrival::InOrder };
    let bytes = match unit {
        StoreUnit::Element => 8,
        StoreUnit::Thread => 16,
        StoreUnit::Line => 128,
    };
    Arrival::ShuffledLines { bytes, seed }
}

/// Kernels launched from now on report their stores to this observer, or to none.
pub(crate) fn observe_stores(stores: Option<Arc<dyn Stores>>) -> io::Result<()> {
    machine().map(|machine| machine.memory.observe_stores(stores))
}

/// The kernels of a device halt, for a time or until [`resume`].
pub(crate) fn halt(device: usize, time: Option<Duration>) -> io::Result<()> {
    machine().map(|machine| machine.pool.halt(device, time))
}

/// The kernels of a device that was halted continue.
pub(crate) fn resume() -> io::Result<()> {
    machine().map(|machine| machine.pool.resume())
}

/// Adds the executables of a library that was loaded.
pub(crate) fn add_executables(executables: &[Arc<Executable>]) -> io::Result<()> {
    machine().map(|machine| machine.executables().extend_from_slice(executables))
}

/// The executables of all libraries that were loaded.
pub(crate) fn executables() -> io::Result<Vec<Arc<Executable>>> {
    machine().map(|machine| machine.executables().clone())
}

/// All blocks that are at work in this process, if all of them wait or poll memory that does not change: only the host can help them then.
pub fn standing() -> Option<Vec<run::StandingBlock>> {
    machine().ok()?.pool.standing()
}

/// As [`Pool::turns_before_standstill`], for this process.
pub fn turns_before_standstill() -> Option<u64> {
    machine().ok()?.pool.turns_before_standstill()
}

/// The devices whose kernels have written to an allocation.
pub fn writers(place: &Place) -> BTreeSet<usize> {
    let Ok(machine) = machine() else { return BTreeSet::new() };
    place.starts.iter().flat_map(|start| machine.memory.writers(*start as u64)).collect()
}

static SKIPS_KERNELS: AtomicBool = AtomicBool::new(false);

/// From now on kernels end as soon as they begin and have done nothing: for one who asks what a library launches and has no use for results. Nothing
/// that is in memory afterwards has a meaning, and what waits for it on a network waits for ever.
pub fn skip_kernels() {
    SKIPS_KERNELS.store(true, Ordering::Relaxed);
}

/// True if kernels do nothing.
pub(crate) fn skips_kernels() -> bool {
    SKIPS_KERNELS.load(Ordering::Relaxed)
}
