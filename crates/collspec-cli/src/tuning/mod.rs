//! What a library decides for a machine: algorithm, protocol and channels of each operation by size, and what its search of the topology has found.
//! The library is asked on software GPUs whose kernels do nothing, so that operations of any size are decided at once.
//!
//! | file | purpose |
//! |---|---|
//! | `ask` | starts a process for each node, and reads what the library of rank 0 has written |
//! | `call` | a node's side: makes a communicator and calls the operations |
//! | `search` | what the log says about the communicator |
//! | `request` | which calls the library is asked for, and in which processes |
//! | `changes` | what differs between two libraries |
mod ask;
mod call;
mod changes;
mod request;
mod search;

use crate::footprint::Choice;
pub use ask::{Node, Request, TuningError, ask, enter_if_asked};
pub use call::Task;
pub use changes::{Changes, changes};
pub use request::{Calls, NAMES_OPERATIONS, TELLS, nodes_of, variables_of};
use serde::{Deserialize, Serialize};

/// The version of the JSON object.
pub const VERSION: u32 = 1;

/// The decisions of a library for a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuning {
    /// The version of this object.
    pub collspec_tuning: u32,
    /// The library and its machine, in words.
    pub library: String,
    /// Ranks of the communicator.
    pub ranks: usize,
    /// The type of all elements, as scenarios call it.
    pub dtype: String,
    /// What the search of the topology has found, as names with values, in the order of the log.
    pub communicator: Vec<(String, String)>,
    /// Algorithm, protocol and channels by operation and size.
    pub choices: Vec<Choice>,
}
