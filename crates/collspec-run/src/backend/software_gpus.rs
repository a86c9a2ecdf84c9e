//! Software GPUs for a real library: the CUDA runtime that is linked into it is replaced, and its kernels are executed from their PTX.
#![allow(unsafe_code)] // a library is loaded, and its code replaced

use super::cuda::{DeviceInfo, DriverReport, DriverState};
use crate::cache_folder::programs_folder;
use crate::job::{
    ChangeKind, EarlyLoads, ExecutedFunction, ExecutedInstruction, FAULT_IN_LOG, FaultKind, HOST_CODE, Kernels,
    MachineCounts, MachineFault, MachineReport, Mutant, StoreUnit, Variation, Work,
};
use collspec_core::printable::one_line;
use gpuless_cuda::alter::{self, AlterError, Alteration};
use gpuless_cuda::api::{self, Settings};
use gpuless_cuda::attach::runtime_functions;
use gpuless_cuda::fatbin::FatBinaries;
use gpuless_cuda::faults::{self, Effect, Fault, Owner};
use gpuless_cuda::file_identity::FileIdentity;
use gpuless_cuda::host_functions;
use gpuless_cuda::library::LibraryError;
use gpuless_verbs::faults::{self as adapter_faults, Kind};
use nccl_sys::Nccl;
use ptx::code::Change;
use ptx::run::{self, Options, Schedule, SwitchSum};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// The most devices of a process: NCCL refuses to work with more.
const MOST_DEVICES: usize = 32;
/// The variable with their number.
pub const COUNT: &str = "COLLSPEC_SOFTWARE_GPUS";
/// The variable with a description of them, which `--machine` gives to workers and programs.
pub const DESCRIPTION: &str = "COLLSPEC_SOFTWARE_MACHINE";
/// The variable with the number of NVLinks of each.
pub const LINKS: &str = "COLLSPEC_SOFTWARE_NVLINKS";
/// The variable with the way in which the NVLink switch adds.
const SWITCH: &str = "COLLSPEC_SOFTWARE_SWITCH";
/// The fewest NVLinks with which NCCL uses multicast memory for collectives.
const LINKS_FOR_NVLS: u32 = 5;
/// The most NVLinks of a device, as on a B200.
const MOST_LINKS: usize = 18;

/// Ranks that wait for a software GPU check this often for an asynchronous error of the library.
const ERROR_CHECKS: Duration = Duration::from_millis(50);

