//! Libraries on software GPUs: their calls of the runtime are redirected to [`api`], and their kernels are executed from their PTX.
#![allow(unsafe_code)] // a library's code is replaced

use crate::api::{self, Kernels, Runtime};
use crate::attach::{Answers, AttachError, Attached, Report, attach, of_wrapper, runtime_functions};
use crate::fatbin::{FatBinaries, Kind, Section};
use crate::imports;
use crate::machine::{add_executables, machine};
use crate::programs::{DeviceCode, Programs, Unreadable, kernels_or_reason};
use ptx::run::Options;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use crate::library_error::LibraryError;
pub use crate::machine::{schedule, schedule_when_needed, skip_kernels, standing, turns_before_standstill, writers};
pub use crate::programs::keep_programs_in;

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
    add_executables(&programs.executables)?;
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
