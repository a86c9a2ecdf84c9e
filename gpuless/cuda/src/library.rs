//! Libraries on software GPUs: their calls of the runtime are redirected to [`api`], and their kernels are executed from their PTX.
#![allow(unsafe_code)] // a library's code is replaced, and kernels reach the memory that the runtime knows

use crate::api::{self, Attributes, Change, Configuration, Kernels, Place, Runtime};
use crate::attach::{Answers, AttachError, Attached, Report, attach, runtime_functions};
use crate::counts;
use crate::fatbin::{FatBinaries, FatbinError, Section};
use crate::imports;
use ptx::link::{LinkError, Program};
use ptx::run::{self, Executable, Image, Launch, Memory, Multicast, Options, Pool, Region, Schedule, Stores};
use ptx::text::Unit;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The reason a library cannot run on software GPUs.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The PTX in it cannot be taken out.
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    /// The library does not contain PTX.
    #[error("the library carries no PTX, and the machine code of a GPU cannot run here")]
    NoPtx,
    /// The PTX cannot be read.
    #[error(transparent)]
    Text(#[from] ptx::Error),
    /// Its units are not a program.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Its calls cannot come here.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// No threads for its kernels.
    #[error("no thread to run kernels: {0}")]
    Threads(std::io::Error),
}

/// The executor of the kernels of all libraries in this process.
struct Machine {
    pool: Pool,
    memory: Arc<Memory>,
    /// The programs of the libraries that were loaded, in their order.
    programs: Mutex<Vec<Arc<Programs>>>,
}

/// The multicast memory that the runtime knows.
#[derive(Debug)]
struct OfRuntime;

impl Multicast for OfRuntime {
    fn with_members(&self, address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        api::with_members(address, len, f)
    }
}

/// The machine, which begins with the first library.
fn machine() -> Result<&'static Machine, LibraryError> {
    static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();
    let begin = || {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let pool = Pool::new(cores).map_err(|error| error.to_string())?;
        let memory = Arc::new(Memory::default());
        let watched = memory.clone();
        api::watch_memory(Arc::new(move |change| match change {
            // SAFETY: the owner keeps it until the change back is reported, which comes after all kernels that were launched by then.
            Change::Mapped { address, bytes } => unsafe {
                watched.map(Region::new(address as u64, bytes as u64));
            },
            Change::Unmapped { address } => watched.unmap(address as u64),
        }));
        // SAFETY: members stay until the kernels that were running when they were given up have ended.
        unsafe { memory.set_multicast(Box::new(OfRuntime)) };
        Ok(Machine { pool, memory, programs: Mutex::default() })
    };
    let machine = MACHINE.get_or_init(begin);
    machine.as_ref().map_err(|error| LibraryError::Threads(std::io::Error::other(error.clone())))
}

/// From now on kernels take turns in an order that a seed decides; without one, on a thread for each core. The seed does not control the host's
/// actions in between.
///
/// # Errors
///
/// The threads that run kernels cannot be started.
pub fn schedule(schedule: Option<Schedule>) -> Result<(), LibraryError> {
    machine().map(|machine| machine.pool.schedule(schedule))
}

/// Kernels launched from now on report their stores to this observer, or to none.
pub(crate) fn observe_stores(stores: Option<Arc<dyn Stores>>) -> Result<(), LibraryError> {
    machine().map(|machine| machine.memory.observe_stores(stores))
}

/// The kernels of a device halt, for a time or until [`resume`].
pub(crate) fn halt(device: usize, time: Option<Duration>) -> Result<(), LibraryError> {
    machine().map(|machine| machine.pool.halt(device, time))
}

/// The kernels of a device that was halted continue.
pub(crate) fn resume() -> Result<(), LibraryError> {
    machine().map(|machine| machine.pool.resume())
}

