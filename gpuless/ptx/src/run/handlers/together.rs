//! Instructions that lanes of a warp execute together, after waiting for each other.
use crate::run::lanes::{LANES, Lanes, Mask, lanes_of, mask_of};
use crate::run::ready::{Instruction, NOWHERE};
use crate::run::registers::{Base, Slot, Value};
use crate::run::warp::{STOP, Stop, Warp};
use std::sync::Arc;

/// A flag: the predicate is inverted.
pub const INVERTED: u32 = 1;

/// Lanes that execute an instruction together.
struct Group {
    lanes: Mask,
    /// Those of other calls of the same function, with their registers.
    elsewhere: Vec<(Base, Mask)>,
}

impl Group {
    /// The values of all its lanes in a slot.
    ///
    /// # Safety
    /// As for [`Base::read`].
    unsafe fn read<T: Value>(&self, w: &Warp, slot: Slot) -> Lanes<T> {
        // SAFETY: frames of one function have the same slots.
        let mut values = unsafe { w.registers.read(slot) };
        for (registers, lanes) in &self.elsewhere {
            for lane in lanes_of(*lanes) {
                // SAFETY: likewise.
                values[lane] = unsafe { registers.read_lane(slot, lane) };
            }
        }
        values
    }

    /// Those of its lanes in which a predicate holds, or does not.
    ///
    /// # Safety
    /// As for [`Base::read`].
    unsafe fn predicate(&self, w: &Warp, slot: Slot, inverted: bool) -> Mask {
        // SAFETY: as above.
        let holds = self.elsewhere.iter().fold(unsafe { w.registers.predicate(slot) }, |all, (registers, lanes)| {
            // SAFETY: as above.
            all & !lanes | unsafe { registers.predicate(slot) } & lanes
        });
        self.lanes & if inverted { !holds } else { holds }
    }

    /// The registers of its lanes.
    fn places(&self, w: &Warp) -> impl Iterator<Item = (Base, Mask)> {
        std::iter::once((w.registers, w.mask)).chain(self.elsewhere.iter().copied())
    }
}

/// The lanes among `members` that execute the instruction together; the other active lanes come later. `None` if they wait for
/// others, which may have reached the instruction by another call.
///
/// # Safety
/// As for every [`super::Handler`].
unsafe fn gather(w: &mut Warp, i: &Instruction, at: u32) -> Option<Group> {
    // SAFETY: a slot of 32 bits.
    let members = unsafe { w.registers.read::<u32>(i.d) };
    let named = members[w.mask.trailing_zeros() as usize % LANES];
    let agree = mask_of(lanes_of(w.mask).filter(|lane| members[*lane] == named));
    if agree != w.mask {
        w.again(w.mask & !agree, i, at);
        w.limit = w.limit.min(at);
    }
    let mut group = Group { lanes: w.mask, elsewhere: Vec::new() };
    if named & w.alive & !w.mask != 0 {
        let code = w.frames[w.current].code.clone();
        let mut here = w.mask;
        for (number, frame) in w.frames.iter_mut().enumerate() {
            let waiting = w.syncing & frame.lanes & !frame.calling & !w.mask;
            if waiting == 0 || !Arc::ptr_eq(&frame.code, &code) {
                continue;
            }
            let registers = frame.registers.base();
            // SAFETY: as above: it is a frame of the same function.
            let agrees =
                |lane: &usize| frame.at[*lane] == at && unsafe { registers.read_lane::<u32>(i.d, *lane) } == named;
            let lanes = mask_of(lanes_of(waiting).filter(agrees));
            group.lanes |= lanes;
            if number == w.current {
                here |= lanes;
            } else if lanes != 0 {
                group.elsewhere.push((registers, lanes));
            }
        }
        if named & w.alive & !group.lanes != 0 {
            w.syncing |= w.mask;
            w.stop_at(at, Stop::Switch);
            return None;
        }
        w.syncing &= !group.lanes;
        release(w, group.lanes & !here);
        w.mask = here;
    }
    Some(group)
}

