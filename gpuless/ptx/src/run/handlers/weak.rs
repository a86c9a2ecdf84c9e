//! Accesses that need not happen in the order of the program: what handlers do before and after them, if a seed takes some out of their order.
use super::memory::{CONST, OWN, SHARED};
use super::words::{Part, Parts};
use crate::run::early::Early;
use crate::run::lanes::{Lanes, Mask, lanes_of};
use crate::run::warp::Warp;

/// A flag of an address: its store, or atomic, is seen after all earlier ones of the block.
pub const RELEASES: u32 = 32;
/// A flag of an address: later loads of the block see what this load, or atomic, sees.
pub const ACQUIRES: u32 = 64;
/// A flag of an address: its access has no order.
pub const WEAK: u32 = 128;

/// The flags of memory that no other block reaches, or that does not change.
const NEVER_SHARED: u32 = SHARED | OWN | CONST;

fn early(w: &mut Warp) -> Option<&mut Early> {
    w.weak.as_mut()?.early.as_mut()
}

/// Before an access of the block, lets all see its delayed stores that the access meets or must follow.
#[inline(always)]
pub fn before(w: &mut Warp, flags: u32, addresses: &Lanes<u64>, len: u64) {
    #[cold]
    fn show(w: &mut Warp, flags: u32, addresses: &Lanes<u64>, len: u64) {
        let Some(delayed) = w.weak.as_mut().and_then(|weak| weak.delayed.as_mut()) else { return };
        if flags & RELEASES != 0 {
            delayed.show_all();
        } else if flags & NEVER_SHARED == 0 {
            lanes_of(w.mask).for_each(|lane| delayed.show_at(addresses[lane], len));
        }
    }
    if w.weak.is_some() {
        show(w, flags, addresses, len);
    }
}

/// Lets all see every delayed store of the block, if an access releases them.
pub fn show_all_if_released(w: &mut Warp, flags: u32) {
    if flags & RELEASES != 0 {
        show_all(w);
    }
}

/// Lets all see every delayed store of the block.
pub fn show_all(w: &mut Warp) {
    if let Some(weak) = &mut w.weak {
        weak.show_all();
    }
}

/// A fence for more than the block.
pub fn fence(w: &mut Warp) {
    if let Some(weak) = &mut w.weak {
        weak.fence();
    }
}

/// Loads a word for each lane at hand, which may be early.
///
/// # Safety
/// As for [`Parts::load_lanes`], of the lanes at hand.
#[cold]
pub unsafe fn load<W: Parts<E>, E: Part>(w: &mut Warp, flags: u32, addresses: &Lanes<u64>) -> [Lanes<E>; 4] {
    before(w, flags, addresses, size_of::<W>() as u64);
    // SAFETY: as the caller says.
    let mut parts = unsafe { W::load_lanes(addresses, w.mask) };
    look_back(w, flags, addresses, size_of::<E>(), &mut parts[..W::COUNT]);
    parts
}

/// Replaces what a load has found by what was there at an earlier moment, if it may be early. Its elements have `size` bytes.
pub fn look_back<E: Part>(w: &mut Warp, flags: u32, addresses: &Lanes<u64>, size: usize, parts: &mut [Lanes<E>]) {
    if w.weak.is_none() || flags & NEVER_SHARED != 0 {
        return;
    }
    let (mask, len) = (w.mask, (size * parts.len()) as u64);
    let of_device = w.reach.last_is_of_the_device(addresses, mask, len);
    let Some(early) = early(w) else { return };
    if flags & ACQUIRES != 0 {
        early.acquire();
    } else if of_device && early.may_be(flags & WEAK != 0) {
        early.look_back(addresses, mask, len, |lane, at, byte| {
            let (part, shift) = (&mut parts[at / size][lane], 8 * (at % size));
            *part = E::narrow(part.wide() & !(0xff << shift) | u128::from(byte) << shift);
        });
    } else {
        early.saw(lanes_of(mask).map(|lane| addresses[lane]));
    }
}

