//! Many ranks, and much data: what must not take long.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use std::time::Instant;

const I32: ncclDataType_t = ncclDataType_t::Int32;
const OK: ncclResult_t = ncclResult_t::Success;

#[test]
fn a_thousand_ranks_in_every_pattern() {
    let n = 1024usize;
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&vec![r as i32; n])).collect();
    let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![-1i32; n])).collect();
    let timed = |what: &str, call: &dyn Fn(usize, ncclComm_t, cudaStream_t) -> ncclResult_t| {
        let start = Instant::now();
        world.run(call);
        eprintln!("{what}: {:?}", start.elapsed());
    };
    let first = |r: usize| out[r].get::<i32>();
    timed("all_gather", &|r, c, s| nccl!(ncclAllGather(data[r].at(0), out[r].at(0), 1, I32, c, s)));
    assert!((0..n).all(|r| first(r) == (0..n as i32).collect::<Vec<_>>()));
    timed("all_to_all", &|r, c, s| nccl!(ncclAlltoAll(data[r].at(0), out[r].at(0), 1, I32, c, s)));
    assert!((0..n).all(|r| first(r) == (0..n as i32).collect::<Vec<_>>()));
    timed("gather", &|r, c, s| nccl!(ncclGather(data[r].at(0), out[r].at(0), 1, I32, 3, c, s)));
    timed("scatter", &|r, c, s| nccl!(ncclScatter(data[r].at(0), out[r].at(0), 1, I32, 1000, c, s)));
    assert!((0..n).all(|r| first(r)[0] == 1000));
    timed("broadcast", &|r, c, s| nccl!(ncclBroadcast(data[r].at(0), out[r].at(0), n, I32, 9, c, s)));
    assert!((0..n).all(|r| first(r) == vec![9; n]));
    let (mut children, half) = (vec![std::ptr::null_mut(); n], n / 2);
    let start = Instant::now();
    assert_eq!(nccl!(ncclGroupStart()), OK);
    for (r, child) in children.iter_mut().enumerate() {
        let key = (n - r) as i32;
        assert_eq!(nccl!(ncclCommSplit(world.comms[r], (r % 2) as i32, key, child, std::ptr::null_mut())), OK);
    }
    assert_eq!(nccl!(ncclGroupEnd()), OK);
    eprintln!("split: {:?}", start.elapsed());
    timed("half each", &|r, _, s| {
        nccl!(ncclAllReduce(data[r].at(0), out[r].at(0), 1, I32, ncclRedOp_t::Sum, children[r], s))
    });
    assert_eq!(first(0)[0], (half * (half - 1)) as i32);
    assert_eq!(first(1)[0], (half * (half - 1) + half) as i32);
    children.iter().for_each(|child| assert_eq!(nccl!(ncclCommDestroy(*child)), OK));
    world.destroy();
}

#[test]
fn a_thousand_threads() {
    let n = 1024;
    let mut id = ncclUniqueId { internal: [0; 128] };
    assert_eq!(nccl!(ncclGetUniqueId(&mut id)), OK);
    let start = Instant::now();
    std::thread::scope(|scope| {
        for rank in 0..n {
            let run = move || {
                let mut comm = std::ptr::null_mut();
                assert_eq!(nccl!(ncclCommInitRank(&mut comm, n, id, rank)), OK);
                let stream = gpuless_device::Stream::new();
                let data = Buffer::of(&[rank]);
                let d = data.at(0);
                assert_eq!(nccl!(ncclAllReduce(d, d, 1, I32, ncclRedOp_t::Sum, comm, stream.raw())), OK);
                stream.synchronize();
                assert_eq!(data.get::<i32>(), [n * (n - 1) / 2]);
                assert_eq!(nccl!(ncclCommDestroy(comm)), OK);
            };
            std::thread::Builder::new().stack_size(1 << 18).spawn_scoped(scope, run).expect("thread");
        }
    });
    eprintln!("threads: {:?}", start.elapsed());
}

#[test]
fn megabytes_flow() {
    let (n, count) = (4usize, 4usize << 20);
    let world = World::new(n);
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&vec![r as f32; count])).collect();
    for (name, dtype, elements) in
        [("f32", 7, count), ("f16", 6, 2 * count), ("f64", 8, count / 2), ("f8e4m3", 10, 4 * count)]
    {
        let start = Instant::now();
        world.run(|r, c, s| {
            let (d, dtype) = (data[r].at(0), ncclDataType_t(dtype));
            nccl!(ncclAllReduce(d, d, elements, dtype, ncclRedOp_t::Max, c, s))
        });
        eprintln!("{name}: {:?} for 16 MiB on 4 ranks", start.elapsed());
    }
    assert_eq!(data[0].get::<u8>(), data[3].get::<u8>());
    world.destroy();
}
