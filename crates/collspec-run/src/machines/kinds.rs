//! What machines are made of, and why one cannot be used.
use collspec_core::files;
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// The most GPUs of a machine: NCCL refuses to work with more.
pub(super) const MOST_GPUS: usize = 32;
pub(super) const MOST_NICS: usize = 32;
/// The most GPUs of an NVLink domain, with switches of the fifth generation.
pub(super) const MOST_JOINED_GPUS: usize = 576;
/// The most NVLinks of a GPU: those of a B200.
pub(super) const MOST_LINKS: u32 = 18;

/// What network adapters speak.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum LinkLayer {
    /// InfiniBand.
    #[default]
    InfiniBand,
    /// RoCE.
    Ethernet,
}

/// What a GPU is, beside its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuKind {
    /// Its maker's name for it. Programs are told that they have software GPUs.
    pub name: String,
    /// Number of streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
}

/// The reason a machine cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No profile has this name.
    #[error(
        "there is no machine {name:?}{}; the machines are {}, or the path of a .toml or .xml file",
        .near.map(|near| format!(", did you mean {near}?")).unwrap_or_default(),
        .known.join(", ")
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The most similar name.
        near: Option<&'static str>,
        /// The names that there are.
        known: Vec<&'static str>,
    },
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The reason.
        source: files::Refused,
    },
    /// The file's contents have no meaning, or contradict each other.
    #[error("{}:{line}: {why}", .path.display())]
    Contents {
        /// The file's path.
        path: PathBuf,
        /// The line.
        line: usize,
        /// The reason.
        why: String,
    },
}

impl MachineError {
    pub(super) fn at(path: &Path, line: usize, why: String) -> Self {
        Self::Contents { path: path.to_owned(), line, why }
    }
}
