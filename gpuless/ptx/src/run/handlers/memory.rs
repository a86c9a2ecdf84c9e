//! Loads, stores, atomics, and copies in the background.
use super::general;
use super::multimem;
use super::weak;
use super::words::{Part, Parts};
use super::{Execute, each, give, mask};
use crate::code::{AtomicOp, BinaryOp, Op, Width};
use crate::module::Type;
use crate::run::lanes::{LANES, Lanes, Mask, lanes_of};
use crate::run::memory::BadAccess;
use crate::run::ready::{Instruction, NOWHERE};
use crate::run::registers::Slot;
use crate::run::scalar;
use crate::run::warp::Warp;
use crate::run::word::{Word, load_bits, store_bits, update};
use std::marker::PhantomData;

/// A flag of an address: its base has 64 bits.
pub const WIDE: u32 = 1;
/// A flag of an address: it counts from the start of shared memory.
pub const SHARED: u32 = 2;
/// A flag of an address: it is in the thread's own memory, so a store there is not progress that another thread could be waiting for.
pub const OWN: u32 = 8;
/// A flag of an address: it has no base.
pub const NO_BASE: u32 = 4;
/// A flag of an address: it is in constant memory.
pub const CONST: u32 = 16;

/// Bytes of global memory that an access of `bytes` for each lane at hand moves, once it was admitted.
#[inline(always)]
fn moved(w: &Warp, flags: u32, waits: bool, bytes: u64) -> u64 {
    let is_global = flags & (SHARED | OWN | CONST) == 0 && !waits && !w.reach.is_own();
    if is_global { bytes * u64::from(w.mask.count_ones()) } else { 0 }
}

/// The addresses of an access in each lane.
///
/// # Safety
/// As for every [`super::Handler`].
#[inline(always)]
pub(super) unsafe fn addresses(w: &Warp, base: Slot, offset: u64, flags: u32) -> Lanes<u64> {
    let start = offset.wrapping_add(if flags & SHARED != 0 { w.shared.0 } else { 0 });
    // SAFETY: a slot of 64 or 32 bits, as the flags say.
    unsafe {
        if flags & NO_BASE != 0 {
            [start; LANES]
        } else if flags & WIDE != 0 {
            let base = w.registers.read::<u64>(base);
            each!(u64, |lane| base[lane].wrapping_add(start))
        } else {
            let base = w.registers.read::<u32>(base);
            each!(u64, |lane| u64::from(base[lane]).wrapping_add(start))
        }
    }
}

/// Checks that accesses in shared memory stay in that of the block.
///
/// # Errors
///
/// One does not; with its address in shared memory.
#[inline(always)]
fn stays_shared(
    w: &Warp,
    flags: u32,
    addresses: &Lanes<u64>,
    mask: Mask,
    len: u64,
    reads: bool,
) -> Result<(), (u64, BadAccess)> {
    if flags & SHARED == 0 {
        return Ok(());
    }
    let (start, bytes) = w.shared;
    // As in `Reach`, a read may extend to the end of the last 16 bytes.
    let bytes = if reads { bytes.next_multiple_of(16) } else { bytes };
    let room = (bytes + 1).saturating_sub(len);
    let outside = mask & mask!(|lane| addresses[lane].wrapping_sub(start) >= room);
    if outside == 0 {
        return Ok(());
    }
    Err((addresses[outside.trailing_zeros() as usize % LANES].wrapping_sub(start), BadAccess::NotShared))
}

/// Checks accesses of `len` bytes.
///
/// # Errors
///
/// One of them is not allowed; with its address.
#[inline(always)]
fn admit(
    w: &mut Warp,
    flags: u32,
    addresses: &Lanes<u64>,
    mask: Mask,
    len: u64,
    reads: bool,
) -> Result<(), (u64, BadAccess)> {
    stays_shared(w, flags, addresses, mask, len, reads)?;
    w.reach.admit(addresses, mask, len, reads)
}

/// `ld` of a word: the base is `a`, the offset the number, and the parts go to the four further slots. With `LOOKS` other threads
/// may write it at the same time, and lanes may poll it.
pub struct Load<W, E, const LOOKS: bool>(PhantomData<(W, E)>);

