//! Memory known to the runtime: its own allocations, and memory registered with it.
use super::raw::give_back;
use super::settings::settings;
use super::{errors, graves, watch};
use memmap2::{MmapOptions, MmapRaw};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};

/// The program that allocated device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The library, by the CUDA runtime.
    Library,
    /// The program that calls the library: its inputs and outputs.
    Caller,
}

/// The origin of a block of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From `cudaMalloc` and similar functions.
    Device,
    /// Another process's device memory.
    Opened,
    /// From `cudaHostAlloc` and similar functions.
    Pinned,
    /// From `cudaHostRegister`.
    Registered,
    /// Device memory that gpuless-device allocated for another caller.
    Elsewhere,
    /// Device memory with a handle, mapped at reserved addresses.
    Virtual,
    /// The same on the host.
    VirtualHost,
}

impl Kind {
    pub fn on_device(self) -> bool {
        matches!(self, Self::Device | Self::Opened | Self::Elsewhere | Self::Virtual)
    }
}

/// A block that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub start: usize,
    pub len: usize,
    pub device: usize,
    pub kind: Kind,
}

struct Block {
    len: usize,
    device: usize,
    kind: Kind,
    /// The memory of a pinned block.
    map: Option<MmapRaw>,
}

#[derive(Default)]
struct Blocks {
    live: BTreeMap<usize, Block>,
    /// Bytes of device memory, by device.
    used: BTreeMap<usize, usize>,
}

static BLOCKS: RwLock<Option<Blocks>> = RwLock::new(None);

fn locked() -> RwLockWriteGuard<'static, Option<Blocks>> {
    BLOCKS.write().unwrap_or_else(PoisonError::into_inner)
}

impl Blocks {
    fn insert(&mut self, start: usize, block: Block) {
        watch::mapped(start, block.len);
        self.live.insert(start, block);
    }

    /// Takes the block of one of these kinds that begins here out of the table.
    fn take(&mut self, start: usize, kinds: &[Kind]) -> Option<Block> {
        self.live.get(&start).filter(|block| kinds.contains(&block.kind))?;
        let block = self.live.remove(&start)?;
        if block.kind == Kind::Device
            && let Some(used) = self.used.get_mut(&block.device)
        {
            *used -= block.len;
        }
        Some(block)
    }

    /// The block in which this address lies.
    fn at(&self, address: usize) -> Option<(usize, &Block)> {
        let (start, block) = self.live.range(..=address).next_back()?;
        (address - start < block.len).then_some((*start, block))
    }
}

/// The block that contains this address. Other memory does not have a device, so the calling thread's device is used.
pub(super) fn find(address: usize) -> Option<Found> {
    {
        let blocks = BLOCKS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((start, block)) = blocks.as_ref().and_then(|blocks| blocks.at(address)) {
            return Some(Found { start, len: block.len, device: block.device, kind: block.kind });
        }
    }
    let (start, len) = gpuless_device::memory::block_of(std::ptr::with_exposed_provenance(address))?;
    Some(Found { start, len, device: super::devices::current(), kind: Kind::Elsewhere })
}

/// The program that allocated the device memory at this address; `None` if it is not device memory.
pub(crate) fn owner(address: usize) -> Option<Owner> {
    match find(address)?.kind {
        Kind::Device | Kind::Opened | Kind::Virtual => Some(Owner::Library),
        Kind::Elsewhere => Some(Owner::Caller),
        Kind::Pinned | Kind::Registered | Kind::VirtualHost => None,
    }
}

/// True if the whole range lies in one block of `cudaHostAlloc`. Such a block is private to the process and starts as zeros.
pub(crate) fn are_pinned(start: usize, len: usize) -> bool {
    find(start).is_some_and(|found| found.kind == Kind::Pinned && start - found.start + len <= found.len)
}

/// Bytes of device memory that are allocated.
pub(crate) fn in_use(device: usize) -> usize {
    let blocks = BLOCKS.read().unwrap_or_else(PoisonError::into_inner);
    blocks.as_ref().and_then(|blocks| blocks.used.get(&device)).copied().unwrap_or(0)
}

/// Takes bytes of a device's memory, if it has them.
pub(super) fn take_room(device: usize, len: usize) -> Result<(), c_int> {
    let mut blocks = locked();
    let used = blocks.get_or_insert_default().used.entry(device).or_default();
    if len > settings().memory.saturating_sub(*used) {
        return Err(errors::MEMORY_ALLOCATION);
    }
    *used += len;
    Ok(())
}

/// Gives bytes of [`take_room`] back.
pub(super) fn give_room(device: usize, len: usize) {
    if let Some(used) = locked().as_mut().and_then(|blocks| blocks.used.get_mut(&device)) {
        *used -= len;
    }
}

/// Device memory, at least one byte.
pub(super) fn alloc_device(device: usize, len: usize) -> Result<usize, c_int> {
    take_room(device, len)?;
    let pointer = gpuless_device::arena::alloc(device, len).map_err(|_| {
        give_room(device, len);
        errors::MEMORY_ALLOCATION
    })?;
    let start = pointer.expose_provenance();
    locked().get_or_insert_default().insert(start, Block { len, device, kind: Kind::Device, map: None });
    Ok(start)
}

/// Pinned host memory, at least one byte.
pub(super) fn alloc_pinned(device: usize, len: usize) -> Result<usize, c_int> {
    let map = MmapOptions::new().len(len).map_anon().map_err(|error| errors::refused("pinned memory", len, &error))?;
    let map = MmapRaw::from(map);
    let start = map.as_mut_ptr().expose_provenance();
    locked().get_or_insert_default().insert(start, Block { len, device, kind: Kind::Pinned, map: Some(map) });
    Ok(start)
}

/// Registers a block of host memory.
pub(super) fn register(device: usize, start: usize, len: usize) -> Result<(), c_int> {
    let end = start.checked_add(len).ok_or(errors::INVALID_VALUE)?;
    let mut blocks = locked();
    let blocks = blocks.get_or_insert_default();
    let known = blocks.at(start).is_some() || blocks.live.range(start..end).next().is_some();
    if known {
        return Err(errors::HOST_MEMORY_ALREADY_REGISTERED);
    }
    blocks.insert(start, Block { len, device, kind: Kind::Registered, map: None });
    Ok(())
}

/// Records memory of this kind, which is mapped in this process.
pub(super) fn mapped(device: usize, start: usize, len: usize, kind: Kind) {
    locked().get_or_insert_default().insert(start, Block { len, device, kind, map: None });
}

/// Forgets the block of one of these kinds that begins here. Kernels reach it until the caller reports otherwise.
pub(super) fn forget(start: usize, kinds: &[Kind]) {
    if let Some(blocks) = locked().as_mut() {
        blocks.take(start, kinds);
    }
}

/// Ends the block of one of these kinds that begins at this address: it is unknown from now on, and freed when all work launched so far
/// has ended. Returns false if none of these kinds has a block at this address.
pub(super) fn end(start: usize, kinds: &[Kind]) -> bool {
    let Some(block) = locked().as_mut().and_then(|blocks| blocks.take(start, kinds)) else { return false };
    graves::after_launched_work(Box::new(move || {
        watch::unmapped(start);
        drop(block.map);
        if matches!(block.kind, Kind::Device | Kind::Opened) {
            give_back(start);
        }
    }));
    true
}
