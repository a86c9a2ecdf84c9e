//! A warp: 32 lanes, which may be at different instructions.
//!
//! Lanes at the same instruction of the same call run together. If lanes are at different instructions, the
//! group in the innermost call runs first, and in one call the group that is earliest in the text, so that groups meet again. A group
//! that polls memory without a change, or that has had a long turn, waits until all other groups have run.
#![allow(unsafe_code)] // the instructions at hand are reached by address while their function is there

use super::block::{Arrival, Common};
use super::fault::{Spot, Wait};
use super::frame::Frame;
use super::lanes::{LANES, Lanes, Mask, lanes_of};
use super::memory::{BadAccess, Reach};
use super::ready::{Instruction, Ready};
use super::registers::{Base, Registers};
use super::stores::{Stores, Strike};
use super::weak::WeakMemory;
use super::work::Work;
use crate::error::Error;
use std::sync::Arc;

/// The value a handler returns if the warp's lanes do not simply continue.
pub const STOP: u32 = u32::MAX;

/// Barriers of a block.
pub const BARRIERS: usize = 16;

/// The reason the active lanes do not continue.
#[derive(Debug)]
pub enum Stop {
    /// The warp chooses again among its lanes.
    Switch,
    /// Their turn was long enough.
    Turn,
    /// They have polled in vain, and so have all others.
    Poll,
    /// They have reached a barrier of the block.
    Barrier(Arrival),
    /// The instruction cannot be executed.
    Refused(String),
}

/// The way a turn of a warp ended.
#[derive(Debug)]
pub enum Pause {
    /// All lanes have ended.
    Over,
    /// All lanes wait for a barrier.
    Waiting,
    /// It has polled in vain.
    Poll,
    /// It was long enough.
    Turn,
    /// Lanes have reached a barrier; they continue when the block allows it.
    Barrier(Arrival),
    /// An instruction cannot be executed.
    Refused(Box<Spot>, String),
}

/// A record of the last reads at one place, to distinguish polling from reading.
#[derive(Clone, Copy, Debug, Default)]
struct Look {
    at: u32,
    /// Address of the function's instructions.
    code: usize,
    lanes: Mask,
    writes: u32,
    /// The value seen by the second and all later reads.
    seen: Option<u64>,
}

/// A load that found the value that was there before.
#[derive(Clone, Copy, Debug)]
struct Polled {
    lanes: Mask,
    /// The address of the first lane.
    address: u64,
    /// The frame, and the instruction.
    place: (usize, u32),
}

#[derive(Debug)]
pub struct Warp {
    /// The registers of the function at hand.
    pub registers: Base,
    /// The lanes at hand.
    pub mask: Mask,
    /// The first instruction at which other lanes of the same frame are.
    pub limit: u32,
    code: *const Instruction,
    /// The frame at hand.
    pub current: usize,
    pub frames: Vec<Frame>,
    spare: Vec<Registers>,
    pub reach: Reach,
    /// The observer of its stores, if there is one.
    stores: Option<Arc<dyn Stores>>,
    /// The block's shared memory: its address and its bytes.
    pub shared: (u64, u64),
    pub common: Arc<Common>,
    pub block: u32,
    pub number: u32,
    /// During its turn, the accesses of its block that a seed takes out of their order, if it does.
    pub weak: Option<Box<WeakMemory>>,
    /// Lanes that have not ended.
    pub alive: Mask,
    /// Lanes that wait at a barrier of the block.
    pub blocked: Mask,
    /// A barrier of the block has let lanes continue that have not had a turn since.
    pub released: bool,
    /// Lanes that wait for others of the warp.
    pub syncing: Mask,
    /// For lanes at a barrier of the warp, the lanes that take part in it.
    pub warp_barrier: Lanes<Mask>,
    /// Lanes that others go before.
    pub yielded: Mask,
    /// Branches backwards until the turn is over.
    pub budget: u32,
    pub stop: Option<Stop>,
    /// The last reductions of the block's barriers: number of true predicates, and number of threads.
    pub reductions: [(u32, u32); BARRIERS],
    /// Accesses of this warp that have changed memory.
    writes: u32,
    looks: [Look; 16],
    /// Index of the look that is replaced next.
    oldest: usize,
    /// For each group of lanes, its last load of an unchanged value.
    polled: Vec<Polled>,
    /// True if this turn did anything other than poll memory that has not changed.
    pub moved: bool,
    pub instructions: u64,
    /// The work done, except for the last instructions.
    pub work: Work,
    /// Instructions not yet added to `work`, with the mask of the lanes that executed them.
    uncounted: (u64, Mask),
    /// Bytes of a lane in all frames.
    pub bytes: u64,
}

// SAFETY: its addresses lead to memory that it owns, or that lives as long as its launch.
unsafe impl Send for Warp {}

