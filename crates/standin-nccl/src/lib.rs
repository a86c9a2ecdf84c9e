//! The stand-in NCCL: `soft-nccl` with NCCL's C interface, as a shared library.
//!
//! It works over any CUDA driver in the process whose device memory is host memory, which is the stand-in driver. It exports
//! `collspecStandin` to be distinguishable from NCCL.
//!
//! It is a crate of its own because a program that links a crate with exported C functions exports them too, and would capture the
//! calls of real libraries. So `gpuless-device` and `soft-nccl` export nothing, and nothing links this crate: programs name it as
//! a dependency only to make cargo build its file.
//!
//! # Faults
//! To test how a harness deals with a misbehaving library, it misbehaves on demand. The demand is in
//! COLLSPEC_STANDIN_FAULT, or in a file `standin.faults` next to the library as it was opened (so that two of them in one
//! run can differ; a copy of the file, not a link, if they share a process). Demands are separated by `;` or lines, and
//! each is a word, `=VALUE` where it takes one, and `@RANK` if it is only for that rank of a communicator (but not after a
//! value that is text):
//!
//! | word | effect |
//! |---|---|
//! | `version=N` | `ncclGetVersion` answers N |
//! | `wrong-data` | the last byte of the first element that a collective or receive writes is wrong |
//! | `error-init=CODE`, `error-collective=CODE`, `error-destroy=CODE` | the call answers CODE (3) and does nothing |
//! | `async-error=CODE` | operations never end, and `ncclCommGetAsyncError` answers CODE (6) from the first on |
//! | `hang-init`, `hang-collective`, `hang-destroy`, `hang-abort` | the call never returns |
//! | `hang-synchronize` | operations never end: streams stand still |
//! | `hang-default` | operations are right, but leave work on the default stream that never ends: memory cannot be freed |
//! | `crash-init`, `crash-collective`, `crash-destroy` | the call ends the process by SIGSEGV |
//! | `crash-stream` | the process ends by SIGSEGV when a stream reaches an operation |
//! | `exit-collective` | the call ends the process, with exit code 0 |
//! | `hang-start=N`, `wrong-start=N` | in one of N processes, drawn at random as it starts, like `hang-collective` or `wrong-data` |
//! | `slow=PERCENT` | the stream of an operation, or of a group's operations, continues later, by this share of the time that they took |
//! | `slow-init=MILLISECONDS` | creating a communicator (but not splitting one) takes this much longer |
//! | `leak=BYTES`, `leak-host=BYTES` | each communicator leaks this much device or host memory |
//! | `leak-descriptor`, `leak-thread` | each communicator leaks an open file, or a thread that waits for ever |
//! | `change-affinity` | the thread that creates a communicator may run on the first of its processors only |
//! | `set-variable=NAME` | creating a communicator sets that variable of the environment to 1 |
//! | `text=WORDS` | `ncclGetErrorString` and `ncclGetLastError` answer these words for every error |
//! | `algorithm=NAME` | without NCCL_ALGO, operations that this algorithm serves take it |
//! | `default=VARIABLE:VALUE` | the library's value of a variable (NCCL_MIN_NCHANNELS, COLLSPEC_SOFT_ARITHMETIC, ...) that the environment lacks |
//!
//! A communicator allocates what it leaks when it is created. A communicator made by a split counts as one of its rank in the
//! communicator that is split.
//!
//! Calls that return an error say so in NCCL's log (NCCL_DEBUG, NCCL_DEBUG_FILE); at the level INFO the log also gives the time
//! that creating a communicator took.
//!
//! A demand that cannot be parsed makes every call return invalid usage, with a line on standard error.
#![allow(non_snake_case)] // NCCL's names
#![allow(unsafe_code)] // a C interface

mod driver;
mod faults;
mod log;
mod slow;
mod effects;
mod misbehave;
mod exports;

pub use exports::EXPORTED;

use faults::Fault;
use nccl_sys::Nccl;
use soft_nccl::{Algorithms, Settings, set_settings_for_process};
use std::sync::LazyLock;

/// The library that implements the exports.
fn table() -> &'static Nccl {
    static TABLE: LazyLock<Nccl> = LazyLock::new(|| {
        soft_nccl::device::use_loaded_driver();
        // Fixed before only by a test that has the library linked in, and means its own settings then.
        let _ = set_settings_for_process(settings());
        soft_nccl::table()
    });
    &TABLE
}

/// The environment's settings, completed by those demanded where it has none.
fn settings() -> Settings {
    let demands = faults::wanted().unwrap_or_default();
    let default = |name: &str| {
        demands.iter().find_map(|demand| match &demand.fault {
            Fault::Default(variable, value) if variable == name => Some(value.clone()),
            _ => None,
        })
    };
    let get = |name: &str| std::env::var(name).ok().or_else(|| default(name));
    let mut settings = Settings::from(get);
    if get("NCCL_ALGO").is_none() {
        for demand in demands {
            if let Fault::Algorithm(algorithm) = &demand.fault {
                settings.algorithms = Algorithms::preferring(*algorithm);
            }
        }
    }
    settings
}
