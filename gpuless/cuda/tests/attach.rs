//! Tests on libraries compiled here: their functions are replaced, or they are refused and left unchanged.
mod support;

use gpuless_cuda::attach::{Answers, AttachError, Attached, attach};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A library for one test.
struct Fake {
    path: PathBuf,
    _folder: TempDir,
}

impl Fake {
    /// Compiles the library. `None`, with the reason on stderr, where there is no compiler.
    fn compile(arguments: &[&str]) -> Option<Self> {
        if !cfg!(target_arch = "x86_64") {
            eprintln!("skipped: functions are replaced on x86-64 only");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("libfake.so");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/fake.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&path).args(arguments).arg(source);
        match compiler.status() {
            Err(error) => {
                eprintln!("skipped: no C compiler (cc: {error})");
                None
            }
            Ok(status) => {
                assert!(status.success(), "cc {arguments:?}");
                Some(Self { path, _folder: folder })
            }
        }
    }

    fn load(&self) -> Library {
        // SAFETY: the library does nothing when it is loaded.
        unsafe { Library::open(Some(&self.path), RTLD_NOW | RTLD_LOCAL) }.unwrap()
    }
}

/// Calls of functions that are not there: names, and whether it was the first.
type Calls = Arc<Mutex<Vec<(String, bool)>>>;

/// Replaces the runtime by these functions.
fn replace(path: &Path, functions: &[(&str, *const ())]) -> Result<(Attached, Calls), AttachError> {
    replace_with(path, functions, &[])
}

/// The same, and functions that it imports by others.
fn replace_with(
    path: &Path,
    functions: &[(&str, *const ())],
    imports: &[(&str, *const ())],
) -> Result<(Attached, Calls), AttachError> {
    let calls = Calls::default();
    let told = Arc::clone(&calls);
    let answers = Answers {
        function: &|name| functions.iter().find(|function| function.0 == name).map(|function| function.1),
        imports,
        not_supported: Box::new(move |name, first| told.lock().unwrap().push((name.to_owned(), first))),
    };
    // SAFETY: no other thread uses the library, and the functions are those that its C code declares.
    unsafe { attach(path, answers) }.map(|attached| (attached, calls))
}

extern "C" fn malloc(pointer: &mut *mut c_void, size: u64) -> c_int {
    *pointer = (size + 1) as *mut c_void;
    0
}

extern "C" fn free_one(_pointer: *mut c_void) -> c_int {
    100
}

extern "C" fn free_two(_pointer: *mut c_void) -> c_int {
    200
}

extern "C" fn getpid() -> c_int {
    -7
}

/// Calls a function of the library that takes an address and a number.
fn call(library: &Library, name: &str, number: usize) -> c_int {
    // SAFETY: the library's functions take the contents of the first registers.
    unsafe {
        let function = library.get::<extern "C" fn(usize, usize) -> c_int>(name.as_bytes()).unwrap();
        function(number, number)
    }
}

fn call_malloc(library: &Library, size: u64) -> (c_int, usize) {
    let mut pointer = std::ptr::null_mut();
    // SAFETY: as the C code declares it.
    let function = unsafe { library.get::<extern "C" fn(*mut *mut c_void, u64) -> c_int>(b"call_malloc") }.unwrap();
    (function(&raw mut pointer, size), pointer as usize)
}

/// Checks that no function was replaced.
fn is_untouched(library: &Library) {
    assert_eq!(call_malloc(library, 8), (1, 8));
    assert_eq!(call(library, "call_free", 0), 2);
    assert_eq!(call(library, "call_memcpy", 0), 4);
}

#[test]
fn calls_of_the_runtime_go_elsewhere() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let library = fake.load();
    is_untouched(&library);
    let (attached, calls) =
        replace(&fake.path, &[("cudaMalloc", malloc as *const ()), ("cudaFree", free_one as *const ())]).unwrap();
    assert_eq!(call_malloc(&library, 8), (0, 9));
    assert_eq!(call(&library, "call_free", 0), 100);
    // Functions that only begin alike are not the runtime's.
    assert_eq!(call(&library, "call_inner", 1), 8);
    assert_eq!(attached.answered(), 2);
    let mut missing = attached.not_supported().to_vec();
    missing.sort();
    assert_eq!(missing, ["__cudaUnregisterFatBinary", "cudaGetErrorString", "cudaMemcpy_ptsz"]);
    assert_eq!(*calls.lock().unwrap(), []);
}

