//! The programs that a library's PTX makes: read from its file, or known from what an earlier process has kept about it, and launched
//! as kernels.
#![allow(unsafe_code)] // what kernels print goes to C's `printf`

use crate::api::{Attributes, Configuration, Kernels};
use crate::attach::Attached;
use crate::counts;
use crate::elf::Source;
use crate::fatbin::{Entry, FatBinaries, FatbinError, Section};
use crate::file_identity::FileIdentity;
use crate::kept_programs::{self, KeptKernel, KeptProgram, KeptPrograms, KeptUnit};
use crate::library_error::LibraryError;
use crate::machine::{machine, skips_kernels};
use ptx::link::Program;
use ptx::run::{self, Executable, Image, Launch, Options};
use ptx::text::Unit;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The folder in which is kept what was found out about libraries.
static KEPT_IN: OnceLock<PathBuf> = OnceLock::new();

/// What is found out about the PTX of libraries is kept in this folder from now on, for processes that load the same ones. The folder
/// is made if there is none, and if that fails, nothing is kept.
pub fn keep_programs_in(folder: PathBuf) {
    let _ = KEPT_IN.set(folder);
}

/// The device code in a library's file, and what is kept about it.
pub(crate) struct DeviceCode {
    pub(crate) fat_binaries: Arc<FatBinaries>,
    identity: FileIdentity,
    /// True if a change of the file after it was opened shows in its identity.
    settled: bool,
    kept: Option<KeptPrograms>,
}

impl DeviceCode {
    pub(crate) fn open(path: &Path) -> Result<Self, FatbinError> {
        let opened = Source::open(path).map_err(|error| FatbinError::Open { path: path.to_owned(), error });
        let (source, metadata) = opened?;
        let identity = FileIdentity::of(&metadata);
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
pub(crate) struct Programs {
    /// Whose they are, for messages.
    of: String,
    pub(crate) executables: Vec<Arc<Executable>>,
    /// The program of each kernel.
    pub(crate) of_kernel: HashMap<String, usize>,
    /// What is kept about kernels, so that nothing has to be read for it.
    kept_kernels: HashMap<String, Attributes>,
    /// The images by device and program.
    images: Mutex<HashMap<(usize, usize), Arc<Image>>>,
}

/// What a program is found to have instead of kernels.
pub(crate) struct Unreadable(pub(crate) String);

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

pub(crate) fn kernels_or_reason(programs: Result<Programs, LibraryError>) -> Arc<dyn Kernels> {
    match programs {
        Ok(programs) => Arc::new(programs),
        Err(error) => Arc::new(Unreadable(error.to_string())),
    }
}

/// A unit's name in messages.
fn name_of(unit: &Entry) -> String {
    if unit.name.is_empty() { format!("fat binary at {:#x}", unit.fat_binary) } else { unit.name.clone() }
}

/// A unit's section and fat binary, its name, and its text.
pub(crate) type Text = (Section, u64, String, Result<Vec<u8>, FatbinError>);

impl Programs {
    /// Those of a library's file.
    pub(crate) fn of_library(
        path: &Path,
        code: &DeviceCode,
        attached: &Attached,
        options: Options,
    ) -> Result<Self, LibraryError> {
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
    pub(crate) fn new(
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
        // SAFETY: the format takes a length and a pointer to that many bytes.
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
        if skips_kernels() {
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
