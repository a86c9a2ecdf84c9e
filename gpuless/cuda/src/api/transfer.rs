//! Copies and fills.
use super::raw::{Bytes, In};
use super::streams::{self, Target};
use super::{
    Handle, Out, Outcome, Runtime, blocks, devices, errors, kernels, memory, multicast, put_if, runtime,
    virtual_memory, work,
};
use gpuless_device::NodeKind;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::Arc;

/// The last of `cudaMemcpyKind`. Addresses alone determine the kind of memory, so the kind need not be right.
const LAST_KIND: c_int = 4;

/// Memory that the program may change or free as soon as the call returns.
fn pageable(bytes: Bytes) -> bool {
    let address = bytes.address().addr();
    // A kernel before the copy may write to a variable.
    blocks::find(address).is_none() && !multicast::is_mapped(address) && !kernels::reach(address)
}

/// Checks memory of a copy or fill: an address of the host's own may be anything, but one that was reserved must lead somewhere.
fn check(bytes: Bytes, len: usize) -> Outcome {
    let address = bytes.address().addr();
    let unbound = multicast::is_mapped(address) && !multicast::with_members(address as u64, len as u64, &mut |_| {});
    if bytes.is_null() || unbound || virtual_memory::reach_nothing(address, len) {
        return Err(errors::INVALID_VALUE);
    }
    Ok(())
}

/// A part of a kernel's variable.
fn part_of(symbol: In<u8>, offset: usize, len: usize) -> Result<Bytes, c_int> {
    let (address, bytes) = memory::symbol_of(symbol)?;
    let fits = offset.checked_add(len).is_some_and(|end| end <= bytes);
    if fits { Ok(Bytes::at(address + offset)) } else { Err(errors::INVALID_VALUE) }
}

/// Copies in stream order. As on a real device, it is done with pageable memory when it returns.
pub(super) fn copy(target: &Target, to: Bytes, from: Bytes, len: usize, kind: c_int) -> Outcome {
    errors::check(target.device)?;
    if !(0..=LAST_KIND).contains(&kind) {
        return Err(errors::INVALID_VALUE);
    }
    if len == 0 {
        return Ok(());
    }
    check(to, len)?;
    check(from, len)?;
    if multicast::is_mapped(from.address().addr()) {
        return Err(errors::INVALID_VALUE);
    }
    if pageable(from) {
        let staged = from.copied(len);
        work::put(target, NodeKind::Copy, Arc::new(move || to.store(&staged)));
    } else {
        work::put(target, NodeKind::Copy, Arc::new(move || to.copy_from(from, len)));
    }
    if pageable(to) && !target.stream.capture_status().is_capturing() {
        streams::synchronize(target)?;
    }
    Ok(())
}

fn fill(target: &Target, to: Bytes, value: c_int, len: usize) -> Outcome {
    errors::check(target.device)?;
    if len == 0 {
        return Ok(());
    }
    check(to, len)?;
    // The low byte, as `memset` takes it.
    let byte = value.to_le_bytes()[0];
    work::put(target, NodeKind::Fill, Arc::new(move || to.fill(byte, len)));
    Ok(())
}

