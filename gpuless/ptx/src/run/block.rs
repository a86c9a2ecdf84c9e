//! A block: its warps, its shared memory, and its barriers.
#![allow(unsafe_code)] // constants go to the slots that lowering has given them

use super::executable::SharedLayout;
use super::fault::{Fault, Spot, Wait};
use super::frame::Frame;
use super::image::Image;
use super::lanes::{LANES, Mask};
use super::launch::Figures;
use super::memory::Buffer;
use super::ready::Known;
use super::warp::{BARRIERS, Pause, Warp};
use super::weak::WeakMemory;
use super::work::Work;
use crate::code::{SpecialRegister, Width};
use crate::error::Error;
use crate::link::SharedMemory;
use std::sync::Arc;

/// Instructions that a warp executes after a barrier before the block's others have done so.
const FIRST_STEPS: u32 = 8;

/// The state that all blocks of a launch share.
#[derive(Debug)]
pub struct Common {
    pub image: Arc<Image>,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub parameters: Buffer,
    /// The layout of the kernel's variables in shared memory.
    pub layout: Arc<SharedLayout>,
    /// The start of the shared memory that the launch requests, and the end of all shared memory.
    pub shared: (u64, u64),
    /// The launch's number on its device.
    pub number: u64,
}

impl Common {
    /// Puts constants into a frame's registers.
    ///
    /// # Errors
    ///
    /// A variable has no memory.
    pub fn fill(&self, frame: &mut Frame) -> Result<(), Error> {
        let (code, registers) = (frame.code.clone(), frame.registers.base());
        for constant in &code.constants {
            let (first, step) = match constant.known {
                Known::Bits(bits) => (bits, 0),
                Known::Variable(id, offset) => (self.image.address(id)?.wrapping_add_signed(offset), 0),
                Known::Parameter(byte) => (self.parameters.region().start.wrapping_add_signed(byte), 0),
                Known::Shared(memory, offset) => (self.shared_start(memory)?.wrapping_add_signed(offset), 0),
                Known::DynamicShared(byte) => (self.shared.0.wrapping_add_signed(byte), 0),
                Known::Own(byte) => frame.own(byte),
            };
            let of = |lane: usize| first.wrapping_add(step * lane as u64);
            // SAFETY: lowering has given the constant a slot of this width.
            unsafe {
                match constant.width {
                    Width::Predicate => {
                        registers.set_predicate(constant.slot, if first == 0 { 0 } else { Mask::MAX }, Mask::MAX)
                    }
                    Width::W16 => registers.write(constant.slot, &[first as u16; LANES], Mask::MAX),
                    Width::W32 => {
                        registers.write::<u32>(constant.slot, &std::array::from_fn(|lane| of(lane) as u32), Mask::MAX)
                    }
                    Width::W64 | Width::W128 => {
                        registers.write::<u64>(constant.slot, &std::array::from_fn(of), Mask::MAX);
                    }
                }
            }
        }
        Ok(())
    }

    fn shared_start(&self, memory: SharedMemory) -> Result<u64, Error> {
        let start = self.layout.starts.get(&memory).copied();
        start.ok_or_else(|| {
            let program = self.image.executable().program();
            // Its function's address came from elsewhere, such as from another kernel.
            let what = "the kernel does not reach this shared memory by any name, and so has none".to_owned();
            match memory {
                SharedMemory::Variable(id) => program.variable_error(id, what),
                SharedMemory::Own(id) => program.function_error(id, what),
            }
        })
    }

    /// The value of a special register, but for those that differ by thread.
    pub fn special(&self, register: SpecialRegister, block: u32) -> u64 {
        let [x, y, _] = self.grid;
        match register {
            SpecialRegister::Ntid(dimension) => u64::from(self.block[usize::from(dimension) % 3]),
            SpecialRegister::Nctaid(dimension) | SpecialRegister::NclusterId(dimension) => {
                u64::from(self.grid[usize::from(dimension) % 3])
            }
            SpecialRegister::Ctaid(0) | SpecialRegister::ClusterId(0) => u64::from(block % x),
            SpecialRegister::Ctaid(1) | SpecialRegister::ClusterId(1) => u64::from(block / x % y),
            SpecialRegister::Ctaid(_) | SpecialRegister::ClusterId(_) => u64::from(block / x / y),
            SpecialRegister::ClusterNctaRank | SpecialRegister::ClusterNctaid(_) => 1,
            SpecialRegister::DynamicSharedSize => self.shared.1.saturating_sub(self.shared.0),
            SpecialRegister::TotalSharedSize => self.shared.1,
            SpecialRegister::GridId => self.number,
            // Time is the number of times that it was asked for: it only rises, and a seed decides it.
            SpecialRegister::Clock | SpecialRegister::Clock64 | SpecialRegister::GlobalTimer => self.image.time(),
            SpecialRegister::ClockHigh => self.image.time() >> 32,
            _ => 0,
        }
    }
}

