//! Attaching to a loaded library: its calls of the CUDA runtime are redirected to this crate.
//!
//! NCCL has NVIDIA's runtime linked in, so there is no library that could be replaced. But the file's `.symtab` gives the addresses
//! of the runtime's functions, and once the library is loaded, a jump is written at each one's entry. Functions without an answer
//! get a jump to code that returns `cudaErrorNotSupported`. From then on nothing of NVIDIA's runtime runs, except what it does
//! when the library is unloaded; it has not opened a driver.
//!
//! [`attach`] checks everything before it writes: it does all of it or nothing. Jumps stay for the life of the process.
#![allow(unsafe_code)] // code of another library is replaced, and the caller vouches for it

mod error;
mod loaded;
mod memory;
mod names;
mod programs;
mod stubs;
mod symbols;

pub use error::AttachError;
#[cfg(test)]
pub(crate) use memory::executable;
pub(crate) use programs::of_wrapper;
pub use stubs::Report;

use crate::elf::{Segment, Source};
use loaded::{Loaded, Mapping};
use memory::{Change, Plan};
use names::Kernels;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use stubs::JUMP;
use symbols::Function;

/// Held from checking to changing, so that what was checked does not change in between.
static CHANGING: Mutex<()> = Mutex::new(());

/// The functions that replace those of the runtime.
pub struct Answers<'a> {
    /// The function for a name, such as `cudaMalloc` or `cudaMemcpyAsync_ptsz`, if there is one.
    pub function: &'a dyn Fn(&str) -> Option<*const ()>,
    /// Functions for the library to call in place of those that it imports, such as `munmap`. Names that it does not import are skipped.
    pub imports: &'a [(&'a str, *const ())],
    /// Called when the library uses a function without an answer.
    pub not_supported: Report,
}

/// A library whose calls of the CUDA runtime are redirected to the given functions.
#[derive(Debug)]
pub struct Attached {
    kernels: Kernels,
    answered: usize,
    not_supported: Vec<String>,
    programs: Vec<Vec<u64>>,
}

/// Replaces the CUDA runtime in a library that is loaded from this file: completely or, with an error, not at all.
///
/// # Errors
///
/// The file is not a library of this machine, not loaded or not as it was loaded, has no symbols or no runtime, or its memory
/// cannot be changed.
///
/// # Safety
///
/// - No thread is in a function of the library's runtime or enters one during the call, and the library is not unloaded during it.
/// - Each function that [`Answers::function`] gives takes and returns the same as the runtime's function of that name, and exists
///   as long as the library; each of [`Answers::imports`] does the same as the imported function of its name.
pub unsafe fn attach(path: &Path, answers: Answers<'_>) -> Result<Attached, AttachError> {
    if !cfg!(all(target_arch = "x86_64", target_pointer_width = "64")) {
        return Err(AttachError::NotOnThisMachine);
    }
    let open = |error| AttachError::Open { path: path.to_owned(), error };
    let (source, file) = Source::open(path).map_err(open)?;
    let library = symbols::read(&source)?;
    let runtime: Vec<&Function> =
        library.functions.iter().filter(|function| names::is_runtime(&function.name)).collect();
    if runtime.is_empty() {
        return Err(AttachError::NoRuntime { imported: library.undefined.iter().any(|name| names::is_runtime(name)) });
    }
    let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let loaded = loaded::find(&file).ok_or(AttachError::NotLoaded)?;
    if loaded.segments != library.segments {
        return Err(AttachError::Changed("what is mapped".into()));
    }
    let mappings = loaded::mappings().map_err(AttachError::Maps)?;
    for function in &runtime {
        // SAFETY: the library stays loaded, so that the mappings stay.
        unsafe { check(function, &source, &loaded, &mappings)? };
    }
    // SAFETY: as above.
    let programs = library
        .device_code
        .map(|(wrappers, units)| unsafe { programs::read(wrappers, units, loaded.base, &mappings) })
        .transpose()?;
    let targets = targets(&runtime, answers.function)?;
    let named = |wanted: bool| targets.values().filter(move |target| target.1.is_some() == wanted);
    let missing: Vec<&str> = named(false).map(|target| target.0.name.as_str()).collect();
    let stubs = stubs::make(&missing, answers.not_supported).map_err(AttachError::Stubs)?;
    let mut stubs = stubs.into_iter();
    let jump = |(address, (_, target)): (&u64, &(&Function, Option<usize>))| {
        let target = target.or_else(|| stubs.next())?;
        Some(Change { address: loaded.base + *address as usize, bytes: stubs::jump(target).to_vec() })
    };
    let slot = |(name, address): &(String, u64)| {
        let (_, function) = answers.imports.iter().find(|(import, _)| import == name)?;
        let bytes = (*function as u64).to_ne_bytes().to_vec();
        Some(Change { address: loaded.base.wrapping_add(*address as usize), bytes })
    };
    let changes: Vec<Change> = targets.iter().filter_map(jump).chain(library.slots.iter().filter_map(slot)).collect();
    // SAFETY: the caller promises that no thread runs the code, and that the library stays.
    unsafe { Plan::new(&changes, &mappings)?.make()? };
    let functions = library.functions.iter().filter(|function| !names::is_runtime(&function.name));
    let functions =
        functions.map(|function| (loaded.base.wrapping_add(function.address as usize), function.name.as_str()));
    Ok(Attached {
        kernels: Kernels::new(functions),
        answered: named(true).count(),
        not_supported: missing.into_iter().map(str::to_owned).collect(),
        programs: programs.unwrap_or_default(),
    })
}

