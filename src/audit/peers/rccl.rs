//! RCCL's unit tests (ROCm/rocm-systems, `projects/rccl/test`, 2026): `common/PtrUnion.cpp` for inputs, arithmetic and
//! tolerances, `common/PrepDataFuncs.cpp` for what is expected, `common/CollectiveArgs.cpp` for the ranks that are compared,
//! `common/TestBed.cpp` for the order of operations.
//!
//! An integer is (rank + element) modulo 256, a float the reciprocal of one more than that; fp8 takes the element modulo 16 and
//! forgets the rank. What is expected is computed in rank order in the type, or through f32. Integers must be equal; f16, bf16
//! and fp8 may differ by 0.09, f32 by 1e-5 and f64 by 1e-12, all absolute. Compared: the results of all ranks, of the root alone for
//! reduce and gather (since rocm-systems#7703 of June 2026; before that of the root alone for broadcast and scatter too).
//!
//! Not compared: guards, inputs, ranks other than the root. Only send and receive have zero counts. Buffers are never
//! shifted. In favour of the suite the model runs every operation with every type and reduction; any world size and root; premultiplied sums
//! in every type (the suite: all_reduce of f32); in-place reduce_scatter in NCCL's layout (the suite lays the result over the start
//! of the input). A ring of messages is run as the pairs one after the other that the suite runs.
use super::floats::{FoldOp, distance, divide, fold, is_avg, round};
use super::single_operation::{OperationCounts, OperationReduction, SingleOperation};
use super::{CheckedPart, ElementPosition, NotRunnable, OperationCall, PeerSuite};
use crate::num::{DType, encode_int};
use crate::ops::{Composite, Kind, NcclCall};
use crate::plan::Reduction;

/// RCCL's unit tests; the module describes the model.
pub(super) struct Rccl;

/// The largest accepted difference between a result and the expected one.
pub(super) fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::Bf16 | DType::F8e4m3 | DType::F8e5m2 => 9e-2,
        DType::F32 => 1e-5,
        DType::F64 => 1e-12,
        _ => 0.0,
    }
}

/// The bits of an input element.
pub(super) fn pattern_bits(dtype: DType, rank: usize, index: u64) -> u64 {
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

impl PeerSuite for Rccl {
    fn adapt(&self, mut operation: SingleOperation) -> Result<SingleOperation, NotRunnable> {
        operation.offset = 0;
        match operation.op.kind {
            Kind::Collective(_) | Kind::Composite(Composite::AllGatherV | Composite::AllToAllV) => {}
            Kind::SendRecv => {
                let OperationCounts::Same(_) = operation.counts else { return Err(NotRunnable::NotOneOperation) };
                let pair = |from: usize| {
                    let to = (from + 1) % operation.n;
                    format!(
                        "{{ op = \"send\", in = \"x\", peer = {to}, ranks = [{from}] }}, {{ op = \"recv\", out = \"y{to}\", \
                         peer = {from}, ranks = [{to}] }}, {{ op = \"wait\" }}"
                    )
                };
                if operation.n < 2 {
                    return Err(NotRunnable::NoSuchTest("a message to oneself"));
                }
                let pairs: Vec<String> = (0..operation.n).map(pair).collect();
                operation.steps = Some(format!("[{}]", pairs.join(", ")));
                return Ok(operation);
            }
            _ => return Err(NotRunnable::NoSuchTest(operation.op.name)),
        }
        if operation.counts.all_zero() {
            return Err(NotRunnable::ZeroCount);
        }
        if let Some(OperationReduction::PreMulSum(scalar, _)) = &mut operation.reduce {
            "rank".clone_into(scalar);
        }
        Ok(operation)
    }

    fn output_fill_byte(&self) -> u8 {
        0
    }

    fn input_bits(&self, call: &OperationCall<'_>, position: ElementPosition) -> u64 {
        pattern_bits(call.dtype, position.rank, position.index)
    }

    fn expected_reduction(&self, call: &OperationCall<'_>, _: u64, inputs: &[u64]) -> u64 {
        let Some(reduce) = call.reduce else { return 0 };
        let scaled = |(rank, bits): (usize, &u64)| match reduce {
            Reduction::PreMulSum(scalars) => {
                fold(call.dtype, FoldOp::Prod, *bits, scalars.get(rank).copied().unwrap_or(0))
            }
            Reduction::Builtin(_) => *bits,
        };
        let column = inputs.iter().enumerate().map(scaled);
        let total = column.reduce(|a, b| fold(call.dtype, FoldOp::from_reduction(reduce), a, b)).unwrap_or(0);
        if is_avg(reduce) { divide(call.dtype, total, call.n) } else { total }
    }

    fn checked_part(&self, call: &OperationCall<'_>, rank: usize) -> CheckedPart {
        match &call.op.kind {
            Kind::Collective(c) if matches!(c.call, NcclCall::Reduce | NcclCall::Gather) && rank != call.root => {
                CheckedPart::Nothing
            }
            _ => CheckedPart::Result,
        }
    }

    fn accepts(&self, call: &OperationCall<'_>, want: u64, got: u64) -> bool {
        if call.dtype.is_float() { distance(call.dtype, want, got) < tolerance(call.dtype) } else { want == got }
    }

    fn own_programs(&self) -> Vec<(String, String)> {
        super::own_programs::rccl()
    }
}