mod all {
    use super::*;
    runtime! {
        by_thread cudaMemcpyAsync_ptsz fn cudaMemcpyAsync(to: Bytes, from: Bytes, len: usize, kind: c_int, stream: Handle) {
            copy(&streams::lookup(stream)?, to, from, len, kind)
        }
        by_thread cudaMemcpy_ptds fn cudaMemcpy(to: Bytes, from: Bytes, len: usize, kind: c_int) {
            let target = streams::lookup(null_mut())?;
            copy(&target, to, from, len, kind)?;
            streams::synchronize(&target)
        }
        by_thread cudaMemcpyToSymbol_ptds fn cudaMemcpyToSymbol(
            symbol: In<u8>,
            from: Bytes,
            len: usize,
            offset: usize,
            kind: c_int,
        ) {
            let target = streams::lookup(null_mut())?;
            copy(&target, part_of(symbol, offset, len)?, from, len, kind)?;
            streams::synchronize(&target)
        }
        by_thread cudaMemcpyFromSymbol_ptds fn cudaMemcpyFromSymbol(
            to: Bytes,
            symbol: In<u8>,
            len: usize,
            offset: usize,
            kind: c_int,
        ) {
            let target = streams::lookup(null_mut())?;
            copy(&target, to, part_of(symbol, offset, len)?, len, kind)?;
            streams::synchronize(&target)
        }
        by_thread cudaMemcpyToSymbolAsync_ptsz fn cudaMemcpyToSymbolAsync(
            symbol: In<u8>,
            from: Bytes,
            len: usize,
            offset: usize,
            kind: c_int,
            stream: Handle,
        ) { copy(&streams::lookup(stream)?, part_of(symbol, offset, len)?, from, len, kind) }
        by_thread cudaMemcpyFromSymbolAsync_ptsz fn cudaMemcpyFromSymbolAsync(
            to: Bytes,
            symbol: In<u8>,
            len: usize,
            offset: usize,
            kind: c_int,
            stream: Handle,
        ) { copy(&streams::lookup(stream)?, to, part_of(symbol, offset, len)?, len, kind) }
        by_thread cudaMemcpyPeerAsync_ptsz fn cudaMemcpyPeerAsync(
            to: Bytes,
            there: c_int,
            from: Bytes,
            here: c_int,
            len: usize,
            stream: Handle,
        ) {
            devices::device(there)?;
            devices::device(here)?;
            copy(&streams::lookup(stream)?, to, from, len, LAST_KIND)
        }
        by_thread cudaMemsetAsync_ptsz fn cudaMemsetAsync(to: Bytes, value: c_int, len: usize, stream: Handle) {
            fill(&streams::lookup(stream)?, to, value, len)
        }
        by_thread cudaMemset_ptds fn cudaMemset(to: Bytes, value: c_int, len: usize) {
            let target = streams::lookup(null_mut())?;
            fill(&target, to, value, len)?;
            streams::synchronize(&target)
        }
    }
}

/// The copies of a batch: addresses and lengths.
struct Batch {
    to: In<Bytes>,
    from: In<Bytes>,
    sizes: In<usize>,
    count: usize,
}

/// On failure, the index of the first copy that failed (`usize::MAX` for the whole batch) and the error.
fn copy_batch(batch: &Batch, stream: Handle) -> Result<(), (usize, c_int)> {
    let all = |code| (usize::MAX, code);
    if matches!(stream.addr(), 0 | 1) || batch.count == 0 {
        return Err(all(errors::INVALID_VALUE));
    }
    let target = streams::lookup(stream).map_err(all)?;
    if target.stream.capture_status().is_capturing() {
        return Err(all(errors::CAPTURE_UNSUPPORTED));
    }
    for index in 0..batch.count {
        let one = || copy(&target, batch.to.at(index)?, batch.from.at(index)?, batch.sizes.at(index)?, LAST_KIND);
        one().map_err(|code| (index, code))?;
    }
    Ok(())
}

mod v12 {
    use super::*;
    runtime! {
        /// The copies go in order, whatever their attributes say.
        by_thread cudaMemcpyBatchAsync_ptsz fn cudaMemcpyBatchAsync(
            to: In<Bytes>,
            from: In<Bytes>,
            sizes: In<usize>,
            count: usize,
            _attributes: *const (),
            _indices: *const usize,
            _kinds: usize,
            failed: Out<'_, usize>,
            stream: Handle,
        ) {
            copy_batch(&Batch { to, from, sizes, count }, stream).map_err(|(index, code)| {
                put_if(failed, index);
                code
            })
        }
    }
}

mod v13 {
    use super::*;
    runtime! {
        by_thread cudaMemcpyBatchAsync_ptsz fn cudaMemcpyBatchAsync(
            to: In<Bytes>,
            from: In<Bytes>,
            sizes: In<usize>,
            count: usize,
            _attributes: *const (),
            _indices: *const usize,
            _kinds: usize,
            stream: Handle,
        ) { copy_batch(&Batch { to, from, sizes, count }, stream).map_err(|(_, code)| code) }
    }
}

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    let mut functions = all::functions();
    match runtime {
        Runtime::V11 => {}
        Runtime::V12 => functions.extend(v12::functions()),
        Runtime::V13 => functions.extend(v13::functions()),
    }
    functions
}

#[cfg(test)]
pub(super) use all::*;
