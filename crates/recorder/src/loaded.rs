//! The libraries of the process and their functions, also of those that were opened for themselves and their dependencies alone, as Python
//! opens extensions.
#![allow(unsafe_code)] // the loader is asked for addresses

use gpuless_dlsym::loaders_dlsym;
use std::ffi::{CStr, CString, c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The function as the first library that has it, or depends on one that has it, finds it; not `except`.
pub fn find(function: &CStr, except: *mut c_void) -> *mut c_void {
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
        let found = unsafe {
            let library = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { library } else { loaders_dlsym()(library, function.as_ptr()) }
        };
        if !found.is_null() && found != except {
            return found;
        }
    }
    std::ptr::null_mut()
}

/// The function as the whole program sees it, else as [`find`] finds it.
pub fn find_anywhere(function: &CStr) -> *mut c_void {
    // SAFETY: a C string; the answer is an address or null.
    let found = unsafe { loaders_dlsym()(libc::RTLD_DEFAULT, function.as_ptr()) };
    if found.is_null() { find(function, found) } else { found }
}

/// A function of this name and type; `None` if no library has it.
///
/// # Safety
///
/// `F` is the type of the function that has this name.
pub unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer is wanted") };
    let address = find_anywhere(name);
    // SAFETY: not null, of this size, and of this type by the caller's promise.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

/// What the loader knows of an address.
pub struct Library {
    /// Where the library begins.
    pub base: usize,
    pub file: String,
    /// The exported function before the address, and where that begins.
    pub symbol: Option<(String, usize)>,
}

impl Library {
    /// Its function of this name, or null.
    pub fn function(&self, name: &CStr) -> *mut c_void {
        let Ok(file) = CString::new(self.file.as_str()) else { return std::ptr::null_mut() };
        // SAFETY: C strings. Nothing is loaded, and what is found stays loaded.
        unsafe {
            let library = libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if library.is_null() { library } else { loaders_dlsym()(library, name.as_ptr()) }
        }
    }
}

/// The library that has this address.
pub fn library_of(address: *mut c_void) -> Option<Library> {
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for; all zeros are a valid answer.
    let info = unsafe {
        if libc::dladdr(address, info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    let text = |place: *const libc::c_char| {
        // SAFETY: the loader's texts are C strings.
        (!place.is_null()).then(|| unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned())
    };
    let symbol = text(info.dli_sname).map(|name| (name, info.dli_saddr.addr()));
    Some(Library { base: info.dli_fbase.addr(), file: text(info.dli_fname)?, symbol })
}

/// The first library of which the program has called a function or asked for one. With some of one NCCL and some of another, groups would seem
/// to have other calls than they have, and communicators of one would be given to the other.
static FOLLOWED: OnceLock<Library> = OnceLock::new();

/// True for functions of that library; the first one asked about decides which it is.
pub fn is_followed(function: *mut c_void) -> bool {
    let Some(library) = library_of(function) else { return false };
    let base = library.base;
    FOLLOWED.get_or_init(|| library).base == base
}

/// That library.
pub fn followed() -> Option<&'static Library> {
    FOLLOWED.get()
}
