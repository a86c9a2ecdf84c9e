//! A node's side: makes a communicator with the other nodes, and calls every operation in every size.
use crate::footprint::{Choice, OPERATIONS, Order, Ranks, load};
use collspec_core::num::DType;
use collspec_run::backend::{Device, Library, software_gpus};
use collspec_run::child::shared_files;
use nccl_sys::ncclUniqueId;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::path::PathBuf;

/// Bytes of a communicator's id.
const ID_BYTES: usize = size_of::<ncclUniqueId>();

/// What the process of a node does.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    /// The library.
    pub library: PathBuf,
    /// The ranks that are on this node.
    pub ranks: Range<usize>,
    /// Ranks of the communicator.
    pub world: usize,
    /// Names of the operations, as in NCCL's log.
    pub operations: Vec<String>,
    /// Bytes of the operations.
    pub sizes: Vec<u64>,
    /// The type of all elements, as scenarios call it.
    pub dtype: String,
}

/// How the nodes meet. Paths are those of pipes of the process that asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Meeting {
    /// There is no other node, or the others get the communicator's id from here.
    Invites {
        /// The path to write it to.
        at: String,
        /// How many read it.
        others: usize,
    },
    /// The id comes from the first node.
    Joins {
        /// The path to read it from.
        at: String,
        /// The path at whose end the process may end: the other nodes must be there as long as rank 0 calls.
        until: String,
    },
}

/// Calls the operations in this process. The answer is the first size of each operation that the library has refused: larger ones are not tried.
///
/// # Errors
///
/// The library cannot be used, or no communicator can be made.
pub(super) fn call(task: &Task, meeting: &Meeting) -> Result<Vec<Choice>, String> {
    let dtype = DType::parse(&task.dtype).ok_or("there is no such type")?;
    let count = software_gpus::device_count(None).map_err(|error| error.to_string())?;
    let device = Device::Software { offset: 0, count };
    let largest = task.sizes.iter().copied().max().unwrap_or(0);
    let (ranks, _) = Ranks::start(task.ranks.clone(), task.world, device, largest)?;
    let library: &'static Library = Box::leak(Box::new(load(Some(&task.library), device)?));
    software_gpus::skip_kernels();
    let id = match meeting {
        Meeting::Invites { at, others } => invite(library, at, *others)?,
        Meeting::Joins { at, .. } => join(at)?,
    };
    ranks.all(&Order::Init { library, id, ranks: task.world })?;
    let has = library.symbols();
    let asked = |name: &str| task.operations.iter().any(|operation| operation == name);
    let calls = OPERATIONS.into_iter().filter(|(call, name)| asked(name) && has.contains(&call.symbol()));
    let mut refusals = Vec::new();
    for (call, name) in calls {
        for bytes in task.sizes.iter().copied() {
            let order = Order::Collective { call, bytes, dtype, tag: None };
            if let Err(why) = ranks.all_to_the_last(&order) {
                refusals.push(Choice { operation: Some(name.to_owned()), bytes, words: format!("refused: {why}") });
                break;
            }
        }
    }
    if let Meeting::Joins { until, .. } = meeting {
        let mut until = File::open(until).map_err(|error| error.to_string())?;
        // Nothing is ever written to it.
        let _ = until.read(&mut [0]);
    }
    // Destroying the communicator would wait for the operations, which never end, and aborting it may.
    shared_files::remove(shared_files::mapped_by("self"));
    Ok(refusals)
}

/// Makes the communicator's id, and writes it for the other nodes.
fn invite(library: &Library, at: &str, others: usize) -> Result<ncclUniqueId, String> {
    let id = library.unique_id().map_err(|error| error.to_string())?;
    let mut pipe = File::options().write(true).open(at).map_err(|error| error.to_string())?;
    let bytes: Vec<u8> = id.internal.iter().map(|byte| byte.cast_unsigned()).collect();
    (0..others).try_for_each(|_| pipe.write_all(&bytes)).map_err(|error| error.to_string())?;
    Ok(id)
}

/// Waits for the id of the first node.
fn join(at: &str) -> Result<ncclUniqueId, String> {
    let mut id = ncclUniqueId { internal: [0; ID_BYTES] };
    let mut bytes = [0; ID_BYTES];
    let read = File::open(at).and_then(|mut pipe| pipe.read_exact(&mut bytes));
    read.map_err(|error| format!("no id from the first node: {error}"))?;
    id.internal = bytes.map(|byte: u8| byte.cast_signed());
    Ok(id)
}
