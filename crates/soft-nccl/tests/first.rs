//! all_reduce by ring over any number of ranks.
mod common;
use common::*;
use nccl_sys::*;

#[test]
fn ring_all_reduce() {
    for n in 1..=8usize {
        let world = World::new(n);
        for count in [0, 1, 2, 5, 1000, 70_001] {
            let sends: Vec<Buffer> =
                (0..n).map(|r| Buffer::of(&(0..count).map(|i| (r * 7 + i) as f32).collect::<Vec<_>>())).collect();
            let recvs: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![-1f32; count])).collect();
            world.mark(count as u32);
            world.run(|r, comm, stream| {
                nccl!(ncclAllReduce(
                    sends[r].at(0),
                    recvs[r].at(0),
                    count,
                    ncclDataType_t::Float32,
                    ncclRedOp_t::Sum,
                    comm,
                    stream
                ))
            });
            let expected: Vec<f32> = (0..count).map(|i| (0..n).map(|r| (r * 7 + i) as f32).sum()).collect();
            for recv in &recvs {
                assert_eq!(recv.get::<f32>(), expected);
            }
            for t in world.traffic(count as u32) {
                if count >= n {
                    assert_eq!(t.rounds, 2 * (n as u64 - 1));
                }
            }
        }
        world.destroy();
    }
}

#[test]
fn a_thousand_ranks() {
    let n = 1024;
    let start = std::time::Instant::now();
    let world = World::new(n);
    eprintln!("init {:?}", start.elapsed());
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&vec![r as u32; n])).collect();
    let start = std::time::Instant::now();
    world.run(|r, comm, stream| {
        nccl!(ncclAllReduce(data[r].at(0), data[r].at(0), n, ncclDataType_t::Uint32, ncclRedOp_t::Sum, comm, stream))
    });
    eprintln!("all_reduce {:?}", start.elapsed());
    for d in &data {
        assert!(d.get::<u32>().iter().all(|v| *v == (n * (n - 1) / 2) as u32));
    }
    world.destroy();
}
