//! Kernels run: warps of 32 lanes, blocks with shared memory and barriers, launches.
mod alu;
mod block;
mod fault;
mod frame;
mod image;
mod lanes;
mod launch;
mod memory;
mod warp;

pub use fault::{Fault, Spot};
pub use image::Image;
pub use launch::{Configuration, Launch};
pub use memory::{BadAccess, Memory, Region};
