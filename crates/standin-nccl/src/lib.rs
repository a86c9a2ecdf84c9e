//! The stand-in NCCL: `soft-nccl` behind NCCL's C interface, as a shared library.
//!
//! It works over any CUDA driver in the process whose device memory is host memory, which is the stand-in driver. To be
//! told from NCCL it has `collspecStandin`.
//!
//! # Faults
//! To test what a harness makes of a library that misbehaves, it does so on demand. The demand stands in
//! COLLSPEC_STANDIN_FAULT, or in a file `standin.faults` beside the library as it was opened (so that two of them in one
//! run can differ; a copy of the file, not a link, if they share a process). Demands are separated by `;` or lines, and
//! each is a word, `=VALUE` where it takes one, and `@RANK` if only that rank of a communicator is meant:
//!
//! | word | what happens |
//! |---|---|
//! | `version=N` | `ncclGetVersion` answers N |
//! | `wrong-data` | the last byte of the first element that a collective or receive writes is wrong |
//! | `error-init=CODE`, `error-collective=CODE`, `error-destroy=CODE` | the call answers CODE (3) and does nothing |
//! | `async-error=CODE` | operations never end, and `ncclCommGetAsyncError` answers CODE (6) from the first on |
//! | `hang-init`, `hang-collective`, `hang-destroy`, `hang-abort` | the call never returns |
//! | `hang-synchronize` | operations never end: streams stand still |
//! | `hang-default` | operations are right, but leave on the default stream what never ends: memory cannot be freed |
//! | `crash-init`, `crash-collective`, `crash-destroy` | the call ends the process by SIGSEGV |
//! | `crash-stream` | the process ends by SIGSEGV when a stream comes to an operation |
//! | `exit-collective` | the call ends the process, with exit code 0 |
//!
//! What answers an error says so in NCCL's log (NCCL_DEBUG, NCCL_DEBUG_FILE).
//!
//! A demand that cannot be understood makes every call answer invalid usage, with a line on standard error.
#![allow(non_snake_case)] // NCCL's names
#![allow(unsafe_code)] // a C interface

mod exports;
mod faults;
mod log;
mod misbehave;

pub use exports::EXPORTED;

use nccl_sys::Nccl;
use std::sync::LazyLock;

/// The library behind the exports.
fn table() -> &'static Nccl {
    static TABLE: LazyLock<Nccl> = LazyLock::new(|| {
        soft_nccl::device::use_loaded_driver();
        soft_nccl::table()
    });
    &TABLE
}
