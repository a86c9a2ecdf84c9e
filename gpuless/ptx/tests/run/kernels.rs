//! Tests what threads compute, how they meet, and how a launch ends that cannot continue.

use crate::device::Device;
use ptx::run::Fault;

/// Adds two arrays: the example of the README.
const ADD: &str = include_str!("../../examples/add.ptx");

#[test]
fn threads_add_arrays() {
    let mut device = Device::new(ADD);
    let x: Vec<u32> = (0..100).map(|i| (i as f32).to_bits()).collect();
    let y: Vec<u32> = (0..100).map(|i| (0.5 * i as f32).to_bits()).collect();
    let arrays = [device.array(&x), device.array(&y), device.array(&[0; 100])];
    device.run("add", 4, 32, &[arrays[0], arrays[1], arrays[2], 100], 1).unwrap();
    let sums: Vec<f32> = device.values(2).into_iter().map(f32::from_bits).collect();
    assert!(sums.iter().enumerate().all(|(i, sum)| *sum == 1.5 * i as f32), "{sums:?}");
}

#[test]
fn lanes_part_and_meet() {
    // Each lane runs as many rounds as its number says; a vote afterwards has all of them.
    let text = ".visible .entry k(.param .u64 out)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n\
        ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmov.b32 %r2, 0;\nmov.b32 %r3, 0;\n\
        LOOP:\nsetp.ge.u32 %p1, %r2, %r1;\n@%p1 bra DONE;\nadd.s32 %r3, %r3, %r2;\nadd.s32 %r2, %r2, 1;\nbra LOOP;\n\
        DONE:\nsetp.ge.u32 %p2, %r3, 0;\nvote.sync.ballot.b32 %r4, %p2, -1;\nadd.s32 %r3, %r3, %r4;\n\
        mul.wide.u32 %d2, %r1, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r3;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[0; 32]);
    device.run("k", 1, 32, &[out], 1).unwrap();
    let expected: Vec<u32> = (0..32u32).map(|lane| (lane * lane.wrapping_sub(1) / 2).wrapping_add(u32::MAX)).collect();
    assert_eq!(device.values(0)[1..], expected[1..]);
}

#[test]
fn warps_meet_at_barriers_and_share_memory() {
    // Every thread writes its number, and after the barrier reads that of its counterpart counted from the end.
    let text = ".shared .align 16 .b8 fixed[512];\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<7>;\n.reg .b64 %d<6>;\n\
        ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d2, %r1, 4;\nmov.u64 %d4, fixed;\ncvta.shared.u64 %d5, %d4;\n\
        add.s64 %d3, %d5, %d2;\nst.u32 [%d3], %r1;\nbar.sync 0;\n\
        mov.u32 %r2, %ntid.x;\nsub.s32 %r3, %r2, %r1;\nshl.b32 %r4, %r3, 2;\nld.shared.u32 %r5, [%r4+-4];\n\
        add.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r5;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[0; 128]);
    for seed in 0..20 {
        device.run("k", 1, 128, &[out], seed).unwrap();
        let expected: Vec<u32> = (0..128).rev().collect();
        assert_eq!(device.values(0), expected);
    }
}

#[test]
fn a_missing_barrier_is_found_by_some_seed() {
    let text = ".shared .align 16 .b8 fixed[512];\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<7>;\n.reg .b64 %d<6>;\n\
        ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r6, fixed;\nadd.s32 %r2, %r2, %r6;\nst.shared.u32 [%r2], %r1;\n\
        mov.u32 %r3, %ntid.x;\nsub.s32 %r3, %r3, %r1;\nshl.b32 %r4, %r3, 2;\nadd.s32 %r4, %r4, %r6;\nld.shared.u32 %r5, [%r4+-4];\n\
        mul.wide.u32 %d2, %r1, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r5;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[0; 128]);
    let expected: Vec<u32> = (0..128).rev().collect();
    let wrong = (0..20).filter(|seed| {
        device.run("k", 1, 128, &[out], *seed).unwrap();
        device.values(0) != expected
    });
    assert!(wrong.count() > 0);
}

