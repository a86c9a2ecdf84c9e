//! Control flow, barriers of the block, and queries of a thread about its position.
use super::{each, give};
use crate::code::{SpecialRegister, VoteMode};
use crate::module::Space;
use crate::run::block::Arrival;
use crate::run::lanes::{LANES, Mask, lanes_of, mask_of};
use crate::run::memory::{BadAccess, Reach};
use crate::run::printf::{self, Arguments};
use crate::run::ready::{Bytes, Instruction, NOWHERE, Ready};
use crate::run::warp::{BARRIERS, STOP, Stop, Warp};

/// The deepest that calls are nested: a recursion without an end takes no more memory.
const MOST_CALLS: usize = 1024;

/// Bytes of a thread in all calls that it is in.
const MOST_BYTES: u64 = 2 << 20;

/// A flag: the predicate is inverted.
pub const INVERTED: u32 = 1;
/// A flag: the number of threads of a barrier is in `b`.
pub const COUNTED: u32 = 2;
/// A flag: a barrier has a predicate in `c`.
pub const VOTES: u32 = 4;

/// Goes to `target`; a branch backwards uses up a part of the turn.
fn go(w: &mut Warp, target: u32, at: u32) -> u32 {
    if target > at {
        return target;
    }
    w.budget -= 1;
    if w.budget > 0 {
        return target;
    }
    w.yielded |= w.mask;
    w.moved = true;
    w.stop_at(target, Stop::Turn)
}

/// The lanes of `mask` stay at `at`, and the others continue.
fn part(w: &mut Warp, stay: Mask, at: u32) {
    w.park(stay, at);
    w.mask &= !stay;
    w.limit = w.limit.min(at);
}

/// `bra`: the target is the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn branch(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    go(w, i.number as u32, at)
}

/// `@p bra`: the predicate is `a`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn branch_if(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a predicate's slot.
    let holds = unsafe { w.registers.predicate(i.a) };
    let taken = w.mask & if i.flags & INVERTED != 0 { !holds } else { holds };
    if taken == 0 {
        return at + 1;
    }
    if taken == w.mask {
        return go(w, i.number as u32, at);
    }
    let (target, next) = (i.number as u32, at + 1);
    // Those with less of the text before them go first.
    w.park(taken, target);
    w.park(w.mask & !taken, next);
    w.stop = Some(Stop::Switch);
    if target <= at {
        w.budget -= 1;
        if w.budget == 0 {
            w.yielded |= w.mask;
            w.moved = true;
            w.stop = Some(Stop::Turn);
        }
    }
    STOP
}

/// The next instruction is only for lanes in which the predicate `a` holds. It never changes the flow of control.
///
/// # Safety
/// As for every [`super::Handler`]; another instruction follows.
pub unsafe fn guarded(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a predicate's slot.
    let holds = unsafe { w.registers.predicate(i.a) };
    let all = w.mask;
    let active = all & if i.flags & INVERTED != 0 { !holds } else { holds };
    if active == 0 {
        return at + 2;
    }
    let code = w.frames[w.current].code.clone();
    let Some(next) = code.instructions.get(at as usize + 1) else { return at + 1 };
    w.mask = active;
    // SAFETY: it is an instruction of the same function.
    let after = unsafe { (next.run)(w, next, at + 1) };
    if after == STOP {
        // The instruction that stopped has recorded where its own lanes continue.
        w.park(all & !active, at + 2);
        return STOP;
    }
    w.mask = all;
    after
}

/// Lanes in which the predicate `a` does not hold go to the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn skip_unless(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a predicate's slot.
    let holds = unsafe { w.registers.predicate(i.a) };
    let skipping = w.mask & if i.flags & INVERTED != 0 { holds } else { !holds };
    if skipping == w.mask {
        return i.number as u32;
    }
    if skipping != 0 {
        part(w, skipping, i.number as u32);
    }
    at + 1
}

