//! The functions of the NCCL that the program would call without this library.
#![allow(unsafe_code)] // the loader is asked for addresses, and one of its functions is replaced

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of NCCL: ours, and the real one if it was found.
pub struct Function {
    /// Its name.
    pub name: &'static CStr,
    /// Ours.
    pub wrapper: fn() -> *mut c_void,
    /// The real one; null until it was found.
    pub real: AtomicPtr<c_void>,
}

impl Function {
    /// The real function: that of the library which the program opened, the next one in the loader's order, or that of a library
    /// which was opened for itself and its dependencies alone, as Python opens extensions.
    pub fn real(&self) -> *mut c_void {
        let found = self.real.load(Ordering::Acquire);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name is a C string; the answer is an address or null.
        let next = unsafe { (loader().lookup)(libc::RTLD_NEXT, self.name.as_ptr()) };
        let found = if next.is_null() { self.in_any_library() } else { next };
        match self.real.compare_exchange(std::ptr::null_mut(), found, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => found,
            Err(known) => known,
        }
    }

    /// The function as the first library that has it, or depends on one that has it, finds it.
    fn in_any_library(&self) -> *mut c_void {
        unsafe extern "C" fn name(info: *mut libc::dl_phdr_info, _: usize, names: *mut c_void) -> c_int {
            // SAFETY: the loader gives a valid entry; `names` is the list below.
            let (info, names) = unsafe { (&*info, &mut *names.cast::<Vec<CString>>()) };
            if !info.dlpi_name.is_null() {
                // SAFETY: the loader's names are C strings.
                names.push(unsafe { CStr::from_ptr(info.dlpi_name) }.to_owned());
            }
            0
        }
        let mut names: Vec<CString> = Vec::new();
        // SAFETY: the callback gets this list, and nothing else uses it meanwhile.
        unsafe { libc::dl_iterate_phdr(Some(name), (&raw mut names).cast()) };
        for name in names.iter().filter(|name| !name.is_empty()) {
            // SAFETY: C strings. Nothing is loaded, and what is found stays loaded.
            let function = unsafe {
                let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if library.is_null() { library } else { (loader().lookup)(library, self.name.as_ptr()) }
            };
            if !function.is_null() && function != (self.wrapper)() {
                return function;
            }
        }
        std::ptr::null_mut()
    }
}

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// The loader's own `dlsym`.
#[derive(Clone, Copy)]
struct Loader {
    lookup: Lookup,
}

/// The address of the loader's `dlsym`, which ours jumps to.
static LOADERS_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

#[cfg(target_arch = "x86_64")]
fn loader() -> Loader {
    let mut address = LOADERS_DLSYM.load(Ordering::Acquire);
    if address.is_null() {
        // SAFETY: both are C strings. Every glibc for x86-64 has this version of the function.
        address = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
        if address.is_null() {
            eprintln!("collspec record: this C library has no dlsym of glibc");
            std::process::abort();
        }
        LOADERS_DLSYM.store(address, Ordering::Release);
    }
    // SAFETY: that is the type of the function that was found.
    Loader { lookup: unsafe { std::mem::transmute::<*mut c_void, Lookup>(address) } }
}

#[cfg(not(target_arch = "x86_64"))]
fn loader() -> Loader {
    Loader { lookup: libc::dlsym }
}

/// `dlsym` for programs that open their NCCL themselves: they get our functions. It must reach the loader's with the caller's own
/// return address, from which the loader tells what is "next", so it jumps.
#[cfg(all(target_arch = "x86_64", not(test)))]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {ours}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "cmp rax, 1",
        "jb 2f",
        "je 3f",
        "ret",
        "2:",
        "jmp qword ptr [rip + {loaders}]",
        "3:",
        "xor eax, eax",
        "ret",
        ours = sym ours,
        loaders = sym LOADERS_DLSYM,
    )
}

/// The answer of `ours` that there is no such function: the program has no NCCL, and must not find ours.
#[cfg(target_arch = "x86_64")]
const NOTHING: *mut c_void = std::ptr::without_provenance_mut(1);

/// Our function if the program asks for one that is recorded; null leaves the answer to the loader.
#[cfg(target_arch = "x86_64")]
#[cfg_attr(test, allow(dead_code))]
unsafe extern "C" fn ours(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    let loader = loader();
    let null = std::ptr::null_mut();
    if name.is_null() {
        return null;
    }
    // SAFETY: the caller promises a C string.
    let asked = unsafe { CStr::from_ptr(name) };
    if !asked.to_bytes().starts_with(b"nccl") {
        return null;
    }
    let Some(function) = crate::exports::FUNCTIONS.iter().find(|function| function.name == asked) else { return null };
    // What is next is not the same for us: the loader must see the caller.
    if handle == libc::RTLD_NEXT {
        return if function.real().is_null() { NOTHING } else { null };
    }
    // SAFETY: the caller's arguments, passed on.
    let real = unsafe { (loader.lookup)(handle, name) };
    let wrapper = (function.wrapper)();
    if real == wrapper && function.real().is_null() {
        return NOTHING;
    }
    if real.is_null() || real == wrapper {
        return real;
    }
    match function.real.compare_exchange(null, real, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => wrapper,
        Err(known) if known == real => wrapper,
        // A second NCCL in the process: its calls are not recorded, because they could not be told apart.
        Err(_) => null,
    }
}
