//! The driver's functions by name. Missing functions are "not found": libraries then use their older methods.
use super::raw::Text;
use super::{Handle, Out, Outcome, Runtime, driver, errors, put_if, runtime};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::ptr::null_mut;

/// `cudaDriverEntryPointQueryResult`.
const FOUND: c_int = 0;
const NOT_FOUND: c_int = 1;

fn find(name: Text, place: Out<'_, Handle>) -> Result<bool, c_int> {
    let place = place.ok_or(errors::INVALID_VALUE)?;
    let found = driver::find(&name.get()?);
    place.write(found.map_or(null_mut(), |address| address.cast_mut().cast()));
    Ok(found.is_some())
}

/// A missing function is not an error of the call.
fn find_with_status(name: Text, place: Out<'_, Handle>, status: Out<'_, c_int>) -> Outcome {
    let found = find(name, place)?;
    put_if(status, if found { FOUND } else { NOT_FOUND });
    Ok(())
}

mod v11 {
    use super::*;
    runtime! {
        by_thread cudaGetDriverEntryPoint_ptsz fn cudaGetDriverEntryPoint(
            name: Text,
            place: Out<'_, Handle>,
            _flags: c_ulonglong,
        ) { if find(name, place)? { Ok(()) } else { Err(errors::SYMBOL_NOT_FOUND) } }
    }
}

mod later {
    use super::*;
    runtime! {
        by_thread cudaGetDriverEntryPoint_ptsz fn cudaGetDriverEntryPoint(
            name: Text,
            place: Out<'_, Handle>,
            _flags: c_ulonglong,
            status: Out<'_, c_int>,
        ) { find_with_status(name, place, status) }
        by_thread cudaGetDriverEntryPointByVersion_ptsz fn cudaGetDriverEntryPointByVersion(
            name: Text,
            place: Out<'_, Handle>,
            _version: c_uint,
            _flags: c_ulonglong,
            status: Out<'_, c_int>,
        ) { find_with_status(name, place, status) }
    }
}

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    match runtime {
        Runtime::V11 => v11::functions(),
        Runtime::V12 | Runtime::V13 => later::functions(),
    }
}
