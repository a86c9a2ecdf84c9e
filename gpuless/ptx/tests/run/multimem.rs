//! Multicast memory: one address for arrays of several devices.
use crate::device::Device;
use ptx::run::{Options, SwitchSum};

/// An address that nothing else has.
const AT: u64 = 1 << 60;

/// A kernel in which `%d1` is the lane's 16 bytes of multicast memory, and `%d2` those of an array.
fn device(line: &str) -> Device {
    device_with(line, Options::default())
}

fn device_with(line: &str, options: Options) -> Device {
    let text = format!(
        ".visible .entry k(.param .u64 m, .param .u64 a)\n{{\n.reg .pred %p<2>;\n.reg .b16 %h<9>;\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\
         ld.param.u64 %d1, [m];\nld.param.u64 %d2, [a];\nmov.u32 %r8, %tid.x;\nmul.wide.u32 %d3, %r8, 16;\n\
         add.s64 %d1, %d1, %d3;\nadd.s64 %d2, %d2, %d3;\n{line}\nret;\n}}"
    );
    Device::with(&text, options)
}

/// What the kernel leaves in the array after the members', on 4 lanes.
fn loaded(line: &str, members: &[[u32; 16]]) -> Vec<u32> {
    loaded_with(line, members, Options::default())
}

fn loaded_with(line: &str, members: &[[u32; 16]], options: Options) -> Vec<u32> {
    let mut device = device_with(line, options);
    let arrays = members.iter().map(|member| device.array(member)).collect();
    device.multicast(AT, 64, arrays);
    let to = device.array(&[0; 16]);
    device.run("k", 1, 4, &[AT, to], 1).unwrap_or_else(|fault| panic!("{fault}"));
    device.values(members.len())
}

#[test]
fn loads_reduce_over_the_members_in_order() {
    let whole: [[u32; 16]; 3] = std::array::from_fn(|member| std::array::from_fn(|at| (7 * member + at) as u32));
    let line = "multimem.ld_reduce.relaxed.sys.global.add.u32 %r1, [%d1];\nst.global.u32 [%d2], %r1;";
    assert_eq!(loaded(line, &whole)[4], 3 * 4 + 7 + 14);
    let line = "multimem.ld_reduce.acquire.sys.global.min.u64 %d4, [%d1];\nst.global.u64 [%d2], %d4;";
    assert_eq!(loaded(line, &whole)[8..10], [8, 9]);

    // 2^24 + 1 + 1 is 2^24 from left to right in single precision, and 2^24 + 2 in another order.
    let singles = [16777216f32, 1.0, 1.0].map(|value| [value.to_bits(); 16]);
    let line = "multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%r1, %r2, %r3, %r4}, [%d1];\nst.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};";
    assert_eq!(loaded(line, &singles), [16777216f32.to_bits(); 16]);
}

#[test]
fn a_switch_may_add_in_another_order_or_wider() {
    let single = [16777216f32, 1.0, 1.0].map(|value| [value.to_bits(); 16]);
    let bf16 = [0x4380_4380, 0x3f80_3f80, 0x3f80_3f80].map(|pair| [pair; 16]);
    let line =
        |ty: &str| format!("multimem.ld_reduce.relaxed.sys.global.add.{ty} %r1, [%d1];\nst.global.u32 [%d2], %r1;");
    // 2^24 + 1 + 1 and 256 + 1 + 1 lose both ones from left to right, and none from right to left, or in double precision.
    for (switch_sum, sums) in [
        (SwitchSum::InOrder, [16777216f32.to_bits(), 0x4380_4380]),
        (SwitchSum::Reversed, [16777218f32.to_bits(), 0x4381_4381]),
        (SwitchSum::Wide, [16777218f32.to_bits(), 0x4381_4381]),
    ] {
        let options = Options { switch_sum, ..Options::default() };
        let first = |ty: &str, members: &[[u32; 16]]| loaded_with(&line(ty), members, options)[0];
        assert_eq!([first("f32", &single), first("bf16x2", &bf16)], sums, "{switch_sum:?}");
    }
}

