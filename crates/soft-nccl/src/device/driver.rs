//! A CUDA driver that the process has loaded, and the stand-in's extension of it.
#![allow(unsafe_code)] // a CUDA driver is called

use crate::failure::{Failure, Outcome};
use gpuless_device::Activity;
use nccl_sys::ncclResult_t;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{without_provenance, without_provenance_mut};
use std::sync::{Arc, OnceLock};

const SUCCESS: c_int = 0;
/// No context is current: the CUDA runtime would take device 0.
const INVALID_CONTEXT: c_int = 201;

type HostFunction = unsafe extern "C" fn(data: *mut c_void);
type StartFunction = unsafe extern "C" fn(data: *mut c_void, done: *mut c_void);

type NodeFunction = unsafe extern "C" fn(data: *mut c_void, launch: u64, starts: *mut c_void) -> c_int;
type ReleaseFunction = unsafe extern "C" fn(data: *mut c_void);

/// The function that a stream held through the extension calls when its turn has come.
pub(super) type HeldStart = Box<dyn FnOnce(Token) + Send>;
/// See [`super::CapturedNode`].
pub(super) type HeldNode = Arc<dyn Fn(u64) -> Option<Vec<HeldStart>> + Send + Sync>;

/// The functions required of a driver.
pub(super) struct Driver {
    launch_host: unsafe extern "C" fn(*mut c_void, HostFunction, *mut c_void) -> c_int,
    current: unsafe extern "C" fn(*mut c_int) -> c_int,
    allocate: Option<unsafe extern "C" fn(*mut u64, usize) -> c_int>,
    free: Option<unsafe extern "C" fn(u64) -> c_int>,
    /// Old drivers have no captures.
    is_capturing: Option<unsafe extern "C" fn(*mut c_void, *mut c_int) -> c_int>,
    pub extension: Option<Extension>,
}

/// The additional functions of the stand-in driver.
pub(super) struct Extension {
    open: unsafe extern "C" fn(*mut c_void) -> *mut c_void,
    close: unsafe extern "C" fn(*mut c_void),
    launch: unsafe extern "C" fn(*mut c_void, StartFunction, *mut c_void),
    done: unsafe extern "C" fn(*mut c_void),
    capture: unsafe extern "C" fn(*mut c_void) -> u64,
    capture_node: unsafe extern "C" fn(*mut c_void, NodeFunction, ReleaseFunction, *mut c_void) -> c_int,
    node_start: unsafe extern "C" fn(*mut c_void, StartFunction, *mut c_void),
    contains: unsafe extern "C" fn(*const c_void, usize) -> c_int,
    activity: unsafe extern "C" fn(*mut Activity),
    idle_hook: unsafe extern "C" fn(Option<extern "C" fn()>),
    wake_hosts: unsafe extern "C" fn(),
}

/// The driver, looked for once.
pub(super) fn driver() -> Outcome<&'static Driver> {
    static DRIVER: OnceLock<Outcome<Driver>> = OnceLock::new();
    DRIVER.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn refused(text: impl Into<String>) -> Failure {
    Failure { code: ncclResult_t::UnhandledCudaError, text: text.into() }
}

/// The driver that is in the process already, whichever name it was opened by; else the one that the loader finds.
fn library() -> Outcome<*mut c_void> {
    const NAMES: [&CStr; 2] = [c"libcuda.so.1", c"libcuda.so"];
    for how in [libc::RTLD_NOW | libc::RTLD_NOLOAD, libc::RTLD_NOW] {
        for name in NAMES {
            // SAFETY: a text with its end. The library stays for the process's life, like any other NCCL's driver.
            let handle = unsafe { libc::dlopen(name.as_ptr(), how) };
            if !handle.is_null() {
                return Ok(handle);
            }
        }
    }
    Err(refused("there is no CUDA driver: libcuda.so.1 cannot be loaded"))
}

/// Looks up a function.
///
/// # Safety
/// `F` is the type of the function that has this name in the library.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>(), "a function pointer is wanted") };
    // SAFETY: a live handle and a text with its end.
    let address = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: not null, of this size, and of this type by the caller's promise.
    (!address.is_null()).then(|| unsafe { std::mem::transmute_copy(&address) })
}

