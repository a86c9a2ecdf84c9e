//! Tests that the work of kernels is counted the same in every order of turns.

use crate::device::Device;
use ptx::run::{Pool, Schedule, Work};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Each of 40 threads of two blocks: 3 instructions, then 5 times the 5 of a loop, one of which has a guard that holds for tid 0
/// alone, then `ret`.
const COUNTS: &str = "\
.visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<5>;\n.reg .b64 %d<3>;\n.shared .b32 s;\n\
ld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nmov.b32 %r2, 0;\nprefetch.global.L2 [%d1];\n\
AGAIN:\nadd.s32 %r2, %r2, 1;\nsetp.eq.s32 %p1, %r1, 0;\n@%p1 st.global.u32 [%d1], %r2;\nsetp.lt.s32 %p2, %r2, 5;\n@%p2 bra AGAIN;\n\
ld.global.v2.u32 {%r3, %r4}, [%d1+8];\nst.shared.u32 [s], %r3;\nld.shared.u32 %r3, [s];\nret;\n}\n";

#[test]
fn a_known_kernel_has_known_counts() {
    let mut device = Device::new(COUNTS);
    let memory = device.array(&[0; 4]);
    let expected = Work { instructions: 2 * 40 * (3 + 5 * 5 + 4), loaded: 2 * 40 * 8, stored: 2 * 5 * 4 };
    for seed in 0..5 {
        assert_eq!(device.run("k", 2, 40, &[memory], seed).unwrap().work, expected);
    }
}

/// Threads wait for a counter as in NCCL: each polls again only if the last value was too small. Then they do something together,
/// and every tenth thread leaves early. `counts` raises the counter.
const POLLS: &str = "\
.visible .entry waits(.param .u64 m)\n{\n.reg .pred %p<5>;\n.reg .b32 %r<9>;\n.reg .b64 %d<4>;\n\
ld.param.u64 %d1, [m];\nmov.u32 %r6, %tid.x;\nmul.wide.u32 %d2, %r6, 4;\nadd.s64 %d2, %d1, %d2;\nmov.b32 %r1, 0;\nmov.b32 %r3, 1;\n\
rem.u32 %r7, %r6, 10;\n\
STEP:\nsetp.ge.u32 %p1, %r1, %r3;\n@%p1 bra GO;\nmov.b32 %r4, 0;\n\
POLL:\nld.volatile.global.u32 %r1, [%d1];\nadd.s32 %r4, %r4, 1;\nsetp.lt.u32 %p2, %r1, %r3;\n@%p2 bra POLL;\n\
GO:\nadd.s32 %r3, %r3, %r7;\nadd.s32 %r3, %r3, 1;\nst.global.u32 [%d2+16], %r3;\n\
setp.lt.u32 %p3, %r3, 200;\n@%p3 bra STEP;\n\
setp.eq.u32 %p4, %r7, 3;\n@%p4 bra END;\n\
activemask.b32 %r8;\nEND:\nret;\n}\n\
.visible .entry counts(.param .u64 m)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\nmov.b32 %r1, 0;\n\
AGAIN:\nadd.s32 %r1, %r1, 1;\nst.volatile.global.u32 [%d1], %r1;\nsetp.lt.s32 %p1, %r1, 300;\n@%p1 bra AGAIN;\nret;\n}\n";

#[test]
fn waiting_for_a_late_writer_is_no_work() {
    let run = |threads: usize, delay: u64, begin_with_writer: bool| {
        let pool = Pool::new(threads).unwrap();
        pool.schedule((threads == 0).then_some(Schedule::new(delay)));
        let mut device = Device::new(POLLS);
        let memory = device.array(&[0; 128]);
        let (told, outcome) = channel();
        let launch = |kernel: &'static str, grid: u32, block: u32| {
            let told = told.clone();
            let launch = device.launch(kernel, grid, block, &[memory]).unwrap();
            pool.launch(launch, Box::new(move |outcome| told.send((kernel, outcome.unwrap())).unwrap()));
        };
        let order: [(&'static str, u32, u32); 2] = if begin_with_writer {
            [("counts", 1, 1), ("waits", 2, 100)]
        } else {
            [("waits", 2, 100), ("counts", 1, 1)]
        };
        for (kernel, grid, block) in order {
            launch(kernel, grid, block);
            std::thread::sleep(Duration::from_millis(delay));
        }
        let mut ends = [outcome.recv().unwrap(), outcome.recv().unwrap()];
        ends.sort_by_key(|(kernel, _)| *kernel);
        ends.map(|(_, figures)| (figures.work, figures.instructions))
    };
    let [(writer, _), (waiter, at_once)] = run(1, 0, false);
    assert_eq!(writer, Work { instructions: 3 + 300 * 4, loaded: 0, stored: 4 * 300 });
    let mut others = Vec::new();
    for (threads, delay, first) in
        [(1, 20, true), (1, 20, false), (2, 0, false), (2, 5, false), (2, 0, true), (0, 1, false), (0, 2, false)]
    {
        let [(_, _), (work, instructions)] = run(threads, delay, first);
        assert_eq!(work, waiter, "{threads} threads, {delay} ms");
        others.push(instructions);
    }
    assert!(others.iter().any(|other| *other != at_once), "polling took as long each time: the test says nothing");
}

/// Lanes that reach a vote, a barrier or a call at different times execute it once each.
const MEETS: &str = "\
.func f()\n{\nret;\n}\n\
.visible .entry k(.param .u64 m)\n{\n.reg .pred %p<5>;\n.reg .b32 %r<5>;\n.reg .b64 %d<3>;\n\
mov.u32 %r1, %tid.x;\nmov.u32 %r2, %laneid;\nrem.u32 %r3, %r2, 3;\nsetp.eq.u32 %p1, %r3, 0;\n@%p1 bra A;\n\
and.b32 %r4, %r2, 1;\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra B;\n\
A:\nmov.b32 %r4, 1;\n\
B:\nvote.sync.any.pred %p3, %p1, -1;\nbarrier.sync 0, 64;\nbar.warp.sync -1;\ncall.uni f, ();\nret;\n}\n";

#[test]
fn what_lanes_do_together_counts_once_for_each() {
    let device = Device::new(MEETS);
    let lanes = || (0..64u64).map(|thread| thread % 32);
    // A third takes A at once; of the others, the odd ones fall into it.
    let of_lane = |lane: u64| match (lane.is_multiple_of(3), lane.is_multiple_of(2)) {
        (true, _) => 5 + 1,
        (false, true) => 8,
        (false, false) => 8 + 1,
    };
    let expected: u64 = lanes().map(|lane| of_lane(lane) + 6).sum();
    for seed in 0..20 {
        assert_eq!(device.run("k", 1, 64, &[0], seed).unwrap().work.instructions, expected, "seed {seed}");
    }
}
