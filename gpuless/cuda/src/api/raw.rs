//! Addresses given by C callers, with the guarantees of the functions' documentation.
#![allow(unsafe_code)] // a C interface

use super::{Outcome, errors, multicast, with_members};
use gpuless_device::virtual_memory::{Reservation, SealedFile};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Null, or the address of values that can be read during the call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct In<T>(*const T);

impl<T: Copy> In<T> {
    /// Reads the value.
    pub fn get(self) -> Result<T, c_int> {
        self.at(0)
    }

    /// One of several values.
    pub fn at(self, index: usize) -> Result<T, c_int> {
        if self.0.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: the caller promises this many values; they need not be aligned.
        Ok(unsafe { self.0.wrapping_add(index).read_unaligned() })
    }

    /// Reads this many values.
    pub fn list(self, count: usize) -> Result<Vec<T>, c_int> {
        (0..count).map(|index| self.at(index)).collect()
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    pub fn address(self) -> usize {
        self.0.addr()
    }

    /// The same address, for bytes.
    pub fn bytes(self) -> Bytes {
        Bytes(self.0.cast_mut().cast())
    }

    /// Wraps the address of one or more values.
    #[cfg(test)]
    pub fn of(value: *const T) -> Self {
        Self(value)
    }
}

impl In<*mut c_void> {
    /// The buffer that one of several addresses names.
    pub fn buffer(self, index: usize) -> Result<Bytes, c_int> {
        Ok(Bytes(self.at(index)?.cast()))
    }

    /// The number to which one of several addresses points.
    pub fn size(self, index: usize) -> Result<usize, c_int> {
        In(self.at(index)?.cast_const().cast()).get()
    }
}

impl<T> In<T> {
    pub fn null() -> Self {
        Self(std::ptr::null())
    }
}

/// Null, or a text with its end.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Text(*const c_char);

impl Text {
    pub fn get(self) -> Result<String, c_int> {
        if self.0.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: the caller promises a text with its end.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| errors::INVALID_VALUE)
    }

    #[cfg(test)]
    pub fn of(text: &'static CStr) -> Self {
        Self(text.as_ptr())
    }
}

/// Null, or the address of the number of bytes that the function documents, writable during the call.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Room(*mut u8);

