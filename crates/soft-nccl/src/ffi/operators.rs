//! Reduction operators created by the caller.
#![allow(unsafe_code)] // exported C functions

use super::{check, enter, write};
use crate::arith::Scalar;
use crate::engine::lock;
use crate::failure::Failure;
use crate::op::PreMul;
use nccl_sys::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclScalarResidence_t};
use std::ffi::c_void;

unsafe extern "C" fn create_pre_mul_sum(
    op: *mut ncclRedOp_t,
    scalar: *mut c_void,
    dtype: ncclDataType_t,
    residence: ncclScalarResidence_t,
    comm: ncclComm_t,
) -> ncclResult_t {
    enter(|| {
        lock().comms.member(comm)?;
        let ty = check::dtype(dtype)?;
        if op.is_null() || scalar.is_null() {
            return Err(Failure::argument("the place for the operator, or the scalar, is null"));
        }
        let premul = match residence {
            ncclScalarResidence_t::HostImmediate => {
                let mut value = Scalar::default();
                // SAFETY: NCCL's contract: one readable element of the type.
                unsafe { std::ptr::copy_nonoverlapping(scalar.cast::<u8>(), value.as_mut_ptr(), ty.size()) };
                PreMul::Value(value)
            }
            ncclScalarResidence_t::Device => PreMul::Device(scalar as usize),
            other => return Err(Failure::argument(format!("{} is not a place for a scalar", other.0))),
        };
        let number = lock().comms.create_op(comm, ty, premul)?;
        // SAFETY: NCCL's contract: a place for an operator.
        unsafe { write(op, ncclRedOp_t(number), "the operator") }
    })
}

unsafe extern "C" fn destroy(op: ncclRedOp_t, comm: ncclComm_t) -> ncclResult_t {
    enter(|| lock().comms.destroy_op(comm, op.0))
}

pub(super) fn fill(table: &mut Nccl) {
    table.ncclRedOpCreatePreMulSum = Some(create_pre_mul_sum);
    table.ncclRedOpDestroy = Some(destroy);
}
