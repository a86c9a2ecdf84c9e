//! CUresult: the codes that this driver answers, their names and words.
use crate::{Out, driver, put};
use std::ffi::{CStr, c_char, c_int};

macro_rules! codes {
    ($($short:ident $number:literal $name:literal $text:literal;)*) => {
        $(
            #[allow(dead_code)] // those of captures come from gpuless-device
            pub(crate) const $short: c_int = $number;
        )*
        const TEXTS: &[(c_int, &CStr, &CStr)] = &[$(($number, $name, $text)),*];
    };
}

codes! {
    SUCCESS 0 c"CUDA_SUCCESS" c"no error";
    INVALID_VALUE 1 c"CUDA_ERROR_INVALID_VALUE" c"an argument is out of range";
    OUT_OF_MEMORY 2 c"CUDA_ERROR_OUT_OF_MEMORY" c"no such amount of memory is to be had";
    NOT_INITIALIZED 3 c"CUDA_ERROR_NOT_INITIALIZED" c"cuInit was not called";
    NO_DEVICE 100 c"CUDA_ERROR_NO_DEVICE" c"there is no device";
    INVALID_DEVICE 101 c"CUDA_ERROR_INVALID_DEVICE" c"there is no device of this number";
    INVALID_CONTEXT 201 c"CUDA_ERROR_INVALID_CONTEXT" c"no context is current, or it is not a context";
    INVALID_HANDLE 400 c"CUDA_ERROR_INVALID_HANDLE" c"no stream or event has this handle";
    NOT_FOUND 500 c"CUDA_ERROR_NOT_FOUND" c"there is no function of this name";
    NOT_READY 600 c"CUDA_ERROR_NOT_READY" c"the work is not finished yet";
    CONTEXT_IS_DESTROYED 709 c"CUDA_ERROR_CONTEXT_IS_DESTROYED" c"the current context was released";
    NOT_SUPPORTED 801 c"CUDA_ERROR_NOT_SUPPORTED" c"the stand-in driver cannot do this";
    CAPTURE_UNSUPPORTED 900 c"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" c"this is not permitted when the stream is capturing";
    CAPTURE_INVALIDATED 901 c"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED" c"the capture was made invalid by an earlier call";
    CAPTURE_MERGE 902 c"CUDA_ERROR_STREAM_CAPTURE_MERGE" c"two captures would become one";
    CAPTURE_UNMATCHED 903 c"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED" c"no capture began on this stream";
    CAPTURE_UNJOINED 904 c"CUDA_ERROR_STREAM_CAPTURE_UNJOINED" c"a stream of the capture was not joined to its first";
    CAPTURE_ISOLATION 905 c"CUDA_ERROR_STREAM_CAPTURE_ISOLATION" c"a dependency would cross the border of the capture";
    CAPTURE_IMPLICIT 906 c"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT" c"the default stream cannot be captured";
    CAPTURED_EVENT 907 c"CUDA_ERROR_CAPTURED_EVENT" c"the event was last recorded in a capture";
    CAPTURE_WRONG_THREAD 908 c"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD" c"another thread began the capture";
    UNKNOWN 999 c"CUDA_ERROR_UNKNOWN" c"the stand-in driver failed: this is a bug in it";
}

fn find(code: c_int) -> Result<(&'static CStr, &'static CStr), c_int> {
    TEXTS.iter().find(|(number, ..)| *number == code).map(|(_, name, text)| (*name, *text)).ok_or(INVALID_VALUE)
}

driver! {
    fn cuGetErrorName(code: c_int, name: Out<'_, *const c_char>) { put(name, find(code)?.0.as_ptr()) }
    fn cuGetErrorString(code: c_int, text: Out<'_, *const c_char>) { put(text, find(code)?.1.as_ptr()) }
}
