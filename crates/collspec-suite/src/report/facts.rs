//! The facts that a report states about the library and the machine of a run.

use wrong_nccl::FaultMode;

/// The library, the machine and the environment of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The name of the backend: `soft` or `nccl`.
    pub backend: String,
    /// The version of NCCL whose interface the library has, such as `2.30.7`.
    pub library: String,
    /// Library, driver and devices in a line.
    pub machine: String,
    /// The deliberate fault of the library; empty if there is none.
    pub fault: String,
    /// Variables that workers inherit and that affect the library, by name.
    pub environment: Vec<(String, String)>,
    /// The command that was typed, as a shell reads it.
    pub command: String,
}

impl RunFacts {
    /// The facts of a test's run on this backend with a library of this version; the other facts are not known.
    pub fn new(backend: impl Into<String>, library: impl Into<String>) -> Self {
        Self { backend: backend.into(), library: library.into(), ..Self::default() }
    }

    /// The backend, and for NCCL its version: `soft`, `nccl 2.30.7`.
    pub fn short(&self) -> String {
        if self.backend == "soft" { self.backend.clone() } else { format!("{} {}", self.backend, self.library) }
    }
}

/// A warning, without a full stop, that the library of a run is wrong on purpose; `None` without a fault, and for a trace of faults, which
/// changes nothing.
pub fn fault_warning(fault: &str) -> Option<String> {
    (!fault.is_empty() && fault != FaultMode::Trace.to_string())
        .then(|| format!("with the deliberate fault {fault}: what fails says nothing about the library"))
}
