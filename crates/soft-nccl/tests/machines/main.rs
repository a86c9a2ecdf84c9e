//! COLLSPEC_SOFT_RANKS_PER_NODE: the bits are those that NCCL's rules for rings, trees, channels and chunks give, which a plain model
//! in these tests follows. Each setting runs in fresh processes: this program starts itself again as `part`.
// Ranks are numbers here, as in C.
#![allow(clippy::needless_range_loop)]
#[path = "../common/mod.rs"]
mod common;
mod model;
mod published;
use common::parts::{Orders, Part};
use common::{Buffer, World, last_error, suite, unique_id};
use model::{Algorithm, Model, Protocol};
use nccl_sys::*;
use sha2::{Digest, Sha256};

const OK: ncclResult_t = ncclResult_t::Success;
const SUM: ncclRedOp_t = ncclRedOp_t::Sum;

/// The role of this process. Started as a plain test it does nothing.
#[test]
fn part() {
    let Some(orders) = Orders::own() else { return };
    match orders.text("role") {
        "bits" => bits(&orders),
        "split" => split(&orders),
        "config" => config(&orders),
        "published" => published_bits(&orders),
        role => panic!("no role {role}"),
    }
}

/// Runs a role with ranks placed in processes so.
fn run(role: &str, parts: &[&[usize]], more: &str) {
    let n = parts.iter().map(|ranks| ranks.len()).sum();
    let id = unique_id();
    let parts: Vec<Part> = parts.iter().map(|ranks| Part::start(role, &id, n, ranks, more)).collect();
    parts.into_iter().for_each(Part::done);
}

/// Runs a role in one process with this many ranks.
fn run_together(role: &str, n: usize, more: &str) {
    run(role, &[&(0..n).collect::<Vec<_>>()], more);
}

/// The model of a world with this process's settings.
fn model(n: usize, orders: &Orders) -> Model {
    let number = |name: &str| orders.text(name).parse::<usize>().ok();
    let algorithm = if orders.text("NCCL_ALGO").contains("Tree") { Algorithm::Tree } else { Algorithm::Ring };
    let (protocol, buffer) = match orders.text("NCCL_PROTO") {
        "LL" => (Protocol::Ll, number("NCCL_LL_BUFFSIZE").unwrap_or(8 * 512 * 8 * 16)),
        "LL128" => (Protocol::Ll128, number("NCCL_LL128_BUFFSIZE").unwrap_or(120 * 640 * 8 * 8)),
        _ => (Protocol::Simple, number("NCCL_BUFFSIZE").unwrap_or(1 << 22)),
    };
    let per_machine: usize = orders.number("COLLSPEC_SOFT_RANKS_PER_NODE");
    let hosts = orders.text("hosts").split(',').filter_map(|host| host.parse().ok());
    let machines: Vec<usize> = hosts.chain((0..n).map(|rank| rank / per_machine)).take(n).collect();
    let trees = number("NCCL_MAX_NCHANNELS").unwrap_or(2).min(2);
    let channels = number("NCCL_MIN_NCHANNELS").unwrap_or(0).max(trees);
    let threads = match protocol {
        Protocol::Ll128 => number("NCCL_LL128_NTHREADS").unwrap_or(640),
        _ => number("NCCL_NTHREADS").unwrap_or(512),
    };
    Model { algorithm, protocol, machines, channels, trees, buffer, size: 4, threads }
}

/// Values whose sum in f32 depends on the order.
fn value(rank: usize, i: usize) -> f32 {
    ((rank * 31 + i * 17) as f32).sin() * 10f32.powi((rank % 4) as i32 * 2)
}

fn add(a: f32, b: f32) -> f32 {
    a + b
}

fn assert_bits(what: &str, got: &[f32], expected: &[f32]) {
    assert_eq!(got.len(), expected.len());
    let wrong = (0..got.len()).find(|i| got[*i].to_bits() != expected[*i].to_bits());
    assert_eq!(wrong, None, "{what}: the first element that another order explains");
}

