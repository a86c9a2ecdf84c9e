//! The command: a worker if it was started as one, else the command line.
#![deny(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    collspec::enter_if_asked();
    collspec::command()
}
