//! Asking a library what it is, in a process of its own: opening one runs its code, and that may crash, hang or print.
//!
//! The program is started again with a variable that names the library, as it is for a worker; it answers with one line
//! on its standard output and ends at once, without running what the library has planned for a process's end.
use crate::backend::version_text;
use crate::child::Workers;
use crate::child::command::{self, CommandError};
use crate::child::program::Program;
use nccl_sys::{Maker, Nccl, ncclResult_t};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The variable that makes a program ask a library: `parent's process id:path`.
const VARIABLE: &str = "COLLSPEC_PROBE";
/// Begins the answer; a library may write lines of its own.
const MARK: &str = "collspec-probe:";
/// Time a library may take to open.
const LIMIT: Duration = Duration::from_secs(20);
/// Exit status of a process that was asked in vain.
const NOT_ASKED: i32 = 102;

/// What a library says of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    /// NCCL's version code.
    pub version: i32,
    /// The maker of the library.
    #[serde(with = "MakerInWords")]
    pub maker: Maker,
    /// Functions that it has, of those that collspec knows.
    pub symbols: Vec<String>,
}

/// [`Maker`], as it is sent.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Maker")]
enum MakerInWords {
    Nvidia,
    Collspec,
    Other,
}

impl Probed {
    /// Its version in words.
    pub fn version_text(&self) -> String {
        version_text(self.version)
    }

    /// NCCL's functions that it lacks, with the release that introduced each.
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        let has = |name: &str| self.symbols.iter().any(|symbol| symbol == name);
        Nccl::SYMBOLS.iter().filter(|(name, since)| *since != "-" && !has(name)).copied().collect()
    }
}

/// Why a library did not say what it is.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It cannot be loaded, or is no NCCL that can be used.
    #[error("{0}")]
    Unusable(String),
    /// It ended the process that asked.
    #[error("opening it ends the process: {how}")]
    Died {
        /// Signal or exit status, and its last words.
        how: String,
    },
    /// It took too long to open.
    #[error("opening it takes more than {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The program that should ask did not.
    #[error(
        "{} does not ask libraries: its main must call collspec::enter_if_asked() first, or another program be named",
        .0.display()
    )]
    NotAsked(PathBuf),
    /// The program could not be started.
    #[error("no process to ask it: {0}")]
    Start(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
enum Reply {
    Probed(Probed),
    Unusable(String),
}

/// Asks the library at `path` in a child.
pub fn probe(path: &Path, workers: &Workers) -> Result<Probed, ProbeError> {
    probe_within(LIMIT, path, workers)
}

/// As [`probe`], with a limit of time of the caller's.
pub fn probe_within(limit: Duration, path: &Path, workers: &Workers) -> Result<Probed, ProbeError> {
    let program = Program::of(workers)?;
    let not_asked = || ProbeError::NotAsked(program.path().to_owned());
    // A program that never enters would do its own work again instead; a child that got here is one.
    let enters = matches!(workers, Workers::Command(_)) || crate::child::can_be_worker();
    if !enters || std::env::var_os(VARIABLE).is_some() || crate::child::is_worker() {
        return Err(not_asked());
    }
    let path = std::path::absolute(path)?;
    let mut value = std::ffi::OsString::from(format!("{}:", std::process::id()));
    value.push(&path);
    let mut command = program.command();
    command.env(VARIABLE, value).env_remove("NCCL_DEBUG").env_remove("NCCL_DEBUG_FILE").envs(super::loader_path());
    let answer = match command::run(command, limit) {
        Ok(answer) => answer,
        Err(CommandError::TooSlow(limit)) => return Err(ProbeError::TooSlow(limit)),
        Err(CommandError::Start(error)) => return Err(ProbeError::Start(error)),
    };
    let mut lines = answer.out.lines().filter_map(|line| line.strip_prefix(MARK));
    match lines.find_map(|line| serde_json::from_str(line).ok()) {
        Some(Reply::Probed(probed)) => Ok(probed),
        Some(Reply::Unusable(words)) => Err(ProbeError::Unusable(words)),
        None => Err(match (answer.status.signal(), answer.status.code()) {
            (Some(signal), _) => ProbeError::Died { how: with_last_words(format!("signal {signal}"), &answer.err) },
            (None, Some(code)) if answer.out.contains(MARK) => {
                ProbeError::Died { how: with_last_words(format!("exit status {code}"), &answer.err) }
            }
            _ => not_asked(),
        }),
    }
}

fn with_last_words(how: String, said: &str) -> String {
    match said.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{how}: {}", line.trim()),
        None => how,
    }
}

/// If this process was started to ask a library, it does, and this never returns.
pub fn enter_if_asked() {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let Some(value) = std::env::var_os(VARIABLE) else { return };
    let bytes = value.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
    let (parent, path) = (&bytes[..at], bytes.get(at + 1..).unwrap_or_default());
    let ours = rustix::process::getppid().map(|pid| pid.as_raw_pid().to_string());
    if ours.as_deref().map(str::as_bytes) != Some(parent) {
        eprintln!("collspec: {VARIABLE} was not meant for this process");
        std::process::exit(NOT_ASKED);
    }
    // Said before the library has the word: what ends this process from here on is the library.
    let Ok(mut out) = command::own_output() else { std::process::exit(NOT_ASKED) };
    command::say(&mut out, MARK);
    let path = PathBuf::from(std::ffi::OsString::from_vec(path.to_vec()));
    let reply = match ask(&path) {
        Ok(probed) => Reply::Probed(probed),
        Err(words) => Reply::Unusable(words),
    };
    command::say(&mut out, &format!("\n{MARK}{}", serde_json::to_string(&reply).unwrap_or_default()));
    // Not even the library's own functions for a process's end run.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    std::process::exit(0);
}

fn ask(path: &Path) -> Result<Probed, String> {
    let table = Nccl::load(path).map_err(|error| error.to_string())?;
    let maker = table.maker;
    let library = crate::backend::Library::new(table);
    let symbols = library.symbols().into_iter().map(str::to_owned).collect();
    match library.version() {
        0 => Err(format!("ncclGetVersion no longer answers {:?}", ncclResult_t::Success)),
        version => Ok(Probed { version, maker, symbols }),
    }
}