#[test]
fn half_precision_is_added_in_the_width_that_the_instruction_says() {
    // 256 + 1 + 1 in bf16, whose step is 2 there: 258 in single precision, and 256 if each step is rounded to even. f16: 2048 + 1 + 1.
    let bf16 = [0x4380_4380, 0x3f80_3f80, 0x3f80_3f80].map(|pair| [pair; 16]);
    let f16 = [0x6800_6800, 0x3c00_3c00, 0x3c00_3c00].map(|pair| [pair; 16]);
    let line =
        |ty: &str| format!("multimem.ld_reduce.relaxed.sys.global.add{ty} %r1, [%d1];\nst.global.u32 [%d2], %r1;");
    assert_eq!(loaded(&line(".acc::f32.bf16x2"), &bf16)[0], 0x4381_4381);
    assert_eq!(loaded(&line(".bf16x2"), &bf16)[0], 0x4380_4380);
    assert_eq!(loaded(&line(".acc::f32.f16x2"), &f16)[0], 0x6801_6801);
    assert_eq!(loaded(&line(".f16x2"), &f16)[0], 0x6800_6800);
    let line = "multimem.ld_reduce.relaxed.sys.global.max.bf16 %h1, [%d1];\nst.global.u16 [%d2], %h1;";
    assert_eq!(loaded(line, &bf16)[0], 0x4380);
}

#[test]
fn stores_and_reductions_change_every_member() {
    let mut device = device(
        "mov.u32 %r1, 5;\nmultimem.st.global.v4.f32 [%d1], {%r8, %r1, %r1, %r1};\nmultimem.red.release.sys.global.add.u32 [%d1+4], %r8;",
    );
    let arrays = vec![device.array(&[9; 16]), device.array(&[8; 16])];
    device.multicast(AT, 64, arrays);
    device.run("k", 1, 4, &[AT, 0], 1).unwrap_or_else(|fault| panic!("{fault}"));
    let expected: Vec<u32> = (0..4).flat_map(|lane| [lane, 5 + lane, 5, 5]).collect();
    assert_eq!((device.values(0), device.values(1)), (expected.clone(), expected));

    let mut device = self::device("st.global.u64 [%d1], %d2;\nst.global.u8 [%d1+8], %r8;");
    let arrays = vec![device.array(&[9; 16]), device.array(&[8; 16])];
    device.multicast(AT, 64, arrays);
    device.run("k", 1, 1, &[AT, 7], 1).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!((&device.values(0)[..3], &device.values(1)[..3]), (&[7, 0, 0][..], &[7, 0, 0][..]), "plain stores, too");
}

#[test]
fn lanes_of_one_store_may_reach_multicast_memory_and_others_an_array() {
    let line = "setp.lt.u32 %p1, %r8, 2;\nselp.b64 %d4, %d1, %d2, %p1;\nst.u32 [%d4], %r8;";
    let mut device = device(line);
    let arrays = vec![device.array(&[9; 16]), device.array(&[8; 16])];
    device.multicast(AT, 64, arrays);
    let array = device.array(&[7; 16]);
    device.run("k", 1, 4, &[AT, array], 1).unwrap_or_else(|fault| panic!("{fault}"));
    let words = |array: usize| -> Vec<u32> { device.values(array).into_iter().step_by(4).collect() };
    assert_eq!([0, 1, 2].map(words), [vec![0, 1, 9, 9], vec![0, 1, 8, 8], vec![7, 7, 2, 3]]);
    let fault = device.run("k", 1, 4, &[AT, AT + 64], 1).unwrap_err().to_string();
    let outside = format!("at {:#x}, an address outside of all memory", AT + 64 + 32);
    assert!(fault.contains(&outside), "the first lane that reaches neither: {fault}");
    assert_eq!(device.writers(array), [0]);
}

#[test]
fn what_is_not_in_every_members_memory_is_refused() {
    for (at, what) in [(64, "outside of multicast memory"), (8, "a misaligned address")] {
        let mut device = device("multimem.st.global.v4.f32 [%d1], {%r8, %r8, %r8, %r8};");
        let array = device.array(&[0; 16]);
        device.multicast(AT, 64, vec![array]);
        let fault = device.run("k", 1, 1, &[AT + at, 0], 1).unwrap_err().to_string();
        assert!(fault.contains(what), "{fault}");
    }
    let mut device = device("ld.global.u32 %r1, [%d1];");
    let array = device.array(&[0; 16]);
    device.multicast(AT, 64, vec![array]);
    let fault = device.run("k", 1, 1, &[AT, 0], 1).unwrap_err().to_string();
    assert!(fault.contains("an address outside of all memory"), "only multimem accesses it: {fault}");
}
