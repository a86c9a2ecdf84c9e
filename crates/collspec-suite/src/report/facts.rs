//! The facts that a report states about the library and the machine of a run.

/// The library, the machine and the environment of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFacts {
    /// The name of the backend: `soft` or `nccl`.
    pub backend: String,
    /// The version of NCCL whose interface the library has, such as `2.30.7`.
    pub library: String,
    /// Library, driver and devices in a line.
    pub machine: String,
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