#[test]
fn what_is_not_there_is_said_by_name() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let library = fake.load();
    let (_attached, calls) = replace(&fake.path, &[]).unwrap();
    assert_eq!([1, 2].map(|number| call(&library, "call_memcpy", number)), [801; 2]);
    assert_eq!(call_malloc(&library, 8), (801, 0));
    // SAFETY: as the C code declares it.
    let text = unsafe { library.get::<extern "C" fn(c_int) -> *const c_char>(b"call_error_string") }.unwrap();
    // SAFETY: the answer is a text.
    let text = unsafe { CStr::from_ptr(text(801)) };
    assert_eq!(text.to_str().unwrap(), "the CUDA runtime in software has no words for this");
    let expected =
        [("cudaMemcpy_ptsz", true), ("cudaMemcpy_ptsz", false), ("cudaMalloc", true), ("cudaGetErrorString", true)];
    assert_eq!(*calls.lock().unwrap(), expected.map(|(name, first)| (name.to_owned(), first)));
    // The library's destructor takes its fat binary out.
    library.close().unwrap();
    assert_eq!(calls.lock().unwrap().len(), 4);
}

#[test]
fn two_libraries_have_their_own_answers() {
    let (Some(one), Some(two)) = (Fake::compile(&[]), Fake::compile(&[])) else { return };
    let libraries = [one.load(), two.load()];
    let (_, calls) = replace(&one.path, &[("cudaFree", free_one as *const ())]).unwrap();
    let _two = replace(&two.path, &[("cudaFree", free_two as *const ())]).unwrap();
    assert_eq!([0, 1].map(|index| call(&libraries[index], "call_free", 0)), [100, 200]);
    assert_eq!([0, 1].map(|index| call(&libraries[index], "call_memcpy", 0)), [801; 2]);
    assert_eq!(calls.lock().unwrap().len(), 1);
}

#[test]
fn other_functions_run_while_the_runtime_is_replaced() {
    for _ in 0..20 {
        let Some(fake) = Fake::compile(&[]) else { return };
        let library = fake.load();
        let (begun, stop) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(call(&library, "call_inner", 1), 8);
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            replace(&fake.path, &[("cudaFree", free_one as *const ())]).unwrap();
            stop.store(true, Ordering::Relaxed);
        });
        assert_eq!(call(&library, "call_free", 0), 100);
    }
}

#[test]
fn a_host_stub_leads_to_its_kernel() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let library = fake.load();
    let (attached, _) = replace(&fake.path, &[]).unwrap();
    // SAFETY: as the C code declares it.
    let kernel = unsafe { library.get::<extern "C" fn(c_int) -> usize>(b"kernel") }.unwrap();
    assert_eq!(attached.kernel_of(kernel(0)), Some("_Z3addPf"));
    let name = "__nv_static_12__0a_4_a_cu_1__ZN23_GLOBAL__N__0a_4_a_cu_17onerankEPf";
    assert_eq!(attached.kernel_of(kernel(1)), Some(name));
    assert_eq!(attached.kernel_of(kernel(0) + 1), None);
    let functions: Vec<&str> = attached.functions().map(|function| function.1).collect();
    assert!(functions.contains(&"_Z3addPf") && functions.contains(&"__cudart7") && !functions.contains(&"cudaMalloc"));
}

#[test]
fn units_of_the_device_linker_are_told_by_program() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let _library = fake.load();
    let (attached, _) = replace(&fake.path, &[]).unwrap();
    assert_eq!(attached.linked_programs(), [vec![32, 0], vec![64]]);
}

#[test]
fn an_imported_function_is_replaced_in_every_kind_of_slot() {
    for arguments in
        [["-Wl,-z,lazy", "-fplt"], ["-Wl,-z,now", "-fplt"], ["-Wl,-z,relro,-z,now", "-fno-plt"], ["-DALIAS", "-fplt"]]
    {
        let Some(fake) = Fake::compile(&arguments) else { return };
        let library = fake.load();
        assert_eq!(call(&library, "call_getpid", 0), std::process::id() as c_int);
        // A library that cannot be attached keeps its imports.
        let imports = [("munmap", getpid as *const ()), ("getpid", getpid as *const ())];
        let own = |name: &str| std::ptr::without_provenance(name.len());
        let two = [("cudaFree", own("one")), ("cudaFree_v2", own("other"))];
        let aliases = arguments.contains(&"-DALIAS");
        assert_eq!(replace_with(&fake.path, &two, &imports).is_err(), aliases);
        assert_eq!(
            call(&library, "call_getpid", 0),
            if aliases { std::process::id() as c_int } else { -7 },
            "{arguments:?}"
        );
    }
}

