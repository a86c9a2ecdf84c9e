//! The processor's rounding mode while kernels run. It is the one that PTX assumes, whatever the calling thread or the thread that started the
//! pool had set.
#![allow(unsafe_code)] // the processor's register for this is set, and set back

/// Rounds to the nearest, keeps subnormal numbers, and traps nothing.
#[cfg(target_arch = "x86_64")]
const DEFAULT: u32 = 0x1f80;

/// Restores the thread's earlier mode.
#[cfg(target_arch = "x86_64")]
struct Before(u32);

#[cfg(target_arch = "x86_64")]
impl Drop for Before {
    fn drop(&mut self) {
        set(self.0);
    }
}

#[cfg(target_arch = "x86_64")]
fn set(control: u32) {
    // SAFETY: the values are the default, and the one that was read before.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, readonly)) };
}

/// Calls `f` with the default rounding.
#[cfg(target_arch = "x86_64")]
pub fn with_default_rounding<T>(f: impl FnOnce() -> T) -> T {
    let mut control = 0u32;
    // SAFETY: it writes four bytes to a number of this thread's.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack)) };
    let before = Before(control);
    set(DEFAULT);
    let result = f();
    drop(before);
    result
}

/// Calls `f`; other processors are left as they are.
#[cfg(not(target_arch = "x86_64"))]
pub fn with_default_rounding<T>(f: impl FnOnce() -> T) -> T {
    f()
}
