//! A warp: 32 lanes, which may be at different operations.
//!
//! Lanes at the same operation of the same call are a group. Of several groups the one in the innermost call, and there the one that is
//! least far in the text, goes first, so that groups meet again. One that polls in vain comes after all others.
#![allow(unsafe_code)] // a frame's memory is reached by address while the frame is there
use super::alu::Operands;
use super::fault::{Fault, Spot};
use super::frame::Frame;
use super::lanes::{LANES, Lanes, Mask};
use super::memory::Reach;
use crate::code::{
    Address, AddressBase, AtomicOp, MemoryOrder, Op, Operation, Reduction, ShuffleMode, Source, SpecialRegister,
    VoteMode,
};
use crate::module::{RegisterId, Space, Type};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Operations that a warp executes before another one has its turn.
const TURN: usize = 512;

/// What the rest of a launch does for its warps.
pub trait Surroundings {
    /// The address of a variable in its space, or what stands for that of a function. Those in shared memory count from its start.
    fn symbol(&mut self, frame: &Frame, name: &str) -> Option<u64>;
    /// A new frame for the function that such an address stands for.
    fn enter(&mut self, address: u64, lanes: Mask) -> Result<Frame, Fault>;
    /// The value of a special register, but for those that differ by lane.
    fn special(&self, register: SpecialRegister) -> u64;
    /// The address of the block's shared memory, and how many bytes it has.
    fn shared(&self) -> (u64, u64);
    /// The block's threads in each dimension.
    fn block_size(&self) -> [u32; 3];
    /// Threads come to a barrier; gives what [`Surroundings::barrier_result`] is asked with.
    fn arrive(&mut self, barrier: u32, threads: Option<u32>, lanes: u32, votes: u32) -> u64;
    /// Once all have come, how many of their predicates were true, and how many came.
    fn barrier_result(&mut self, barrier: u32, ticket: u64) -> Option<(u32, u32)>;
    /// Threads have ended.
    fn exited(&mut self, lanes: u32);
    /// `function, unit:line:column: text` of an operation.
    fn describe(&self, frame: &Frame, at: usize) -> String;
}

/// Lanes at the same operation of the same call.
#[derive(Debug)]
struct Group {
    frame: usize,
    at: usize,
    lanes: Mask,
    waits: Waits,
    /// Polls in vain since it last got on.
    vain: u32,
    /// What its last poll read: operation, addresses and values.
    polled: Option<(usize, u64)>,
}

#[derive(Debug)]
enum Waits {
    No,
    /// For these lanes to come to the same operation.
    ForLanes(Mask),
    ForBarrier {
        number: u32,
        ticket: u64,
        reduce: Option<Reduction>,
    },
}

/// How a turn has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It has done something.
    Moved,
    /// All that it did was to poll memory that has not changed, or to wait.
    Idle,
    /// All threads have ended.
    Over,
}

#[derive(Debug)]
pub struct Warp {
    block: u32,
    number: u32,
    frames: Vec<Option<Frame>>,
    groups: Vec<Group>,
    reach: Reach,
    moved: bool,
}

impl Warp {
    pub fn new(block: u32, number: u32, lanes: Mask, frame: Frame, mut reach: Reach) -> Self {
        // SAFETY: as for a call's frame.
        unsafe { reach.add(&frame.memory) };
        let group = Group { frame: 0, at: 0, lanes, waits: Waits::No, vain: 0, polled: None };
        Self { block, number, frames: vec![Some(frame)], groups: vec![group], reach, moved: false }
    }

    /// Executes operations until the turn is over.
    pub fn turn(&mut self, around: &mut dyn Surroundings) -> Result<Turn, Fault> {
        self.moved = false;
        for _ in 0..TURN {
            if self.groups.is_empty() {
                return Ok(Turn::Over);
            }
            let Some(chosen) = self.choose(around) else { break };
            let before = self.groups[chosen].vain;
            self.step(chosen, around)?;
            self.meet();
            // All others have had their chance to change what it polls.
            if self.groups.iter().all(|group| !matches!(group.waits, Waits::No) || group.vain > 2) && before > 1 {
                break;
            }
        }
        Ok(if self.moved { Turn::Moved } else { Turn::Idle })
    }

