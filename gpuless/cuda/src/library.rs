//! Libraries on software GPUs: their calls of the runtime are redirected to [`api`], and their kernels are executed from their PTX.
#![allow(unsafe_code)] // a library's code is replaced, and kernels reach the memory that the runtime knows

use crate::api::{self, Attributes, Change, Configuration, Kernels, Place, Runtime};
use crate::attach::{Answers, AttachError, Attached, Report, attach, of_wrapper, runtime_functions};
use crate::counts;
use crate::elf::Source;
use crate::fatbin::{Entry, FatBinaries, FatbinError, Kind, Section};
use crate::imports;
use crate::kept_programs::{self, Identity, KeptKernel, KeptProgram, KeptPrograms, KeptUnit};
use gpuless_verbs::Arrival;
use ptx::link::{LinkError, Program};
use ptx::run::{
    self, Executable, Image, Launch, Memory, Multicast, Options, Pool, Region, Schedule, StoreUnit, Stores,
};
use ptx::text::Unit;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// A registered fat binary does not contain PTX.
    #[error("it is there as machine code alone ({}), which cannot run here, and not as PTX", architectures.join(", "))]
    MachineCode {
        /// The architectures for which there is machine code.
        architectures: Vec<String>,
    },
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

/// The order of turns that the machine begins with.
static FIRST_SCHEDULE: OnceLock<Schedule> = OnceLock::new();

/// As [`schedule`], from the first kernel on: threads that are started now would be missing in a process that this one forks.
pub fn schedule_when_needed(schedule: Schedule) {
    let _ = FIRST_SCHEDULE.set(schedule);
}

/// The machine, which begins with the first library.
fn machine() -> Result<&'static Machine, LibraryError> {
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

static SKIPS_KERNELS: AtomicBool = AtomicBool::new(false);

/// From now on kernels end as soon as they begin and have done nothing: for one who asks what a library launches and has no use for results. Nothing
/// that is in memory afterwards has a meaning, and what waits for it on a network waits for ever.
pub fn skip_kernels() {
    SKIPS_KERNELS.store(true, Ordering::Relaxed);
}

/// The folder in which is kept what was found out about libraries.
static KEPT_IN: OnceLock<PathBuf> = OnceLock::new();

/// What is found out about the PTX of libraries is kept in this folder from now on, for processes that load the same ones. The folder
/// is made if there is none, and if that fails, nothing is kept.
pub fn keep_programs_in(folder: PathBuf) {
    let _ = KEPT_IN.set(folder);
}

/// The device code in a library's file, and what is kept about it.
struct DeviceCode {
    fat_binaries: Arc<FatBinaries>,
    identity: Identity,
    /// True if a change of the file after it was opened shows in its identity.
    settled: bool,
    kept: Option<KeptPrograms>,
}

impl DeviceCode {
    fn open(path: &Path) -> Result<Self, FatbinError> {
        let opened = Source::open(path).map_err(|error| FatbinError::Open { path: path.to_owned(), error });
        let (source, metadata) = opened?;
        let identity = Identity::of(&metadata);
        let settled = identity.is_settled();
        let kept = KEPT_IN.get().and_then(|folder| kept_programs::read(folder, &identity));
        let fat_binaries = match &kept {
            Some(kept) => FatBinaries::of_entries(source, kept.units.iter().map(|unit| unit.entry.clone()).collect()),
            None => FatBinaries::of_source(source)?,
        };
        Ok(Self { fat_binaries: Arc::new(fat_binaries), identity, settled, kept })
    }
}

/// A library's programs. Those of the device linker have many units, and whole ones have one each.
struct Programs {
    /// Whose they are, for messages.
    of: String,
    executables: Vec<Arc<Executable>>,
    /// The program of each kernel.
    of_kernel: HashMap<String, usize>,
    /// What is kept about kernels, so that nothing has to be read for it.
    kept_kernels: HashMap<String, Attributes>,
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
    // SAFETY: as the caller says.
    let (attached, code) = unsafe { attach_with_code(path, not_supported)? };
    let programs = Arc::new(Programs::of_library(path, &code, &attached, options)?);
    machine()?.programs.lock().unwrap_or_else(PoisonError::into_inner).push(programs.clone());
    let (of, known) = (attached.clone(), programs.clone());
    api::add_kernels(Box::new(move |address| {
        // Some kernels exist as machine code alone. They are known, and refused when they are launched.
        let name = of.kernel_of(address.addr())?;
        Some((known.clone() as Arc<dyn Kernels>, name.to_owned()))
    }));
    Ok(Library { attached, programs })
}