fn load() -> Outcome<Driver> {
    let library = library()?;
    let lacks = |name: &str| refused(format!("the CUDA driver has no {name}"));
    // SAFETY: the types are those of CUDA's interface.
    let (init, launch_host, current) = unsafe {
        let init: Option<unsafe extern "C" fn(c_uint) -> c_int> = function(library, c"cuInit");
        (init, function(library, c"cuLaunchHostFunc"), function(library, c"cuCtxGetDevice"))
    };
    let init = init.ok_or_else(|| lacks("cuInit"))?;
    let driver = Driver {
        launch_host: launch_host.ok_or_else(|| lacks("cuLaunchHostFunc"))?,
        current: current.ok_or_else(|| lacks("cuCtxGetDevice"))?,
        // SAFETY: the types are those of CUDA's interface.
        allocate: unsafe { function(library, c"cuMemAlloc_v2") },
        // SAFETY: as above.
        free: unsafe { function(library, c"cuMemFree_v2") },
        // SAFETY: the type is that of CUDA's interface.
        is_capturing: unsafe { function(library, c"cuStreamIsCapturing") },
        extension: extension(library),
    };
    // SAFETY: no pointers are involved.
    match unsafe { init(0) } {
        SUCCESS => Ok(driver),
        code => Err(refused(format!("cuInit answered {code}"))),
    }
}

fn extension(library: *mut c_void) -> Option<Extension> {
    // SAFETY: the types are those of the stand-in's functions of these names.
    unsafe {
        Some(Extension {
            open: function(library, c"collspecStreamOpen")?,
            close: function(library, c"collspecStreamClose")?,
            launch: function(library, c"collspecStreamLaunch")?,
            done: function(library, c"collspecStreamDone")?,
            capture: function(library, c"collspecStreamCapture")?,
            capture_node: function(library, c"collspecStreamCaptureNode")?,
            node_start: function(library, c"collspecNodeStart")?,
            contains: function(library, c"collspecDeviceContains")?,
            activity: function(library, c"collspecDeviceCensus")?,
            idle_hook: function(library, c"collspecDeviceIdleHook")?,
            wake_hosts: function(library, c"collspecDeviceWakeHosts")?,
        })
    }
}

impl Driver {
    /// The number of the calling thread's device.
    pub fn current(&self) -> Outcome<c_int> {
        let mut device = 0;
        // SAFETY: a place for a number.
        match unsafe { (self.current)(&mut device) } {
            SUCCESS => Ok(device),
            INVALID_CONTEXT => Ok(0),
            code => Err(refused(format!("cuCtxGetDevice answered {code}"))),
        }
    }

    /// Allocates memory on the calling thread's device.
    pub fn allocate(&self, len: usize) -> Outcome<usize> {
        let allocate = self.allocate.ok_or_else(|| refused("the CUDA driver has no cuMemAlloc_v2"))?;
        let mut address = 0;
        // SAFETY: a place for an address.
        match unsafe { allocate(&mut address, len) } {
            SUCCESS => usize::try_from(address).map_err(|_| refused("cuMemAlloc_v2 gave no address of this process")),
            code => Err(refused(format!("cuMemAlloc_v2 answered {code}"))),
        }
    }

    /// Frees memory.
    ///
    /// # Safety
    /// `allocate` gave the address, and nothing uses the memory afterwards.
    pub unsafe fn free(&self, address: usize) -> Outcome<()> {
        let free = self.free.ok_or_else(|| refused("the CUDA driver has no cuMemFree_v2"))?;
        // SAFETY: the caller's promise.
        match unsafe { free(address as u64) } {
            SUCCESS => Ok(()),
            code => Err(refused(format!("cuMemFree_v2 answered {code}"))),
        }
    }

    /// A number that is not none if the stream is capturing: that of the stream, as this driver is not asked for more.
    pub fn capture(&self, stream: usize) -> Option<u64> {
        let mut status = 0;
        // SAFETY: a handle that the driver checks, and a place for a number.
        let code = unsafe { (self.is_capturing?)(without_provenance_mut(stream), &mut status) };
        (code == SUCCESS && status != 0).then_some(stream as u64)
    }

    /// Runs `f` on the stream as a host function.
    ///
    /// # Safety
    /// `stream` is the handle of a live stream of this driver, or null.
    pub unsafe fn launch_host(&self, stream: usize, f: Box<dyn FnOnce() + Send>) -> Outcome<()> {
        unsafe extern "C" fn run(data: *mut c_void) {
            // SAFETY: `data` is the box below, and this is called once.
            let f = unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) };
            // a panic must not reach the driver
            let _ = catch_unwind(AssertUnwindSafe(f));
        }
        let data = Box::into_raw(Box::new(f)).cast::<c_void>();
        // SAFETY: the caller vouches for the handle; function and data fit each other.
        let code = unsafe { (self.launch_host)(without_provenance_mut(stream), run, data) };
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: a refused function is never called, so the box is still ours.
        drop(unsafe { Box::from_raw(data.cast::<Box<dyn FnOnce() + Send>>()) });
        Err(refused(format!("cuLaunchHostFunc answered {code}")))
    }
}

