//! Arguments and errors of an NCCL library's calls.
#![allow(unsafe_code)] // a communicator's handle may be sent to other threads

use super::device::Address;
use super::stream::DeviceStream;
use crate::job::Signal;
use collspec_core::num::DType;
use collspec_core::ops::{AlgorithmChoice, NcclCall};
use nccl_sys::*;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The library has no such function.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The call returned an error.
    #[error("{function}: {code:?}: {text}")]
    Failed {
        /// The name of NCCL's function.
        function: &'static str,
        /// The result code of the call.
        code: ncclResult_t,
        /// The library's text on the error.
        text: String,
    },
    /// A value does not fit NCCL's configuration.
    #[error("configuration field {field}: {why}")]
    Config {
        /// The name of the field.
        field: String,
        /// The reason it cannot be set.
        why: &'static str,
    },
}

impl CallError {
    /// NCCL's result code; a missing function or field counts as invalid usage.
    pub fn code(&self) -> ncclResult_t {
        match self {
            Self::Failed { code, .. } => *code,
            Self::Missing(_) | Self::Config { .. } => ncclResult_t::InvalidUsage,
        }
    }
}

/// A communicator handle: from a library, or null. The library decides what a call on an ended communicator does, so a user
/// of handles forgets its slot when it ends the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommHandle(pub(super) ncclComm_t);

// SAFETY: NCCL's communicators may be used from any thread; their users take turns (each belongs to one rank, and a rank
// to one thread at a time).
unsafe impl Send for CommHandle {}
// SAFETY: as above; a shared `Comm` is only a number.
unsafe impl Sync for CommHandle {}

impl CommHandle {
    /// The null handle, which NCCL refuses.
    pub const NULL: Self = Self(ptr::null_mut());
}

/// The place where a library stores a communicator that it makes. Inside a group it may do so as late as at the group's end;
/// [`Library`](super::Library) keeps the memory until then, even if this value is dropped.
#[derive(Clone, Debug, Default)]
pub struct CommSlot(pub(super) Arc<AtomicPtr<c_void>>);

/// What a place holds whose handle the library must set to null.
static UNSET: u8 = 0;

impl CommSlot {
    /// A place that holds neither null nor a communicator, for a split without a colour: the library writes null to it.
    pub fn unset() -> Self {
        Self(Arc::new(AtomicPtr::new((&raw const UNSET).cast_mut().cast())))
    }

    /// True if the library has not written to a place that was made by [`unset`](Self::unset).
    pub(super) fn is_unset(&self) -> bool {
        self.get().0 == (&raw const UNSET).cast_mut().cast()
    }
    /// The communicator stored so far: null until the library has stored one.
    pub fn get(&self) -> CommHandle {
        CommHandle(self.0.load(Ordering::Acquire))
    }
}

/// The place where a library stores the handle of a registration or of a window; as with [`CommSlot`], perhaps late.
#[derive(Clone, Debug, Default)]
pub struct RegistrationSlot(pub(super) Arc<AtomicPtr<c_void>>);

impl RegistrationSlot {
    pub(super) fn get(&self) -> *mut c_void {
        self.0.load(Ordering::Acquire)
    }
    /// True if the library has stored a handle.
    pub fn is_given(&self) -> bool {
        !self.get().is_null()
    }
}

/// Arguments of a collective.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveCall<'a> {
    pub call: NcclCall,
    pub send: Address,
    pub recv: Address,
    pub count: u64,
    pub dtype: DType,
    /// Ignored if the call does not take one.
    pub op: ncclRedOp_t,
    /// Ignored if the call does not take one.
    pub root: i32,
    pub comm: CommHandle,
    pub stream: &'a DeviceStream,
    /// With an algorithm the call gets a configuration, if the library has the function for that.
    pub algorithm: Option<&'a AlgorithmChoice>,
}

/// Arguments of a put.
#[derive(Clone, Copy, Debug)]
pub struct PutCall<'a> {
    pub ptr: Address,
    pub count: u64,
    pub dtype: DType,
    pub peer: i32,
    /// A null window without.
    pub window: Option<&'a RegistrationSlot>,
    /// Bytes from the start of the peer's part of the window.
    pub offset: u64,
    pub signal: Signal,
    pub comm: CommHandle,
    pub stream: &'a DeviceStream,
}

/// Arguments of a send or receive.
#[derive(Clone, Copy, Debug)]
pub struct TransferCall<'a> {
    pub ptr: Address,
    pub count: u64,
    pub dtype: DType,
    pub peer: i32,
    pub comm: CommHandle,
    pub stream: &'a DeviceStream,
}
