//! One-sided operations.
use super::super::call::{CommHandle, PutCall, RegistrationSlot};
use super::super::stream::DeviceStream;
use super::{Library, Result};
use crate::job::Signal;
use nccl_sys::ncclWaitSignalDesc_t;
use std::ffi::c_int;
use std::ptr;

impl Library {
    /// Writes to another rank's window, and signals it.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn put(&self, put: &PutCall<'_>) -> Result<()> {
        let (local, count, dtype) = (put.ptr.as_ptr().cast_const(), put.count as usize, put.dtype.nccl());
        let window = put.window.map_or(ptr::null_mut(), RegistrationSlot::get);
        let offset = usize::try_from(put.offset).unwrap_or(usize::MAX);
        let Signal { index, context, call_flags } = put.signal;
        let (comm, stream) = (put.comm.0, put.stream.raw());
        let code = call!(
            self,
            ncclPutSignal(local, count, dtype, put.peer, window, offset, index, context, call_flags, comm, stream)
        )?;
        self.check("ncclPutSignal", put.comm, code)
    }

    /// Signals a rank.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn signal(&self, peer: i32, signal: Signal, comm: CommHandle, stream: &DeviceStream) -> Result<()> {
        let code =
            call!(self, ncclSignal(peer, signal.index, signal.context, signal.call_flags, comm.0, stream.raw()))?;
        self.check("ncclSignal", comm, code)
    }

    /// Waits for signals: the given number from each of these ranks.
    ///
    /// # Errors
    ///
    /// The library lacks the function, or returns an error.
    pub fn wait_signal(
        &self,
        peers: &[(i32, i32)],
        signal: Signal,
        comm: CommHandle,
        stream: &DeviceStream,
    ) -> Result<()> {
        let descriptor = |(peer, count): &(i32, i32)| ncclWaitSignalDesc_t {
            op_cnt: *count,
            peer: *peer,
            sig_idx: signal.index,
            ctx: signal.context,
        };
        let mut descriptors: Vec<ncclWaitSignalDesc_t> = peers.iter().map(descriptor).collect();
        let count = c_int::try_from(descriptors.len()).unwrap_or(c_int::MAX);
        let code = call!(self, ncclWaitSignal(count, descriptors.as_mut_ptr(), comm.0, stream.raw()))?;
        self.check("ncclWaitSignal", comm, code)
    }
}
