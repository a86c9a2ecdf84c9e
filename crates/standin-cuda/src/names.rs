//! Functions by name: `cuGetProcAddress`.
use crate::{Out, Outcome, codes, context, devices, driver, events, graphs, memory, streams, transfer};
use std::ffi::{CStr, c_char, c_int, c_void};

const FOUND: c_int = 0;
const SYMBOL_NOT_FOUND: c_int = 1;

fn all() -> impl Iterator<Item = (&'static str, *const ())> {
    [
        codes::functions(),
        devices::functions(),
        context::functions(),
        memory::functions(),
        transfer::functions(),
        streams::functions(),
        events::functions(),
        graphs::functions(),
        functions(),
    ]
    .into_iter()
    .flatten()
}

/// The function that a program of today means by a name: its second version, where there is one.
fn find(name: &str) -> Option<*const ()> {
    let named = |wanted: &str| all().find(|(name, _)| *name == wanted).map(|(_, address)| address);
    named(&format!("{name}_v2")).or_else(|| named(name))
}

fn lookup(name: *const c_char, place: Out<'_, *mut c_void>, status: Out<'_, c_int>) -> Outcome {
    let place = place.ok_or(codes::INVALID_VALUE)?;
    if name.is_null() {
        return Err(codes::INVALID_VALUE);
    }
    // SAFETY: the driver's contract: a text with its end.
    let name = unsafe { CStr::from_ptr(name) };
    let found = name.to_str().ok().and_then(find);
    place.write(found.map_or(std::ptr::null_mut(), |address| address.cast_mut().cast()));
    if let Some(status) = status {
        status.write(if found.is_some() { FOUND } else { SYMBOL_NOT_FOUND });
    }
    found.map(|_| ()).ok_or(codes::NOT_FOUND)
}

driver! {
    fn cuGetProcAddress(name: *const c_char, place: Out<'_, *mut c_void>, _version: c_int, _flags: u64) {
        lookup(name, place, None)
    }
    fn cuGetProcAddress_v2(
        name: *const c_char,
        place: Out<'_, *mut c_void>,
        _version: c_int,
        _flags: u64,
        status: Out<'_, c_int>,
    ) {
        lookup(name, place, status)
    }
}
