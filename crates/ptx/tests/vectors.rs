//! Tests that every kind of vectors gives the same bits as one lane at a time, for every instruction with its own handler.
#![allow(unsafe_code)] // kernels are given addresses of the tests' memory

use ptx::link::Program;
use ptx::run::{Configuration, Executable, Image, Launch, Memory, Options, Region, Vectors};
use ptx::text::Unit;
use std::fmt::Write as _;
use std::sync::Arc;

/// Instructions with the bits of their operands and of their results; `A`, `B`, `C` and `D` are replaced by registers.
const INSTRUCTIONS: &[(&str, &[u32], u32)] = &[
    ("add.s32 D, A, B", &[32, 32], 32),
    ("add.s64 D, A, B", &[64, 64], 64),
    ("add.s16 D, A, B", &[16, 16], 16),
    ("sub.s32 D, A, B", &[32, 32], 32),
    ("sub.s64 D, A, B", &[64, 64], 64),
    ("mul.lo.s32 D, A, B", &[32, 32], 32),
    ("mul.lo.s64 D, A, B", &[64, 64], 64),
    ("mul.lo.s16 D, A, B", &[16, 16], 16),
    ("mul.hi.u32 D, A, B", &[32, 32], 32),
    ("mul.hi.s32 D, A, B", &[32, 32], 32),
    ("mul.hi.u64 D, A, B", &[64, 64], 64),
    ("mul.wide.u16 D, A, B", &[16, 16], 32),
    ("mul.wide.s16 D, A, B", &[16, 16], 32),
    ("mul.wide.u32 D, A, B", &[32, 32], 64),
    ("mul.wide.s32 D, A, B", &[32, 32], 64),
    ("mad.lo.s32 D, A, B, C", &[32, 32, 32], 32),
    ("mad.lo.s64 D, A, B, C", &[64, 64, 64], 64),
    ("mad.wide.u32 D, A, B, C", &[32, 32, 64], 64),
    ("mad.wide.s32 D, A, B, C", &[32, 32, 64], 64),
    ("div.u32 D, A, B", &[32, 32], 32),
    ("div.s64 D, A, B", &[64, 64], 64),
    ("rem.u32 D, A, B", &[32, 32], 32),
    ("and.b32 D, A, B", &[32, 32], 32),
    ("and.b64 D, A, B", &[64, 64], 64),
    ("or.b32 D, A, B", &[32, 32], 32),
    ("or.b16 D, A, B", &[16, 16], 16),
    ("xor.b32 D, A, B", &[32, 32], 32),
    ("xor.b64 D, A, B", &[64, 64], 64),
    ("not.b32 D, A", &[32], 32),
    ("not.b64 D, A", &[64], 64),
    ("neg.s32 D, A", &[32], 32),
    ("neg.s64 D, A", &[64], 64),
    ("shl.b32 D, A, B", &[32, 32], 32),
    ("shl.b64 D, A, B", &[64, 32], 64),
    ("shl.b16 D, A, B", &[16, 32], 16),
    ("shr.u32 D, A, B", &[32, 32], 32),
    ("shr.s32 D, A, B", &[32, 32], 32),
    ("shr.u64 D, A, B", &[64, 32], 64),
    ("shr.s64 D, A, B", &[64, 32], 64),
    ("shr.s16 D, A, B", &[16, 32], 16),
    ("min.u32 D, A, B", &[32, 32], 32),
    ("min.s32 D, A, B", &[32, 32], 32),
    ("min.u64 D, A, B", &[64, 64], 64),
    ("min.s16 D, A, B", &[16, 16], 16),
    ("max.u32 D, A, B", &[32, 32], 32),
    ("max.s64 D, A, B", &[64, 64], 64),
    ("max.u16 D, A, B", &[16, 16], 16),
    ("prmt.b32 D, A, B, C", &[32, 32, 32], 32),
    ("prmt.b32.f4e D, A, B, C", &[32, 32, 32], 32),
    ("prmt.b32.b4e D, A, B, C", &[32, 32, 32], 32),
    ("prmt.b32.ecr D, A, B, C", &[32, 32, 32], 32),
    ("popc.b32 D, A", &[32], 32),
    ("clz.b32 D, A", &[32], 32),
    ("brev.b32 D, A", &[32], 32),
    ("mov.b64 D, {A, B}", &[32, 32], 64),
    ("mov.b32 D, {A, B}", &[16, 16], 32),
    ("mov.b32 D, A", &[32], 32),
    ("mov.b64 D, A", &[64], 64),
    ("cvt.u32.u16 D, A", &[16], 32),
    ("cvt.s32.s16 D, A", &[16], 32),
    ("cvt.u64.u32 D, A", &[32], 64),
    ("cvt.s64.s32 D, A", &[32], 64),
    ("cvt.u64.u16 D, A", &[16], 64),
    ("cvt.u16.u32 D, A", &[32], 16),
    ("cvt.u16.u64 D, A", &[64], 16),
    ("cvt.u32.u64 D, A", &[64], 32),
    ("add.f32 D, A, B", &[32, 32], 32),
    ("sub.f32 D, A, B", &[32, 32], 32),
    ("mul.f32 D, A, B", &[32, 32], 32),
    ("fma.rn.f32 D, A, B, C", &[32, 32, 32], 32),
    ("min.f32 D, A, B", &[32, 32], 32),
    ("max.f32 D, A, B", &[32, 32], 32),
    ("div.rn.f32 D, A, B", &[32, 32], 32),
    ("add.f64 D, A, B", &[64, 64], 64),
    ("sub.f64 D, A, B", &[64, 64], 64),
    ("div.rn.f64 D, A, B", &[64, 64], 64),
    ("mul.f64 D, A, B", &[64, 64], 64),
    ("fma.rn.f64 D, A, B, C", &[64, 64, 64], 64),
    ("min.f64 D, A, B", &[64, 64], 64),
    ("max.f64 D, A, B", &[64, 64], 64),
    ("add.f16x2 D, A, B", &[32, 32], 32),
    ("mul.f16x2 D, A, B", &[32, 32], 32),
    ("fma.rn.f16x2 D, A, B, C", &[32, 32, 32], 32),
    ("min.f16x2 D, A, B", &[32, 32], 32),
    ("max.f16x2 D, A, B", &[32, 32], 32),
    ("add.f16 D, A, B", &[16, 16], 16),
    ("mul.f16 D, A, B", &[16, 16], 16),
    ("fma.rn.f16 D, A, B, C", &[16, 16, 16], 16),
    ("add.bf16x2 D, A, B", &[32, 32], 32),
    ("mul.bf16x2 D, A, B", &[32, 32], 32),
    ("fma.rn.bf16x2 D, A, B, C", &[32, 32, 32], 32),
    ("min.bf16x2 D, A, B", &[32, 32], 32),
    ("max.bf16x2 D, A, B", &[32, 32], 32),
    ("add.bf16 D, A, B", &[16, 16], 16),
    ("fma.rn.bf16 D, A, B, C", &[16, 16, 16], 16),
    ("cvt.f32.f16 D, A", &[16], 32),
    ("cvt.f32.bf16 D, A", &[16], 32),
    ("cvt.rn.f16.f32 D, A", &[32], 16),
    ("cvt.rn.bf16.f32 D, A", &[32], 16),
    ("cvt.f64.f32 D, A", &[32], 64),
    ("cvt.rn.f32.f64 D, A", &[64], 32),
    ("cvt.rn.f32.s32 D, A", &[32], 32),
    ("cvt.rn.f32.u32 D, A", &[32], 32),
    ("cvt.rn.f64.u32 D, A", &[32], 64),
    ("setp.lt.s32 P, A, B;\nselp.b32 D, A, B, P", &[32, 32], 32),
    ("setp.ge.u64 P, A, B;\nselp.b64 D, A, B, P", &[64, 64], 64),
    ("setp.eq.s32 P, A, B;\nselp.b32 D, A, B, P", &[32, 32], 32),
    ("setp.ne.b16 P, A, B;\nselp.b16 D, A, B, P", &[16, 16], 16),
    ("setp.lt.f32 P, A, B;\nselp.b32 D, A, B, P", &[32, 32], 32),
    ("setp.gt.f64 P, A, B;\nselp.b64 D, A, B, P", &[64, 64], 64),
    ("setp.le.u32 P, A, B;\n@P add.s32 A, A, B;\nmov.b32 D, A", &[32, 32], 32),
];

