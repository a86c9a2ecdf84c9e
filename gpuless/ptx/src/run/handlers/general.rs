//! The fallback for operations on registers without a specialised handler: it gathers each lane's operands as bits and
//! computes the result with [`crate::run::scalar`].
use crate::code::Width;
use crate::run::lanes::{LANES, lanes_of};
use crate::run::ready::Instruction;
use crate::run::registers::{Base, Slot};
use crate::run::scalar::{Values, compute};
use crate::run::warp::Warp;

/// The bits of a value in one lane.
///
/// # Safety
/// As for [`Base::read`].
#[inline]
pub unsafe fn read(registers: Base, (slot, width): (Slot, Width), lane: usize) -> u128 {
    // SAFETY: as the caller says.
    unsafe {
        match width {
            Width::Predicate => u128::from(registers.predicate(slot) >> lane & 1),
            Width::W16 => u128::from(registers.read_lane::<u16>(slot, lane)),
            Width::W32 => u128::from(registers.read_lane::<u32>(slot, lane)),
            Width::W64 => u128::from(registers.read_lane::<u64>(slot, lane)),
            Width::W128 => registers.read_lane::<u128>(slot, lane),
        }
    }
}

/// Writes the low bits of values, in the lanes of the mask.
///
/// # Safety
/// As for [`Base::read`].
pub unsafe fn write(registers: Base, (slot, width): (Slot, Width), values: &[u128; LANES], mask: u32) {
    // SAFETY: as the caller says.
    unsafe {
        match width {
            Width::Predicate => {
                let holds = (0..LANES).fold(0, |all, lane| all | (values[lane] as u32 & 1) << lane);
                registers.set_predicate(slot, holds, mask);
            }
            Width::W16 => registers.write(slot, &values.map(|bits| bits as u16), mask),
            Width::W32 => registers.write(slot, &values.map(|bits| bits as u32), mask),
            Width::W64 => registers.write(slot, &values.map(|bits| bits as u64), mask),
            Width::W128 => registers.write(slot, values, mask),
        }
    }
}

/// Executes the general operation of the function whose number the instruction contains.
///
/// # Safety
/// As for every [`super::Handler`].
pub unsafe fn general(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    let code = w.frames[w.current].code.clone();
    let Some(general) = code.general.get(i.number as usize) else {
        return w.refuse(at, "the operation has no description: this is a bug".into());
    };
    let mut results = [[0u128; LANES]; 4];
    for lane in lanes_of(w.mask) {
        let mut operands: Values = [0; 4];
        for (operand, source) in operands.iter_mut().zip(&general.sources) {
            // SAFETY: lowering gives the slots and widths of the operation's registers.
            *operand = unsafe { read(w.registers, *source, lane) };
        }
        let Some(values) = compute(&general.op, &operands) else {
            return w.refuse(at, "this operation does more than compute: this is a bug".into());
        };
        for (result, value) in results.iter_mut().zip(values) {
            result[lane] = value;
        }
    }
    for (to, values) in general.to.iter().zip(&results) {
        if let Some(to) = to {
            // SAFETY: as above.
            unsafe { write(w.registers, *to, values, w.mask) };
        }
    }
    at + 1
}
