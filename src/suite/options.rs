//! How cases are run.
use crate::child::Workers;
use crate::plan::Limits;
use crate::run::{Backend, Machine, RanksPerGpu};
use crate::scenario::Placement;
use soft_nccl::Connect;
use soft_nccl::fault::Wish;
use std::sync::Arc;

/// How cases are run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What runs them.
    pub backend: Backend,
    /// Cases at a time; the runner keeps about as many idle workers.
    pub jobs: usize,
    /// Seconds per case instead of the default; a case's own `timeout` goes before it.
    pub timeout: Option<f64>,
    /// Seconds for making communicators and loading, and for destroying communicators after a case, instead of the default.
    pub opening: Option<f64>,
    /// Order of the software library's tasks.
    pub seed: Option<u64>,
    /// Bytes that the software library's sends may leave unreceived.
    pub eager: Option<u64>,
    /// When ranks of the software library connect.
    pub connect: Option<Connect>,
    /// In what way the software library is to be wrong, if it is.
    pub fault: Wish,
    /// Which program is started.
    pub worker: Workers,
    /// The machine under the backend nccl; asked for if it is not given.
    pub machine: Option<Arc<Machine>>,
    /// How many ranks may share a GPU.
    pub ranks_per_gpu: RanksPerGpu,
    /// Who drives the ranks where a file leaves it at the default, if the case allows that.
    pub placement: Option<Placement>,
    /// What a case may cost, and all cases that run at the same time may take of memory.
    pub limits: Limits,
}
