//! The right library under this one.
use nccl_sys::Nccl;
use std::sync::OnceLock;

static RIGHT: OnceLock<Nccl> = OnceLock::new();

/// Its functions. Calls come only through a table that was made over one.
pub(crate) fn right() -> &'static Nccl {
    RIGHT.get_or_init(|| Nccl::empty("no library"))
}

/// Makes this the right library of the process; false if there is one.
pub(crate) fn set(right: Nccl) -> bool {
    RIGHT.set(right).is_ok()
}
