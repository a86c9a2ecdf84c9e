//! Every operation, out of place and in place, against expected values: run under each setting.
use super::values::{encode_all, is_float, size};
use super::{Buffer, World, last_error};
use crate::nccl;
use nccl_sys::*;
use std::ffi::c_void;

pub const DTYPES: [i32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const POISON: u8 = 0xa5;

/// Input of rank r at element i: small enough for eight bits, different by rank and element.
fn input(op: ncclRedOp_t, r: usize, i: usize) -> f64 {
    match op {
        ncclRedOp_t::Prod => 1.0 + ((r + i) % 2) as f64,
        ncclRedOp_t::Max | ncclRedOp_t::Min => ((3 * r + i) % 8) as f64,
        _ => ((r * r + i) % 3 % 2) as f64,
    }
}

fn reduced(op: ncclRedOp_t, n: usize, i: usize, float: bool) -> f64 {
    let all = (0..n).map(|r| input(op, r, i));
    match op {
        ncclRedOp_t::Sum => all.sum(),
        ncclRedOp_t::Prod => all.product(),
        ncclRedOp_t::Max => all.fold(f64::NEG_INFINITY, f64::max),
        ncclRedOp_t::Min => all.fold(f64::INFINITY, f64::min),
        _ if float => all.sum::<f64>() / n as f64,
        _ => (all.sum::<f64>() / n as f64).trunc(),
    }
}

fn row(op: ncclRedOp_t, r: usize, len: usize, dtype: ncclDataType_t) -> Vec<u8> {
    encode_all((0..len).map(|i| input(op, r, i)), dtype)
}

struct Case<'a> {
    world: &'a World,
    dtype: ncclDataType_t,
    count: usize,
}

type Call<'a> = dyn Fn(usize, *const c_void, *mut c_void, ncclComm_t, cudaStream_t) -> ncclResult_t + 'a;

