//! Where memory is and what accesses it, as callers of virtual memory management say it.
use std::ffi::{c_int, c_ushort};

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LocationOf {
    pub kind: c_int,
    pub number: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    pub kind: c_int,
    pub handles: c_int,
    pub location: LocationOf,
    pub windows: usize,
    pub compression: u8,
    pub network: u8,
    pub usage: c_ushort,
    pub reserved: [u8; 4],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub location: LocationOf,
    pub flags: c_int,
}

/// The place of memory, or of what accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Location {
    Device(usize),
    Host,
}
