//! Copies and fills.
use crate::{Outcome, codes, context, driver, memory, streams};
use gpuless_device::Stream;
use std::ffi::{c_uchar, c_void};
use std::ptr::{null_mut, with_exposed_provenance, with_exposed_provenance_mut};
use std::sync::Arc;

/// One side of a copy.
#[derive(Clone, Copy)]
struct Side {
    address: usize,
    device: bool,
}

fn device(address: u64) -> Side {
    // an address that does not fit is on no device, which `check` finds
    Side { address: usize::try_from(address).unwrap_or(usize::MAX), device: true }
}

fn host(pointer: *const c_void) -> Side {
    Side { address: pointer.expose_provenance(), device: false }
}

/// The kind of memory as known from an address alone: device memory, or otherwise host memory.
fn either(address: u64) -> Side {
    let side = device(address);
    Side { device: memory::on_device(side.address, 1), ..side }
}

impl Side {
    fn check(self, len: usize) -> Outcome {
        let good = if self.device { memory::on_device(self.address, len) } else { self.address != 0 };
        if good { Ok(()) } else { Err(codes::INVALID_VALUE) }
    }
    /// Memory that the program may change or free as soon as the call returns.
    fn pageable(self, len: usize) -> bool {
        !self.device && !memory::is_pinned(self.address, len)
    }
}

/// Copies in stream order. As with the real driver, it is done with pageable memory when it returns.
fn copy(stream: &Stream, to: Side, from: Side, len: usize) -> Outcome {
    if len == 0 {
        return Ok(());
    }
    to.check(len)?;
    from.check(len)?;
    let target = with_exposed_provenance_mut::<u8>(to.address);
    if from.pageable(len) {
        let mut staged = vec![0u8; len];
        // SAFETY: the driver's contract: the source has this many readable bytes.
        unsafe { std::ptr::copy_nonoverlapping(with_exposed_provenance(from.address), staged.as_mut_ptr(), len) };
        let address = to.address;
        stream.repeatable_host_fn(Arc::new(move || {
            let target = with_exposed_provenance_mut::<u8>(address);
            // SAFETY: `check` saw the target alive, or the program promised it; it stays so until the stream got here.
            unsafe { std::ptr::copy_nonoverlapping(staged.as_ptr(), target, staged.len()) };
        }));
    } else {
        // SAFETY: as above, for both sides.
        unsafe { stream.copy(target, with_exposed_provenance(from.address), len) };
    }
    if to.pageable(len) {
        streams::runs(stream)?.synchronize();
    }
    Ok(())
}

/// On the default stream, and finished when it returns.
fn copy_now(to: Side, from: Side, len: usize) -> Outcome {
    context::current()?;
    let stream = streams::lookup(null_mut())?;
    copy(&stream, to, from, len)?;
    stream.synchronize();
    Ok(())
}

fn fill(stream: &Stream, address: u64, value: u8, len: usize) -> Outcome {
    let to = device(address);
    if len == 0 {
        return Ok(());
    }
    to.check(len)?;
    stream.repeatable_host_fn(Arc::new(move || {
        // SAFETY: `check` saw the memory alive; the program keeps it until the stream got here.
        unsafe { with_exposed_provenance_mut::<u8>(to.address).write_bytes(value, len) };
    }));
    Ok(())
}

driver! {
    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, len: usize, stream: *mut c_void) {
        copy(&streams::lookup(stream)?, device(to), host(from), len)
    }
    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, len: usize, stream: *mut c_void) {
        copy(&streams::lookup(stream)?, host(to), device(from), len)
    }
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, len: usize, stream: *mut c_void) {
        copy(&streams::lookup(stream)?, device(to), device(from), len)
    }
    fn cuMemcpyAsync(to: u64, from: u64, len: usize, stream: *mut c_void) {
        copy(&streams::lookup(stream)?, either(to), either(from), len)
    }
    fn cuMemcpyPeerAsync(to: u64, _there: *mut c_void, from: u64, _here: *mut c_void, len: usize, stream: *mut c_void) {
        copy(&streams::lookup(stream)?, device(to), device(from), len)
    }
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, len: usize) { copy_now(device(to), host(from), len) }
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, len: usize) { copy_now(host(to), device(from), len) }
    fn cuMemcpyDtoD_v2(to: u64, from: u64, len: usize) { copy_now(device(to), device(from), len) }
    fn cuMemcpy(to: u64, from: u64, len: usize) { copy_now(either(to), either(from), len) }
    fn cuMemsetD8Async(to: u64, value: c_uchar, len: usize, stream: *mut c_void) {
        fill(&streams::lookup(stream)?, to, value, len)
    }
    fn cuMemsetD8_v2(to: u64, value: c_uchar, len: usize) {
        let stream = streams::lookup(null_mut())?;
        fill(&stream, to, value, len)?;
        stream.synchronize();
        Ok(())
    }
}