impl Case<'_> {
    /// Runs a call out of place and checks outputs, inputs and what must stay untouched.
    fn out_of_place(&self, what: &str, inputs: Vec<Vec<u8>>, expected: Vec<Option<Vec<u8>>>, out: usize, call: &Call) {
        let sends: Vec<Buffer> = inputs.iter().map(|bytes| Buffer::new(bytes)).collect();
        let recvs: Vec<Buffer> = inputs.iter().map(|_| Buffer::new(&vec![POISON; out * size(self.dtype)])).collect();
        self.world.run(|r, comm, stream| call(r, sends[r].at(0), recvs[r].at(0), comm, stream));
        for (r, expected) in expected.into_iter().enumerate().filter(|(r, _)| self.world.here.contains(r)) {
            let expected = expected.unwrap_or_else(|| vec![POISON; out * size(self.dtype)]);
            let (n, dtype, count) = (self.world.n(), self.dtype, self.count);
            assert!(recvs[r].get::<u8>() == expected, "{what} n={n} {dtype:?} x{count}, rank {r}");
            assert!(sends[r].get::<u8>() == inputs[r], "{what} n={n} {dtype:?}: input of rank {r} changed");
        }
    }

    /// Runs a call in place: each rank has one buffer; the call gets it as both.
    fn in_place(&self, what: &str, contents: Vec<Vec<u8>>, expected: Vec<Vec<u8>>, call: &Call) {
        let buffers: Vec<Buffer> = contents.iter().map(|bytes| Buffer::new(bytes)).collect();
        self.world.run(|r, comm, stream| call(r, buffers[r].at(0), buffers[r].at(0), comm, stream));
        for (r, expected) in expected.into_iter().enumerate().filter(|(r, _)| self.world.here.contains(r)) {
            let (n, dtype, count) = (self.world.n(), self.dtype, self.count);
            assert!(buffers[r].get::<u8>() == expected, "{what} in place n={n} {dtype:?} x{count}, rank {r}");
        }
    }

    fn all(&self) {
        let float = is_float(self.dtype);
        for op in [ncclRedOp_t::Sum, ncclRedOp_t::Prod, ncclRedOp_t::Max, ncclRedOp_t::Min, ncclRedOp_t::Avg] {
            // 1/n is exact only for powers of two.
            if op != ncclRedOp_t::Avg || !float || self.world.n().is_power_of_two() {
                self.reductions(op);
            }
        }
        self.movements();
    }

    fn reductions(&self, op: ncclRedOp_t) {
        let (n, count, dtype) = (self.world.n(), self.count, self.dtype);
        let float = is_float(dtype);
        let answer = |from: usize, len: usize| encode_all((from..from + len).map(|i| reduced(op, n, i, float)), dtype);
        let rows = |len: usize| (0..n).map(|r| row(op, r, len, dtype)).collect::<Vec<_>>();

        let all_reduce: &Call = &|_, s, r, comm, stream| nccl!(ncclAllReduce(s, r, count, dtype, op, comm, stream));
        self.out_of_place("all_reduce", rows(count), vec![Some(answer(0, count)); n], count, all_reduce);
        self.in_place("all_reduce", rows(count), vec![answer(0, count); n], all_reduce);

        for root in [0, n / 2, n - 1] {
            let reduce: &Call =
                &|_, s, r, comm, stream| nccl!(ncclReduce(s, r, count, dtype, op, root as i32, comm, stream));
            let expected = (0..n).map(|r| (r == root).then(|| answer(0, count))).collect();
            self.out_of_place("reduce", rows(count), expected, count, reduce);
            let expected =
                (0..n).map(|r| if r == root { answer(0, count) } else { row(op, r, count, dtype) }).collect();
            self.in_place("reduce", rows(count), expected, reduce);
        }

        let scatter: &Call = &|_, s, r, comm, stream| nccl!(ncclReduceScatter(s, r, count, dtype, op, comm, stream));
        let expected = (0..n).map(|r| Some(answer(r * count, count))).collect();
        self.out_of_place("reduce_scatter", rows(n * count), expected, count, scatter);
        let width = count * size(dtype);
        let in_place: &Call =
            &|rank, s, r, comm, stream| scatter(rank, s, r.wrapping_byte_add(rank * width), comm, stream);
        let expected = (0..n).map(|r| {
            let mut bytes = row(op, r, n * count, dtype);
            bytes[r * width..(r + 1) * width].copy_from_slice(&answer(r * count, count));
            bytes
        });
        self.in_place("reduce_scatter", rows(n * count), expected.collect(), in_place);
    }

    fn movements(&self) {
        let (n, count, dtype) = (self.world.n(), self.count, self.dtype);
        let width = count * size(dtype);
        // Any bytes will do, also those that arithmetic would change.
        let bytes = |r: usize, len: usize| (0..len).map(|i| (r * 41 + i * 7 + 3) as u8).collect::<Vec<u8>>();
        let rows = |len: usize| (0..n).map(|r| bytes(r, len)).collect::<Vec<_>>();

        for root in [0, n / 2, n - 1] {
            let to = root as i32;
            let broadcast: &Call = &|_, s, r, comm, stream| nccl!(ncclBroadcast(s, r, count, dtype, to, comm, stream));
            self.out_of_place("broadcast", rows(width), vec![Some(bytes(root, width)); n], count, broadcast);
            let bcast: &Call = &|_, _, r, comm, stream| nccl!(ncclBcast(r, count, dtype, to, comm, stream));
            self.in_place("bcast", rows(width), vec![bytes(root, width); n], bcast);

            let gather: &Call = &|_, s, r, comm, stream| nccl!(ncclGather(s, r, count, dtype, to, comm, stream));
            let expected = (0..n).map(|r| (r == root).then(|| rows(width).concat())).collect();
            self.out_of_place("gather", rows(width), expected, n * count, gather);

            let scatter: &Call = &|_, s, r, comm, stream| nccl!(ncclScatter(s, r, count, dtype, to, comm, stream));
            let block = |r: usize| bytes(root, n * width)[r * width..(r + 1) * width].to_vec();
            self.out_of_place("scatter", rows(n * width), (0..n).map(|r| Some(block(r))).collect(), count, scatter);
        }

        let all_gather: &Call = &|_, s, r, comm, stream| nccl!(ncclAllGather(s, r, count, dtype, comm, stream));
        self.out_of_place("all_gather", rows(width), vec![Some(rows(width).concat()); n], n * count, all_gather);
        let in_place: &Call =
            &|rank, s, r, comm, stream| all_gather(rank, s.wrapping_byte_add(rank * width), r, comm, stream);
        let contents = (0..n).map(|r| {
            let mut all = vec![POISON; n * width];
            all[r * width..(r + 1) * width].copy_from_slice(&bytes(r, width));
            all
        });
        self.in_place("all_gather", contents.collect(), vec![rows(width).concat(); n], in_place);

        let all_to_all: &Call = &|_, s, r, comm, stream| nccl!(ncclAlltoAll(s, r, count, dtype, comm, stream));
        let expected = (0..n).map(|r| {
            Some((0..n).flat_map(|from| bytes(from, n * width)[r * width..(r + 1) * width].to_vec()).collect())
        });
        self.out_of_place("all_to_all", rows(n * width), expected.collect(), n * count, all_to_all);

        let ring: &Call = &|rank, s, r, comm, stream| {
            let (next, previous) = ((rank + 1) % n, (rank + n - 1) % n);
            let sent = nccl!(ncclSend(s, count, dtype, next as i32, comm, stream));
            assert_eq!(sent, ncclResult_t::Success, "{}", last_error());
            nccl!(ncclRecv(r, count, dtype, previous as i32, comm, stream))
        };
        let expected = (0..n).map(|r| Some(bytes((r + n - 1) % n, width))).collect();
        self.out_of_place("send_recv", rows(width), expected, count, ring);
    }
}

/// Every operation for the given numbers of ranks, counts and types.
pub fn every_operation(ranks: impl IntoIterator<Item = usize>, counts: &[usize], dtypes: &[i32]) {
    for n in ranks {
        let world = World::new(n);
        every_operation_on(&world, counts, dtypes);
        world.destroy();
    }
}

/// Every operation on a communicator.
pub fn every_operation_on(world: &World, counts: &[usize], dtypes: &[i32]) {
    for count in counts {
        for dtype in dtypes {
            Case { world, dtype: ncclDataType_t(*dtype), count: *count }.all();
        }
    }
}
