//! Finds the libraries with a CUDA runtime among those that the program has loaded, and attaches them before they are called.
#![allow(unsafe_code)] // the loader is asked for libraries, and their code is replaced

use gpuless_cuda::attach::runtime_functions;
use gpuless_dlsym::loaders_dlsym;
use std::cell::Cell;
use std::collections::HashSet;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::mem::zeroed;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Functions of which a library that has a CUDA runtime has one: those of NCCL, and the runtime itself.
const MARKS: [&CStr; 2] = [c"ncclGetVersion", c"cudaRuntimeGetVersion"];

/// The program's own file.
const PROGRAM: &str = "/proc/self/exe";

#[used]
#[cfg_attr(not(test), unsafe(link_section = ".init_array"))]
static BEGIN: extern "C" fn() = begin;

/// False while the loader still starts libraries that come before this one. The runtime of AddressSanitizer asks for functions then,
/// with thread-local storage and allocation not usable yet.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Before the program begins: the libraries that it is linked with are loaded.
extern "C" fn begin() {
    crate::configure();
    loaders_dlsym();
    BEGUN.store(true, Ordering::Release);
    if crate::reports() {
        // SAFETY: the function may be called at any time.
        unsafe { libc::atexit(crate::report) };
    }
    attach_new(true);
}

/// What the runtime of AddressSanitizer does not report as a leak: code that replaces a runtime's functions is kept for as long as the
/// process, and only machine code points at it, which the runtime does not search; what the replaced runtime has registered, it no longer frees.
#[cfg(not(test))]
#[unsafe(no_mangle)]
extern "C" fn __lsan_default_suppressions() -> *const c_char {
    c"leak:libcuda.so.1\nleak:__cudaRegisterFatBinary\n".as_ptr()
}

gpuless_dlsym::replace_dlsym!(on_lookup);

/// The program is about to get a function, of a library that may have been loaded just now.
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn on_lookup(_handle: *mut c_void, name: *const c_char) -> *mut c_void {
    loaders_dlsym();
    if !BEGUN.load(Ordering::Acquire) {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller promises null or a C string.
    let name = if name.is_null() { b"" } else { unsafe { CStr::from_ptr(name) }.to_bytes() };
    // A thread that asks for anything else may be one for which another, which attaches a library, waits.
    attach_new([&b"nccl"[..], b"cuda", b"PyInit_"].iter().any(|prefix| name.starts_with(prefix)));
    std::ptr::null_mut()
}

#[derive(Default)]
struct Seen {
    /// The loader's number of libraries loaded so far, at the last look.
    loads: u64,
    names: Option<HashSet<CString>>,
}

static SEEN: Mutex<Seen> = Mutex::new(Seen { loads: 0, names: None });

thread_local! {
    /// True while this thread attaches libraries, and asks for functions itself.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

fn lock(wait: bool) -> Option<MutexGuard<'static, Seen>> {
    match SEEN.try_lock() {
        Ok(seen) => Some(seen),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) if wait => Some(SEEN.lock().unwrap_or_else(PoisonError::into_inner)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Attaches what was loaded since the last look.
fn attach_new(wait: bool) {
    if BUSY.try_with(|busy| busy.replace(true)).unwrap_or(true) {
        return;
    }
    if let Some(mut seen) = lock(wait) {
        let mut now = Now { loads: 0, before: seen.loads, libraries: Vec::new() };
        // SAFETY: the callback gets this list, and nothing else uses it meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(list), (&raw mut now).cast()) };
        seen.loads = now.loads;
        for (name, base) in now.libraries {
            if !seen.names.get_or_insert_default().insert(name.clone()) {
                continue;
            }
            // The program itself has no name, and exports nothing.
            let path =
                Path::new(if name.is_empty() { OsStr::new(PROGRAM) } else { OsStr::from_bytes(name.to_bytes()) });
            if if name.is_empty() { runtime_functions(path).is_ok() } else { has_mark(&name, base) } {
                attach(path);
            }
        }
    }
    BUSY.set(false);
}

/// The libraries that are loaded now: names and addresses. None if nothing was loaded since the last look.
struct Now {
    loads: u64,
    before: u64,
    libraries: Vec<(CString, usize)>,
}

unsafe extern "C" fn list(info: *mut libc::dl_phdr_info, _: usize, now: *mut c_void) -> c_int {
    // SAFETY: the loader gives a valid entry; `now` is that of `attach_new`.
    let (info, now) = unsafe { (&*info, &mut *now.cast::<Now>()) };
    now.loads = info.dlpi_adds;
    if now.loads == now.before {
        return 1;
    }
    if !info.dlpi_name.is_null() {
        // SAFETY: the loader's names are C strings.
        now.libraries.push((unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned(), info.dlpi_addr as usize));
    }
    0
}

/// True if the library itself, and not one that it depends on, has one of the marks.
fn has_mark(name: &CStr, base: usize) -> bool {
    // SAFETY: C strings. Nothing is loaded, and others use the library, so that it stays during the call.
    unsafe {
        let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return false;
        }
        let found = MARKS.iter().any(|mark| {
            let function = loaders_dlsym()(library, mark.as_ptr());
            let mut info: libc::Dl_info = zeroed();
            !function.is_null() && libc::dladdr(function, &raw mut info) != 0 && info.dli_fbase as usize == base
        });
        // One that has is kept: what is attached must not be unloaded.
        if !found {
            libc::dlclose(library);
        }
        found
    }
}

fn attach(path: &Path) {
    // SAFETY: the library was loaded just now, and the program has not got a function of it, which goes through `dlsym`; or the
    // program has not begun. `has_mark` keeps it loaded.
    if let Err(error) = unsafe { crate::attach(path) } {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        eprintln!("software GPU: {}: {error}", path.display());
    }
}