/// `ret`: lanes go back to where they were called.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn leave(w: &mut Warp, _i: &Instruction, _at: u32) -> u32 {
    give_results(w);
    w.leave(w.mask, false);
    w.stop = Some(Stop::Switch);
    STOP
}

/// `exit`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn exit(w: &mut Warp, _i: &Instruction, _at: u32) -> u32 {
    w.leave(w.mask, true);
    w.stop = Some(Stop::Switch);
    STOP
}

/// Says why the instruction cannot be executed: the number is that of a refusal.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn refuse(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let what = w.frames[w.current].code.refusals.get(i.number as usize).cloned();
    w.refuse(at, what.unwrap_or_default())
}

/// Notes that this instruction is executed, and executes it.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn noted(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    match code.notes.as_ref().and_then(|notes| notes.note(at as usize)) {
        // SAFETY: it is the handler that lowering chose for this instruction.
        Some(run) => unsafe { run(w, i, at) },
        None => w.refuse(at, "no notes are taken of this function: this is a bug".into()),
    }
}

/// `call`: the target's handle is `a`; the number is that of a call with parameters, plus one.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn call(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a slot of 64 bits.
    let targets = unsafe { w.registers.read::<u64>(i.a) };
    let target = targets[w.mask.trailing_zeros() as usize % LANES];
    let together = lanes_of(w.mask).filter(|lane| targets[*lane] == target).fold(0, |all, lane| all | 1 << lane);
    // Lanes with another target call later.
    w.again(w.mask & !together, i, at);
    let image = w.common.image.clone();
    let code = match image.executable().function_at(target) {
        Ok(code) => code,
        Err(fault) => return w.refuse(at, fault.to_string()),
    };
    let site = (i.number > 0).then(|| i.number as u32 - 1);
    if let Some(what) = misfit(&w.frames[w.current].code, site, &code) {
        return w.refuse(at, what);
    }
    if w.frames[w.current].depth + 1 >= MOST_CALLS {
        return w.refuse(at, format!("calls are nested more than {MOST_CALLS} deep"));
    }
    if w.bytes > MOST_BYTES {
        return w.refuse(at, format!("nested calls need more than {MOST_BYTES} bytes for each thread"));
    }
    w.park(together, at + 1);
    let caller = w.current;
    let callee = match w.enter(code, together, Some((caller, site))) {
        Ok(callee) => callee,
        Err(error) => return w.refuse(at, error.to_string()),
    };
    w.frames[caller].calling |= together;
    copy_arguments(w, caller, callee, site);
    w.stop = Some(Stop::Switch);
    STOP
}

/// The longest text that `printf` reads, in bytes.
const MOST_TEXT: u64 = 64 << 10;

/// The arguments of a `printf`, one after the other, each at a multiple of its size.
struct Printed<'a> {
    reach: &'a mut Reach,
    at: u64,
}

impl Arguments for Printed<'_> {
    type Error = (u64, BadAccess);

    fn word(&mut self, bytes: u64) -> Result<u64, Self::Error> {
        let address = self.at.checked_next_multiple_of(bytes).ok_or((self.at, BadAccess::Unmapped))?;
        self.at = address.saturating_add(bytes);
        self.reach.read(address, bytes)
    }

    fn text(&mut self, address: u64) -> Result<Vec<u8>, Self::Error> {
        let mut text = Vec::new();
        for at in address..address.saturating_add(MOST_TEXT) {
            match self.reach.read(at, 1)? {
                0 => break,
                byte => text.push(byte as u8),
            }
        }
        Ok(text)
    }
}

