//! The code that executes instructions, 32 lanes side by side.
//!
//! Frequent operations have a handler for their types, which the compiler turns into vector instructions: three times, for
//! processors with AVX-512, with AVX2, and for all others. [`general`] executes every other operation on registers.
#![allow(unsafe_code)] // handlers reach slots, which lowering has checked, and use instructions that the processor has

pub mod control;
pub mod float;
pub mod general;
pub mod memory;
pub mod multimem;
pub mod narrow;
pub mod together;
pub mod weak;
pub mod whole;
pub mod words;

use super::lanes::Lanes;
use super::ready::{Instruction, NOWHERE};
use super::registers::{Slot, Value};
use super::warp::Warp;

/// Executes an instruction for the warp's active lanes; returns the number of the next one, or [`super::warp::STOP`].
///
/// # Safety
/// The instruction's slots are in the registers of the warp's current frame, with the widths that the handler expects.
pub type Handler = unsafe fn(&mut Warp, &Instruction, u32) -> u32;

/// An instruction's meaning. Implementations are inlined into a function for each kind of vectors, and so must be every function
/// that they call with more than one lane: closures are not, unless they are small.
pub trait Execute {
    /// # Safety
    /// As for every [`Handler`].
    unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32;
}

/// The vector instructions that handlers are compiled for.
pub trait Isa: 'static {
    /// The handler of a meaning.
    fn handler<E: Execute>() -> Handler;
}

/// Defines kinds of vectors, with the instructions that each has.
macro_rules! isa {
    ($($(#[$doc:meta])* $name:ident $(has $features:literal)?;)*) => {$(
        $(#[$doc])*
        pub enum $name {}

        impl Isa for $name {
            fn handler<E: Execute>() -> Handler {
                $(#[target_feature(enable = $features)])?
                unsafe fn handler<E: Execute>(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
                    // SAFETY: as the caller says.
                    unsafe { E::execute(w, i, at) }
                }
                handler::<E>
            }
        }
    )*};
}
isa! {
    /// The features that every processor of its kind has.
    Plain;
}
#[cfg(target_arch = "x86_64")]
isa! {
    /// AVX2, FMA and the related bit instructions.
    Avx2 has "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt";
    /// AVX-512 with bytes, words, double words and shorter vectors.
    Avx512 has "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt";
}

/// The vector instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vectors {
    /// No vectors: one lane at a time, from each operation's description. It is slow, and serves as the reference for testing the others.
    OneByOne,
    /// The features that every processor has.
    Plain,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512.
    Avx512,
}

impl Vectors {
    /// All kinds that this processor supports, the best ones first.
    pub fn available() -> Vec<Self> {
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let avx512 = avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl");
            let all = [(Self::Avx512, avx512), (Self::Avx2, avx2), (Self::Plain, true), (Self::OneByOne, true)];
            all.into_iter().filter(|(_, has)| *has).map(|(vectors, _)| vectors).collect()
        }
        #[cfg(not(target_arch = "x86_64"))]
        vec![Self::Plain, Self::OneByOne]
    }

    /// The best ones of this processor.
    pub fn best() -> Self {
        Self::available().first().copied().unwrap_or(Self::Plain)
    }
}

/// An operation on one number.
pub trait One<A, R> {
    fn of(a: A) -> R;
}

/// An operation on two numbers.
pub trait Two<A, R> {
    fn of(a: A, b: A) -> R;
}

/// An operation on three numbers.
pub trait Three<A, R> {
    fn of(a: A, b: A, c: A) -> R;
}

/// A value for each lane, without a closure.
macro_rules! each {
    ($ty:ty, |$lane:ident| $value:expr) => {{
        let mut values = [<$ty as Default>::default(); $crate::run::lanes::LANES];
        #[allow(clippy::needless_range_loop)] // several arrays are read
        for $lane in 0..$crate::run::lanes::LANES {
            values[$lane] = $value;
        }
        values
    }};
}
use each;

/// The lanes in which something holds, without a closure.
macro_rules! mask {
    (|$lane:ident| $holds:expr) => {{
        let mut mask = 0;
        #[allow(clippy::needless_range_loop)] // several arrays are read
        for $lane in 0..$crate::run::lanes::LANES {
            mask |= u32::from($holds) << $lane;
        }
        mask
    }};
}

use mask;

/// Defines instructions that compute: `Name<Type: Bound, ..> |warp, instruction| { .. }`. Lowering gives slots of the types that the
/// code reads and writes.
macro_rules! computes {
    ($($(#[$doc:meta])* $name:ident<$($g:ident: $bound:path),*> |$w:ident, $i:ident| $body:block)*) => {$(
        $(#[$doc])*
        pub struct $name<$($g: $bound),*>(std::marker::PhantomData<($($g,)*)>);

        impl<$($g: $bound),*> $crate::run::handlers::Execute for $name<$($g),*> {
            #[inline(always)]
            unsafe fn execute($w: &mut $crate::run::warp::Warp, $i: &$crate::run::ready::Instruction, at: u32) -> u32 {
                // SAFETY: the slots are as the caller says.
                unsafe { $body }
                at + 1
            }
        }
    )*};
}
use computes;

/// A value that has a default, to begin arrays with.
pub trait Number: Value + Default {}
impl<T: Value + Default> Number for T {}

/// The handler of an operation on one number.
pub fn one<I: Isa, A: Number, R: Number, F: One<A, R>>() -> Handler {
    struct Does<A, R, F>(std::marker::PhantomData<(A, R, F)>);
    impl<A: Number, R: Number, F: One<A, R>> Execute for Does<A, R, F> {
        #[inline(always)]
        unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
            // SAFETY: lowering gives slots of these types.
            unsafe {
                let a = w.registers.read::<A>(i.a);
                w.registers.write(i.to, &each!(R, |lane| F::of(a[lane])), w.mask);
            }
            at + 1
        }
    }
    I::handler::<Does<A, R, F>>()
}

/// The handler of an operation on two numbers.
pub fn two<I: Isa, A: Number, R: Number, F: Two<A, R>>() -> Handler {
    struct Does<A, R, F>(std::marker::PhantomData<(A, R, F)>);
    impl<A: Number, R: Number, F: Two<A, R>> Execute for Does<A, R, F> {
        #[inline(always)]
        unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
                w.registers.write(i.to, &each!(R, |lane| F::of(a[lane], b[lane])), w.mask);
            }
            at + 1
        }
    }
    I::handler::<Does<A, R, F>>()
}

