//! The functions of the process's CUDA driver that a leak needs.
use std::ffi::{CStr, c_int, c_void};

const SUCCESS: c_int = 0;

/// A function of the driver that the process has loaded.
///
/// # Safety
/// `F` is the type of the function that has this name in the driver's interface.
unsafe fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer is wanted") };
    let libraries = [c"libcuda.so.1", c"libcuda.so"];
    let address = libraries.into_iter().find_map(|library| {
        // SAFETY: a text with its end. The library is loaded already and stays.
        let handle = unsafe { libc::dlopen(library.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        // SAFETY: a live handle and a text with its end.
        let address = (!handle.is_null()).then(|| unsafe { libc::dlsym(handle, name.as_ptr()) });
        address.filter(|address| !address.is_null())
    })?;
    // SAFETY: not null, of this size, and of this type by the caller's promise.
    Some(unsafe { std::mem::transmute_copy(&address) })
}

/// The calling thread's device.
pub(crate) fn current_device() -> Option<c_int> {
    // SAFETY: the type is that of CUDA's interface.
    let get: unsafe extern "C" fn(*mut c_int) -> c_int = unsafe { function(c"cuCtxGetDevice")? };
    let mut device = 0;
    // SAFETY: a place for a number.
    (unsafe { get(&mut device) } == SUCCESS).then_some(device)
}

/// Allocates device memory that is never freed; `None` if the driver has none left.
pub(crate) fn allocate_for_ever(device: c_int, bytes: usize) -> Option<()> {
    type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int;
    type Push = unsafe extern "C" fn(*mut c_void) -> c_int;
    type Pop = unsafe extern "C" fn(*mut *mut c_void) -> c_int;
    type Alloc = unsafe extern "C" fn(*mut u64, usize) -> c_int;
    // SAFETY: the types are those of CUDA's interface.
    let (retain, push, pop, alloc): (Retain, Push, Pop, Alloc) = unsafe {
        (
            function(c"cuDevicePrimaryCtxRetain")?,
            function(c"cuCtxPushCurrent_v2")?,
            function(c"cuCtxPopCurrent_v2")?,
            function(c"cuMemAlloc_v2")?,
        )
    };
    let mut context = std::ptr::null_mut();
    // SAFETY: a place for a handle. The context is never released, as the memory lives in it.
    if unsafe { retain(&mut context, device) } != SUCCESS {
        return None;
    }
    // SAFETY: a live context.
    if unsafe { push(context) } != SUCCESS {
        return None;
    }
    let mut address = 0;
    // SAFETY: a place for an address, and one for the context that was pushed.
    let code = unsafe {
        let code = alloc(&mut address, bytes);
        pop(&mut context);
        code
    };
    (code == SUCCESS).then_some(())
}