/// All_reduce and reduce_scatter on a communicator, `ranks` being those of the model's numbering.
fn check(world: &World, model: &Model, counts: &[usize]) {
    let n = world.n();
    for count in counts.iter().copied() {
        let data: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&(0..count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
        world.run(|r, comm, stream| {
            let (at, f32) = (data[r].at(0), ncclDataType_t::Float32);
            nccl!(ncclAllReduce(at, at, count, f32, SUM, comm, stream))
        });
        let expected = model.all_reduce(count, value, add);
        for r in &world.here {
            assert_bits(&format!("{count} elements, rank {r}, {model:?}"), &data[*r].get::<f32>(), &expected);
        }
        // A first rank with two leaves below it does not change the order.
        if n > 3 && count > 1000 {
            let by_number: Vec<f32> =
                (0..count).map(|i| (1..n).fold(value(0, i), |sum, r| sum + value(r, i))).collect();
            assert_ne!(expected, by_number, "another order gives other bits");
        }
    }
    let doubles = |count: usize| {
        let value = |r: usize, i: usize| f64::from(value(r, i)) * 1.000_000_1;
        let data: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&(0..count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
        world.run(|r, comm, stream| {
            let (at, f64) = (data[r].at(0), ncclDataType_t::Float64);
            nccl!(ncclAllReduce(at, at, count, f64, SUM, comm, stream))
        });
        let expected = Model { size: 8, ..model.clone() }.all_reduce(count, value, |a, b| a + b);
        for r in &world.here {
            assert!(data[*r].get::<f64>() == expected, "{count} doubles, rank {r}, {model:?}");
        }
    };
    doubles(counts[counts.len() / 2]);
    if model.algorithm == Algorithm::Ring {
        let (count, root) = (1000, n - 1);
        let data: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&(0..count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
        world.run(|r, comm, stream| {
            let (at, f32) = (data[r].at(0), ncclDataType_t::Float32);
            nccl!(ncclReduce(at, at, count, f32, SUM, root as i32, comm, stream))
        });
        if world.here.contains(&root) {
            assert_bits("reduce", &data[root].get::<f32>(), &model.reduce(root, count, value, add));
        }
        let count = counts[counts.len() / 2] / n + 1;
        let data: Vec<Buffer> =
            (0..n).map(|r| Buffer::of(&(0..n * count).map(|i| value(r, i)).collect::<Vec<_>>())).collect();
        let out: Vec<Buffer> = (0..n).map(|_| Buffer::of(&vec![0f32; count])).collect();
        world.run(|r, comm, stream| {
            let f32 = ncclDataType_t::Float32;
            nccl!(ncclReduceScatter(data[r].at(0), out[r].at(0), count, f32, SUM, comm, stream))
        });
        for r in &world.here {
            let expected = model.reduce_scatter(*r, count, value, add);
            assert_bits(&format!("reduce_scatter, rank {r}"), &out[*r].get::<f32>(), &expected);
        }
    }
}

fn counts(orders: &Orders) -> Vec<usize> {
    orders.text("counts").split(',').map(|count| count.parse().unwrap()).collect()
}

fn bits(orders: &Orders) {
    let n = orders.number("n");
    let world = World::part(orders.id(), n, &orders.ranks()).unwrap_or_else(|code| panic!("{code:?} {}", last_error()));
    check(&world, &model(n, orders), &counts(orders));
    world.destroy();
}

const ALGORITHMS: [&str; 2] = ["NCCL_ALGO=Ring", "NCCL_ALGO=allreduce:Tree"];
/// Protocols with buffers so small that everything takes many chunks, few of which are multiples of each other.
const PROTOCOLS: [&str; 3] = [
    "NCCL_PROTO=Simple;NCCL_BUFFSIZE=20000",
    "NCCL_PROTO=LL;NCCL_LL_BUFFSIZE=10000",
    "NCCL_PROTO=LL128;NCCL_LL128_BUFFSIZE=52000",
];
/// Around parts of 16 bytes, cells of 1,024 and 4,096 elements, and the sizes from which more channels are used.
const COUNTS: &str = "counts=1,3,15,17,1023,1024,1025,4097,8191,8192,8193,20481,24575,40961";

#[test]
fn small_buffers_by_algorithm_protocol_channels_and_machines() {
    for algorithm in ALGORITHMS {
        for protocol in PROTOCOLS {
            for (channels, n, per_machine) in [("1", 3, 8), ("2", 4, 2), ("3", 5, 1), ("5", 6, 3), ("4", 7, 2)] {
                let machines = format!("COLLSPEC_SOFT_RANKS_PER_NODE={per_machine}");
                let channels = format!("NCCL_MIN_NCHANNELS={channels}");
                run_together("bits", n, &[COUNTS, algorithm, protocol, &channels, &machines].join(";"));
            }
        }
    }
}

#[test]
fn nccls_own_buffers_and_channels() {
    let counts = "counts=262144,262145,400003,700001";
    for algorithm in ALGORITHMS {
        for protocol in ["Simple", "LL", "LL128"] {
            for (n, per_machine) in [(2, 8), (4, 8), (4, 1), (5, 2)] {
                let settings = format!("NCCL_PROTO={protocol};COLLSPEC_SOFT_RANKS_PER_NODE={per_machine}");
                run_together("bits", n, &[counts, algorithm, &settings].join(";"));
            }
        }
    }
}

#[test]
fn channels_with_few_threads_are_used_for_smaller_operations() {
    for algorithm in ALGORITHMS {
        for protocol in PROTOCOLS {
            let settings =
                "NCCL_MIN_NCHANNELS=6;NCCL_NTHREADS=96;NCCL_LL128_NTHREADS=192;COLLSPEC_SOFT_RANKS_PER_NODE=2";
            run_together("bits", 4, &["counts=3071,3073,8191,20481,40961", algorithm, protocol, settings].join(";"));
        }
    }
}

#[test]
fn many_machines_have_trees_of_several_levels() {
    for (n, per_machine) in [(12, 1), (13, 1), (24, 2), (26, 2)] {
        let settings = format!("NCCL_PROTO=LL;NCCL_MIN_NCHANNELS=4;COLLSPEC_SOFT_RANKS_PER_NODE={per_machine}");
        run_together("bits", n, &["counts=5000,9001", ALGORITHMS[1], &settings].join(";"));
    }
}

#[test]
fn a_single_channel_uses_the_first_tree_alone() {
    let settings = "counts=5000,40961;NCCL_MAX_NCHANNELS=1;COLLSPEC_SOFT_RANKS_PER_NODE=2";
    for more in ["", "NCCL_MIN_NCHANNELS=3;"] {
        run_together("bits", 8, &[settings, more, ALGORITHMS[1]].join(";"));
    }
}

#[test]
fn ranks_in_several_processes() {
    for algorithm in ALGORITHMS {
        let settings =
            "counts=1025,20481,40961;NCCL_MIN_NCHANNELS=3;NCCL_BUFFSIZE=20000;COLLSPEC_SOFT_RANKS_PER_NODE=2";
        // Machines lie across processes.
        run("bits", &[&[0, 3, 4], &[1], &[2, 5, 6]], &[settings, algorithm].join(";"));
        let settings = "counts=262144,700001;COLLSPEC_SOFT_RANKS_PER_NODE=1";
        run("bits", &[&[0, 1], &[2]], &[settings, algorithm].join(";"));
    }
}

#[test]
fn processes_with_a_host_id_say_which_machine_they_are_on() {
    for algorithm in ALGORITHMS {
        let settings = format!("counts=20481;NCCL_BUFFSIZE=20000;COLLSPEC_SOFT_RANKS_PER_NODE=8;{algorithm}");
        let id = unique_id();
        // The second and the third process share a machine.
        let parts = [(&[0, 3][..], "a"), (&[1], "b"), (&[2, 4], "b")].map(|(ranks, host)| {
            Part::start("bits", &id, 5, ranks, &format!("{settings};hosts=0,1,1,0,1;NCCL_HOSTID={host}"))
        });
        parts.into_iter().for_each(Part::done);
    }
}

/// Splits a world twice; the machines of its parts are those of the ranks in the world.
fn split(orders: &Orders) {
    let n: usize = orders.number("n");
    let here = orders.ranks();
    let world = World::part(orders.id(), n, &here).unwrap();
    let whole = model(n, orders);
    // Odd and even ranks, in falling order.
    let part = split_by(&world, |rank| (rank % 2) as i32);
    for color in [0, 1] {
        let members: Vec<usize> = (0..n).rev().filter(|rank| rank % 2 == color).collect();
        let (half, model) = half_of(&part, &members, &whole, &here);
        check(&half, &model, &counts(orders));
        if members.len() == 4 {
            // The first three ranks of that half.
            let again = split_by(&half, |rank| if rank < 3 { 5 } else { NCCL_SPLIT_NOCOLOR });
            let members: Vec<usize> = (0..3).rev().collect();
            let (third, model) = half_of(&again, &members, &model, &half.here);
            check(&third, &model, &counts(orders));
            third.destroy();
        }
        half.destroy();
    }
    // Neighbours by number are on different machines, so places in the ring are not numbers.
    let shuffled = split_by_key(&world, |_| 0, |rank| (rank % 3) as i32);
    let members: Vec<usize> = (0..3).flat_map(|key| (0..n).filter(move |rank| rank % 3 == key)).collect();
    let (shuffled, model) = half_of(&shuffled, &members, &whole, &here);
    assert_ne!(model.ring(), (0..n).collect::<Vec<_>>());
    check(&shuffled, &model, &counts(orders));
    suite::every_operation_on(&shuffled, &[5, 1021], &[0, 7]);
    shuffled.destroy();
    world.destroy();
}

/// New handles by rank; keys fall with ranks.
fn split_by(world: &World, color: impl Fn(usize) -> i32) -> Vec<ncclComm_t> {
    split_by_key(world, color, |rank| -(rank as i32))
}

fn split_by_key(world: &World, color: impl Fn(usize) -> i32, key: impl Fn(usize) -> i32) -> Vec<ncclComm_t> {
    let mut new = vec![std::ptr::null_mut(); world.n()];
    assert_eq!(nccl!(ncclGroupStart()), OK);
    for r in world.here.iter().copied() {
        nccl!(ncclCommSplit(world.comms[r], color(r), key(r), &mut new[r], std::ptr::null_mut()));
    }
    assert_eq!(nccl!(ncclGroupEnd()), OK, "{}", last_error());
    new
}

fn half_of(handles: &[ncclComm_t], members: &[usize], model: &Model, here: &[usize]) -> (World, Model) {
    let comms = members.iter().map(|rank| handles[*rank]).collect();
    let here: Vec<usize> = (0..members.len()).filter(|new| here.contains(&members[*new])).collect();
    let machines = members.iter().map(|rank| model.machines[*rank]).collect();
    (World::of(comms, &here), Model { machines, ..model.clone() })
}

#[test]
fn parts_of_a_world_stay_on_their_machines() {
    for algorithm in ALGORITHMS {
        let settings =
            "counts=1025,20481,40961;NCCL_MIN_NCHANNELS=3;NCCL_BUFFSIZE=20000;COLLSPEC_SOFT_RANKS_PER_NODE=3";
        let settings = [settings, algorithm].join(";");
        run_together("split", 7, &settings);
        run("split", &[&[0, 3, 4], &[1, 5], &[2, 6]], &settings);
    }
}

/// Communicators whose configuration bounds their channels; those that are split from them have the same bounds, unless they
/// have their own.
fn config(orders: &Orders) {
    let n: usize = orders.number("n");
    let plain = model(n, orders);
    let made = |min: i32, max: i32, channels: usize, trees: usize| {
        let mut comms = vec![std::ptr::null_mut(); n];
        let id = unique_id();
        assert_eq!(nccl!(ncclGroupStart()), OK);
        for (rank, comm) in comms.iter_mut().enumerate() {
            let mut config = ncclConfig_t { min_ctas: min, max_ctas: max, ..ncclConfig_t::unset(23007) };
            nccl!(ncclCommInitRankConfig(comm, n as i32, id, rank as i32, &mut config));
        }
        assert_eq!(nccl!(ncclGroupEnd()), OK, "{}", last_error());
        let here: Vec<usize> = (0..n).collect();
        let world = World::of(comms, &here);
        let model = Model { channels, trees, ..plain.clone() };
        check(&world, &model, &counts(orders));
        let copy: Vec<ncclComm_t> = split_by(&world, |_| 0).into_iter().rev().collect();
        let machines = model.machines.iter().rev().copied().collect();
        let copy = World::of(copy, &here);
        check(&copy, &Model { machines, ..model }, &counts(orders));
        copy.destroy();
        world.destroy();
    };
    let unset = NCCL_CONFIG_UNDEF_INT;
    if orders.text("NCCL_MIN_CTAS").is_empty() {
        made(5, unset, 5, 2);
        made(unset, 1, 1, 1);
        made(3, 3, 3, 2);
    } else {
        // The environment goes before configurations.
        let channels = orders.number("NCCL_MIN_CTAS");
        made(5, unset, channels, 2);
        made(unset, 1, channels, 2);
    }
}

#[test]
fn a_configuration_bounds_the_channels_of_its_communicator_and_of_its_parts() {
    for algorithm in ALGORITHMS {
        let settings = "counts=20481,100003;NCCL_BUFFSIZE=20000;COLLSPEC_SOFT_RANKS_PER_NODE=1";
        run_together("config", 5, &[settings, algorithm].join(";"));
        run_together("config", 5, &[settings, algorithm, "NCCL_MIN_CTAS=4;NCCL_MAX_CTAS=8"].join(";"));
    }
}

fn published_bits(orders: &Orders) {
    let (n, count) = (orders.number("n"), 1 << 18);
    let world = World::part(orders.id(), n, &orders.ranks()).unwrap();
    let data: Vec<Buffer> = (0..n).map(|r| Buffer::of(&published::inputs(r as u32, count))).collect();
    world.run(|r, comm, stream| {
        let (at, f32) = (data[r].at(0), ncclDataType_t::Float32);
        nccl!(ncclAllReduce(at, at, count, f32, SUM, comm, stream))
    });
    for r in 0..n {
        let digest = Sha256::digest(data[r].get::<u8>());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(digest, orders.text("digest"), "rank {r}");
    }
    world.destroy();
}

#[test]
fn bits_are_those_that_nccl_gave_on_four_gpus() {
    // A tree's order is the same by every protocol; a ring's is not, and this one spoke Simple.
    for (algorithm, protocol, digest) in [
        ("Ring", "Simple", published::RING),
        ("Tree", "Simple", published::TREE),
        ("Tree", "LL", published::TREE),
        ("Tree", "LL128", published::TREE),
    ] {
        let settings = format!("NCCL_ALGO={algorithm};NCCL_PROTO={protocol};COLLSPEC_SOFT_RANKS_PER_NODE=4");
        run_together("published", 4, &format!("{settings};digest={digest}"));
    }
}
