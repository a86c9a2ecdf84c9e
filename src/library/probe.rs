//! Asking a library what it is, in a process of its own: opening one runs its code, and that may crash, hang or print.
use crate::backend::version_text;
use crate::child::Workers;
use crate::child::question::{NoAnswer, Question};
use nccl_sys::{Maker, Nccl, ncclResult_t};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

const QUESTION: Question = Question { variable: "COLLSPEC_PROBE", mark: "collspec-probe:" };
/// Time a library may take to open.
const LIMIT: Duration = Duration::from_secs(20);

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
    let path = std::path::absolute(path)?;
    let reply = QUESTION.ask(workers, path.as_os_str(), limit, |command| {
        command.env_remove("NCCL_DEBUG").env_remove("NCCL_DEBUG_FILE").envs(super::loader_path());
    });
    match reply {
        Ok(Reply::Probed(probed)) => Ok(probed),
        Ok(Reply::Unusable(words)) => Err(ProbeError::Unusable(words)),
        Err(NoAnswer::NotAsked(program)) => Err(ProbeError::NotAsked(program)),
        Err(NoAnswer::Died(how)) => Err(ProbeError::Died { how }),
        Err(NoAnswer::TooSlow(limit)) => Err(ProbeError::TooSlow(limit)),
        Err(NoAnswer::Start(error)) => Err(ProbeError::Start(error)),
    }
}

/// If this process was started to ask a library, it does, and this never returns.
pub fn enter_if_asked() {
    QUESTION.answer_if_asked(|path| ask(Path::new(&path)).map_or_else(Reply::Unusable, Reply::Probed));
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
