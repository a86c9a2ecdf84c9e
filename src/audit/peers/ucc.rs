//! UCC's gtests (openucx/ucc, `test/gtest`, 2026): `core/test_mc_reduce.h` for types and comparison of reductions,
//! `coll/test_OPERATION.cc` for inputs and who is looked at, `common/test_ucc.h` for all_to_all's bytes.
//!
//! Reductions take (element + rank + 1) modulo 8, which for bf16 is the bit pattern and not the number: values below 1e-38. What is
//! expected is computed in rank order. Integers must be equal; f32 and f64 are compared as f32 and may be 4 units off; bf16
//! may be 1e-33 off. all_gather moves one byte per rank, the rank itself; gather the byte (byte + rank) modulo 256;
//! broadcast the byte's number; all_to_all a function of source, target and place. Looked at: every rank's result; of reduce and
//! gather the root's; of broadcast the root's own buffer, once per receiver (`data_validate` in `coll/test_bcast.cc`).
//!
//! Not run: scatter (its tests are skipped), send and receive, premultiplied sums, f16 and fp8 in reductions, averages of
//! integers, zero counts but in all_to_all_v. reduce has root 0, gather 0 or 1. Buffers are never shifted. Benefits of the doubt: every
//! reduction with every type that the comparison knows, though the suite runs some pairs only; memory that the suite leaves as it was allocated
//! never holds what is right.
use super::floats::{Fold, distance, divide, fold, is_avg};
use super::recipe::{Reducing, SingleOperation};
use super::{Call, Refused, Sight, Spot, Suite};
use crate::num::{DType, decode_f64, encode_int};
use crate::ops::{Composite, Kind, NcclCall};
use nccl_sys::ncclRedOp_t;

/// See the module.
pub(super) struct Ucc;

/// How far a bf16 may be off; all inputs are far smaller.
pub(super) const BF16_NEAR: f64 = 1e-33;
/// Units of the last place that two floats may be apart (gtest's `FLOAT_EQ`).
const UNITS: u32 = 4;

/// An element of a reduction's input.
pub(super) fn value(dtype: DType, rank: usize, index: u64) -> u64 {
    let whole = (index + rank as u64 + 1) % 8;
    // bf16 is handled as a 16-bit integer
    if dtype == DType::Bf16 { whole } else { encode_int(dtype, i128::from(whole)) }
}

/// Bytes of an element, by their place in the buffer.
fn bytes(dtype: DType, first: u64, byte: impl Fn(u64) -> u8) -> u64 {
    (0..dtype.size() as u64).fold(0, |bits, i| bits | u64::from(byte(first + i)) << (8 * i))
}

impl Suite for Ucc {
    fn adapt(&self, mut recipe: SingleOperation) -> Result<SingleOperation, Refused> {
        recipe.offset = 0;
        match &recipe.op.kind {
            Kind::Collective(c) => match c.call {
                NcclCall::Scatter => return Err(Refused::Lacks("scatter")),
                NcclCall::Reduce => recipe.root = 0,
                NcclCall::Gather => recipe.root = recipe.root.min(1),
                _ => {}
            },
            Kind::Composite(Composite::AllGatherV | Composite::AllToAllV) => {}
            _ => return Err(Refused::Lacks(recipe.op.name)),
        }
        let float = matches!(recipe.dtype, DType::F32 | DType::F64 | DType::Bf16);
        match &recipe.reduce {
            _ if matches!(recipe.dtype, DType::F8e4m3 | DType::F8e5m2) => return Err(Refused::Lacks("fp8")),
            None => {}
            Some(Reducing::PreMulSum(..)) => return Err(Refused::Lacks("premultiplied sums")),
            Some(_) if recipe.dtype == DType::F16 => return Err(Refused::Lacks("reductions of f16")),
            Some(Reducing::Builtin(ncclRedOp_t::Avg)) if !float => {
                return Err(Refused::Lacks("averages of integers"));
            }
            Some(Reducing::Builtin(_)) => {}
        }
        if recipe.counts.empty() {
            return Err(Refused::Zero);
        }
        Ok(recipe)
    }

    fn blank(&self) -> u8 {
        0xa5
    }

    fn input(&self, call: &Call<'_>, spot: Spot) -> u64 {
        if call.reduce.is_some() {
            return value(call.dtype, spot.rank, spot.index);
        }
        let size = call.dtype.size() as u64;
        let (from, to) = (spot.rank as u64, spot.to as u64);
        let collective = if let Kind::Collective(c) = &call.op.kind { Some(c.call) } else { None };
        match (collective, call.op.name) {
            (Some(NcclCall::AlltoAll), _) | (None, "all_to_all_v") => {
                // all_to_all exchanges the roles of the two ranks
                let (a, b) = if collective.is_some() { (to, from) } else { (from, to) };
                let len = spot.piece * size;
                bytes(call.dtype, spot.within * size, |i| ((a + len - i) * (b + 1) % 255) as u8)
            }
            (Some(NcclCall::Gather), _) => bytes(call.dtype, spot.index * size, |i| (i + from) as u8),
            (Some(NcclCall::Broadcast), "broadcast") => bytes(call.dtype, spot.index * size, |i| i as u8),
            _ => bytes(call.dtype, spot.index * size, |_| from as u8),
        }
    }

    fn reduced(&self, call: &Call<'_>, _: u64, inputs: &[u64]) -> u64 {
        let Some(reduce) = call.reduce else { return 0 };
        let column = inputs.iter().copied();
        let total = column.reduce(|a, b| fold(call.dtype, Fold::of(reduce), a, b)).unwrap_or(0);
        if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
    }

    fn sight(&self, call: &Call<'_>, rank: usize) -> Sight {
        match &call.op.kind {
            Kind::Collective(c) if c.call == NcclCall::Broadcast && call.op.name == "broadcast" => Sight::RootsInput,
            Kind::Collective(c) if !c.writers.includes(rank, call.root) => Sight::Nothing,
            _ => Sight::Result,
        }
    }

    fn accepts(&self, call: &Call<'_>, want: u64, got: u64) -> bool {
        match call.dtype {
            _ if call.reduce.is_none() => want == got,
            DType::Bf16 => distance(DType::Bf16, want, got) <= BF16_NEAR,
            DType::F32 | DType::F64 => near(decode_f64(call.dtype, want) as f32, decode_f64(call.dtype, got) as f32),
            _ => want == got,
        }
    }

    fn sweep(&self) -> Vec<(String, String)> {
        super::sweep::ucc()
    }
}

/// Neither is a NaN, and they are at most four numbers apart.
fn near(a: f32, b: f32) -> bool {
    let place = |v: f32| {
        let bits = i64::from(v.to_bits() & 0x7fff_ffff);
        if v.is_sign_negative() { -bits } else { bits }
    };
    !a.is_nan() && !b.is_nan() && place(a).abs_diff(place(b)) <= u64::from(UNITS)
}
