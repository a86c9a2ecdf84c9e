//! The instructions, a kernel for each, and operands.
use std::fmt::Write as _;

/// Instructions with the bits of their operands and of their results. `A`, `B` and `C` become registers with operands, `D` the one of
/// the result, `M` a register of the same width for a value in between, and `P` a predicate.
pub const INSTRUCTIONS: &[(&str, &[u32], u32)] = &[
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
    ("min.relu.s32 D, A, B", &[32, 32], 32),
    ("max.relu.s32 D, A, B", &[32, 32], 32),
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
    ("mul.hi.s64 D, A, B", &[64, 64], 64),
    ("mad.hi.u32 D, A, B, C", &[32, 32, 32], 32),
    ("rem.u64 D, A, B", &[64, 64], 64),
    ("rem.s32 D, A, B", &[32, 32], 32),
    ("div.s32 D, A, B", &[32, 32], 32),
    ("div.u64 D, A, B", &[64, 64], 64),
    ("shr.u16 D, A, B", &[16, 32], 16),
    ("not.b16 D, A", &[16], 16),
    ("neg.s16 D, A", &[16], 16),
    ("xor.b16 D, A, B", &[16, 16], 16),
    ("shf.r.wrap.b32 D, A, B, C", &[32, 32, 32], 32),
    ("shf.l.wrap.b32 D, A, B, C", &[32, 32, 32], 32),
    ("bfe.u32 D, A, B, C", &[32, 32, 32], 32),
    ("bfind.shiftamt.u32 D, A", &[32], 32),
    ("popc.b64 D, A", &[64], 32),
    ("clz.b64 D, A", &[64], 32),
    ("div.approx.f32 D, A, B", &[32, 32], 32),
    ("mul.f16 D, A, B", &[16, 16], 16),
    ("min.f16 D, A, B", &[16, 16], 16),
    ("max.f16 D, A, B", &[16, 16], 16),
    ("mul.bf16 D, A, B", &[16, 16], 16),
    ("min.bf16 D, A, B", &[16, 16], 16),
    ("max.bf16 D, A, B", &[16, 16], 16),
    ("cvt.rn.f16x2.e4m3x2 D, A", &[16], 32),
    ("cvt.rn.f16x2.e5m2x2 D, A", &[16], 32),
    ("cvt.rn.satfinite.e4m3x2.f16x2 D, A", &[32], 16),
    ("cvt.rn.satfinite.e5m2x2.f16x2 D, A", &[32], 16),
    ("cvt.rn.satfinite.e4m3x2.f32 D, A, B", &[32, 32], 16),
    ("cvt.rn.satfinite.e5m2x2.f32 D, A, B", &[32, 32], 16),
    ("cvt.rn.f16x2.f32 D, A, B", &[32, 32], 32),
    ("cvt.rn.bf16x2.f32 D, A, B", &[32, 32], 32),
    ("cvt.rzi.s32.f32 D, A", &[32], 32),
    ("cvt.rni.s32.f32 D, A", &[32], 32),
    ("cvt.rzi.u64.f32 D, A", &[32], 64),
    ("cvt.rni.f32.f32 D, A", &[32], 32),
    ("neg.f32 D, A", &[32], 32),
    ("abs.f32 D, A", &[32], 32),
    ("neg.f64 D, A", &[64], 64),
    ("abs.f64 D, A", &[64], 64),
    ("neg.f16x2 D, A", &[32], 32),
    ("abs.bf16 D, A", &[16], 16),
    ("rem.s64 D, A, B", &[64, 64], 64),
    ("mul.f64 M, A, B;\nsub.f64 D, M, C", &[64, 64, 64], 64),
    ("mul.f32 M, A, B;\nsub.f32 D, M, C", &[32, 32, 32], 32),
    ("mul.f16x2 M, A, B;\nsub.f16x2 D, M, C", &[32, 32, 32], 32),
    ("cvt.rn.f32.s64 D, A", &[64], 32),
    ("cvt.rn.f32.u64 D, A", &[64], 32),
    ("cvt.rn.f64.s64 D, A", &[64], 64),
    ("mul.f32 M, A, B;\nadd.f32 D, M, C", &[32, 32, 32], 32),
    ("mul.f32 M, A, B;\nsub.f32 D, C, M", &[32, 32, 32], 32),
    ("mul.rn.f32 M, A, B;\nadd.rn.f32 D, M, C", &[32, 32, 32], 32),
    ("mul.f64 M, A, B;\nadd.f64 D, M, C", &[64, 64, 64], 64),
    ("mul.f64 M, A, B;\nsub.f64 D, C, M", &[64, 64, 64], 64),
    ("mul.rn.f64 M, A, B;\nadd.rn.f64 D, M, C", &[64, 64, 64], 64),
    ("mul.f16 M, A, B;\nadd.f16 D, M, C", &[16, 16, 16], 16),
    ("mul.f16 M, A, B;\nsub.f16 D, C, M", &[16, 16, 16], 16),
    ("mul.rn.f16 M, A, B;\nadd.rn.f16 D, M, C", &[16, 16, 16], 16),
    ("mul.f16x2 M, A, B;\nadd.f16x2 D, M, C", &[32, 32, 32], 32),
    ("mul.f16x2 M, A, B;\nsub.f16x2 D, C, M", &[32, 32, 32], 32),
    ("mul.rn.f16x2 M, A, B;\nadd.rn.f16x2 D, M, C", &[32, 32, 32], 32),
    ("mul.bf16 M, A, B;\nadd.bf16 D, M, C", &[16, 16, 16], 16),
    ("mul.bf16 M, A, B;\nsub.bf16 D, C, M", &[16, 16, 16], 16),
    ("mul.rn.bf16 M, A, B;\nadd.rn.bf16 D, M, C", &[16, 16, 16], 16),
    ("mul.bf16x2 M, A, B;\nadd.bf16x2 D, M, C", &[32, 32, 32], 32),
    ("mul.bf16x2 M, A, B;\nsub.bf16x2 D, C, M", &[32, 32, 32], 32),
    ("mul.rn.bf16x2 M, A, B;\nadd.rn.bf16x2 D, M, C", &[32, 32, 32], 32),
];

