//! Launches on a pool of threads: several at once, some that wait for each other, and some that never end.

use crate::device::Device;
use ptx::run::{Fault, Figures, LANES, Pool, Schedule, Stores, Strike};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Raises a flag, or waits for one: `[m]` is polled until it is not 0, and `[m + 4]` becomes 1.
const KERNELS: &str = "\
.visible .entry waits(.param .u64 m)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n\
ld.param.u64 %d1, [m];\n\
POLL:\nld.acquire.sys.b32 %r1, [%d1];\nsetp.eq.b32 %p1, %r1, 0;\n@%p1 bra POLL;\n\
st.global.u32 [%d1+4], 1;\nret;\n}\n\
.visible .entry raises(.param .u64 m)\n{\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\nst.release.sys.b32 [%d1], 1;\nret;\n}\n\
.visible .entry counts(.param .u64 m)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\nmov.b32 %r1, 0;\n\
AGAIN:\natom.global.add.u32 %r2, [%d1], 1;\nadd.s32 %r1, %r1, 1;\nsetp.lt.s32 %p1, %r1, 1000;\n@%p1 bra AGAIN;\nret;\n}\n\
.visible .entry fails(.param .u64 m)\n{\ntrap;\n}\n";

fn begin(
    pool: &Pool,
    device: &Device,
    kernel: &str,
    (grid, block): (u32, u32),
    memory: u64,
) -> Receiver<Result<Figures, Fault>> {
    let (told, outcome) = channel();
    let launch = device.launch(kernel, grid, block, &[memory]).unwrap();
    pool.launch(launch, Box::new(move |outcome| told.send(outcome).unwrap()));
    outcome
}

#[test]
fn launches_run_at_the_same_time_and_wait_for_each_other() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        let mut device = Device::new(KERNELS);
        let memory = device.array(&[0; 4]);
        let waits = begin(&pool, &device, "waits", (3, 64), memory);
        let counter = device.array(&[0; 4]);
        let counts: Vec<_> = (0..4).map(|_| begin(&pool, &device, "counts", (2, 64), counter)).collect();
        counts.iter().for_each(|count| _ = count.recv().unwrap().unwrap());
        assert!(waits.try_recv().is_err(), "nothing has raised the flag");
        begin(&pool, &device, "raises", (1, 1), memory).recv().unwrap().unwrap();
        assert!(waits.recv().unwrap().unwrap().instructions > 0);
        assert_eq!((device.values(0)[1], device.values(1)[0]), (1, 4 * 2 * 64 * 1000));
        assert!(pool.is_empty());
    }
}

#[test]
fn warps_that_only_the_host_can_help_are_told_with_their_places() {
    let pool = Pool::new(2).unwrap();
    let mut device = Device::new(KERNELS);
    let memory = device.array(&[0; 4]);
    assert_eq!(pool.standing(), None, "nothing is at work");
    let waits = begin(&pool, &device, "waits", (2, 40), memory);
    let spots = loop {
        if let Some(blocks) = pool.standing() {
            break blocks.into_iter().flat_map(|block| block.spots).collect::<Vec<_>>();
        }
        std::thread::yield_now();
    };
    let told: Vec<String> = spots.iter().map(|(spot, why)| format!("{spot} {why}")).collect();
    assert_eq!(told.len(), 4, "two warps of two blocks: {told:?}");
    let polls = format!("ld.acquire.sys.b32 %r1, [%d1]; polls {memory:#x}, which does not change");
    assert!(told.iter().all(|line| line.contains(&polls)), "{told:?}");
    begin(&pool, &device, "raises", (1, 1), memory).recv().unwrap().unwrap();
    waits.recv().unwrap().unwrap();
}

/// As NCCL looks for an abort: it first counts very many polls, in which nothing else happens.
#[test]
fn a_poll_that_counts_comes_to_its_end_on_every_schedule() {
    let kernel = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\nmov.u32 %r1, 0;\n\
        POLL:\nld.volatile.global.u32 %r2, [%d1];\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra END;\nadd.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 500000;\n\
        @%p2 bra POLL;\nst.global.u32 [%d1+4], %r1;\nEND:\nret;\n}";
    for schedule in [None, Some(Schedule::new(1))] {
        let pool = Pool::new(1).unwrap();
        pool.schedule(schedule);
        let mut device = Device::new(kernel);
        let memory = device.array(&[0; 4]);
        let counts = begin(&pool, &device, "k", (1, 1), memory);
        // One poll a turn would take minutes.
        counts.recv_timeout(Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(device.values(0)[1], 500_000);
    }
}