/// The same, but the PTX is read only when a kernel is asked for that the library has not registered: those that it registers from now
/// on are read from memory ([`load_registered`]).
///
/// # Errors
///
/// As for [`load`], as far as the PTX's text does not have to be read.
///
/// # Safety
///
/// As for [`load`].
pub unsafe fn load_when_needed(path: &Path, options: Options, not_supported: Report) -> Result<(), LibraryError> {
    // SAFETY: as the caller says.
    let (attached, code) = unsafe { attach_with_code(path, not_supported)? };
    if code.fat_binaries.ptx().next().is_none() {
        return Err(LibraryError::NoPtx);
    }
    let (path, programs) = (path.to_owned(), OnceLock::<Arc<dyn Kernels>>::new());
    api::add_kernels(Box::new(move |address| {
        let name = attached.kernel_of(address.addr())?;
        let read = || kernels_or_reason(Programs::of_library(&path, &code, &attached, options));
        Some((programs.get_or_init(read).clone(), name.to_owned()))
    }));
    Ok(())
}

/// Redirects a library's calls of the runtime, and reads the headers of its device code.
///
/// # Safety
///
/// As for [`load`].
unsafe fn attach_with_code(path: &Path, not_supported: Report) -> Result<(Arc<Attached>, DeviceCode), LibraryError> {
    let runtime = runtime_functions(path)?;
    let code = DeviceCode::open(path)?;
    // Not before it is known that there is code to run: a program may still fork, and its child would lack the machine's threads.
    machine()?;
    // SAFETY: as the caller says.
    Ok((Arc::new(unsafe { redirect(path, &runtime, not_supported)? }), code))
}

/// What a program is found to have instead of kernels.
struct Unreadable(String);

impl Kernels for Unreadable {
    fn attributes(&self, _: &str) -> Option<Attributes> {
        None
    }
    fn parameters(&self, _: &str) -> Option<Vec<(usize, usize)>> {
        None
    }
    fn launch(
        &self,
        _: usize,
        _: &str,
        _: &Configuration,
        _: &[u8],
        ended: Box<dyn FnOnce(Result<(), String>) + Send>,
    ) {
        ended(Err(self.0.clone()));
    }
    fn variable(&self, _: usize, _: &str) -> Option<(u64, u64)> {
        None
    }
    fn lacks(&self, _: &str) -> String {
        self.0.clone()
    }
}

fn kernels_or_reason(programs: Result<Programs, LibraryError>) -> Arc<dyn Kernels> {
    match programs {
        Ok(programs) => Arc::new(programs),
        Err(error) => Arc::new(Unreadable(error.to_string())),
    }
}

/// Makes the kernels work that programs register.
pub fn load_registered(options: Options) {
    api::load_registered_with(Box::new(move |wrapper| {
        let of = loaded_from(wrapper);
        let programs = registered(wrapper, &of, options);
        match programs {
            Ok(programs) => Arc::new(programs),
            Err(error) => Arc::new(Unreadable(format!("{error} (in {of})"))),
        }
    }));
}

fn registered(wrapper: usize, of: &str, options: Options) -> Result<Programs, LibraryError> {
    machine()?;
    // SAFETY: the loader keeps the library as long as its code, which asks for a kernel, runs.
    let registered = unsafe { of_wrapper(wrapper)? };
    let section = if registered.linked { Section::Linked } else { Section::Whole };
    let (mut texts, mut machine_code) = (Vec::new(), BTreeSet::new());
    for (address, bytes) in registered.units {
        let fat_binary = FatBinaries::from_fat_binary(bytes)?;
        let code = fat_binary.entries().iter().filter(|entry| entry.kind == Kind::Elf);
        machine_code.extend(code.map(|entry| entry.architecture));
        for ptx in fat_binary.ptx() {
            let name = Some(ptx.entry().name.clone()).filter(|name| !name.is_empty());
            let name = name.unwrap_or_else(|| format!("fat binary at {address:#x} in {of}"));
            texts.push((section, address as u64, name, ptx.text()));
        }
    }
    if texts.is_empty() {
        let architectures = machine_code.iter().map(|architecture| format!("sm_{architecture}")).collect();
        return Err(LibraryError::MachineCode { architectures });
    }
    let linked = [texts.iter().map(|text| text.1).collect()];
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    Programs::new(of.to_owned(), texts, &linked, options, threads).map(|(programs, _)| programs)
}

