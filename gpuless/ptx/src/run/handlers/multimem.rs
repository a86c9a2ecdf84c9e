//! Accesses to multicast memory: a switch between GPUs writes to all of them, or reads and reduces what all of them hold.
//!
//! A reduction goes through the members in their order, beginning with the first one's value, and rounds each step in the type of the elements, or
//! with `acc::f32` in single precision and the result once in that type. The ISA leaves the order open, and a switch may compute more precisely:
//! [`SwitchSum`] has other ways.
use super::general;
use super::memory::addresses;
use super::weak;
use crate::code::{BinaryOp, MemoryOrder, MultimemAction, Op};
use crate::module::Type;
use crate::num::{BF16, F16, canonical_f32};
use crate::run::executable::SwitchSum;
use crate::run::lanes::{LANES, Lanes, Mask, lanes_of};
use crate::run::memory::BadAccess;
use crate::run::ready::Instruction;
use crate::run::scalar::binary;
use crate::run::warp::Warp;
use crate::run::word::{load_bits, store_bits, update};

/// `multimem`: the operation is the function's general one with the number `c`; the base is `a`, the offset the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn multimem(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    let Some((general, Op::Multimem { action, ty, order, .. })) =
        code.general.get(i.c as usize).map(|general| (general, &general.op))
    else {
        return w.refuse(at, "the access has no description: this is a bug".into());
    };
    let size = ty.bytes();
    let count = general.to.len().max(general.sources.len());
    let whole = size * count as u32;
    // SAFETY: lowering gives the slots and widths of the operation's registers.
    let addresses = unsafe { addresses(w, i.a, i.number, i.flags) };
    let stores = !matches!(action, MultimemAction::LoadReduce { .. });
    if !stores {
        // The block's own stores may be to other addresses of this memory.
        weak::show_all(w);
    }
    weak::show_all_if_released(w, i.flags);
    let mut values = [[0u128; LANES]; 8];
    for (values, source) in values.iter_mut().zip(&general.sources) {
        for lane in lanes_of(w.mask) {
            // SAFETY: as above.
            values[lane] = unsafe { general::read(w.registers, *source, lane) };
        }
    }
    let switch = w.common.image.executable().switch_sum();
    let mut seen = 0u64;
    let mut weak = w.weak.take();
    let mut early = weak.as_mut().and_then(|weak| weak.early.as_mut());
    if let Some(early) = early.as_ref().filter(|_| stores) {
        early.recorder.begin();
    }
    let mut lane_at = |lane: usize, members: &[u64]| {
        // SAFETY: the members' memory is accessible during the call, and the address is aligned.
        unsafe {
            if let Some(early) = &mut early {
                weak::before_multimem(early, members, whole.into(), stores);
            }
            match action {
                MultimemAction::LoadReduce { op, wide } => {
                    let mut all: Vec<u128> = members.iter().map(|member| load_bits(*member, whole)).collect();
                    if switch == SwitchSum::Reversed {
                        all.reverse();
                    }
                    for (number, values) in values.iter_mut().enumerate().take(count) {
                        let part = all.iter().map(|bits| (bits >> (8 * size * number as u32)) as u64 & mask_of(size));
                        values[lane] = u128::from(match (*op, *ty) {
                            (BinaryOp::Add, Type::F32) if switch == SwitchSum::Wide => single_sum(part),
                            (BinaryOp::Add, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2)
                                if switch == SwitchSum::Wide =>
                            {
                                half_sum(*ty, part, |a, b| a + b)
                            }
                            _ if *wide => half_sum(*ty, part, |a, b| canonical_f32(a as f32 + b as f32).into()),
                            _ => reduced(*op, *ty, part),
                        });
                        seen = (seen ^ addresses[lane] ^ values[lane] as u64)
                            .wrapping_mul(0x0000_0100_0000_01b3)
                            .rotate_left(23);
                    }
                }
                MultimemAction::Store => {
                    let parts = values.iter().take(count).enumerate();
                    let bits = parts.fold(0, |all, (number, values)| all | values[lane] << (8 * size * number as u32));
                    members.iter().for_each(|member| store_bits(*member, whole, bits));
                }
                MultimemAction::Reduce { op } => {
                    for (number, values) in values.iter().enumerate().take(count) {
                        for member in members {
                            let place = member + u64::from(size) * number as u64;
                            update(place, size, |old| binary(*op, *ty, old, values[lane] as u64));
                        }
                    }
                }
            }
        }
    };
    let done = each_lane(w, &addresses, u64::from(whole), &mut lane_at);
    if let Some(early) = early.filter(|_| *order == MemoryOrder::Acquire) {
        early.acquire();
    }
    w.weak = weak;
    if let Err(bad) = done {
        return w.refuse_access(at, "accesses", u64::from(whole), bad);
    }
    let moved = if i.waits { 0 } else { u64::from(whole) * u64::from(w.mask.count_ones()) };
    if stores {
        w.work.stored += moved;
        w.wrote();
        return at + 1;
    }
    w.work.loaded += moved;
    for (to, values) in general.to.iter().zip(&values) {
        if let Some(to) = to {
            // SAFETY: as above.
            unsafe { general::write(w.registers, *to, values, w.mask) };
        }
    }
    if *order == MemoryOrder::Weak {
        return at + 1;
    }
    w.looked(addresses[w.mask.trailing_zeros() as usize % LANES], at + 1, || seen)
}

