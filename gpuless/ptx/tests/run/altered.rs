//! Tests that a changed instruction does what the change says, and that executed instructions are noted.

use crate::device::Device;
use ptx::code::Change;
use ptx::run::{Alteration, Mutation, Options, Vectors};

/// A kernel that stores what some instructions make of a = 7 and b = 3, 32 bits at a time; the address is that of the array.
fn kernel(body: &str) -> String {
    format!(
        ".visible .entry k(.param .u64 m)\n{{\n.reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<9>;\n.reg .b64 %d<3>;\n.shared .b32 s;\n\
         ld.param.u64 %d1, [m];\nld.global.u32 %r1, [%d1];\nld.global.u32 %r2, [%d1+4];\nmov.b32 %r3, 0;\n{body}\nst.global.u32 [%d1+8], %r3;\nret;\n}}\n"
    )
}

/// The number of the first operation of the body.
const FIRST: u32 = 4;

/// The result as the text says, and with a change of an operation of the body; both ways of executing agree.
fn results(body: &str, number: u32, change: Change, inputs: [u32; 2]) -> [u32; 2] {
    let all = [Vectors::best(), Vectors::OneByOne].map(|vectors| {
        let mut device = Device::with(&kernel(body), Options { vectors, ..Options::default() });
        let function = device.image.executable().program().kernel("k").unwrap();
        let mut arrays = 0..;
        let mut run = |alteration| {
            let memory = device.array(&[inputs[0], inputs[1], 0, 0]);
            device.image.executable().alter(alteration);
            device.run("k", 1, 1, &[memory], 0).unwrap_or_else(|fault| panic!("{fault}"));
            device.values(arrays.next().unwrap())[2]
        };
        let sound = run(None);
        let mutation = Mutation { function, operation: FIRST + number, change };
        let changed = run(Some(Alteration::Mutated(mutation)));
        assert_eq!(run(None), sound, "the sound function is as before");
        [sound, changed]
    });
    assert_eq!(all[0], all[1], "{body}");
    all[0]
}

#[test]
fn each_kind_of_change_does_what_it_says() {
    let of_7_and_3 = |body: &str, number, change| results(body, number, change, [7, 3]);
    for (body, number, change, expected) in [
        ("add.s32 %r3, %r1, %r2;", 0, Change::Operator, [10, 4]),
        ("sub.s32 %r3, %r1, %r2;", 0, Change::Operator, [4, 10]),
        ("min.s32 %r3, %r1, %r2;", 0, Change::Operator, [3, 7]),
        ("and.b32 %r3, %r1, %r2;", 0, Change::Operator, [3, 7]),
        ("mul.lo.s32 %r3, %r1, %r2;", 0, Change::Operator, [21, 10]),
        ("mad.lo.s32 %r3, %r1, %r2, %r1;", 0, Change::Operator, [28, 21]),
        ("shl.b32 %r3, %r1, 1;", 0, Change::Operator, [14, 3]),
        ("shl.b32 %r3, %r1, 1;", 0, Change::Constant, [14, 28]),
        ("mov.b32 %r3, 41;", 0, Change::Constant, [41, 42]),
        ("setp.lt.s32 %p1, %r1, 7;\nselp.b32 %r3, 1, 2, %p1;", 0, Change::Comparison, [2, 1]),
        ("setp.ne.s32 %p1, %r1, 7;\nselp.b32 %r3, 1, 2, %p1;", 0, Change::Comparison, [2, 1]),
        ("setp.lt.s32 %p1, %r1, 7;\nselp.b32 %r3, 1, 2, %p1;", 0, Change::Constant, [2, 1]),
        ("setp.lt.s32 %p1, %r1, 7;\nselp.b32 %r3, 1, 2, %p1;", 1, Change::Negated, [2, 1]),
        ("setp.lt.s32 %p1, %r1, 7;\n@%p1 mov.b32 %r3, 5;", 1, Change::Negated, [0, 5]),
        ("setp.lt.s32 %p1, %r1, 7;\n@%p1 bra OVER;\nmov.b32 %r3, 5;\nOVER:", 1, Change::Negated, [5, 0]),
        ("st.shared.u32 [s], %r1;\nst.shared.u32 [s], %r2;\nld.shared.u32 %r3, [s];", 1, Change::LeftOut, [3, 7]),
        ("red.global.add.u32 [%d1+12], 1;\nld.global.u32 %r3, [%d1+12];", 0, Change::LeftOut, [1, 0]),
        ("fence.acq_rel.sys;\nmov.b32 %r3, %r1;", 0, Change::LeftOut, [7, 7]),
        ("bar.sync 0;\nmov.b32 %r3, %r1;", 0, Change::LeftOut, [7, 7]),
    ] {
        assert_eq!(of_7_and_3(body, number, change), expected, "{body} {change:?}");
    }
}

