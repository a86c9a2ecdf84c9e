//! Protection domains and memory regions: which memory a key allows to use, and for what.
#![allow(unsafe_code)] // addresses that callers have registered

use crate::device::Context;
use crate::layout::{self, access};
use crate::lock::lock;
use crate::memory;
use crate::shared::Shared;
use crate::table::Table;
use libc::{c_int, c_void};
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

#[derive(Debug)]
pub struct Pd {
    pub shared: Shared<layout::Pd>,
    pub context: Arc<Context>,
}

pub static PDS: Table<Pd> = Table::new();

/// Memory that work requests may name.
#[derive(Debug)]
pub struct Region {
    pub shared: Shared<layout::Mr>,
    pub pd: Arc<Pd>,
    pub key: u32,
    /// Where the memory is here, and where work requests say that it is.
    start: usize,
    io_start: u64,
    len: usize,
    access: u32,
    /// This library's own mapping of a DMA-BUF.
    _mapping: Option<Mapping>,
    /// False once deregistered. Held while the memory is used, so that deregistering waits until nobody does.
    alive: RwLock<bool>,
}

static BY_ADDRESS: Table<Region> = Table::new();
static BY_KEY: Table<Region> = Table::new();
static HANDLES: AtomicU32 = AtomicU32::new(1);

/// Why memory may not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No such key, another protection domain, outside of the region or not for this use.
    NotAllowed,
    /// The memory has been unmapped.
    Gone,
}

/// A range of registered memory.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub start: *mut u8,
    pub len: usize,
}

#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: as above; nothing is reached through a reference.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, and no region uses it any more.
        unsafe { libc::munmap(self.start.as_ptr(), self.len) };
    }
}

/// What is to be registered.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub start: usize,
    pub len: usize,
    pub io_start: u64,
    pub access: u32,
}

fn error(code: c_int) -> io::Error {
    io::Error::from_raw_os_error(code)
}

/// The number of the next object of a kind that needs one.
pub fn next_handle() -> u32 {
    HANDLES.fetch_add(1, Ordering::Relaxed)
}

/// A key that no region has. Keys are far apart and rise, so that an old or damaged key is noticed.
fn register_key(make: impl Fn(u32) -> Arc<Region>) -> Arc<Region> {
    static NEXT: Mutex<u32> = Mutex::new(0x1000);
    let mut next = lock(&NEXT);
    loop {
        *next = next.wrapping_add(0x101).max(0x1000);
        let region = make(*next);
        if BY_KEY.insert(*next as usize, Arc::clone(&region)) {
            return region;
        }
    }
}

impl Region {
    /// # Errors
    ///
    /// As `ibv_reg_mr` on a card.
    pub fn register(pd: &Arc<Pd>, wanted: Wanted) -> io::Result<Arc<Self>> {
        check_access(wanted.access)?;
        wanted.start.checked_add(wanted.len).ok_or(error(libc::EINVAL))?;
        if !memory::is_mapped(wanted.start, wanted.len) {
            return Err(error(libc::EFAULT));
        }
        Ok(Self::add(pd, wanted, None))
    }

    /// Registers `len` bytes of a file, by an own mapping of it. The memory of software GPUs is such a file.
    ///
    /// # Errors
    ///
    /// The descriptor is not that of a file which can be mapped and is long enough: EBADF for none at all, by which NCCL knows that
    /// descriptors are supported.
    pub fn register_file(pd: &Arc<Pd>, file: c_int, offset: u64, wanted: Wanted) -> io::Result<Arc<Self>> {
        check_access(wanted.access)?;
        // The software GPUs' descriptors say by their position where the memory begins in the file.
        // SAFETY: it only asks the kernel, which knows whether this is a descriptor.
        let position = u64::try_from(unsafe { libc::lseek(file, 0, libc::SEEK_CUR) }).unwrap_or(0);
        let offset = position.checked_add(offset).ok_or(error(libc::EINVAL))?;
        let (mapping, start) = map(file, offset, wanted.len)?;
        Ok(Self::add(pd, Wanted { start, ..wanted }, Some(mapping)))
    }

    fn add(pd: &Arc<Pd>, wanted: Wanted, mapping: Option<Mapping>) -> Arc<Self> {
        let mapping = Mutex::new(mapping);
        let io_start = if wanted.access & access::ZERO_BASED == 0 { wanted.io_start } else { 0 };
        let region = register_key(|key| {
            let shared = layout::Mr {
                context: pd.context.shared.pointer(),
                pd: pd.shared.pointer(),
                addr: wanted.start as *mut c_void,
                length: wanted.len,
                handle: next_handle(),
                lkey: key,
                rkey: key,
            };
            Arc::new(Self {
                shared: Shared::new(shared),
                pd: Arc::clone(pd),
                key,
                start: wanted.start,
                io_start,
                len: wanted.len,
                access: wanted.access,
                _mapping: lock(&mapping).take(),
                alive: RwLock::new(true),
            })
        });
        BY_ADDRESS.insert(region.shared.address(), Arc::clone(&region));
        region
    }