#[test]
fn functions_are_called_by_name_and_by_address() {
    let text = ".visible .func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; shl.b32 %r2, %r1, 1; st.param.b32 [r], %r2; ret; }\n\
        .func inc() { .reg .b32 %r<2>; .reg .b64 %d<2>; mov.u64 %d1, counter; atom.global.add.u32 %r1, [%d1], 1; ret; }\n\
        .func inc_by_ten() { .reg .b32 %r<2>; .reg .b64 %d<2>; mov.u64 %d1, counter; atom.global.add.u32 %r1, [%d1], 10; ret; }\n\
        .visible .global .align 4 .u32 counter = 5;\n.global .align 8 .u64 table[2] = {inc, inc_by_ten};\n\
        .visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<6>;\n.reg .b64 %d<8>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\n\
        and.b32 %r2, %r1, 1;\nmul.wide.u32 %d2, %r2, 8;\nmov.u64 %d3, table;\nadd.s64 %d4, %d3, %d2;\nld.global.u64 %d5, [%d4];\n\
        call %d5;\ncall inc;\nbar.sync 0;\nmov.u64 %d6, counter;\nld.global.u32 %r3, [%d6];\nst.global.u32 [%d1], %r3;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[0; 4]);
    device.run("k", 1, 32, &[out], 3).unwrap();
    assert_eq!(device.values(0)[0], 5 + 16 + 160 + 32);
}

#[test]
fn a_thread_waits_for_what_another_block_writes() {
    // Block 0 polls a flag that block 1 raises after it has written the data.
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n\
        ld.param.u64 %d1, [m];\nmov.u32 %r1, %ctaid.x;\nsetp.eq.u32 %p1, %r1, 1;\n@%p1 bra WRITE;\n\
        POLL:\nld.acquire.sys.b32 %r2, [%d1+4];\nsetp.eq.b32 %p2, %r2, 0;\n@%p2 bra POLL;\n\
        ld.global.u32 %r3, [%d1];\nst.global.u32 [%d1+8], %r3;\nret;\n\
        WRITE:\nst.global.u32 [%d1], 77;\nfence.acq_rel.sys;\nst.relaxed.sys.b32 [%d1+4], 1;\nret;\n}";
    let mut device = Device::new(text);
    for seed in 0..20 {
        let memory = device.array(&[0; 4]);
        device.run("k", 2, 1, &[memory], seed).unwrap();
        assert_eq!(device.values(seed as usize)[2], 77);
    }
}

#[test]
fn lanes_that_wait_for_lanes_of_their_warp_get_on() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n\
        ld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 31;\n@%p1 bra WRITE;\n\
        POLL:\nld.volatile.global.u32 %r2, [%d1];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra POLL;\nret;\n\
        WRITE:\nst.volatile.global.u32 [%d1], 1;\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 4]);
    device.run("k", 1, 32, &[memory], 1).unwrap();
    assert_eq!(device.values(0)[0], 1);
}

#[test]
fn a_standstill_is_told_with_its_places() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\n\
        ld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nsetp.ge.u32 %p1, %r1, 32;\n@%p1 bra WAIT;\n\
        POLL:\nld.volatile.global.u32 %r2, [%d1];\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra POLL;\nWAIT:\nbar.sync 3;\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0; 4]);
    let Err(Fault::Standstill(spots)) = device.run("k", 1, 64, &[memory], 1) else { panic!("nothing can move") };
    let told: Vec<String> = spots.iter().map(|(spot, why)| format!("{spot} {why}")).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().any(|line| line.contains("warp 0") && line.contains("[%d1]; polls 0x")), "{told:?}");
    assert!(
        told.iter()
            .any(|line| line.contains("warp 1") && line.contains("kernels.ptx:18:1: bar.sync 3; waits at barrier 3")),
        "{told:?}"
    );
}

