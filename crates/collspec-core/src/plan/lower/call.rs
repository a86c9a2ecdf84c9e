//! The one place where a rank's operation becomes the call that a worker makes.
use super::super::rank_op::{Placed, RankMessage, RankOneSided, RankOp, Size};
use super::super::types::{Buffer, Reduction};
use super::narrow;
use crate::job::{CallKind, MapRead, Ptr, Red, Signal};
use crate::num::{self, DType};
use crate::ops::OneSided;

/// The pointers that a call passes.
#[derive(Debug)]
pub struct Pointers {
    /// A pointer for each memory that calls of this kind read.
    pub reads: Vec<Ptr>,
    pub write: Ptr,
    /// The place of a premul_sum's factor in device memory, if it is there.
    pub factor: Option<Ptr>,
    /// True if the operator with the factor is destroyed before the call.
    pub destroyed_operator: bool,
    /// The window that a put writes, and the byte in it.
    pub window: Option<(u32, u64)>,
}

impl Pointers {
    /// The memory of a call that reads at one place and writes at another.
    pub fn new(read: Ptr, write: Ptr) -> Self {
        Self { reads: vec![read], write, factor: None, destroyed_operator: false, window: None }
    }

    fn read(&self) -> Ptr {
        self.reads.first().copied().unwrap_or(Ptr::Null)
    }
}

/// The call of a rank's operation.
pub fn call_of(op: &RankOp<Placed>, pointers: &Pointers, buffers: &[Buffer]) -> CallKind {
    match op {
        RankOp::Collective(c) => CallKind::Collective {
            call: c.op.call,
            send: pointers.read(),
            recv: pointers.write,
            count: c.size.count,
            dtype: c.size.dtype,
            red: reduction(c.reduction.as_ref(), c.size.dtype, pointers),
            root: c.root,
            comm: c.comm as u32,
            stream: c.stream,
            algorithm: c.algorithm.as_ref().filter(|asked| !asked.by_variables).map(|asked| asked.choice.clone()),
        },
        RankOp::Send(message) => {
            let RankMessage { size, peer, comm, stream, .. } = message;
            let (ptr, comm) = (pointers.read(), *comm as u32);
            CallKind::Send { ptr, count: size.count, dtype: size.dtype, peer: *peer, comm, stream: *stream }
        }
        RankOp::Recv(message) => {
            let RankMessage { size, peer, comm, stream, .. } = message;
            let (ptr, comm) = (pointers.write, *comm as u32);
            CallKind::Recv { ptr, count: size.count, dtype: size.dtype, peer: *peer, comm, stream: *stream }
        }
        RankOp::OneSided(op) => one_sided(op, pointers),
        RankOp::Map(map) => {
            let reads = map.reads.iter().zip(&pointers.reads).map(|(region, ptr)| {
                let buffer = &buffers[region.buf];
                MapRead { name: buffer.name.clone(), ptr: *ptr, count: region.len, dtype: buffer.dtype }
            });
            CallKind::Map {
                expr: (*map.expr).clone(),
                names: map.names.to_vec(),
                reads: reads.collect(),
                out: pointers.write,
                count: map.size.count,
                dtype: map.size.dtype,
                stream: map.stream,
            }
        }
    }
}

fn one_sided(op: &RankOneSided<Placed>, pointers: &Pointers) -> CallKind {
    let call_flags = u32::try_from(op.flags).unwrap_or(u32::MAX);
    let signal = Signal { index: narrow(op.signal_index), context: narrow(op.context), call_flags };
    let (comm, stream) = (op.comm as u32, op.stream);
    let peer = op.peers.first().map_or(0, |(peer, _)| *peer);
    match op.kind {
        OneSided::Put => {
            let (window, offset) = pointers.window.map_or((None, 0), |(window, offset)| (Some(window), offset));
            let (ptr, Size { count, dtype }) = (pointers.read(), op.size);
            CallKind::Put { ptr, count, dtype, peer, window, offset, signal, comm, stream }
        }
        OneSided::Signal => CallKind::Signal { peer, signal, comm, stream },
        OneSided::WaitSignal => {
            let peers = op.peers.iter().map(|(peer, count)| (*peer, narrow(*count))).collect();
            CallKind::WaitSignal { peers, signal, comm, stream }
        }
    }
}

fn reduction(reduction: Option<&Reduction<u64>>, dtype: DType, pointers: &Pointers) -> Red {
    match reduction {
        None => Red::None,
        Some(Reduction::Builtin(op)) => Red::Builtin(op.0),
        Some(Reduction::PreMulSum(bits)) => {
            let (device, destroyed) = (pointers.factor, pointers.destroyed_operator);
            Red::PreMulSum { scalar: factor_bytes(dtype, *bits), device, destroyed }
        }
    }
}

/// The bytes of a factor in memory.
pub fn factor_bytes(dtype: DType, bits: u64) -> Vec<u8> {
    let mut bytes = vec![0; dtype.size()];
    num::put_element(dtype, &mut bytes, 0, bits);
    bytes
}
