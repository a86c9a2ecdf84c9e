//! The interface to the code that executes kernels.
use super::errors;
use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{Arc, PoisonError, RwLock};

/// The resources that a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Bytes of shared memory of its variables.
    pub shared: usize,
    /// Bytes of constant memory.
    pub constant: usize,
    /// Bytes of local memory of each thread.
    pub local: usize,
    /// Most threads of a block.
    pub most_threads: u32,
    /// Registers of each thread.
    pub registers: u32,
}

/// The parameters of a kernel launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Blocks of a cluster in each dimension.
    pub cluster: [u32; 3],
    /// Bytes of shared memory besides those of the kernel's variables.
    pub dynamic_shared: usize,
}

/// Kernels together with the code that executes them.
pub trait Kernels: Send + Sync {
    /// The attributes of a kernel; `None` if the host has a function for it but the device does not have the kernel.
    fn attributes(&self, kernel: &str) -> Option<Attributes>;

    /// Offset and size of each parameter in the block of parameters; `None` if there is no such kernel.
    fn parameters(&self, kernel: &str) -> Option<Vec<(usize, usize)>>;

    /// Begins a kernel and returns soon. `ended` is called when all its threads have, with a text if it failed; dropped, it says that the
    /// kernel has failed.
    fn launch(
        &self,
        device: usize,
        kernel: &str,
        configuration: &Configuration,
        parameters: &[u8],
        ended: Box<dyn FnOnce(Result<(), String>) + Send>,
    );

    /// Address and size of a device's variable; `None` if there is no such variable.
    fn variable(&self, device: usize, name: &str) -> Option<(u64, u64)>;
}

/// Finds a kernel, or a variable, by the address by which the host's code names it.
pub type Resolver = Box<dyn Fn(*const ()) -> Option<(Arc<dyn Kernels>, String)> + Send + Sync>;

/// A kernel or a variable, with its provider.
#[derive(Clone)]
pub(super) struct Found {
    pub kernels: Arc<dyn Kernels>,
    pub name: Arc<str>,
}

#[derive(Default)]
struct Known {
    resolvers: Vec<Resolver>,
    found: HashMap<usize, Found>,
}

static KNOWN: RwLock<Option<Known>> = RwLock::new(None);

/// The kernels of one more library.
pub fn add_kernels(resolver: Resolver) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    known.resolvers.push(resolver);
    // The library may lie where one was that is gone.
    known.found.clear();
}

/// The function or variable with this address.
pub(super) fn find(address: *const ()) -> Option<Found> {
    let place = address.addr();
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let found = match known.as_ref() {
        Some(known) => match known.found.get(&place) {
            Some(found) => return Some(found.clone()),
            None => known.resolvers.iter().find_map(|resolver| resolver(address)),
        },
        None => None,
    };
    drop(known);
    let found = found.map(|(kernels, name)| Found { kernels, name: name.into() })?;
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().found.insert(place, found.clone());
    Some(found)
}

/// The kernel that is named by this address.
pub(super) fn kernel(address: *const ()) -> Result<Found, c_int> {
    find(address).ok_or(errors::INVALID_DEVICE_FUNCTION)
}