#[test]
fn what_cannot_be_executed_ends_the_launch_with_its_place() {
    let kernel = |line: &str| {
        format!(
            ".visible .entry k(.param .u64 m)\n{{\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\nld.param.u64 %d1, [m];\n{line}\nret;\n}}"
        )
    };
    for (line, what) in [
        ("st.global.u32 [%d1+16], 1;", "writes 4 bytes at"),
        ("ld.global.u32 %r1, [%d1+2];", "a misaligned address"),
        ("ld.global.u64 %d2, [0];", "reads 8 bytes at 0x0, an address outside of all memory"),
        ("trap;", "a trap"),
        ("multimem.red.add.u32 [%d1], %r1;", "an address outside of multicast memory that every device has bound"),
        ("surprise.b32 %r1;", "this instruction is not known"),
        ("mov.u64 %d2, nothing;", "`nothing` is defined nowhere"),
        ("call %d1;", "is not the address of a function"),
    ] {
        let mut device = Device::new(&kernel(line));
        let memory = device.array(&[0; 4]);
        let error = device.run("k", 1, 1, &[memory], 1).unwrap_err().to_string();
        assert!(error.contains(what), "{line}: {error}");
        assert!(
            line.starts_with("call") || error.contains("block 0, warp 0, lanes 0x00000001, k, kernels.ptx:9:1: "),
            "{error}"
        );
    }
}

#[test]
fn what_cannot_be_decoded_is_a_fault_only_where_its_guard_holds() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\nld.param.u64 %d1, [m];\n\
        ld.global.u32 %r1, [%d1];\nsetp.eq.u32 %p1, %r1, 1;\nmov.u32 %r2, %r1;\n@%p1 surprise.u32 [%d1], %r1;\n\
        add.s32 %r2, %r2, %r1;\nst.global.u32 [%d1+4], %r2;\nret;\n}";
    let mut device = Device::new(text);
    let memory = [device.array(&[5, 0]), device.array(&[1, 0])];
    device.run("k", 1, 32, &[memory[0]], 1).unwrap();
    assert_eq!(device.values(0)[1], 10);
    let error = device.run("k", 1, 32, &[memory[1]], 1).unwrap_err().to_string();
    assert!(error.contains("this instruction is not known"), "{error}");
}