impl<W: Parts<E>, E: Part, const LOOKS: bool> Execute for Load<W, E, LOOKS> {
    #[inline(always)]
    unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
        let bytes = size_of::<W>() as u64;
        // SAFETY: the slots are as wide as their parts, and addresses are admitted before they are used.
        unsafe {
            let addresses = addresses(w, i.a, i.number, i.flags);
            if let Err(bad) = admit(w, i.flags, &addresses, w.mask, bytes, true) {
                return w.refuse_access(at, "reads", bytes, bad);
            }
            w.work.loaded += moved(w, i.flags, i.waits, bytes);
            let parts = if w.weak.is_none() {
                W::load_lanes(&addresses, w.mask)
            } else {
                weak::load::<W, E>(w, i.flags, &addresses)
            };
            for (slot, part) in i.more.into_iter().zip(&parts).take(W::COUNT) {
                give(w, slot, part);
            }
            if !LOOKS {
                return at + 1;
            }
            let first = addresses[w.mask.trailing_zeros() as usize % LANES];
            w.looked(first, at + 1, || fingerprint(&addresses, &parts[..W::COUNT]))
        }
    }
}

/// `st` of a word: the base is `a`, the offset the number, and the parts come from the four further slots.
pub struct Store<W, E>(PhantomData<(W, E)>);

impl<W: Parts<E>, E: Part> Execute for Store<W, E> {
    #[inline(always)]
    unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
        let bytes = size_of::<W>() as u64;
        // SAFETY: as for a load.
        unsafe {
            let addresses = addresses(w, i.a, i.number, i.flags);
            let admitted = admit(w, i.flags, &addresses, w.mask, bytes, false);
            let mut parts = [[E::default(); LANES]; 4];
            for (slot, part) in i.more.into_iter().zip(&mut parts).take(W::COUNT) {
                *part = w.registers.read(slot);
            }
            if let Err(bad) = admitted {
                let store = |addresses: &Lanes<u64>, mask: Mask| W::store_lanes(addresses, mask, &parts);
                return store_multicast(w, i, at, (&addresses, bytes, bad), store);
            }
            let stored = moved(w, i.flags, i.waits, bytes);
            w.work.stored += stored;
            let (mask, shape) = (w.storing(&addresses, bytes, stored > 0), (size_of::<E>(), W::COUNT));
            if w.weak.is_none()
                || !weak::try_delay(w, i.flags, &addresses, mask, shape, |part, lane| parts[part][lane].wide())
            {
                W::store_lanes(&addresses, mask, &parts);
            }
        }
        if i.flags & OWN == 0 {
            w.wrote();
        }
        at + 1
    }
}

/// Plain stores of `len` bytes, some of them to multicast memory; `bad` is the reason that not all are to mapped memory.
#[cold]
fn store_multicast(
    w: &mut Warp,
    i: &Instruction,
    at: u32,
    (addresses, len, bad): (&Lanes<u64>, u64, (u64, BadAccess)),
    store: impl Fn(&Lanes<u64>, Mask),
) -> u32 {
    let mut places = multimem::members(w, addresses, len);
    let Some(others) = places.first().map(|(lanes, _)| w.mask & !lanes) else {
        return w.refuse_access(at, "writes", len, bad);
    };
    if let Err(bad) = admit(w, i.flags, addresses, others, len, false) {
        return w.refuse_access(at, "writes", len, bad);
    }
    places.push((others, *addresses));
    weak::show_all_if_released(w, i.flags);
    // SAFETY: these are places in the members' memory, or were admitted.
    unsafe { weak::record(w, &places, len) };
    places.iter().for_each(|(lanes, addresses)| store(addresses, *lanes));
    w.work.stored += if i.waits { 0 } else { len * u64::from(w.mask.count_ones()) };
    w.wrote();
    at + 1
}

/// A number that differs if an address or a part does, but for chance. Lanes that are not at hand have read nothing.
fn fingerprint<E: Part>(addresses: &Lanes<u64>, parts: &[Lanes<E>]) -> u64 {
    let mut sum = 0u64;
    for lane in 0..LANES {
        let mixed = parts.iter().fold(addresses[lane], |mixed, part| mixed.rotate_left(17) ^ part[lane].folded());
        sum = sum.wrapping_add(mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15 + 2 * lane as u64));
    }
    sum
}

