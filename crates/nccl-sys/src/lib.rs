//! NCCL's C interface as data: types, open enums, and a table of function pointers in which every entry is optional.
//!
//! Written from NCCL's user guide (docs.nvidia.com, "NCCL API"); no header of NCCL's is included. Numbers of unknown
//! meaning stay representable: every enum is a newtype over `i32`. A table is filled from one library ([`Nccl::load`]);
//! several tables may live together. Calling an absent entry is an ordinary error ([`Missing`]), never a panic.
#![warn(missing_docs, clippy::missing_errors_doc)] // an interface
#![allow(non_camel_case_types)]

mod algorithms;
mod config;
mod elf;
mod enums;
mod properties;
mod types;
mod call_config;
mod version;
mod table;
mod load;

pub use algorithms::{ALGORITHM_NAMES, AlgorithmName};
pub use call_config::*;
pub use config::*;
pub use enums::*;
pub use load::{LoadError, OLDEST, defines};
pub use properties::ncclCommProperties_t;
pub use table::{Maker, Missing, Nccl};
pub use types::*;
pub use version::{release, version_text};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