/// Bits, many of which are special numbers of some type.
pub fn operands(threads: usize, seed: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = move || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (state ^ state >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    const SPECIAL: [u64; 18] = [
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
        0x7ff0_0000_0000_0000,
        0xfff0_0000_0000_0000,
    ];
    (0..threads).map(|_| if next() % 3 == 0 { SPECIAL[next() as usize % 18] } else { next() }).collect()
}

/// For each instruction a unit with a kernel that executes it on its own operands: three arrays of 64 bits for each of the threads.
pub fn kernels(threads: usize) -> Vec<String> {
    INSTRUCTIONS.iter().enumerate().map(|(number, entry)| kernel(number, entry, threads)).collect()
}

fn kernel(number: usize, (instruction, widths, result): &(&str, &[u32], u32), threads: usize) -> String {
    let register = |letter: char, width: u32| format!("%{}{width}", letter.to_ascii_lowercase());
    let mut text = format!(
        ".version 8.8\n.target sm_90\n.address_size 64\n.visible .entry k{number}(.param .u64 in, .param .u64 out)\n{{\n\
         .reg .pred %p;\n.reg .b64 %q<8>;\n.reg .b32 %t, %n, %i;\n"
    );
    for width in [16, 32, 64] {
        for letter in ['a', 'b', 'c', 'd', 'm'] {
            writeln!(text, ".reg .b{width} %{letter}{width};").unwrap();
        }
    }
    text.push_str("ld.param.u64 %q1, [in];\nld.param.u64 %q2, [out];\n");
    text.push_str("mov.u32 %t, %ctaid.x;\nmov.u32 %n, %ntid.x;\nmov.u32 %i, %tid.x;\nmad.lo.s32 %t, %t, %n, %i;\n");
    text.push_str("mul.wide.u32 %q3, %t, 8;\nadd.s64 %q1, %q1, %q3;\nadd.s64 %q2, %q2, %q3;\n");
    let mut line = format!("{instruction};\n").replace('P', "%p");
    for (letter, (width, array)) in ['A', 'B', 'C'].into_iter().zip(widths.iter().zip(0..)) {
        let (register, offset) = (register(letter, *width), 8 * threads * array);
        writeln!(text, "ld.global.b{width} {register}, [%q1+{offset}];").unwrap();
        line = line.replace(letter, &register);
    }
    let value = register('D', *result);
    text.push_str(&line.replace('D', &value).replace('M', &register('M', *result)));
    writeln!(text, "st.global.b{result} [%q2], {value};\nret;\n}}").unwrap();
    text
}
