//! `collspec record`.
use super::exit::Exit;
use super::terminal;
use crate::fetch::elf;
use anyhow::Context;
use clap::Args as ClapArgs;
use collspec_run::library::standin;
use rustix::fs::Access;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The recorder's file name as cargo builds it.
pub(super) const RECORDER: &str = "libcollspec_recorder.so";
/// The variable with the folder, as the recorder reads it. The crate itself is not linked: this program would have its functions.
pub(super) const FOLDER_VARIABLE: &str = "COLLSPEC_RECORD";
pub(super) const PRELOAD: &str = "LD_PRELOAD";
/// AddressSanitizer's runtime ends a program in which another library comes before its own. That library might replace functions that the
/// runtime replaces, which none of those that are preloaded here does.
const SANITIZER: &str = "ASAN_OPTIONS";
const ORDER_IS_RIGHT: &str = "verify_asan_link_order=0";

/// Run a program and write down its NCCL calls, for `collspec import nccl-log`.
///
/// Every process that calls NCCL writes a file HOST.PID.log to the folder: calls with counts, types, groups, streams and communicators,
/// never data. Programs that start others, such as torchrun, are followed. The program's exit code is that of this command.
///
/// Example: collspec record -- torchrun --nproc-per-node 8 train.py, then collspec import nccl-log nccl-calls/*.log
#[derive(Debug, ClapArgs)]
pub struct RecordArgs {
    /// The folder for the files. One that has files of an earlier recording is refused.
    #[arg(long, short, value_name = "FOLDER", default_value = "nccl-calls")]
    pub output: PathBuf,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Becomes the program. Comes back only if that fails.
pub fn record(args: &RecordArgs) -> anyhow::Result<Exit> {
    let word = args.program.first().context("no program is named")?;
    // Before the folder is made and before any advice: neither is of use without a program.
    let program = startable(word).with_context(|| cannot_start(word))?;
    let folder = prepared(&args.output)?;
    let preload = before(standin::installed(RECORDER)?, PRELOAD);
    let quoted = collspec_suite::report::shell::quote_if_needed(&args.output.to_string_lossy());
    if elf::is_static(&program) {
        let program = program.display();
        writeln!(terminal::err(), "collspec: {program} is linked statically, so its own calls cannot be recorded")?;
    }
    writeln!(terminal::err(), "collspec: recording; afterwards: collspec import nccl-log {quoted}/*.log --rounds")?;
    become_program(&args.program, &[(PRELOAD, preload), (FOLDER_VARIABLE, folder.into())])
}

/// The folder for the files, which is made if it is not there.
pub(super) fn prepared(folder: &Path) -> anyhow::Result<PathBuf> {
    let shown = folder.display();
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {shown}"))?;
    let mut entries = std::fs::read_dir(folder).with_context(|| format!("cannot read the folder {shown}"))?;
    let is_log = |entry: std::fs::DirEntry| entry.path().extension().is_some_and(|extension| extension == "log");
    anyhow::ensure!(
        !entries.any(|entry| entry.is_ok_and(is_log)),
        "{shown} has the files of an earlier recording; --output names another folder"
    );
    folder.canonicalize().with_context(|| format!("cannot find {shown}"))
}

/// Where the system looks for programs if the variable `PATH` is not set.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file of a program that can be started. The search path leads to it if the word is only a name.
pub(super) fn startable(word: &OsStr) -> io::Result<PathBuf> {
    if word.as_encoded_bytes().contains(&b'/') {
        return executable(word.into());
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut error = io::Error::from(Errno::NOENT);
    for folder in std::env::split_paths(&folders) {
        match executable(folder.join(word)) {
            Ok(path) => return Ok(path),
            // One that may not be executed says more than the folders in which there is none.
            Err(other) if other.kind() == io::ErrorKind::PermissionDenied => error = other,
            Err(_) => {}
        }
    }
    Err(error)
}

fn executable(path: PathBuf) -> io::Result<PathBuf> {
    rustix::fs::access(&path, Access::EXEC_OK)?;
    if !path.is_file() {
        return Err(Errno::ACCESS.into());
    }
    Ok(path)
}

pub(super) fn cannot_start(program: &OsStr) -> String {
    format!("cannot start {}", program.display())
}

/// A path, followed by those of the list in this environment variable.
pub(super) fn before(path: PathBuf, list: &str) -> OsString {
    in_front(path, std::env::var_os(list).filter(|others| !others.is_empty()))
}

/// A path, followed by those of a list.
pub(super) fn in_front(path: PathBuf, list: Option<OsString>) -> OsString {
    let mut all = path.into_os_string();
    if let Some(list) = list {
        all.push(":");
        all.push(list);
    }
    all
}

/// The options in this environment variable, followed by another.
fn after(list: &str, option: &str) -> OsString {
    match std::env::var_os(list).filter(|options| !options.is_empty()) {
        Some(mut options) => {
            options.push(":");
            options.push(option);
            options
        }
        None => option.into(),
    }
}

/// A program with these variables.
pub(super) fn program<N: AsRef<OsStr>>(words: &[OsString], variables: &[(N, OsString)]) -> anyhow::Result<Command> {
    let (program, arguments) = words.split_first().context("no program is named")?;
    let variables = variables.iter().map(|(name, value)| (name, value));
    let mut command = Command::new(program);
    command.args(arguments).envs(variables).env(SANITIZER, after(SANITIZER, ORDER_IS_RIGHT));
    Ok(command)
}

/// Becomes a program with these variables. Comes back only if that fails.
pub(super) fn become_program<N: AsRef<OsStr>>(words: &[OsString], variables: &[(N, OsString)]) -> anyhow::Result<Exit> {
    let mut command = program(words, variables)?;
    let error = command.exec();
    Err(error).with_context(|| cannot_start(command.get_program()))
}