/// The reason a library cannot run on software GPUs.
#[derive(Debug, thiserror::Error)]
pub enum SoftwareGpuError {
    /// Their number is none.
    #[error("{0} is `{1}`, and not a number from 1 to {2}")]
    Count(&'static str, String, usize),
    /// More devices than the described machine has.
    #[error("{COUNT} is {count}; the machine has {there}")]
    TooMany {
        /// The number asked for.
        count: usize,
        /// The number of the machine's devices.
        there: usize,
    },
    /// The NVLinks are those of the described machine.
    #[error("{LINKS} is set, and the machine says how many NVLinks there are")]
    Links,
    /// The description of the devices has no meaning.
    #[error("{DESCRIPTION}: {0}")]
    Description(#[from] api::DescriptionError),
    /// COLLSPEC_SOFTWARE_SWITCH has a value that it cannot have.
    #[error("{SWITCH} is `{0}`: {1}")]
    Switch(String, String),
    /// The devices were used before.
    #[error(transparent)]
    Configured(#[from] api::AlreadyConfigured),
    /// The library cannot be loaded.
    #[error(transparent)]
    Load(#[from] nccl_sys::LoadError),
    /// Its calls cannot come here, or its kernels cannot be read.
    #[error("{}: {source}", .path.display())]
    Library {
        /// Path of the library.
        path: PathBuf,
        /// The reason in detail.
        source: LibraryError,
    },
    /// The file is not the one that was loaded, so that its kernels are not those that the loaded code launches.
    #[error("{}: the file was replaced or changed while it was being loaded; run it again", .0.display())]
    Replaced(PathBuf),
}

/// The name of each device.
pub const NAME: &str = "collspec software GPU";

/// How many devices there are: those of a description, or else of this process.
///
/// # Errors
///
/// The description or the variables are wrong, or this build has no software GPUs.
pub fn device_count(description: Option<&str>) -> Result<usize, SoftwareGpuError> {
    Ok(settings(description)?.devices)
}

/// The number in a variable, if it is set.
fn count(variable: &'static str, most: usize) -> Result<Option<usize>, SoftwareGpuError> {
    let Some(text) = std::env::var_os(variable).filter(|text| !text.is_empty()) else { return Ok(None) };
    let count = text.to_str().and_then(|text| text.parse().ok()).filter(|count| (1..=most).contains(count));
    let refused = || SoftwareGpuError::Count(variable, one_line(&text.to_string_lossy()).into_owned(), most);
    count.map(Some).ok_or_else(refused)
}

/// NVLinks of each device, without a description.
pub fn nvlinks() -> u32 {
    settings(None).map_or(0, |settings| settings.nvlinks)
}

/// Checks the variables that describe the devices, beside this description if there is one.
///
/// # Errors
///
/// As for [`device_count`]; COLLSPEC_SOFTWARE_NVLINKS is not a number of links, or COLLSPEC_SOFTWARE_SWITCH has a value that it cannot have.
pub fn check_variables(description: Option<&str>) -> Result<(), SoftwareGpuError> {
    settings(description).and_then(|_| options()).map(|_| ())
}

/// The devices of a description, which may also be in a variable, or else those that other variables describe.
fn settings(description: Option<&str>) -> Result<Settings, SoftwareGpuError> {
    let inherited = std::env::var_os(DESCRIPTION).map(|text| text.to_string_lossy().into_owned());
    let description = description.or(inherited.as_deref());
    let (devices, links) = (count(COUNT, MOST_DEVICES)?, count(LINKS, MOST_LINKS)?);
    let named = Settings { name: NAME.to_owned(), ..Settings::default() };
    let Some(description) = description else {
        let nvlinks = links.map_or(named.nvlinks, |links| links as u32);
        return Ok(Settings { devices: devices.unwrap_or(MOST_DEVICES), nvlinks, ..named });
    };
    if links.is_some() {
        return Err(SoftwareGpuError::Links);
    }
    let machine = Settings { name: NAME.to_owned(), ..description.parse()? };
    match devices {
        Some(count) if count > machine.devices => Err(SoftwareGpuError::TooMany { count, there: machine.devices }),
        count => Ok(Settings { devices: count.unwrap_or(machine.devices), ..machine }),
    }
}

/// How kernels are executed.
fn options() -> Result<Options, SoftwareGpuError> {
    let text = std::env::var_os(SWITCH).unwrap_or_default().to_string_lossy().into_owned();
    let refused = |why| SoftwareGpuError::Switch(one_line(&text).into_owned(), why);
    let switch_sum = if text.is_empty() { SwitchSum::default() } else { text.parse().map_err(refused)? };
    Ok(Options { switch_sum, ..Options::default() })
}

/// The devices, reported as by a driver: those of a description, or else those that variables describe.
///
/// # Errors
///
/// The description or the variables are wrong.
pub fn report(description: Option<&str>) -> Result<DriverReport, SoftwareGpuError> {
    let Settings { devices, capability, memory, name, driver_version, nvlinks, .. } = settings(description)?;
    let device = |number: usize| DeviceInfo {
        name: name.clone(),
        compute: capability,
        multicast: nvlinks >= LINKS_FOR_NVLS && capability.0 >= 9,
        memory: memory as u64,
        uuid: format!("software-GPU-{number}"),
        bus: String::new(),
        reaches: (0..devices).filter(|other| *other != number).collect(),
        private: true,
    };
    Ok(DriverReport {
        state: DriverState::Software(devices),
        version: Some(driver_version),
        standin: Some("software GPUs".to_owned()),
        devices: (0..devices).map(device).collect(),
    })
}

/// Checks that a library's file has what software GPUs need. Nothing of it is loaded.
///
/// # Errors
///
/// The CUDA runtime in it cannot be replaced, or it carries no PTX.
pub fn check(path: &Path) -> Result<(), LibraryError> {
    runtime_functions(path)?;
    if FatBinaries::open(path)?.ptx().next().is_some() { Ok(()) } else { Err(LibraryError::NoPtx) }
}

/// True if a library's machine code for GPUs was cut out. False for a library without device code, too.
pub fn is_slimmed(path: &Path) -> bool {
    FatBinaries::open(path).is_ok_and(|binaries| binaries.is_slimmed().unwrap_or(false))
}

/// Loads a library on software GPUs into this process, for its whole life.
///
/// # Errors
///
/// The library cannot be loaded, has no CUDA runtime that can be replaced, or no kernels that can be read.
pub fn load(path: &Path) -> Result<Nccl, SoftwareGpuError> {
    let options = options()?;
    api::configure(settings(None)?)?;
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let identity = || file.metadata().ok().map(|found| FileIdentity::of(&found));
    let before = identity();
    let nccl = Nccl::load(&file)?;
    if let Ok(folder) = programs_folder() {
        gpuless_cuda::library::keep_programs_in(folder);
    }
    let not_supported = |name: &str, first: bool| {
        if first {
            eprintln!("software GPU: {name} is not supported");
        }
    };
    // SAFETY: the library was loaded from this file, stays, and nothing has called it.
    let library = unsafe { gpuless_cuda::library::load(&file, options, Box::new(not_supported)) };
    // Checked after everything was read from it that is read now, and before the findings are reported. What is read later has a hash.
    if identity() != before {
        return Err(SoftwareGpuError::Replaced(file));
    }
    let checks = || {
        loop {
            std::thread::sleep(ERROR_CHECKS);
            gpuless_device::wake_hosts();
        }
    };
    let begin = |library| {
        LIBRARY.get_or_init(|| library);
        std::thread::Builder::new().name("error checks".into()).spawn(checks).map_err(LibraryError::Threads)
    };
    library.and_then(begin).map_err(|source| SoftwareGpuError::Library { path: file, source })?;
    Ok(nccl)
}

/// From now on kernels end as soon as they begin and have done nothing. Only for a process that ends without a result of a collective.
pub fn skip_kernels() {
    gpuless_cuda::library::skip_kernels();
}

/// The first failure of a kernel on a device, in words.
pub fn failure(device: usize) -> Option<String> {
    let failure = api::failures().into_iter().find(|failure| failure.device == device)?;
    Some(format!("kernel {} on device {}: {}", failure.kernel, failure.device, failure.text))
}

/// What the system has first refused to the devices of this process since [`forget_refusals`], because the machine has no more of it.
pub fn refusal() -> Option<String> {
    gpuless_device::refusals::first()
}

/// Forgets what the system has refused.
pub fn forget_refusals() {
    gpuless_device::refusals::forget();
}

/// The work that a device's finished kernels have done in this process.
pub fn work(device: usize) -> Work {
    let gpuless_cuda::Counts { launches, blocks, work } = gpuless_cuda::counts(device);
    Work { instructions: work.instructions, loaded: work.loaded, stored: work.stored, launches, blocks }
}

/// From now on kernels take turns in the order of this seed, others may see their stores late, and their loads may be early.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn schedule(seed: u64, variation: &Variation) -> io::Result<()> {
    let delayed_stores = variation.delay_stores.map(|unit| match unit {
        StoreUnit::Element => run::StoreUnit::Element,
        StoreUnit::Thread => run::StoreUnit::Thread,
        StoreUnit::Line => run::StoreUnit::Line,
    });
    let early_loads = variation.early_loads.map(|loads| match loads {
        EarlyLoads::Weak => run::EarlyLoads::Weak,
        EarlyLoads::All => run::EarlyLoads::All,
    });
    gpuless_cuda::library::schedule(Some(Schedule { seed, delayed_stores, early_loads }))
}

/// How long a slow GPU halts, and data is late.
const PAUSE: Duration = Duration::from_millis(500);

/// From now on what faults can strike is counted, and the fault strikes if there is one; the device is the one that it halts. The log says what
/// it has done.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn disturb(fault: Option<(MachineFault, usize)>) -> io::Result<()> {
    let of_adapters = fault.and_then(|(fault, _)| of_adapters(fault));
    adapter_faults::begin(of_adapters, |what| eprintln!("{FAULT_IN_LOG}{what}"));
    let fault = fault.and_then(|(MachineFault { kind, moment, seed, .. }, device)| {
        let (effect, before) = match kind {
            FaultKind::BitFlipUser => (Effect::FlippedBit(Owner::Caller), 1),
            FaultKind::BitFlipNccl => (Effect::FlippedBit(Owner::Library), 1),
            FaultKind::LostWrite => (Effect::LostStore, 0),
            FaultKind::StuckGpu => (Effect::Halt { device, time: None }, 0),
            FaultKind::SlowGpu => (Effect::Halt { device, time: Some(PAUSE) }, 0),
            FaultKind::NetCut => (Effect::CutConnection, 0),
            FaultKind::NetBitFlip => (Effect::FlippedBitInTransit, 0),
            FaultKind::NetRepeat => (Effect::RepeatedSegment, 0),
            FaultKind::NetDelay => (Effect::Delay(PAUSE), 0),
            _ => return None,
        };
        Some(Fault { effect, at: moment.saturating_add(before), seed })
    });
    faults::begin(fault, |what| eprintln!("{FAULT_IN_LOG}{what}"))
}

/// How long a port is down that comes back: shorter than the retries of a message take.
const FLAP: Duration = Duration::from_millis(300);
/// How much later data is written again: the next message is on its way by then.
const AGAIN: Duration = Duration::from_millis(5);
/// The bytes per second of a slow adapter.
const SLOW: u64 = 1_000_000;

/// A fault of a network adapter.
fn of_adapters(MachineFault { kind, moment, seed, .. }: MachineFault) -> Option<adapter_faults::Fault> {
    let kind = match kind {
        FaultKind::IbRetryExceeded => Kind::RetryExceeded,
        FaultKind::IbPortDown => Kind::PortDown { time: None },
        FaultKind::IbPortFlap => Kind::PortDown { time: Some(FLAP) },
        FaultKind::IbQpError => Kind::QueuePairFatal,
        FaultKind::IbCqError => Kind::CompletionQueueError,
        FaultKind::IbDeviceError => Kind::DeviceFatal,
        FaultKind::IbLateMessage => Kind::LateSend { time: PAUSE },
        FaultKind::IbLateCompletion => Kind::LateCompletion { time: PAUSE },
        FaultKind::IbLostWrite => Kind::LostWrite,
        FaultKind::IbBitFlip => Kind::FlippedBit,
        FaultKind::IbRepeat => Kind::RepeatedWrite { after: AGAIN },
        FaultKind::IbReorder => Kind::ReorderedWrites,
        FaultKind::IbSlowNic => Kind::SlowNic { bytes_per_second: SLOW },
        FaultKind::IbPartition => Kind::Unreachable,
        _ => return None,
    };
    // Messages are counted from 1.
    Some(adapter_faults::Fault { kind, nic: None, at: moment.saturating_add(1), seed })
}

/// Nothing happens to the machine any more, and nothing is counted.
pub fn leave_alone() -> io::Result<()> {
    adapter_faults::end();
    faults::end()
}

/// The library that was loaded here.
static LIBRARY: OnceLock<gpuless_cuda::library::Library> = OnceLock::new();

/// Every kind of change.
const CHANGES: [(ChangeKind, Change); 6] = [
    (ChangeKind::Operator, Change::Operator),
    (ChangeKind::Comparison, Change::Comparison),
    (ChangeKind::Constant, Change::Constant),
    (ChangeKind::Rounding, Change::Rounding),
    (ChangeKind::LeftOut, Change::LeftOut),
    (ChangeKind::Negated, Change::Negated),
];

/// From now on kernels are other than their PTX says in this way, or as it says.
///
/// # Errors
///
/// The library has no such instruction, or its host code cannot be changed.
pub fn alter_kernels(kernels: Option<Kernels>) -> Result<(), AlterKernelsError> {
    let alteration = kernels.and_then(|kernels| match kernels {
        Kernels::Noted | Kernels::NotedByNumber => Some(Alteration::Noted),
        Kernels::Mutant(Mutant { program, function, operation, change }) => {
            let (_, change) = *CHANGES.iter().find(|(kind, _)| *kind == change)?;
            Some(Alteration::Mutant(alter::Mutant { program, function, operation, change }))
        }
    });
    alter::alter(alteration)?;
    if let (Some(Kernels::NotedByNumber), Some(library)) = (kernels, LIBRARY.get()) {
        let functions = library.attached().functions().map(|(address, _)| address);
        // SAFETY: the library's own table of symbols calls them functions, and it stays loaded.
        unsafe { host_functions::note(functions) }.map_err(AlterKernelsError::HostCode)?;
    }
    Ok(())
}

/// The reason kernels are not as a job wants them.
#[derive(Debug, thiserror::Error)]
pub enum AlterKernelsError {
    /// The kernels cannot be altered.
    #[error(transparent)]
    Kernels(#[from] AlterError),
    /// The entries of the library's host functions cannot be noted.
    #[error("the library's host code cannot be changed: {0}")]
    HostCode(io::Error),
}

/// What was reached of the library since this is noted: the numbers of instructions of its kernels, and of functions of its host code.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn reached() -> Result<Vec<u64>, AlterError> {
    // A program has less than 2^24 functions, and a function less than 2^32 instructions.
    let instruction = |[program, function, at]: [u32; 3]| {
        u64::from(program & 0x7f) << 56 | u64::from(function & 0xff_ffff) << 32 | u64::from(at)
    };
    let host = host_functions::entered().into_iter().map(|function| HOST_CODE | u64::from(function));
    Ok(alter::executed_numbers()?.into_iter().map(instruction).chain(host).collect())
}

/// The instructions that kernels of this process have executed, if this is noted.
///
/// # Errors
///
/// The text of a kernel cannot be read.
pub fn executed() -> Result<Vec<ExecutedFunction>, AlterError> {
    let kind = |change: Change| CHANGES.iter().find(|(_, known)| *known == change).map(|(kind, _)| *kind);
    let instruction = |run::Executed { operation, line, text, changes }| {
        let changes = changes.into_iter().filter_map(|(change, words)| Some((kind(change)?, words))).collect();
        ExecutedInstruction { operation, line, text, changes }
    };
    let function = |alter::ExecutedFunction { program, function, name, unit, operations }| {
        let instructions = operations.into_iter().map(instruction).collect();
        ExecutedFunction { program, function, name, unit, instructions }
    };
    Ok(alter::executed()?.into_iter().map(function).collect())
}

/// What faults could have struck in this process, and what the fault did if it has.
pub fn disturbed() -> MachineReport {
    let (faults::Counts { stores, to_library, to_caller, received }, fault) = faults::seen();
    let (adapter_faults::Counts { messages, .. }, of_adapters) = adapter_faults::seen();
    let fault = fault.or(of_adapters);
    let counts = MachineCounts { stores, stores_to_nccl: to_library, stores_to_user: to_caller, received, messages };
    MachineReport { counts, fault, executed: Vec::new(), reached: Vec::new() }
}

/// The number of host threads that wait for a device, and the number of turns that kernels had, if streams have nothing to do now and all kernels
/// of this process wait or poll memory that does not change.
pub fn standstill() -> Option<(usize, u64)> {
    let activity = gpuless_device::activity();
    let turns = gpuless_cuda::library::turns_before_standstill()?;
    (!activity.busy).then_some((activity.blocked_hosts, turns))
}