#[test]
fn many_unknown_instructions_take_no_longer_than_known_ones() {
    // All in one line, in which each has a place.
    let text = format!(".visible .entry k(.param .u64 m) {{ ret; {} }}", "surprise.b32; ".repeat(100_000));
    let start = std::time::Instant::now();
    Device::new(&text).run("k", 1, 1, &[0], 1).unwrap();
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn what_would_take_all_memory_is_refused() {
    let recursion = ".func f() { call f; ret; }\n.visible .entry k(.param .u64 m)\n{\ncall f;\nret;\n}";
    let local = ".visible .entry k(.param .u64 m)\n{\n.local .b8 own[1000000];\nret;\n}";
    let global = ".global .b8 one[1000000000];\n.global .b8 two[1000000000];\n.visible .entry k(.param .u64 m)\n{\n.reg .b64 %d<2>;\n\
        .reg .b32 %r;\nmov.u64 %d1, one;\nmov.u64 %d1, two;\nld.global.u32 %r, [%d1];\nret;\n}";
    let registers = |each: fn(usize) -> String| (0..6000).map(each).collect::<String>();
    let branches = format!(
        ".visible .entry k(.param .u64 m)\n{{\n.reg .pred %p;\n.reg .b32 %r<6000>;\n.reg .b64 %d;\n{}{}{}END:\nret;\n}}",
        registers(|at| format!("mov.b32 %r{at}, 1;\n")),
        "@%p bra END;\n".repeat(30_000),
        registers(|at| format!("st.b32 [%d], %r{at};\n"))
    );
    for (text, what) in [
        (branches.as_str(), "too many registers are alive across too many branches of this function"),
        (recursion, "calls are nested more than 1024 deep"),
        (local, "a thread needs 1000000 bytes of memory of its own: 524288 is the limit"),
        (global, "all variables together need more than 1073741824 bytes"),
    ] {
        let mut device = Device::new(text);
        let memory = device.array(&[0; 4]);
        let error = device.run("k", 1, 32, &[memory], 1).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn a_kernel_that_wants_blocks_of_one_size_is_launched_with_that_alone() {
    let mut device = Device::new(".visible .entry k(.param .u64 m)\n.reqntid 32, 2\n{\nret;\n}");
    let memory = device.array(&[0; 4]);
    let error = device.run("k", 1, 64, &[memory], 1).unwrap_err().to_string();
    assert_eq!(error, "`k` wants blocks of [32, 2, 1] threads, not [64, 1, 1]");
}

#[test]
fn the_upper_half_of_the_clock_is_no_clock() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\n\
        mov.u32 %r1, %clock;\nmov.u32 %r1, %clock;\nmov.u32 %r2, %clock_hi;\nst.global.v2.u32 [%d1], {%r1, %r2};\nret;\n}";
    let mut device = Device::new(text);
    let memory = device.array(&[0, 9, 0, 0]);
    device.run("k", 1, 1, &[memory], 1).unwrap();
    assert!(device.values(0)[0] > 0 && device.values(0)[1] == 0, "{:?}", device.values(0));
}

#[test]
fn an_mbarrier_for_more_arrivals_than_it_can_count_is_refused() {
    for (count, allowed) in [(0, false), (1, true), (65_535, true), (65_536, false), (65_537, false)] {
        let text = format!(
            ".shared .align 8 .b64 done;\n.visible .entry k(.param .u64 m)\n{{\nmbarrier.init.shared.b64 [done], {count};\nret;\n}}"
        );
        let outcome = Device::new(&text).run("k", 1, 1, &[0], 1);
        assert_eq!(outcome.is_ok(), allowed, "{count}: {outcome:?}");
    }
}

#[test]
fn the_threads_that_run_kernels_round_as_ptx_says() {
    // Half the smallest normal number times 1, and a sum that is rounded, on threads that flush the one and cut the other.
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .f32 %f<4>;\n.reg .b64 %d<2>;\nld.param.u64 %d1, [m];\n\
        ld.global.f32 %f1, [%d1];\nadd.f32 %f2, %f1, %f1;\nst.global.f32 [%d1+4], %f2;\nret;\n}";
    let mut device = Device::new(text);
    let arrays = [device.array(&[0x0020_0000, 0, 0, 0]), device.array(&[0x0020_0000, 0, 0, 0])];
    let set = |control: u32| {
        // SAFETY: this thread's rounding, which is set back below.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control);
        }
    };
    set(0x9fc0);
    let pool = ptx::run::Pool::new(1).unwrap();
    let (told, outcome) = std::sync::mpsc::channel();
    pool.launch(device.launch("k", 1, 1, &[arrays[0]]).unwrap(), Box::new(move |end| told.send(end).unwrap()));
    let pooled = outcome.recv().unwrap();
    let here = device.run("k", 1, 1, &[arrays[1]], 1);
    let flushes = std::hint::black_box(f32::from_bits(0x0020_0000)) * std::hint::black_box(1.0) == 0.0;
    set(0x1f80);
    assert!(pooled.is_ok() && here.is_ok());
    assert_eq!((device.values(0)[1], device.values(1)[1]), (0x0040_0000, 0x0040_0000));
    assert!(flushes || cfg!(not(target_arch = "x86_64")), "what the thread had set holds again");
}

