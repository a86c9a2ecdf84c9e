//! The command: a worker if it was started as one, else the command line.
#![deny(unsafe_code)]

mod cli;

fn main() -> std::process::ExitCode {
    collspec::enter_if_asked();
    cli::main()
}
