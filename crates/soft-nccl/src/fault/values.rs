//! Faults of special values, with the knowledge of the types' bits that they need.
use super::named::*;
use super::site::Site;
use super::{Fault, wanted};
use crate::arith::{self, Type};

/// The bits of an element of a floating-point type.
#[derive(Clone, Copy)]
struct Bits {
    width: u32,
    fraction: u32,
    /// No infinities: the largest exponent holds numbers, and one NaN.
    finite: bool,
}

fn layout(ty: Type) -> Option<Bits> {
    let (width, fraction, finite) = match ty {
        Type::F64 => (64, 52, false),
        Type::F32 => (32, 23, false),
        Type::F16 => (16, 10, false),
        Type::Bf16 => (16, 7, false),
        Type::E5m2 => (8, 2, false),
        Type::E4m3 => (8, 3, true),
        _ => return None,
    };
    Some(Bits { width, fraction, finite })
}

impl Bits {
    fn sign(self) -> u64 {
        1 << (self.width - 1)
    }

    fn fractions(self) -> u64 {
        (1 << self.fraction) - 1
    }

    fn exponents(self) -> u64 {
        (self.sign() - 1) & !self.fractions()
    }

    fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        if self.finite { magnitude == self.sign() - 1 } else { magnitude > self.exponents() }
    }

    fn is_subnormal(self, bits: u64) -> bool {
        bits & self.exponents() == 0 && bits & self.fractions() != 0
    }

    /// True for a NaN whose highest fraction bit says that it is not quiet; f8e4m3 does not have such a NaN.
    fn is_signalling(self, bits: u64) -> bool {
        !self.finite && self.is_nan(bits) && bits & self.quiet() == 0
    }

    fn quiet(self) -> u64 {
        1 << (self.fraction - 1)
    }

    fn quiet_nan(self) -> u64 {
        if self.width == 8 { self.sign() - 1 } else { self.exponents() | (1 << (self.fraction - 1)) }
    }
}

pub(super) fn get(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    for (to, from) in wide.iter_mut().zip(in_order(bytes)) {
        *to = *from;
    }
    u64::from_le_bytes(wide)
}

pub(super) fn put(bytes: &mut [u8], bits: u64) {
    let wide = bits.to_le_bytes();
    let len = bytes.len().min(8);
    bytes[..len].copy_from_slice(&wide[..len]);
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
}

/// Bytes from the lowest to the highest.
fn in_order(bytes: &[u8]) -> impl Iterator<Item = &u8> {
    let (little, big) = if cfg!(target_endian = "big") { (&[][..], bytes) } else { (bytes, &[][..]) };
    little.iter().chain(big.iter().rev())
}

pub(super) fn is_nan(ty: Type, element: &[u8]) -> bool {
    layout(ty).is_some_and(|bits| bits.is_nan(get(element)))
}

pub(super) fn is_signalling(ty: Type, bits: u64) -> bool {
    layout(ty).is_some_and(|layout| layout.is_signalling(bits))
}

/// The NaN with its payload, but quiet.
pub(super) fn quieted(ty: Type, bits: u64) -> u64 {
    bits | layout(ty).map_or(0, Bits::quiet)
}

/// True if the highest bit is set.
pub(super) fn negative(element: &[u8]) -> bool {
    in_order(element).last().is_some_and(|byte| byte & 0x80 != 0)
}

/// The fp8 sum rounded without saturation, if that makes a difference.
pub(super) fn leaves_range(ty: Type, a: u8, b: u8) -> Option<u8> {
    let value = |code| arith::value(ty, &[code, 0, 0, 0, 0, 0, 0, 0]).filter(|value| value.is_finite());
    let sum = value(a)? + value(b)?;
    // From half a step above the largest number on.
    let (limit, outside) = if ty == Type::E4m3 { (464.0, 0x7f) } else { (61_440.0, 0x7c) };
    (sum.abs() >= limit).then_some(outside | if sum < 0.0 { 0x80 } else { 0 })
}

/// F29c, F29d, F29e: a copy that went through arithmetic; `None` if it is right.
pub(super) fn copied(site: &Site, data: &[u8]) -> Option<Vec<u8>> {
    type Change = fn(Bits, u64) -> u64;
    const FAULTS: &[(Fault, Change)] = &[
        (F29C, |layout, bits| if layout.is_nan(bits) { layout.quiet_nan() } else { bits }),
        (F29D, |layout, bits| if bits == layout.sign() { 0 } else { bits }),
        (F29E, |layout, bits| if layout.is_subnormal(bits) { bits & layout.sign() } else { bits }),
    ];
    let layout = layout(site.spec.ty).filter(|_| site.spec.reduction.is_none())?;
    FAULTS.iter().filter(|(fault, _)| wanted(*fault)).find_map(|(fault, change)| {
        let mut wrong = data.to_vec();
        for element in wrong.chunks_exact_mut(site.size()) {
            put(element, change(layout, get(element)));
        }
        (wrong != data && site.hit(*fault)).then_some(wrong)
    })
}