#[test]
fn each_group_of_lanes_is_told_with_what_it_polls() {
    let kernel = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\n\
        mov.u32 %r1, %tid.x;\nsetp.lt.u32 %p1, %r1, 8;\n@%p1 bra FIRST;\n\
        SECOND:\nld.acquire.sys.b32 %r2, [%d1+8];\nsetp.eq.b32 %p2, %r2, 0;\n@%p2 bra SECOND;\nret;\n\
        FIRST:\nld.acquire.sys.b32 %r2, [%d1+4];\nsetp.eq.b32 %p2, %r2, 0;\n@%p2 bra FIRST;\nret;\n}";
    let pool = Pool::new(1).unwrap();
    let mut device = Device::new(kernel);
    let memory = device.array(&[0; 4]);
    let waits = begin(&pool, &device, "k", (1, 32), memory);
    let spots = loop {
        if let Some(blocks) = pool.standing() {
            break blocks.into_iter().flat_map(|block| block.spots).collect::<Vec<_>>();
        }
        std::thread::yield_now();
    };
    let mut told: Vec<String> = spots.iter().map(|(spot, why)| format!("{spot} {why}")).collect();
    told.sort();
    assert_eq!(told.len(), 2, "{told:?}");
    for (line, lanes, text, at) in [(&told[0], "0x000000ff", "[%d1+4];", 4), (&told[1], "0xffffff00", "[%d1+8];", 8)] {
        let polls = format!("{text} polls {:#x}, which does not change", memory + at);
        assert!(line.contains(lanes) && line.ends_with(&polls), "{told:?}");
    }
    drop(pool);
    assert!(waits.recv().unwrap().is_err());
}

#[test]
fn blocks_that_stand_are_told_with_their_device_and_who_has_written_to_memory() {
    let pool = Pool::new(1).unwrap();
    let mut device = Device::new(KERNELS);
    let memory = device.array(&[0; 4]);
    let launch = |kernel: &str, on: usize| device.launch(kernel, 1, 32, &[memory]).unwrap().on_device(on);
    let (told, waits) = channel();
    pool.launch(launch("waits", 3), Box::new(move |outcome| told.send(outcome).unwrap()));
    let blocks = loop {
        if let Some(blocks) = pool.standing() {
            break blocks;
        }
        std::thread::yield_now();
    };
    let turns = pool.turns_before_standstill();
    assert_eq!((blocks[0].device, &*blocks[0].kernel, blocks[0].halted), (3, "waits", false));
    assert!(turns.is_some() && device.writers(memory).is_empty());
    pool.launch(launch("raises", 2), Box::new(|_| ()));
    waits.recv().unwrap().unwrap();
    assert_eq!(device.writers(memory), [2, 3], "the one that waited has written, too");
}

#[test]
fn a_fault_ends_its_own_launch_alone() {
    let pool = Pool::new(2).unwrap();
    let mut device = Device::new(KERNELS);
    let counter = device.array(&[0; 4]);
    let counts = begin(&pool, &device, "counts", (4, 32), counter);
    let fails = begin(&pool, &device, "fails", (4, 96), counter);
    let fault = fails.recv().unwrap().unwrap_err().to_string();
    assert!(fault.contains("fails, kernels.ptx:") && fault.ends_with(": trap;: a trap"), "{fault}");
    counts.recv().unwrap().unwrap();
}

#[test]
fn what_runs_when_the_pool_goes_is_told_so() {
    let pool = Pool::new(2).unwrap();
    let mut device = Device::new(KERNELS);
    let memory = device.array(&[0; 4]);
    let waits = begin(&pool, &device, "waits", (2, 32), memory);
    drop(pool);
    assert_eq!(waits.recv().unwrap().unwrap_err().to_string(), "the device is gone");
}

#[test]
fn a_seeded_pool_runs_what_waits_for_another_launch() {
    for seed in 0..20 {
        let pool = Pool::new(2).unwrap();
        pool.schedule(Some(Schedule::new(seed)));
        let mut device = Device::new(KERNELS);
        let memory = device.array(&[0; 4]);
        let waits = begin(&pool, &device, "waits", (2, 64), memory);
        let raises = begin(&pool, &device, "raises", (1, 1), memory);
        raises.recv().unwrap().unwrap();
        waits.recv().unwrap().unwrap();
        assert_eq!(device.values(0)[1], 1);
    }
}

/// One block counts to 1,000 while the other looks once.
const LOOKS: &str = "\
.visible .entry looks(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\n\
mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra LOOK;\nmov.b32 %r2, 0;\n\
AGAIN:\nadd.s32 %r2, %r2, 1;\nst.volatile.global.u32 [%d1], %r2;\nsetp.lt.s32 %p2, %r2, 1000;\n@%p2 bra AGAIN;\nret;\n\
LOOK:\nld.volatile.global.u32 %r3, [%d1];\nst.global.u32 [%d1+4], %r3;\nret;\n}\n";

