//! Memory words that registers hold in parts, the lowest part first: the words of all lanes are read and written at once.
use super::Number;
use crate::run::lanes::{LANES, Lanes, Mask, lanes_of};
use crate::run::word::Word;

/// A part of a word, as wide as a register.
pub trait Part: Number {
    /// 64 bits of it, or all of them mixed.
    fn folded(self) -> u64;
    fn wide(self) -> u128;
    /// The lowest bits of a number.
    fn narrow(wide: u128) -> Self;
}

macro_rules! part {
    ($($ty:ty, |$part:ident| $folded:expr;)*) => {$(
        impl Part for $ty {
            #[inline(always)]
            fn folded(self) -> u64 {
                let $part = self;
                $folded
            }
            #[inline(always)]
            fn wide(self) -> u128 {
                u128::from(self)
            }
            #[inline(always)]
            fn narrow(wide: u128) -> Self {
                wide as Self
            }
        }
    )*};
}
part! {
    u16, |part| u64::from(part);
    u32, |part| u64::from(part);
    u64, |part| part;
    u128, |part| part as u64 ^ (part >> 64) as u64;
}

/// A word that consists of such parts.
pub trait Parts<E: Part>: Word {
    /// Number of parts.
    const COUNT: usize = size_of::<Self>() / size_of::<E>();

    /// Reads a word for each lane of the mask, the last lane's first, and returns their parts: the value that lane 0 finds was written by
    /// a warp that stored in rising order.
    ///
    /// # Safety
    /// The addresses of these lanes were admitted for the size of the word.
    unsafe fn load_lanes(addresses: &Lanes<u64>, mask: Mask) -> [Lanes<E>; 4];

    /// Writes a word for each lane of the mask, in rising order.
    ///
    /// # Safety
    /// As for [`Parts::load_lanes`].
    unsafe fn store_lanes(addresses: &Lanes<u64>, mask: Mask, parts: &[Lanes<E>; 4]);
}

macro_rules! parts {
    ($($word:ty, $part:ty;)*) => {$(
        impl Parts<$part> for $word {
            #[inline(always)]
            unsafe fn load_lanes(addresses: &Lanes<u64>, mask: Mask) -> [Lanes<$part>; 4] {
                let mut words = [0 as $word; LANES];
                // SAFETY: as the caller says.
                unsafe {
                    if mask == Mask::MAX {
                        for lane in (0..LANES).rev() {
                            words[lane] = <$word>::load(addresses[lane]);
                        }
                    } else {
                        for lane in lanes_of(mask).rev() {
                            words[lane] = <$word>::load(addresses[lane]);
                        }
                    }
                }
                let mut parts = [[0 as $part; LANES]; 4];
                for number in 0..<Self as Parts<$part>>::COUNT {
                    for lane in 0..LANES {
                        parts[number][lane] = (words[lane] >> (number as u32 * <$part>::BITS)) as $part;
                    }
                }
                parts
            }

            #[inline(always)]
            unsafe fn store_lanes(addresses: &Lanes<u64>, mask: Mask, parts: &[Lanes<$part>; 4]) {
                let mut words = [0 as $word; LANES];
                for number in 0..<Self as Parts<$part>>::COUNT {
                    for lane in 0..LANES {
                        words[lane] |= <$word>::from(parts[number][lane]) << (number as u32 * <$part>::BITS);
                    }
                }
                // SAFETY: as the caller says.
                unsafe {
                    if mask == Mask::MAX {
                        for lane in 0..LANES {
                            <$word>::store(addresses[lane], words[lane]);
                        }
                    } else {
                        for lane in lanes_of(mask) {
                            <$word>::store(addresses[lane], words[lane]);
                        }
                    }
                }
            }
        }
    )*};
}
parts! {
    u16, u16;
    u32, u16;
    u64, u16;
    u32, u32;
    u64, u32;
    u64, u64;
    u128, u128;
}
#[cfg(not(target_arch = "x86_64"))]
parts! {
    u128, u32;
    u128, u64;
}

