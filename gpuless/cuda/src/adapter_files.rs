//! The files of /sys that an attached library looks at for network adapters, which exist nowhere.
#![allow(unsafe_code)] // C functions are called with their callers' arguments

use gpuless_verbs::files;
use libc::{c_char, c_int, c_uint, c_void};
use std::ffi::{CStr, CString};

/// Replacements for the C library's functions.
pub(crate) fn functions() -> [(&'static str, *const ()); 3] {
    [("realpath", real_path as *const ()), ("access", access as *const ()), ("open", open as *const ())]
}

/// The bytes of a path. NCCL opens null, where an earlier look has found nothing.
fn bytes<'a>(path: *const c_char) -> &'a [u8] {
    // SAFETY: the caller of the C function promises null or a C string, which stays during the call.
    if path.is_null() { b"" } else { unsafe { CStr::from_ptr(path) }.to_bytes() }
}

/// `realpath`.
unsafe extern "C" fn real_path(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    let ours = files::real_path(bytes(path)).and_then(|path| CString::new(path).ok());
    let Some(ours) = ours.filter(|path| path.as_bytes_with_nul().len() <= libc::PATH_MAX as usize) else {
        // SAFETY: as the caller says.
        return unsafe { libc::realpath(path, resolved) };
    };
    if resolved.is_null() {
        // SAFETY: a C string; the caller frees the copy.
        return unsafe { libc::strdup(ours.as_ptr()) };
    }
    let all = ours.as_bytes_with_nul();
    // SAFETY: the caller promises PATH_MAX bytes, and this path is not longer.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), resolved.cast(), all.len()) };
    resolved
}

/// `access`.
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    if files::is_there(bytes(path)) {
        return 0;
    }
    // SAFETY: as the caller says.
    unsafe { libc::access(path, mode) }
}

/// `open`, whose third argument only some callers give.
unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int {
    let Some(contents) = files::contents(bytes(path)) else {
        // SAFETY: as the caller says.
        return unsafe { libc::open(path, flags, mode) };
    };
    // SAFETY: the name is a C string, and the file that is written is the new one, which nothing else has yet. The caller closes it.
    unsafe {
        let file = libc::memfd_create(c"adapter".as_ptr(), libc::MFD_CLOEXEC);
        if file >= 0 {
            libc::write(file, contents.as_ptr().cast::<c_void>(), contents.len());
            libc::lseek(file, 0, libc::SEEK_SET);
        }
        file
    }
}