    /// Where each group is, and what it waits for.
    pub fn spots(&self, around: &dyn Surroundings) -> Vec<(Spot, String)> {
        let spot = |group: &Group| {
            let why = match &group.waits {
                Waits::No => "polls memory that does not change".to_owned(),
                Waits::ForLanes(lanes) => format!("waits for the lanes {:#010x}", lanes & !group.lanes),
                Waits::ForBarrier { number, .. } => format!("waits at barrier {number}"),
            };
            (self.spot(group, around), why)
        };
        self.groups.iter().map(spot).collect()
    }

    fn spot(&self, group: &Group, around: &dyn Surroundings) -> Spot {
        let at = self.frames[group.frame].as_ref().map_or_else(String::new, |frame| around.describe(frame, group.at));
        Spot { block: self.block, warp: self.number, lanes: group.lanes, at }
    }

    /// The group that goes next; `None` if all wait.
    fn choose(&mut self, around: &mut dyn Surroundings) -> Option<usize> {
        let alive = self.groups.iter().fold(0, |all, group| all | group.lanes);
        for at in 0..self.groups.len() {
            match &self.groups[at].waits {
                Waits::No => {}
                Waits::ForLanes(lanes) => {
                    if lanes & alive & !self.groups[at].lanes == 0 {
                        self.groups[at].waits = Waits::No;
                    }
                }
                Waits::ForBarrier { number, ticket, .. } => {
                    if let Some(result) = around.barrier_result(*number, *ticket) {
                        self.pass(at, result);
                    }
                }
            }
        }
        let ready = self.groups.iter().enumerate().filter(|(_, group)| matches!(group.waits, Waits::No));
        let key = |group: &Group| {
            let depth = self.frames[group.frame].as_ref().map_or(0, |frame| frame.depth);
            (group.vain, std::cmp::Reverse(depth), group.at)
        };
        ready.min_by_key(|(_, group)| key(group)).map(|(at, _)| at)
    }

    /// A group goes on after a barrier.
    fn pass(&mut self, at: usize, (votes, threads): (u32, u32)) {
        let group = &mut self.groups[at];
        let Waits::ForBarrier { reduce, .. } = std::mem::replace(&mut group.waits, Waits::No) else { return };
        group.at += 1;
        group.vain = 0;
        self.moved = true;
        let (lanes, frame) = (group.lanes, group.frame);
        if let Some(reduce) = reduce {
            let value = match reduce.mode {
                VoteMode::All => u64::from(votes == threads),
                VoteMode::Any => u64::from(votes > 0),
                _ => u64::from(votes),
            };
            self.set(frame, reduce.to, &[value; LANES], lanes);
        }
    }

    /// Groups that have come to the same operation become one.
    fn meet(&mut self) {
        let mut at = 0;
        while at < self.groups.len() {
            let same = (at + 1..self.groups.len()).find(|other| {
                let (one, other) = (&self.groups[at], &self.groups[*other]);
                let can = |group: &Group| !matches!(group.waits, Waits::ForBarrier { .. });
                one.frame == other.frame && one.at == other.at && can(one) && can(other)
            });
            match same {
                Some(other) => {
                    let other = self.groups.remove(other);
                    let one = &mut self.groups[at];
                    one.lanes |= other.lanes;
                    one.vain = one.vain.min(other.vain);
                    (one.waits, one.polled) = (Waits::No, None);
                }
                None => at += 1,
            }
        }
    }

    fn frame(&mut self, number: usize) -> Result<&mut Frame, Fault> {
        self.frames[number].as_mut().ok_or_else(|| Fault::Launch("a call has ended that still has lanes".into()))
    }

    fn set(&mut self, frame: usize, to: Option<RegisterId>, bits: &Lanes<u64>, mask: Mask) {
        if let Some(frame) = self.frames[frame].as_mut() {
            let code = frame.code.clone();
            Operands { code: &code, registers: &mut frame.registers, address_of: &|_| None, mask }.set(to, bits);
        }
    }