/// A load that is not a word of equal parts: elements of one size in memory, and registers of other widths.
/// Its operation is the function's general one with the number `c`; the base is `a`, the offset the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn load_general(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    let Some((general, Op::Load { ty, order, .. })) =
        code.general.get(i.c as usize).map(|general| (general, &general.op))
    else {
        return w.refuse(at, "the load has no description: this is a bug".into());
    };
    let size = ty.bytes();
    // SAFETY: as for a load.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        let whole = u64::from(size) * general.to.len() as u64;
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, whole, true) {
            return w.refuse_access(at, "reads", whole, bad);
        }
        w.work.loaded += moved(w, i.flags, i.waits, whole);
        weak::before(w, i.flags, &addresses, whole);
        let mut parts = [[0u128; LANES]; 4];
        let parts = &mut parts[..general.to.len().min(4)];
        for (number, values) in parts.iter_mut().enumerate() {
            for lane in lanes_of(w.mask).rev() {
                values[lane] = load_bits(addresses[lane] + u64::from(size) * number as u64, size);
            }
        }
        weak::look_back(w, i.flags, &addresses, size as usize, parts);
        let mut seen = 0u64;
        for (values, to) in parts.iter().zip(&general.to) {
            for lane in lanes_of(w.mask).rev() {
                seen =
                    (seen ^ addresses[lane] ^ values[lane] as u64).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
            }
            let extended = values.map(|bits| match ty {
                Type::S8 => u128::from(bits as i8 as u64),
                Type::S16 => u128::from(bits as i16 as u64),
                Type::S32 => u128::from(bits as i32 as u64),
                _ => bits,
            });
            if let Some(to) = to {
                general::write(w.registers, *to, &extended, w.mask);
            }
        }
        if *order == crate::code::MemoryOrder::Weak {
            return at + 1;
        }
        w.looked(addresses[w.mask.trailing_zeros() as usize % LANES], at + 1, || seen)
    }
}

/// Likewise for a store.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn store_general(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    let Some((general, Op::Store { ty, .. })) = code.general.get(i.c as usize).map(|general| (general, &general.op))
    else {
        return w.refuse(at, "the store has no description: this is a bug".into());
    };
    let size = ty.bytes();
    // SAFETY: as for a load.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        let whole = u64::from(size) * general.sources.len() as u64;
        let (size, count, registers) = (size as usize, general.sources.len(), w.registers);
        let element = |number: usize, lane| general::read(registers, general.sources[number], lane);
        let store = |addresses: &Lanes<u64>, mask: Mask| {
            for number in 0..count {
                for lane in lanes_of(mask) {
                    let place = addresses[lane].wrapping_add((size * number) as u64);
                    store_bits(place, size as u32, element(number, lane));
                }
            }
        };
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, whole, false) {
            return store_multicast(w, i, at, (&addresses, whole, bad), store);
        }
        let stored = moved(w, i.flags, i.waits, whole);
        w.work.stored += stored;
        let mask = w.storing(&addresses, whole, stored > 0);
        if w.weak.is_none() || !weak::try_delay(w, i.flags, &addresses, mask, (size, count), element) {
            store(&addresses, mask);
        }
    }
    if i.flags & OWN == 0 {
        w.wrote();
    }
    at + 1
}

/// `atom` and `red`: the operation is the function's general one with the number `c`; the base is `a`, the offset the number.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn atomic(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    let Some((general, Op::Atomic { op, ty, .. })) =
        code.general.get(i.c as usize).map(|general| (general, &general.op))
    else {
        return w.refuse(at, "the atomic has no description: this is a bug".into());
    };
    let (size, mut changed, mut seen) = (ty.bytes(), false, 0u64);
    // SAFETY: as for a load.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, u64::from(size), false) {
            return w.refuse_access(at, "changes", u64::from(size), bad);
        }
        let bytes = moved(w, i.flags, i.waits, u64::from(size));
        (w.work.loaded, w.work.stored) = (w.work.loaded + bytes, w.work.stored + bytes);
        weak::before(w, i.flags, &addresses, u64::from(size));
        let mut values = [0u128; LANES];
        for lane in lanes_of(w.mask) {
            let operand = |number: usize| {
                general.sources.get(number).map_or(0, |source| general::read(w.registers, *source, lane) as u64)
            };
            let (a, b) = (operand(0), operand(1));
            // Shared memory keeps subnormal numbers.
            let flush = *ty == Type::F32 && addresses[lane].wrapping_sub(w.shared.0) >= w.shared.1;
            let new = |old| if flush { add_flushed(old, a) } else { changed_by(*op, *ty, old, a, b) };
            let old = update(addresses[lane], size, new);
            changed |= new(old) != old;
            seen = (seen ^ addresses[lane] ^ old).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
            values[lane] = u128::from(old);
        }
        weak::after_atomic(w, i.flags, &addresses, u64::from(size), changed.then_some(&values));
        if let Some(Some(to)) = general.to.first() {
            general::write(w.registers, *to, &values, w.mask);
        }
        // A `red` returns nothing, so a kernel cannot poll with it.
        if changed || !general.to.iter().any(Option::is_some) {
            w.wrote();
            return at + 1;
        }
        // One that changes nothing is a look.
        w.looked(addresses[w.mask.trailing_zeros() as usize % LANES], at + 1, || seen)
    }
}