/// Threads: two whole warps, and one with lanes that have ended.
const THREADS: usize = 90;

/// Bits, many of which are special numbers of some type.
fn operands(seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    const SPECIAL: [u64; 16] = [
        0,
        1,
        0x8000_0000_8000_8000,
        u64::MAX,
        0x7ff0_0000_7f80_0000,
        0x7ff8_0000_7fc0_0000,
        0xfff0_0000_ff80_fc00,
        0x7c00_7c00_7c00_7c00,
        0x0001_0001_0001_0001,
        0x7f80_7f80_7f80_7f80,
        0x8000_0000_0000_0000,
        0x3ff0_0000_3f80_0000,
        0x7bff_7bff_7bff_7bff,
        0x0000_0000_0080_0001,
        0x7fef_ffff_ffff_ffff,
        31,
    ];
    (0..THREADS).map(|_| if next() % 3 == 0 { SPECIAL[next() as usize % 16] } else { next() }).collect()
}

/// A kernel that executes each instruction on its own operands: three arrays of 64 bits for each thread.
fn kernel() -> String {
    let mut text = ".version 8.8\n.target sm_90\n.address_size 64\n".to_owned();
    for (number, (instruction, widths, result)) in INSTRUCTIONS.iter().enumerate() {
        let register = |letter: char, width: u32| format!("%{}{width}", letter.to_ascii_lowercase());
        write!(
            text,
            ".visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n.reg .pred %p;\n.reg .b64 %q<8>;\n"
        )
        .unwrap();
        for width in [16, 32, 64] {
            for letter in ['a', 'b', 'c', 'd'] {
                writeln!(text, ".reg .b{width} %{letter}{width};").unwrap();
            }
        }
        text.push_str(".reg .b32 %t;\nld.param.u64 %q1, [in];\nld.param.u64 %q2, [out];\nmov.u32 %t, %tid.x;\n");
        text.push_str("mul.wide.u32 %q3, %t, 8;\nadd.s64 %q1, %q1, %q3;\nadd.s64 %q2, %q2, %q3;\n");
        let mut line = format!("{instruction};\n").replace('P', "%p");
        for (letter, (width, offset)) in ['A', 'B', 'C'].into_iter().zip(widths.iter().zip([0, 720, 1440])) {
            let register = register(letter, *width);
            writeln!(text, "ld.global.b{width} {register}, [%q1+{offset}];").unwrap();
            line = line.replace(letter, &register);
        }
        text.push_str(&line.replace('D', &register('D', *result)));
        let value = register('D', *result);
        writeln!(text, "st.global.b{result} [%q2], {value};\nret;\n}}").unwrap();
    }
    text
}

