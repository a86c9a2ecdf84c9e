//! The stand-in NCCL: `soft-nccl` behind NCCL's C interface, as a shared library.
//!
//! It works over any CUDA driver in the process whose device memory is host memory, which is the stand-in driver. To be
//! told from NCCL it has `collspecStandin`.
//!
//! # Faults
//! To test what a harness makes of a library that misbehaves, it does so on demand. The demand stands in
//! COLLSPEC_STANDIN_FAULT, or in a file `standin.faults` beside the library as it was opened (so that two of them in one
//! run can differ; a copy of the file, not a link, if they share a process). Demands are separated by `;` or lines, and
//! each is a word, `=VALUE` where it takes one, and `@RANK` if only that rank of a communicator is meant (but not behind a
//! value that is text):
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
//! | `hang-start=N`, `wrong-start=N` | in one of N processes, drawn at random as it starts, as `hang-collective` or `wrong-data` |
//! | `slow=PERCENT` | the stream of an operation, or of a group's operations, goes on later by so much of the time that they took |
//! | `slow-init=MILLISECONDS` | making a communicator (but not splitting one) takes so much longer |
//! | `leak=BYTES`, `leak-host=BYTES` | each communicator leaves that much device or host memory behind |
//! | `leak-descriptor`, `leak-thread` | each communicator leaves an open file, or a thread that waits for ever, behind |
//! | `change-affinity` | the thread that makes a communicator may run on the first of its processors only |
//! | `set-variable=NAME` | making a communicator sets that variable of the environment to 1 |
//! | `text=WORDS` | `ncclGetErrorString` and `ncclGetLastError` answer these words for every error |
//! | `algorithm=NAME` | without NCCL_ALGO, operations that this algorithm serves take it |
//! | `default=VARIABLE:VALUE` | the library's value of a variable (NCCL_MIN_NCHANNELS, COLLSPEC_SOFT_ARITHMETIC, ...) that the environment lacks |
//!
//! What a communicator leaves behind it takes as it is made. A communicator that a split makes counts as one of its rank in the
//! communicator that is split.
//!
//! What answers an error says so in NCCL's log (NCCL_DEBUG, NCCL_DEBUG_FILE); at the level INFO the log also tells how long the
//! making of a communicator took.
//!
//! A demand that cannot be understood makes every call answer invalid usage, with a line on standard error.
#![allow(non_snake_case)] // NCCL's names
#![allow(unsafe_code)] // a C interface

mod driver;
mod effects;
mod exports;
mod faults;
mod log;
mod misbehave;
mod slow;

pub use exports::EXPORTED;

use faults::Fault;
use nccl_sys::Nccl;
use soft_nccl::{Algorithms, Settings, set_settings_for_process};
use std::sync::LazyLock;

/// The library behind the exports.
fn table() -> &'static Nccl {
    static TABLE: LazyLock<Nccl> = LazyLock::new(|| {
        soft_nccl::device::use_loaded_driver();
        // Fixed before only by a test that has the library linked in, and means its own settings then.
        let _ = set_settings_for_process(settings());
        soft_nccl::table()
    });
    &TABLE
}

/// The environment's settings, with those that are demanded where it has none.
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
