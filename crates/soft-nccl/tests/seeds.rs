//! The environment is read once per process: this program starts itself with several settings and compares the outputs.
//! Threads of ranks run the same long random program; the order in which tasks run may not change a bit.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
mod common;
use common::*;
use nccl_sys::*;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::process::Command;

const OK: ncclResult_t = ncclResult_t::Success;

/// The output of one process with the given environment.
fn run(env: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("own path");
    let mut command = Command::new(program);
    command.args(["--exact", "child", "--ignored", "--nocapture"]);
    let output = command.envs(env.iter().copied()).output().expect("child");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{env:?}\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.split("result: ").nth(1).filter(|rest| rest.starts_with('#')));
    line.unwrap_or_else(|| panic!("no result in {text}")).to_owned()
}

#[test]
fn no_seed_changes_a_bit() {
    for algorithm in ["Ring", "Tree,Ring", "SingleTree;allgather:ring;reducescatter:ring"] {
        let plain = run(&[("NCCL_ALGO", algorithm)]);
        for seed in ["0", "1", "99"] {
            assert_eq!(run(&[("NCCL_ALGO", algorithm), ("COLLSPEC_SOFT_SEED", seed)]), plain, "{algorithm} {seed}");
        }
    }
}

#[test]
fn an_unknown_algorithm_stops_every_communicator() {
    let program = std::env::current_exe().expect("own path");
    let mut command = Command::new(program);
    command.args(["--exact", "refused", "--ignored"]).env("NCCL_ALGO", "Rung");
    assert!(command.output().expect("child").status.success());
}

#[test]
#[ignore = "run by the test above, with a bad NCCL_ALGO"]
fn refused() {
    let mut comm = std::ptr::null_mut();
    assert_eq!(nccl!(ncclCommInitAll(&mut comm, 1, std::ptr::null())), ncclResult_t::InvalidUsage);
    assert!(last_error().contains("rung"), "{}", last_error());
}

/// A small generator, the same on every rank.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[test]
#[ignore = "run by the test above, with its environment"]
fn child() {
    let (n, most) = (6usize, 600usize);
    let world = World::new(n);
    let hashes: Vec<u64> = std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..n)
            .map(|r| {
                let world = &world;
                scope.spawn(move || program(world, r, n, most))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().expect("rank")).collect()
    });
    println!("result: #{hashes:?}");
    world.destroy();
}

fn program(world: &World, rank: usize, n: usize, most: usize) -> u64 {
    let mut random = Random(12);
    let first: Vec<f32> = (0..n * most).map(|i| ((i * 37 + rank * 101) as f32).sin()).collect();
    let buffers = [Buffer::of(&first), Buffer::of(&vec![0f32; n * most])];
    let (comm, stream) = (world.comms[rank], &world.streams[rank]);
    let (s, f32t) = (stream.raw(), ncclDataType_t::Float32);
    let mut hasher = DefaultHasher::new();
    for step in 0..300 {
        let count = 1 + random.below(most as u64) as usize;
        let root = random.below(n as u64) as i32;
        let op = [ncclRedOp_t::Avg, ncclRedOp_t::Max, ncclRedOp_t::Avg, ncclRedOp_t::Min][random.below(4) as usize];
        let (a, b) = (buffers[step % 2].at(0), buffers[(step + 1) % 2].at(0));
        let code = match random.below(8) {
            0 => nccl!(ncclAllReduce(a, b, count * n, f32t, op, comm, s)),
            1 => nccl!(ncclReduce(a, b, count, f32t, op, root, comm, s)),
            2 => nccl!(ncclBroadcast(a, b, count, f32t, root, comm, s)),
            3 => nccl!(ncclAllGather(a, b, count, f32t, comm, s)),
            4 => nccl!(ncclReduceScatter(a, b, count, f32t, op, comm, s)),
            5 => nccl!(ncclAlltoAll(a, b, count, f32t, comm, s)),
            6 => nccl!(ncclGather(a, b, count, f32t, root, comm, s)),
            _ => {
                let shift = 1 + random.below(n as u64 - 1) as usize;
                assert_eq!(nccl!(ncclGroupStart()), OK);
                nccl!(ncclSend(a, count, f32t, ((rank + shift) % n) as i32, comm, s));
                nccl!(ncclRecv(b, count, f32t, ((rank + n - shift) % n) as i32, comm, s));
                nccl!(ncclGroupEnd())
            }
        };
        assert_eq!(code, OK, "{}", last_error());
        if step % 16 == 0 {
            stream.synchronize();
            buffers.iter().for_each(|buffer| buffer.get::<u32>().hash(&mut hasher));
        }
    }
    stream.synchronize();
    buffers.iter().for_each(|buffer| buffer.get::<u32>().hash(&mut hasher));
    hasher.finish()
}