/// Lanes of a warp that arrive at a barrier.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub barrier: u32,
    /// The number of threads that the barrier is for; `None` for all of the block.
    pub threads: Option<u32>,
    pub lanes: Mask,
    /// Those whose predicate is true.
    pub votes: Mask,
}

/// The threads that have arrived at a barrier, by warp.
#[derive(Clone, Debug, Default)]
struct Barrier {
    arrived: Vec<Mask>,
    votes: u32,
    threads: Option<u32>,
    open: bool,
}

/// A block at work.
#[derive(Debug)]
pub struct Block {
    pub number: u32,
    warps: Vec<Warp>,
    barriers: [Barrier; BARRIERS],
    next: usize,
    /// Number of times a barrier has let a warp continue.
    releases: u64,
    /// The accesses that a seed takes out of their order, if it does.
    weak: Option<Box<WeakMemory>>,
    // The warps access it, so it is dropped after them.
    _shared: Buffer,
}

/// The way a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has done something.
    Moved,
    /// It only polled memory that has not changed, met others at barriers, or waited.
    Idle,
    /// All threads have ended.
    Over,
}

impl Block {
    /// A block with its shared memory, which its warps access.
    pub fn new(shared: Buffer, warps: Vec<Warp>) -> Self {
        let none = || Barrier { arrived: vec![0; warps.len()], open: true, ..Barrier::default() };
        let barriers = std::array::from_fn(|_| none());
        let number = warps.first().map_or(0, |warp| warp.block);
        Self { number, warps, barriers, next: 0, releases: 0, weak: None, _shared: shared }
    }

    /// From now on its accesses need not happen in the order of the program.
    pub fn weaken(&mut self, weak: WeakMemory) {
        self.weak = Some(Box::new(weak));
    }

    /// Places it on a device.
    pub fn put_on(&mut self, device: usize) {
        self.warps.iter_mut().for_each(|warp| warp.reach.put_on(device));
    }

    /// Number of warps in the block.
    pub fn warps(&self) -> usize {
        self.warps.len()
    }

    /// Instructions that its warps have executed.
    pub fn instructions(&self) -> u64 {
        self.warps.iter().map(|warp| warp.instructions).sum()
    }

    /// The work done by its warps.
    pub fn work(&self) -> Work {
        self.warps.iter().map(Warp::work).sum()
    }

    /// The figures of the block so far.
    pub fn figures(&self) -> Figures {
        Figures { instructions: self.instructions(), work: self.work(), trace: 0 }
    }

    /// Gives every warp a turn, starting with a different one each time.
    ///
    /// # Errors
    ///
    /// A warp cannot continue.
    pub fn round(&mut self, budget: u32) -> Result<Turn, Fault> {
        // Without a schedule nothing is out of order.
        if let Some(mut weak) = self.weak.take() {
            weak.show_all();
        }
        let count = self.warps.len();
        let (mut moved, mut left) = (false, false);
        let mut note = |turn| match turn {
            Turn::Moved => (moved, left) = (true, true),
            Turn::Idle => left = true,
            Turn::Over => {}
        };
        // The warps of a block leave a barrier at nearly the same time, as on a GPU: right after it kernels read shared memory that another
        // warp overwrites soon afterwards.
        let released: Vec<usize> = (0..count).filter(|at| self.warps[*at].released).collect();
        for at in &released {
            self.warps[*at].released = false;
            note(self.turn(*at, budget, Some(FIRST_STEPS))?);
        }
        self.next = (self.next + 1) % count.max(1);
        for step in 0..count {
            let at = (step + self.next) % count;
            if self.warps[at].released || released.contains(&at) {
                continue;
            }
            let waiting = self.releases;
            note(self.turn(at, budget, None)?);
            if self.releases != waiting {
                // The next round begins with the warps that can now continue, and then with the warp after this one.
                self.next = at;
                break;
            }
        }
        Ok(if !left {
            Turn::Over
        } else if moved {
            Turn::Moved
        } else {
            Turn::Idle
        })
    }

