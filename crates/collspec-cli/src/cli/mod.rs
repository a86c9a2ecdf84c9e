//! The command line: its arguments, and the actions they request.
mod args;
mod audit;
mod audit_mutants;
mod audit_requirements;
mod backend;
mod backend_args;
mod bench;
mod bench_args;
mod c_numbers;
mod check;
mod check_report;
mod compare;
mod compare_args;
mod compare_program;
mod coverage_args;
mod doctor;
#[cfg(test)]
mod documented_commands;
mod download_bar;
mod errors;
mod exit;
mod explain;
mod explain_args;
mod explore;
mod explore_args;
mod explore_program;
mod failed_cases;
mod faults;
mod faults_args;
mod foreign_arguments;
mod gate;
mod gpu;
mod hang;
mod hang_args;
mod headings;
mod implied_run;
mod import;
mod import_args;
mod judge;
mod judge_args;
mod judged;
mod launched;
mod launcher_options;
mod machine;
mod manual;
mod minimize;
mod minimize_args;
mod mutants_args;
mod nccl;
mod nccl_tests_line;
mod nccl_tests_options;
mod nccl_tests_processes;
mod new;
mod on_nodes;
mod output;
mod own_json;
mod places;
mod progress;
mod progress_line;
mod quick_args;
mod record;
mod report_args;
mod reports;
mod run;
mod schema;
mod select;
mod select_args;
mod settings_args;
mod soak;
mod soak_args;
mod terminal;
mod tuning;
mod tuning_args;

use crate::footprint;
use clap::{CommandFactory, Parser};
use collspec_core::printable::{printable, printable_lines};
use errors::{plain, tell};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

/// The command `collspec`: reads the arguments of this process and carries them out; returns the exit code that `--help` lists.
///
/// A program calls this right after `collspec::enter_if_asked`, because `compare` starts the program again to measure libraries, and
/// those processes do their work here.
pub fn command() -> ExitCode {
    footprint::enter_if_asked();
    crate::tuning::enter_if_asked();
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if words.len() < 2 {
        return without_arguments();
    }
    if implied_run::is_meant(&words[1]) {
        words.insert(1, "run".into());
    }
    let args = match args::Args::try_parse_from(words) {
        Ok(args) => args,
        Err(error) => return refused(&error),
    };
    let done = match &args.command {
        args::Command::Run(options) => run::run(options),
        args::Command::Check(options) => check::check(options),
        args::Command::Explain(options) => {
            launched::in_one_process(options.alone.launcher, "explain", || explain::explain(options))
        }
        args::Command::Compare(options) if !options.program.is_empty() => compare_program::compare_program(options),
        args::Command::Compare(options) => compare::compare_libraries(options),
        args::Command::Gate(options) => {
            launched::in_one_process(options.alone.launcher, "gate", || gate::gate(options))
        }
        args::Command::Audit(options) => {
            launched::in_one_process(options.alone.launcher, "audit", || match options.names_library() {
                true => audit_mutants::audit(options),
                false => audit::audit(options),
            })
        }
        args::Command::Minimize(options) => {
            launched::in_one_process(options.alone.launcher, "minimize", || minimize::reduce(options))
        }
        args::Command::Explore(options) if !options.program.is_empty() => explore_program::explore_program(options),
        args::Command::Explore(options) => {
            launched::in_one_process(options.alone.launcher, "explore", || explore::explore_schedules(options))
        }
        args::Command::Faults(options) => {
            launched::in_one_process(options.alone.launcher, "faults", || faults::try_faults(options))
        }
        args::Command::Soak(options) => {
            launched::in_one_process(options.alone.launcher, "soak", || soak::soak_library(options))
        }
        args::Command::Tuning(options) => tuning::tuning(options),
        args::Command::Select(options) => select::select(options),
        args::Command::Bench(options) => bench::bench(options),
        args::Command::New(options) => new::new(options),
        args::Command::Import(options) => import::import(options),
        args::Command::Hang(options) => hang::hang(options),
        args::Command::Nccl(options) => nccl::nccl(options),
        args::Command::Machine(command) => machine::machine(command),
        args::Command::Doctor(options) => doctor::doctor(options),
        args::Command::Gpu(options) => gpu::gpu(options),
        args::Command::Judge(options) => judge::judge(options),
        args::Command::Record(options) => record::record(options),
        args::Command::Schema(options) => schema::print(options),
        args::Command::Completions(options) => manual::completions(options),
        args::Command::Man(options) => manual::man(options),
    };
    match done {
        Ok(code) => code.into(),
        Err(error) => tell(&error).into(),
    }
}

/// The command alone: its short help, and a hint about what this folder has to run.
fn without_arguments() -> ExitCode {
    let help = args::Args::command().render_help();
    let mut to = terminal::err();
    let _ = write!(to, "{}", help.ansi());
    let _ = writeln!(to, "\ncollspec: {}", places::what_is_here("collspec run"));
    exit::Exit::WRONG_INPUT.into()
}

/// The argument parser's message, which quotes the arguments as they were typed.
fn refused(error: &clap::Error) -> ExitCode {
    if let Some(message) = foreign_arguments::message(error) {
        let _ = writeln!(terminal::err(), "{message}");
        return exit::Exit::WRONG_INPUT.into();
    }
    let rendered = error.render();
    let hostile = std::env::args_os().any(|arg| matches!(printable(&arg.to_string_lossy()), Cow::Owned(_)));
    let written = match (error.use_stderr(), hostile) {
        (true, true) => write!(terminal::err(), "{}", printable_lines(&plain(error, std::env::args_os()))),
        (true, false) => write!(terminal::err(), "{}", rendered.ansi()),
        (false, _) => write!(terminal::out(), "{}", rendered.ansi()),
    };
    if written.is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return exit::Exit::CLOSED_PIPE.into();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
