//! UCC's gtests (openucx/ucc, `test/gtest`, 2026): `core/test_mc_reduce.h` for types and comparison of reductions,
//! `coll/test_OPERATION.cc` for inputs and the ranks that are compared, `common/test_ucc.h` for all_to_all's bytes.
//!
//! Reductions take (element + rank + 1) modulo 8, which for bf16 is the bit pattern and not the number: values below 1e-38. What is
//! expected is computed in rank order. Integers must be equal; f32 and f64 are compared as f32 and may be 4 units off; bf16
//! may be 1e-33 off. all_gather moves one byte per rank, the rank itself; gather the byte (byte + rank) modulo 256;
//! broadcast the byte's number; all_to_all a function of source, target and place. Compared: every rank's result; of reduce and
//! gather the root's; of broadcast the root's own buffer, once per receiver (`data_validate` in `coll/test_bcast.cc`).
//!
//! Not run: scatter (its tests are skipped), send and receive, premultiplied sums, f16 and fp8 in reductions, averages of
//! integers, zero counts except in all_to_all_v. reduce has root 0, gather 0 or 1. Buffers are never shifted. In favour of
//! the suite the model runs every reduction with every type that the comparison knows, where the suite runs some pairs only,
//! and memory that the suite leaves as it was allocated never holds the right values.
use super::floats::{FoldOp, distance, divide, fold, is_avg};
use super::single_operation::{OperationReduction, SingleOperation};
use super::{CheckedPart, ElementPosition, NotRunnable, OperationCall, PeerSuite};
use crate::num::{DType, decode_f64, encode_int};
use crate::ops::{Composite, Kind, NcclCall};
use nccl_sys::ncclRedOp_t;

/// UCC's gtests; the module describes the model.
pub(super) struct Ucc;

/// The largest accepted difference of a bf16; all inputs are far smaller.
pub(super) const BF16_NEAR: f64 = 1e-33;
/// Largest accepted distance of two floats in units of the last place (gtest's `FLOAT_EQ`).
const MAX_UNITS_APART: u32 = 4;

/// An element of a reduction's input.
pub(super) fn reduction_input(dtype: DType, rank: usize, index: u64) -> u64 {
    let whole = (index + rank as u64 + 1) % 8;
    // bf16 is handled as a 16-bit integer
    if dtype == DType::Bf16 { whole } else { encode_int(dtype, i128::from(whole)) }
}

/// An element from its bytes, by their position in the buffer.
fn element_from_bytes(dtype: DType, first: u64, byte: impl Fn(u64) -> u8) -> u64 {
    (0..dtype.size() as u64).fold(0, |bits, i| bits | u64::from(byte(first + i)) << (8 * i))
}

impl PeerSuite for Ucc {
    fn adapt(&self, mut operation: SingleOperation) -> Result<SingleOperation, NotRunnable> {
        operation.offset = 0;
        match &operation.op.kind {
            Kind::Collective(c) => match c.call {
                NcclCall::Scatter => return Err(NotRunnable::NoSuchTest("scatter")),
                NcclCall::Reduce => operation.root = 0,
                NcclCall::Gather => operation.root = operation.root.min(1),
                _ => {}
            },
            Kind::Composite(Composite::AllGatherV | Composite::AllToAllV) => {}
            _ => return Err(NotRunnable::NoSuchTest(operation.op.name)),
        }
        let float = matches!(operation.dtype, DType::F32 | DType::F64 | DType::Bf16);
        match &operation.reduce {
            _ if matches!(operation.dtype, DType::F8e4m3 | DType::F8e5m2) => {
                return Err(NotRunnable::NoSuchTest("fp8"));
            }
            None => {}
            Some(OperationReduction::PreMulSum(..)) => return Err(NotRunnable::NoSuchTest("premultiplied sums")),
            Some(_) if operation.dtype == DType::F16 => return Err(NotRunnable::NoSuchTest("reductions of f16")),
            Some(OperationReduction::Builtin(ncclRedOp_t::Avg)) if !float => {
                return Err(NotRunnable::NoSuchTest("averages of integers"));
            }
            Some(OperationReduction::Builtin(_)) => {}
        }
        if operation.counts.all_zero() {
            return Err(NotRunnable::ZeroCount);
        }
        Ok(operation)
    }

    fn output_fill_byte(&self) -> u8 {
        0xa5
    }

    fn input_bits(&self, call: &OperationCall<'_>, position: ElementPosition) -> u64 {
        if call.reduce.is_some() {
            return reduction_input(call.dtype, position.rank, position.index);
        }
        let size = call.dtype.size() as u64;
        let (from, to) = (position.rank as u64, position.to as u64);
        let collective = if let Kind::Collective(c) = &call.op.kind { Some(c.call) } else { None };
        match (collective, call.op.name) {
            (Some(NcclCall::AlltoAll), _) | (None, "all_to_all_v") => {
                // all_to_all exchanges the roles of the two ranks
                let (a, b) = if collective.is_some() { (to, from) } else { (from, to) };
                let len = position.piece * size;
                element_from_bytes(call.dtype, position.within * size, |i| ((a + len - i) * (b + 1) % 255) as u8)
            }
            (Some(NcclCall::Gather), _) => element_from_bytes(call.dtype, position.index * size, |i| (i + from) as u8),
            (Some(NcclCall::Broadcast), "broadcast") => {
                element_from_bytes(call.dtype, position.index * size, |i| i as u8)
            }
            _ => element_from_bytes(call.dtype, position.index * size, |_| from as u8),
        }
    }

    fn expected_reduction(&self, call: &OperationCall<'_>, _: u64, inputs: &[u64]) -> u64 {
        let Some(reduce) = call.reduce else { return 0 };
        let column = inputs.iter().copied();
        let total = column.reduce(|a, b| fold(call.dtype, FoldOp::from_reduction(reduce), a, b)).unwrap_or(0);
        if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
    }

    fn checked_part(&self, call: &OperationCall<'_>, rank: usize) -> CheckedPart {
        match &call.op.kind {
            Kind::Collective(c) if c.call == NcclCall::Broadcast && call.op.name == "broadcast" => {
                CheckedPart::RootsInput
            }
            Kind::Collective(c) if !c.writers.includes(rank, call.root) => CheckedPart::Nothing,
            _ => CheckedPart::Result,
        }
    }

    fn accepts(&self, call: &OperationCall<'_>, want: u64, got: u64) -> bool {
        match call.dtype {
            _ if call.reduce.is_none() => want == got,
            DType::Bf16 => distance(DType::Bf16, want, got) <= BF16_NEAR,
            DType::F32 | DType::F64 => {
                nearly_equal(decode_f64(call.dtype, want) as f32, decode_f64(call.dtype, got) as f32)
            }
            _ => want == got,
        }
    }

    fn own_programs(&self) -> Vec<(String, String)> {
        super::own_programs::ucc()
    }
}

/// True if neither is a NaN and they are at most four numbers apart.
fn nearly_equal(a: f32, b: f32) -> bool {
    let place = |v: f32| {
        let bits = i64::from(v.to_bits() & 0x7fff_ffff);
        if v.is_sign_negative() { -bits } else { bits }
    };
    !a.is_nan() && !b.is_nan() && place(a).abs_diff(place(b)) <= u64::from(MAX_UNITS_APART)
}
