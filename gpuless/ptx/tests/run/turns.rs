//! Tests how warps take turns, and how lanes of different calls meet.

use crate::device::Device;
use ptx::run::{Figures, Pool};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Runs a kernel on a pool of one thread, with the time that a hang would take.
fn pooled(device: &Device, grid: u32, block: u32, memory: u64) -> Figures {
    let pool = Pool::new(1).unwrap();
    let (told, outcome) = channel();
    pool.launch(device.launch("k", grid, block, &[memory]).unwrap(), Box::new(move |end| told.send(end).unwrap()));
    outcome.recv_timeout(Duration::from_secs(60)).unwrap().unwrap()
}

#[test]
fn all_warps_go_on_after_a_barrier_before_one_of_them_goes_far() {
    // After the barrier each warp reads a flag; the first one raises it a little later, when it has read other memory.
    let text = ".shared .align 4 .b32 flag;\n.visible .entry k(.param .u64 m)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n\
        ld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nshr.u32 %r2, %r1, 5;\nld.global.u32 %r5, [%d1+4];\nmov.b32 %r6, 0;\n\
        setp.ne.u32 %p1, %r1, %r5;\n\
        AGAIN:\n@%p1 bra MEET;\nst.shared.u32 [flag], 0;\nMEET:\nbar.sync 0;\nld.shared.u32 %r3, [flag];\nsetp.ne.u32 %p2, %r3, 0;\n\
        @%p2 bra LOST;\n@%p1 bra NEXT;\nld.global.u32 %r4, [%d1+4];\nadd.u32 %r4, %r4, 1;\nadd.u32 %r4, %r4, 1;\nadd.u32 %r4, %r4, 1;\n\
        add.u32 %r4, %r4, 1;\nadd.u32 %r4, %r4, 1;\nst.shared.u32 [flag], 1;\nNEXT:\nbar.sync 0;\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p3, %r6, 50;\n\
        @%p3 bra AGAIN;\nret;\nLOST:\natom.global.add.u32 %r4, [%d1], 1;\nret;\n}";
    for raises in [0, 64, 480] {
        let mut device = Device::new(text);
        let memory = device.array(&[0, raises, 0, 0]);
        pooled(&device, 1, 512, memory);
        assert_eq!(device.values(0)[0], 0, "threads that have read what thread {raises} writes after the barrier");
    }
}

#[test]
fn a_polling_loop_with_a_barrier_of_one_warp_lets_others_go_on() {
    // The first warp meets itself at a barrier in each round, until another block, or another warp, raises the flag.
    let head = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\nld.param.u64 %d1, [m];\n";
    let poll = "ld.volatile.global.u32 %r1, [%d1];\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 bra AGAIN;\nret;\n\
        RAISE:\nst.volatile.global.u32 [%d1], 1;\nret;\n}";
    let blocks =
        format!("{head}mov.u32 %r0, %ctaid.x;\nsetp.ne.u32 %p0, %r0, 0;\n@%p0 bra RAISE;\nAGAIN:\nbar.sync 0;\n{poll}");
    let warps = format!(
        "{head}mov.u32 %r0, %tid.x;\nsetp.ge.u32 %p0, %r0, 32;\n@%p0 bra RAISE;\nAGAIN:\nbar.sync 1, 32;\n{poll}"
    );
    for (text, grid, block) in [(blocks, 2, 32), (warps, 1, 64)] {
        let mut device = Device::new(&text);
        let memory = device.array(&[0; 4]);
        pooled(&device, grid, block, memory);
        for seed in 0..10 {
            let memory = device.array(&[0; 4]);
            device.run("k", grid, block, &[memory], seed).unwrap();
        }
    }
}

#[test]
fn calls_that_others_outlive_leave_nothing_behind() {
    // Two lanes take turns 3,000 times. Each waits for its turn inside its own call of `f`.
    let text = ".func f(.param .b64 a, .param .b32 me)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n\
        ld.param.b64 %d0, [a];\nld.param.b32 %r0, [me];\nL:\nld.volatile.global.u32 %r1, [%d0];\nand.b32 %r2, %r1, 1;\n\
        setp.ne.u32 %p0, %r2, %r0;\n@%p0 bra L;\nadd.u32 %r1, %r1, 1;\nst.volatile.global.u32 [%d0], %r1;\nret;\n}\n\
        .visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\nld.param.u64 %d0, [p];\n\
        mov.u32 %r0, %tid.x;\nmov.u32 %r1, 0;\nL:\n{ .param .b64 x; .param .b32 y; st.param.b64 [x], %d0; st.param.b32 [y], %r0; call f, (x, y); }\n\
        add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p0, %r1, 3000;\n@%p0 bra L;\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 4]);
    device.run("k", 1, 2, &[memory], 1).unwrap();
    assert_eq!(device.values(0)[0], 6000);
}