/// The programs of all libraries that were loaded.
pub(crate) fn executables() -> Result<Vec<Arc<Executable>>, LibraryError> {
    let programs = machine()?.programs.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(programs.iter().flat_map(|programs| programs.executables.clone()).collect())
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

/// A library's programs. Those of the device linker have many units, and whole ones have one each.
struct Programs {
    executables: Vec<Arc<Executable>>,
    /// The program of each kernel.
    of_kernel: HashMap<String, usize>,
    /// The images by device and program.
    images: Mutex<HashMap<(usize, usize), Arc<Image>>>,
}

/// A library whose kernels run on software GPUs.
pub struct Library {
    attached: Arc<Attached>,
    programs: Arc<Programs>,
}

/// Makes a loaded library run on software GPUs. `not_supported` receives calls for which the runtime has no answer, and learns if it
/// is the first call of that function.
///
/// # Errors
///
/// Its calls of the runtime cannot be redirected, or it does not contain readable PTX. In the second case it is attached anyway, and
/// each of its launches fails.
///
/// # Safety
///
/// As for [`attach`]: the library is loaded from this file, stays loaded, and no thread is in its runtime meanwhile.
pub unsafe fn load(path: &Path, options: Options, not_supported: Report) -> Result<Library, LibraryError> {
    machine()?;
    let runtime = runtime_functions(path)?;
    let fat_binaries = FatBinaries::open(path)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let texts = fat_binaries.map_ptx(threads, |ptx, text| {
        let entry = ptx.entry();
        (entry.section, entry.fat_binary, entry.name.clone(), text)
    });
    // SAFETY: as the caller says.
    let attached = Arc::new(unsafe { redirect(path, &runtime, not_supported)? });
    let programs = Arc::new(Programs::new(texts, attached.linked_programs(), options, threads)?);
    machine()?.programs.lock().unwrap_or_else(PoisonError::into_inner).push(programs.clone());
    let (of, known) = (attached.clone(), programs.clone());
    api::add_kernels(Box::new(move |address| {
        // Some kernels exist as machine code alone. They are known, and refused when they are launched.
        let name = of.kernel_of(address.addr())?;
        Some((known.clone() as Arc<dyn Kernels>, name.to_owned()))
    }));
    Ok(Library { attached, programs })
}

/// Redirects a library's calls of the CUDA runtime alone: for one without kernels, such as the runtime's own library.
///
/// # Errors
///
/// Its calls of the runtime cannot be redirected.
///
/// # Safety
///
/// Same as [`load`].
pub unsafe fn attach_runtime(path: &Path, not_supported: Report) -> Result<Attached, AttachError> {
    let runtime = runtime_functions(path)?;
    // SAFETY: as the caller says.
    unsafe { redirect(path, &runtime, not_supported) }
}

/// Redirects the calls of these functions of the runtime.
///
/// # Safety
///
/// Same as [`load`].
unsafe fn redirect(path: &Path, linked: &[String], not_supported: Report) -> Result<Attached, AttachError> {
    let runtime = Runtime::of(|wanted| linked.iter().any(|name| name == wanted));
    let functions: HashMap<&str, *const ()> = api::functions(runtime).into_iter().collect();
    let not_supported = Box::new(move |name: &str, first: bool| {
        api::note_unsupported();
        not_supported(name, first);
    });
    let answers =
        Answers { function: &|name| functions.get(name).copied(), imports: &imports::functions(), not_supported };
    // SAFETY: as the caller says; the functions are the runtime's, and exist as long as the process.
    unsafe { attach(path, answers) }
}

/// Makes the driver's modules work: their kernels are executed from their PTX, too.
pub fn load_modules(options: Options) {
    api::load_modules_with(Box::new(move |text| {
        machine().map_err(|error| error.to_string())?;
        let text = (Section::Whole, 0, "module".to_owned(), Ok(text.into_bytes()));
        Programs::new(vec![text], &[], options, 1)
            .map(|kernels| Arc::new(kernels) as _)
            .map_err(|error| error.to_string())
    }));
}

impl Library {
    /// The library's original runtime, and the functions that are answered.
    pub fn attached(&self) -> &Attached {
        &self.attached
    }

    /// The names of its kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.programs.of_kernel.keys().map(String::as_str)
    }
}

/// A unit's section and fat binary, its name, and its text.
type Text = (Section, u64, String, Result<Vec<u8>, FatbinError>);