impl Room {
    pub fn null() -> Self {
        Self(std::ptr::null_mut())
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes zeros behind the first bytes.
    pub fn clear(self, from: usize, len: usize) {
        // SAFETY: the caller promises this many bytes.
        unsafe { self.0.wrapping_add(from).write_bytes(0, len) };
    }

    pub fn write(self, bytes: &[u8]) -> Outcome {
        if self.0.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        // SAFETY: the caller promises this many bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0, bytes.len()) };
        Ok(())
    }

    /// A text with its end, which must fit into `len` bytes.
    pub fn write_text(self, len: c_int, text: &str) -> Outcome {
        let fits = usize::try_from(len).is_ok_and(|len| len > text.len());
        if !fits {
            return Err(errors::INVALID_VALUE);
        }
        self.write(&[text.as_bytes(), b"\0"].concat())
    }

    #[cfg(test)]
    pub fn of<T>(place: *mut T) -> Self {
        Self(place.cast())
    }
}

/// Memory that the caller promises to keep until the stream has passed the work on it.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub(super) struct Bytes(*mut u8);

// SAFETY: callers that enqueue a copy know that it happens on another thread.
unsafe impl Send for Bytes {}
// SAFETY: as above; launches of one graph do not overlap.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Memory at an address that the runtime itself has given out.
    pub fn at(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    pub fn address(self) -> *mut c_void {
        self.0.cast()
    }

    pub fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The bytes as they are now.
    pub fn copied(self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: the caller promises this many readable bytes.
        unsafe { std::ptr::copy_nonoverlapping(self.0, bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Calls `f` with the address, or with what each device has bound to it if it is one of multicast memory.
    fn each_place(self, len: usize, f: impl Fn(*mut u8)) {
        let each = &mut |members: &[u64]| {
            members.iter().for_each(|member| f(std::ptr::with_exposed_provenance_mut(*member as usize)));
        };
        // What is no longer bound for every device leads nowhere.
        if !with_members(self.0.addr() as u64, len as u64, each) && !multicast::is_mapped(self.0.addr()) {
            f(self.0);
        }
    }

    /// Overwrites it with these.
    pub fn store(self, bytes: &[u8]) {
        // SAFETY: the caller promises this many writable bytes.
        self.each_place(bytes.len(), |to| unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) });
    }

    /// Overwrites it with the contents of another place; they may overlap.
    pub fn copy_from(self, from: Bytes, len: usize) {
        // SAFETY: the caller promises both ranges.
        self.each_place(len, |to| unsafe { std::ptr::copy(from.0, to, len) });
    }

    pub fn fill(self, value: u8, len: usize) {
        // SAFETY: the caller promises this many writable bytes, which nothing accesses in the meantime.
        self.each_place(len, |to| unsafe {
            match value {
                0 => gpuless_device::arena::clear(to, len),
                value => to.write_bytes(value, len),
            }
        });
    }

    #[cfg(test)]
    pub fn of<T>(address: *mut T) -> Self {
        Self(address.cast())
    }
}

impl From<&mut [u8]> for Bytes {
    fn from(bytes: &mut [u8]) -> Self {
        Self(bytes.as_mut_ptr())
    }
}

/// A host function of the caller.
pub(super) type Function = unsafe extern "C" fn(*mut c_void);

/// A host function of the caller with its argument: it may be called from any thread.
#[derive(Clone, Copy)]
pub(super) struct HostFunction {
    pub function: Function,
    pub argument: *mut c_void,
}

// SAFETY: callers that pass such a function know that it runs on another thread.
unsafe impl Send for HostFunction {}
// SAFETY: as above.
unsafe impl Sync for HostFunction {}

impl HostFunction {
    pub fn call(self) {
        // SAFETY: the caller promises that the function may be called with this argument.
        unsafe { (self.function)(self.argument) }
    }
}

/// Gives back device memory, once all work that was launched before has ended.
pub(super) fn give_back(address: usize) {
    // SAFETY: it was in the table of blocks, from which one call alone takes it, and the work that could use it has ended.
    unsafe { gpuless_device::arena::free(std::ptr::with_exposed_provenance_mut(address)) };
}

/// Maps a part of a file at reserved addresses.
pub(super) fn map(to: &Reservation, start: usize, file: &SealedFile, offset: u64, bytes: usize) -> Outcome {
    // SAFETY: nothing is mapped there, or the caller has unmapped it, and vouches that its kernels do not use it.
    unsafe { to.map(start, file, offset, bytes) }
        .map_err(|error| errors::refused("mapped device memory", bytes, &error))
}

/// Allows accesses to a mapping.
pub(super) fn allow(to: &Reservation, start: usize, bytes: usize) -> Outcome {
    // SAFETY: the caller has it from the table of mappings.
    unsafe { to.allow(start, bytes) }.map_err(|error| errors::refused("mapped device memory", bytes, &error))
}

/// Unmaps what was mapped at reserved addresses, once all work that was launched before has ended.
pub(super) fn unmap(from: &Reservation, start: usize, bytes: usize) {
    // SAFETY: it was taken out of the table of mappings, and the work that could use it has ended.
    let _ = unsafe { from.unmap(start, bytes) };
}

/// Reads a word of 8 or 4 bytes.
pub(super) fn load_word(address: usize, wide: bool) -> u64 {
    // SAFETY: the caller has found it in a live block, aligned, which stays while work runs; others access it as kernels do.
    unsafe {
        match wide {
            true => (*std::ptr::with_exposed_provenance::<AtomicU64>(address)).load(Ordering::Acquire),
            false => (*std::ptr::with_exposed_provenance::<AtomicU32>(address)).load(Ordering::Acquire).into(),
        }
    }
}

/// Writes a word of 8 or 4 bytes.
pub(super) fn store_word(address: usize, wide: bool, value: u64) {
    // SAFETY: as for `load_word`.
    unsafe {
        match wide {
            true => (*std::ptr::with_exposed_provenance::<AtomicU64>(address)).store(value, Ordering::Release),
            false => (*std::ptr::with_exposed_provenance::<AtomicU32>(address)).store(value as u32, Ordering::Release),
        }
    }
}