/// `atom.add.f32` on global memory, where subnormal numbers are zero (PTX ISA, 9.7.13.5).
fn add_flushed(old: u64, a: u64) -> u64 {
    let flushed = |bits: u64| if bits & 0x7f80_0000 == 0 { bits & 1 << 31 } else { bits };
    flushed(scalar::binary(BinaryOp::Add, Type::F32, flushed(old), flushed(a)))
}

/// The new value that an atomic writes to memory (PTX ISA, 9.7.13.5).
fn changed_by(op: AtomicOp, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let narrow = ty.bytes() == 4;
    let signed = |bits: u64| if narrow { i64::from(bits as i32) } else { bits as i64 };
    let less = |a: u64, b: u64| if ty.is_signed() { signed(a) < signed(b) } else { a < b };
    let of = |chosen: bool, one: u64, other: u64| if chosen { one } else { other };
    let value = match op {
        AtomicOp::Add if matches!(ty, Type::F32 | Type::F64) => scalar::binary(BinaryOp::Add, ty, old, a),
        AtomicOp::Add => old.wrapping_add(a),
        AtomicOp::Min => of(less(a, old), a, old),
        AtomicOp::Max => of(less(old, a), a, old),
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Exchange => a,
        AtomicOp::CompareAndSwap => of(old == a, b, old),
        AtomicOp::Increment => of(old >= a, 0, old.wrapping_add(1)),
        AtomicOp::Decrement => of(old == 0 || old > a, a, old.wrapping_sub(1)),
    };
    value & u64::MAX >> (64 - 8 * ty.bytes())
}

/// The contents of an `mbarrier` in shared memory: the arrivals of a phase, those that are still missing, the bytes that are still
/// missing, and the phase.
#[derive(Clone, Copy)]
struct Phase(u64);

/// Limit on the arrivals that a phase can wait for: the largest number that its 16 bits hold.
const MOST_ARRIVALS: u32 = 0xffff;

impl Phase {
    /// A phase that waits for `count` arrivals.
    fn new(count: u32) -> Self {
        let count = u64::from(count & MOST_ARRIVALS);
        Self(count | count << 16)
    }

    fn number(self) -> u64 {
        self.0 >> 63
    }

    /// The state after arrivals, and bytes that are expected or have arrived.
    fn after(self, arrivals: u64, bytes: i64) -> Self {
        let count = self.0 & 0xffff;
        let pending = (self.0 >> 16).wrapping_sub(arrivals) & 0xffff;
        let missing = ((self.0 << 1) as i64 >> 33).wrapping_add(bytes);
        if pending == 0 && missing == 0 {
            return Self(count | count << 16 | (self.number() ^ 1) << 63);
        }
        Self(count | pending << 16 | (missing as u64 & 0x7fff_ffff) << 32 | self.number() << 63)
    }
}

/// `mbarrier.init`: the barrier's base is `a`, and the count `b`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn phase_init(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as for a load; the count has 32 bits.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, 8, false) {
            return w.refuse_access(at, "writes", 8, bad);
        }
        for lane in lanes_of(w.mask) {
            let count = w.registers.read_lane::<u32>(i.b, lane);
            if count == 0 || count > MOST_ARRIVALS {
                return w.refuse(at, format!("{count} arrivals: an mbarrier is for 1 to {MOST_ARRIVALS} here"));
            }
            u64::store(addresses[lane], Phase::new(count).0);
        }
    }
    w.wrote();
    at + 1
}

