//! RCCL's unit tests (ROCm/rocm-systems, `projects/rccl/test`, 2026): `common/PtrUnion.cpp` for inputs, arithmetic and
//! tolerances, `common/PrepDataFuncs.cpp` for what is expected, `common/CollectiveArgs.cpp` for who is looked at,
//! `common/TestBed.cpp` for the order of things.
//!
//! An integer is (rank + element) modulo 256, a float the reciprocal of one more than that; fp8 takes the element modulo 16 and
//! forgets the rank. What is expected is computed in rank order in the type, or through f32. Integers must be equal; f16, bf16
//! and fp8 may be 0.09 off, f32 1e-5, f64 1e-12, whatever the value. Looked at: the results of all ranks, of the root alone for
//! reduce and gather (since rocm-systems#7703 of June 2026; before that of the root alone for broadcast and scatter too).
//!
//! Not looked at: guards, inputs, ranks off the root. Zero counts are for send and receive alone. Buffers are never shifted.
//! Benefits of the doubt: every operation with every type and reduction; any world size and root; premultiplied sums
//! in every type (the suite: all_reduce of f32); in-place reduce_scatter in NCCL's layout (the suite lays the result over the start
//! of the input). A ring of messages is run as the pairs one after the other that the suite runs.
use super::floats::{Fold, distance, divide, fold, is_avg, round};
use super::recipe::{Counts, Reducing, SingleOperation};
use super::{Call, Refused, Sight, Spot, Suite};
use crate::num::{DType, encode_int};
use crate::ops::{Composite, Kind, NcclCall};
use crate::plan::Reduction;

/// See the module.
pub(super) struct Rccl;

/// How far a result may be from the expected one.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::Bf16 | DType::F8e4m3 | DType::F8e5m2 => 9e-2,
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
        _ => 0.0,
    }
}

/// An element of the pattern.
pub(super) fn pattern(dtype: DType, rank: usize, index: u64) -> u64 {
    let whole = match dtype {
        DType::F8e4m3 | DType::F8e5m2 => index % 16,
        _ => (rank as u64 + index) % 256,
    };
    match dtype {
        DType::F64 => (1.0 / (whole as f64 + 1.0)).to_bits(),
        _ if dtype.is_float() => round(dtype, 1.0 / (whole as f64 + 1.0)),
        _ => encode_int(dtype, i128::from(whole)),
    }
}

impl Suite for Rccl {
    fn adapt(&self, mut recipe: SingleOperation) -> Result<SingleOperation, Refused> {
        recipe.offset = 0;
        match recipe.op.kind {
            Kind::Collective(_) | Kind::Composite(Composite::AllGatherV | Composite::AllToAllV) => {}
            Kind::SendRecv => {
                let Counts::Same(_) = recipe.counts else { return Err(Refused::Program) };
                let pair = |from: usize| {
                    let to = (from + 1) % recipe.n;
                    format!(
                        "{{ op = \"send\", in = \"x\", peer = {to}, ranks = [{from}] }}, {{ op = \"recv\", out = \"y{to}\", \
                         peer = {from}, ranks = [{to}] }}, {{ op = \"wait\" }}"
                    )
                };
                if recipe.n < 2 {
                    return Err(Refused::Lacks("a message to oneself"));
                }
                let pairs: Vec<String> = (0..recipe.n).map(pair).collect();
                recipe.steps = Some(format!("[{}]", pairs.join(", ")));
                return Ok(recipe);
            }
            _ => return Err(Refused::Lacks(recipe.op.name)),
        }
        if recipe.counts.empty() {
            return Err(Refused::Zero);
        }
        if let Some(Reducing::PreMulSum(scalar, _)) = &mut recipe.reduce {
            "rank".clone_into(scalar);
        }
        Ok(recipe)
    }

    fn blank(&self) -> u8 {
        0
    }

    fn input(&self, call: &Call<'_>, spot: Spot) -> u64 {
        pattern(call.dtype, spot.rank, spot.index)
    }

    fn reduced(&self, call: &Call<'_>, _: u64, inputs: &[u64]) -> u64 {
        let Some(reduce) = call.reduce else { return 0 };
        let scaled = |(rank, bits): (usize, &u64)| match reduce {
            Reduction::PreMulSum(scalars) => {
                fold(call.dtype, Fold::Prod, *bits, scalars.get(rank).copied().unwrap_or(0))
            }
            Reduction::Builtin(_) => *bits,
        };
        let column = inputs.iter().enumerate().map(scaled);
        let total = column.reduce(|a, b| fold(call.dtype, Fold::of(reduce), a, b)).unwrap_or(0);
        if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
    }

    fn sight(&self, call: &Call<'_>, rank: usize) -> Sight {
        match &call.op.kind {
            Kind::Collective(c) if matches!(c.call, NcclCall::Reduce | NcclCall::Gather) && rank != call.root => {
                Sight::Nothing
            }
            _ => Sight::Result,
        }
    }

    fn accepts(&self, call: &Call<'_>, want: u64, got: u64) -> bool {
        if call.dtype.is_float() { distance(call.dtype, want, got) < tolerance(call.dtype) } else { want == got }
    }

    fn sweep(&self) -> Vec<(String, String)> {
        super::sweep::rccl()
    }
}
