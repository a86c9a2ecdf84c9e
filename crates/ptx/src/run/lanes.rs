//! Registers of a warp: each has a value for each of 32 lanes.
use crate::code::{Body, Slots, Width};
use crate::module::RegisterId;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// A value for each lane.
pub type Lanes<T> = [T; LANES];

/// A bit for each lane.
pub type Mask = u32;

/// The registers of one function on one warp. A slot of `n` bytes has 32 values of `n` bytes one after the other; that of a
/// predicate has a bit for each lane in its first four bytes.
#[derive(Debug)]
pub struct Registers {
    bytes: Vec<u8>,
}

/// A value that a register holds.
pub trait Value: Copy + Default {
    /// Bytes of it.
    const BYTES: usize;
    /// From its bytes.
    fn from_bytes(bytes: &[u8]) -> Self;
    /// Into its bytes.
    fn into_bytes(self, to: &mut [u8]);
}

macro_rules! value {
    ($($ty:ty),*) => {$(
        impl Value for $ty {
            const BYTES: usize = size_of::<$ty>();
            fn from_bytes(bytes: &[u8]) -> Self {
                let mut own = [0; size_of::<$ty>()];
                own.copy_from_slice(bytes);
                Self::from_ne_bytes(own)
            }
            fn into_bytes(self, to: &mut [u8]) {
                to.copy_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}

value!(u16, u32, u64, u128);

impl Registers {
    /// Of a function, all zero.
    pub fn of(slots: &Slots) -> Self {
        Self { bytes: vec![0; slots.bytes as usize * LANES] }
    }

    /// None at all.
    pub fn none() -> Self {
        Self { bytes: Vec::new() }
    }

    fn slot<T: Value>(&self, offset: u32) -> &[u8] {
        &self.bytes[offset as usize * LANES..][..T::BYTES * LANES]
    }

    /// The values in a slot.
    pub fn read<T: Value>(&self, offset: u32) -> Lanes<T> {
        let mut lanes = [T::default(); LANES];
        for (lane, bytes) in lanes.iter_mut().zip(self.slot::<T>(offset).chunks_exact(T::BYTES)) {
            *lane = T::from_bytes(bytes);
        }
        lanes
    }

    /// Puts values into a slot, in the lanes of the mask.
    pub fn write<T: Value>(&mut self, offset: u32, lanes: &Lanes<T>, mask: Mask) {
        let slot = &mut self.bytes[offset as usize * LANES..][..T::BYTES * LANES];
        for (lane, (value, bytes)) in lanes.iter().zip(slot.chunks_exact_mut(T::BYTES)).enumerate() {
            if mask >> lane & 1 == 1 {
                value.into_bytes(bytes);
            }
        }
    }

    /// The lanes in which a predicate is true.
    pub fn predicate(&self, offset: u32) -> Mask {
        u32::from_bytes(&self.bytes[offset as usize * LANES..][..4])
    }

    /// Sets a predicate in the lanes of the mask.
    pub fn set_predicate(&mut self, offset: u32, value: Mask, mask: Mask) {
        let new = self.predicate(offset) & !mask | value & mask;
        new.into_bytes(&mut self.bytes[offset as usize * LANES..][..4]);
    }
}

/// A function that is ready to run: its operations, and where its registers are.
#[derive(Debug)]
pub struct Code {
    pub body: Body,
    pub slots: Slots,
}

impl Code {
    /// The slot of a register that some operation names.
    pub fn slot(&self, register: RegisterId) -> u32 {
        self.slots.of_register[register.0 as usize].unwrap_or(0)
    }

    /// The width of a register.
    pub fn width(&self, register: RegisterId) -> Width {
        Width::of(self.body.registers[register.0 as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_by_lane_and_written_under_a_mask() {
        let slots = Slots { of_register: Vec::new(), bytes: 13 };
        let mut registers = Registers::of(&slots);
        let all: Lanes<u64> = std::array::from_fn(|lane| 1 << lane);
        registers.write(0, &all, u32::MAX);
        registers.write(0, &[7u64; LANES], 0b101);
        let read = registers.read::<u64>(0);
        assert_eq!((read[0], read[1], read[2], read[31]), (7, 2, 7, 1 << 31));
        registers.write(8, &[9u32; LANES], 1 << 31);
        assert_eq!((registers.read::<u32>(8)[30], registers.read::<u32>(8)[31]), (0, 9));
        registers.set_predicate(12, u32::MAX, 0xff);
        registers.set_predicate(12, 0, 0xf);
        assert_eq!(registers.predicate(12), 0xf0);
        assert_eq!(registers.read::<u64>(0)[31], 1 << 31, "the others are as they were");
    }
}