/// `vprintf`, which CUDA's runtime provides: the number is that of a call with a format and the address of the arguments.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn print(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let frame = &w.frames[w.current];
    let (code, own) = (frame.code.clone(), frame.code.own_bytes);
    let (Some(site), Some(memory)) = (code.calls.get(i.number as usize), &frame.memory) else {
        return w.refuse(at, "`vprintf` without arguments".into());
    };
    let [format, list] = &site.arguments[..] else {
        return w.refuse(at, "`vprintf` takes a format and the address of its arguments".into());
    };
    let common = w.common.clone();
    for lane in lanes_of(w.mask) {
        let base = own * lane as u64;
        let address = |of: &Bytes| {
            let bytes = memory.read(base + of.start, (of.end - of.start).min(8));
            bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        let (format, list) = (address(format), address(list));
        let mut arguments = Printed { reach: &mut w.reach, at: list };
        let written = arguments.text(format).and_then(|format| printf::format(&format, &mut arguments));
        let (text, count) = match written {
            Ok(written) => written,
            Err(bad) => return w.refuse_access(at, "printf reads", 1, bad),
        };
        common.image.memory().print(&text);
        if let Some(result) = site.results.first() {
            memory.write(base + result.start, &count.to_le_bytes()[..(result.end - result.start).min(4) as usize]);
        }
    }
    at + 1
}

/// The reason a function cannot be called with the arguments of a call; a wider argument is truncated.
fn misfit(caller: &Ready, site: Option<u32>, callee: &Ready) -> Option<String> {
    let given = site.and_then(|site| caller.calls.get(site as usize)).map_or(&[][..], |site| &site.arguments);
    let taken = &callee.interface.arguments;
    if given.len() != taken.len() {
        return Some(format!("{} arguments for a function that takes {}", given.len(), taken.len()));
    }
    let bytes = |bytes: &Bytes| bytes.end - bytes.start;
    let narrow = given.iter().zip(taken).position(|(given, taken)| bytes(given) < bytes(taken))?;
    let (given, taken) = (bytes(&given[narrow]), bytes(&taken[narrow]));
    Some(format!("argument {} has {given} bytes, and the function takes {taken}", narrow + 1))
}

/// Copies a function's arguments to its frame.
fn copy_arguments(w: &mut Warp, caller: usize, callee: usize, site: Option<u32>) {
    let Some(site) = site else { return };
    let (caller, callee) = (&w.frames[caller], &w.frames[callee]);
    let Some(site) = caller.code.calls.get(site as usize) else { return };
    let (Some(from), Some(to)) = (&caller.memory, &callee.memory) else { return };
    for (given, taken) in site.arguments.iter().zip(&callee.code.interface.arguments) {
        for lane in lanes_of(callee.lanes) {
            let source = caller.code.own_bytes * lane as u64 + given.start;
            let target = callee.code.own_bytes * lane as u64 + taken.start;
            let bytes = from.read(source, (given.end - given.start).min(taken.end - taken.start));
            to.write(target, &bytes);
        }
    }
}

/// Copies the results of the function at hand to its caller, in the lanes that leave.
fn give_results(w: &Warp) {
    let callee = &w.frames[w.current];
    let Some((caller, Some(site))) = callee.caller else { return };
    let caller = &w.frames[caller];
    let Some(site) = caller.code.calls.get(site as usize) else { return };
    let (Some(from), Some(to)) = (&callee.memory, &caller.memory) else { return };
    for (given, taken) in callee.code.interface.results.iter().zip(&site.results) {
        for lane in lanes_of(w.mask) {
            let source = callee.code.own_bytes * lane as u64 + given.start;
            let target = caller.code.own_bytes * lane as u64 + taken.start;
            let bytes = from.read(source, (given.end - given.start).min(taken.end - taken.start));
            to.write(target, &bytes);
        }
    }
}