#[test]
fn schedules_let_a_block_be_early_late_and_in_between() {
    let pool = Pool::new(2).unwrap();
    let seen: Vec<u32> = (0..60)
        .map(|seed| {
            pool.schedule(Some(Schedule::new(seed)));
            let mut device = Device::new(LOOKS);
            let memory = device.array(&[0; 4]);
            begin(&pool, &device, "looks", (2, 1), memory).recv().unwrap().unwrap();
            device.values(0)[1]
        })
        .collect();
    assert!(seen.contains(&0) && seen.contains(&1000), "{seen:?}");
    assert!(seen.iter().any(|count| (1..1000).contains(count)), "{seen:?}");
}

#[test]
fn a_device_that_is_halted_has_no_turn_until_it_goes_on() {
    for seed in [None, Some(3)] {
        let pool = Pool::new(2).unwrap();
        pool.schedule(seed.map(Schedule::new));
        let mut device = Device::new(KERNELS);
        let (flag, counter) = (device.array(&[0; 4]), device.array(&[0; 4]));
        let begin = |kernel: &str, memory: u64, number: usize| {
            let (told, outcome) = channel();
            let launch = device.launch(kernel, 2, 64, &[memory]).unwrap().on_device(number);
            pool.launch(launch, Box::new(move |outcome| told.send(outcome).unwrap()));
            outcome
        };
        let before = begin("waits", flag, 1);
        pool.halt(1, None);
        let after = begin("counts", counter, 1);
        // The counting takes longer than a turn that had begun before the halt.
        begin("counts", counter, 0).recv().unwrap().unwrap();
        begin("raises", flag, 0).recv().unwrap().unwrap();
        assert!(before.try_recv().is_err() && after.try_recv().is_err() && !pool.is_empty());
        pool.resume();
        [before, after].iter().for_each(|outcome| _ = outcome.recv().unwrap().unwrap());
        pool.halt(1, Some(std::time::Duration::from_millis(50)));
        begin("counts", counter, 1).recv().unwrap().unwrap();
        assert_eq!(device.values(1)[0], 3 * 2 * 64 * 1000);
    }
}

/// Loses the stores of two lanes, and flips a bit of what was written before, at the first store of a kernel.
#[derive(Debug)]
struct Spoiler(std::sync::Mutex<Option<Strike>>);

impl Stores for Spoiler {
    fn before(&self, _: &[u64; LANES], lanes: u32, bytes: u64) -> Strike {
        assert_eq!((lanes, bytes), (u32::MAX, 4));
        self.0.lock().unwrap().take().unwrap_or(Strike::None)
    }
}

#[test]
fn an_observer_of_stores_can_lose_one_or_flip_a_bit_once() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d<4>;\nld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\n\
        mul.wide.u32 %d2, %r1, 4;\nadd.u64 %d3, %d1, %d2;\nst.global.u32 [%d3], 7;\nst.global.u32 [%d3+128], 8;\nret;\n}";
    for number in 0..2 {
        let mut device = Device::new(text);
        let memory = device.array(&[0; 64]);
        let strike = [Strike::Lost(0b110), Strike::Flip { address: memory + 4 * 40 + 1, bit: 3 }][number];
        device.observe_stores(Arc::new(Spoiler(Some(strike).into())));
        device.run("k", 1, 32, &[memory], 0).unwrap();
        let values = device.values(0);
        let wrong: Vec<(usize, u32)> =
            (0..64).filter(|at| values[*at] != if *at < 32 { 7 } else { 8 }).map(|at| (at, values[at])).collect();
        // The bit flips before it is overwritten.
        let wanted: &[(usize, u32)] = [&[(1, 0), (2, 0)][..], &[]][number];
        assert_eq!(wrong, wanted);
    }
    let mut device = Device::new(text);
    let (memory, other) = (device.array(&[0; 64]), device.array(&[0; 4]));
    device.observe_stores(Arc::new(Spoiler(Some(Strike::Flip { address: other + 5, bit: 3 }).into())));
    device.run("k", 1, 32, &[memory], 0).unwrap();
    assert_eq!(device.values(1), [0, 8 << 8, 0, 0]);
    device.observe_stores(Arc::new(Spoiler(Some(Strike::Flip { address: 64, bit: 3 }).into())));
    device.run("k", 1, 32, &[memory], 0).unwrap();
}
