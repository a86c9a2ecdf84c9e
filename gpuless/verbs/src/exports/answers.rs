//! How the C functions are defined, and how they answer.
#![allow(unsafe_code)] // places that callers give

use libc::c_int;
use std::io;

/// Defines C functions, under their own names in a library that is made of this crate, and a function that finds them.
macro_rules! functions {
    ($($(#[$attribute:meta])* fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block)*) => {
        $(
            $(#[$attribute])*
            #[cfg_attr(not(test), unsafe(no_mangle))]
            pub unsafe extern "C" fn $name($($argument: $type),*) $(-> $result)? $body
        )*

        pub fn find(name: &str) -> Option<*const ()> {
            $(
                if name == stringify!($name) {
                    return Some($name as *const ());
                }
            )*
            None
        }
    };
}
pub(super) use functions;

pub fn set_errno(code: c_int) {
    // SAFETY: the calling thread's own number.
    unsafe { *libc::__errno_location() = code };
}

pub fn code_of(error: &io::Error) -> c_int {
    error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::AddrInUse => libc::EADDRINUSE,
        _ => libc::EIO,
    })
}

/// Null, with the error number set.
pub fn null<T>(code: c_int) -> *mut T {
    set_errno(code);
    std::ptr::null_mut()
}

/// -1, with the error number set.
pub fn minus_one(code: c_int) -> c_int {
    set_errno(code);
    -1
}

/// The answer of functions that answer with an error number.
pub fn code(outcome: Result<(), c_int>) -> c_int {
    outcome.err().unwrap_or(0)
}

/// Writes an answer to the caller's place.
///
/// # Safety
///
/// The place is null or that of a value of this type.
pub unsafe fn put<T>(place: *mut T, value: T) -> Result<(), c_int> {
    if place.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: as the caller says.
    unsafe { place.write(value) };
    Ok(())
}