/// `bar.sync`: the barrier is `a`; with `COUNTED` its threads `b`, with `VOTES` a predicate `c`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn barrier(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let first = w.mask.trailing_zeros() as usize % LANES;
    // SAFETY: slots of 32 bits, and of a predicate.
    let arrival = unsafe {
        let wants = |lane: usize| {
            let threads = (i.flags & COUNTED != 0).then(|| w.registers.read_lane::<u32>(i.b, lane));
            (w.registers.read_lane::<u32>(i.a, lane), threads)
        };
        let (barrier, threads) = wants(first);
        let together = mask_of(lanes_of(w.mask).filter(|lane| wants(*lane) == (barrier, threads)));
        // Lanes at another barrier come to it later.
        w.again(w.mask & !together, i, at);
        let holds = if i.flags & VOTES != 0 { w.registers.predicate(i.c) } else { 0 };
        let votes = w.mask & if i.flags & INVERTED != 0 { !holds } else { holds };
        Arrival { barrier, threads, lanes: w.mask, votes: if i.flags & VOTES != 0 { votes } else { 0 } }
    };
    if arrival.barrier as usize >= BARRIERS {
        return w.refuse(at, format!("there is no barrier {}: a block has {BARRIERS}", arrival.barrier));
    }
    w.stop_at(at + 1, Stop::Barrier(arrival))
}

/// The result of the reduction at the barrier `a`; the number is its kind.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn barrier_result(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a slot of 32 bits, and one of a predicate or of 32 bits as the kind says.
    unsafe {
        let results = w.registers.read::<u32>(i.a).map(|number| w.reductions[number as usize % BARRIERS]);
        let of = |holds: fn((u32, u32)) -> bool| mask_of((0..LANES).filter(|lane| holds(results[*lane])));
        match i.number {
            _ if i.to == NOWHERE => {}
            0 => w.registers.set_predicate(i.to, of(|(votes, threads)| votes == threads), w.mask),
            1 => w.registers.set_predicate(i.to, of(|(votes, _)| votes > 0), w.mask),
            _ => w.registers.write(i.to, &results.map(|(votes, _)| votes), w.mask),
        }
    }
    at + 1
}

/// The number by which [`barrier_result`] knows a kind of reduction.
pub fn reduction_number(mode: VoteMode) -> u64 {
    match mode {
        VoteMode::All => 0,
        VoteMode::Any => 1,
        _ => 2,
    }
}

/// A flag of a fence: only the block's threads notice it.
pub const FENCE_OF_BLOCK: u32 = 1;

/// `fence` and `membar`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn fence(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    if i.flags & FENCE_OF_BLOCK == 0 {
        super::weak::fence(w);
    }
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    at + 1
}

/// An instruction that does nothing here.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn nothing(_w: &mut Warp, _i: &Instruction, at: u32) -> u32 {
    at + 1
}

/// `activemask`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn active_mask(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: a slot of 32 bits.
    unsafe { w.registers.write(i.to, &[w.mask; LANES], w.mask) };
    at + 1
}

/// Special registers by number, so that an instruction can name one.
pub const SPECIAL: [SpecialRegister; 41] = {
    use SpecialRegister as R;
    [
        R::Tid(0),
        R::Tid(1),
        R::Tid(2),
        R::Ntid(0),
        R::Ntid(1),
        R::Ntid(2),
        R::Ctaid(0),
        R::Ctaid(1),
        R::Ctaid(2),
        R::Nctaid(0),
        R::Nctaid(1),
        R::Nctaid(2),
        R::LaneId,
        R::WarpId,
        R::LanemaskEq,
        R::LanemaskLt,
        R::LanemaskLe,
        R::LanemaskGt,
        R::LanemaskGe,
        R::Clock,
        R::Clock64,
        R::ClockHigh,
        R::GlobalTimer,
        R::ClusterCtaRank,
        R::ClusterNctaRank,
        R::ClusterCtaid(0),
        R::ClusterCtaid(1),
        R::ClusterCtaid(2),
        R::ClusterNctaid(0),
        R::ClusterNctaid(1),
        R::ClusterNctaid(2),
        R::ClusterId(0),
        R::ClusterId(1),
        R::ClusterId(2),
        R::NclusterId(0),
        R::NclusterId(1),
        R::NclusterId(2),
        R::SmId,
        R::GridId,
        R::DynamicSharedSize,
        R::TotalSharedSize,
    ]
};

