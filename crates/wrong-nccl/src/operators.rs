//! Operators that multiply by a scalar, and the counting of traffic.
#![allow(unsafe_code)] // the right library is called, and scalars are read

use crate::communicators;
use crate::element::{Type, element};
use crate::fault::hit;
use crate::groups::NO_RANK;
use crate::memory::read;
use crate::plain::named::F53;
use crate::right::right;
use nccl_sys::*;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::with_exposed_provenance_mut;
use std::sync::{LazyLock, Mutex, PoisonError};

/// The scalar of an operator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scalar {
    Known(u64),
    /// It lies in device memory.
    At(usize, Type),
}

/// Scalars by the operator's number. Two communicators may use one number: then the scalar is that of the operator made last.
static SCALARS: LazyLock<Mutex<HashMap<c_int, Scalar>>> = LazyLock::new(Mutex::default);

impl Scalar {
    /// Its bits now.
    pub(crate) fn bits(&self) -> u64 {
        match *self {
            Self::Known(bits) => bits,
            // SAFETY: the program keeps the scalar while its operator exists.
            Self::At(address, ty) => element(ty, &unsafe { read(address, ty.size()) }, 0),
        }
    }
}

/// The scalar of an operator, if it has one.
pub(crate) fn scalar(op: ncclRedOp_t) -> Option<Scalar> {
    SCALARS.lock().unwrap_or_else(PoisonError::into_inner).get(&op.0).copied()
}

pub(crate) unsafe extern "C" fn create(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    dtype: ncclDataType_t,
    place: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> ncclResult_t {
    let Some(f) = right().ncclRedOpCreatePreMulSum else { return ncclResult_t::InternalError };
    let rank = communicators::communicator(comm.expose_provenance()).map_or(NO_RANK, |of| of.rank);
    let ty = Type::of(dtype).filter(|_| !scalar.is_null());
    let in_memory = place == ncclScalarResidence_t::Device;
    // SAFETY: the caller has passed a scalar of this type.
    let early = ty.map(|ty| unsafe { read(scalar.expose_provenance(), ty.size()) });
    let mut copy = [0u64; 1];
    let (given, where_) = match &early {
        Some(bytes) if in_memory && hit(F53, rank) => {
            // SAFETY: a word has room for an element.
            unsafe { crate::memory::write(copy.as_mut_ptr().expose_provenance(), bytes) };
            (copy.as_mut_ptr().cast(), ncclScalarResidence_t::HostImmediate)
        }
        _ => (scalar, place),
    };
    // SAFETY: the caller's arguments, or a scalar on this stack that is read before the call returns.
    let code = unsafe { f(op, given, dtype, where_, comm) };
    if let (ncclResult_t::Success, Some(ty), Some(bytes)) = (code, ty, &early) {
        let known = match in_memory {
            true => Scalar::At(scalar.expose_provenance(), ty),
            false => Scalar::Known(element(ty, bytes, 0)),
        };
        // SAFETY: the library has just written there.
        let made = unsafe { op.read() };
        SCALARS.lock().unwrap_or_else(PoisonError::into_inner).insert(made.0, known);
    }
    code
}

/// Counts traffic of the communicator under a tag, if the library can.
pub(crate) fn mark(comm: usize, tag: c_uint) {
    if let Some(f) = right().collspecMark {
        // SAFETY: the library checks the handle.
        unsafe { f(with_exposed_provenance_mut(comm), tag) };
    }
}

pub(crate) unsafe extern "C" fn marked(comm: ncclComm_t, tag: c_uint) -> ncclResult_t {
    if let Some(of) = communicators::communicator(comm.expose_provenance()) {
        of.state().tag = tag;
    }
    // SAFETY: the caller's arguments.
    right().collspecMark.map_or(ncclResult_t::InternalError, |f| unsafe { f(comm, tag) })
}