#[test]
fn calls_give_what_functions_take() {
    for (arguments, what) in [
        ("", "0 arguments for a function that takes 1"),
        (", (a, b)", "2 arguments for a function that takes 1"),
        (", (b)", "argument 1 has 4 bytes, and the function takes 8"),
        (", (a)", ""),
    ] {
        let text = format!(
            ".func f(.param .b64 x)\n{{\nret;\n}}\n.visible .entry k(.param .u64 m)\n{{\n.param .b64 a;\n.param .b32 b;\ncall f{arguments};\nret;\n}}"
        );
        let outcome = Device::new(&text).run("k", 1, 32, &[0], 1).map_err(|error| error.to_string());
        match outcome {
            Ok(_) => assert_eq!(what, ""),
            Err(error) => {
                assert!(!what.is_empty() && error.ends_with(&format!("call f{arguments};: {what}")), "{error}")
            }
        }
    }
}

#[test]
fn a_launch_that_needs_more_memory_than_there_is_is_refused() {
    let text = ".visible .entry k(.param .u64 m)\n{\n.local .b8 own[65536];\nret;\n}";
    let error = Device::new(text).run("k", 4096, 256, &[0], 1).unwrap_err().to_string();
    assert!(error.starts_with("`k` needs 687") && error.ends_with("8589934592 is the limit"), "{error}");
}

#[test]
fn launches_that_are_not_allowed_are_refused() {
    let mut device = Device::new(".visible .entry k(.param .u64 m)\n.maxntid 64, 1, 1\n{\nret;\n}");
    let memory = device.array(&[0; 4]);
    for (kernel, grid, block, parameters, what) in [
        ("none", 1, 1, &[memory][..], "there is no kernel `none`"),
        ("k", 0, 1, &[memory], "0 blocks of 1 threads cannot be launched"),
        ("k", 1, 2048, &[memory], "1 blocks of 2048 threads cannot be launched"),
        ("k", 1, 65, &[memory], "`k` allows fewer than 65 threads in a block"),
        ("k", 1, 1, &[memory, 0], "`k` has 8 bytes of parameters, not 16"),
    ] {
        let error = device.run(kernel, grid, block, parameters, 1).unwrap_err().to_string();
        assert!(error.starts_with(what), "{error}");
    }
}

#[test]
fn a_seed_gives_one_order_and_a_thousand_of_them_one_result() {
    // Warps of two blocks add to a counter; each writes the value that it found at the end.
    let text = ".visible .global .align 4 .u32 counter = 0;\n.visible .entry k(.param .u64 out)\n{\n.reg .pred %p<2>;\n.reg .b32 %r<6>;\n\
        .reg .b64 %d<6>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmov.u64 %d2, counter;\nmov.b32 %r2, 0;\n\
        AGAIN:\natom.global.add.u32 %r3, [%d2], %r1;\nadd.s32 %r2, %r2, 1;\nsetp.lt.s32 %p1, %r2, 20;\n@%p1 bra AGAIN;\n\
        bar.sync 0;\natom.global.max.u32 %r4, [%d1], %r3;\nret;\n}";
    let run = |seed: u64| {
        let mut device = Device::new(text);
        let out = device.array(&[0; 4]);
        let figures = device.run("k", 2, 128, &[out], seed).unwrap();
        let (counter, _) = device.image.variable("counter").unwrap().unwrap();
        // SAFETY: the kernel has ended, and the variable lives as long as the device.
        let sum = unsafe { *(counter as *const u32) };
        (figures, sum)
    };
    let mut traces = std::collections::HashSet::new();
    for seed in 0..1000 {
        let (figures, sum) = run(seed);
        assert_eq!(sum, 2 * 20 * (0..128).sum::<u32>(), "seed {seed}");
        traces.insert(figures.trace);
    }
    assert!(traces.len() > 900, "seeds give different orders: {}", traces.len());
    assert_eq!(run(7), run(7));
}

