//! The CUDA driver that the program has: copies in stream order into memory of the host's. It is looked for when it is first needed, in
//! what is loaded by then, and never linked or opened.
#![allow(unsafe_code)] // a driver is called

use crate::loaded;
use std::collections::HashMap;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

const SUCCESS: c_int = 0;
/// Memory that all contexts may copy to.
const PORTABLE: c_uint = 1;
/// Calls that other threads' captures would not allow are allowed to this one.
const RELAXED: c_int = 2;
/// Bytes of the least buffer, and of what is allocated at once.
const LEAST: usize = 1 << 10;
const SLAB: usize = 1 << 20;
/// Bytes of the host's memory that a process uses for copies that are under way, and for those of captured graphs.
const MOST: usize = 256 << 20;

type HostFunction = unsafe extern "C" fn(*mut c_void);

/// The functions that are used. Handles of streams are passed as the program gave them, so that those which stand for default streams
/// keep their meaning.
pub struct Driver {
    copy: unsafe extern "C" fn(*mut c_void, u64, usize, *mut c_void) -> c_int,
    host_alloc: unsafe extern "C" fn(*mut *mut c_void, usize, c_uint) -> c_int,
    launch_host: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
    device: unsafe extern "C" fn(*mut c_int) -> c_int,
    retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int,
    push: unsafe extern "C" fn(*mut c_void) -> c_int,
    pop: unsafe extern "C" fn(*mut *mut c_void) -> c_int,
    is_capturing: Option<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>,
    exchange_mode: Option<unsafe extern "C" fn(*mut c_int) -> c_int>,
    buffers: Mutex<Buffers>,
    /// The primary context of each device.
    contexts: Mutex<HashMap<c_int, usize>>,
}

#[derive(Default)]
struct Buffers {
    /// Free ones, by size.
    free: HashMap<usize, Vec<usize>>,
    allocated: usize,
}

/// Memory that a driver copies to. It is never given back to the driver: that could wait for work that waits for this process.
#[derive(Debug)]
pub struct Buffer {
    address: usize,
    size: usize,
    pub len: usize,
}

impl Buffer {
    /// What was copied.
    ///
    /// # Safety
    ///
    /// The copies to it have ended, and no others begin before the slice is gone.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the driver allocated at least this much, zeroed or not: any byte is a byte.
        unsafe { std::slice::from_raw_parts(with_exposed_provenance_mut::<u8>(self.address), self.len) }
    }
}

/// Why nothing was copied.
#[derive(Clone, Copy, Debug)]
pub enum NotCopied {
    /// Too much is under way.
    Memory,
    /// The driver's error.
    Driver(c_int),
}

/// The driver, if the process has one.
pub fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    if DRIVER.get().is_none() {
        // Another thread may have been faster.
        let _ = DRIVER.set(found()?);
    }
    DRIVER.get()
}