    /// Executes one operation of a group.
    fn step(&mut self, chosen: usize, around: &mut dyn Surroundings) -> Result<(), Fault> {
        let Group { frame: number, at, lanes, .. } = self.groups[chosen];
        let code: Arc<_> = self.frame(number)?.code.clone();
        let Some(operation) = code.body.operations.get(at) else { return self.leave(chosen, lanes, false, around) };
        let Operation { guard, op } = match operation {
            Ok(operation) => operation,
            Err(error) => {
                let spot = Box::new(self.spot(&self.groups[chosen], around));
                return Err(Fault::Instruction { spot, what: error.what.clone() });
            }
        };
        let frame = self.frame(number)?;
        let active = match guard {
            None => lanes,
            Some(guard) => {
                let holds = frame.registers.predicate(code.slot(guard.register));
                lanes & if guard.inverted { !holds } else { holds }
            }
        };
        if active == 0 {
            self.advance(chosen);
            return Ok(());
        }
        let done = self.execute(chosen, active, op, around);
        done.map_err(|what| match what {
            Stop::Fault(fault) => fault,
            Stop::Here(what) => {
                let spot = Box::new(self.spot(&self.groups[chosen.min(self.groups.len().saturating_sub(1))], around));
                Fault::Instruction { spot, what }
            }
        })
    }

    fn execute(&mut self, chosen: usize, active: Mask, op: &Op, around: &mut dyn Surroundings) -> Result<(), Stop> {
        let number = self.groups[chosen].frame;
        match op {
            Op::Branch { target } => self.branch(chosen, active, *target),
            Op::Return => self.leave(chosen, active, false, around)?,
            Op::Exit => self.leave(chosen, active, true, around)?,
            Op::Trap => return Err(Stop::Here("a trap".into())),
            Op::Call { target, .. } => self.call(chosen, active, target, around)?,
            Op::Barrier { number, threads, reduce } => {
                self.barrier(chosen, active, (number, threads.as_ref(), reduce.as_ref()), around)?;
            }
            Op::WarpBarrier { members }
            | Op::Vote { members, .. }
            | Op::Shuffle { members, .. }
            | Op::MatchAny { members, .. } => {
                let named = self.operand(number, members, around, active)?[active.trailing_zeros() as usize] as u32;
                let alive = self.groups.iter().fold(0, |all, group| all | group.lanes);
                if named & alive & !self.groups[chosen].lanes != 0 {
                    self.groups[chosen].waits = Waits::ForLanes(named);
                    return Ok(());
                }
                self.together(number, active & named, op, around)?;
                self.advance(chosen);
            }
            Op::Load { ty, order, to, address } => {
                let polled = self.load(number, active, (*ty, *order, to, address), around)?;
                self.polled(chosen, polled.filter(|_| *order != MemoryOrder::Weak));
            }
            _ => {
                self.plain(number, active, op, around)?;
                self.advance(chosen);
            }
        }
        Ok(())
    }

    /// A group has done something and goes to the next operation.
    fn advance(&mut self, chosen: usize) {
        let group = &mut self.groups[chosen];
        group.at += 1;
        // What a polling group does between its polls is no progress.
        self.moved |= group.vain == 0;
    }

    /// A group has read memory; if it is what it read at the same operation before, it may be polling.
    fn polled(&mut self, chosen: usize, read: Option<u64>) {
        let group = &mut self.groups[chosen];
        let now = read.map(|read| (group.at, read));
        if now.is_some() && group.polled == now {
            group.vain += 1;
        } else {
            self.moved |= group.vain == 0 || now.is_none() || group.polled.is_none_or(|(at, _)| at == group.at);
            group.vain = 0;
            group.polled = now.or(group.polled);
        }
        group.at += 1;
    }

    fn branch(&mut self, chosen: usize, taken: Mask, target: usize) {
        let group = &mut self.groups[chosen];
        self.moved |= group.vain == 0;
        if taken == group.lanes {
            group.at = target;
            return;
        }
        group.lanes &= !taken;
        group.at += 1;
        let (frame, vain) = (group.frame, group.vain);
        self.groups.push(Group { frame, at: target, lanes: taken, waits: Waits::No, vain, polled: None });
    }

