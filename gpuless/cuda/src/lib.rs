//! The CUDA runtime in software, for a library that has NVIDIA's linked in.
//!
//! | room | purpose |
//! |---|---|
//! | [`fatbin`] | finds the PTX that a library carries |
//! | [`attach`] | makes a loaded library call this runtime in place of the one linked into it |
//! | [`api`] | the runtime's functions, over gpuless-device |
//! | [`library`] | a loaded library on software GPUs: attached, with its kernels executed from their PTX |
//! | `machine` | what executes the kernels of all libraries in a process |
//! | `programs` | what a library's PTX is, read or kept from an earlier process, and launched as kernels |
//! | [`alter`] | kernels with a changed instruction, and the instructions that are executed |
//! | [`host_functions`] | the functions of a library's host code that are entered |
//! | [`faults`] | faults of the machine on demand |
//! | `registered` | the kernels that a program names by addresses of its own functions |
//! | `shared_event` | events that several processes record and wait for |
//! | `large_memory` | a library's large allocations, of which zeros take no pages |
//! | `service_threads` | the waits of a library's service threads, which end when they are joined |
//! | `imports`, `nvml` | replacements for some functions of C and of NVML that such a library calls |
//! | `kept_programs` | what an earlier process has found out about a library's PTX, in a file |
//! | [`file_identity`] | tells whether a file is the one that it was |
//! | `opened`, `adapter_files` | libraries and files that such a library opens and that are here: NVML, libibverbs, and /sys for network adapters |
#![deny(unsafe_code)]

#[cfg(test)]
mod test_process;
mod counts;
mod elf;
pub mod fatbin;
pub mod file_identity;
mod kept_programs;
pub mod attach;
mod registered;
mod shared_event;
pub mod api;
mod nvml;
mod machine;
pub mod faults;
mod adapter_files;
mod opened;
mod large_memory;
mod service_threads;
mod imports;
pub mod host_functions;
mod library_error;
mod programs;
pub mod library;
pub mod alter;

pub use counts::{Counts, counts, counts_of_all};
pub use nvml::function as nvml_function;