/// The names of the runtime's functions in a library's file; they tell the runtime's version.
///
/// # Errors
///
/// The file is not a library of this machine, or has no symbols or no runtime.
pub fn runtime_functions(path: &Path) -> Result<Vec<String>, AttachError> {
    let open = |error| AttachError::Open { path: path.to_owned(), error };
    let (source, _file) = Source::open(path).map_err(open)?;
    let library = symbols::read(&source)?;
    let names = library.functions.into_iter().map(|function| function.name);
    let names: Vec<String> = names.filter(|name| names::is_runtime(name)).collect();
    if names.is_empty() {
        return Err(AttachError::NoRuntime { imported: library.undefined.iter().any(|name| names::is_runtime(name)) });
    }
    Ok(names)
}

/// Refuses a function whose entry cannot be replaced.
///
/// # Safety
///
/// The mappings are those of now.
unsafe fn check(
    function: &Function,
    source: &Source,
    loaded: &Loaded,
    mappings: &[Mapping],
) -> Result<(), AttachError> {
    let short = |room| AttachError::TooShort { function: function.name.clone(), room, needed: JUMP };
    if function.room < JUMP as u64 {
        return Err(short(function.room as usize));
    }
    let place = place_in_file(function.address, &loaded.segments);
    let place = place.ok_or_else(|| AttachError::NotALibrary(format!("{} is not in its code", function.name)))?;
    let (mut file, mut memory) = ([0; JUMP], [0; JUMP]);
    source.read_at(place, &mut file).map_err(|error| AttachError::NotALibrary(error.to_string()))?;
    // A function that is shorter than a jump is followed by bytes that are never executed.
    let own = function.size.min(JUMP as u64) as usize;
    if !stubs::is_padding(&file[own..]) {
        return Err(short(own));
    }
    let address = loaded.base + function.address as usize;
    // SAFETY: the caller promises it.
    unsafe { memory::read_mapped(address, &mut memory, mappings)? };
    match memory == file {
        true => Ok(()),
        false if stubs::is_jump(&memory) => Err(AttachError::AlreadyAttached),
        false => Err(AttachError::Changed(function.name.clone())),
    }
}

/// The position of an entry's bytes in the file.
fn place_in_file(address: u64, segments: &[Segment]) -> Option<u64> {
    let end = address.checked_add(JUMP as u64)?;
    let holds =
        |segment: &&Segment| segment.address <= address && end <= segment.address.saturating_add(segment.file_size);
    let segment = segments.iter().find(holds)?;
    segment.offset.checked_add(address - segment.address)
}

/// The target for each function, by address. All names of one function have the same answer.
fn targets<'a>(
    runtime: &[&'a Function],
    answer: &dyn Fn(&str) -> Option<*const ()>,
) -> Result<BTreeMap<u64, (&'a Function, Option<usize>)>, AttachError> {
    let mut targets: BTreeMap<u64, (&Function, Option<usize>)> = BTreeMap::new();
    for function in runtime {
        let target = answer(&function.name).filter(|target| !target.is_null()).map(|target| target as usize);
        match targets.entry(function.address) {
            Entry::Vacant(entry) => drop(entry.insert((function, target))),
            Entry::Occupied(mut entry) => match (entry.get().1, target) {
                (Some(one), Some(other)) if one != other => {
                    let (first, second) = (entry.get().0.name.clone(), function.name.clone());
                    return Err(AttachError::TwoAnswers { first, second });
                }
                (None, Some(_)) => drop(entry.insert((function, target))),
                _ => {}
            },
        }
    }
    Ok(targets)
}

impl Attached {
    /// The name in PTX of the kernel whose host stub is at this address. The CUDA runtime knows kernels by these addresses.
    ///
    /// Any function's address gives a name; whether it is a kernel's, the PTX says. The name of a kernel that is `static` without
    /// being in an unnamed namespace is the host's, which in PTX follows the id of its unit.
    pub fn kernel_of(&self, address: usize) -> Option<&str> {
        self.kernels.at(address)
    }

    /// The library's functions other than the runtime's: addresses, and names as [`Attached::kernel_of`] gives them, by address.
    pub fn functions(&self) -> impl Iterator<Item = (usize, &str)> {
        self.kernels.all()
    }

    /// Number of functions of the runtime that have an answer.
    pub fn answered(&self) -> usize {
        self.answered
    }

    /// The functions of the runtime that answer `cudaErrorNotSupported`.
    pub fn not_supported(&self) -> &[String] {
        &self.not_supported
    }

    /// The programs that the device linker made: for each, its units' fat binaries, by
    /// [`Entry::fat_binary`](crate::fatbin::Entry::fat_binary) in [`Section::Linked`](crate::fatbin::Section::Linked).
    pub fn linked_programs(&self) -> &[Vec<u64>] {
        &self.programs
    }
}
