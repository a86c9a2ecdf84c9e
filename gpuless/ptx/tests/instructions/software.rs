//! The kernels of all instructions on a CPU.
use crate::list::INSTRUCTIONS;
use ptx::link::Program;
use ptx::run::{Configuration, Executable, Image, Launch, Memory, Options, Region, Vectors};
use ptx::text::Unit;
use std::sync::Arc;

/// The results of every instruction: one of 64 bits for each thread, in so many blocks.
pub fn results(texts: &[String], vectors: Vectors, input: &[u64], blocks: usize) -> Vec<Vec<u64>> {
    let threads = input.len() / 3;
    let memory = Arc::new(Memory::default());
    let units = texts.iter().zip(INSTRUCTIONS).map(|(text, (name, ..))| Unit::new(name, text.as_str().into()).unwrap());
    let program = Arc::new(Program::link(units.collect(), 1).unwrap());
    let executable = Executable::new(program, Options { vectors, ..Options::default() });
    let image = Arc::new(Image::new(executable, memory.clone()));
    let mut all = Vec::new();
    // SAFETY: both arrays live until the kernels have ended.
    unsafe { memory.map(Region::new(input.as_ptr() as u64, 8 * input.len() as u64)) };
    for (number, (instruction, ..)) in INSTRUCTIONS.iter().enumerate() {
        let mut out = vec![0u64; threads];
        let start = out.as_mut_ptr() as u64;
        // SAFETY: likewise.
        unsafe { memory.map(Region::new(start, 8 * out.len() as u64)) };
        let parameters = [input.as_ptr() as u64, start].map(u64::to_le_bytes).concat();
        let (grid, block) = ([blocks as u32, 1, 1], [(threads / blocks) as u32, 1, 1]);
        let configuration = Configuration { grid, block, dynamic_shared: 0 };
        let launch = Launch::new(&image, &format!("k{number}"), &configuration, &parameters).unwrap();
        launch.run(1).unwrap_or_else(|error| panic!("{instruction}: {error}"));
        memory.unmap(start);
        all.push(out);
    }
    all
}
