//! A launch of a kernel.
#![allow(unsafe_code)] // warps reach the block's shared memory and the parameters

use super::block::{Block, Common, Turn};
use super::fault::Fault;
use super::image::Image;
use super::lanes::{LANES, Mask};
use super::memory::{Buffer, Reach, Region};
use super::rounding::with_default_rounding;
use super::warp::Warp;
use super::work::Work;
use std::sync::Arc;

/// Most threads of a block.
const MOST_THREADS: u64 = 1024;
/// Most blocks of a launch: all of them are at work at the same time.
const MOST_BLOCKS: u64 = 1 << 16;
/// Most bytes of shared memory of a block.
const MOST_SHARED: u64 = 256 << 10;
/// Most bytes of shared memory, registers and memory of the threads' own that a launch begins with.
const MOST_MEMORY: u64 = 8 << 30;
/// The address of the shared memory that a launch requests is at least a multiple of this number of bytes.
const SHARED_ALIGN: u64 = 16;

/// Number of turns without an effect that each warp has before a launch counts as standing still.
const MOST_IDLE_TURNS: usize = 20_000;
/// With a seed, a turn ends after a random number of backward branches between these two limits. The lower one is large enough for a
/// polling loop to get back to its load.
pub(super) const LEAST_BUDGET: u32 = 4;
pub(super) const MOST_BUDGET: usize = 64;

/// The parameters of a kernel launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of shared memory besides those of the kernel's variables.
    pub dynamic_shared: u64,
}

/// A kernel that is ready to begin, or at work.
#[derive(Debug)]
pub struct Launch {
    pub(super) blocks: Vec<Block>,
    /// The number of the device that it is on.
    pub(super) device: usize,
    pub(super) kernel: Arc<str>,
}

/// The figures of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Instructions, each for all lanes of a warp that were at it.
    pub instructions: u64,
    /// The work done by its kernel.
    pub work: Work,
    /// A number for the order in which warps had their turns and how long these were: equal for equal schedules.
    pub trace: u64,
}

impl Launch {
    /// Prepares a kernel. `parameters` are its parameters, each where the kernel's head puts it; bytes that are not given are zero.
    ///
    /// # Errors
    ///
    /// The kernel does not exist, cannot be read, or cannot be launched with this configuration.
    pub fn new(
        image: &Arc<Image>,
        kernel: &str,
        configuration: &Configuration,
        parameters: &[u8],
    ) -> Result<Self, Fault> {
        let refused = |what: String| Fault::Launch(what);
        let executable = image.executable();
        let program = executable.program();
        let id = program.kernel(kernel).ok_or_else(|| refused(format!("there is no kernel `{kernel}`")))?;
        let signature = program.signature(id)?;
        let Configuration { grid, block, dynamic_shared } = configuration.clone();
        let product = |sizes: [u32; 3]| sizes.iter().fold(1u64, |all, size| all.saturating_mul(u64::from(*size)));
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
        if let Some(wanted) = signature.bounds.threads.filter(|wanted| *wanted != block) {
            return Err(refused(format!("`{kernel}` wants blocks of {wanted:?} threads, not {block:?}")));
        }
        if signature.parameter_bytes() < parameters.len() as u64 {
            let what =
                format!("`{kernel}` has {} bytes of parameters, not {}", signature.parameter_bytes(), parameters.len());
            return Err(refused(what));
        }
        let layout = executable.shared(id)?;
        let align = program.dynamic_align().max(SHARED_ALIGN);
        let dynamic = layout.room.bytes.next_multiple_of(align);
        let end = if dynamic_shared == 0 { layout.room.bytes } else { dynamic.saturating_add(dynamic_shared) };
        let shared = (dynamic, end);
        if shared.1 > MOST_SHARED {
            return Err(refused(format!("{} bytes of shared memory are more than {MOST_SHARED}", shared.1)));
        }
        let most = signature.parameters.iter().map(|parameter| parameter.shape.align).max();
        let given = Buffer::new(signature.parameter_bytes(), most.unwrap_or(1).into());
        given.write(0, parameters);
        let image = image.clone();
        let code = image.executable().function(id)?;
        let lanes = blocks.saturating_mul(threads.next_multiple_of(LANES as u64));
        let own = lanes.saturating_mul(u64::from(code.register_bytes) + code.own_bytes);
        let memory = blocks.saturating_mul(shared.1).saturating_add(own);
        if memory > MOST_MEMORY {
            let what =
                format!("`{kernel}` needs {memory} bytes for all threads of this launch: {MOST_MEMORY} is the limit");
            return Err(refused(what));
        }
        let number = image.time();
        let common = Arc::new(Common { image, grid, block, parameters: given, layout, shared, number });
        let mut launch = Self { blocks: Vec::new(), device: 0, kernel: kernel.into() };
        for number in 0..blocks as u32 {
            let memory = Buffer::new(shared.1, align.max(common.layout.room.align));
            let window = (memory.region().start, shared.1);
            let mut warps = Vec::new();
            for warp in 0..(threads as u32).div_ceil(LANES as u32) {
                let lanes = lanes_of_warp(warp, threads as u32);
                let own = vec![Region::new(window.0, window.1), common.parameters.region()];
                // SAFETY: the block keeps its shared memory, and the launch the parameters, as long as the warps live.
                let reach = unsafe { Reach::new(common.image.memory().clone(), own) };
                warps.push(Warp::new(common.clone(), (number, warp), lanes, window, reach, code.clone())?);
            }
            launch.blocks.push(Block::new(memory, warps));
        }
        Ok(launch)
    }

