//! A block: its warps, its shared memory, and its barriers.
use super::fault::{Fault, Spot};
use super::frame::Frame;
use super::image::Image;
use super::lanes::{LANES, Mask};
use super::memory::Buffer;
use super::warp::{Surroundings, Turn, Warp};
use crate::code::SpecialRegister;
use std::sync::Arc;

/// What all blocks of a launch share.
#[derive(Debug)]
pub struct Common {
    pub image: Arc<Image>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// The kernel's parameters, with the byte at which each begins.
    pub parameters: Buffer,
    pub names: Vec<(String, u64)>,
    /// Bytes of shared memory without those that the launch asks for, and with them.
    pub shared: (u64, u64),
    /// The launch's number on its device.
    pub number: u64,
}

/// A block at work.
#[derive(Debug)]
pub struct Block {
    warps: Vec<Option<Warp>>,
    state: State,
    next: usize,
}

/// What warps of a block do together.
#[derive(Debug)]
struct State {
    common: Arc<Common>,
    number: u32,
    shared: Buffer,
    barriers: [Barrier; 16],
    /// Threads that have not ended.
    alive: u32,
}

/// The threads that have come to a barrier.
#[derive(Clone, Copy, Debug, Default)]
struct Barrier {
    arrived: u32,
    votes: u32,
    /// How many it waits for; `None` for all of the block.
    threads: Option<u32>,
    /// How often it has opened.
    opened: u64,
    /// The votes and threads when it opened last.
    last: (u32, u32),
}

impl Block {
    /// With its shared memory, in which the launch has made its warps.
    pub fn new(common: Arc<Common>, number: u32, shared: Buffer, warps: Vec<Warp>) -> Self {
        let alive = common.block.iter().product();
        let state = State { common, number, shared, barriers: Default::default(), alive };
        Self { warps: warps.into_iter().map(Some).collect(), state, next: 0 }
    }

    /// Gives each warp a turn, from another one on each time.
    ///
    /// # Errors
    ///
    /// A warp cannot go on.
    pub fn turn(&mut self) -> Result<Turn, Fault> {
        let count = self.warps.len();
        self.next = (self.next + 1) % count.max(1);
        let (mut moved, mut left) = (false, false);
        for at in (0..count).map(|at| (at + self.next) % count) {
            let Some(warp) = &mut self.warps[at] else { continue };
            match warp.turn(&mut self.state)? {
                Turn::Moved => (moved, left) = (true, true),
                Turn::Idle => left = true,
                Turn::Over => {
                    self.warps[at] = None;
                    moved = true;
                }
            }
        }
        Ok(if moved {
            Turn::Moved
        } else if left {
            Turn::Idle
        } else {
            Turn::Over
        })
    }

    /// Where its warps are.
    pub fn spots(&self) -> Vec<(Spot, String)> {
        self.warps.iter().flatten().flat_map(|warp| warp.spots(&self.state)).collect()
    }
}

impl State {
    /// Opens a barrier to which all have come.
    fn open(&mut self, number: usize) {
        let alive = self.alive;
        let barrier = &mut self.barriers[number];
        if barrier.arrived > 0 && barrier.arrived >= barrier.threads.unwrap_or(alive) {
            barrier.last = (barrier.votes, barrier.arrived);
            (barrier.arrived, barrier.votes, barrier.threads) = (0, 0, None);
            barrier.opened += 1;
        }
    }
}

impl Surroundings for State {
    fn symbol(&mut self, frame: &Frame, name: &str) -> Option<u64> {
        let parameter = self.common.names.iter().find(|(known, _)| known == name && frame.depth == 0);
        if let Some((_, offset)) = parameter {
            return Some(self.common.parameters.region().start + offset);
        }
        self.common.image.address(frame.function, name, self.common.shared.0)
    }

    fn enter(&mut self, address: u64, lanes: Mask) -> Result<Frame, Fault> {
        self.common.image.enter(address, lanes)
    }

    fn special(&self, register: SpecialRegister) -> u64 {
        let [x, y, _] = self.common.grid;
        let number = self.number;
        match register {
            SpecialRegister::Ntid(dimension) => u64::from(self.common.block[usize::from(dimension)]),
            SpecialRegister::Nctaid(dimension) | SpecialRegister::NclusterId(dimension) => {
                u64::from(self.common.grid[usize::from(dimension)])
            }
            SpecialRegister::Ctaid(0) | SpecialRegister::ClusterId(0) => u64::from(number % x),
            SpecialRegister::Ctaid(1) | SpecialRegister::ClusterId(1) => u64::from(number / x % y),
            SpecialRegister::Ctaid(_) | SpecialRegister::ClusterId(_) => u64::from(number / x / y),
            SpecialRegister::ClusterNctaRank | SpecialRegister::ClusterNctaid(_) => 1,
            SpecialRegister::DynamicSharedSize => self.common.shared.1 - self.common.shared.0,
            SpecialRegister::TotalSharedSize => self.common.shared.1,
            SpecialRegister::GridId => self.common.number,
            // Time is the number of the operation: here, one that only rises.
            SpecialRegister::Clock | SpecialRegister::Clock64 | SpecialRegister::GlobalTimer => {
                self.common.image.time()
            }
            _ => 0,
        }
    }

    fn shared(&self) -> (u64, u64) {
        (self.shared.region().start, self.common.shared.1)
    }

    fn block_size(&self) -> [u32; 3] {
        self.common.block
    }

    fn arrive(&mut self, barrier: u32, threads: Option<u32>, lanes: u32, votes: u32) -> u64 {
        let number = barrier as usize % self.barriers.len();
        let state = &mut self.barriers[number];
        state.arrived += lanes;
        state.votes += votes;
        state.threads = threads.or(state.threads);
        let ticket = state.opened;
        self.open(number);
        ticket
    }

    fn barrier_result(&mut self, barrier: u32, ticket: u64) -> Option<(u32, u32)> {
        let barrier = &self.barriers[barrier as usize % self.barriers.len()];
        (barrier.opened > ticket).then_some(barrier.last)
    }

    fn exited(&mut self, lanes: u32) {
        self.alive -= lanes.min(self.alive);
        for number in 0..self.barriers.len() {
            self.open(number);
        }
    }

    fn describe(&self, frame: &Frame, at: usize) -> String {
        self.common.image.describe(frame.function, at)
    }
}

/// The lanes of a warp that a block of so many threads has.
pub fn lanes_of(warp: u32, threads: u32) -> Mask {
    match threads.saturating_sub(warp * LANES as u32) {
        0 => 0,
        left if left >= LANES as u32 => Mask::MAX,
        left => (1 << left) - 1,
    }
}
