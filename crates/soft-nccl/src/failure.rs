//! The reason of a refused call: NCCL's code, and a sentence for messages.
use nccl_sys::ncclResult_t;
use serde::{Deserialize, Serialize};

/// The code and text of a refused call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(from = "(i32, String)", into = "(i32, String)")]
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

    /// The call is not over yet.
    pub(crate) fn in_progress() -> Self {
        Self { code: ncclResult_t::InProgress, text: "the call is in progress".to_owned() }
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

impl From<(i32, String)> for Failure {
    fn from((code, text): (i32, String)) -> Self {
        Self { code: ncclResult_t(code), text }
    }
}

impl From<Failure> for (i32, String) {
    fn from(failure: Failure) -> Self {
        (failure.code.0, failure.text)
    }
}
