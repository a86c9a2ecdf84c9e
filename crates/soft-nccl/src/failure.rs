//! Why a call was refused: NCCL's code, and a sentence for people.
use nccl_sys::ncclResult_t;

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub code: ncclResult_t,
    pub text: String,
}

pub(crate) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::InvalidArgument, text: text.into() }
    }

    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::InvalidUsage, text: text.into() }
    }

    pub(crate) fn system(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::SystemError, text: text.into() }
    }

    pub(crate) fn remote(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::RemoteError, text: text.into() }
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self { code: ncclResult_t::InternalError, text: text.into() }
    }
}
