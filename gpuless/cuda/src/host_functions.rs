//! The functions of a library's host code that are entered, noted by breakpoints that are taken out when they are met.
//!
//! A library has thousands of functions, of which a collective enters hundreds, some of them millions of times. A breakpoint costs one signal,
//! and from then on its function runs at full speed.
//!
//! Once breakpoints have been set, the code stays writable, because the signal's handler has no way to report that it could not be made so. That is
//! acceptable only in a process that measures. A thread that blocks the signal would be killed by the first breakpoint it meets; no
//! such thread enters NCCL.
#![allow(unsafe_code)] // a library's code is changed while it runs

use crate::large_memory::page_size;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// `int3`, the breakpoint of one byte: no other instruction fits in front of every function.
const BREAKPOINT: u8 = 0xcc;

/// The functions whose entries are noted.
struct Noted {
    /// In ascending order.
    addresses: Box<[usize]>,
    /// The first byte of each function, as it is without a breakpoint.
    bytes: Box<[u8]>,
    entered: Box<[AtomicBool]>,
}

/// The first library that is asked about: a process has one NCCL.
static NOTED: OnceLock<Noted> = OnceLock::new();

/// From now on the entries of these functions are noted, and none that were noted before.
///
/// # Errors
///
/// Their code cannot be made writable, or the signal has no handler.
///
/// # Safety
///
/// Each address is that of the first instruction of a function, in code of a library that stays loaded. The functions are the same in
/// every call of a process.
pub unsafe fn note(functions: impl Iterator<Item = usize>) -> io::Result<()> {
    let noted = match NOTED.get() {
        Some(noted) => noted,
        None => {
            let mut addresses: Vec<usize> = functions.collect();
            addresses.sort_unstable();
            addresses.dedup();
            // SAFETY: the caller promises that this is code.
            let here = |address: &usize| unsafe { byte(*address) }.load(Ordering::Relaxed);
            // A breakpoint that is there already could not be told from one of ours.
            addresses.retain(|address| here(address) != BREAKPOINT);
            let bytes = addresses.iter().map(here).collect();
            handle_breakpoints()?;
            make_writable(&addresses)?;
            let entered = addresses.iter().map(|_| AtomicBool::new(false)).collect();
            NOTED.get_or_init(|| Noted { addresses: addresses.into(), bytes, entered })
        }
    };
    for (address, entered) in noted.addresses.iter().zip(&noted.entered) {
        entered.store(false, Ordering::Relaxed);
        // SAFETY: it is code that was made writable. A thread that runs through it sees one byte or the other.
        unsafe { byte(*address) }.store(BREAKPOINT, Ordering::Release);
    }
    Ok(())
}

/// The numbers of the functions that were entered, in the order of their addresses.
pub fn entered() -> Vec<u32> {
    let entered = NOTED.get().map_or(&[][..], |noted| &noted.entered);
    (0..).zip(entered).filter(|(_, entered)| entered.load(Ordering::Relaxed)).map(|(number, _)| number).collect()
}

/// # Safety
///
/// The address stays mapped and readable. It can also be written to if the caller stores something there.
unsafe fn byte(address: usize) -> &'static AtomicU8 {
    // SAFETY: the caller promises it.
    unsafe { AtomicU8::from_ptr(address as *mut u8) }
}

/// Makes the pages of these addresses, which are in ascending order, writable besides what they are.
fn make_writable(addresses: &[usize]) -> io::Result<()> {
    let (size, mut next) = (page_size(), 0);
    for address in addresses {
        let page = address / size * size;
        if page < next {
            continue;
        }
        next = page + size;
        // SAFETY: a page of code, as the caller of `note` promises; no right of it is taken away.
        let code =
            unsafe { libc::mprotect(page as *mut _, size, libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) };
        if code != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(not(target_arch = "x86_64"))]
fn handle_breakpoints() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
fn handle_breakpoints() -> io::Result<()> {
    // SAFETY: a structure of numbers, for which zeros are valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = met as *const () as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    // SAFETY: the action is complete, and the handler calls only what a handler may.
    let code = unsafe { libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A thread has met a breakpoint: takes it out, and lets the thread execute what stood there.
#[cfg(target_arch = "x86_64")]
extern "C" fn met(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the system passes the thread's registers, which belong to the handler until it returns.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let counter = &mut registers[libc::REG_RIP as usize];
    let address = (*counter as usize).wrapping_sub(1);
    let found = NOTED.get().and_then(|noted| Some((noted, noted.addresses.binary_search(&address).ok()?)));
    let Some((noted, number)) = found else {
        // Somebody else's breakpoint: it ends the process, as it would have without this handler.
        // SAFETY: both are allowed in a handler.
        unsafe {
            libc::signal(libc::SIGTRAP, libc::SIG_DFL);
            libc::raise(libc::SIGTRAP);
        }
        return;
    };
    noted.entered[number].store(true, Ordering::Relaxed);
    // SAFETY: as in `note`. Another thread that has met the same one writes the same byte.
    unsafe { byte(address) }.store(noted.bytes[number], Ordering::Release);
    *counter = address as i64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attach::executable;

    #[test]
    fn functions_that_are_entered_are_noted_once_each_time() {
        // `mov eax, number; ret`, 16 bytes each.
        let code: Vec<u8> = (1_u8..=3)
            .flat_map(|number| {
                let mut function = vec![0xb8, number, 0, 0, 0, 0xc3];
                function.resize(16, 0x90);
                function
            })
            .collect();
        let start = executable(&code).unwrap();
        let functions = || [2, 0, 1].into_iter().map(|number| start + 16 * number);
        let call = move |number: usize| {
            // SAFETY: the code above, which takes nothing and returns a number.
            let function: extern "C" fn() -> i32 = unsafe { std::mem::transmute(start + 16 * number) };
            function()
        };
        // SAFETY: the functions above.
        unsafe { note(functions()) }.unwrap();
        assert_eq!(entered(), []);
        assert_eq!([call(2), call(0), call(2)], [3, 1, 3], "they do what they did");
        assert_eq!(entered(), [0, 2]);
        // SAFETY: as above.
        unsafe { note(functions()) }.unwrap();
        let threads: Vec<_> = (0..4).map(|_| std::thread::spawn(move || call(1))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 2), "several threads at the same time");
        assert_eq!(entered(), [1]);
    }
}
