//! Loads that find what was there before: what forbids it, and what one block may see of one place.

use crate::delay::{kernel, seen_on};
use ptx::run::{EarlyLoads, Schedule, StoreUnit};

const BOTH: [EarlyLoads; 2] = [EarlyLoads::Weak, EarlyLoads::All];
/// The data, a fence, and the flag.
const WRITES: &str = "st.global.u32 [%d1+512], 7;\nfence.acq_rel.sys;\nst.volatile.global.u32 [%d1+124], 1;";

/// The different values of `[out]` after many schedules.
fn seen(text: &str, threads: u32, loads: EarlyLoads) -> Vec<u32> {
    seen_on(text, threads, |seed| Schedule { early_loads: Some(loads), ..Schedule::new(seed) })
}

#[test]
fn data_is_seen_before_its_flag_unless_the_reader_acquires() {
    for (between, acquires) in [
        ("", false),
        ("membar.cta;", false),
        ("bar.sync 0;", false),
        ("fence.proxy.async;", false),
        ("ld.acquire.cta.global.u32 %r5, [%d1+124];", false),
        ("atom.acq_rel.cta.global.add.u32 %r5, [%d1+256], 1;", false),
        ("atom.release.gpu.global.add.u32 %r5, [%d1+256], 1;", false),
        ("membar.gl;", true),
        ("fence.acq_rel.gpu;", true),
        ("fence.acq_rel.sys;", true),
        ("ld.acquire.gpu.global.u32 %r5, [%d1+124];", true),
        ("atom.acquire.gpu.global.add.u32 %r5, [%d1+256], 1;", true),
    ] {
        for loads in BOTH {
            for (data, early) in [
                ("ld.global.u32", true),
                ("ld.global.nc.u32", true),
                ("ld.global.u8", true),
                ("ld.volatile.global.u32", loads == EarlyLoads::All),
                ("ld.relaxed.gpu.global.u32", loads == EarlyLoads::All),
                ("ld.acquire.gpu.global.u32", false),
            ] {
                let text = kernel(WRITES, &format!("{between}\n{data} %r2, [%d1+512];"));
                let expected: &[u32] = if early && !acquires { &[0, 7] } else { &[7] };
                assert_eq!(seen(&text, 1, loads), expected, "{between} {data} {loads:?}");
            }
        }
    }
    let text = kernel(WRITES, "ld.global.u32 %r2, [%d1+512];");
    assert_eq!(seen_on(&text, 1, Schedule::new), [7], "without early loads");
}

#[test]
fn a_barrier_does_not_pass_on_what_one_thread_has_seen() {
    // Thread 0 polls, and thread 63 reads after a barrier.
    let reads = |load: &str| format!("{load} %r2, [%d1+512];\nsetp.ne.u32 %p1, %r4, 63;\n@%p1 ret;");
    let text = |load: &str, fence: &str| {
        kernel(WRITES, &reads(load))
            .replace("READ:\n", "READ:\n@!%p3 bra MEET;\nPOLL:\n")
            .replace("@%p2 bra READ;\n", &format!("@%p2 bra POLL;\n{fence}\nMEET:\nbar.sync 0;\n"))
    };
    assert_eq!(seen(&text("ld.volatile.global.u32", ""), 64, EarlyLoads::All), [0, 7]);
    assert_eq!(seen(&text("ld.volatile.global.u32", ""), 64, EarlyLoads::Weak), [7]);
    assert_eq!(seen(&text("ld.global.u32", ""), 64, EarlyLoads::Weak), [0, 7]);
    for loads in BOTH {
        assert_eq!(seen(&text("ld.global.u32", "fence.acq_rel.gpu;"), 64, loads), [7], "{loads:?}");
    }
}

#[test]
fn what_a_block_sees_of_one_place_never_goes_back() {
    let writes = "st.global.u32 [%d1+512], 1;\nst.global.u32 [%d1+124], 1;\nst.global.u32 [%d1+512], 2;\nst.global.u32 [%d1+512], 3;";
    let reads = "ld.global.u32 %r2, [%d1+512];\nld.volatile.global.u32 %r5, [%d1+512];\nld.global.u32 %r6, [%d1+512];\n\
        mad.lo.u32 %r2, %r2, 10, %r5;\nmad.lo.u32 %r2, %r2, 10, %r6;";
    let (weak, all) =
        (seen(&kernel(writes, reads), 1, EarlyLoads::Weak), seen(&kernel(writes, reads), 1, EarlyLoads::All));
    for seen in weak.iter().chain(&all) {
        let digits = [seen / 100, seen / 10 % 10, seen % 10];
        assert!(digits.is_sorted() && digits[2] <= 3, "{digits:?}");
    }
    assert_eq!(weak, [33, 133, 233, 333], "the second load is not early");
    assert!(all.len() > 15, "most of the 20 ways in which three loads see four values: {all:?}");
}

#[test]
fn a_block_sees_its_own_stores_and_atomics() {
    for loads in BOTH {
        for delayed_stores in [None, Some(StoreUnit::Thread)] {
            for (own, expected) in [
                ("st.global.u32 [%d1+512], 9;", 9),
                ("st.global.v2.u32 [%d1+512], {9, 9};", 9),
                ("atom.global.add.u32 %r5, [%d1+512], 1;", 8),
                ("red.global.add.u32 [%d1+512], 1;", 8),
                ("atom.global.add.u32 %r5, [%d1+512], 0;", 7),
            ] {
                let text = kernel(WRITES, &format!("{own}\nld.global.u32 %r2, [%d1+512];"));
                let schedule = |seed| Schedule { early_loads: Some(loads), delayed_stores, ..Schedule::new(seed) };
                assert_eq!(seen_on(&text, 1, schedule), [expected], "{own} {loads:?} {delayed_stores:?}");
            }
        }
    }
}

#[test]
fn a_warp_sees_a_line_at_one_moment() {
    let writes = "mov.b32 %r5, 1;\nst.volatile.global.u32 [%d4+512], %r5;\nst.volatile.global.u32 [%d1+124], %r5;\n\
        mov.b32 %r5, 2;\nst.volatile.global.u32 [%d4+512], %r5;";
    // 10 times the first lane's word, and 1 if all have the same.
    let reads = "ld.volatile.global.u32 %r5, [%d4+512];\nshfl.sync.idx.b32 %r6, %r5, 0, 31, -1;\nsetp.eq.u32 %p1, %r5, %r6;\n\
        vote.sync.all.pred %p2, %p1, -1;\nselp.u32 %r2, 1, 0, %p2;\nmad.lo.u32 %r2, %r6, 10, %r2;";
    let aligned = "add.s64 %d1, %d1, 127;\nand.b64 %d1, %d1, -128;\nmov.u32 %r1, %ctaid.x;";
    let text = kernel(writes, reads).replace("mov.u32 %r1, %ctaid.x;", aligned);
    assert_eq!(seen(&text, 32, EarlyLoads::All), [1, 11, 21]);
}

#[test]
fn polls_end() {
    for load in ["ld.global.u32", "ld.relaxed.sys.global.u32"] {
        let text = kernel(WRITES, "mov.b32 %r2, 5;").replace("ld.volatile.global.u32 %r3", &format!("{load} %r3"));
        for loads in BOTH {
            assert_eq!(seen(&text, 32, loads), [5], "{load} {loads:?}");
        }
    }
}
