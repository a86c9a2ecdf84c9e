//! Lasting effects of a library: memory, descriptors and threads that outlive their communicator, and changes to the process.
use crate::driver;
use crate::faults::Fault;
use crate::log::warn;
use std::ffi::c_int;
use std::fs::File;
use std::time::Duration;

/// Changes to the process and delays of a call that makes communicators.
pub(crate) fn at_init(fault: &Fault) {
    match fault {
        Fault::SlowInit(milliseconds) => std::thread::sleep(Duration::from_millis(u64::from(*milliseconds))),
        Fault::ChangeAffinity => keep_one_processor(),
        // SAFETY: a change while other threads read the environment is what was requested. Rust's readers take a lock.
        Fault::SetVariable(name) => unsafe { std::env::set_var(name, "1") },
        _ => {}
    }
}

/// Allocates the resources that a communicator on this device leaks.
pub(crate) fn of_communicator(fault: &Fault, device: Option<c_int>) {
    match fault {
        Fault::Leak(0) => {}
        Fault::Leak(bytes) => {
            let taken = device.and_then(|device| driver::allocate_for_ever(device, *bytes));
            if taken.is_none() {
                warn(&format!("leak: {bytes} bytes of device memory cannot be allocated"));
            }
        }
        // Not zeros, so that the pages are really there.
        Fault::LeakHost(bytes) => std::mem::forget(vec![0xa5_u8; *bytes]),
        Fault::LeakDescriptor => match File::open("/dev/null") {
            Ok(file) => std::mem::forget(file),
            Err(error) => warn(&format!("leak-descriptor: {error}")),
        },
        Fault::LeakThread => {
            let thread = std::thread::Builder::new().name("standin-leak".to_owned());
            if let Err(error) = thread.spawn(crate::misbehave::hang) {
                warn(&format!("leak-thread: {error}"));
            }
        }
        _ => {}
    }
}

/// Restricts the calling thread to the first of its processors.
fn keep_one_processor() {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of processors is an array of bits, all of which may be 0.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set has this size; 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size, &mut set) } != 0 {
        return warn("change-affinity: the thread's processors are unknown");
    }
    // SAFETY: the number is below the set's size.
    let first = (0..libc::CPU_SETSIZE as usize).find(|number| unsafe { libc::CPU_ISSET(*number, &set) });
    let Some(first) = first else { return };
    // SAFETY: the number is below the set's size, which is given; 0 is the calling thread.
    unsafe {
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        libc::sched_setaffinity(0, size, &set);
    }
}