#[test]
fn lanes_with_different_targets_meet_after_their_calls() {
    // Even lanes call one function and odd lanes another; a warp's barrier in each of them is for all lanes.
    let text = ".func (.param .b32 r) even(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; bar.warp.sync -1; add.s32 %r2, %r1, 100;\
        st.param.b32 [r], %r2; ret; }\n\
        .func (.param .b32 r) odd(.param .b32 x) { .reg .b32 %r<3>; ld.param.b32 %r1, [x]; bar.warp.sync -1; mul.lo.s32 %r2, %r1, 3;\
        st.param.b32 [r], %r2; ret; }\n\
        .global .align 8 .u64 table[2] = {even, odd};\n\
        .visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<6>;\n.reg .b64 %d<8>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\n\
        and.b32 %r2, %r1, 1;\nmul.wide.u32 %d2, %r2, 8;\nmov.u64 %d3, table;\nadd.s64 %d4, %d3, %d2;\nld.global.u64 %d5, [%d4];\n\
        { .param .b32 given; .param .b32 back; st.param.b32 [given], %r1; call (back), %d5, (given); ld.param.b32 %r3, [back]; }\n\
        mul.wide.u32 %d6, %r1, 4;\nadd.s64 %d7, %d1, %d6;\nst.global.u32 [%d7], %r3;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[0; 32]);
    for seed in 0..10 {
        device.run("k", 1, 32, &[out], seed).unwrap();
        let expected: Vec<u32> = (0..32).map(|lane| if lane % 2 == 0 { lane + 100 } else { 3 * lane }).collect();
        assert_eq!(device.values(0), expected);
    }
}

#[test]
fn bulk_copies_complete_on_a_barrier() {
    // Lane 0 starts a copy of 256 bytes to shared memory; all lanes wait for it, and read theirs.
    let text = ".shared .align 16 .b8 data[256];\n.shared .align 8 .b64 done;\n.visible .entry k(.param .u64 m)\n{\n.reg .pred %p<4>;\n\
        .reg .b32 %r<8>;\n.reg .b64 %d<8>;\nld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, data;\nmov.u32 %r3, done;\n\
        setp.ne.s32 %p1, %r1, 0;\n@%p1 bra WAIT;\nmbarrier.init.shared.b64 [%r3], 1;\n\
        mbarrier.arrive.expect_tx.shared.b64 %d2, [%r3], 256;\n\
        cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r2], [%d1], 256, [%r3];\n\
        POLL:\nmbarrier.try_wait.shared.b64 %p2, [%r3], %d2;\n@!%p2 bra POLL;\nWAIT:\nbar.sync 0;\n\
        mul.lo.s32 %r4, %r1, 4;\nadd.s32 %r5, %r2, %r4;\nld.shared.u32 %r6, [%r5];\nadd.s32 %r6, %r6, 1;\n\
        mul.wide.u32 %d3, %r1, 4;\nadd.s64 %d4, %d1, %d3;\nst.global.u32 [%d4], %r6;\nret;\n}";
    let mut device = Device::new(text);
    let values: Vec<u32> = (0..64).collect();
    let memory = device.array(&values);
    device.run("k", 1, 64, &[memory], 1).unwrap();
    assert_eq!(device.values(0), (1..65).collect::<Vec<u32>>());
}