impl Warp {
    pub fn new(
        common: Arc<Common>,
        (block, number): (u32, u32),
        lanes: Mask,
        shared: (u64, u64),
        reach: Reach,
        kernel: Arc<Ready>,
    ) -> Result<Self, Error> {
        let mut warp = Self {
            registers: Base::NONE,
            mask: lanes,
            limit: STOP,
            code: std::ptr::null(),
            current: 0,
            frames: Vec::new(),
            spare: Vec::new(),
            stores: reach.stores(),
            reach,
            shared,
            common,
            block,
            number,
            weak: None,
            alive: lanes,
            blocked: 0,
            released: false,
            syncing: 0,
            warp_barrier: [0; LANES],
            yielded: 0,
            budget: 0,
            stop: None,
            reductions: [(0, 0); BARRIERS],
            writes: 1,
            looks: [Look::default(); 16],
            oldest: 0,
            polled: Vec::new(),
            moved: false,
            instructions: 0,
            work: Work::default(),
            uncounted: (0, lanes),
            bytes: 0,
        };
        warp.enter(kernel, lanes, None)?;
        Ok(warp)
    }

    /// Executes instructions until `budget` backward branches were taken, or until the warp has to wait. With `steps`, it also stops
    /// after about that many instructions.
    pub fn turn(&mut self, budget: u32, steps: Option<u32>) -> Pause {
        self.budget = budget.max(1);
        self.moved = false;
        let last = steps.map_or(u64::MAX, |steps| self.instructions + u64::from(steps));
        loop {
            let Some(mut at) = self.choose() else {
                return if self.alive == 0 { Pause::Over } else { Pause::Waiting };
            };
            loop {
                let code = self.code;
                while at < self.limit {
                    if steps.is_some() && self.instructions >= last {
                        self.park(self.mask, at);
                        return Pause::Turn;
                    }
                    // SAFETY: the executable keeps the function alive, and control never leaves its instructions: its targets are within
                    // them, and the last one leaves the function.
                    let instruction = unsafe { &*code.add(at as usize) };
                    self.instructions += 1;
                    if self.mask != self.uncounted.1 {
                        self.work = self.work();
                        self.uncounted = (0, self.mask);
                    }
                    self.uncounted.0 += u64::from(instruction.weight);
                    // SAFETY: the slots of an instruction are in the registers of its function's frames.
                    at = unsafe { (instruction.run)(self, instruction, at) };
                }
                if at == STOP {
                    break;
                }
                self.park(self.mask, at);
                match self.choose_in(self.current, self.yielded) {
                    Some(next) => at = next,
                    None => break,
                }
            }
            match self.stop.take() {
                None | Some(Stop::Switch) => {}
                Some(Stop::Turn) => return Pause::Turn,
                Some(Stop::Poll) => return Pause::Poll,
                Some(Stop::Barrier(arrival)) => return Pause::Barrier(arrival),
                Some(Stop::Refused(what)) => {
                    let frame = &self.frames[self.current];
                    let lane = self.mask.trailing_zeros() as usize % LANES;
                    return Pause::Refused(Box::new(self.spot(frame, self.mask, frame.at[lane])), what);
                }
            }
        }
    }

    /// The work done so far.
    pub fn work(&self) -> Work {
        let (instructions, lanes) = self.uncounted;
        self.work + Work { instructions: instructions * u64::from(lanes.count_ones()), ..Work::default() }
    }

    /// Active lanes stay at their instruction and come to it again, so it does not count for them yet.
    pub fn again(&mut self, lanes: Mask, instruction: &Instruction, at: u32) {
        self.park(lanes, at);
        self.mask &= !lanes;
        self.discount(lanes.count_ones() * instruction.weight);
    }

    fn discount(&mut self, instructions: u32) {
        self.work.instructions = self.work.instructions.wrapping_sub(u64::from(instructions));
    }

    /// Chooses the lanes that run next, and returns their instruction; `None` if all wait.
    fn choose(&mut self) -> Option<u32> {
        loop {
            for frame in (0..self.frames.len()).rev() {
                if let Some(at) = self.choose_in(frame, self.yielded) {
                    self.current = frame;
                    let frame = &mut self.frames[frame];
                    (self.registers, self.code) = (frame.registers.base(), frame.code.instructions.as_ptr());
                    return Some(at);
                }
            }
            if self.yielded == 0 {
                return None;
            }
            self.yielded = 0;
        }
    }

