//! Stores that others see late: what a fence, a release and the parts of a store guarantee.

use crate::device::Device;
use ptx::run::{Pool, Schedule, StoreUnit};
use std::sync::mpsc::channel;

/// Block 0 runs `writes`; block 1 polls `[m+124]` until it is not 0, runs `reads` and stores `%r2` at `[out]`.
pub fn kernel(writes: &str, reads: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 m, .param .u64 out)\n{{\n.reg .pred %p<4>;\n.reg .b32 %r<8>;\n.reg .b64 %d<6>;\n\
         ld.param.u64 %d1, [m];\nld.param.u64 %d2, [out];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r4, %tid.x;\nmul.wide.u32 %d3, %r4, 4;\n\
         add.s64 %d4, %d1, %d3;\nsetp.eq.u32 %p3, %r4, 0;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra READ;\n{writes}\nret;\n\
         READ:\nld.volatile.global.u32 %r3, [%d1+124];\nsetp.eq.u32 %p2, %r3, 0;\n@%p2 bra READ;\n{reads}\nst.global.u32 [%d2], %r2;\nret;\n}}\n"
    )
}

fn seen(text: &str, threads: u32, delayed_stores: Option<StoreUnit>) -> Vec<u32> {
    seen_on(text, threads, |seed| Schedule { delayed_stores, ..Schedule::new(seed) })
}

/// The different values of `[out]` after many schedules.
pub fn seen_on(text: &str, threads: u32, schedule: impl Fn(u64) -> Schedule) -> Vec<u32> {
    let pool = Pool::new(1).unwrap();
    let mut seen: Vec<u32> = (0..300)
        .map(|seed| {
            pool.schedule(Some(schedule(seed)));
            let mut device = Device::new(text);
            let (memory, out) = (device.array(&[0; 256]), device.array(&[9; 4]));
            let (told, outcome) = channel();
            let launch = device.launch("k", 2, threads, &[memory, out]).unwrap();
            pool.launch(launch, Box::new(move |outcome| told.send(outcome).unwrap()));
            outcome.recv().unwrap().unwrap();
            device.values(1)[0]
        })
        .collect();
    seen.sort_unstable();
    seen.dedup();
    seen
}

#[test]
fn a_flag_is_seen_before_its_data_unless_a_fence_orders_them() {
    let reads = "ld.volatile.global.u32 %r2, [%d1+512];";
    let flag = "st.volatile.global.u32 [%d1+124], 1;";
    for (between, ordered) in [
        ("", false),
        ("membar.cta;", false),
        ("bar.sync 0;", false),
        ("fence.proxy.async;", false),
        ("atom.release.cta.global.add.u32 %r5, [%d1+256], 1;", false),
        ("fence.proxy.alias;", true),
        ("membar.gl;", true),
        ("fence.acq_rel.sys;", true),
        ("atom.release.gpu.global.add.u32 %r5, [%d1+256], 1;", true),
    ] {
        let text = kernel(&format!("st.global.u32 [%d1+512], 7;\n{between}\n{flag}"), reads);
        for unit in [StoreUnit::Element, StoreUnit::Thread, StoreUnit::Line] {
            let expected: &[u32] = if ordered { &[7] } else { &[0, 7] };
            assert_eq!(seen(&text, 1, Some(unit)), expected, "{between} {unit:?}");
        }
        assert_eq!(seen(&text, 1, None), [7], "stores in order: {between}");
    }
    let text = kernel("st.global.u32 [%d1+512], 7;\nst.release.gpu.global.u32 [%d1+124], 1;", reads);
    assert_eq!(seen(&text, 1, Some(StoreUnit::Thread)), [7]);
}

#[test]
fn a_fence_after_a_barrier_is_one_for_the_whole_block() {
    let writes = |fence: &str| {
        format!(
            "add.s32 %r5, %r4, 1;\nst.global.u32 [%d4+512], %r5;\nbar.sync 0;\n@!%p3 bra END;\n{fence}\nst.volatile.global.u32 [%d1+124], 1;\nEND:\nbar.sync 0;"
        )
    };
    let reads = "ld.volatile.global.u32 %r2, [%d1+764];";
    assert_eq!(seen(&kernel(&writes("fence.acq_rel.gpu;"), reads), 64, Some(StoreUnit::Thread)), [64]);
    assert_eq!(seen(&kernel(&writes(""), reads), 64, Some(StoreUnit::Thread)), [0, 64]);
}

#[test]
fn the_parts_of_a_store_are_seen_at_once_or_not() {
    // A thread's vector with its flag, and a line of a warp's with the flag in its last word.
    let vector = kernel("st.volatile.global.v2.u32 [%d1+120], {5, 5};", "ld.volatile.global.u32 %r2, [%d1+120];");
    let line = kernel("mov.b32 %r5, 6;\nst.volatile.global.u32 [%d4], %r5;", "ld.volatile.global.u32 %r2, [%d1+64];");
    for (unit, vectors, lines) in [
        (StoreUnit::Element, &[0, 5][..], &[0, 6][..]),
        (StoreUnit::Thread, &[5], &[0, 6]),
        (StoreUnit::Line, &[5], &[6]),
    ] {
        assert_eq!(seen(&vector, 1, Some(unit)), vectors, "{unit:?}");
        assert_eq!(seen(&line, 32, Some(unit)), lines, "{unit:?}");
    }
}

#[test]
fn a_block_sees_its_own_stores_and_the_last_one_stays() {
    // Stores that overlap in several ways, each read again, and all of them at the end.
    let writes = "\
        st.global.v4.u32 [%d1+16], {1, 2, 3, 4};\nst.global.u64 [%d1+24], 0x600000005;\nld.global.u32 %r5, [%d1+24];\n\
        st.global.u32 [%d1+40], %r5;\nst.global.u16 [%d1+20], 7;\nst.global.u8 [%d1+17], 1;\nst.global.u32 [%d1+28], 8;\n\
        ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d1+16];\nadd.s32 %r4, %r4, %r5;\nadd.s32 %r4, %r4, %r6;\nadd.s32 %r4, %r4, %r7;\n\
        st.global.u32 [%d1+44], %r4;\natom.global.add.u32 %r5, [%d1+44], 1;\nst.global.u32 [%d1+124], 1;";
    let pool = Pool::new(1).unwrap();
    for unit in [StoreUnit::Element, StoreUnit::Thread, StoreUnit::Line] {
        for seed in 0..100 {
            pool.schedule(Some(Schedule { delayed_stores: Some(unit), ..Schedule::new(seed) }));
            let mut device = Device::new(&kernel(writes, "mov.b32 %r2, 3;"));
            let (memory, out) = (device.array(&[0; 256]), device.array(&[9; 4]));
            let (told, outcome) = channel();
            let launch = device.launch("k", 2, 1, &[memory, out]).unwrap();
            pool.launch(launch, Box::new(move |outcome| told.send(outcome).unwrap()));
            outcome.recv().unwrap().unwrap();
            let first = 1 + (1 << 8);
            let expected = [first, 7, 5, 8, 0, 0, 5, first + 7 + 5 + 8 + 1];
            assert_eq!(device.values(0)[4..12], expected, "{unit:?}, seed {seed}");
        }
    }
}
