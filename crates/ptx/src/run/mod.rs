//! Kernels run: warps of 32 lanes, blocks with shared memory and barriers, launches.
mod block;
mod choice;
mod executable;
mod fault;
mod frame;
mod handlers;
mod image;
mod lanes;
mod launch;
mod lower;
mod memory;
mod pool;
mod ready;
mod registers;
mod rounding;
mod scalar;
mod warp;
mod work;

pub use executable::{Executable, Options};
pub use fault::{Fault, Spot};
pub use handlers::Vectors;
pub use image::Image;
pub use launch::{Configuration, Figures, Launch};
pub use memory::{BadAccess, Memory, Region};
pub use pool::{Ended, Pool};
pub use work::Work;
