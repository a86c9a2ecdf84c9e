//! Whole numbers, bits and predicates.
use super::{Handler, Isa, Number, computes, each, give, operations};
use crate::num::permute;
use crate::run::lanes::LANES;
use crate::run::ready::Instruction;
use crate::run::registers::Value;
use crate::run::warp::Warp;

operations!(Two, |a, b|:
    Add [u16 => u16, u32 => u32, u64 => u64] a.wrapping_add(b);
    Sub [u16 => u16, u32 => u32, u64 => u64] a.wrapping_sub(b);
    MulLow [u16 => u16, u32 => u32, u64 => u64] a.wrapping_mul(b);
    And [u16 => u16, u32 => u32, u64 => u64] a & b;
    Or [u16 => u16, u32 => u32, u64 => u64] a | b;
    Xor [u16 => u16, u32 => u32, u64 => u64] a ^ b;
    Min [u16 => u16, u32 => u32, u64 => u64, i16 => i16, i32 => i32, i64 => i64] if a < b { a } else { b };
    Max [u16 => u16, u32 => u32, u64 => u64, i16 => i16, i32 => i32, i64 => i64] if a > b { a } else { b };
    MinRelu [i32 => i32] if a < b { a.max(0) } else { b.max(0) };
    MaxRelu [i32 => i32] if a > b { a.max(0) } else { b.max(0) };
    Eq [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool, f32 => bool, f64 => bool] a == b;
    Lt [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool, f32 => bool, f64 => bool] a < b;
    Le [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool, f32 => bool, f64 => bool] a <= b;
    Gt [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool, f32 => bool, f64 => bool] a > b;
    Ge [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool, f32 => bool, f64 => bool] a >= b;
    Ne [u16 => bool, u32 => bool, u64 => bool, i16 => bool, i32 => bool, i64 => bool] a != b;
    // Nothing holds of a NaN.
    LessOrGreater [f32 => bool, f64 => bool] a.partial_cmp(&b).is_some_and(|order| order.is_ne());
);

operations!(Two, |a, b|:
    WideU32 [u32 => u64] u64::from(a) * u64::from(b);
    WideS32 [i32 => i64] i64::from(a) * i64::from(b);
    WideU16 [u16 => u32] u32::from(a) * u32::from(b);
    WideS16 [i16 => i32] i32::from(a) * i32::from(b);
    HighU32 [u32 => u32] ((u64::from(a) * u64::from(b)) >> 32) as u32;
    HighS32 [i32 => i32] ((i64::from(a) * i64::from(b)) >> 32) as i32;
);

operations!(Three, |a, b, c|:
    MadLow [u16 => u16, u32 => u32, u64 => u64] a.wrapping_mul(b).wrapping_add(c);
);

operations!(One, |a|:
    Same [u16 => u16, u32 => u32, u64 => u64, u128 => u128] a;
    Not [u16 => u16, u32 => u32, u64 => u64] !a;
    NegWhole [u16 => u16, u32 => u32, u64 => u64] a.wrapping_neg();
    U32FromU16 [u16 => u32] u32::from(a);
    U64FromU16 [u16 => u64] u64::from(a);
    U64FromU32 [u32 => u64] u64::from(a);
    S32FromS16 [i16 => i32] i32::from(a);
    S64FromS16 [i16 => i64] i64::from(a);
    S64FromS32 [i32 => i64] i64::from(a);
    U16FromU32 [u32 => u16] a as u16;
    U16FromU64 [u64 => u16] a as u16;
    U32FromU64 [u64 => u32] a as u32;
);

/// A number whose bits can be shifted.
pub trait Bits: Value + Default {
    /// Shifted by at most all of its bits.
    fn left(self, by: u32) -> Self;
    /// Likewise; numbers with a sign keep it.
    fn right(self, by: u32) -> Self;
}

macro_rules! bits {
    ($($ty:ty, |$value:ident| $all:expr;)*) => {$(
        impl Bits for $ty {
            #[inline(always)]
            fn left(self, by: u32) -> Self {
                if by >= <$ty>::BITS { 0 } else { self << by }
            }
            #[inline(always)]
            fn right(self, by: u32) -> Self {
                let $value = self;
                if by >= <$ty>::BITS { $all } else { self >> by }
            }
        }
    )*};
}
bits! {
    u16, |_value| 0;
    u32, |_value| 0;
    u64, |_value| 0;
    i16, |value| value >> 15;
    i32, |value| value >> 31;
    i64, |value| value >> 63;
}