    fn choose_in(&mut self, frame: usize, avoid: Mask) -> Option<u32> {
        let frame = &self.frames[frame];
        let ready = frame.lanes & !frame.calling & !self.blocked & !self.syncing & !avoid;
        let (mut least, mut next, mut mask) = (STOP, STOP, 0);
        for lane in lanes_of(ready) {
            let at = frame.at[lane];
            if at < least {
                (next, least, mask) = (least, at, 0);
            } else if at != least {
                next = next.min(at);
            }
            if at == least {
                mask |= 1 << lane;
            }
        }
        if mask == 0 {
            return None;
        }
        (self.mask, self.limit) = (mask, next);
        Some(least)
    }

    /// True if some lanes can continue that have not yielded to others.
    pub fn others_can_go(&self) -> bool {
        let waits = self.blocked | self.syncing | self.yielded;
        self.frames.iter().any(|frame| frame.lanes & !frame.calling & !waits != 0)
    }

    /// Records the instruction at which lanes of the current frame continue.
    pub fn park(&mut self, lanes: Mask, at: u32) {
        let frame = &mut self.frames[self.current];
        if lanes == Mask::MAX {
            frame.at = [at; LANES];
            return;
        }
        for lane in lanes_of(lanes) {
            frame.at[lane] = at;
        }
    }

    /// The active lanes continue at an instruction when they are chosen again.
    pub fn stop_at(&mut self, at: u32, stop: Stop) -> u32 {
        self.park(self.mask, at);
        self.stop = Some(stop);
        STOP
    }

    /// The instruction cannot be executed.
    #[cold]
    pub fn refuse(&mut self, at: u32, what: String) -> u32 {
        self.stop_at(at, Stop::Refused(what))
    }

    /// An access to memory is refused.
    #[cold]
    pub fn refuse_access(&mut self, at: u32, does: &str, len: u64, (address, bad): (u64, BadAccess)) -> u32 {
        self.refuse(at, format!("{does} {len} bytes at {address:#x}, {bad}"))
    }

    /// The lanes at hand whose store of `bytes` bytes happens: all of them, unless an observer prevents it.
    #[inline(always)]
    pub fn storing(&mut self, addresses: &Lanes<u64>, bytes: u64, is_global: bool) -> Mask {
        if self.stores.is_some() && is_global { self.observed(addresses, bytes) } else { self.mask }
    }

    #[cold]
    fn observed(&mut self, addresses: &Lanes<u64>, bytes: u64) -> Mask {
        let strike = self.stores.as_ref().map_or(Strike::None, |stores| stores.before(addresses, self.mask, bytes));
        match strike {
            Strike::None => self.mask,
            Strike::Lost(lanes) => self.mask & !lanes,
            Strike::Flip { address, bit } => {
                self.reach.flip(address, bit);
                self.mask
            }
        }
    }

    /// This warp has changed memory: the memory that it polls may be different now.
    pub fn wrote(&mut self) {
        self.writes = self.writes.wrapping_add(1);
        self.moved = true;
    }

    /// Lanes have read memory that others may write. They let all others go before them if the values are the same as before, and nothing
    /// has changed since; `seen` returns a number for the addresses and values. The next instruction is `at`.
    #[inline(always)]
    pub fn looked(&mut self, address: u64, at: u32, seen: impl FnOnce() -> u64) -> u32 {
        let here = Look { at, code: self.code as usize, lanes: self.mask, writes: self.writes, seen: None };
        let is_here = |look: &&mut Look| (look.at, look.code, look.lanes) == (here.at, here.code, here.lanes);
        let Some(known) = self.looks.iter_mut().find(is_here) else {
            self.oldest = (self.oldest + 1) % self.looks.len();
            self.looks[self.oldest] = here;
            self.moved = true;
            return at;
        };
        if known.writes != here.writes {
            *known = here;
            self.moved = true;
            return at;
        }
        let seen = Some(seen());
        if std::mem::replace(&mut known.seen, seen) != seen {
            self.moved = true;
            return at;
        }
        self.polled_in_vain(address, at)
    }

    fn polled_in_vain(&mut self, address: u64, at: u32) -> u32 {
        let poll = Polled { lanes: self.mask, address, place: (self.current, at - 1) };
        for known in &mut self.polled {
            known.lanes &= !poll.lanes;
        }
        self.polled.retain(|known| known.lanes != 0);
        self.polled.push(poll);
        self.park(self.mask, at);
        self.yielded |= self.mask;
        self.stop = Some(if self.others_can_go() {
            Stop::Switch
        } else {
            self.yielded = 0;
            Stop::Poll
        });
        STOP
    }

