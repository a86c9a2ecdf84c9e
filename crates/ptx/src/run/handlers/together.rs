//! What lanes of a warp do together: they wait for each other first.
use crate::run::lanes::{LANES, Lanes, Mask, lanes_of};
use crate::run::ready::{Instruction, NOWHERE};
use crate::run::warp::{STOP, Stop, Warp};

/// A flag: the predicate is inverted.
pub const INVERTED: u32 = 1;

/// The lanes that execute the instruction together, of those that `members` names; the others at hand come later. `None` if they wait for
/// others.
fn gather(w: &mut Warp, members: &Lanes<u32>, at: u32) -> Option<Mask> {
    let named = members[w.mask.trailing_zeros() as usize % LANES];
    let same = |lane: &usize| members[*lane] == named;
    let agree = lanes_of(w.mask).filter(same).fold(0, |all, lane| all | 1 << lane);
    if agree != w.mask {
        w.park(w.mask & !agree, at);
        w.limit = w.limit.min(at);
        w.mask = agree;
    }
    let frame = &w.frames[w.current];
    let waiting = w.syncing & frame.lanes & !frame.calling;
    let here =
        lanes_of(waiting).filter(|lane| frame.at[*lane] == at).filter(same).fold(w.mask, |all, lane| all | 1 << lane);
    if named & w.alive & !here != 0 {
        w.syncing |= w.mask;
        w.stop_at(at, Stop::Switch);
        return None;
    }
    w.syncing &= !here;
    w.mask = here;
    Some(here)
}

/// The members of an instruction: the slot `d`.
///
/// # Safety
/// As for every [`super::Handler`].
unsafe fn members(w: &Warp, i: &Instruction) -> Lanes<u32> {
    // SAFETY: a slot of 32 bits.
    unsafe { w.registers.read(i.d) }
}

/// `vote.sync`: the predicate is `a`, and the number the kind.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn vote(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: slots of predicates and of 32 bits.
    unsafe {
        let Some(active) = gather(w, &members(w, i), at) else { return STOP };
        let holds = w.registers.predicate(i.a);
        let votes = active & if i.flags & INVERTED != 0 { !holds } else { holds };
        let of = |holds: bool| if holds { Mask::MAX } else { 0 };
        match i.number {
            _ if i.to == NOWHERE => {}
            0 => w.registers.set_predicate(i.to, of(votes == active), w.mask),
            1 => w.registers.set_predicate(i.to, of(votes != 0), w.mask),
            2 => w.registers.set_predicate(i.to, of(votes == 0 || votes == active), w.mask),
            _ => w.registers.write(i.to, &[votes; LANES], w.mask),
        }
    }
    at + 1
}

/// `shfl.sync`: `a` is what lanes give, `b` by how much, `c` the clamp; the number is the mode.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn shuffle(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: slots of 32 bits, and one of a predicate.
    unsafe {
        if gather(w, &members(w, i), at).is_none() {
            return STOP;
        }
        let (a, by) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let clamp = w.registers.read::<u32>(i.c);
        let (mut values, mut inside) = ([0; LANES], 0);
        for lane in 0..LANES {
            let (from, within) = shuffled(i.number, lane as u32, by[lane], clamp[lane]);
            values[lane] = a[from as usize];
            inside |= Mask::from(within) << lane;
        }
        if i.to != NOWHERE {
            w.registers.write(i.to, &values, w.mask);
        }
        if i.more[0] != NOWHERE {
            w.registers.set_predicate(i.more[0], inside, w.mask);
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
        let Some(active) = gather(w, &members(w, i), at) else { return STOP };
        let values: Lanes<u64> =
            if i.number == 64 { w.registers.read(i.a) } else { w.registers.read::<u32>(i.a).map(u64::from) };
        let equal =
            |one: u64| lanes_of(active).filter(|lane| values[*lane] == one).fold(0, |all, lane| all | 1 << lane);
        if i.to != NOWHERE {
            w.registers.write::<u32>(i.to, &values.map(equal), w.mask);
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
    let members = unsafe { members(w, i) };
    let named = members[w.mask.trailing_zeros() as usize % LANES];
    let agree = lanes_of(w.mask).filter(|lane| members[*lane] == named).fold(0, |all, lane| all | 1 << lane);
    if agree != w.mask {
        // Lanes with another mask come later.
        w.park(w.mask & !agree, at);
        w.limit = w.limit.min(at);
        w.mask = agree;
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

/// Lanes that waited at a barrier of the warp go on after it; all of them are chosen anew.
fn release(w: &mut Warp, lanes: Mask) {
    for frame in &mut w.frames {
        for lane in lanes_of(lanes & frame.lanes & !frame.calling) {
            frame.at[lane] += 1;
        }
    }
    // They may have less of the text before them than the lanes at hand.
    w.limit = 0;
}
