//! A library to preload: software GPUs for a program that calls CUDA and NCCL.
//!
//! It has the driver's functions under their own names. Libraries that have a CUDA runtime, NCCL's or the runtime's own, call
//! `gpuless-cuda` from the moment when they can first be called: when the program begins, or asks the loader for a function of one.
#![deny(unsafe_code)]
#![cfg(target_arch = "x86_64")] // it has machine code, and software GPUs work there alone

mod exports;
mod absent;
mod loaded;

use gpuless_cuda::api::{self, Settings};
use gpuless_cuda::fatbin::FatbinError;
use gpuless_cuda::faults::{self, Effect, Fault, Owner};
use gpuless_cuda::library::{self, LibraryError};
use ptx::run::{EarlyLoads, Options, Schedule, StoreUnit};
use std::path::{Path, PathBuf};

/// The variable with the number of devices.
const COUNT: &str = "COLLSPEC_SOFTWARE_GPUS";
/// The variable with the number of NVLinks of each.
const LINKS: &str = "COLLSPEC_SOFTWARE_NVLINKS";

/// The variable with a description of the devices and the network adapters beside them.
const DESCRIPTION: &str = "COLLSPEC_SOFTWARE_MACHINE";
/// The variable with the way in which the NVLink switch adds.
const SWITCH: &str = "COLLSPEC_SOFTWARE_SWITCH";

/// The variable with a fault of the machine, for tests of what must notice it.
const FAULT: &str = "COLLSPEC_SOFTWARE_FAULT";
/// The variable with the order in which warps take turns: SEED[:delay-stores=UNIT][:early-loads=LOADS].
const SCHEDULE: &str = "COLLSPEC_SOFTWARE_SCHEDULE";
/// The variable with a folder, in which processes keep what they have found out about libraries.
const CACHE: &str = "COLLSPEC_SOFTWARE_CACHE";
/// The variable with a folder, in which each process writes down the work of its kernels when it ends.
const WORK: &str = "COLLSPEC_SOFTWARE_WORK";

/// How kernels are executed.
fn options() -> Options {
    // Whoever preloads this checks it: a library to preload has nobody to tell.
    let switch_sum = std::env::var(SWITCH).ok().and_then(|text| text.parse().ok()).unwrap_or_default();
    Options { switch_sum, ..Options::default() }
}

/// Sets up the devices, before the program's first call.
fn configure() {
    // Whoever preloads this checks them, too.
    let described = std::env::var(DESCRIPTION).ok().map(|text| text.parse::<Settings>());
    let settings = described.unwrap_or_else(|| Ok(Settings::default())).unwrap_or_else(|why| {
        eprintln!("software GPU: {DESCRIPTION}: {why}");
        Settings::default()
    });
    let devices = std::env::var(COUNT).ok().and_then(|text| text.parse().ok()).unwrap_or(settings.devices);
    // Only this function configures them, and once.
    let nvlinks = std::env::var(LINKS).ok().and_then(|text| text.parse().ok()).unwrap_or(settings.nvlinks);
    let _ =
        api::configure(Settings { devices, nvlinks, legacy_default_stream: true, tells_failures: true, ..settings });
    if let Some(folder) = std::env::var_os(CACHE).map(PathBuf::from).filter(|folder| folder.is_absolute()) {
        library::keep_programs_in(folder);
    }
    library::load_modules(options());
    library::load_registered(options());
    set(FAULT, disturb);
    set(SCHEDULE, schedule);
}

/// Gives the value of a variable to what it sets; a mistake in it is told.
fn set(variable: &str, take: fn(&str) -> Result<(), String>) {
    if let Ok(text) = std::env::var(variable)
        && let Err(why) = take(&text)
    {
        eprintln!("software GPU: {variable}: {why}");
    }
}