/// `mbarrier.arrive.expect_tx`: the barrier's base is `a`, and the bytes `b`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn phase_arrive(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as for a load; the bytes have 32 bits, and the result 64.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, 8, false) {
            return w.refuse_access(at, "changes", 8, bad);
        }
        let mut before = [0u64; LANES];
        for lane in lanes_of(w.mask) {
            let bytes = i64::from(w.registers.read_lane::<u32>(i.b, lane));
            before[lane] = update(addresses[lane], 8, |old| Phase(old).after(1, bytes).0);
        }
        give(w, i.to, &before);
    }
    w.wrote();
    at + 1
}

/// `mbarrier.try_wait`: the barrier's base is `a`, the state `b`; true once the state's phase is over.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn phase_try_wait(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as for a load; the state has 64 bits.
    unsafe {
        let addresses = addresses(w, i.a, i.number, i.flags);
        if let Err(bad) = admit(w, i.flags, &addresses, w.mask, 8, true) {
            return w.refuse_access(at, "reads", 8, bad);
        }
        let (mut over, mut seen) = (0, 0u64);
        for lane in lanes_of(w.mask) {
            let now = u64::load(addresses[lane]);
            seen = (seen ^ now).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
            over |= u32::from(Phase(now).number() != Phase(w.registers.read_lane(i.b, lane)).number()) << lane;
        }
        if i.to != NOWHERE {
            w.registers.set_predicate(i.to, over, w.mask);
        }
        if over == w.mask {
            return at + 1;
        }
        w.looked(addresses[w.mask.trailing_zeros() as usize % LANES], at + 1, || seen)
    }
}

/// `cp.async.bulk`, which is over at once: from the address `b` to the address `a` the bytes `c`. The flags of both and of the barrier
/// are in the more slots, and their offsets in the number's halves and in the last slot. The flags of the instruction say whether it completes on the barrier at `d`.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn bulk_copy(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as for a load; the bytes have 32 bits.
    unsafe {
        let [to_flags, from_flags, barrier_flags, barrier_offset] = i.more;
        let signed = |offset: u32| offset as i32 as u64;
        let to = addresses(w, i.a, signed(i.number as u32), to_flags);
        let from = addresses(w, i.b, signed((i.number >> 32) as u32), from_flags);
        weak::show_all(w);
        let barrier = (i.flags != 0).then(|| addresses(w, i.d, signed(barrier_offset), barrier_flags));
        for lane in lanes_of(w.mask) {
            let bytes = u64::from(w.registers.read_lane::<u32>(i.c, lane));
            if [bytes, to[lane], from[lane]].iter().any(|number| !number.is_multiple_of(16)) {
                return w.refuse(
                    at,
                    format!(
                        "copies {bytes} bytes from {:#x} to {:#x}: all must be multiples of 16",
                        from[lane], to[lane]
                    ),
                );
            }
            let shared = stays_shared(w, from_flags, &from, 1 << lane, bytes, true);
            if let Err(bad) = shared.and_then(|()| w.reach.admit_range(from[lane], bytes, true)) {
                return w.refuse_access(at, "reads", bytes, bad);
            }
            w.work.loaded += if from_flags & SHARED == 0 && !w.reach.is_own() { bytes } else { 0 };
            let shared = stays_shared(w, to_flags, &to, 1 << lane, bytes, false);
            if let Err(bad) = shared.and_then(|()| w.reach.admit_range(to[lane], bytes, false)) {
                return w.refuse_access(at, "writes", bytes, bad);
            }
            w.work.stored += if to_flags & SHARED == 0 && !w.reach.is_own() { bytes } else { 0 };
            weak::before_copy(w, (to_flags, to[lane]), from[lane], bytes);
            for offset in (0..bytes).step_by(16) {
                u128::store(to[lane] + offset, u128::load(from[lane] + offset));
            }
            if let Some(barrier) = barrier {
                if let Err(bad) = admit(w, barrier_flags, &barrier, 1 << lane, 8, false) {
                    return w.refuse_access(at, "changes", 8, bad);
                }
                update(barrier[lane], 8, |old| Phase(old).after(0, -(bytes as i64)).0);
            }
        }
    }
    w.wrote();
    at + 1
}

/// The register width of a part with this size in bytes; `None` for sizes that [`load_general`] handles.
pub fn part_width(bytes: u32) -> Option<Width> {
    Some(match bytes {
        2 => Width::W16,
        4 => Width::W32,
        8 => Width::W64,
        16 => Width::W128,
        _ => return None,
    })
}