#[test]
fn floating_point_numbers_are_rounded_towards_zero() {
    let bits = |value: f32| value.to_bits();
    let above = f32::EPSILON * 0.75;
    let rounded = |body: &str, inputs: [f32; 2]| results(body, 0, Change::Rounding, inputs.map(f32::to_bits));
    let up = bits(1.0 + f32::EPSILON);
    assert_eq!(rounded("add.f32 %r3, %r1, %r2;", [1.0, above]), [up, bits(1.0)]);
    assert_eq!(rounded("fma.rn.f32 %r3, %r1, %r1, %r2;", [1.0, above]), [up, bits(1.0)]);
    assert_eq!(
        rounded("cvt.rn.bf16.f32 %h1, %r1;\nmov.b32 %r3, {%h1, %h1};", [1.006, 0.0]),
        [0x3f81_3f81, 0x3f80_3f80]
    );
    let product = results("fma.rn.f32 %r3, %r1, %r1, %r2;", 0, Change::Operator, [bits(3.0), bits(1.0)]);
    assert_eq!(product, [bits(10.0), bits(9.0)]);
}

#[test]
fn a_change_that_an_instruction_does_not_allow_is_none() {
    let body = "ld.global.u32 %r3, [%d1+4];\nfence.acq_rel.cta;\nprefetch.global.L2 [%d1];";
    for number in 0..3 {
        for change in Change::ALL {
            assert_eq!(results(body, number, change, [7, 3]), [3, 3], "{number} {change:?}");
        }
    }
}

#[test]
fn only_what_was_executed_is_noted() {
    let body = "setp.lt.s32 %p1, %r1, 7;\n@%p1 mov.b32 %r3, 5;\n@!%p1 mov.b32 %r3, 6;\n@%p1 bra OVER;\nadd.s32 %r3, %r3, 1;\nbra END;\nOVER:\nadd.s32 %r3, %r3, 2;\nEND:";
    let mut device = Device::new(&kernel(body));
    let executable = device.image.clone();
    let executable = executable.executable();
    let memory = device.array(&[7, 3, 0, 0]);
    let mut noted = |input: u32| {
        executable.alter(Some(Alteration::Noted));
        let memory = if input == 7 { memory } else { device.array(&[input, 3, 0, 0]) };
        device.run("k", 1, 1, &[memory], 0).unwrap();
        let all = executable.executed().unwrap();
        assert_eq!(all.len(), 1, "one function");
        all[0].1.clone()
    };
    let numbers = |all: &[ptx::run::Executed]| -> Vec<u32> {
        all.iter().map(|of| of.operation).filter(|number| *number >= FIRST).map(|number| number - FIRST).collect()
    };
    let first = noted(7);
    assert_eq!(numbers(&first), [0, 2, 3, 4, 5, 7, 8]);
    assert_eq!(numbers(&noted(1)), [0, 1, 3, 6, 7, 8], "what the run before has executed is forgotten");
    let sum = first.iter().find(|of| of.operation == FIRST + 4).unwrap();
    assert_eq!((sum.text.as_str(), sum.line), ("add.s32 %r3, %r3, 1;", 19));
    let words: Vec<(Change, &str)> = sum.changes.iter().map(|(change, words)| (*change, words.as_str())).collect();
    assert_eq!(words, [(Change::Operator, "add becomes sub"), (Change::Constant, "1 becomes 2")]);
    executable.alter(None);
    assert_eq!(executable.executed().unwrap(), []);
}

#[test]
fn the_function_that_is_called_is_the_one_that_changes() {
    let text = ".func (.param .b32 o) twice(.param .b32 i)\n{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [i];\nshl.b32 %r2, %r1, 1;\nst.param.b32 [o], %r2;\nret;\n}\n\
        .visible .entry k(.param .u64 m)\n{\n.reg .b32 %r<3>;\n.reg .b64 %d<2>;\n.param .b32 a;\n.param .b32 b;\n\
        ld.param.u64 %d1, [m];\nld.global.u32 %r1, [%d1];\nst.param.b32 [a], %r1;\ncall.uni (b), twice, (a);\nld.param.b32 %r2, [b];\nst.global.u32 [%d1+8], %r2;\nret;\n}\n";
    let mut device = Device::new(text);
    let memory = device.array(&[7, 3, 0, 0]);
    let image = device.image.clone();
    let executable = image.executable();
    executable.alter(Some(Alteration::Noted));
    device.run("k", 1, 32, &[memory], 0).unwrap();
    assert_eq!(device.values(0)[2], 14);
    let functions = executable.executed().unwrap();
    assert_eq!(functions.len(), 2);
    let (function, _) = functions.iter().find(|(_, all)| all.len() == 4).unwrap();
    let mutation = Mutation { function: *function, operation: 1, change: Change::Constant };
    executable.alter(Some(Alteration::Mutated(mutation)));
    device.run("k", 1, 32, &[memory], 0).unwrap();
    assert_eq!(device.values(0)[2], 28);
}
