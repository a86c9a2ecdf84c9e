//! Words that kernels read and write at addresses of the host, each in one access.
#![allow(unsafe_code)] // kernels have addresses, which are those of the host

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// A value that is read or written in one access: a whole number of at most 16 bytes, which is not torn. A read happens before all
/// later accesses, and a write after all earlier ones.
pub trait Word: Copy + Default {
    /// # Safety
    /// The address was admitted for the size of the value.
    unsafe fn load(address: u64) -> Self;
    /// # Safety
    /// The address was admitted for the size of the value.
    unsafe fn store(address: u64, value: Self);
}

macro_rules! words {
    ($($ty:ty, $atomic:ty;)*) => {$(
        impl Word for $ty {
            #[inline(always)]
            unsafe fn load(address: u64) -> Self {
                // SAFETY: the bytes lie in a region whose owner has promised that they are readable, and the address is aligned.
                unsafe { (*(address as usize as *const $atomic)).load(Ordering::Acquire) }
            }
            #[inline(always)]
            unsafe fn store(address: u64, value: Self) {
                // SAFETY: likewise, and writable.
                unsafe { (*(address as usize as *const $atomic)).store(value, Ordering::Release) }
            }
        }
    )*};
}
words! {
    u8, AtomicU8;
    u16, AtomicU16;
    u32, AtomicU32;
    u64, AtomicU64;
}

impl Word for u128 {
    #[inline(always)]
    unsafe fn load(address: u64) -> Self {
        // SAFETY: as for the others.
        unsafe { wide::load(address as usize as *const u128) }
    }
    #[inline(always)]
    unsafe fn store(address: u64, value: Self) {
        // SAFETY: as for the others.
        unsafe { wide::store(address as usize as *mut u128, value) }
    }
}

/// Reads a word of 1, 2, 4, 8 or 16 bytes.
///
/// # Safety
/// As for [`Word::load`].
pub unsafe fn load_bits(address: u64, bytes: u32) -> u128 {
    // SAFETY: as the caller says.
    unsafe {
        match bytes {
            1 => u128::from(u8::load(address)),
            2 => u128::from(u16::load(address)),
            4 => u128::from(u32::load(address)),
            8 => u128::from(u64::load(address)),
            _ => u128::load(address),
        }
    }
}

/// Writes such a word.
///
/// # Safety
/// As for [`Word::store`].
pub unsafe fn store_bits(address: u64, bytes: u32, value: u128) {
    // SAFETY: as the caller says.
    unsafe {
        match bytes {
            1 => u8::store(address, value as u8),
            2 => u16::store(address, value as u16),
            4 => u32::store(address, value as u32),
            8 => u64::store(address, value as u64),
            _ => u128::store(address, value),
        }
    }
}

/// Replaces 2, 4 or 8 bytes by the result of `f` on them, atomically; returns the old value.
///
/// # Safety
/// The address was admitted for `bytes` bytes.
pub unsafe fn update(address: u64, bytes: u32, f: impl Fn(u64) -> u64) -> u64 {
    let order = Ordering::SeqCst;
    // SAFETY: as for a store.
    unsafe {
        if bytes == 2 {
            let cell = &*(address as usize as *const AtomicU16);
            cell.fetch_update(order, order, |old| Some(f(u64::from(old)) as u16)).map(u64::from).unwrap_or_default()
        } else if bytes == 4 {
            let cell = &*(address as usize as *const AtomicU32);
            cell.fetch_update(order, order, |old| Some(f(u64::from(old)) as u32)).map(u64::from).unwrap_or_default()
        } else {
            let cell = &*(address as usize as *const AtomicU64);
            cell.fetch_update(order, order, |old| Some(f(old))).unwrap_or_default()
        }
    }
}

#[cfg(target_arch = "x86_64")]
pub use wide::{load_quad, store_quad};

/// Accesses of 16 bytes.
#[cfg(target_arch = "x86_64")]
mod wide {
    use std::arch::asm;
    use std::arch::x86_64::__m128i;

    /// # Safety
    /// The address was admitted for 16 bytes.
    #[inline(always)]
    pub unsafe fn load_quad(from: u64) -> __m128i {
        let value: __m128i;
        // SAFETY: the caller vouches for the address. Aligned accesses of 16 bytes are not torn on processors with AVX.
        unsafe {
            asm!("movdqa {}, [{}]", out(xmm_reg) value, in(reg) from, options(nostack, readonly, preserves_flags));
        }
        value
    }

    /// # Safety
    /// The address was admitted for 16 bytes.
    #[inline(always)]
    pub unsafe fn store_quad(to: u64, value: __m128i) {
        // SAFETY: as for `load_quad`.
        unsafe {
            asm!("movdqa [{}], {}", in(reg) to, in(xmm_reg) value, options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As for [`load_quad`].
    pub unsafe fn load(from: *const u128) -> u128 {
        // SAFETY: as the caller says; any bits are a number.
        unsafe { std::mem::transmute(load_quad(from as u64)) }
    }

    /// # Safety
    /// As for [`store_quad`].
    pub unsafe fn store(to: *mut u128, value: u128) {
        // SAFETY: as for `load`.
        unsafe { store_quad(to as u64, std::mem::transmute::<u128, __m128i>(value)) }
    }
}

/// Accesses of 16 bytes: on other processors in two halves, the flags of NCCL's protocols being in the upper one.
#[cfg(not(target_arch = "x86_64"))]
mod wide {
    use std::sync::atomic::{AtomicU64, Ordering};

    /// # Safety
    /// The address is aligned and readable.
    pub unsafe fn load(from: *const u128) -> u128 {
        // SAFETY: the caller vouches for both halves.
        let [low, high] = unsafe { &*from.cast::<[AtomicU64; 2]>() };
        let upper = high.load(Ordering::Acquire);
        u128::from(upper) << 64 | u128::from(low.load(Ordering::Relaxed))
    }

    /// # Safety
    /// The address is aligned and writable.
    pub unsafe fn store(to: *mut u128, value: u128) {
        // SAFETY: the caller vouches for both halves.
        let [low, high] = unsafe { &*to.cast::<[AtomicU64; 2]>() };
        low.store(value as u64, Ordering::Relaxed);
        high.store((value >> 64) as u64, Ordering::Release);
    }
}
