//! The place in the program that makes a call.
#![allow(unsafe_code)] // the stack is walked

use crate::loaded::{Library, library_of};
use crate::python::{self, Line};
use std::ffi::{c_int, c_void};
use std::path::Path;

/// Frames of the stack that are looked at: ours, and the caller's.
const DEPTH: usize = 12;
/// Characters of what is written.
const MOST: usize = 400;

/// A line of Python, or a place in a library: one line of text.
pub fn place() -> String {
    let place = match python::line() {
        Line::At(line) => line,
        Line::Unknown(why) => format!("{}, {why}", return_address()),
        Line::NoPython => return_address(),
    };
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    place.chars().map(plain).take(MOST).collect()
}

/// `FUNCTION+0x1f in FILE`, or `FILE+0x1234`.
fn return_address() -> String {
    let mut addresses = [std::ptr::null_mut::<c_void>(); DEPTH];
    // SAFETY: the array has room for DEPTH addresses.
    let count = unsafe { libc::backtrace(addresses.as_mut_ptr(), DEPTH as c_int) };
    let own = library_of(return_address as *mut c_void).map(|library| library.base);
    let frames = addresses.into_iter().take(usize::try_from(count).unwrap_or(0));
    for address in frames {
        let Some(Library { base, file, symbol }) = library_of(address) else { continue };
        if Some(base) == own {
            continue;
        }
        let name = Path::new(&file).file_name().map_or(file.clone(), |name| name.to_string_lossy().into_owned());
        return match symbol {
            Some((function, start)) => format!("{function}+{:#x} in {name}", address.addr().wrapping_sub(start)),
            None => format!("{name}+{:#x}", address.addr().wrapping_sub(base)),
        };
    }
    "an unknown place".to_owned()
}