/// Has a seed decide the order in which warps take turns, and what else is asked for.
fn schedule(text: &str) -> Result<(), String> {
    let mut words = text.split(':');
    let seed = words.next().unwrap_or_default();
    let mut schedule = Schedule::new(seed.parse().map_err(|_| format!("{seed:?} is not a number"))?);
    for word in words {
        match word {
            "delay-stores=element" => schedule.delayed_stores = Some(StoreUnit::Element),
            "delay-stores=thread" => schedule.delayed_stores = Some(StoreUnit::Thread),
            "delay-stores=line" => schedule.delayed_stores = Some(StoreUnit::Line),
            "early-loads=weak" => schedule.early_loads = Some(EarlyLoads::Weak),
            "early-loads=all" => schedule.early_loads = Some(EarlyLoads::All),
            _ => {
                return Err(format!(
                    "{word:?} is neither delay-stores=element, thread or line nor early-loads=weak or all"
                ));
            }
        }
    }
    library::schedule_when_needed(schedule);
    Ok(())
}

/// Begins to count what faults can strike, and has one strike: `count`, or KIND:AT:SEED.
fn disturb(text: &str) -> Result<(), String> {
    let mut words = text.split(':');
    let kind = words.next().unwrap_or_default();
    let mut number = || match words.next() {
        None => Ok(0),
        Some(word) => word.parse().map_err(|_| format!("{word:?} is not a number")),
    };
    let (at, seed) = (number()?, number()?);
    let effect = match kind {
        "count" => None,
        "bit_flip_user" => Some(Effect::FlippedBit(Owner::Caller)),
        "bit_flip_nccl" => Some(Effect::FlippedBit(Owner::Library)),
        "lost_write" => Some(Effect::LostStore),
        _ => return Err(format!("{kind:?} is none of count, bit_flip_user, bit_flip_nccl and lost_write")),
    };
    let fault = effect.map(|effect| Fault { effect, at, seed });
    faults::begin(fault, |what| eprintln!("software GPU: {what}")).map_err(|error| error.to_string())
}

/// Makes a loaded library call this runtime.
///
/// # Safety
///
/// Same as [`library::load_when_needed`].
#[allow(unsafe_code)] // as its caller says
unsafe fn attach(path: &Path) -> Result<(), LibraryError> {
    // SAFETY: as the caller says.
    unsafe {
        match library::load_when_needed(path, options(), Box::new(not_supported)) {
            Err(LibraryError::Fatbin(FatbinError::NoDeviceCode)) => {
                library::attach_runtime(path, Box::new(not_supported)).map(|_| ())?;
            }
            loaded => loaded?,
        }
    }
    Ok(())
}

fn not_supported(name: &str, first: bool) {
    if first {
        eprintln!("software GPU: {name} is not supported");
    }
}

/// True if something is to be said when the process ends.
fn reports() -> bool {
    std::env::var(FAULT).is_ok_and(|text| text == "count") || std::env::var_os(WORK).is_some()
}

/// Reports what faults can strike, and the work that was done.
extern "C" fn report() {
    if let Some(folder) = std::env::var_os(WORK) {
        write_work(Path::new(&folder));
    }
    if std::env::var(FAULT).is_ok_and(|text| text == "count") {
        let (faults::Counts { stores, to_library, to_caller, .. }, _) = faults::seen();
        eprintln!("software GPU: {stores} stores, {to_library} to the library's memory, {to_caller} to the caller's");
    }
}

/// Writes `LAUNCHES BLOCKS INSTRUCTIONS LOADED STORED` to a file of this process's number, if it had kernels.
fn write_work(folder: &Path) {
    let gpuless_cuda::Counts { launches, blocks, work } = gpuless_cuda::counts_of_all();
    if launches > 0 {
        let line = format!("{launches} {blocks} {} {} {}\n", work.instructions, work.loaded, work.stored);
        // Whoever wants it misses it.
        let _ = std::fs::write(folder.join(format!("{}.work", std::process::id())), line);
    }
}