fn results(text: &str, vectors: Vectors, input: &[u64]) -> Vec<Vec<u64>> {
    let unit = Unit::new("vectors.ptx", text.into()).unwrap();
    let memory = Arc::new(Memory::default());
    let program = Arc::new(Program::link(vec![unit], 1).unwrap());
    let executable = Executable::new(program, Options { contracts: true, vectors });
    let image = Arc::new(Image::new(executable, memory.clone()));
    let mut all = Vec::new();
    // SAFETY: both arrays live until the kernels have ended.
    unsafe { memory.map(Region::new(input.as_ptr() as u64, 8 * input.len() as u64)) };
    for (number, (instruction, ..)) in INSTRUCTIONS.iter().enumerate() {
        let mut out = vec![0u64; THREADS];
        let start = out.as_mut_ptr() as u64;
        // SAFETY: likewise.
        unsafe { memory.map(Region::new(start, 8 * out.len() as u64)) };
        let parameters = [input.as_ptr() as u64, start].map(u64::to_le_bytes).concat();
        let configuration = Configuration { grid: [1; 3], block: [THREADS as u32, 1, 1], dynamic_shared: 0 };
        let launch = Launch::new(&image, &format!("k{number}"), &configuration, &parameters).unwrap();
        launch.run(1).unwrap_or_else(|error| panic!("{instruction}: {error}"));
        memory.unmap(start);
        all.push(out);
    }
    all
}

#[test]
fn all_kinds_of_vectors_give_the_same_bits() {
    let text = kernel();
    for seed in 1..20 {
        let input = [operands(seed), operands(seed + 100), operands(seed + 200)].concat();
        let expected = results(&text, Vectors::OneByOne, &input);
        for vectors in Vectors::available() {
            let found = results(&text, vectors, &input);
            for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let differs = (0..THREADS).find(|thread| found[*thread] != expected[*thread]);
                if let Some(thread) = differs {
                    let operands: Vec<String> =
                        (0..3).map(|which| format!("{:#x}", input[which * THREADS + thread])).collect();
                    panic!(
                        "{} with {vectors:?} of {}: {:#x} and not {:#x}",
                        INSTRUCTIONS[number].0,
                        operands.join(", "),
                        found[thread],
                        expected[thread]
                    );
                }
            }
        }
    }
}