computes! {
    /// `shl`: the second operand has 32 bits.
    ShiftLeft<A: Bits> |w, i| {
        let (a, by) = (w.registers.read::<A>(i.a), w.registers.read::<u32>(i.b));
        w.registers.write(i.to, &each!(A, |lane| a[lane].left(by[lane])), w.mask);
    }
    /// `shr`.
    ShiftRight<A: Bits> |w, i| {
        let (a, by) = (w.registers.read::<A>(i.a), w.registers.read::<u32>(i.b));
        w.registers.write(i.to, &each!(A, |lane| a[lane].right(by[lane])), w.mask);
    }
    /// `mad.wide.u32`: a product of 64 bits and a sum.
    MadWideU32<> |w, i| {
        let (a, b) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let c = w.registers.read::<u64>(i.c);
        let sum = each!(u64, |lane| (u64::from(a[lane]) * u64::from(b[lane])).wrapping_add(c[lane]));
        w.registers.write(i.to, &sum, w.mask);
    }
    MadWideS32<> |w, i| {
        let (a, b) = (w.registers.read::<i32>(i.a), w.registers.read::<i32>(i.b));
        let c = w.registers.read::<i64>(i.c);
        let sum = each!(i64, |lane| (i64::from(a[lane]) * i64::from(b[lane])).wrapping_add(c[lane]));
        w.registers.write(i.to, &sum, w.mask);
    }
    /// `selp`: the predicate is `c`.
    Select<A: Number> |w, i| {
        let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
        let chosen = w.registers.predicate(i.c);
        w.registers.write(i.to, &each!(A, |lane| if chosen >> lane & 1 == 1 { a[lane] } else { b[lane] }), w.mask);
    }
    /// `prmt` with a mode: the number has the four selectors, the first one lowest.
    PermuteMode<> |w, i| {
        let (a, b) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let which = w.registers.read::<u32>(i.c);
        let value = each!(u32, |lane| permute(a[lane], b[lane], (i.number >> (16 * (which[lane] & 3))) as u32));
        w.registers.write(i.to, &value, w.mask);
    }
    /// `prmt` in its plain mode.
    Permute<> |w, i| {
        let (a, b) = (w.registers.read::<u32>(i.a), w.registers.read::<u32>(i.b));
        let selector = w.registers.read::<u32>(i.c);
        w.registers.write(i.to, &each!(u32, |lane| permute(a[lane], b[lane], selector[lane])), w.mask);
    }
}

macro_rules! predicates {
    ($($(#[$doc:meta])* $name:ident |$a:ident, $b:ident| $value:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for every [`super::Handler`].
        pub unsafe fn $name(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
            // SAFETY: as the caller says.
            unsafe {
                let ($a, $b) = (w.registers.predicate(i.a), w.registers.predicate(i.b));
                w.registers.set_predicate(i.to, $value, w.mask);
            }
            at + 1
        }
    )*};
}
predicates! {
    /// True if both are.
    predicate_and |a, b| a & b;
    /// One of them or both.
    predicate_or |a, b| a | b;
    /// One of them alone.
    predicate_xor |a, b| a ^ b;
    /// Not the first one.
    predicate_not |a, _b| !a;
    /// Copies the first one.
    predicate_move |a, _b| a;
}

macro_rules! packs {
    ($($pack:ident $unpack:ident $part:ty, $whole:ty, $count:literal;)*) => {
        computes! {$(
            /// Combines values, the lowest part first: the slots are `a`, `b`, `c` and `d`.
            $pack<> |w, i| {
                let mut whole = [0 as $whole; LANES];
                for (number, slot) in [i.a, i.b, i.c, i.d].into_iter().take($count).enumerate() {
                    let part = w.registers.read::<$part>(slot);
                    for lane in 0..LANES {
                        whole[lane] |= <$whole>::from(part[lane]) << (number as u32 * <$part>::BITS);
                    }
                }
                w.registers.write(i.to, &whole, w.mask);
            }
            /// Takes a value apart, the lowest part first: the parts go to the four more slots.
            $unpack<> |w, i| {
                let whole = w.registers.read::<$whole>(i.a);
                for (number, slot) in i.more.into_iter().take($count).enumerate() {
                    give(w, slot, &each!($part, |lane| (whole[lane] >> (number as u32 * <$part>::BITS)) as $part));
                }
            }
        )*}
    };
}
packs! {
    Pack2x16 Unpack2x16 u16, u32, 2;
    Pack4x16 Unpack4x16 u16, u64, 4;
    Pack2x32 Unpack2x32 u32, u64, 2;
    Pack4x32 Unpack4x32 u32, u128, 4;
    Pack2x64 Unpack2x64 u64, u128, 2;
}

/// A handler for the type that an instruction has.
pub fn move_of<I: Isa>(bytes: u32) -> Option<Handler> {
    Some(match bytes {
        2 => super::one::<I, u16, u16, Same>(),
        4 => super::one::<I, u32, u32, Same>(),
        8 => super::one::<I, u64, u64, Same>(),
        16 => super::one::<I, u128, u128, Same>(),
        _ => return None,
    })
}