/// The handler of an operation on three numbers.
pub fn three<I: Isa, A: Number, R: Number, F: Three<A, R>>() -> Handler {
    struct Does<A, R, F>(std::marker::PhantomData<(A, R, F)>);
    impl<A: Number, R: Number, F: Three<A, R>> Execute for Does<A, R, F> {
        #[inline(always)]
        unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
                let c = w.registers.read::<A>(i.c);
                w.registers.write(i.to, &each!(R, |lane| F::of(a[lane], b[lane], c[lane])), w.mask);
            }
            at + 1
        }
    }
    I::handler::<Does<A, R, F>>()
}

/// The handler of a comparison of two numbers, whose result is a predicate.
pub fn test<I: Isa, A: Number, F: Two<A, bool>>() -> Handler {
    struct Does<A, F>(std::marker::PhantomData<(A, F)>);
    impl<A: Number, F: Two<A, bool>> Execute for Does<A, F> {
        #[inline(always)]
        unsafe fn execute(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
            // SAFETY: as above.
            unsafe {
                let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
                w.registers.set_predicate(i.to, mask!(|lane| F::of(a[lane], b[lane])), w.mask);
            }
            at + 1
        }
    }
    I::handler::<Does<A, F>>()
}

/// Writes values to a slot, unless nothing reads the result.
///
/// # Safety
/// As for every [`Handler`].
#[inline(always)]
unsafe fn give<T: Value>(w: &mut Warp, to: Slot, values: &Lanes<T>) {
    if to != NOWHERE {
        // SAFETY: as above.
        unsafe { w.registers.write(to, values, w.mask) }
    }
}

/// Defines operations by name: `Name [type of an operand => type of the result, ..] value;`.
macro_rules! operations {
    (One, |$a:ident|: $($name:ident [$($ty:ty => $res:ty),*] $value:expr;)*) => {
        $crate::run::handlers::operations!(@ One, [$a]: $($name [$($ty => $res),*] $value;)*);
    };
    (Two, |$a:ident, $b:ident|: $($name:ident [$($ty:ty => $res:ty),*] $value:expr;)*) => {
        $crate::run::handlers::operations!(@ Two, [$a $b]: $($name [$($ty => $res),*] $value;)*);
    };
    (Three, |$a:ident, $b:ident, $c:ident|: $($name:ident [$($ty:ty => $res:ty),*] $value:expr;)*) => {
        $crate::run::handlers::operations!(@ Three, [$a $b $c]: $($name [$($ty => $res),*] $value;)*);
    };
    (@ $trait:ident, $operands:tt: $($name:ident [$($ty:ty => $res:ty),*] $value:expr;)*) => {$(
        pub enum $name {}
        $($crate::run::handlers::operations!(# $trait, $operands, $name, $ty, $res, $value);)*
    )*};
    (# $trait:ident, [$($x:ident)*], $name:ident, $ty:ty, $res:ty, $value:expr) => {
        impl $crate::run::handlers::$trait<$ty, $res> for $name {
            #[inline(always)]
            fn of($($x: $ty),*) -> $res {
                $value
            }
        }
    };
}
use operations;
