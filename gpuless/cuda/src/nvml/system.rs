//! The library, the driver, and the words of errors.
use super::handles::ready;
use super::{INVALID_ARGUMENT, Out, nvml, put, put_text};
use std::ffi::{CStr, c_char, c_int, c_uint};

const TEXTS: &[(c_int, &CStr)] = &[
    (0, c"Success"),
    (1, c"Uninitialized"),
    (2, c"Invalid Argument"),
    (3, c"Not Supported"),
    (6, c"Not Found"),
    (7, c"Insufficient Size"),
    (25, c"Argument Version Mismatch"),
];

pub(super) extern "C" fn nvmlErrorString(code: c_int) -> *const c_char {
    TEXTS.iter().find(|(known, _)| *known == code).map_or(c"Unknown Error", |(_, text)| text).as_ptr()
}

nvml! {
    fn nvmlSystemGetDriverVersion(place: *mut c_char, len: c_uint) {
        ready()?;
        put_text(place, len, "580.0")
    }
    fn nvmlSystemGetNVMLVersion(place: *mut c_char, len: c_uint) {
        ready()?;
        put_text(place, len, "13.580.0")
    }
    /// Environment, confidential computing and its tools: all off.
    fn nvmlSystemGetConfComputeState(place: Out<'_, [c_uint; 3]>) {
        ready()?;
        put(place, [0; 3])
    }
    /// The same and multiple GPUs, after the structure's version.
    fn nvmlSystemGetConfComputeSettings(place: Option<&mut [c_uint; 5]>) {
        ready()?;
        place.ok_or(INVALID_ARGUMENT)?[1..].fill(0);
        Ok(())
    }
}