/// A stream held through the extension.
pub(super) struct Opened {
    extension: &'static Extension,
    handle: usize,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: the handle is `open`'s and not used again.
        unsafe { (self.extension.close)(std::ptr::with_exposed_provenance_mut(self.handle)) };
    }
}

/// A launched stream's hold.
pub(super) struct Token {
    extension: &'static Extension,
    done: usize,
}

impl Drop for Token {
    fn drop(&mut self) {
        // SAFETY: the token was passed to a start, and is returned once.
        unsafe { (self.extension.done)(std::ptr::with_exposed_provenance_mut(self.done)) };
    }
}

/// The data that the driver passes to a start.
struct Launch {
    extension: &'static Extension,
    start: HeldStart,
}

/// Begins a launch.
///
/// # Safety
/// `data` is a boxed `Launch` that is passed to one such call, and `done` the value that the driver passes to a start.
unsafe extern "C" fn run_launch(data: *mut c_void, done: *mut c_void) {
    // SAFETY: the caller's promise.
    let launch = unsafe { Box::from_raw(data.cast::<Launch>()) };
    let token = Token { extension: launch.extension, done: done.expose_provenance() };
    // a panic must not reach the driver; the token is given back either way
    let _ = catch_unwind(AssertUnwindSafe(|| (launch.start)(token)));
}

/// The data that the driver passes to the functions of `Opened::capture_node`.
struct Node {
    extension: &'static Extension,
    starts: HeldNode,
}

impl Opened {
    /// The number of the stream's capture, if it is capturing.
    pub fn capture(&self) -> Option<u64> {
        // SAFETY: the handle lives until `drop`.
        let id = unsafe { (self.extension.capture)(std::ptr::with_exposed_provenance_mut(self.handle)) };
        (id != 0).then_some(id)
    }

    /// Adds a node to the stream's capture; false if the stream is not capturing.
    pub fn capture_node(&self, starts: HeldNode) -> bool {
        unsafe extern "C" fn launched(data: *mut c_void, launch: u64, starts: *mut c_void) -> c_int {
            // SAFETY: `data` is the box below, which lives until `release` is called.
            let node = unsafe { &*data.cast::<Node>() };
            // a panic must not reach the driver; the launch fails
            let list = catch_unwind(AssertUnwindSafe(|| (node.starts)(launch)));
            let Ok(Some(list)) = list else { return 1 };
            for start in list {
                let data = Box::into_raw(Box::new(Launch { extension: node.extension, start }));
                // SAFETY: the list that was given to this call; the start fits its data.
                unsafe { (node.extension.node_start)(starts, run_launch, data.cast()) };
            }
            0
        }
        unsafe extern "C" fn release(data: *mut c_void) {
            // SAFETY: `data` is the box below, and this is called once.
            let node = unsafe { Box::from_raw(data.cast::<Node>()) };
            let _ = catch_unwind(AssertUnwindSafe(|| drop(node)));
        }
        let data: *mut c_void = Box::into_raw(Box::new(Node { extension: self.extension, starts })).cast();
        let stream = std::ptr::with_exposed_provenance_mut(self.handle);
        // SAFETY: the handle lives until `drop`; the functions fit their data, which the driver releases in any case.
        unsafe { (self.extension.capture_node)(stream, launched, release, data) != 0 }
    }

    pub fn launch(&self, start: HeldStart) {
        let data = Box::into_raw(Box::new(Launch { extension: self.extension, start }));
        // SAFETY: the handle lives until `drop`; the start fits its data.
        unsafe { (self.extension.launch)(std::ptr::with_exposed_provenance_mut(self.handle), run_launch, data.cast()) };
    }
}

impl Extension {
    /// Holds a stream; `None` if the driver does not know it.
    pub fn open(&'static self, stream: *mut c_void) -> Option<Opened> {
        // SAFETY: the driver checks the handle.
        let handle = unsafe { (self.open)(stream) };
        (!handle.is_null()).then(|| Opened { extension: self, handle: handle.expose_provenance() })
    }
    pub fn contains(&self, address: usize, bytes: usize) -> bool {
        // SAFETY: the address is only compared.
        unsafe { (self.contains)(without_provenance(address), bytes) != 0 }
    }
    pub fn activity(&self) -> Activity {
        let mut activity = Activity::default();
        // SAFETY: a place for a census.
        unsafe { (self.activity)(&mut activity) };
        activity
    }
    pub fn set_idle_hook(&self, hook: Option<extern "C" fn()>) {
        // SAFETY: a function without arguments, or none.
        unsafe { (self.idle_hook)(hook) };
    }
    pub fn wake_hosts(&self) {
        // SAFETY: no arguments.
        unsafe { (self.wake_hosts)() };
    }
}
