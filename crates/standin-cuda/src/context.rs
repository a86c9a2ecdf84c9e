//! Primary contexts, and each thread's stack of current ones.
use crate::{Out, codes, devices, driver, put, streams};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr::without_provenance_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Handles are numbers from here on, one for every device; never followed.
const FIRST: usize = 0xc0_0000;

/// For each device, the number of times its primary context was retained minus the number of releases.
static RETAINED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

thread_local! {
    static CURRENT: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

fn retained() -> MutexGuard<'static, Vec<u64>> {
    RETAINED.lock().unwrap_or_else(PoisonError::into_inner)
}

fn handle(device: usize) -> *mut c_void {
    without_provenance_mut(FIRST + device)
}

fn live(device: usize) -> bool {
    retained().get(device).is_some_and(|n| *n > 0)
}

/// The device of a context that lives.
fn lookup(context: *mut c_void) -> Result<usize, c_int> {
    let count = devices::count()?;
    let device = context.addr().checked_sub(FIRST).filter(|d| *d < count).ok_or(codes::INVALID_CONTEXT)?;
    if live(device) { Ok(device) } else { Err(codes::INVALID_CONTEXT) }
}

fn stack<T>(f: impl FnOnce(&mut Vec<usize>) -> T) -> Result<T, c_int> {
    // a thread that ends has no stack any more
    CURRENT.try_with(|stack| f(&mut stack.borrow_mut())).map_err(|_| codes::INVALID_CONTEXT)
}

/// The device of the calling thread's current context.
pub(crate) fn current() -> Result<usize, c_int> {
    devices::count()?;
    let device = stack(|stack| stack.last().copied())?.ok_or(codes::INVALID_CONTEXT)?;
    if live(device) { Ok(device) } else { Err(codes::CONTEXT_IS_DESTROYED) }
}

fn retain(number: c_int) -> Result<usize, c_int> {
    let device = devices::device(number)?;
    let mut retained = retained();
    if retained.len() <= device {
        retained.resize(device + 1, 0);
    }
    if let Some(times) = retained.get_mut(device) {
        *times += 1;
    }
    Ok(device)
}

driver! {
    fn cuDevicePrimaryCtxRetain(context: Out<'_, *mut c_void>, number: c_int) {
        let context = context.ok_or(codes::INVALID_VALUE)?;
        context.write(handle(retain(number)?));
        Ok(())
    }
    fn cuDevicePrimaryCtxRelease_v2(number: c_int) {
        let device = devices::device(number)?;
        match retained().get_mut(device) {
            Some(times) if *times > 0 => *times -= 1,
            _ => return Err(codes::INVALID_CONTEXT),
        }
        Ok(())
    }
    fn cuDevicePrimaryCtxGetState(number: c_int, flags: Out<'_, c_uint>, active: Out<'_, c_int>) {
        let device = devices::device(number)?;
        put(flags, 0)?;
        put(active, c_int::from(live(device)))
    }
    fn cuCtxSetCurrent(context: *mut c_void) {
        if context.is_null() {
            return stack(|stack| {
                stack.pop();
            });
        }
        let device = lookup(context)?;
        stack(|stack| {
            stack.pop();
            stack.push(device);
        })
    }
    fn cuCtxPushCurrent_v2(context: *mut c_void) {
        let device = lookup(context)?;
        stack(|stack| stack.push(device))
    }
    fn cuCtxPopCurrent_v2(context: Out<'_, *mut c_void>) {
        devices::count()?;
        let device = stack(|stack| stack.pop())?.ok_or(codes::INVALID_CONTEXT)?;
        match context {
            Some(place) => put(Some(place), handle(device)),
            None => Ok(()),
        }
    }
    /// Null if none is current.
    fn cuCtxGetCurrent(context: Out<'_, *mut c_void>) {
        devices::count()?;
        put(context, stack(|stack| stack.last().copied())?.map_or(std::ptr::null_mut(), handle))
    }
    fn cuCtxGetDevice(number: Out<'_, c_int>) { put(number, c_int::try_from(current()?).unwrap_or(c_int::MAX)) }
    fn cuCtxSynchronize() {
        streams::synchronize_all(current()?);
        Ok(())
    }
    fn cuCtxGetStreamPriorityRange(least: Out<'_, c_int>, greatest: Out<'_, c_int>) {
        current()?;
        put(least, 0)?;
        put(greatest, 0)
    }
}