#[test]
fn lanes_that_one_function_was_called_for_from_two_places_meet_in_it() {
    // The lower half of a warp calls it from one place, the upper half from another; its effect needs both.
    for (does, expected) in [
        ("shfl.sync.bfly.b32 %r1, %r0, 16, 31, -1;", (0..32).map(|lane| lane ^ 16).collect::<Vec<u32>>()),
        ("setp.ge.u32 %p1, %r0, 12;\nvote.sync.ballot.b32 %r1, %p1, -1;", vec![!0xfff; 32]),
        ("setp.lt.u32 %p1, %r0, 16;\nvote.sync.all.pred %p2, %p1, -1;\nselp.u32 %r1, 1, 0, %p2;", vec![0; 32]),
        (
            "and.b32 %r2, %r0, 1;\nmatch.any.sync.b32 %r1, %r2, -1;",
            (0..32).map(|lane| 0x5555_5555 << (lane % 2)).collect(),
        ),
    ] {
        let call = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r0; call (y), f, (x); ld.param.b32 %r1, [y]; }";
        let text = format!(
            ".func (.param .b32 o) f(.param .b32 a)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\nld.param.b32 %r0, [a];\n{does}\nst.param.b32 [o], %r1;\nret;\n}}\n\
             .visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\nld.param.u64 %d0, [p];\nmov.u32 %r0, %tid.x;\n\
             mul.wide.u32 %d1, %r0, 4;\nadd.u64 %d0, %d0, %d1;\nsetp.lt.u32 %p0, %r0, 16;\n@%p0 bra A;\n{call}\nbra.uni E;\nA:\n{call}\n\
             E:\nst.global.u32 [%d0], %r1;\nret;\n}}"
        );
        let mut device = Device::new(&text);
        let memory = device.array(&[0; 32]);
        device.run("k", 1, 32, &[memory], 1).unwrap();
        assert_eq!(device.values(0), expected, "{does}");
    }
}

#[test]
fn lanes_of_a_warp_come_to_the_barriers_that_each_of_them_names() {
    // Even lanes of two warps meet at barrier 1, odd ones at barrier 2, where fewer hold up their hands.
    let text = ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\nld.param.u64 %d0, [p];\n\
        mov.u32 %r0, %tid.x;\nand.b32 %r1, %r0, 1;\nadd.u32 %r1, %r1, 1;\nmad.lo.u32 %r3, %r1, 10, 0;\nsetp.ge.u32 %p0, %r0, %r3;\n\
        barrier.red.popc.u32 %r2, %r1, 32, %p0;\nmul.wide.u32 %d1, %r0, 4;\nadd.u64 %d1, %d0, %d1;\nst.global.u32 [%d1], %r2;\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 64]);
    device.run("k", 1, 64, &[memory], 1).unwrap();
    let expected: Vec<u32> = (0..64).map(|thread| if thread % 2 == 0 { 27 } else { 22 }).collect();
    assert_eq!(device.values(0), expected);
}

#[test]
fn conversions_to_signed_numbers_fill_wider_registers_with_the_sign() {
    let text = ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n.reg .u64 %q<4>;\n.reg .f32 %f<2>;\n\
        ld.param.u64 %d0, [p];\nmov.f32 %f0, 0fC0200000;\ncvt.rzi.s8.f32 %r0, %f0;\nst.global.u32 [%d0], %r0;\n\
        cvt.rzi.s16.f32 %r0, 0fC7C35000;\nst.global.u32 [%d0+4], %r0;\ncvt.rzi.s32.f32 %q0, %f0;\nst.global.u64 [%d0+8], %q0;\n\
        cvt.rzi.u8.f32 %r0, 0f43C80000;\nst.global.u32 [%d0+16], %r0;\ncvt.rzi.s64.f32 %q0, 0f7FC00000;\nst.global.u64 [%d0+24], %q0;\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 8]);
    device.run("k", 1, 1, &[memory], 1).unwrap();
    let expected = [-2i32 as u32, -32768i32 as u32, -2i32 as u32, u32::MAX, 255, 0, 0, 1 << 31];
    assert_eq!(device.values(0), expected);
}

#[test]
fn vectors_are_aligned_to_their_size() {
    let text = ".shared .b32 x;\n.shared .v4 .b32 v;\n.global .v2 .b32 g;\n.visible .entry k(.param .u64 p)\n{\n.reg .b64 %d<2>;\n\
        .local .b32 lx;\n.local .v4 .b32 lv;\nst.local.u32 [lx], 1;\nst.local.v4.u32 [lv], {1, 2, 3, 4};\nst.shared.u32 [x], 1;\n\
        st.shared.v4.u32 [v], {1, 2, 3, 4};\nst.global.v2.u32 [g], {1, 2};\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 4]);
    device.run("k", 1, 32, &[memory], 1).unwrap();
}

#[test]
fn barriers_and_stores_to_own_memory_do_not_hide_that_nothing_moves() {
    let poll = "ld.volatile.global.u32 %r1, [%d0];\nsetp.eq.u32 %p0, %r1, 0;\n";
    for (own, round) in [
        ("", format!("bar.sync 0;\n{poll}@%p0 bra L;")),
        ("", format!("bar.sync 0;\nmov.u32 %r2, %tid.x;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra L;\n{poll}@%p0 bra L;")),
        (
            ".local .b32 n;\n",
            format!("ld.local.u32 %r2, [n];\nadd.u32 %r2, %r2, 1;\nst.local.u32 [n], %r2;\n{poll}@%p0 bra L;"),
        ),
    ] {
        let text = format!(
            ".visible .entry k(.param .u64 p)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<4>;\n{own}ld.param.u64 %d0, [p];\nL:\n{round}\nret;\n}}"
        );
        let mut device = Device::new(&text);
        let memory = device.array(&[0; 4]);
        let pool = Pool::new(1).unwrap();
        let launch = device.launch("k", 1, 96, &[memory]).unwrap();
        pool.launch(launch, Box::new(|_| {}));
        let start = std::time::Instant::now();
        while pool.standing().is_none() {
            assert!(start.elapsed() < Duration::from_secs(30), "{round}");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(pool);
    }
}