    /// Lanes leave a call, or end.
    fn leave(
        &mut self,
        chosen: usize,
        leaving: Mask,
        all_calls: bool,
        around: &mut dyn Surroundings,
    ) -> Result<(), Fault> {
        self.moved = true;
        let number = self.groups[chosen].frame;
        self.groups[chosen].lanes &= !leaving;
        self.groups[chosen].at += 1;
        let mut frame = Some(number);
        let mut back = None;
        while let Some(number) = frame {
            let left = self.frame(number)?;
            left.lanes &= !leaving;
            let (caller, over) = (left.caller, left.lanes == 0);
            if over {
                let start = left.memory.region().start;
                self.reach.remove(start);
                self.frames[number] = None;
            }
            frame = caller.map(|(caller, _)| caller).filter(|_| all_calls);
            back = if all_calls { None } else { caller };
        }
        match back {
            Some((frame, at)) => {
                self.groups.push(Group { frame, at, lanes: leaving, waits: Waits::No, vain: 0, polled: None });
            }
            None => around.exited(leaving.count_ones()),
        }
        self.groups.retain(|group| group.lanes != 0);
        Ok(())
    }

    fn call(
        &mut self,
        chosen: usize,
        active: Mask,
        target: &Source,
        around: &mut dyn Surroundings,
    ) -> Result<(), Stop> {
        let number = self.groups[chosen].frame;
        let targets = self.operand(number, target, around, active)?;
        let first = targets[active.trailing_zeros() as usize];
        let together = (0..LANES).fold(0, |all, lane| all | Mask::from(targets[lane] == first) << lane) & active;
        let mut frame = around.enter(first, together)?;
        let at = self.groups[chosen].at;
        (frame.caller, frame.depth) = (Some((number, at + 1)), self.frame(number)?.depth + 1);
        // SAFETY: it is removed when the last lane leaves the frame, before the frame is dropped.
        unsafe { self.reach.add(&frame.memory) };
        let place = self.frames.iter().position(Option::is_none).unwrap_or(self.frames.len());
        if place == self.frames.len() {
            self.frames.push(None);
        }
        self.frames[place] = Some(frame);
        let group = &mut self.groups[chosen];
        // Lanes behind a guard go on; lanes with another target call again.
        let rest = group.lanes & !active;
        group.lanes = active & !together;
        let vain = group.vain;
        self.groups.push(Group { frame: place, at: 0, lanes: together, waits: Waits::No, vain, polled: None });
        if rest != 0 {
            self.groups.push(Group { frame: number, at: at + 1, lanes: rest, waits: Waits::No, vain, polled: None });
        }
        self.groups.retain(|group| group.lanes != 0);
        self.moved = true;
        Ok(())
    }

    fn barrier(
        &mut self,
        chosen: usize,
        active: Mask,
        (number, threads, reduce): (&Source, Option<&Source>, Option<&Reduction>),
        around: &mut dyn Surroundings,
    ) -> Result<(), Stop> {
        let frame = self.groups[chosen].frame;
        let lane = active.trailing_zeros() as usize;
        let number = self.operand(frame, number, around, active)?[lane] as u32;
        let threads = threads.map(|threads| self.operand(frame, threads, around, active)).transpose()?;
        let threads = threads.map(|threads| threads[lane] as u32);
        let votes = match reduce {
            None => 0,
            Some(reduce) => {
                let holds = self.operand(frame, &reduce.predicate, around, active)?;
                let holds = (0..LANES).fold(0, |all, lane| all | Mask::from(holds[lane] != 0) << lane);
                (active & if reduce.inverted { !holds } else { holds }).count_ones()
            }
        };
        let ticket = around.arrive(number, threads, active.count_ones(), votes);
        let group = &mut self.groups[chosen];
        let at = group.at;
        let rest = group.lanes & !active;
        group.lanes = active;
        group.waits = Waits::ForBarrier { number, ticket, reduce: reduce.cloned() };
        if rest != 0 {
            self.groups.push(Group { frame, at: at + 1, lanes: rest, waits: Waits::No, vain: 0, polled: None });
        }
        self.moved = true;
        Ok(())
    }

    /// The values of a source in each lane.
    fn operand(
        &mut self,
        number: usize,
        source: &Source,
        around: &mut dyn Surroundings,
        mask: Mask,
    ) -> Result<Lanes<u64>, Stop> {
        self.with(number, mask, around, |operands| operands.bits(source))
    }

