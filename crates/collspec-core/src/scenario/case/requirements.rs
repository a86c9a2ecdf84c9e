//! The machine that a case needs, and the variables of its processes.
use super::Spanned;

/// The requirements in the `requires` table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Requires {
    /// NCCL's version: comparison (`>=`, `>`, `<=`, `<`, `==`) and version.
    pub nccl: Vec<(String, (u32, u32, u32))>,
    /// True if the case needs NVIDIA's library, or one that behaves like it beyond NCCL's documentation.
    pub nvidia: bool,
    /// Minimum number of GPUs.
    pub gpus: Option<u32>,
    /// Minimum number of machines.
    pub nodes: Option<u32>,
    /// Minimum number of network adapters for RDMA in each machine.
    pub nics: Option<u32>,
    /// Minimum number of NVLinks of each GPU.
    pub nvlinks: Option<u32>,
    /// What the adapters speak: `InfiniBand` or `Ethernet`.
    pub link_layer: Option<String>,
    /// The lowest compute capability.
    pub compute: Option<(u32, u32)>,
    /// True if the GPUs must support multicast memory, on which NVLS depends.
    pub multicast: bool,
    /// The name of the backend.
    pub backend: Option<String>,
}

/// An environment variable of the worker.
#[derive(Clone, Debug)]
pub struct EnvVar {
    /// The variable's name, `NCCL_...`.
    pub name: Spanned<String>,
    /// One value for all ranks, or one per world rank.
    pub value: EnvValue,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnvValue {
    /// The same value for all ranks.
    All(String),
    /// One value per world rank.
    PerRank(Vec<String>),
}
