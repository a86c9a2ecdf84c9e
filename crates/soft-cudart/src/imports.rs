//! Functions of C that a library on software GPUs gets in another way: its threads are many more than the cores of a machine without GPUs, so
//! they must not spin; kernels are slower than a GPU's, so memory must not go under them; and NVML is this crate's.
#![allow(unsafe_code)] // C functions are called with their callers' arguments, and a library's imports are changed

use crate::attach::{AttachError, Attached};
use crate::{api, nvml};
use libc::{c_char, c_int, c_void, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t};
use std::cell::Cell;
use std::ffi::CStr;

/// Redirects the imports of a library.
///
/// # Errors
///
/// Its table of imports cannot be written.
///
/// # Safety
///
/// The library is loaded and stays.
pub unsafe fn redirect(library: &Attached) -> Result<(), AttachError> {
    let functions = [
        ("munmap", unmap_after_kernels as *const ()),
        ("recv", recv_without_spinning as *const ()),
        ("accept", accept_without_spinning as *const ()),
        ("poll", poll_in_steps as *const ()),
        ("dlopen", open_nvml_here as *const ()),
        ("dlsym", find_nvml_here as *const ()),
        ("dlclose", close_nvml_here as *const ()),
    ];
    for (name, function) in functions {
        // SAFETY: each takes and answers what C's function of its name does.
        match unsafe { library.redirect_import(name, function) } {
            // A library that does not call it has nothing to redirect.
            Ok(()) | Err(AttachError::NoImport(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// `munmap`: a peer's kernel may still have a store to do in shared memory that its owner unmaps.
extern "C" fn unmap_after_kernels(address: *mut c_void, len: size_t) -> c_int {
    let address = address as usize;
    api::after_launched_work(Box::new(move || {
        // SAFETY: the library has given the memory up.
        unsafe { libc::munmap(address as *mut c_void, len) };
    }));
    0
}

/// Calls in vain before a thread sleeps until its socket has something, and for how many milliseconds it does at most.
const SPINS: u32 = 32;
const MOST_SLEEP: c_int = 1;
/// The longest step of a wait in milliseconds.
const LONGEST_STEP: c_int = 20;

thread_local! {
    /// Calls in vain since the last one that brought something.
    static IN_VAIN: Cell<u32> = const { Cell::new(0) };
}

/// Sleeps on a socket if this thread keeps asking it in vain. The caller gets its answer, and asks again.
fn pace(socket: c_int, in_vain: bool) {
    if !in_vain {
        return IN_VAIN.set(0);
    }
    IN_VAIN.set(IN_VAIN.get().saturating_add(1));
    if IN_VAIN.get() > SPINS {
        let mut wanted = pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
        // SAFETY: one element of this thread's; the error number is the caller's.
        unsafe {
            let error = *libc::__errno_location();
            libc::poll(&mut wanted, 1, MOST_SLEEP);
            *libc::__errno_location() = error;
        }
    }
}

fn has_nothing() -> bool {
    matches!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EAGAIN))
}

/// `recv`: while NCCL's ranks meet, each asks its sockets as fast as it can.
unsafe extern "C" fn recv_without_spinning(socket: c_int, buffer: *mut c_void, len: size_t, flags: c_int) -> ssize_t {
    // SAFETY: as the caller says.
    let got = unsafe { libc::recv(socket, buffer, len, flags) };
    pace(socket, got < 0 && has_nothing());
    got
}

/// `accept`, as `recv`.
unsafe extern "C" fn accept_without_spinning(socket: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    // SAFETY: as the caller says.
    let got = unsafe { libc::accept(socket, address, len) };
    pace(socket, got < 0 && has_nothing());
    got
}

/// `poll`: NCCL's threads look after half a second whether they are to end, and whoever destroys a communicator waits for that.
unsafe extern "C" fn poll_in_steps(wanted: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    // SAFETY: as the caller says.
    unsafe { libc::poll(wanted, count, timeout.min(LONGEST_STEP)) }
}

/// What NVML's handle points to.
static NVML: u8 = 0;

fn nvml_handle() -> *mut c_void {
    (&raw const NVML).cast_mut().cast()
}

/// `dlopen`: NVML is here, whatever the machine has.
unsafe extern "C" fn open_nvml_here(name: *const c_char, flags: c_int) -> *mut c_void {
    // SAFETY: as the caller says; null is the program.
    let is_nvml = !name.is_null() && unsafe { CStr::from_ptr(name) }.to_bytes() == nvml::NAME.as_bytes();
    // SAFETY: as the caller says.
    if is_nvml { nvml_handle() } else { unsafe { libc::dlopen(name, flags) } }
}

/// `dlsym`. A function that NVML here does not have is null, without words for `dlerror`.
unsafe extern "C" fn find_nvml_here(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    if handle != nvml_handle() {
        // SAFETY: as the caller says.
        return unsafe { libc::dlsym(handle, name) };
    }
    // SAFETY: as the caller says.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    nvml::function(name).map_or(std::ptr::null_mut(), |function| function.cast_mut().cast())
}

/// `dlclose`.
unsafe extern "C" fn close_nvml_here(handle: *mut c_void) -> c_int {
    // SAFETY: as the caller says.
    if handle == nvml_handle() { 0 } else { unsafe { libc::dlclose(handle) } }
}
