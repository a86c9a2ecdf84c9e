//! NVIDIA's libraries, unchanged: COLLSPEC_TEST_NCCL_LIBRARIES names a folder with VERSION/libnccl.so.2.
use gpuless_cuda::attach::{Answers, Attached, attach};
use gpuless_cuda::fatbin::{FatBinaries, Section};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use ptx::code::{BinaryOp, Body, Op, Operation, contract};
use ptx::module::{Function, Type};
use ptx::text::{DefinitionKind, Index, Unit};
use std::collections::HashSet;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The libraries by version. Empty, with the reason on stderr, where none are named.
fn libraries() -> Vec<(String, PathBuf)> {
    let Some(folder) = std::env::var_os("COLLSPEC_TEST_NCCL_LIBRARIES") else {
        eprintln!("skipped: COLLSPEC_TEST_NCCL_LIBRARIES does not name a folder with VERSION/libnccl.so.2");
        return Vec::new();
    };
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: functions are replaced on x86-64 only");
        return Vec::new();
    }
    let folders = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let library =
        |folder: PathBuf| (folder.file_name().unwrap().to_string_lossy().into_owned(), folder.join("libnccl.so.2"));
    let mut libraries: Vec<_> = folders.map(library).filter(|library| library.1.is_file()).collect();
    libraries.sort();
    assert!(!libraries.is_empty(), "the folder has no library");
    libraries
}

/// The names of all kernels in a library's PTX.
fn kernels(path: &Path) -> Vec<String> {
    let binaries = FatBinaries::open(path).unwrap();
    let names = binaries.map_ptx(2, |_, text| {
        let unit = Unit::new("unit", text.unwrap()).unwrap();
        let index = Index::of(&unit).unwrap();
        let kernels =
            index.definitions.iter().filter(|found| found.kind == DefinitionKind::Kernel && found.body.is_some());
        kernels.map(|kernel| unit.text()[kernel.name.clone()].to_owned()).collect::<Vec<_>>()
    });
    names.concat()
}

/// Calls of the functions below.
static ANSWERED: AtomicUsize = AtomicUsize::new(0);

/// Answers `cudaGetDevice` and `cudaGetDeviceCount`: device 0, and no devices.
extern "C" fn zero(number: &mut c_int) -> c_int {
    ANSWERED.fetch_add(1, Ordering::Relaxed);
    *number = 0;
    0
}

/// Like libc's, but leaves memory mapped.
extern "C" fn munmap(_address: *mut c_void, _size: usize) -> c_int {
    0
}

type Calls = Arc<Mutex<Vec<String>>>;

fn attach_to(path: &Path) -> (Attached, Calls) {
    let calls = Calls::default();
    let told = Arc::clone(&calls);
    let answers = Answers {
        function: &|name| ["cudaGetDevice", "cudaGetDeviceCount"].contains(&name).then_some(zero as *const ()),
        imports: &[("munmap", munmap as *const ())],
        not_supported: Box::new(move |name, first| told.lock().unwrap().extend(first.then(|| name.to_owned()))),
    };
    // SAFETY: no other thread uses the library, and the functions are as CUDA declares it.
    (unsafe { attach(path, answers) }.unwrap(), calls)
}

