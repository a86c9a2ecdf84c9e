//! What is known of the program's communicators.
#![allow(unsafe_code)] // the right library is asked

use crate::call::Call;
use crate::right::right;
use nccl_sys::{ncclCollConfig_t, ncclComm_t, ncclResult_t};
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_uint};
use std::ptr::with_exposed_provenance_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// How a communicator came to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Origin {
    #[default]
    Init,
    Split,
    Shrink,
    Grow,
}

/// What is known when a communicator is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Made {
    pub origin: Origin,
    /// The handle of the communicator that it comes from, and that one's ranks and rank.
    pub parent: usize,
    pub parent_n: usize,
    pub parent_rank: usize,
    pub nonblocking: bool,
    /// What tells it from other communicators of the process, the same on all its ranks.
    pub identity: u64,
    /// It is shrunk from one that has lost a rank's process.
    pub after_death: bool,
}

/// The configuration of a call, kept after the call.
#[derive(Clone, Debug)]
pub(crate) struct KeptConfig {
    config: ncclCollConfig_t,
    /// Where the configuration's text lies.
    _text: Option<CString>,
}

// SAFETY: its pointers are to the text beside it, or of the program, which shares them between its threads itself.
unsafe impl Send for KeptConfig {}
// SAFETY: as above; nothing changes it.
unsafe impl Sync for KeptConfig {}

impl KeptConfig {
    /// A copy of the configuration at an address.
    ///
    /// # Safety
    /// There is one, as a call's caller promises.
    pub(crate) unsafe fn of(address: usize) -> Self {
        // SAFETY: the caller's promise.
        let mut config = unsafe { std::ptr::read(std::ptr::with_exposed_provenance::<ncclCollConfig_t>(address)) };
        let text = (!config.alg_selection.is_null()).then(|| {
            // SAFETY: NCCL's contract: null or a text with its end.
            unsafe { std::ffi::CStr::from_ptr(config.alg_selection) }.to_owned()
        });
        config.alg_selection = text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        Self { config, _text: text }
    }

    pub(crate) fn address(&self) -> usize {
        (&raw const self.config).expose_provenance()
    }
}

/// Memory that is registered with a communicator.
#[derive(Clone, Copy)]
pub(crate) struct Registration {
    pub base: usize,
    pub len: usize,
    /// What the library has given for it; 0 until the group of the call has ended.
    pub handle: usize,
    pub is_window: bool,
}

impl Registration {
    pub(crate) fn holds(&self, address: usize, len: usize) -> bool {
        self.base <= address && address + len <= self.base + self.len
    }
}

/// What faults remember of a rank's communicator.
#[derive(Default)]
pub(crate) struct State {
    /// How many operations have moved data so far, and how many puts and waits there were.
    pub operations: u64,
    pub puts: u64,
    pub waits: u64,
    /// The last operation had no elements.
    pub empty: bool,
    /// The call before was refused.
    pub refused: bool,
    /// The tag under which traffic is counted.
    pub tag: c_uint,
    pub last_config: Option<Arc<KeptConfig>>,
    /// The capture that is going on, and the calls in it so far.
    pub capture: Option<u64>,
    pub captured: usize,
    /// The calls of the first capture.
    pub first_capture: (u64, Vec<Call>),
    /// There was a capture, and no direct call since.
    pub owes: bool,
    /// Operations since it was suspended and resumed.
    pub since_resume: Option<u64>,
    pub revoked: bool,
    pub broken: bool,
    pub child_destroyed: bool,
    pub child_aborted: bool,
    pub parent_ended: bool,
    /// Memory that is registered with it, in the order of the calls.
    pub registered: Vec<Registration>,
    /// The data of puts that have not gone out, by peer.
    pub pending: HashMap<c_int, Call>,
}

/// A communicator of the program.
#[derive(Clone)]
pub(crate) struct Communicator {
    pub handle: usize,
    pub rank: usize,
    pub n: usize,
    pub device: Option<usize>,
    pub made: Made,
    pub state: Arc<Mutex<State>>,
}

impl Communicator {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True in a communicator that was split off.
    pub(crate) fn is_split(&self) -> bool {
        self.made.origin == Origin::Split
    }
}

#[derive(Default)]
struct Registry {
    made: HashMap<usize, (Made, Arc<Mutex<State>>)>,
    known: HashMap<usize, Communicator>,
    /// The first communicator of the process that has had an operation.
    first: Option<u64>,
}

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(Mutex::default);
/// A communicator has lost the process of a rank.
static DEATH: AtomicBool = AtomicBool::new(false);

fn registry() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A new program begins. Its communicators may be those of the program before.
pub(crate) fn forget() {
    DEATH.store(false, Ordering::Relaxed);
    let mut registry = registry();
    for (_, state) in registry.made.values_mut() {
        *state = Arc::default();
    }
    registry.known.clear();
}

pub(crate) fn note_death() {
    DEATH.store(true, Ordering::Relaxed);
}

pub(crate) fn has_seen_death() -> bool {
    DEATH.load(Ordering::Relaxed)
}

/// A communicator was made.
pub(crate) fn add(handle: usize, made: Made) {
    let mut registry = registry();
    registry.known.remove(&handle);
    registry.made.insert(handle, (made, Arc::default()));
}

/// A communicator is gone.
pub(crate) fn remove(handle: usize) {
    let mut registry = registry();
    registry.known.remove(&handle);
    registry.made.remove(&handle);
}

/// True if the process has worked with another communicator before this one, which has an operation now.
pub(crate) fn is_later(of: &Communicator) -> bool {
    *registry().first.get_or_insert(of.made.identity) != of.made.identity
}

/// The communicators that were made from this one.
pub(crate) fn children(handle: usize) -> Vec<Communicator> {
    let all: Vec<usize> =
        registry().made.iter().filter(|(_, (made, _))| made.parent == handle).map(|(at, _)| *at).collect();
    all.into_iter().filter_map(communicator).collect()
}

fn ask(f: Option<unsafe extern "C" fn(ncclComm_t, *mut c_int) -> ncclResult_t>, handle: usize) -> Option<usize> {
    let mut number = -1;
    // SAFETY: the right library checks its handles; a place for a number.
    let code = unsafe { f?(with_exposed_provenance_mut(handle), &mut number) };
    usize::try_from(number).ok().filter(|_| code == ncclResult_t::Success)
}

/// The communicator of a handle; `None` if it is none that was seen being made, or is not ready.
pub(crate) fn communicator(handle: usize) -> Option<Communicator> {
    let (made, state) = {
        let registry = registry();
        if let Some(known) = registry.known.get(&handle) {
            return Some(known.clone());
        }
        registry.made.get(&handle).cloned()?
    };
    let table = right();
    let n = ask(table.ncclCommCount, handle)?;
    let rank = ask(table.ncclCommUserRank, handle)?;
    let device = ask(table.ncclCommCuDevice, handle);
    let mut registry = registry();
    let found = Communicator { handle, rank, n, device, made, state };
    registry.known.insert(handle, found.clone());
    Some(found)
}