/// The special register with the number, in 32 bits, or in 64 if the flags say so.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn special(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let register = SPECIAL[i.number as usize % SPECIAL.len()];
    let [x, y, _] = w.common.block;
    let first = w.number * LANES as u32;
    let by_lane = |f: fn(u32, u32, u32) -> u32| each!(u64, |lane| u64::from(f(first + lane as u32, x, y)));
    let below = |lane: usize| (1u64 << lane) - 1;
    let values = match register {
        SpecialRegister::Tid(0) => by_lane(|thread, x, _| thread % x),
        SpecialRegister::Tid(1) => by_lane(|thread, x, y| thread / x % y),
        SpecialRegister::Tid(_) => by_lane(|thread, x, y| thread / x / y),
        SpecialRegister::LaneId => each!(u64, |lane| lane as u64),
        SpecialRegister::WarpId => [u64::from(w.number); LANES],
        SpecialRegister::LanemaskEq => each!(u64, |lane| 1 << lane),
        SpecialRegister::LanemaskLt => each!(u64, |lane| below(lane)),
        SpecialRegister::LanemaskLe => each!(u64, |lane| below(lane) | 1 << lane),
        SpecialRegister::LanemaskGt => each!(u64, |lane| u64::from(u32::MAX) & !(below(lane) | 1 << lane)),
        SpecialRegister::LanemaskGe => each!(u64, |lane| u64::from(u32::MAX) & !below(lane)),
        other => [w.common.special(other, w.block); LANES],
    };
    // SAFETY: a slot of 64 or 32 bits, as the flags say.
    unsafe { if i.flags == 64 { give(w, i.to, &values) } else { give(w, i.to, &values.map(|value| value as u32)) } }
    at + 1
}

super::computes! {
    /// A generic address from one in shared memory, or with the number the other way round; both have 64 bits.
    ConvertShared<> |w, i| {
        let window = if i.number == 0 { w.shared.0 } else { w.shared.0.wrapping_neg() };
        let a = w.registers.read::<u64>(i.a);
        w.registers.write(i.to, &each!(u64, |lane| a[lane].wrapping_add(window)), w.mask);
    }
}

/// `isspacep`: the space is the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn is_in_space(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let inside = |(start, len): (u64, u64), address: u64| address.wrapping_sub(start) < len;
    let own = |frame: &crate::run::frame::Frame| {
        frame
            .memory
            .as_ref()
            .map_or((0, 0), |memory| (memory.region().start, memory.region().end - memory.region().start))
    };
    let own: Vec<(u64, u64)> = w.frames.iter().map(own).collect();
    // SAFETY: a slot of 64 bits, and one of a predicate.
    unsafe {
        let addresses = w.registers.read::<u64>(i.a);
        let holds = lanes_of(w.mask).filter(|lane| {
            let address = addresses[*lane];
            let in_own = own.iter().any(|region| inside(*region, address));
            let in_shared = inside(w.shared, address);
            let in_const = || w.common.image.is_constant(address);
            let parameters = w.common.parameters.region();
            match i.number {
                0 => in_own,
                1 => in_shared,
                // A kernel's parameters are in the global window (9.7.9.22).
                2 => !in_own && !in_shared && !in_const(),
                3 => in_const(),
                _ => inside((parameters.start, parameters.end - parameters.start), address),
            }
        });
        let holds = holds.fold(0, |all, lane| all | 1 << lane);
        w.registers.set_predicate(i.to, holds, w.mask);
    }
    at + 1
}

/// The number by which [`is_in_space`] knows a space.
pub fn space_number(space: Space) -> u64 {
    match space {
        Space::Local => 0,
        Space::Shared => 1,
        Space::Global => 2,
        Space::Const => 3,
        Space::Param => 4,
    }
}