fn found() -> Option<Driver> {
    // SAFETY: the types are those of CUDA's interface.
    unsafe {
        Some(Driver {
            copy: loaded::function(c"cuMemcpyDtoHAsync_v2")?,
            host_alloc: loaded::function(c"cuMemHostAlloc")?,
            launch_host: loaded::function(c"cuLaunchHostFunc")?,
            device: loaded::function(c"cuCtxGetDevice")?,
            retain: loaded::function(c"cuDevicePrimaryCtxRetain")?,
            push: loaded::function(c"cuCtxPushCurrent_v2")?,
            pop: loaded::function(c"cuCtxPopCurrent_v2")?,
            is_capturing: loaded::function(c"cuStreamIsCapturing"),
            exchange_mode: loaded::function(c"cuThreadExchangeStreamCaptureMode"),
            buffers: Mutex::default(),
            contexts: Mutex::default(),
        })
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn checked(code: c_int) -> Result<(), NotCopied> {
    if code == SUCCESS { Ok(()) } else { Err(NotCopied::Driver(code)) }
}

impl Driver {
    /// Does `f` with a context of this device: a group's calls may come from a thread with another.
    pub fn on_device<T>(&self, device: c_int, f: impl FnOnce() -> Result<T, NotCopied>) -> Result<T, NotCopied> {
        let mut current = -1;
        // SAFETY: a place for a number.
        if unsafe { (self.device)(&mut current) } == SUCCESS && current == device {
            return f();
        }
        let known = locked(&self.contexts).get(&device).copied();
        let context = match known {
            Some(context) => with_exposed_provenance_mut(context),
            None => {
                let mut context = null_mut();
                // SAFETY: a place for a handle. It is never released: NCCL holds the same context.
                checked(unsafe { (self.retain)(&mut context, device) })?;
                locked(&self.contexts).insert(device, context.expose_provenance());
                context
            }
        };
        // SAFETY: a context that was retained.
        checked(unsafe { (self.push)(context) })?;
        let done = f();
        // SAFETY: takes away what was pushed, on the same thread.
        unsafe { (self.pop)(&mut null_mut()) };
        done
    }

    /// True if work on the stream becomes part of a graph.
    pub fn is_capturing(&self, stream: *mut c_void) -> bool {
        let mut status = 0;
        // SAFETY: the program's stream, and a place for a number.
        self.is_capturing.is_some_and(|ask| unsafe { ask(stream, &mut status) } == SUCCESS && status != 0)
    }

    /// A buffer of this length. The device's context must be current.
    pub fn buffer(&self, len: usize) -> Result<Buffer, NotCopied> {
        let size = len.max(LEAST).checked_next_power_of_two().ok_or(NotCopied::Memory)?;
        {
            let mut buffers = locked(&self.buffers);
            if let Some(address) = buffers.free.get_mut(&size).and_then(Vec::pop) {
                return Ok(Buffer { address, size, len });
            }
            let more = size.max(SLAB);
            if buffers.allocated + more > MOST {
                return Err(NotCopied::Memory);
            }
            buffers.allocated += more;
        }
        // Not under the lock: the driver may wait for a host function, which gives a buffer back.
        let slab = self.allocate(size.max(SLAB))?;
        let mut buffers = locked(&self.buffers);
        buffers.free.entry(size).or_default().extend((1..size.max(SLAB) / size).map(|at| slab + at * size));
        Ok(Buffer { address: slab, size, len })
    }

    fn allocate(&self, len: usize) -> Result<usize, NotCopied> {
        let exchange = |mode: &mut c_int| {
            // SAFETY: a place for a mode, which is one of the three.
            self.exchange_mode.map(|exchange| unsafe { exchange(mode) })
        };
        let mut mode = RELAXED;
        exchange(&mut mode);
        let mut place = null_mut();
        // SAFETY: a place for an address.
        let code = unsafe { (self.host_alloc)(&mut place, len, PORTABLE) };
        exchange(&mut mode);
        checked(code)?;
        Ok(place.expose_provenance())
    }

    /// Makes the buffer free for other copies.
    pub fn give_back(&self, buffer: &Buffer) {
        locked(&self.buffers).free.entry(buffer.size).or_default().push(buffer.address);
    }

    /// Enqueues a copy of `len` bytes to a place of the buffer.
    ///
    /// # Safety
    ///
    /// The stream is the program's, on the current context's device, and the program lets work on it read these bytes.
    pub unsafe fn copy(
        &self,
        to: &Buffer,
        at: usize,
        from: u64,
        len: usize,
        stream: *mut c_void,
    ) -> Result<(), NotCopied> {
        if at.checked_add(len).is_none_or(|end| end > to.len) {
            return Err(NotCopied::Memory);
        }
        // SAFETY: the target is inside the buffer; the caller vouches for the rest.
        checked(unsafe { (self.copy)(with_exposed_provenance_mut(to.address + at), from, len, stream) })
    }

    /// Calls a function when the stream has come so far.
    ///
    /// # Safety
    ///
    /// The stream is the program's; `function` may be called with `data` from any thread, more than once if the stream is captured.
    pub unsafe fn then(&self, stream: *mut c_void, function: HostFunction, data: *mut c_void) -> Result<(), NotCopied> {
        // SAFETY: as the caller says.
        checked(unsafe { (self.launch_host)(stream, function, data) })
    }
}
