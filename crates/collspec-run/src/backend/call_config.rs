//! The configuration of one call as NCCL's structure.
use collspec_core::ops::AlgorithmChoice;
use nccl_sys::ncclCollConfig_t;
use std::ffi::{CString, c_int, c_uint};

/// The structure and the text that it points to.
pub(super) struct CallConfig {
    inner: ncclCollConfig_t,
    _selection: CString,
}

impl CallConfig {
    /// A configuration for a library of this version that requests an algorithm and nothing else.
    pub fn new(version: i32, algorithm: &AlgorithmChoice) -> Self {
        let selection = CString::new(algorithm.selection.replace('\0', " ")).unwrap_or_default();
        let mut inner = ncclCollConfig_t::unset(c_uint::try_from(version).unwrap_or(0));
        if !algorithm.is_automatic() {
            inner.alg_selection = selection.as_ptr();
            inner.force_alg_selection = c_int::from(algorithm.force);
        }
        Self { inner, _selection: selection }
    }

    pub fn as_ptr(&self) -> *const ncclCollConfig_t {
        &self.inner
    }
}
