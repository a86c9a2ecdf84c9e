//! The code that executes instructions, 32 lanes side by side.
//!
//! What is hot has a handler for its types, which the compiler turns into vector instructions: three times, for
//! processors with AVX-512, with AVX2, and for all others. [`general`] executes every other operation on registers.
#![allow(unsafe_code)] // handlers reach slots, which lowering has checked, and use instructions that the processor has

pub mod control;
pub mod float;
pub mod general;
pub mod memory;
pub mod narrow;
pub mod together;
pub mod whole;

use super::lanes::{LANES, Lanes, mask_of};
use super::ready::{Instruction, NOWHERE};
use super::registers::{Slot, Value};
use super::warp::Warp;

/// Executes an instruction for the warp's lanes at hand; gives the number of the next one, or [`super::warp::STOP`].
///
/// # Safety
/// The instruction's slots are in the registers of the warp's frame at hand, as wide as the handler wants them.
pub type Handler = unsafe fn(&mut Warp, &Instruction, u32) -> u32;

/// The vector instructions that handlers are compiled for.
pub trait Isa: 'static {
    /// Runs code that was compiled for them.
    ///
    /// # Safety
    /// The processor has them.
    unsafe fn with<R>(f: impl FnOnce() -> R) -> R;
}

/// What every processor of its kind has.
pub enum Plain {}

impl Isa for Plain {
    #[inline(always)]
    unsafe fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
pub enum Avx2 {}

#[cfg(target_arch = "x86_64")]
impl Isa for Avx2 {
    #[inline(always)]
    unsafe fn with<R>(f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn inner<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: the caller says that the processor has them.
        unsafe { inner(f) }
    }
}

/// AVX-512 with bytes, words, double words and shorter vectors.
#[cfg(target_arch = "x86_64")]
pub enum Avx512 {}

#[cfg(target_arch = "x86_64")]
impl Isa for Avx512 {
    #[inline(always)]
    unsafe fn with<R>(f: impl FnOnce() -> R) -> R {
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn inner<R>(f: impl FnOnce() -> R) -> R {
            f()
        }
        // SAFETY: as above.
        unsafe { inner(f) }
    }
}

/// The vector instructions to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Vectors {
    /// None: one lane at a time, from each operation's description. It is slow, and what the others are tested against.
    OneByOne,
    /// What every processor has.
    Plain,
    /// AVX2 and FMA.
    Avx2,
    /// AVX-512.
    Avx512,
}

impl Vectors {
    /// All that this processor has, the best ones first.
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
    #[allow(missing_docs)] // what its type is named after
    fn of(a: A) -> R;
}

/// An operation on two numbers.
pub trait Two<A, R> {
    #[allow(missing_docs)] // what its type is named after
    fn of(a: A, b: A) -> R;
}

/// An operation on three numbers.
pub trait Three<A, R> {
    #[allow(missing_docs)] // what its type is named after
    fn of(a: A, b: A, c: A) -> R;
}

#[inline(always)]
fn each<R: Copy + Default>(f: impl Fn(usize) -> R) -> Lanes<R> {
    let mut values = [R::default(); LANES];
    for (lane, value) in values.iter_mut().enumerate() {
        *value = f(lane);
    }
    values
}

/// # Safety
/// As for every [`Handler`], on a processor with these vectors. This holds for all handlers below.
pub unsafe fn one<I: Isa, A: Value, R: Value + Default, F: One<A, R>>(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: lowering gives slots of these types, and chooses vectors that the processor has.
    unsafe {
        I::with(|| {
            let a = w.registers.read::<A>(i.a);
            w.registers.write(i.to, &each(|lane| F::of(a[lane])), w.mask);
        });
    }
    at + 1
}

/// # Safety
/// As for [`one`].
pub unsafe fn two<I: Isa, A: Value, R: Value + Default, F: Two<A, R>>(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as above.
    unsafe {
        I::with(|| {
            let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
            w.registers.write(i.to, &each(|lane| F::of(a[lane], b[lane])), w.mask);
        });
    }
    at + 1
}

/// # Safety
/// As for [`one`].
pub unsafe fn three<I: Isa, A: Value, R: Value + Default, F: Three<A, R>>(
    w: &mut Warp,
    i: &Instruction,
    at: u32,
) -> u32 {
    // SAFETY: as above.
    unsafe {
        I::with(|| {
            let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
            let c = w.registers.read::<A>(i.c);
            w.registers.write(i.to, &each(|lane| F::of(a[lane], b[lane], c[lane])), w.mask);
        });
    }
    at + 1
}

/// Compares two numbers; the result is a predicate.
///
/// # Safety
/// As for [`one`].
pub unsafe fn test<I: Isa, A: Value, F: Two<A, bool>>(w: &mut Warp, i: &Instruction, at: u32) -> u32 {
    // SAFETY: as above.
    unsafe {
        I::with(|| {
            let (a, b) = (w.registers.read::<A>(i.a), w.registers.read::<A>(i.b));
            w.registers.set_predicate(i.to, mask_of(|lane| F::of(a[lane], b[lane])), w.mask);
        });
    }
    at + 1
}

/// Writes values to a slot, unless nothing reads the result.
///
/// # Safety
/// As for [`one`].
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
        #[allow(missing_docs)] // named after what it does
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