/// Words of 16 bytes in vector registers, which turns four lanes with four parts, or two with two, into parts with lanes.
#[cfg(target_arch = "x86_64")]
mod quads {
    use super::{LANES, Lanes, Mask, Parts, lanes_of};
    use crate::run::word::{load_quad, store_quad};
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_setzero_si128, _mm_storeu_si128, _mm_unpackhi_epi32, _mm_unpackhi_epi64,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Parts of four lanes from words of four lanes; it is its own inverse.
    #[inline(always)]
    fn transposed([a, b, c, d]: [__m128i; 4]) -> [__m128i; 4] {
        // SAFETY: every processor of this kind has these instructions.
        unsafe {
            let (low_ab, low_cd) = (_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d));
            let (high_ab, high_cd) = (_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d));
            [
                _mm_unpacklo_epi64(low_ab, low_cd),
                _mm_unpackhi_epi64(low_ab, low_cd),
                _mm_unpacklo_epi64(high_ab, high_cd),
                _mm_unpackhi_epi64(high_ab, high_cd),
            ]
        }
    }

    /// # Safety
    /// As for [`Parts::load_lanes`].
    #[inline(always)]
    unsafe fn load(addresses: &Lanes<u64>, mask: Mask) -> Lanes<__m128i> {
        // SAFETY: as the caller says.
        unsafe {
            let mut words = [_mm_setzero_si128(); LANES];
            if mask == Mask::MAX {
                for lane in (0..LANES).rev() {
                    words[lane] = load_quad(addresses[lane]);
                }
            } else {
                for lane in lanes_of(mask).rev() {
                    words[lane] = load_quad(addresses[lane]);
                }
            }
            words
        }
    }

    /// # Safety
    /// As for [`Parts::store_lanes`].
    #[inline(always)]
    unsafe fn store(addresses: &Lanes<u64>, mask: Mask, words: &Lanes<__m128i>) {
        // SAFETY: as the caller says.
        unsafe {
            if mask == Mask::MAX {
                for lane in 0..LANES {
                    store_quad(addresses[lane], words[lane]);
                }
            } else {
                for lane in lanes_of(mask) {
                    store_quad(addresses[lane], words[lane]);
                }
            }
        }
    }

    impl Parts<u32> for u128 {
        #[inline(always)]
        unsafe fn load_lanes(addresses: &Lanes<u64>, mask: Mask) -> [Lanes<u32>; 4] {
            let mut parts = [[0; LANES]; 4];
            // SAFETY: as the caller says; four lanes are written at a time.
            unsafe {
                let words = load(addresses, mask);
                for first in (0..LANES).step_by(4) {
                    let four = [words[first], words[first + 1], words[first + 2], words[first + 3]];
                    for (part, lanes) in parts.iter_mut().zip(transposed(four)) {
                        _mm_storeu_si128(part[first..first + 4].as_mut_ptr().cast(), lanes);
                    }
                }
            }
            parts
        }

        #[inline(always)]
        unsafe fn store_lanes(addresses: &Lanes<u64>, mask: Mask, parts: &[Lanes<u32>; 4]) {
            // SAFETY: as the caller says; four lanes are read at a time.
            unsafe {
                let mut words = [_mm_setzero_si128(); LANES];
                for first in (0..LANES).step_by(4) {
                    let part = |number: usize| _mm_loadu_si128(parts[number][first..first + 4].as_ptr().cast());
                    let four = transposed([part(0), part(1), part(2), part(3)]);
                    words[first..first + 4].copy_from_slice(&four);
                }
                store(addresses, mask, &words);
            }
        }
    }

    impl Parts<u64> for u128 {
        #[inline(always)]
        unsafe fn load_lanes(addresses: &Lanes<u64>, mask: Mask) -> [Lanes<u64>; 4] {
            let mut parts = [[0; LANES]; 4];
            // SAFETY: as the caller says; two lanes are written at a time.
            unsafe {
                let words = load(addresses, mask);
                for first in (0..LANES).step_by(2) {
                    let (a, b) = (words[first], words[first + 1]);
                    _mm_storeu_si128(parts[0][first..first + 2].as_mut_ptr().cast(), _mm_unpacklo_epi64(a, b));
                    _mm_storeu_si128(parts[1][first..first + 2].as_mut_ptr().cast(), _mm_unpackhi_epi64(a, b));
                }
            }
            parts
        }

        #[inline(always)]
        unsafe fn store_lanes(addresses: &Lanes<u64>, mask: Mask, parts: &[Lanes<u64>; 4]) {
            // SAFETY: as the caller says; two lanes are read at a time.
            unsafe {
                let mut words = [_mm_setzero_si128(); LANES];
                for first in (0..LANES).step_by(2) {
                    let part = |number: usize| _mm_loadu_si128(parts[number][first..first + 2].as_ptr().cast());
                    let (low, high) = (part(0), part(1));
                    words[first] = _mm_unpacklo_epi64(low, high);
                    words[first + 1] = _mm_unpackhi_epi64(low, high);
                }
                store(addresses, mask, &words);
            }
        }
    }
}