/// Adds a store of `count` elements of `size` bytes in the lanes of the mask to those that others see later. False if the store must happen now, because it is not
/// for the device's memory, or none are delayed.
///
/// # Safety
/// As for [`Parts::store_lanes`].
#[cold]
pub unsafe fn try_delay(
    w: &mut Warp,
    flags: u32,
    addresses: &Lanes<u64>,
    mask: Mask,
    (size, count): (usize, usize),
    element: impl Fn(usize, usize) -> u128,
) -> bool {
    let len = (size * count) as u64;
    let of_device = flags & NEVER_SHARED == 0 && w.reach.last_is_of_the_device(addresses, mask, len);
    let Some(delayed) = w.weak.as_mut().and_then(|weak| weak.delayed.as_mut()).filter(|_| of_device) else {
        before(w, flags, addresses, len);
        if flags & NEVER_SHARED == 0 && !w.reach.last_is_only_own(addresses, mask, len) {
            // SAFETY: as the caller says.
            unsafe { record(w, &[(mask, *addresses)], len) };
        }
        return false;
    };
    if flags & RELEASES != 0 {
        delayed.show_all();
    }
    let at_once = (16 / size).min(count);
    for lane in lanes_of(mask) {
        for first in (0..count).step_by(at_once) {
            let mut bytes = [0; 16];
            for (number, place) in bytes.chunks_exact_mut(size).take(at_once).enumerate() {
                place.copy_from_slice(&element(first + number, lane).to_le_bytes()[..size]);
            }
            let address = addresses[lane] + (first * size) as u64;
            // SAFETY: as the caller says; memory is not unmapped before the kernels that run have ended.
            unsafe { delayed.add(address, &bytes[..at_once * size], size) };
        }
    }
    true
}

/// Records that bytes are about to be replaced at all these addresses of lanes, at once.
///
/// # Safety
/// The addresses of the lanes in each mask were admitted for a store of `len` bytes.
pub unsafe fn record(w: &mut Warp, places: &[(Mask, Lanes<u64>)], len: u64) {
    let Some(early) = early(w) else { return };
    early.recorder.begin();
    for (mask, addresses) in places {
        // SAFETY: as the caller says.
        lanes_of(*mask).for_each(|lane| unsafe { early.recorder.add(addresses[lane], len) });
    }
}

/// After an atomic; with the old values if it has changed one.
pub fn after_atomic(w: &mut Warp, flags: u32, addresses: &Lanes<u64>, len: u64, old: Option<&Lanes<u128>>) {
    let mask = w.mask;
    let is_own = flags & NEVER_SHARED != 0 || w.reach.last_is_only_own(addresses, mask, len);
    let Some(early) = early(w).filter(|_| !is_own) else { return };
    if let Some(old) = old {
        early.recorder.begin();
        lanes_of(mask).for_each(|lane| early.recorder.add_known(addresses[lane], len, old[lane]));
    }
    if flags & ACQUIRES != 0 {
        early.acquire();
    } else {
        early.saw(lanes_of(mask).map(|lane| addresses[lane]));
    }
}

/// Before a bulk copy of a lane from an address to another one, which has these flags.
///
/// # Safety
/// The addresses were admitted for accesses of these bytes, which are a multiple of 16.
pub unsafe fn before_copy(w: &mut Warp, (flags, to): (u32, u64), from: u64, bytes: u64) {
    let Some(early) = early(w) else { return };
    early.saw((from..from + bytes).step_by(16));
    if flags & SHARED == 0 {
        early.recorder.begin();
        // SAFETY: as the caller says.
        unsafe { early.recorder.add(to, bytes) };
    }
}

/// Before an access to multicast memory: a store or an atomic to these places of its members, or a load from them.
///
/// # Safety
/// The places are accessible, and aligned to the bytes of an access.
pub unsafe fn before_multimem(early: &mut Early, members: &[u64], len: u64, stores: bool) {
    if stores {
        // SAFETY: as the caller says.
        members.iter().for_each(|member| unsafe { early.recorder.add(*member, len) });
    } else {
        early.saw(members.iter().copied());
    }
}
