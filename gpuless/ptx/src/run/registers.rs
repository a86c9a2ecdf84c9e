//! The registers of one function on one warp: for each slot a value for each of 32 lanes.
#![allow(unsafe_code)] // slots are reached by their offset, which the slots of a function decide

use super::lanes::{LANES, Lanes, Mask};

/// The size of a vector register, so that a value never spans two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u64; 8]);

/// Memory for registers. That of a predicate has a bit for each lane in its first four bytes.
#[derive(Debug)]
pub struct Registers {
    lines: Box<[Line]>,
}

/// A place in registers: bytes from their start, for all lanes.
pub type Slot = u32;

/// A value of a register.
///
/// # Safety
/// Any bytes are a valid value.
pub unsafe trait Value: Copy {}
// SAFETY: numbers.
unsafe impl Value for u8 {}
// SAFETY: numbers.
unsafe impl Value for u16 {}
// SAFETY: numbers.
unsafe impl Value for i16 {}
// SAFETY: numbers.
unsafe impl Value for u32 {}
// SAFETY: numbers.
unsafe impl Value for i32 {}
// SAFETY: numbers.
unsafe impl Value for u64 {}
// SAFETY: numbers.
unsafe impl Value for i64 {}
// SAFETY: numbers.
unsafe impl Value for u128 {}
// SAFETY: numbers.
unsafe impl Value for f32 {}
// SAFETY: numbers.
unsafe impl Value for f64 {}

impl Registers {
    /// Registers with this many bytes per lane, all zero.
    pub fn new(bytes_of_a_lane: u32) -> Self {
        let lines = (bytes_of_a_lane as usize * LANES).div_ceil(64).max(1);
        Self { lines: vec![Line([0; 8]); lines].into_boxed_slice() }
    }

    /// No registers at all.
    pub fn none() -> Self {
        Self { lines: Box::default() }
    }

    /// True if there is room for this many bytes per lane.
    pub fn has_room_for(&self, bytes_of_a_lane: u32) -> bool {
        self.lines.len() * 64 >= bytes_of_a_lane as usize * LANES
    }

    /// The pointer by which handlers access slots. It stays valid as long as `self` lives, even if `self` is moved.
    pub fn base(&mut self) -> Base {
        Base(self.lines.as_mut_ptr().cast())
    }
}

/// The start of registers.
#[derive(Clone, Copy, Debug)]
pub struct Base(*mut u8);

// SAFETY: a warp is the only one that uses its registers, on whichever thread it is.
unsafe impl Send for Base {}

impl Base {
    /// The base of an empty set of registers.
    pub const NONE: Self = Self(std::ptr::null_mut());

    /// # Safety
    /// The registers live, and the slot of this width is one of theirs. This holds for all functions below.
    #[inline(always)]
    pub unsafe fn read<T: Value>(self, slot: Slot) -> Lanes<T> {
        // SAFETY: the caller vouches for the slot, and slots are aligned to their width.
        unsafe { *self.0.add(slot as usize).cast() }
    }

    /// The value of one lane.
    ///
    /// # Safety
    /// As for [`Base::read`].
    #[inline(always)]
    pub unsafe fn read_lane<T: Value>(self, slot: Slot, lane: usize) -> T {
        // SAFETY: as above.
        unsafe { *self.0.add(slot as usize).cast::<T>().add(lane) }
    }

    /// Puts values into a slot, in the lanes of the mask.
    ///
    /// # Safety
    /// As for [`Base::read`].
    #[inline(always)]
    pub unsafe fn write<T: Value>(self, slot: Slot, values: &Lanes<T>, mask: Mask) {
        // SAFETY: as above.
        let to: &mut Lanes<T> = unsafe { &mut *self.0.add(slot as usize).cast() };
        if mask == Mask::MAX {
            *to = *values;
            return;
        }
        for lane in 0..LANES {
            to[lane] = if mask >> lane & 1 == 1 { values[lane] } else { to[lane] };
        }
    }

    /// The lanes in which a predicate is true.
    ///
    /// # Safety
    /// As for [`Base::read`].
    #[inline(always)]
    pub unsafe fn predicate(self, slot: Slot) -> Mask {
        // SAFETY: as above.
        unsafe { *self.0.add(slot as usize).cast() }
    }

    /// Sets a predicate in the lanes of the mask.
    ///
    /// # Safety
    /// As for [`Base::read`].
    #[inline(always)]
    pub unsafe fn set_predicate(self, slot: Slot, value: Mask, mask: Mask) {
        // SAFETY: as above.
        let to: &mut Mask = unsafe { &mut *self.0.add(slot as usize).cast() };
        *to = *to & !mask | value & mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_by_lane_and_written_under_a_mask() {
        let mut registers = Registers::new(13);
        assert!(registers.has_room_for(13) && !registers.has_room_for(40));
        let base = registers.base();
        let all: Lanes<u64> = std::array::from_fn(|lane| 1 << lane);
        // SAFETY: slots of 8, 4 and 1 bytes for a lane, one after the other.
        unsafe {
            base.write(0, &all, Mask::MAX);
            base.write(0, &[7u64; LANES], 0b101);
            let read = base.read::<u64>(0);
            assert_eq!((read[0], read[1], read[2], base.read_lane::<u64>(0, 31)), (7, 2, 7, 1 << 31));
            base.write(256, &[9u32; LANES], 1 << 31);
            assert_eq!((base.read_lane::<u32>(256, 30), base.read_lane::<u32>(256, 31)), (0, 9));
            base.set_predicate(384, Mask::MAX, 0xff);
            base.set_predicate(384, 0, 0xf);
            assert_eq!(base.predicate(384), 0xf0);
            assert_eq!(base.read_lane::<u64>(0, 31), 1 << 31, "the others are as they were");
        }
    }
}