#[test]
fn the_modes_of_prmt_pick_the_bytes_that_the_isa_lists() {
    let (a, b) = (0x3322_1100u32, 0x7766_5544u32);
    for (mode, expected) in [
        ("f4e", [0x3322_1100u32, 0x4433_2211, 0x5544_3322, 0x6655_4433]),
        ("b4e", [0x5566_7700, 0x6677_0011, 0x7700_1122, 0x0011_2233]),
        ("rc8", [0, 0x1111_1111, 0x2222_2222, 0x3333_3333]),
        ("ecl", [0x3322_1100, 0x3322_1111, 0x3322_2222, 0x3333_3333]),
        ("ecr", [0, 0x1111_1100, 0x2222_1100, 0x3322_1100]),
        ("rc16", [0x1100_1100, 0x3322_3322, 0x1100_1100, 0x3322_3322]),
    ] {
        let text = format!(
            ".visible .entry k(.param .u64 out)\n{{\n.reg .b32 %r<6>;\n.reg .b64 %d<4>;\nld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\n\
             mov.b32 %r2, {a};\nmov.b32 %r3, {b};\nprmt.b32.{mode} %r4, %r2, %r3, %r1;\n\
             mul.wide.u32 %d2, %r1, 4;\nadd.s64 %d3, %d1, %d2;\nst.global.u32 [%d3], %r4;\nret;\n}}"
        );
        let mut device = Device::new(&text);
        let out = device.array(&[0; 4]);
        device.run("k", 1, 4, &[out], 1).unwrap();
        assert_eq!(device.values(0), expected, "{mode}");
    }
}

#[test]
fn products_and_differences_round_once() {
    // x * x - y and y - x * x, where x * x is not exact; as f32, as f64 and as the lower half of a pair.
    let x = 1.0 + 3.0 * f32::EPSILON;
    let (wide, half) = (1.0 + 3.0 * f64::EPSILON, 0x3c03u16);
    let text = ".visible .entry k(.param .u64 m)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\nld.param.u64 %d1, [m];\nld.global.u32 %r1, [%d1];\n\
        ld.global.u64 %d2, [%d1+8];\nld.global.u32 %r5, [%d1+16];\nmov.b32 %r2, 0f3F800000;\nmov.b64 %d3, 0d3FF0000000000000;\n\
        mov.b32 %r6, 0x3c003c00;\n\
        mul.f32 %r3, %r1, %r1;\nsub.f32 %r4, %r3, %r2;\nst.global.u32 [%d1], %r4;\n\
        mul.f32 %r0, %r1, %r1;\nsub.f32 %r7, %r2, %r0;\nst.global.u32 [%d1+4], %r7;\n\
        mul.f64 %d4, %d2, %d2;\nsub.f64 %d5, %d4, %d3;\nst.global.u64 [%d1+8], %d5;\n\
        mul.f64 %d6, %d2, %d2;\nsub.f64 %d7, %d3, %d6;\nst.global.u64 [%d1+16], %d7;\n\
        { .reg .b32 a, b, c, d; mul.f16x2 a, %r5, %r5;\nsub.f16x2 b, a, %r6;\nst.global.u32 [%d1+24], b;\n\
        mul.bf16x2 c, %r5, %r5;\nsub.bf16x2 d, %r6, c;\nst.global.u32 [%d1+28], d; }\nret;\n}";
    let mut device = Device::new(text);
    let [low, high] = [wide.to_bits() as u32, (wide.to_bits() >> 32) as u32];
    let pair = u32::from(half) << 16 | u32::from(half);
    let memory = device.array(&[x.to_bits(), 0, low, high, pair, 0, 0, 0]);
    device.run("k", 1, 1, &[memory], 1).unwrap();
    let exact = x.mul_add(x, -1.0);
    assert_ne!(exact, x * x - 1.0);
    let values = device.values(0);
    assert_eq!(values[..2], [exact.to_bits(), (-exact).to_bits()]);
    let exact = wide.mul_add(wide, -1.0);
    assert_ne!(exact, wide * wide - 1.0);
    let of = |at: usize| f64::from_bits(u64::from(values[at + 1]) << 32 | u64::from(values[at]));
    assert_eq!((of(2), of(4)), (exact, -exact));
    let twice = |one: u16| u32::from(one) << 16 | u32::from(one);
    let fused = ptx::num::F16.fma(half, half, 0xbc00);
    let minus = ptx::num::BF16.fma(half ^ 0x8000, half, 0x3c00);
    assert_eq!(values[6..8], [twice(fused), twice(minus)]);
}