/// The file that was loaded at an address, for messages.
fn loaded_from(address: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let holds = |line: &&str| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        range.is_some_and(|(start, end)| (number(start)..number(end)).contains(&address))
    };
    let file = maps.lines().find(holds).and_then(|line| line.find('/').map(|at| line[at..].to_owned()));
    file.unwrap_or_else(|| "the program".to_owned())
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

/// True for NCCL by its name, which every package gives it.
fn is_nccl(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libnccl.so"))
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
    let answers = Answers {
        function: &|name| functions.get(name).copied(),
        imports: &imports::functions(is_nccl(path)),
        not_supported,
    };
    // SAFETY: as the caller says; the functions are the runtime's, and exist as long as the process.
    unsafe { attach(path, answers) }
}

/// Makes the driver's modules work: their kernels are executed from their PTX, too.
pub fn load_modules(options: Options) {
    api::load_modules_with(Box::new(move |text| {
        machine().map_err(|error| error.to_string())?;
        let text = (Section::Whole, 0, "module".to_owned(), Ok(text.into_bytes()));
        Programs::new("the module".to_owned(), vec![text], &[], options, 1)
            .map(|(kernels, _)| Arc::new(kernels) as _)
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

/// A unit's name in messages.
fn name_of(unit: &Entry) -> String {
    if unit.name.is_empty() { format!("fat binary at {:#x}", unit.fat_binary) } else { unit.name.clone() }
}

/// A unit's section and fat binary, its name, and its text.
type Text = (Section, u64, String, Result<Vec<u8>, FatbinError>);

impl Programs {
    /// Those of a library's file.
    fn of_library(path: &Path, code: &DeviceCode, attached: &Attached, options: Options) -> Result<Self, LibraryError> {
        let of = path.display().to_string();
        let mut fat_binaries = code.fat_binaries.clone();
        if let Some(kept) = &code.kept {
            if let Some(programs) = Self::of_kept(&of, code, kept, options) {
                return Ok(programs);
            }
            fat_binaries = Arc::new(FatBinaries::open(path)?);
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let read = fat_binaries.map_ptx(threads, |ptx, text| {
            let hash = text.as_deref().map_or(0, kept_programs::hash);
            (KeptUnit { entry: ptx.entry().clone(), hash }, text)
        });
        let (units, texts): (Vec<_>, Vec<_>) = read
            .into_iter()
            .map(|(unit, text)| {
                let Entry { section, fat_binary, .. } = unit.entry;
                let text = (section, fat_binary, name_of(&unit.entry), text);
                (unit, text)
            })
            .unzip();
        let (programs, numbers) = Self::new(of, texts, attached.linked_programs(), options, threads)?;
        if let Some(folder) = KEPT_IN.get().filter(|_| code.settled)
            && let Some(kept) = programs.to_keep(units, numbers)
        {
            // Without room for it the next process reads the PTX as well.
            let _ = kept_programs::write(folder, fat_binaries.source(), &code.identity, &kept);
        }
        Ok(programs)
    }

    /// Those of a library's file about which this is kept; `None` if it does not hold together.
    fn of_kept(of: &str, code: &DeviceCode, kept: &KeptPrograms, options: Options) -> Option<Self> {
        let unit = |number: &u32| {
            let KeptUnit { entry, hash } = kept.units.get(*number as usize)?.clone();
            let (fat_binaries, identity) = (code.fat_binaries.clone(), code.identity);
            Some(Unit::when_needed(&name_of(&entry), move || {
                let text = fat_binaries.text_of(&entry).map_err(|error| error.to_string())?;
                match kept_programs::hash(&text) == hash {
                    true => Ok(text),
                    false => {
                        // So that the next process reads all of it.
                        KEPT_IN.get().into_iter().for_each(|folder| kept_programs::forget(folder, &identity));
                        Err("the library's file was changed while it was used".to_owned())
                    }
                }
            }))
        };
        let program = |kept: &KeptProgram| {
            Program::of_linked(kept.units.iter().map(unit).collect::<Option<_>>()?, kept.linked.clone())
        };
        let programs = kept.programs.iter().map(program).collect::<Option<Vec<_>>>()?;
        let attributes = |kernel: &KeptKernel| {
            let shared = usize::try_from(kernel.shared).ok()?;
            Some((kernel.name.clone(), attributes_of(shared, kernel.most_threads)))
        };
        let kept_kernels = kept.kernels.iter().map(attributes).collect::<Option<_>>()?;
        Some(Self { kept_kernels, ..Self::of_programs(of.to_owned(), programs, options) })
    }

    /// What to keep about them; `None` if something in them cannot be read, which is then for every process to find.
    fn to_keep(&self, units: Vec<KeptUnit>, numbers: Vec<Vec<u32>>) -> Option<KeptPrograms> {
        let program = |(executable, units): (&Arc<Executable>, Vec<u32>)| {
            Some(KeptProgram { units, linked: executable.program().linked().ok()? })
        };
        let kernel = |name: &String| {
            let Attributes { shared, most_threads, .. } = self.attributes(name)?;
            Some(KeptKernel { name: name.clone(), shared: shared as u64, most_threads })
        };
        Some(KeptPrograms {
            units,
            programs: self.executables.iter().zip(numbers).map(program).collect::<Option<_>>()?,
            kernels: self.of_kernel.keys().map(kernel).collect::<Option<_>>()?,
        })
    }

    /// Those of these texts, and for each program the numbers of its units.
    fn new(
        of: String,
        texts: Vec<Text>,
        linked: &[Vec<u64>],
        options: Options,
        threads: usize,
    ) -> Result<(Self, Vec<Vec<u32>>), LibraryError> {
        let mut groups: Vec<Vec<(u32, Unit)>> = linked.iter().map(|_| Vec::new()).collect();
        for (number, (section, fat_binary, name, text)) in (0..).zip(texts) {
            let unit = (number, Unit::new(&name, text?)?);
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
        let (mut programs, mut numbers) = (Vec::new(), Vec::new());
        for units in groups {
            let (of_program, units): (Vec<u32>, Vec<Unit>) = units.into_iter().unzip();
            programs.push(Program::link(units, threads)?);
            numbers.push(of_program);
        }
        Ok((Self::of_programs(of, programs, options), numbers))
    }

    fn of_programs(of: String, programs: Vec<Program>, options: Options) -> Self {
        let (mut executables, mut of_kernel) = (Vec::new(), HashMap::new());
        for program in programs.into_iter().map(Arc::new) {
            for kernel in program.kernels() {
                of_kernel.entry(kernel.to_owned()).or_insert(executables.len());
            }
            executables.push(Executable::new(program, options));
        }
        Self { of, executables, of_kernel, kept_kernels: HashMap::new(), images: Mutex::default() }
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

/// Writes what kernels have printed where C's `printf` does, so that it keeps its place in what the program prints.
fn print(text: &[u8]) {
    if let (false, Ok(len)) = (text.is_empty(), std::ffi::c_int::try_from(text.len())) {
        // SAFETY: the format takes a length and so many bytes.
        unsafe { libc::printf(c"%.*s".as_ptr(), len, text.as_ptr()) };
    }
}

/// The number that a GPU's compiler would have needed is unknown; NCCL does not base decisions on it.
const REGISTERS: u32 = 96;
/// Limit on the threads of a block if its kernel does not declare one.
const MOST_THREADS: u32 = 1024;

fn attributes_of(shared: usize, most_threads: u32) -> Attributes {
    Attributes { shared, constant: 0, local: 0, most_threads, registers: REGISTERS }
}

impl Kernels for Programs {
    fn attributes(&self, kernel: &str) -> Option<Attributes> {
        if let Some(kept) = self.kept_kernels.get(kernel) {
            return Some(*kept);
        }
        // NCCL passes over kernels that it has no code for, as on a GPU that it was not compiled for.
        let (_, executable) = self.executable(kernel)?;
        let program = executable.program();
        let id = program.kernel(kernel)?;
        let signature = program.signature(id).ok()?;
        let bound = |sizes: [u32; 3]| sizes.iter().fold(1u32, |all, size| all.saturating_mul(*size));
        let most_threads = signature.bounds.most_threads.map_or(MOST_THREADS, bound).min(MOST_THREADS);
        let shared = usize::try_from(executable.static_shared(id).ok()?).ok()?;
        Some(attributes_of(shared, most_threads))
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
        if SKIPS_KERNELS.load(Ordering::Relaxed) {
            return ended(Ok(()));
        }
        let image = self.executable(kernel).and_then(|(program, _)| self.image(device, program));
        let (Some(image), Ok(machine)) = (image, machine()) else {
            return ended(Err(self.lacks(kernel)));
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
                    print(&machine.memory.take_printed());
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

    fn lacks(&self, _: &str) -> String {
        format!("there is no PTX of it in {}", self.of)
    }
}