/// The addresses of a plain store in the memory of each member, and the lanes whose store is to multicast memory: a switch gives it to all members,
/// and NCCL's kernels rely on that though the ISA does not say it.
#[cold]
pub fn members(w: &Warp, addresses: &Lanes<u64>, len: u64) -> Vec<(Mask, Lanes<u64>)> {
    let mut members: Vec<(Mask, Lanes<u64>)> = Vec::new();
    for lane in lanes_of(w.mask).filter(|lane| addresses[*lane].is_multiple_of(len)) {
        w.reach.memory().with_members(addresses[lane], len, &mut |places| {
            members.resize(members.len().max(places.len()), (0, [0; LANES]));
            for ((lanes, member), place) in members.iter_mut().zip(places) {
                *lanes |= 1 << lane;
                member[lane] = *place;
            }
        });
    }
    members
}

/// Calls `f` with each lane and the places of its bytes in the members' memory.
///
/// # Errors
///
/// An address is misaligned, or no multicast memory; with it. Lanes before it were served.
fn each_lane(
    w: &Warp,
    addresses: &Lanes<u64>,
    len: u64,
    f: &mut dyn FnMut(usize, &[u64]),
) -> Result<(), (u64, BadAccess)> {
    if let Some(lane) = lanes_of(w.mask).find(|lane| !addresses[*lane].is_multiple_of(len)) {
        return Err((addresses[lane], BadAccess::Misaligned));
    }
    let mut places = Vec::new();
    let mut serve = |first: u64, lane: usize, members: &[u64]| {
        places.clear();
        places.extend(members.iter().map(|member| member + (addresses[lane] - first)));
        f(lane, &places);
    };
    let all = || lanes_of(w.mask).map(|lane| addresses[lane]);
    let (least, most) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
    let memory = w.reach.memory();
    let together = memory.with_members(least, (most - least).saturating_add(len), &mut |members| {
        lanes_of(w.mask).for_each(|lane| serve(least, lane, members));
    });
    if together {
        return Ok(());
    }
    for lane in lanes_of(w.mask) {
        if !memory.with_members(addresses[lane], len, &mut |members| serve(addresses[lane], lane, members)) {
            return Err((addresses[lane], BadAccess::NotMulticast));
        }
    }
    Ok(())
}

fn mask_of(bytes: u32) -> u64 {
    u64::MAX >> (64 - 8 * bytes)
}

fn reduced(op: BinaryOp, ty: Type, parts: impl Iterator<Item = u64>) -> u64 {
    parts.reduce(|all, part| binary(op, ty, all, part)).unwrap_or(0)
}

/// The sum of single-precision numbers in double precision, rounded once.
fn single_sum(parts: impl Iterator<Item = u64>) -> u64 {
    let numbers = parts.map(|bits| f64::from(f32::from_bits(bits as u32)));
    canonical_f32(numbers.reduce(|a, b| a + b).unwrap_or(0.0) as f32).to_bits().into()
}

/// The sum of half-precision numbers or pairs of them, rounded once; `add` makes the sum of two of them.
fn half_sum(ty: Type, parts: impl Iterator<Item = u64> + Clone, add: impl Fn(f64, f64) -> f64) -> u64 {
    let format = if matches!(ty, Type::Bf16 | Type::Bf16x2) { BF16 } else { F16 };
    let sum = |shift: u32| {
        let numbers = parts.clone().map(|bits| format.decode((bits >> shift) as u16));
        u64::from(format.encode(numbers.reduce(&add).unwrap_or(0.0), false))
    };
    if ty.bytes() == 2 { sum(0) } else { sum(0) | sum(16) << 16 }
}
