//! The parameters that a library lists (NCCL 2.30).
#![allow(unsafe_code)] // reads what the library answers

use super::*;

/// More of either is not believed.
const MOST_PARAMETERS: usize = 1 << 16;
const LONGEST_VALUE: usize = 1 << 16;

impl Library {
    /// The names of all parameters with their values, in order; `None` if the library does not list them.
    pub fn parameters(&self) -> Option<Vec<(String, String)>> {
        let mut parameters: Vec<_> = self.parameter_keys()?.iter().filter_map(|key| self.parameter(key)).collect();
        parameters.sort();
        Some(parameters)
    }

    fn parameter_keys(&self) -> Option<Vec<CString>> {
        let (mut keys, mut len) = (ptr::null_mut(), 0);
        let code = call!(self, ncclParamGetAllParameterKeys(&mut keys, &mut len)).ok()?;
        let len = usize::try_from(len).ok().filter(|len| *len <= MOST_PARAMETERS)?;
        if code != ncclResult_t::Success || (keys.is_null() && len > 0) {
            return None;
        }
        // SAFETY: the list has this many entries and lives until this thread's next call of the function.
        let keys = (0..len).map(|at| unsafe { keys.add(at).read() });
        // SAFETY: entries are texts with their ends, which live as long.
        Some(keys.filter(|key| !key.is_null()).map(|key| unsafe { CStr::from_ptr(key) }.to_owned()).collect())
    }

    fn parameter(&self, key: &CStr) -> Option<(String, String)> {
        let (mut value, mut len) = (ptr::null(), 0);
        let code = call!(self, ncclParamGetParameter(key.as_ptr(), &mut value, &mut len)).ok()?;
        if code != ncclResult_t::Success || value.is_null() {
            return None;
        }
        let len = usize::try_from(len).unwrap_or(0).min(LONGEST_VALUE);
        // SAFETY: the text has this many bytes and lives until this thread's next call of the function.
        let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        Some((key.to_string_lossy().into_owned(), String::from_utf8_lossy(text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;

    const KEYS: [&CStr; 3] = [c"NCCL_B", c"NCCL_A", c"NCCL_REFUSED"];

    unsafe extern "C" fn keys(keys: *mut *mut *const c_char, len: *mut c_int) -> ncclResult_t {
        let list: Vec<*const c_char> = KEYS.iter().map(|key| key.as_ptr()).collect();
        // SAFETY: places for the answers. The list is leaked, as it must outlive the call.
        unsafe {
            len.write(list.len() as c_int);
            keys.write(list.leak().as_mut_ptr());
        }
        ncclResult_t::Success
    }

    unsafe extern "C" fn value(key: *const c_char, value: *mut *const c_char, len: *mut c_int) -> ncclResult_t {
        // SAFETY: a text with its end.
        let key = unsafe { CStr::from_ptr(key) };
        // With and without its end counted.
        let (text, size) = if key == c"NCCL_A" { (c"1", 1) } else { (c"-2", 3) };
        if key == c"NCCL_REFUSED" {
            return ncclResult_t::InvalidArgument;
        }
        // SAFETY: places for the answers.
        unsafe {
            value.write(text.as_ptr());
            len.write(size);
        }
        ncclResult_t::Success
    }

    #[test]
    fn parameters_are_listed_with_their_values() {
        let table = Nccl {
            ncclParamGetAllParameterKeys: Some(keys),
            ncclParamGetParameter: Some(value),
            ..Nccl::empty("2.30")
        };
        let listed = Library { version: 23007, ..Library::new(table) }.parameters().unwrap();
        assert_eq!(listed, [("NCCL_A".to_owned(), "1".to_owned()), ("NCCL_B".to_owned(), "-2".to_owned())]);
        assert_eq!(Library { version: 22800, ..Library::new(Nccl::empty("2.28")) }.parameters(), None);
    }
}
