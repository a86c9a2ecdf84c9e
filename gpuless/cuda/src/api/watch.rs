//! Reports to executors of kernels which memory kernels may access.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A change of the memory that kernels may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The bytes from this address on are accessible: more than before, if a region beginning there is already mapped.
    Mapped {
        /// Address of the first byte.
        address: usize,
        /// Number of bytes.
        bytes: usize,
    },
    /// The region that begins at this address must not be accessed any more. It is unmapped after the call returns.
    Unmapped {
        /// Address of the first byte.
        address: usize,
    },
}

type Watcher = Arc<dyn Fn(Change) + Send + Sync>;

#[derive(Default)]
struct Watch {
    /// Size in bytes and number of mappings by start: memory can be registered again before its last registration is gone.
    mapped: BTreeMap<usize, (usize, usize)>,
    watchers: Vec<Watcher>,
}

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Watch>> {
    WATCH.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Watch {
    fn tell(&self, change: Change) {
        self.watchers.iter().for_each(|watcher| watcher(change));
    }
}

/// Calls `watcher` for all memory that kernels can reach now, and for every later change: memory of the runtime, and of gpuless-device. It
/// must call neither of them.
pub fn watch_memory(watcher: Watcher) {
    gpuless_device::memory::watch(|address, len| match len {
        Some(bytes) => mapped(address, bytes),
        None => unmapped(address),
    });
    let mut watch = locked();
    let watch = watch.get_or_insert_default();
    for (address, (bytes, _)) in &watch.mapped {
        watcher(Change::Mapped { address: *address, bytes: *bytes });
    }
    watch.watchers.push(watcher);
}

pub(super) fn mapped(address: usize, bytes: usize) {
    let mut watch = locked();
    let watch = watch.get_or_insert_default();
    let (before, times) = watch.mapped.get(&address).copied().unwrap_or_default();
    watch.mapped.insert(address, (before.max(bytes), times + 1));
    if bytes > before {
        watch.tell(Change::Mapped { address, bytes });
    }
}

pub(super) fn unmapped(address: usize) {
    let mut watch = locked();
    let watch = watch.get_or_insert_default();
    match watch.mapped.get_mut(&address) {
        Some((_, times)) if *times > 1 => *times -= 1,
        Some(_) => {
            watch.mapped.remove(&address);
            watch.tell(Change::Unmapped { address });
        }
        None => {}
    }
}
