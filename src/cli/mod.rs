//! The command line: what was typed, and what is done with it.
mod args;
mod audit;
mod check;
mod doctor;
mod exit;
mod nccl;
mod progress;
mod run;

use clap::Parser;
use collspec::suite::with_causes;
use std::io::{self, Write};
use std::process::ExitCode;

/// Reads the arguments, does what they ask, and says how it went.
pub fn main() -> ExitCode {
    let args = args::Args::parse();
    let done = match &args.command {
        args::Command::Run(options) => run::run(options),
        args::Command::Check(options) => check::check(options),
        args::Command::Audit(options) => audit::audit(options),
        args::Command::Nccl(options) => nccl::nccl(options),
        args::Command::Doctor(options) => doctor::doctor(options),
    };
    match done {
        Ok(code) => code.into(),
        Err(error) => {
            // A reader that has seen enough (`| head`) needs no words.
            if !is_closed_pipe(&error) {
                let _ = writeln!(anstream::stderr(), "collspec: {}", with_causes(&*error));
            }
            exit::Exit::WRONG_INPUT.into()
        }
    }
}

fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