#[test]
fn every_version_is_attached_and_its_kernels_are_known() {
    for (version, path) in libraries() {
        // It stays loaded: NCCL leaves threads running, which execute its code.
        // SAFETY: NCCL's constructors register its fat binaries and nothing else.
        let library = ManuallyDrop::new(unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) }.unwrap());
        let begin = std::time::Instant::now();
        let (attached, calls) = attach_to(&path);
        let time = begin.elapsed();
        assert_eq!(attached.answered(), 2);
        assert!(attached.not_supported().len() > 380, "{}", attached.not_supported().len());

        let functions: HashSet<&str> = attached.functions().map(|function| function.1).collect();
        let kernels = kernels(&path);
        let unknown: Vec<_> = kernels.iter().filter(|kernel| !functions.contains(kernel.as_str())).collect();
        assert!(
            kernels.len() > 40 && unknown.is_empty(),
            "{} kernels, without a host stub: {unknown:?}",
            kernels.len()
        );
        let known: HashSet<&str> = kernels.iter().map(String::as_str).collect();
        let stubs: Vec<&str> =
            attached.functions().map(|function| function.1).filter(|name| known.contains(name)).collect();
        assert_eq!(stubs.len(), known.len(), "a kernel has two host stubs");

        // Every unit for the device linker belongs to one program.
        let binaries = FatBinaries::open(&path).unwrap();
        let units = binaries.ptx().map(|unit| unit.entry()).filter(|entry| entry.section == Section::Linked);
        let units: Vec<u64> = units.map(|entry| entry.fat_binary).collect();
        let mut linked = attached.linked_programs().concat();
        linked.sort_unstable();
        assert!(!units.is_empty() && linked == units, "{} of {} units", linked.len(), units.len());
        let sizes: Vec<usize> = attached.linked_programs().iter().map(Vec::len).collect();

        // Making communicators asks for the device, and for functions that are not there.
        let before = ANSWERED.load(Ordering::Relaxed);
        // SAFETY: as nccl.h declares it.
        let init =
            unsafe { library.get::<extern "C" fn(*mut *mut c_void, c_int, *const c_int) -> c_int>(b"ncclCommInitAll") };
        let mut communicators = [std::ptr::null_mut(); 2];
        let result = init.unwrap()(communicators.as_mut_ptr(), 2, std::ptr::null());
        assert_ne!(result, 0);
        let called = calls.lock().unwrap().clone();
        let asked = ANSWERED.load(Ordering::Relaxed) - before;
        eprintln!(
            "{version}: attached in {time:?}, {} functions not supported, {} kernels, units of linked programs {sizes:?}; ncclCommInitAll answers {result} after \
             {asked} calls of what is there, and asks for {called:?}",
            attached.not_supported().len(),
            kernels.len()
        );
        assert!(asked > 0 && !called.is_empty() && called.iter().all(|name| attached.not_supported().contains(name)));
    }
}

/// Additions and products of half precision in a function, and how many pairs of them are fused.
fn half_precision(units: &[Unit], name: &str) -> Option<(usize, usize, usize)> {
    let found = units.iter().find_map(|unit| {
        let index = Index::of(unit).unwrap();
        let found = index
            .definitions
            .iter()
            .find(|found| found.body.is_some() && &unit.text()[found.name.clone()] == name)
            .cloned();
        found.map(|found| (unit, found))
    });
    let (unit, definition) = found?;
    let mut body = Body::of(unit, &Function::of(unit, &definition).unwrap());
    let fused = contract(&mut body);
    let count = |wanted: fn(BinaryOp) -> bool| {
        let is = |operation: &&Operation| matches!(operation.op, Op::Binary { op, ty: Type::F16 | Type::F16x2, .. } if wanted(op));
        body.operations.iter().filter(is).count()
    };
    Some((fused, count(|op| op == BinaryOp::Add), count(|op| matches!(op, BinaryOp::Mul(_)))))
}

/// The counts of HFMA2, HADD2 and HMUL2 in the library's machine code for compute capability 9.0, as nvdisasm prints it: ptxas fuses
/// everything it can in ring LL and ring Simple, and nothing in ring LL128, where product and sum are in different blocks.
#[test]
fn contraction_gives_the_instruction_counts_of_the_machine_code() {
    for (version, path) in libraries().into_iter().filter(|(version, _)| version == "2.27.5") {
        let binaries = FatBinaries::open(&path).unwrap();
        let units = binaries.map_ptx(2, |_, text| Unit::new("unit", text.unwrap()).unwrap());
        let counts = |protocol: &str| {
            let name = format!("ncclDevFunc_AllReduce_PreMulSum_f16_RING_{protocol}");
            half_precision(&units, &format!("_Z{}{name}v", name.len())).unwrap()
        };
        assert_eq!(counts("SIMPLE"), (159, 0, 53), "{version}");
        assert_eq!(counts("LL"), (4, 0, 2), "{version}");
        assert_eq!(counts("LL128").0, 0, "{version}");
    }
}
