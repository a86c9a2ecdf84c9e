//! What libraries to preload share: a function of theirs sees what the program asks the loader's `dlsym` for.
#![allow(unsafe_code)] // one of the loader's functions is replaced

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The type of `dlsym`.
pub type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// An answer of the function that [`replace_dlsym`] names: the program must not find anything of this name.
pub const NOTHING: *mut c_void = std::ptr::without_provenance_mut(1);

/// The address of the loader's `dlsym`, which the replacement jumps to.
#[doc(hidden)]
pub static LOADERS_DLSYM: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The loader's own `dlsym`.
#[cfg(target_arch = "x86_64")]
pub fn loaders_dlsym() -> Lookup {
    let mut address = LOADERS_DLSYM.load(Ordering::Acquire);
    if address.is_null() {
        // SAFETY: both are C strings. Every glibc for x86-64 has this version of the function.
        address = unsafe { libc::dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
        if address.is_null() {
            eprintln!("gpuless: this C library has no dlsym of glibc");
            std::process::abort();
        }
        // Another library to preload may replace it too: each asks the next one, and the last the loader.
        // SAFETY: that is the type of the function that was found; a C string. The answer is an address or null.
        let next = unsafe { std::mem::transmute::<*mut c_void, Lookup>(address)(libc::RTLD_NEXT, c"dlsym".as_ptr()) };
        if !next.is_null() {
            address = next;
        }
        LOADERS_DLSYM.store(address, Ordering::Release);
    }
    // SAFETY: that is the type of the function that was found.
    unsafe { std::mem::transmute::<*mut c_void, Lookup>(address) }
}

/// The loader's own `dlsym`.
#[cfg(not(target_arch = "x86_64"))]
pub fn loaders_dlsym() -> Lookup {
    libc::dlsym
}

/// Defines `dlsym` for x86-64. It asks a function of type [`Lookup`] first, which must call [`loaders_dlsym`] before it returns: null
/// leaves the answer to the loader. The loader's must be reached with the caller's own return address, from which it tells what is
/// "next", so that is a jump.
#[macro_export]
macro_rules! replace_dlsym {
    ($ours:path) => {
        #[cfg(not(test))]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        unsafe extern "C" fn dlsym(handle: *mut std::ffi::c_void, name: *const std::ffi::c_char) -> *mut std::ffi::c_void {
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
                "mov rax, qword ptr [rip + {loaders}@GOTPCREL]",
                "jmp qword ptr [rax]",
                "3:",
                "xor eax, eax",
                "ret",
                ours = sym $ours,
                loaders = sym $crate::LOADERS_DLSYM,
            )
        }
    };
}
