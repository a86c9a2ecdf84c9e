//! The interface to the code that executes kernels, and how kernels are found: a program registers the functions by which its code names
//! them. What a library has registered before its calls came here is known by its symbols instead.
use super::raw::Text;
use super::settings::settings;
use super::{contained, errors};
use crate::registered;
use std::collections::{BTreeSet, HashMap};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

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

    /// The reason why it has no such kernel.
    fn lacks(&self, kernel: &str) -> String {
        format!("there is no PTX of `{kernel}`")
    }
}

/// Finds a kernel, or a variable, by the address by which the host's code names it.
pub type Resolver = Box<dyn Fn(*const ()) -> Option<(Arc<dyn Kernels>, String)> + Send + Sync>;

/// Makes kernels of the fat binary that a wrapper at this address names.
pub type BinaryLoader = Box<dyn Fn(usize) -> Arc<dyn Kernels> + Send + Sync>;

static BINARY_LOADER: OnceLock<BinaryLoader> = OnceLock::new();

/// Sets what makes kernels of the fat binaries that programs register, once. Without it they have none.
pub fn load_registered_with(loader: BinaryLoader) {
    let _ = BINARY_LOADER.set(loader);
}

/// Says whether kernels reach an address: also their variables, which the runtime has not allocated.
pub type Reached = Box<dyn Fn(usize) -> bool + Send + Sync>;

static REACHED: OnceLock<Reached> = OnceLock::new();

/// Sets what knows the variables of kernels, once.
pub fn ask_for_variables(reached: Reached) {
    let _ = REACHED.set(reached);
}

/// True for an address that kernels reach.
pub(super) fn reach(address: usize) -> bool {
    REACHED.get().is_some_and(|reached| reached(address))
}

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
    /// The kernels of registered fat binaries, by handle.
    binaries: HashMap<usize, Arc<OnceLock<Arc<dyn Kernels>>>>,
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
    if let Some(found) = known.as_ref().and_then(|known| known.found.get(&place)) {
        return Some(found.clone());
    }
    drop(known);
    let found = of_registered(place).or_else(|| {
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        let (kernels, name) = known.as_ref()?.resolvers.iter().find_map(|resolver| resolver(address))?;
        Some(Found { kernels, name: name.into() })
    })?;
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().found.insert(place, found.clone());
    Some(found)
}

/// What a program has registered at this address. Its fat binary is read when something of it is first asked for.
fn of_registered(address: usize) -> Option<Found> {
    let symbol = registered::symbol(address)?;
    let loader = BINARY_LOADER.get()?;
    let place = {
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        known.get_or_insert_default().binaries.entry(symbol.binary).or_default().clone()
    };
    let kernels = place.get_or_init(|| loader(symbol.wrapper)).clone();
    Some(Found { kernels, name: symbol.name })
}

/// Names a kernel that cannot be launched, once for each.
pub(super) fn tell_refusal(function: *const (), device: usize) {
    static TOLD: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());
    let new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(function.addr());
    if !settings().tells_failures || !new {
        return;
    }
    let (name, why) = match find(function) {
        Some(found) => (found.name.to_string(), found.kernels.lacks(&found.name)),
        None => (format!("at {:#x}", function.addr()), "nothing has registered a kernel under this address".to_owned()),
    };
    eprintln!("software GPU: kernel {name} on device {device}: {why}");
}

/// What was found at an address may be something else now.
fn forget(addresses: &[usize], binary: Option<usize>) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    let Some(known) = known.as_mut() else { return };
    addresses.iter().for_each(|address| _ = known.found.remove(address));
    binary.inspect(|binary| _ = known.binaries.remove(binary));
}

/// The handle is a number, which the compiler's code only hands back.
extern "C" fn __cudaRegisterFatBinary(wrapper: usize) -> usize {
    registered::add_binary(wrapper)
}

extern "C" fn __cudaUnregisterFatBinary(binary: usize) {
    contained(|| {
        forget(&registered::remove(binary), Some(binary));
        Ok(())
    });
}

/// The parameters that follow the name are not needed.
extern "C" fn __cudaRegisterFunction(binary: usize, function: usize, _device_function: usize, name: Text) {
    register(binary, function, name);
}

extern "C" fn __cudaRegisterVar(binary: usize, variable: usize, _device_address: usize, name: Text) {
    register(binary, variable, name);
}

fn register(binary: usize, address: usize, name: Text) {
    contained(|| {
        registered::add_symbol(binary, address, &name.get()?);
        forget(&[address], None);
        Ok(())
    });
}

/// Managed variables, textures and the like do not exist here, and all is registered before the end.
extern "C" fn nothing_to_register() -> c_int {
    1
}

/// The functions that the compiler's code calls when a library or program is loaded.
pub(super) fn functions() -> Vec<(&'static str, *const ())> {
    let nothing = nothing_to_register as *const ();
    vec![
        ("__cudaRegisterFatBinary", __cudaRegisterFatBinary as *const ()),
        ("__cudaUnregisterFatBinary", __cudaUnregisterFatBinary as *const ()),
        ("__cudaRegisterFunction", __cudaRegisterFunction as *const ()),
        ("__cudaRegisterVar", __cudaRegisterVar as *const ()),
        ("__cudaInitModule", nothing),
        ("__cudaRegisterFatBinaryEnd", nothing),
        ("__cudaRegisterHostVar", nothing),
        ("__cudaRegisterManagedVar", nothing),
        ("__cudaRegisterSurface", nothing),
        ("__cudaRegisterTexture", nothing),
        ("__cudaRegisterUnifiedTable", nothing),
    ]
}

/// The kernel that is named by this address.
pub(super) fn kernel(address: *const ()) -> Result<Found, c_int> {
    find(address).ok_or(errors::INVALID_DEVICE_FUNCTION)
}
