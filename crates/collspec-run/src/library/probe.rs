//! Asks a library for its version and functions in a child process: opening it runs its code, which may crash, hang or print.
use crate::backend::{software_gpus, version_text};
use crate::child::Workers;
use crate::child::question::{NoAnswer, Question};
use nccl_sys::{Maker, Nccl, ncclResult_t};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const QUESTION: Question = Question { variable: "COLLSPEC_PROBE", mark: "collspec-probe:" };
/// Time limit of opening a library.
const LIMIT: Duration = Duration::from_secs(20);

/// Version, maker and functions of a library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryInfo {
    /// NCCL's version code.
    pub version: i32,
    /// The maker of the library.
    #[serde(with = "MakerMessage")]
    pub maker: Maker,
    /// The functions that it has, of those that collspec knows.
    pub symbols: Vec<String>,
    /// True if its machine code for GPUs was cut out, so that it runs on software GPUs alone.
    pub slimmed: bool,
}

/// [`Maker`] in the child's reply.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Maker")]
enum MakerMessage {
    Nvidia,
    Collspec,
    Other,
}

impl LibraryInfo {
    pub fn version_text(&self) -> String {
        version_text(self.version)
    }

    /// The functions that a file exports, for a library that was not queried.
    pub fn of_exports(exports: impl IntoIterator<Item = String>) -> Self {
        Self { version: 0, maker: Maker::Other, symbols: exports.into_iter().collect(), slimmed: false }
    }

    /// The functions of NCCL that it lacks, each with the release that introduced it.
    pub fn missing_functions(&self) -> Vec<(&'static str, &'static str)> {
        let has = |name: &str| self.symbols.iter().any(|symbol| symbol == name);
        Nccl::SYMBOLS.iter().filter(|(name, since)| *since != "-" && !has(name)).copied().collect()
    }
}

/// The reason why a library could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The file cannot be loaded, or is not a usable NCCL.
    #[error("{0}")]
    Unusable(String),
    /// Opening it ended the child.
    #[error("opening it ends the process: {how}")]
    Died {
        /// Signal or exit status, and the end of its output.
        how: String,
    },
    /// Opening it took too long.
    #[error("opening it takes more than {} s", .0.as_secs())]
    TooSlow(Duration),
    /// The program that was started as a child did not ask.
    #[error(
        "{} does not ask libraries: its main must call collspec::enter_if_asked() first, or another program be named",
        .0.display()
    )]
    NotAsked(PathBuf),
    /// The program could not be started.
    #[error("cannot start a process to query it: {0}")]
    Start(#[from] io::Error),
}

#[derive(Serialize, Deserialize)]
enum ProbeReply {
    Probed(LibraryInfo),
    Unusable(String),
}

/// Asks the library at `path` in a child.
///
/// # Errors
///
/// The library cannot be used, or the child could not ask it.
pub fn probe(path: &Path, workers: &Workers) -> Result<LibraryInfo, ProbeError> {
    probe_within(LIMIT, path, workers)
}

/// Like [`probe`], with another time limit.
///
/// # Errors
///
/// The library cannot be used, or the child could not query it.
pub fn probe_within(limit: Duration, path: &Path, workers: &Workers) -> Result<LibraryInfo, ProbeError> {
    let path = std::path::absolute(path)?;
    let reply = QUESTION.ask(workers, path.as_os_str(), limit, |command| {
        command.env_remove("NCCL_DEBUG").env_remove("NCCL_DEBUG_FILE").envs(super::loader_path());
    });
    match reply {
        Ok(ProbeReply::Probed(probed)) => Ok(probed),
        Ok(ProbeReply::Unusable(words)) => Err(ProbeError::Unusable(words)),
        Err(NoAnswer::NotAsked(program)) => Err(ProbeError::NotAsked(program)),
        Err(NoAnswer::Died(how)) => Err(ProbeError::Died { how }),
        Err(NoAnswer::TooSlow(limit)) => Err(ProbeError::TooSlow(limit)),
        Err(NoAnswer::Start(error)) => Err(ProbeError::Start(error)),
    }
}

/// Asks a library and ends this process, if it was started to do so.
pub fn enter_if_asked() {
    QUESTION.answer_if_asked(|path| {
        open_and_describe(Path::new(&path)).map_or_else(ProbeReply::Unusable, ProbeReply::Probed)
    });
}

fn open_and_describe(path: &Path) -> Result<LibraryInfo, String> {
    let table = Nccl::load(path).map_err(|error| error.to_string())?;
    let maker = table.maker;
    let library = crate::backend::Library::new(table);
    let symbols = library.symbols().into_iter().map(str::to_owned).collect();
    match library.version() {
        0 => Err(format!("ncclGetVersion no longer answers {:?}", ncclResult_t::Success)),
        version => Ok(LibraryInfo { version, maker, symbols, slimmed: software_gpus::is_slimmed(path) }),
    }
}