    /// Does something with a frame's registers.
    fn with<T>(
        &mut self,
        number: usize,
        mask: Mask,
        around: &mut dyn Surroundings,
        f: impl FnOnce(&mut Operands<'_>) -> Result<T, String>,
    ) -> Result<T, Stop> {
        let Some(mut frame) = self.frames[number].take() else { return Err(Stop::Here("the call has ended".into())) };
        let mut registers = std::mem::replace(&mut frame.registers, super::lanes::Registers::none());
        let around = std::cell::RefCell::new(around);
        let address_of = |name: &str| {
            frame.address_of(name).or_else(|| around.borrow_mut().symbol(&frame, name).map(|address| [address; LANES]))
        };
        let code = frame.code.clone();
        let done = f(&mut Operands { code: &code, registers: &mut registers, address_of: &address_of, mask });
        frame.registers = registers;
        self.frames[number] = Some(frame);
        done.map_err(Stop::Here)
    }

    /// The addresses of an access in each lane.
    fn addresses(
        &mut self,
        number: usize,
        mask: Mask,
        address: &Address,
        around: &mut dyn Surroundings,
    ) -> Result<Lanes<u64>, Stop> {
        let source = match &address.base {
            AddressBase::Register(register) => Source::Register(*register),
            AddressBase::Symbol(name) => Source::Symbol(name.clone(), 0),
            AddressBase::Nothing => Source::Constant(0),
        };
        let base = self.operand(number, &source, around, mask)?;
        let window = if address.space == Some(Space::Shared) { around.shared().0 } else { 0 };
        Ok(base.map(|base| base.wrapping_add(window).wrapping_add_signed(address.offset)))
    }

    /// Reads memory; gives a fingerprint of addresses and values.
    fn load(
        &mut self,
        number: usize,
        active: Mask,
        (ty, order, to, address): (Type, MemoryOrder, &[Option<RegisterId>], &Address),
        around: &mut dyn Surroundings,
    ) -> Result<Option<u64>, Stop> {
        let addresses = self.addresses(number, active, address, around)?;
        let (size, parts) = (ty.bytes(), to.len() as u32);
        let order = if order == MemoryOrder::Acquire { Ordering::Acquire } else { Ordering::Relaxed };
        let mut values = [[0u128; LANES]; 4];
        let mut seen = 0xcbf2_9ce4_8422_2325u64;
        // From the last lane on: what lane 0 finds was written by a warp that stored in rising order.
        for lane in (0..LANES).rev().filter(|lane| active >> lane & 1 == 1) {
            let mut part = 0;
            while part < parts {
                // Up to 16 bytes are read at once.
                let at_once = (16 / size).min(parts - part);
                let from = addresses[lane].wrapping_add(u64::from(part * size));
                let bits = self
                    .reach
                    .load(from, size * at_once, order)
                    .map_err(|bad| refused("reads", size * at_once, from, bad))?;
                for offset in 0..at_once {
                    let one = bits >> (8 * size * offset);
                    values[(part + offset) as usize][lane] =
                        if size == 16 { one } else { one & ((1 << (8 * size)) - 1) };
                }
                for word in [from, bits as u64, (bits >> 64) as u64] {
                    seen = (seen ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
                }
                part += at_once;
            }
        }
        self.with(number, active, around, |operands| {
            for (register, values) in to.iter().zip(&values) {
                let signed = |bits: u128| match ty {
                    Type::S8 => u128::from(bits as i8 as u64),
                    Type::S16 => u128::from(bits as i16 as u64),
                    Type::S32 => u128::from(bits as i32 as u64),
                    _ => bits,
                };
                operands.set_wide(*register, &values.map(signed));
            }
            Ok(())
        })?;
        Ok(Some(seen))
    }

    fn store(
        &mut self,
        number: usize,
        active: Mask,
        (ty, order, values, address): (Type, MemoryOrder, &[Source], &Address),
        around: &mut dyn Surroundings,
    ) -> Result<(), Stop> {
        let addresses = self.addresses(number, active, address, around)?;
        let parts = values.iter().map(|source| self.with(number, active, around, |operands| operands.wide(source)));
        let parts = parts.collect::<Result<Vec<_>, _>>()?;
        let size = ty.bytes();
        let order = if order == MemoryOrder::Release { Ordering::Release } else { Ordering::Relaxed };
        let kept = if size == 16 { u128::MAX } else { (1 << (8 * size)) - 1 };
        for lane in (0..LANES).filter(|lane| active >> lane & 1 == 1) {
            for (number, together) in parts.chunks((16 / size) as usize).enumerate() {
                let bits = together.iter().rev().fold(0u128, |bits, part| {
                    let shifted = if size == 16 { 0 } else { bits << (8 * size) };
                    shifted | part[lane] & kept
                });
                let len = size * together.len() as u32;
                let to = addresses[lane].wrapping_add(16 * number as u64);
                self.reach.store(to, len, bits, order).map_err(|bad| refused("writes", len, to, bad))?;
            }
        }
        self.wrote();
        Ok(())
    }

    /// What this warp polls may be different now.
    fn wrote(&mut self) {
        for group in &mut self.groups {
            (group.vain, group.polled) = (0, None);
        }
    }

    /// Operations on registers and memory that involve no other thread.
    fn plain(&mut self, number: usize, active: Mask, op: &Op, around: &mut dyn Surroundings) -> Result<(), Stop> {
        match op {
            Op::Store { ty, order, address, values } => {
                self.store(number, active, (*ty, *order, values, address), around)
            }
            Op::Atomic { op, ty, to, address, a, b, .. } => {
                let addresses = self.addresses(number, active, address, around)?;
                let a = self.operand(number, a, around, active)?;
                let b = b.as_ref().map(|b| self.operand(number, b, around, active)).transpose()?.unwrap_or_default();
                let mut old = [0u64; LANES];
                for lane in (0..LANES).filter(|lane| active >> lane & 1 == 1) {
                    let (size, to) = (ty.bytes(), addresses[lane]);
                    let update = |old| atomic(*op, *ty, old, a[lane], b[lane]);
                    old[lane] = self.reach.update(to, size, update).map_err(|bad| refused("changes", size, to, bad))?;
                }
                self.wrote();
                self.set(number, *to, &old, active);
                Ok(())
            }
            Op::ReadSpecial { register, to, .. } => {
                let value = self.special(*register, active, around);
                self.set(number, *to, &value, active);
                Ok(())
            }
            Op::ConvertAddress { space, from_generic, to, a } => {
                let window = if *space == Space::Shared { around.shared().0 } else { 0 };
                let value = self.operand(number, a, around, active)?.map(|address| {
                    if *from_generic { address.wrapping_sub(window) } else { address.wrapping_add(window) }
                });
                self.set(number, *to, &value, active);
                Ok(())
            }
            Op::IsInSpace { space, to, a } => {
                let frames: Vec<(u64, u64)> = self
                    .frames
                    .iter()
                    .flatten()
                    .map(|frame| {
                        let region = frame.memory.region();
                        (region.start, region.end - region.start)
                    })
                    .collect();
                let shared = around.shared();
                let value = self.operand(number, a, around, active)?.map(|address| {
                    let inside = |(start, len): (u64, u64)| address >= start && address < start + len;
                    let (in_local, in_shared) = (frames.iter().copied().any(inside), inside(shared));
                    u64::from(match space {
                        Space::Local | Space::Param => in_local,
                        Space::Shared => in_shared,
                        Space::Global | Space::Const => !in_local && !in_shared,
                    })
                });
                self.set(number, *to, &value, active);
                Ok(())
            }
            Op::ActiveMask { to } => {
                self.set(number, *to, &[u64::from(active); LANES], active);
                Ok(())
            }
            Op::Fence => {
                std::sync::atomic::fence(Ordering::SeqCst);
                Ok(())
            }
            Op::Nothing => Ok(()),
            other => {
                if self.with(number, active, around, |operands| operands.compute(other))? {
                    return Ok(());
                }
                Err(Stop::Here("copies in the background are not supported yet".into()))
            }
        }
    }

    fn special(&self, register: SpecialRegister, _active: Mask, around: &dyn Surroundings) -> Lanes<u64> {
        let [x, y, _] = around.block_size();
        let below = |lane: usize| (1u64 << lane) - 1;
        std::array::from_fn(|lane| {
            let thread = self.number * LANES as u32 + lane as u32;
            match register {
                SpecialRegister::Tid(0) => u64::from(thread % x),
                SpecialRegister::Tid(1) => u64::from(thread / x % y),
                SpecialRegister::Tid(_) => u64::from(thread / x / y),
                SpecialRegister::LaneId => lane as u64,
                SpecialRegister::WarpId => u64::from(self.number),
                SpecialRegister::LanemaskEq => 1 << lane,
                SpecialRegister::LanemaskLt => below(lane),
                SpecialRegister::LanemaskLe => below(lane) | 1 << lane,
                SpecialRegister::LanemaskGt => u64::from(u32::MAX) & !(below(lane) | 1 << lane),
                SpecialRegister::LanemaskGe => u64::from(u32::MAX) & !below(lane),
                other => around.special(other),
            }
        })
    }

    /// Operations that lanes of a warp do together.
    fn together(&mut self, number: usize, active: Mask, op: &Op, around: &mut dyn Surroundings) -> Result<(), Stop> {
        match op {
            Op::Vote { mode, to, predicate, inverted, .. } => {
                let holds = self.operand(number, predicate, around, active)?;
                let holds = (0..LANES).fold(0, |all, lane| all | Mask::from(holds[lane] != 0) << lane);
                let votes = active & if *inverted { !holds } else { holds };
                let value = match mode {
                    VoteMode::All => u64::from(votes == active),
                    VoteMode::Any => u64::from(votes != 0),
                    VoteMode::Uniform => u64::from(votes == 0 || votes == active),
                    VoteMode::Ballot => u64::from(votes),
                    VoteMode::Count => u64::from(votes.count_ones()),
                };
                self.set(number, *to, &[value; LANES], active);
            }
            Op::Shuffle { mode, to, inside, a, by, clamp, .. } => {
                let (a, by) = (self.operand(number, a, around, active)?, self.operand(number, by, around, active)?);
                let clamp = self.operand(number, clamp, around, active)?;
                let sources: Lanes<(u64, bool)> =
                    std::array::from_fn(|lane| shuffled(*mode, lane, by[lane], clamp[lane]));
                let value = sources.map(|(lane, _)| a[lane as usize]);
                self.set(number, *to, &value, active);
                self.set(number, *inside, &sources.map(|(_, inside)| u64::from(inside)), active);
            }
            Op::MatchAny { to, a, .. } => {
                let a = self.operand(number, a, around, active)?;
                let equal =
                    |one: u64| (0..LANES).fold(0u32, |all, lane| all | Mask::from(a[lane] == one) << lane) & active;
                self.set(number, *to, &a.map(|one| u64::from(equal(one))), active);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Why an operation cannot be executed.
enum Stop {
    Fault(Fault),
    /// At the operation at hand.
    Here(String),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

fn refused(does: &str, len: u32, address: u64, bad: super::memory::BadAccess) -> Stop {
    Stop::Here(format!("{does} {len} bytes at {address:#x}, {bad}"))
}

/// The lane that a shuffle reads, and whether it lies in the segment (PTX ISA, 9.7.9.6).
fn shuffled(mode: ShuffleMode, lane: usize, by: u64, clamp: u64) -> (u64, bool) {
    let (lane, by) = (lane as u64, by & 31);
    let (last, segment) = (clamp & 31, clamp >> 8 & 31);
    let most = lane & segment | last & !segment & 31;
    let least = lane & segment;
    let (from, inside) = match mode {
        // The clamp is the least lane here.
        ShuffleMode::Up => (lane.wrapping_sub(by), lane >= by && lane - by >= most),
        ShuffleMode::Down => (lane + by, lane + by <= most),
        ShuffleMode::Bfly => (lane ^ by, lane ^ by <= most),
        ShuffleMode::Idx => (least | by & !segment & 31, (least | by & !segment & 31) <= most),
    };
    if inside { (from & 31, true) } else { (lane, false) }
}

fn atomic(op: AtomicOp, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let narrow = ty.bytes() == 4;
    let signed = |bits: u64| if narrow { i64::from(bits as i32) } else { bits as i64 };
    let least = |a: u64, b: u64| if ty.is_signed() { signed(a) < signed(b) } else { a < b };
    match op {
        AtomicOp::Add => old.wrapping_add(a),
        AtomicOp::Min => {
            if least(a, old) {
                a
            } else {
                old
            }
        }
        AtomicOp::Max => {
            if least(old, a) {
                a
            } else {
                old
            }
        }
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Exchange => a,
        AtomicOp::CompareAndSwap => {
            if old == a {
                b
            } else {
                old
            }
        }
        AtomicOp::Increment => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Decrement => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
    }
}