#[test]
fn a_kernel_prints_what_its_threads_say() {
    let text = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n\
        .global .align 1 .b8 say[13] = {116, 37, 100, 58, 32, 37, 46, 49, 102, 32, 37, 115, 10};\n.global .align 1 .b8 end[1];\n\
        .global .align 1 .b8 word[3] = {97, 98, 0};\n\
        .visible .entry k(.param .u64 out)\n{\n.local .align 8 .b8 list[24];\n.reg .b32 %r<4>;\n.reg .b64 %d<9>;\n\
        ld.param.u64 %d1, [out];\nmov.u32 %r1, %tid.x;\nmov.u64 %d2, list;\ncvta.local.u64 %d3, %d2;\n\
        st.local.u32 [%d2], %r1;\nmov.f64 %d4, 0d3FF8000000000000;\nst.local.f64 [%d2+8], %d4;\n\
        mov.u64 %d5, word;\ncvta.global.u64 %d6, %d5;\nst.local.u64 [%d2+16], %d6;\nmov.u64 %d7, say;\ncvta.global.u64 %d8, %d7;\n\
        {\n.param .b64 f;\nst.param.b64 [f], %d8;\n.param .b64 a;\nst.param.b64 [a], %d3;\n.param .b32 r;\n\
        call.uni (r), vprintf, (f, a);\nld.param.b32 %r2, [r];\n}\nst.global.u32 [%d1], %r2;\nret;\n}";
    let text = text.replace("say[13]", "say[14]").replace("115, 10}", "115, 10, 0}");
    let mut device = Device::new(&text);
    let out = device.array(&[9; 4]);
    device.run("k", 1, 3, &[out], 1).unwrap();
    assert_eq!(String::from_utf8_lossy(&device.image.memory().take_printed()), "t0: 1.5 ab\nt1: 1.5 ab\nt2: 1.5 ab\n");
    assert_eq!((device.values(0)[0], device.image.memory().take_printed().len()), (3, 0));
    // A text that is not there.
    let wrong =
        text.replace("mov.u64 %d5, word;", "mov.u64 %d5, 8;").replace("cvta.global.u64 %d6, %d5;", "mov.u64 %d6, %d5;");
    let mut device = Device::new(&wrong);
    let out = device.array(&[9; 4]);
    let fault = device.run("k", 1, 3, &[out], 1).unwrap_err().to_string();
    assert!(fault.contains("printf reads 1 bytes at 0x8"), "{fault}");
}

#[test]
fn atomics_add_floats() {
    let text = ".shared .align 4 .b8 own[4];\n.visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %d<9>;\n\
        ld.param.u64 %d1, [out];\nmov.f32 %r1, 0f3F000000;\nmov.u32 %r2, own;\natom.global.add.f32 %r3, [%d1], %r1;\n\
        red.global.add.f32 [%d1+4], 0f00000001;\nmov.u32 %r4, 0;\nst.shared.u32 [%r2], %r4;\nbar.sync 0;\n\
        atom.shared.add.f32 %r5, [%r2], 0f00000001;\nbar.sync 0;\nld.shared.u32 %r6, [%r2];\nst.global.u32 [%d1+8], %r6;\n\
        mov.f64 %d2, 0d3FF8000000000000;\natom.global.add.f64 %d3, [%d1+16], %d2;\nret;\n}";
    let mut device = Device::new(text);
    let out = device.array(&[2f32.to_bits(), 0, 0, 0, 0, 0, 0, 0]);
    device.run("k", 1, 32, &[out], 1).unwrap();
    let found = device.values(0);
    // Subnormal numbers are zero in global memory, and stay in shared memory.
    assert_eq!(found[..3], [18f32.to_bits(), 0, 32]);
    assert_eq!(f64::from_bits(u64::from(found[5]) << 32 | u64::from(found[4])), 48.0);
}
