//! Memory that faults put in the place of a caller's.
#![allow(unsafe_code)] // steps reach memory by its address

use crate::op::Spec;

/// Separately allocated bytes, which steps read and write as they would the caller's.
#[derive(Debug)]
pub(super) struct Substitute {
    address: usize,
    len: usize,
    /// Only kept alive: steps reach it by its address.
    _memory: Vec<u8>,
}

impl Substitute {
    pub(super) fn new(mut bytes: Vec<u8>) -> Self {
        Self { address: bytes.as_mut_ptr() as usize, len: bytes.len(), _memory: bytes }
    }

    pub(super) fn address(&self) -> usize {
        self.address
    }

    /// Its contents, when no step works on it any more.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // SAFETY: the memory lives as long as the block and has this length.
        unsafe { read(self.address, self.len) }
    }
}

/// Copies bytes out of memory.
///
/// # Safety
/// `len` bytes are readable at the address.
pub(super) unsafe fn read(address: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    if len > 0 {
        // SAFETY: the caller vouches for the source; there is room for `len` bytes, which are then initialised.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, bytes.as_mut_ptr(), len);
            bytes.set_len(len);
        }
    }
    bytes
}

/// Copies bytes into memory.
///
/// # Safety
/// As many bytes are writable at the address.
pub(super) unsafe fn write(address: usize, bytes: &[u8]) {
    if !bytes.is_empty() {
        // SAFETY: the caller vouches for the target, which is not part of this library's own memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
    }
}

/// True if a call that a fault has changed may use this many bytes at the address.
fn usable(address: usize, len: usize) -> bool {
    len == 0 || (address != 0 && crate::device::contains(address, len))
}

/// The memory that a call reads and writes on a rank: addresses with lengths in bytes.
pub(super) struct Extent {
    pub send: (usize, usize),
    pub recv: (usize, usize),
}

impl Extent {
    pub fn of(spec: &Spec, rank: usize, n: usize) -> Self {
        let (read, written) = spec.kind.blocks(rank == spec.peer, n);
        let bytes = |blocks: usize| blocks.saturating_mul(spec.count).saturating_mul(spec.ty.size());
        Self { send: (spec.send, bytes(read)), recv: (spec.recv, bytes(written)) }
    }

    /// The input lies in the output, or the other way round.
    pub fn overlaps(&self) -> bool {
        let ((a, a_len), (b, b_len)) = (self.send, self.recv);
        a_len > 0 && b_len > 0 && a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
    }
}

/// Puts memory of the library's own where a changed call would leave the caller's: wrong, but nothing breaks.
pub(super) fn stand_in(spec: &mut Spec, rank: usize, n: usize) -> Vec<Substitute> {
    let extent = Extent::of(spec, rank, n);
    let mut blocks = Vec::new();
    for (place, (address, len)) in [(&mut spec.send, extent.send), (&mut spec.recv, extent.recv)] {
        if !usable(address, len) {
            let block = Substitute::new(vec![0; len]);
            *place = block.address();
            blocks.push(block);
        }
    }
    blocks
}