    /// Lanes enter a function; gives their frame.
    ///
    /// # Errors
    ///
    /// A variable that it uses has no memory.
    pub fn enter(
        &mut self,
        code: Arc<Ready>,
        lanes: Mask,
        caller: Option<(usize, Option<u32>)>,
    ) -> Result<usize, Error> {
        let fits = self.spare.iter().position(|registers| registers.has_room_for(code.register_bytes));
        let registers = fits.map_or_else(|| Registers::new(code.register_bytes), |spare| self.spare.swap_remove(spare));
        let mut frame = Frame::new(code, registers, lanes, caller);
        self.common.fill(&mut frame)?;
        if let Some(memory) = &frame.memory {
            // SAFETY: it is removed when the last lane leaves the frame, before the frame is dropped.
            unsafe { self.reach.add(memory) };
        }
        self.bytes += u64::from(frame.code.register_bytes) + frame.code.own_bytes;
        self.moved = true;
        // After its caller, so that the innermost call is still the last one.
        let after = caller.map_or(0, |(caller, _)| caller + 1);
        frame.depth = caller.map_or(0, |(caller, _)| self.frames[caller].depth + 1);
        if let Some(left) = (after..self.frames.len()).find(|number| self.frames[*number].lanes == 0) {
            self.frames[left] = frame;
            return Ok(left);
        }
        self.frames.push(frame);
        Ok(self.frames.len() - 1)
    }

    /// Lanes leave the frame at hand, and with it all calls, or just this one.
    pub fn leave(&mut self, leaving: Mask, all_calls: bool) {
        let mut number = self.current;
        loop {
            let frame = &mut self.frames[number];
            frame.lanes &= !leaving;
            let (caller, is_left) = (frame.caller, frame.lanes == 0);
            if is_left {
                self.free(number);
            }
            let Some((caller, _)) = caller else {
                self.alive &= !leaving;
                self.yielded &= !leaving;
                self.look_again();
                self.warp_barrier = [0; LANES];
                break;
            };
            self.frames[caller].calling &= !leaving;
            if !all_calls {
                break;
            }
            number = caller;
        }
        while self.frames.last().is_some_and(|frame| frame.lanes == 0) {
            self.frames.pop();
        }
        self.moved = true;
    }

    /// Lanes that wait for others of the warp return to their instruction, to check if they still must wait.
    fn look_again(&mut self) {
        let mut counted = 0;
        for frame in &self.frames {
            for lane in lanes_of(self.syncing & frame.lanes & !frame.calling) {
                counted += frame.code.instructions.get(frame.at[lane] as usize).map_or(0, |at| at.weight);
            }
        }
        self.discount(counted);
        self.syncing = 0;
    }

    /// Frees the resources of a frame that all lanes have left. Its place is kept while there are frames after it.
    fn free(&mut self, number: usize) {
        let frame = &mut self.frames[number];
        self.bytes -= u64::from(frame.code.register_bytes) + frame.code.own_bytes;
        if let Some(memory) = frame.memory.take() {
            self.reach.remove(memory.region().start);
        }
        self.spare.push(std::mem::replace(&mut frame.registers, Registers::none()));
        self.polled.retain(|poll| poll.place.0 != number);
    }

    /// The positions of lanes, and what they wait for; `barrier` is what those that are blocked wait for.
    pub fn spots(&self, barrier: Wait) -> Vec<(Spot, Wait)> {
        let mut spots = Vec::new();
        for (number, frame) in self.frames.iter().enumerate() {
            let here = frame.lanes & !frame.calling;
            let mut left = here;
            while left != 0 {
                let first = left.trailing_zeros();
                let at = frame.at[first as usize];
                let polled = self.polled.iter().find(|poll| poll.place.0 == number && poll.lanes >> first & 1 == 1);
                let together = left & polled.map_or(Mask::MAX, |poll| poll.lanes);
                let lanes =
                    lanes_of(together).filter(|lane| frame.at[*lane] == at).fold(0, |all, lane| all | 1 << lane);
                left &= !lanes;
                spots.push(self.waits(frame, lanes, at, polled, &barrier));
            }
        }
        spots
    }

    fn waits(&self, frame: &Frame, lanes: Mask, at: u32, polled: Option<&Polled>, barrier: &Wait) -> (Spot, Wait) {
        if lanes & self.blocked != 0 {
            return (self.spot(frame, lanes, at.saturating_sub(1)), barrier.clone());
        }
        if lanes & self.syncing != 0 {
            return (self.spot(frame, lanes, at), Wait::Lanes);
        }
        match polled {
            Some(Polled { address, place: (_, poll), .. }) => {
                (self.spot(frame, lanes, *poll), Wait::Poll { address: *address })
            }
            None => (self.spot(frame, lanes, at), Wait::Nothing),
        }
    }

    fn spot(&self, frame: &Frame, lanes: Mask, at: u32) -> Spot {
        let operation = frame.code.operation_of.get(at as usize).copied().unwrap_or(u32::MAX);
        let at = self.common.image.executable().describe(frame.code.function, operation as usize);
        Spot { block: self.block, warp: self.number, lanes, at }
    }
}