#[test]
fn a_library_that_does_not_fit_is_refused_as_it_is() {
    let error = |arguments: &[&str], functions: &[(&str, *const ())]| {
        let fake = Fake::compile(arguments)?;
        let library = fake.load();
        let error = replace(&fake.path, functions).unwrap_err();
        is_untouched(&library);
        Some(error.to_string())
    };
    let Some(stripped) = error(&["-s"], &[]) else { return };
    assert!(stripped.starts_with("it is stripped: without a symbol table (.symtab)"), "{stripped}");
    assert_eq!(error(&["-DSHORT"], &[]).unwrap(), "cudaShort has room for 1 bytes, and a jump takes 13");
    assert_eq!(error(&["-DDENSE"], &[]).unwrap(), "cudaDense has room for 1 bytes, and a jump takes 13");
    let two = [("cudaFree", free_one as *const ()), ("cudaFree_v2", free_two as *const ())];
    let answers = error(&["-DALIAS"], &two).unwrap();
    assert!(answers.ends_with("are one function in it, and two different ones are to answer for them"), "{answers}");
    let none = ["cudaMalloc", "cudaFree", "cudaMemcpy_ptsz", "cudaGetErrorString", "__cudaUnregisterFatBinary"];
    let renamed = none.map(|name| format!("-D{name}=another_{name}"));
    let without = error(&renamed.each_ref().map(String::as_str), &[]).unwrap();
    assert_eq!(without, "the CUDA runtime is not linked into it");
}

#[test]
fn names_of_one_function_have_one_answer() {
    let Some(fake) = Fake::compile(&["-DALIAS"]) else { return };
    let library = fake.load();
    let (attached, _) = replace(&fake.path, &[("cudaFree_v2", free_two as *const ())]).unwrap();
    assert_eq!(call(&library, "call_free", 0), 200);
    assert!(!attached.not_supported().iter().any(|name| name.starts_with("cudaFree")));
}

#[test]
fn a_file_that_is_not_the_one_in_memory_is_refused() {
    let Some(fake) = Fake::compile(&[]) else { return };
    assert!(matches!(replace(&fake.path, &[]), Err(AttachError::NotLoaded)));
    let library = fake.load();
    let other = fake.path.with_extension("other");
    std::fs::copy(&fake.path, &other).unwrap();
    assert!(matches!(replace(&other, &[]), Err(AttachError::NotLoaded)));
    let machine = |machine: u8| {
        let mut bytes = std::fs::read(&fake.path).unwrap();
        bytes[18] = machine;
        std::fs::write(&other, bytes).unwrap();
        replace(&other, &[])
    };
    assert!(matches!(machine(183), Err(AttachError::OtherMachine(183))));
    let missing = replace(Path::new("/not/there"), &[]).unwrap_err().to_string();
    assert!(missing.starts_with("/not/there: No such file"), "{missing}");
    let device = replace(Path::new("/dev/zero"), &[]).unwrap_err().to_string();
    assert_eq!(device, "/dev/zero: it is not a regular file");
    is_untouched(&library);
    replace(&fake.path, &[]).unwrap();
    assert!(matches!(replace(&fake.path, &[]), Err(AttachError::AlreadyAttached)));
}

#[test]
fn code_that_somebody_else_changed_is_left_alone() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let library = fake.load();
    // SAFETY: the function is only looked up.
    let known = *unsafe { library.get::<extern "C" fn()>(b"call_malloc") }.unwrap() as usize as u64;
    let address = known - symbol(&fake.path, "call_malloc") + symbol(&fake.path, "cudaFree");
    let memory = std::fs::OpenOptions::new().write(true).open("/proc/self/mem").unwrap();
    memory.write_all_at(&[0xcc], address).unwrap();
    let error = replace(&fake.path, &[]).unwrap_err().to_string();
    assert_eq!(error, "the file has changed since it was loaded: cudaFree differs");
    assert_eq!(call_malloc(&library, 8), (1, 8));
}

/// A function's address from where its library is loaded.
fn symbol(path: &Path, name: &str) -> u64 {
    let output = Command::new("nm").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {name}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

#[test]
fn ten_thousand_damaged_libraries_are_refused() {
    let Some(fake) = Fake::compile(&[]) else { return };
    let sound = std::fs::read(&fake.path).unwrap();
    let path = fake.path.with_extension("damaged");
    let mut numbers = support::Numbers::new();
    // The tables that are read are at the end and at the beginning.
    let tables = sound.len() - sound.len() / 3;
    for _ in 0..10_000 {
        let mut bytes = sound.clone();
        for _ in 0..=numbers.below(3) {
            let at =
                if numbers.below(4) == 0 { numbers.below(1024) } else { tables + numbers.below(sound.len() - tables) };
            let width = [1, 2, 4, 8][numbers.below(4)].min(bytes.len() - at);
            bytes[at..at + width].copy_from_slice(&numbers.value().to_le_bytes()[..width]);
        }
        if numbers.below(8) == 0 {
            bytes.truncate(numbers.below(bytes.len()).max(1));
        }
        std::fs::write(&path, bytes).unwrap();
        // It is not loaded, so nothing is ever replaced.
        assert!(replace(&path, &[]).is_err());
        // A file that is written over would be brought to the disk each time.
        std::fs::remove_file(&path).unwrap();
    }
}
