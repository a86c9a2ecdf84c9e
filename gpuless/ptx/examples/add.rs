//! Runs the kernel of `add.ptx` on two arrays: no GPU and no CUDA is needed.
#![allow(unsafe_code)] // a kernel is given addresses of arrays

use ptx::link::Program;
use ptx::run::{Configuration, Executable, Image, Launch, Memory, Options, Region};
use ptx::text::Unit;
use std::error::Error;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let unit = Unit::new("add.ptx", include_str!("add.ptx").into())?;
    let program = Program::link(vec![unit], 1)?;
    let memory = Arc::new(Memory::default());
    let executable = Executable::new(Arc::new(program), Options::default());
    let image = Arc::new(Image::new(executable, memory.clone()));

    let x: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let y = vec![0.5f32; x.len()];
    let mut sums = vec![0f32; x.len()];
    let arrays = [x.as_ptr() as u64, y.as_ptr() as u64, sums.as_mut_ptr() as u64];
    for start in arrays {
        // SAFETY: the arrays live until the kernel has ended, and nothing else uses them until then.
        unsafe { memory.map(Region::new(start, 4 * x.len() as u64)) };
    }

    let parameters: Vec<u8> = arrays.into_iter().chain([x.len() as u64]).flat_map(u64::to_le_bytes).collect();
    let configuration = Configuration { grid: [4, 1, 1], block: [256, 1, 1], dynamic_shared: 0 };
    let figures = Launch::new(&image, "add", &configuration, &parameters)?.run(1)?;
    println!("sums {:?} ..., {} instructions of warps", &sums[..4], figures.instructions);
    Ok(())
}
