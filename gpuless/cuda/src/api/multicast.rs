//! Multicast objects: an address stands for memory of several devices, which instructions of kernels (`multimem`) write or sum up at once.
//!
//! An object is a file of words that every process of it maps. A process that binds memory writes down which of its descriptors the memory
//! is, and the others open and map that when a kernel first needs it. The devices' order is that of their numbers.
use super::driver::driver;
use super::locations::Location;
use super::raw::In;
use super::shareable::HandleTypes;
use super::virtual_memory::{self, GRANULARITY, Object, Part};
use super::{Out, Outcome, devices, errors, graves, put, settings};
use gpuless_device::refusals;
use gpuless_device::virtual_memory::{PAGE, SealedFile, Words};
use memmap2::MmapRaw;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The name of an object's file.
pub(super) const NAME: &str = "multicast";
/// The granularity that is best: that of GPUs.
const RECOMMENDED: usize = 512 << 20;
/// Limit on the devices of an object: those of the largest NVLink domain.
const MOST_DEVICES: usize = 576;
/// Limit on the parts of memory that are bound to one at the same time.
const MOST_PARTS: usize = 8192;

// The first words: the object's bytes, the number of its devices, the number of changes; then the numbers of the devices that were added, each
// plus one; then the parts.
const BYTES: usize = 0;
const DEVICES: usize = 1;
const CHANGES: usize = 2;
const ADDED: usize = 16;
const PARTS: usize = ADDED + MOST_DEVICES;
/// Words of a part: its state, and the fields of [`Bound`].
const PART: usize = 8;
/// A part's state counts up: to one of these, of four.
const FREE: u64 = 0;
const BUSY: u64 = 1;
const READY: u64 = 2;

/// `CUmulticastObjectProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Properties {
    pub devices: c_uint,
    pub bytes: usize,
    pub handles: c_ulonglong,
    pub flags: c_ulonglong,
}

/// A device's number among all that a switch reaches.
fn number_of(device: usize) -> u64 {
    settings().domain.as_ref().map_or(device as u64, |domain| domain.device(device))
}

/// Memory of a device that is bound to a range of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bound {
    device: u64,
    start: u64,
    bytes: u64,
    process: u64,
    descriptor: u64,
    inode: u64,
    offset: u64,
}

impl Bound {
    fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes)
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end()
    }

    /// Maps the memory in this process.
    fn map(&self) -> Option<MmapRaw> {
        let file = SealedFile::of_process(self.process.try_into().ok()?, self.descriptor.try_into().ok()?);
        let file = file.inspect_err(|error| refusals::note("another process's memory", 0, error)).ok()?;
        // Another process wrote these numbers.
        aligned(&[self.start, self.bytes, self.offset]).ok()?;
        let bytes = usize::try_from(self.bytes).ok()?;
        (file.inode() == self.inode && file.name() != NAME).then(|| file.map(self.offset, bytes).ok())?
    }
}

/// A part that is mapped here, by its number and state.
type Known = BTreeMap<(usize, u64), (Bound, Arc<MmapRaw>)>;

/// A range of the object to which every device has bound memory: where that begins in each of them.
#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    members: Vec<u64>,
}

#[derive(Debug, Default)]
struct View {
    /// The number of changes that it reflects, plus one.
    changes: u64,
    known: Known,
    segments: Vec<Segment>,
}

#[derive(Debug)]
pub(super) struct Multicast {
    file: SealedFile,
    words: Words,
    pub handles: HandleTypes,
    view: RwLock<View>,
    /// What this process has bound: the part's number and state, and the memory.
    own: Mutex<Vec<(usize, u64, Arc<Object>)>>,
}

impl Multicast {
    fn new(devices: usize, bytes: usize, handles: HandleTypes) -> Result<Self, c_int> {
        let room = ((PARTS + PART * MOST_PARTS) * 8).next_multiple_of(PAGE);
        let file = SealedFile::new(NAME, room).map_err(|error| errors::refused("a multicast object", room, &error))?;
        let new = Self::of(file, handles)?;
        new.word(BYTES)?.store(bytes as u64, Ordering::Release);
        new.word(DEVICES)?.store(devices as u64, Ordering::Release);
        Ok(new)
    }

    /// Another process's object.
    pub fn imported(file: SealedFile, handles: HandleTypes) -> Result<Self, c_int> {
        let new = Self::of(file, handles)?;
        let good = new.word(PARTS + PART * MOST_PARTS - 1).is_ok() && (1..=MOST_DEVICES).contains(&new.devices());
        if good { Ok(new) } else { Err(errors::INVALID_VALUE) }
    }

