//! A launch of a kernel.
#![allow(unsafe_code)] // warps reach the block's shared memory and the parameters

use super::block::{Block, Common, lanes_of};
use super::fault::Fault;
use super::image::Image;
use super::lanes::LANES;
use super::memory::{Buffer, Reach};
use super::warp::{Turn, Warp};
use std::sync::Arc;

/// Most threads of a block.
const MOST_THREADS: u64 = 1024;
/// Most blocks of a launch: all of them are at work at the same time.
const MOST_BLOCKS: u64 = 1 << 16;
/// Most bytes of shared memory of a block.
const MOST_SHARED: u64 = 256 << 10;

/// How a kernel is launched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory besides those of the kernel's variables.
    pub dynamic_shared: u64,
}

/// A kernel at work.
#[derive(Debug)]
pub struct Launch {
    // The warps in the blocks reach the parameters, so these stand behind them.
    blocks: Vec<Block>,
    _common: Arc<Common>,
}

impl Launch {
    /// Begins a kernel. `parameters` are its parameters, each where the kernel's head puts it.
    ///
    /// # Errors
    ///
    /// There is no such kernel, it cannot be read, or it cannot be launched so.
    pub fn new(
        image: &Arc<Image>,
        kernel: &str,
        configuration: &Configuration,
        parameters: &[u8],
    ) -> Result<Self, Fault> {
        let refused = |what: String| Fault::Launch(what);
        let program = image.program();
        let id = program.kernel(kernel).ok_or_else(|| refused(format!("there is no kernel `{kernel}`")))?;
        let signature = program.signature(id)?;
        let Configuration { grid, block, dynamic_shared } = configuration.clone();
        let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).product::<u64>();
        let (threads, blocks) = (product(block), product(grid));
        if threads == 0 || threads > MOST_THREADS || blocks == 0 || blocks > MOST_BLOCKS {
            let what = format!(
                "{blocks} blocks of {threads} threads cannot be launched: from 1 to {MOST_BLOCKS} of 1 to {MOST_THREADS} can"
            );
            return Err(refused(what));
        }
        if signature.bounds.most_threads.is_some_and(|most| threads > product(most)) {
            return Err(refused(format!("`{kernel}` allows fewer than {threads} threads in a block")));
        }
        if signature.parameter_bytes() != parameters.len() as u64 {
            let what =
                format!("`{kernel}` has {} bytes of parameters, not {}", signature.parameter_bytes(), parameters.len());
            return Err(refused(what));
        }
        let fixed = image.static_shared()?;
        let shared = (fixed, fixed.saturating_add(dynamic_shared));
        if shared.1 > MOST_SHARED {
            return Err(refused(format!("{} bytes of shared memory are more than {MOST_SHARED}", shared.1)));
        }
        let given = Buffer::new(parameters.len() as u64);
        given.write(0, parameters);
        let names = signature.parameters.iter().map(|parameter| (parameter.name.clone(), parameter.offset)).collect();
        let common =
            Common { image: image.clone(), grid, block, parameters: given, names, shared, number: image.time() };
        let common = Arc::new(common);
        let mut launch = Self { blocks: Vec::new(), _common: common.clone() };
        for number in 0..blocks as u32 {
            let memory = Buffer::new(shared.1);
            let mut warps = Vec::new();
            for warp in 0..(threads as u32).div_ceil(LANES as u32) {
                let lanes = lanes_of(warp, threads as u32);
                // SAFETY: the block keeps its shared memory, and the launch the parameters, as long as the warps live.
                let reach =
                    unsafe { Reach::new(image.memory().clone(), vec![memory.region(), common.parameters.region()]) };
                warps.push(Warp::new(number, warp, lanes, image.frame(id, lanes)?, reach));
            }
            launch.blocks.push(Block::new(common.clone(), number, memory, warps));
        }
        Ok(launch)
    }

    /// Runs it to its end, one warp after the other, in an order that `seed` decides: the same seed gives the same order.
    ///
    /// # Errors
    ///
    /// An instruction cannot be executed, or nothing moves any more.
    pub fn run(mut self, seed: u64) -> Result<(), Fault> {
        let mut order = Order(seed);
        let mut idle = 0;
        while !self.blocks.is_empty() {
            let at = order.below(self.blocks.len());
            match self.blocks[at].turn()? {
                Turn::Moved => idle = 0,
                Turn::Idle => idle += 1,
                Turn::Over => {
                    self.blocks.swap_remove(at);
                    idle = 0;
                }
            }
            // Each block has had many turns, and none has done anything.
            if idle > 64 * self.blocks.len().max(1) {
                return Err(Fault::Standstill(self.blocks.iter().flat_map(Block::spots).collect()));
            }
        }
        Ok(())
    }
}

/// Numbers that a seed decides (splitmix64).
struct Order(u64);

impl Order {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 1) as usize % limit.max(1)
    }
}
