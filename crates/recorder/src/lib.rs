//! A library to preload: it has NCCL's functions under their own names, writes each call down and passes it on.
//!
//! Lines have the form of NCCL's own log (`NCCL_DEBUG=INFO`), with what that lacks: the borders of groups, the factor of a premul_sum.
//! Asked for data (`collspec judge`), it also copies some elements of each call's input and output, in stream order, and writes them down.
//!
//! A line is one `write` to a file that was opened for appending, so that it survives whatever happens to the process afterwards.
#![deny(unsafe_code)]

mod comms;
mod places;
mod settings;
mod file;
mod groups;
mod loaded;
mod driver;
mod python;
mod caller;
mod watch;
mod exports;
mod real;

/// The variable with the folder for the files.
pub const FOLDER_VARIABLE: &str = "COLLSPEC_RECORD";