    /// Ends a region once nobody uses its memory. None: there is no such region.
    pub fn deregister(address: usize) -> Option<()> {
        let region = BY_ADDRESS.remove(address)?;
        BY_KEY.remove(region.key as usize);
        *region.alive.write().unwrap_or_else(PoisonError::into_inner) = false;
        Some(())
    }

    pub fn by_key(key: u32) -> Option<Arc<Self>> {
        BY_KEY.find(key as usize)
    }

    pub fn any(condition: impl Fn(&Self) -> bool) -> bool {
        BY_ADDRESS.any(condition)
    }

    /// The memory at an address of a work request, if this region has it for that use in this protection domain.
    fn allowed(&self, pd: &Pd, at: u64, len: u64, uses: u32) -> Option<Range> {
        let offset = usize::try_from(at.checked_sub(self.io_start)?).ok()?;
        let len = usize::try_from(len).ok()?;
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let same_domain = std::ptr::eq(&raw const *self.pd, pd);
        let start = (self.start.wrapping_add(offset)) as *mut u8;
        (inside && same_domain && self.access & uses == uses).then_some(Range { start, len })
    }

    /// The same memory, if it is still there.
    ///
    /// # Errors
    ///
    /// See [`Refusal`].
    pub fn range(&self, pd: &Pd, at: u64, len: u64, uses: u32) -> Result<Range, Refusal> {
        let range = self.allowed(pd, at, len, uses).ok_or(Refusal::NotAllowed)?;
        let to_write = uses & (access::LOCAL_WRITE | access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
        if memory::is_usable(range.start as usize, range.len, to_write) { Ok(range) } else { Err(Refusal::Gone) }
    }
}

/// Whether a key allows a use of memory.
pub fn allows(key: u32, pd: &Pd, at: u64, len: u64, uses: u32) -> bool {
    Region::by_key(key).is_some_and(|region| region.allowed(pd, at, len, uses).is_some())
}

/// Runs `f` on the memory that a key allows, which cannot be deregistered until `f` is done.
///
/// # Errors
///
/// See [`Refusal`].
pub fn with<R>(key: u32, pd: &Pd, at: u64, len: u64, uses: u32, f: impl FnOnce(Range) -> R) -> Result<R, Refusal> {
    let region = Region::by_key(key).ok_or(Refusal::NotAllowed)?;
    let alive: RwLockReadGuard<'_, bool> = region.alive.read().unwrap_or_else(PoisonError::into_inner);
    if !*alive {
        return Err(Refusal::NotAllowed);
    }
    Ok(f(region.range(pd, at, len, uses)?))
}

/// Stores bytes into the pieces of memory that a work request names, one after the other.
///
/// # Errors
///
/// A piece is not registered for that; those before it have their bytes.
pub fn scatter(pieces: &[layout::Sge], pd: &Pd, mut bytes: &[u8]) -> Result<(), Refusal> {
    for piece in pieces {
        let part = bytes.split_off(..bytes.len().min(piece.length as usize)).unwrap_or_default();
        // Whoever has no bytes for a piece does not need it.
        if !part.is_empty() {
            with(piece.lkey, pd, piece.addr, part.len() as u64, access::LOCAL_WRITE, |range| {
                // SAFETY: the region is registered for this, and its pages are there.
                unsafe { memory::store(range.start, part) };
            })?;
        }
    }
    Ok(())
}

fn check_access(wanted: u32) -> io::Result<()> {
    let written_from_outside = wanted & (access::REMOTE_WRITE | access::REMOTE_ATOMIC) != 0;
    // As the kernel says: what others may write, the owner may too.
    if written_from_outside && wanted & access::LOCAL_WRITE == 0 { Err(error(libc::EINVAL)) } else { Ok(()) }
}

/// Maps a part of a file, which need not begin with a page.
fn map(file: c_int, offset: u64, len: usize) -> io::Result<(Mapping, usize)> {
    let page = memory::page_size() as u64;
    let before = usize::try_from(offset % page).map_err(|_| error(libc::EINVAL))?;
    let from = i64::try_from(offset - offset % page).map_err(|_| error(libc::EINVAL))?;
    let whole = len.checked_add(before).ok_or(error(libc::EINVAL))?;
    // SAFETY: numbers, which the call fills in.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: this function's own record.
    if unsafe { libc::fstat(file, &raw mut facts) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let end = i64::try_from(whole).ok().and_then(|whole| from.checked_add(whole)).ok_or(error(libc::EINVAL))?;
    if end > facts.st_size {
        return Err(error(libc::EINVAL));
    }
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place that the kernel chooses.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), whole, protection, libc::MAP_SHARED, file, from) };
    match NonNull::new(got).filter(|got| got.as_ptr() != libc::MAP_FAILED) {
        Some(start) => Ok((Mapping { start, len: whole }, got as usize + before)),
        None => Err(io::Error::last_os_error()),
    }
}