    /// Gives one warp a turn; `pick` chooses it by number among those that can continue.
    ///
    /// # Errors
    ///
    /// A warp cannot continue.
    pub fn turn_of_one(&mut self, budget: u32, pick: impl FnOnce(usize) -> usize) -> Result<(Turn, usize), Fault> {
        let seen = self.weak.as_mut().is_some_and(|weak| weak.pass());
        let idle = if seen { Turn::Moved } else { Turn::Idle };
        let can = |warp: &Warp| warp.alive & !warp.blocked != 0;
        let ready: Vec<usize> = (0..self.warps.len()).filter(|at| can(&self.warps[*at])).collect();
        let Some(at) = ready.get(pick(ready.len())).copied() else {
            return Ok((if self.is_over() { Turn::Over } else { idle }, 0));
        };
        let turn = self.turn(at, budget, None)?;
        let turn = match turn {
            Turn::Over if !self.is_over() => Turn::Moved,
            Turn::Idle => idle,
            turn => turn,
        };
        Ok((turn, at))
    }

    /// True if all warps have ended, and all see what they have stored.
    fn is_over(&self) -> bool {
        self.weak.as_ref().is_none_or(|weak| weak.is_shown()) && self.warps.iter().all(|warp| warp.alive == 0)
    }

    /// Gives a warp a turn. With `steps`, the turn ends after that many instructions.
    fn turn(&mut self, at: usize, budget: u32, steps: Option<u32>) -> Result<Turn, Fault> {
        self.warps[at].weak = self.weak.take();
        let turn = self.turn_of_warp(at, budget, steps);
        self.weak = self.warps[at].weak.take();
        turn
    }

    fn turn_of_warp(&mut self, at: usize, budget: u32, steps: Option<u32>) -> Result<Turn, Fault> {
        let (mut moved, mut budget) = (false, budget);
        loop {
            let warp = &mut self.warps[at];
            if warp.alive == 0 {
                return Ok(Turn::Over);
            }
            let before = warp.alive;
            let pause = warp.turn(budget, steps);
            moved |= warp.moved;
            // The instructions after a barrier are part of the same turn.
            budget = warp.budget;
            if warp.alive != before {
                for number in 0..BARRIERS {
                    self.open(number);
                }
            }
            let ends = if moved { Turn::Moved } else { Turn::Idle };
            match pause {
                Pause::Over => return Ok(Turn::Over),
                Pause::Waiting | Pause::Poll | Pause::Turn => return Ok(ends),
                Pause::Refused(spot, what) => return Err(Fault::Instruction { spot, what }),
                Pause::Barrier(arrival) => {
                    let releases = self.releases;
                    self.arrive(at, arrival);
                    let warp = &self.warps[at];
                    if warp.blocked == warp.alive || steps.is_some() || self.releases != releases {
                        return Ok(ends);
                    }
                }
            }
        }
    }

    fn arrive(&mut self, warp: usize, arrival: Arrival) {
        let number = arrival.barrier as usize % BARRIERS;
        let barrier = &mut self.barriers[number];
        barrier.open = false;
        barrier.arrived[warp] |= arrival.lanes;
        barrier.votes += arrival.votes.count_ones();
        barrier.threads = arrival.threads.or(barrier.threads);
        self.warps[warp].blocked |= arrival.lanes;
        self.open(number);
    }

    /// Opens a barrier if all its threads have arrived.
    fn open(&mut self, number: usize) {
        let barrier = &mut self.barriers[number];
        if barrier.open {
            return;
        }
        let (mut came, mut threads, mut alive) = (0, 0, 0);
        for (warp, arrived) in self.warps.iter().zip(&barrier.arrived) {
            alive += warp.alive.count_ones();
            threads += arrived.count_ones();
            // A warp counts as a whole, also if it has fewer threads.
            came += if *arrived != 0 && arrived & warp.alive == warp.alive { 32 } else { arrived.count_ones() };
        }
        if !barrier.threads.map_or(threads >= alive, |wanted| came >= wanted) {
            return;
        }
        for (warp, arrived) in self.warps.iter_mut().zip(&mut barrier.arrived) {
            if *arrived != 0 {
                warp.blocked &= !*arrived;
                warp.reductions[number] = (barrier.votes, threads);
                warp.released = true;
                self.releases += 1;
            }
            *arrived = 0;
        }
        (barrier.votes, barrier.threads, barrier.open) = (0, None, true);
    }

    /// The positions of its warps, and what each waits for.
    pub fn spots(&self) -> Vec<(Spot, Wait)> {
        let barrier = |warp: usize| {
            let came_to = |barrier: &Barrier| barrier.arrived.get(warp).is_some_and(|lanes| *lanes != 0);
            let number = self.barriers.iter().position(came_to)?;
            Some(Wait::Barrier { number, threads: self.barriers[number].threads })
        };
        let spots = |(at, warp): (usize, &Warp)| warp.spots(barrier(at).unwrap_or(Wait::Nothing));
        self.warps.iter().enumerate().flat_map(spots).collect()
    }
}