impl Programs {
    fn new(texts: Vec<Text>, linked: &[Vec<u64>], options: Options, threads: usize) -> Result<Self, LibraryError> {
        let mut groups: Vec<Vec<Unit>> = linked.iter().map(|_| Vec::new()).collect();
        for (section, fat_binary, name, text) in texts {
            let name = if name.is_empty() { format!("fat binary at {fat_binary:#x}") } else { name };
            let unit = Unit::new(&name, text?)?;
            let of = linked.iter().position(|units| units.contains(&fat_binary));
            match of.filter(|_| section == Section::Linked) {
                Some(program) => groups[program].push(unit),
                None => groups.push(vec![unit]),
            }
        }
        groups.retain(|units| !units.is_empty());
        if groups.is_empty() {
            return Err(LibraryError::NoPtx);
        }
        let (mut executables, mut of_kernel) = (Vec::new(), HashMap::new());
        for units in groups {
            let program = Arc::new(Program::link(units, threads)?);
            for kernel in program.kernels() {
                of_kernel.entry(kernel.to_owned()).or_insert(executables.len());
            }
            executables.push(Executable::new(program, options));
        }
        Ok(Self { executables, of_kernel, images: Mutex::default() })
    }

    fn executable(&self, kernel: &str) -> Option<(usize, &Arc<Executable>)> {
        let program = *self.of_kernel.get(kernel)?;
        Some((program, self.executables.get(program)?))
    }

    fn image(&self, device: usize, program: usize) -> Option<Arc<Image>> {
        let executable = self.executables.get(program)?;
        let memory = machine().ok()?.memory.clone();
        let mut images = self.images.lock().unwrap_or_else(PoisonError::into_inner);
        let image = images.entry((device, program)).or_insert_with(|| Arc::new(Image::new(executable.clone(), memory)));
        Some(image.clone())
    }
}

/// The number that a GPU's compiler would have needed is unknown; NCCL does not base decisions on it.
const REGISTERS: u32 = 96;
/// Limit on the threads of a block if its kernel does not declare one.
const MOST_THREADS: u32 = 1024;

impl Kernels for Programs {
    fn attributes(&self, kernel: &str) -> Option<Attributes> {
        // NCCL passes over kernels that it has no code for, as on a GPU that it was not compiled for.
        let (_, executable) = self.executable(kernel)?;
        let program = executable.program();
        let id = program.kernel(kernel)?;
        let signature = program.signature(id).ok()?;
        let bound = |sizes: [u32; 3]| sizes.iter().fold(1u32, |all, size| all.saturating_mul(*size));
        let most_threads = signature.bounds.most_threads.map_or(MOST_THREADS, bound).min(MOST_THREADS);
        let shared = usize::try_from(executable.static_shared(id).ok()?).ok()?;
        Some(Attributes { shared, constant: 0, local: 0, most_threads, registers: REGISTERS })
    }

    fn parameters(&self, kernel: &str) -> Option<Vec<(usize, usize)>> {
        let (_, executable) = self.executable(kernel)?;
        let program = executable.program();
        let signature = program.signature(program.kernel(kernel)?).ok()?;
        let place = |parameter: &ptx::module::Parameter| {
            Some((usize::try_from(parameter.offset).ok()?, usize::try_from(parameter.shape.bytes()).ok()?))
        };
        signature.parameters.iter().map(place).collect()
    }

    fn launch(
        &self,
        device: usize,
        kernel: &str,
        configuration: &Configuration,
        parameters: &[u8],
        ended: Box<dyn FnOnce(Result<(), String>) + Send>,
    ) {
        let image = self.executable(kernel).and_then(|(program, _)| self.image(device, program));
        let (Some(image), Ok(machine)) = (image, machine()) else {
            return ended(Err(format!("the library carries no PTX of `{kernel}`")));
        };
        let configuration = run::Configuration {
            grid: configuration.grid,
            block: configuration.block,
            dynamic_shared: configuration.dynamic_shared as u64,
        };
        let blocks = configuration.grid.iter().map(|blocks| u64::from(*blocks)).product();
        match Launch::new(&image, kernel, &configuration, parameters) {
            Ok(launch) => {
                let told = move |outcome: Result<run::Figures, run::Fault>| {
                    if let Ok(figures) = &outcome {
                        counts::note(device, blocks, figures.work);
                    }
                    ended(outcome.map(|_| ()).map_err(|fault| fault.to_string()));
                };
                machine.pool.launch(launch.on_device(device), Box::new(told));
            }
            Err(fault) => ended(Err(fault.to_string())),
        }
    }

    fn variable(&self, device: usize, name: &str) -> Option<(u64, u64)> {
        let programs = 0..self.executables.len();
        programs.into_iter().find_map(|program| self.image(device, program)?.variable(name).ok().flatten())
    }
}