    fn of(file: SealedFile, handles: HandleTypes) -> Result<Self, c_int> {
        let words = file.words().map_err(|error| errors::refused("a multicast object", file.bytes(), &error))?;
        Ok(Self { file, words, handles, view: RwLock::default(), own: Mutex::default() })
    }

    pub fn file(&self) -> &SealedFile {
        &self.file
    }

    fn word(&self, at: usize) -> Result<&AtomicU64, c_int> {
        self.words.get(at).ok_or(errors::INVALID_VALUE)
    }

    fn read(&self, at: usize) -> u64 {
        self.words.get(at).map_or(0, |word| word.load(Ordering::Acquire))
    }

    pub fn bytes(&self) -> u64 {
        self.read(BYTES)
    }

    fn devices(&self) -> usize {
        usize::try_from(self.read(DEVICES)).unwrap_or(0)
    }

    /// The numbers of the devices that were added, in order.
    fn added(&self) -> Vec<u64> {
        let places = ADDED..ADDED + self.devices().min(MOST_DEVICES);
        let mut added: Vec<u64> = places.filter_map(|at| self.read(at).checked_sub(1)).collect();
        added.sort_unstable();
        added
    }

    fn add_device(&self, device: usize) -> Outcome {
        let number = number_of(device) + 1;
        for at in ADDED..ADDED + self.devices().min(MOST_DEVICES) {
            match self.word(at)?.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(known) if known == number => return Err(errors::INVALID_VALUE),
                Err(_) => {}
            }
        }
        Err(errors::INVALID_VALUE)
    }

    /// A part with its state, unless it is free or is being changed.
    fn part(&self, number: usize) -> Option<(u64, Bound)> {
        let first = PARTS + PART * number;
        let state = self.read(first);
        let [device, start, bytes, process, descriptor, inode, offset] =
            std::array::from_fn(|field| self.read(first + 1 + field));
        let bound = Bound { device, start, bytes, process, descriptor, inode, offset };
        (state % 4 == READY && self.read(first) == state).then_some((state, bound))
    }

    fn parts(&self) -> impl Iterator<Item = (usize, u64, Bound)> {
        // The first free ones are taken, so that after one that was never used there are none.
        let used = (0..MOST_PARTS).take_while(|number| self.read(PARTS + PART * number) != 0);
        used.filter_map(|number| self.part(number).map(|(state, bound)| (number, state, bound)))
    }

    fn changed(&self) {
        if let Some(changes) = self.words.get(CHANGES) {
            changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Binds a part of an allocation.
    fn bind(&self, start: u64, (object, offset, bytes): Part) -> Outcome {
        let Object::Memory(memory) = &*object else { return Err(errors::INVALID_VALUE) };
        let Location::Device(device) = memory.location else { return Err(errors::INVALID_VALUE) };
        let end = start.checked_add(bytes as u64).filter(|end| *end <= self.bytes()).ok_or(errors::INVALID_VALUE)?;
        let device = number_of(device);
        let good = memory.file.holds(offset, bytes)
            && self.added().contains(&device)
            && (self.handles.is_none() || !memory.handles.is_none())
            && !self.parts().any(|(.., part)| part.device == device && part.overlaps(start, end));
        if !good {
            return Err(errors::INVALID_VALUE);
        }
        let fields = [
            device,
            start,
            bytes as u64,
            std::process::id().into(),
            u64::try_from(memory.file.file().as_raw_fd()).map_err(|_| errors::UNKNOWN)?,
            memory.file.inode(),
            offset,
        ];
        for number in 0..MOST_PARTS {
            let first = PARTS + PART * number;
            let state = self.word(first)?;
            let was = state.load(Ordering::Acquire);
            let free =
                was % 4 == FREE && state.compare_exchange(was, was + BUSY, Ordering::AcqRel, Ordering::Acquire).is_ok();
            if free {
                for (at, field) in (first + 1..).zip(fields) {
                    self.word(at)?.store(field, Ordering::Release);
                }
                state.store(was + READY, Ordering::Release);
                self.changed();
                self.own.lock().unwrap_or_else(PoisonError::into_inner).push((
                    number,
                    was + READY,
                    Arc::clone(&object),
                ));
                return Ok(());
            }
        }
        Err(errors::MEMORY_ALLOCATION)
    }

    fn free(&self, number: usize, state: u64) {
        if let Some(word) = self.words.get(PARTS + PART * number)
            && word.compare_exchange(state, state - READY + 4, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            self.changed();
        }
        self.own.lock().unwrap_or_else(PoisonError::into_inner).retain(|(own, at, _)| (*own, *at) != (number, state));
    }

    /// Calls `f` with the addresses of a byte in the devices' memory, if `len` bytes from it on are bound for every device.
    fn with_members(&self, offset: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        let changes = self.read(CHANGES).wrapping_add(1);
        {
            let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
            if view.changes == changes {
                return view.with_members(offset, len, f);
            }
        }
        let mut view = self.view.write().unwrap_or_else(PoisonError::into_inner);
        if view.changes != changes {
            let new = View::of(self, changes, &view.known);
            let old = std::mem::replace(&mut *view, new);
            // Kernels may still be at memory that is bound no longer.
            graves::after_launched_work(Box::new(move || drop(old)));
        }
        view.with_members(offset, len, f)
    }
}

impl Drop for Multicast {
    fn drop(&mut self) {
        let own = std::mem::take(self.own.get_mut().unwrap_or_else(PoisonError::into_inner));
        own.iter().for_each(|(number, state, _)| self.free(*number, *state));
    }
}

impl View {
    fn of(object: &Multicast, changes: u64, before: &Known) -> Self {
        let mut known = Known::new();
        for (number, state, bound) in object.parts() {
            let map = match before.get(&(number, state)) {
                Some((_, map)) => Some(Arc::clone(map)),
                None => bound.map().map(Arc::new),
            };
            known.extend(map.map(|map| ((number, state), (bound, map))));
        }
        let mut ends: Vec<u64> = known.values().flat_map(|(bound, _)| [bound.start, bound.end()]).collect();
        ends.sort_unstable();
        ends.dedup();
        let devices = object.added();
        let complete = devices.len() == object.devices();
        let segment = |range: &[u64]| {
            let (start, end) = (*range.first()?, *range.last()?);
            let members = devices.iter().map(|device| {
                let holds = |bound: &Bound| bound.device == *device && bound.overlaps(start, end);
                let (bound, map) = known.values().find(|(bound, _)| holds(bound))?;
                Some(map.as_mut_ptr().expose_provenance() as u64 + (start - bound.start))
            });
            Some(Segment { start, end, members: members.collect::<Option<_>>()? })
        };
        let segments = if complete { ends.windows(2).filter_map(segment).collect() } else { Vec::new() };
        Self { changes, known, segments }
    }

    fn with_members(&self, offset: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
        let end = offset.saturating_add(len);
        let at = self.segments.partition_point(|segment| segment.end <= offset);
        let Some(segment) = self.segments.get(at).filter(|segment| segment.start <= offset && end <= segment.end)
        else {
            return false;
        };
        let members: Vec<u64> = segment.members.iter().map(|member| member + (offset - segment.start)).collect();
        f(&members);
        true
    }
}

/// A mapping that kernels can access.
struct Mapped {
    /// Which mapping it is of all that were made.
    number: u64,
    bytes: usize,
    offset: u64,
    object: Arc<Object>,
}

static MAPPED: RwLock<BTreeMap<usize, Mapped>> = RwLock::new(BTreeMap::new());

/// Lets kernels access an object at an address.
pub(super) fn mapped(start: usize, bytes: usize, offset: u64, object: Arc<Object>) {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    MAPPED.write().unwrap_or_else(PoisonError::into_inner).insert(start, Mapped { number, bytes, offset, object });
}

/// The number of the mapping that begins at an address.
pub(super) fn number_at(start: usize) -> Option<u64> {
    MAPPED.read().unwrap_or_else(PoisonError::into_inner).get(&start).map(|known| known.number)
}

/// True if kernels can access an object at this address.
pub(super) fn is_mapped(address: usize) -> bool {
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    mapped.range(..=address).next_back().is_some_and(|(start, known)| address - start < known.bytes)
}

/// Ends the mapping with this number, unless another one has taken its place.
pub(super) fn unmapped(start: usize, number: Option<u64>) {
    let mut mapped = MAPPED.write().unwrap_or_else(PoisonError::into_inner);
    let known = mapped.get(&start).is_some_and(|known| Some(known.number) == number);
    // The object may end with it, which must not happen under the lock.
    let gone = if known { mapped.remove(&start) } else { None };
    drop(mapped);
    drop(gone);
}

/// Calls `f` with the addresses that a multicast address stands for, one for each device in the order of their numbers. False if `len` bytes
/// from there on are not in one mapping, or not every device has bound memory to them.
pub fn with_members(address: u64, len: u64, f: &mut dyn FnMut(&[u64])) -> bool {
    let Ok(address) = usize::try_from(address) else { return false };
    let mapped = MAPPED.read().unwrap_or_else(PoisonError::into_inner);
    let Some((start, known)) = mapped.range(..=address).next_back() else { return false };
    let at = (address - start) as u64;
    let inside = at.checked_add(len).is_some_and(|end| end <= known.bytes as u64);
    inside && known.object.multicast().is_ok_and(|object| object.with_members(known.offset + at, len, f))
}

fn aligned(numbers: &[u64]) -> Outcome {
    let good = numbers.iter().all(|number| number.is_multiple_of(GRANULARITY as u64));
    if good { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

fn checked(properties: In<Properties>) -> Result<Properties, c_int> {
    let properties = properties.get()?;
    virtual_memory::no_flags(properties.flags)?;
    let devices = properties.devices as usize;
    // In a domain, devices of other machines can be added.
    let most = if settings().domain.is_some() { MOST_DEVICES } else { settings().devices.min(MOST_DEVICES) };
    if devices == 0 || devices > most {
        return Err(errors::INVALID_VALUE);
    }
    Ok(properties)
}

fn bind(handle: u64, start: usize, parts: Vec<Part>) -> Outcome {
    let object = virtual_memory::object(handle)?;
    let multicast = object.multicast()?;
    let mut at = start as u64;
    for part in parts {
        let bytes = part.2 as u64;
        aligned(&[at, part.1, bytes])?;
        multicast.bind(at, part)?;
        at += bytes;
    }
    Ok(())
}

driver! {
    fn cuMulticastGetGranularity(place: Out<'_, usize>, properties: In<Properties>, option: c_int) {
        checked(properties)?;
        match option {
            0 => put(place, GRANULARITY),
            1 => put(place, RECOMMENDED),
            _ => Err(errors::INVALID_VALUE),
        }
    }
    fn cuMulticastCreate(place: Out<'_, u64>, properties: In<Properties>) {
        let (place, properties) = (place.ok_or(errors::INVALID_VALUE)?, checked(properties)?);
        let handles = HandleTypes::of(properties.handles).ok_or(errors::NOT_SUPPORTED)?;
        aligned(&[properties.bytes as u64])?;
        if properties.bytes == 0 {
            return Err(errors::INVALID_VALUE);
        }
        let object = Multicast::new(properties.devices as usize, properties.bytes, handles)?;
        place.write(virtual_memory::add(Object::Multicast(object))?);
        Ok(())
    }
    fn cuMulticastAddDevice(handle: u64, device: c_int) {
        let device = devices::device(device)?;
        virtual_memory::object(handle)?.multicast()?.add_device(device)
    }
    /// Does not wait for the other devices: kernels cannot access the memory before all have bound theirs.
    fn cuMulticastBindMem(handle: u64, start: usize, memory: u64, offset: usize, bytes: usize, flags: c_ulonglong) {
        virtual_memory::no_flags(flags)?;
        if bytes == 0 {
            return Err(errors::INVALID_VALUE);
        }
        bind(handle, start, vec![(virtual_memory::object(memory)?, offset as u64, bytes)])
    }
    fn cuMulticastBindAddr(handle: u64, start: usize, address: usize, bytes: usize, flags: c_ulonglong) {
        virtual_memory::no_flags(flags)?;
        if bytes == 0 {
            return Err(errors::INVALID_VALUE);
        }
        bind(handle, start, virtual_memory::mapped_parts(address, bytes)?)
    }
    /// The range is made of whole parts that the device has bound.
    fn cuMulticastUnbind(handle: u64, device: c_int, start: usize, bytes: usize) {
        let device = number_of(devices::device(device)?);
        let object = virtual_memory::object(handle)?;
        let multicast = object.multicast()?;
        let (start, end) = (start as u64, (start as u64).saturating_add(bytes as u64));
        let parts: Vec<_> =
            multicast.parts().filter(|(.., part)| part.device == device && part.overlaps(start, end)).collect();
        let covered: u64 = parts.iter().map(|(.., part)| part.bytes).sum();
        if covered != bytes as u64 || parts.iter().any(|(.., part)| part.start < start || part.end() > end) {
            return Err(errors::INVALID_VALUE);
        }
        // Kernels of this process that may use it end first.
        graves::after_launched_work(Box::new(move || {
            if let Ok(multicast) = object.multicast() {
                parts.iter().for_each(|(number, state, _)| multicast.free(*number, *state));
            }
        }));
        Ok(())
    }
}
