//! A node's side: makes a communicator with the other nodes, and calls every operation in every size.
use crate::footprint::{OPERATIONS, Order, Ranks, load};
use collspec_core::num::DType;
use collspec_run::backend::{Device, Library, software_gpus};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::PathBuf;

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
    /// The descriptor at whose end the process may end: the other nodes must be there as long as rank 0 calls.
    pub waits_at: Option<i32>,
}

/// Calls the operations in this process. NCCL_COMM_ID says where the nodes meet.
///
/// # Errors
///
/// The library cannot be used, or no communicator can be made. An operation that the library refuses is left out.
pub(super) fn call(task: &Task) -> Result<(), String> {
    let dtype = DType::parse(&task.dtype).ok_or("there is no such type")?;
    let count = software_gpus::device_count(None).map_err(|error| error.to_string())?;
    let device = Device::Software { offset: 0, count };
    let largest = task.sizes.iter().copied().max().unwrap_or(0);
    let (ranks, _) = Ranks::start(task.ranks.clone(), task.world, device, largest)?;
    let library: &'static Library = Box::leak(Box::new(load(Some(&task.library), device)?));
    software_gpus::skip_kernels();
    let id = library.unique_id().map_err(|error| error.to_string())?;
    ranks.all(&Order::Init { library, id, ranks: task.world })?;
    let has = library.symbols();
    let asked = |name: &str| task.operations.iter().any(|operation| operation == name);
    let calls = OPERATIONS.into_iter().filter(|(call, name)| asked(name) && has.contains(&call.symbol()));
    for (call, _) in calls {
        for bytes in task.sizes.iter().copied() {
            let order = Order::Collective { call, bytes, dtype, tag: None };
            if ranks.all_to_the_last(&order).is_err() {
                break;
            }
        }
    }
    if let Some(descriptor) = task.waits_at {
        let mut until = File::open(format!("/proc/self/fd/{descriptor}")).map_err(|error| error.to_string())?;
        // Nothing is ever written to it.
        let _ = until.read(&mut [0]);
    }
    // Otherwise NCCL's files in /dev/shm, up to 68 MB each, would outlive the process. The operations will never end.
    ranks.all_to_the_last(&Order::Abort).map(|_| ())
}
