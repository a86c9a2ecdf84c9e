//! Which calls a library is asked for, and the processes in which it makes them.
use super::{Node, Task};
use crate::footprint::OPERATIONS;
use collspec_core::num::DType;
use collspec_run::run::{Machine, ranks_of_part};
use collspec_suite::suite::{ChosenBackend, RunOptions};
use std::path::Path;

/// The first version of NCCL that writes its choices to its log.
pub const TELLS: i32 = 22200;
/// The first that also names the operation.
pub const NAMES_OPERATIONS: i32 = 22300;

/// The calls of every rank.
#[derive(Clone, Debug)]
pub struct Calls {
    /// Names of the operations, as in NCCL's log.
    pub operations: Vec<String>,
    /// Bytes of the operations.
    pub sizes: Vec<u64>,
    /// The type of all elements.
    pub dtype: DType,
}

impl Calls {
    /// Every operation, from 1 KiB to 1 GiB.
    pub fn usual() -> Self {
        let operations = OPERATIONS.iter().map(|(_, name)| (*name).to_owned()).collect();
        Self { operations, sizes: (10..=30).map(|power| 1 << power).collect(), dtype: DType::F32 }
    }
}

/// The variables of a process on a node that uses the library as a worker would, but is none.
pub fn variables_of(chosen: &ChosenBackend, options: &RunOptions, node: usize) -> Vec<(String, String)> {
    let mut variables = chosen.backend.env();
    // A worker's variable would make the process one.
    variables.retain(|(name, _)| name != collspec_run::child::LIBRARY);
    variables.extend(chosen.machine.iter().flat_map(|machine| machine.node_variables(node)));
    variables.extend(options.variables.iter().cloned());
    variables.extend(options.soft_variables());
    variables
}

/// What the process of each node does if this many ranks are dealt to the nodes in equal blocks. `None` if a node would have no rank, or more ranks
/// than GPUs.
pub fn nodes_of(
    chosen: &ChosenBackend,
    options: &RunOptions,
    library: &Path,
    machine: &Machine,
    ranks: usize,
    calls: &Calls,
) -> Option<Vec<Node>> {
    let nodes = machine.node_names().len().max(1);
    let node = |number: usize| {
        let own = ranks_of_part(number, nodes, u32::try_from(ranks).ok()?);
        if !(1..=machine.gpus.devices.len()).contains(&own.len()) {
            return None;
        }
        let task = Task {
            library: library.to_owned(),
            ranks: own.start as usize..own.end as usize,
            world: ranks,
            operations: calls.operations.clone(),
            sizes: calls.sizes.clone(),
            dtype: calls.dtype.name().to_owned(),
        };
        Some(Node { task, variables: variables_of(chosen, options, number) })
    };
    (0..nodes).map(node).collect()
}