    /// Places it on a device, 0 if this is not called; the devices of a [`Pool`](super::Pool) can be halted separately.
    pub fn on_device(mut self, device: usize) -> Self {
        self.device = device;
        self.blocks.iter_mut().for_each(|block| block.put_on(device));
        self
    }

    /// Runs it to its end on this thread, one warp after the other, in an order that `seed` decides: the same seed gives the same order.
    ///
    /// It counts as standing still when each warp has had 20,000 turns, on average and in a row, in which no warp did more than poll memory
    /// that did not change. A kernel that gives up by itself only after a larger number of polls is reported as standing still.
    ///
    /// # Errors
    ///
    /// An instruction cannot be executed, or no thread can make progress.
    pub fn run(self, seed: u64) -> Result<Figures, Fault> {
        with_default_rounding(|| self.run_in_order(seed))
    }

    fn run_in_order(mut self, seed: u64) -> Result<Figures, Fault> {
        let mut order = Order(seed);
        let (mut idle, mut figures) = (0, Figures::default());
        while !self.blocks.is_empty() {
            let at = order.below(self.blocks.len());
            let block = &mut self.blocks[at];
            let before = block.instructions();
            let budget = LEAST_BUDGET + order.below(MOST_BUDGET) as u32;
            let (turn, warp) = block.turn_of_one(budget, |count| order.below(count))?;
            let taken = block.instructions() - before;
            figures.instructions += taken;
            for word in [block.number as u64, warp as u64, taken] {
                figures.trace = (figures.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
            }
            match turn {
                Turn::Moved => idle = 0,
                Turn::Idle => idle += 1,
                Turn::Over => {
                    figures.work += self.blocks.swap_remove(at).work();
                    idle = 0;
                }
            }
            // Each warp has had very many turns, and none has done anything: a spin that counts has reached its end by then.
            if idle > MOST_IDLE_TURNS * self.blocks.iter().map(Block::warps).sum::<usize>() {
                return Err(Fault::Standstill(self.blocks.iter().flat_map(Block::spots).collect()));
            }
        }
        Ok(figures)
    }
}

/// The lanes of a warp, given the threads of its block.
fn lanes_of_warp(warp: u32, threads: u32) -> Mask {
    match threads.saturating_sub(warp * LANES as u32) {
        0 => 0,
        left if left >= LANES as u32 => Mask::MAX,
        left => (1 << left) - 1,
    }
}

/// Numbers that a seed decides (splitmix64).
#[derive(Debug)]
pub struct Order(pub u64);

impl Order {
    /// The next number below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) >> 1) as usize % limit.max(1)
    }
}
