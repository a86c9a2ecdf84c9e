//! Instructions of warps a second, by kind of instruction and kind of vectors, and how long reading and the first launch take.
//!
//! Run it with `cargo bench -p gpuless-ptx`. One warp runs on one core. Figures are comparable within one run on one machine.
#![allow(unsafe_code)] // kernels are given addresses of the benchmark's memory

use divan::Bencher;
use divan::counter::{BytesCount, ItemsCount};
use ptx::link::Program;
use ptx::run::{Configuration, Executable, Image, Launch, Memory, Options, Region, Vectors};
use ptx::text::{Index, Unit};
use std::sync::Arc;

fn main() {
    divan::main();
}

/// Kinds of instructions: the text that is repeated in a loop, on registers that were loaded.
const KINDS: &[(&str, &str)] = &[
    ("add.s32", "add.s32 %r2, %r2, %r1;\n"),
    ("add.s64", "add.s64 %d4, %d4, %d5;\n"),
    ("fma.rn.f32", "fma.rn.f32 %r2, %r1, %r1, %r2;\n"),
    ("add.f16x2", "add.f16x2 %r2, %r2, %r1;\n"),
    ("fma.rn.bf16x2", "fma.rn.bf16x2 %r2, %r1, %r1, %r2;\n"),
    ("setp, selp", "setp.lt.s32 %p2, %r2, %r1;\nselp.b32 %r2, %r1, %r2, %p2;\n"),
    ("ld.v4.u32", "ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d2];\n"),
    ("st.v4.u32", "st.global.v4.u32 [%d2], {%r2, %r3, %r4, %r5};\n"),
    ("ld.volatile.v4.u32", "ld.volatile.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d2];\n"),
    ("ld.u32", "ld.global.u32 %r2, [%d3];\n"),
    ("ld.shared.u32", "ld.shared.u32 %r2, [%r6];\n"),
    ("bra", ""),
];

/// Number of rounds of the loop; below, the number of repetitions inside it.
const ROUNDS: u32 = 1000;
const REPEATS: usize = 16;

fn kernel(repeated: &str) -> String {
    format!(
        ".version 8.8\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 data[512];\n\
         .visible .entry k(.param .u64 m)\n{{\n.reg .pred %p<3>;\n.reg .b32 %r<8>;\n.reg .b64 %d<8>;\n\
         ld.param.u64 %d1, [m];\nmov.u32 %r1, %tid.x;\nmov.b32 %r7, %r1;\n\
         // Halves and whole of it are ordinary numbers of every type.
         mov.b32 %r1, 0x3f803c01;\nmov.b32 %r2, %r1;\nmov.b32 %r3, 3;\nmov.b32 %r4, 4;\nmov.b32 %r5, 5;\n\
         mul.lo.s32 %r6, %r7, 4;\nmul.wide.u32 %d2, %r7, 16;\nadd.s64 %d2, %d1, %d2;\nmul.wide.u32 %d3, %r7, 4;\nadd.s64 %d3, %d1, %d3;\n\
         mov.b64 %d4, 1;\nmov.b64 %d5, 7;\nmov.b32 %r7, 0;\n\
         AGAIN:\n{}add.s32 %r7, %r7, 1;\nsetp.lt.s32 %p1, %r7, {ROUNDS};\n@%p1 bra AGAIN;\nret;\n}}\n",
        repeated.repeat(REPEATS)
    )
}

/// A program on a device with 4 KiB of memory.
struct Device {
    image: Arc<Image>,
    memory: Box<[u128]>,
}

impl Device {
    fn new(text: String, vectors: Vectors) -> Self {
        let unit = Unit::new("bench.ptx", text.into()).expect("the text is whole");
        let program = Program::link(vec![unit], 1).expect("the program is whole");
        let memory = vec![0u128; 256].into_boxed_slice();
        let reached = Arc::new(Memory::default());
        // SAFETY: the memory lives as long as the device.
        unsafe { reached.map(Region::new(memory.as_ptr() as u64, 4096)) };
        let executable = Executable::new(Arc::new(program), Options { vectors, ..Options::default() });
        Self { image: Arc::new(Image::new(executable, reached)), memory }
    }

    fn run(&self) -> u64 {
        let parameters = (self.memory.as_ptr() as u64).to_le_bytes();
        let configuration = Configuration { grid: [1; 3], block: [32, 1, 1], dynamic_shared: 0 };
        let launch = Launch::new(&self.image, "k", &configuration, &parameters).expect("the kernel can be launched");
        launch.run(1).expect("the kernel ends").instructions
    }
}

#[divan::bench(args = KINDS.iter().map(|(name, _)| *name), consts = [0, 1, 2])]
fn instructions<const VECTORS: usize>(bencher: Bencher<'_, '_>, kind: &str) {
    let vectors = [Vectors::Avx512, Vectors::Avx2, Vectors::Plain][VECTORS];
    let repeated = KINDS.iter().find(|(name, _)| *name == kind).map_or("", |(_, text)| *text);
    let device = Device::new(kernel(repeated), vectors);
    let executed = device.run();
    bencher.counter(ItemsCount::new(executed)).bench_local(|| device.run());
}

/// A text of many functions, as long as a unit of a library.
fn long_text() -> String {
    let function = |number: usize| {
        kernel("add.s32 %r2, %r2, %r1;\nld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%d2];\n")
            .replace(".version 8.8\n.target sm_90\n.address_size 64\n.shared .align 16 .b8 data[512];\n", "")
            .replace(" k(", &format!(" k{number}("))
            .replace("AGAIN", &format!("AGAIN{number}"))
    };
    let functions: String = (0..2000).map(function).collect();
    format!(".version 8.8\n.target sm_90\n.address_size 64\n{functions}")
}

#[divan::bench]
fn index(bencher: Bencher<'_, '_>) {
    let text = long_text();
    let unit = Unit::new("long.ptx", text.clone().into()).expect("the text is whole");
    bencher.counter(BytesCount::new(text.len())).bench_local(|| Index::of(&unit).expect("the text is whole"));
}

#[divan::bench]
fn first_launch(bencher: Bencher<'_, '_>) {
    let text = kernel(KINDS[2].1);
    bencher.with_inputs(|| Device::new(text.clone(), Vectors::best())).bench_local_values(|device| device.run());
}