/// `vote.sync`: the predicate is `a`, and the number the kind.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn vote(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: slots of predicates and of 32 bits.
    unsafe {
        let Some(group) = gather(w, i, at) else { return STOP };
        let votes = group.predicate(w, i.a, i.flags & INVERTED != 0);
        let of = |holds: bool| if holds { Mask::MAX } else { 0 };
        for (registers, lanes) in group.places(w) {
            match i.number {
                _ if i.to == NOWHERE => {}
                0 => registers.set_predicate(i.to, of(votes == group.lanes), lanes),
                1 => registers.set_predicate(i.to, of(votes != 0), lanes),
                2 => registers.set_predicate(i.to, of(votes == 0 || votes == group.lanes), lanes),
                _ => registers.write(i.to, &[votes; LANES], lanes),
            }
        }
    }
    at + 1
}

/// `shfl.sync`: `a` is the value that lanes contribute, `b` the distance, `c` the clamp; the number is the mode.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn shuffle(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: slots of 32 bits, and one of a predicate.
    unsafe {
        let Some(group) = gather(w, i, at) else { return STOP };
        let (a, by) = (group.read::<u32>(w, i.a), group.read::<u32>(w, i.b));
        let clamp = group.read::<u32>(w, i.c);
        let (mut values, mut inside) = ([0; LANES], 0);
        for lane in 0..LANES {
            let (from, within) = shuffled(i.number, lane as u32, by[lane], clamp[lane]);
            values[lane] = a[from as usize];
            inside |= Mask::from(within) << lane;
        }
        for (registers, lanes) in group.places(w) {
            if i.to != NOWHERE {
                registers.write(i.to, &values, lanes);
            }
            if i.more[0] != NOWHERE {
                registers.set_predicate(i.more[0], inside, lanes);
            }
        }
    }
    at + 1
}

/// The lane that a shuffle reads, and whether it lies in the segment (PTX ISA, 9.7.9.6): 0 for `idx`, 1 `up`, 2 `down`, 3 `bfly`.
fn shuffled(mode: u64, lane: u32, by: u32, clamp: u32) -> (u32, bool) {
    let (by, last, segment) = (by & 31, clamp & 31, clamp >> 8 & 31);
    let most = lane & segment | last & !segment & 31;
    let (from, inside) = match mode {
        // The clamp is the least lane here.
        1 => (lane.wrapping_sub(by), lane >= by && lane - by >= most),
        2 => (lane + by, lane + by <= most),
        3 => (lane ^ by, lane ^ by <= most),
        _ => {
            let from = lane & segment | by & !segment & 31;
            (from, from <= most)
        }
    };
    if inside { (from & 31, true) } else { (lane, false) }
}

/// `match.any.sync`: the value is `a`, of 32 bits, or of 64 if the number says so.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn match_any(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: slots of these widths.
    unsafe {
        let Some(group) = gather(w, i, at) else { return STOP };
        let values: Lanes<u64> =
            if i.number == 64 { group.read(w, i.a) } else { group.read::<u32>(w, i.a).map(u64::from) };
        let equal = |one: u64| mask_of(lanes_of(group.lanes).filter(|lane| values[*lane] == one));
        for (registers, lanes) in group.places(w) {
            if i.to != NOWHERE {
                registers.write::<u32>(i.to, &values.map(equal), lanes);
            }
        }
    }
    at + 1
}

/// `bar.warp.sync`: lanes may be at different ones of them.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn warp_barrier(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a slot of 32 bits.
    let members = unsafe { w.registers.read::<u32>(i.d) };
    let named = members[w.mask.trailing_zeros() as usize % LANES];
    let agree = lanes_of(w.mask).filter(|lane| members[*lane] == named).fold(0, |all, lane| all | 1 << lane);
    if agree != w.mask {
        // Lanes with another mask follow later.
        w.again(w.mask & !agree, i, at);
        w.limit = w.limit.min(at);
    }
    let others = named & w.alive & !w.mask;
    if others == 0 {
        return at + 1;
    }
    if lanes_of(others).all(|lane| w.warp_barrier[lane] == named) {
        for lane in lanes_of(others) {
            w.warp_barrier[lane] = 0;
        }
        w.syncing &= !others;
        release(w, others);
        return at + 1;
    }
    for lane in lanes_of(w.mask) {
        w.warp_barrier[lane] = named;
    }
    w.syncing |= w.mask;
    w.stop_at(at, Stop::Switch)
}

/// Lanes that waited for others of the warp continue after the instruction; then the active lanes are chosen again.
fn release(w: &mut Warp, lanes: Mask) {
    for frame in &mut w.frames {
        for lane in lanes_of(lanes & frame.lanes & !frame.calling) {
            frame.at[lane] += 1;
        }
    }
    // They may have less of the text before them than the lanes at hand.
    w.limit = 0;
}
