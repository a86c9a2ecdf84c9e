//! The driver's virtual memory management: memory without an address, and addresses at which it is mapped.
//!
//! Memory is a file in memory, so that another process can have it, and pages that nothing is written to cost nothing.
//! Access is for all devices once it is allowed for one, and always for reading and writing.
use super::driver::driver;
use super::locations::{Access, Location, LocationOf, Properties};
use super::multicast::{self, Multicast};
use super::process_handle::ProcessHandle;
use super::raw::{self, In, Room};
use super::shareable::{HandleType, HandleTypes, fabric_file, fabric_handle};
use super::{Out, Outcome, blocks, devices, errors, graves, handles, int, put, watch};
use gpuless_device::refusals;
use gpuless_device::virtual_memory::{Reservation, SealedFile};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::os::fd::IntoRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Sizes and addresses are multiples of it: a large page of a GPU.
pub(super) const GRANULARITY: usize = 2 << 20;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`.
const PINNED: c_int = 1;
/// The access flags of `CUmemAccess_flags`: none, reading, and both.
const ACCESSES: [c_ulonglong; 3] = [0, 1, 3];

impl LocationOf {
    fn get(self) -> Result<Location, c_int> {
        match self.kind {
            1 => devices::device(self.number).map(Location::Device),
            // any of the host, a node of it, the calling thread's node: there is one
            2 | 4 => Ok(Location::Host),
            3 if self.number == 0 => Ok(Location::Host),
            _ => Err(errors::INVALID_VALUE),
        }
    }

    fn of(location: Location) -> Self {
        match location {
            Location::Device(device) => Self { kind: 1, number: int(device) },
            Location::Host => Self { kind: 3, number: 0 },
        }
    }
}

/// Memory with a handle.
#[derive(Debug)]
pub(super) struct Memory {
    pub file: SealedFile,
    pub location: Location,
    pub handles: HandleTypes,
    /// False if another process owns it.
    own: bool,
}

impl Memory {
    fn new(location: Location, bytes: usize, handles: HandleTypes) -> Result<Self, c_int> {
        let name = match location {
            Location::Device(device) => format!("device{device}"),
            Location::Host => "host".to_owned(),
        };
        if let Location::Device(device) = location {
            blocks::take_room(device, bytes)?;
        }
        let file = SealedFile::new(&name, bytes).map_err(|error| {
            give_room(location, bytes);
            errors::refused("device memory", bytes, &error)
        })?;
        Ok(Self { file, location, handles, own: true })
    }

    /// Memory from another process, which names its place.
    fn imported(file: SealedFile, handles: HandleTypes) -> Result<Self, c_int> {
        let location = match (file.name(), file.name().strip_prefix("device")) {
            ("host", _) => Location::Host,
            (_, Some(number)) => Location::Device(devices::device(number.parse().map_err(|_| errors::INVALID_VALUE)?)?),
            _ => return Err(errors::INVALID_VALUE),
        };
        Ok(Self { file, location, handles, own: false })
    }
}

fn give_room(location: Location, bytes: usize) {
    if let Location::Device(device) = location {
        blocks::give_room(device, bytes);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.own {
            give_room(self.location, self.file.bytes());
        }
    }
}

/// What a handle means.
#[derive(Debug)]
pub(super) enum Object {
    Memory(Memory),
    Multicast(Multicast),
}

impl Object {
    pub fn file(&self) -> &SealedFile {
        match self {
            Self::Memory(memory) => &memory.file,
            Self::Multicast(multicast) => multicast.file(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Memory(memory) => memory.file.bytes() as u64,
            Self::Multicast(multicast) => multicast.bytes(),
        }
    }

    fn handles(&self) -> HandleTypes {
        match self {
            Self::Memory(memory) => memory.handles,
            Self::Multicast(multicast) => multicast.handles,
        }
    }

    fn memory(&self) -> Result<&Memory, c_int> {
        match self {
            Self::Memory(memory) => Ok(memory),
            Self::Multicast(_) => Err(errors::INVALID_VALUE),
        }
    }

    pub fn multicast(&self) -> Result<&Multicast, c_int> {
        match self {
            Self::Multicast(multicast) => Ok(multicast),
            Self::Memory(_) => Err(errors::INVALID_VALUE),
        }
    }
}

struct Mapping {
    bytes: usize,
    object: Arc<Object>,
    handle: u64,
    offset: u64,
    reservation: Arc<Reservation>,
    access: BTreeMap<Location, c_ulonglong>,
}

impl Mapping {
    fn accessible(&self) -> bool {
        is_accessible(&self.access)
    }
}

fn is_accessible(access: &BTreeMap<Location, c_ulonglong>) -> bool {
    access.values().any(|flags| *flags != 0)
}

/// What was unmapped while kernels ran that may still use it: it stays until they end, or until something else is mapped there.
///
/// Mapping does not wait for these kernels: they can wait for the very rank that maps. Whoever maps at the same addresses knows
/// that nothing uses what was there, as on a GPU.
struct Leaving {
    number: u64,
    bytes: usize,
    reservation: Arc<Reservation>,
    /// Takes it from kernels, if they could access it.
    closing: Option<graves::Burial>,
}

impl Leaving {
    fn end(self, start: usize) {
        self.closing.into_iter().for_each(|close| close());
        raw::unmap(&self.reservation, start, self.bytes);
    }
}

#[derive(Default)]
struct Table {
    /// Objects by handle, and how often each must be released.
    handles: BTreeMap<u64, (Arc<Object>, usize)>,
    made: usize,
    /// All objects by their file.
    objects: BTreeMap<u64, Weak<Object>>,
    reservations: BTreeMap<usize, Arc<Reservation>>,
    mappings: BTreeMap<usize, Mapping>,
    leaving: BTreeMap<usize, Leaving>,
    /// Number of mappings that have left.
    left: u64,
}

/// Handles are numbers from here on.
const FIRST_HANDLE: usize = 0xe00_0000;

static TABLE: Mutex<Option<Table>> = Mutex::new(None);

fn locked() -> MutexGuard<'static, Option<Table>> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn table<T>(f: impl FnOnce(&mut Table) -> Result<T, c_int>) -> Result<T, c_int> {
    f(locked().get_or_insert_default())
}

impl Table {
    fn add(&mut self, object: Arc<Object>) -> u64 {
        self.objects.retain(|_, known| known.strong_count() > 0);
        self.objects.insert(object.file().inode(), Arc::downgrade(&object));
        let handle = handles::handle(FIRST_HANDLE, self.made) as u64;
        self.made += 1;
        self.handles.insert(handle, (object, 1));
        handle
    }

    fn object(&self, handle: u64) -> Result<Arc<Object>, c_int> {
        self.handles.get(&handle).map(|(object, _)| Arc::clone(object)).ok_or(errors::INVALID_VALUE)
    }

    /// The mapping in which an address lies, with its start.
    fn at(&self, address: usize) -> Option<(usize, &Mapping)> {
        let (start, mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.bytes).then_some((*start, mapping))
    }

    /// The starts of the mappings that together are exactly this range.
    fn whole(&self, start: usize, bytes: usize) -> Result<Vec<usize>, c_int> {
        let end = start.checked_add(bytes).filter(|end| *end > start).ok_or(errors::INVALID_VALUE)?;
        let (mut at, mut starts) = (start, Vec::new());
        while at < end {
            let mapping = self.mappings.get(&at).ok_or(errors::INVALID_VALUE)?;
            starts.push(at);
            at += mapping.bytes;
        }
        if at == end { Ok(starts) } else { Err(errors::INVALID_VALUE) }
    }

    /// Unmaps a mapping, and returns its object and number. It stays in reach of the kernels that run.
    fn unmap(&mut self, start: usize) -> Option<(Arc<Object>, u64)> {
        let Mapping { bytes, object, reservation, access, .. } = self.mappings.remove(&start)?;
        let closing = is_accessible(&access).then(|| close(start, &object));
        self.left += 1;
        self.leaving.insert(start, Leaving { number: self.left, bytes, reservation, closing });
        Some((object, self.left))
    }

    /// Ends the reach of kernels to what has left these addresses.
    fn clear(&mut self, start: usize, end: usize) {
        while let Some((at, _)) = self.leaving.range(..end).next_back().filter(|(at, old)| **at + old.bytes > start) {
            let at = *at;
            self.leaving.remove(&at).into_iter().for_each(|old| old.end(at));
        }
    }

    /// The parts of a range in which nothing is mapped.
    fn gaps(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let before = self.at(start).map(|(at, _)| at).unwrap_or(start);
        let (mut at, mut gaps) = (start, Vec::new());
        for (first, mapping) in self.mappings.range(before..end) {
            if *first > at {
                gaps.push((at, first - at));
            }
            at = at.max(first + mapping.bytes);
        }
        if at < end {
            gaps.push((at, end - at));
        }
        gaps
    }
}

fn aligned(number: usize) -> Outcome {
    if number.is_multiple_of(GRANULARITY) { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

fn size(bytes: usize) -> Outcome {
    if bytes == 0 { Err(errors::INVALID_VALUE) } else { aligned(bytes) }
}

pub(super) fn no_flags(flags: c_ulonglong) -> Outcome {
    if flags == 0 { Ok(()) } else { Err(errors::INVALID_VALUE) }
}

/// An object's new handle.
pub(super) fn add(object: Object) -> Result<u64, c_int> {
    table(|table| Ok(table.add(Arc::new(object))))
}

pub(super) fn object(handle: u64) -> Result<Arc<Object>, c_int> {
    table(|table| table.object(handle))
}

/// A part of an allocation: the object, and the offset and number of bytes in it.
pub(super) type Part = (Arc<Object>, u64, usize);

/// The parts of allocations that are mapped in a range, in the order of their addresses.
pub(super) fn mapped_parts(start: usize, bytes: usize) -> Result<Vec<Part>, c_int> {
    table(|table| {
        let end = start.checked_add(bytes).ok_or(errors::INVALID_VALUE)?;
        let (mut at, mut parts) = (start, Vec::new());
        while at < end {
            let (first, mapping) = table.at(at).ok_or(errors::INVALID_VALUE)?;
            let last = end.min(first + mapping.bytes);
            parts.push((Arc::clone(&mapping.object), mapping.offset + (at - first) as u64, last - at));
            at = last;
        }
        Ok(parts)
    })
}

/// True if some of the bytes lie at reserved addresses where nothing is mapped, or nothing may be accessed.
pub(super) fn reach_nothing(start: usize, bytes: usize) -> bool {
    locked().as_ref().is_some_and(|table| {
        let reserved = table.reservations.range(..=start).next_back();
        let end = start.saturating_add(bytes);
        reserved.is_some_and(|(first, reservation)| start - first < reservation.bytes())
            && (!table.gaps(start, end).is_empty()
                || table.at(start).is_some_and(|(_, mapping)| !mapping.accessible())
                || table.mappings.range(start..end).any(|(_, mapping)| !mapping.accessible()))
    })
}

/// The types of handle that the memory at an address can be exported as; `None` if it is not of this module.
pub(super) fn handle_types(address: usize) -> Option<c_ulonglong> {
    let table = locked();
    let (_, mapping) = table.as_ref()?.at(address)?;
    Some(mapping.object.handles().bits())
}

/// The addresses at which this process has mapped the memory that is mapped at an address.
pub(super) fn aliases(address: usize) -> Vec<usize> {
    let table = locked();
    let Some((table, (_, mapping))) = table.as_ref().and_then(|table| Some((table, table.at(address)?))) else {
        return Vec::new();
    };
    let same = table.mappings.iter().filter(|(_, other)| Arc::ptr_eq(&other.object, &mapping.object));
    same.map(|(start, _)| *start).collect()
}

/// Lets kernels and copies reach a mapping that had no access until now.
fn open(start: usize, mapping: &Mapping) -> Outcome {
    match &*mapping.object {
        Object::Memory(memory) => {
            raw::allow(&mapping.reservation, start, mapping.bytes)?;
            let (device, kind) = match memory.location {
                Location::Device(device) => (device, blocks::Kind::Virtual),
                Location::Host => (devices::current(), blocks::Kind::VirtualHost),
            };
            blocks::mapped(device, start, mapping.bytes, kind);
        }
        Object::Multicast(_) => {
            multicast::mapped(start, mapping.bytes, mapping.offset, Arc::clone(&mapping.object));
        }
    }
    Ok(())
}

/// Takes access away again: calls do not know the memory any more, and running kernels reach it until what is returned is called.
fn close(start: usize, object: &Arc<Object>) -> graves::Burial {
    if let Object::Memory(_) = &**object {
        blocks::forget(start, &[blocks::Kind::Virtual, blocks::Kind::VirtualHost]);
        Box::new(move || watch::unmapped(start))
    } else {
        let number = multicast::number_at(start);
        Box::new(move || multicast::unmapped(start, number))
    }
}

/// The file that a handle of this type names.
fn opened(handle: In<ProcessHandle>, kind: HandleType) -> Result<SealedFile, c_int> {
    if kind == HandleType::Fabric {
        return fabric_file(handle.get()?).ok_or(errors::INVALID_VALUE);
    }
    let number = i32::try_from(handle.address()).map_err(|_| errors::INVALID_VALUE)?;
    SealedFile::of_process(std::process::id(), number)
        .inspect_err(|error| refusals::note("another process's memory", 0, error))
        .map_err(|_| errors::INVALID_VALUE)
}

driver! {
    fn cuMemGetAllocationGranularity(place: Out<'_, usize>, properties: In<Properties>, option: c_int) {
        properties.get()?.location.get()?;
        match option {
            0 | 1 => put(place, GRANULARITY),
            _ => Err(errors::INVALID_VALUE),
        }
    }
    fn cuMemCreate(place: Out<'_, u64>, bytes: usize, properties: In<Properties>, flags: c_ulonglong) {
        let (place, properties) = (place.ok_or(errors::INVALID_VALUE)?, properties.get()?);
        no_flags(flags)?;
        size(bytes)?;
        if properties.kind != PINNED {
            return Err(errors::INVALID_VALUE);
        }
        let handles = HandleTypes::of(properties.handles as c_uint as c_ulonglong).ok_or(errors::NOT_SUPPORTED)?;
        let memory = Memory::new(properties.location.get()?, bytes, handles)?;
        place.write(add(Object::Memory(memory))?);
        Ok(())
    }
    /// The memory lives on where it is mapped, bound or open in other processes.
    fn cuMemRelease(handle: u64) {
        // It is dropped when the table is not locked any more.
        let last = table(|table| {
            let (_, times) = table.handles.get_mut(&handle).ok_or(errors::INVALID_VALUE)?;
            *times -= 1;
            Ok(if *times == 0 { table.handles.remove(&handle) } else { None })
        })?;
        drop(last);
        Ok(())
    }
    fn cuMemRetainAllocationHandle(place: Out<'_, u64>, address: usize) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        table(|table| {
            let (_, mapping) = table.at(address).ok_or(errors::INVALID_VALUE)?;
            let (handle, object) = (mapping.handle, Arc::clone(&mapping.object));
            table.handles.entry(handle).or_insert((object, 0)).1 += 1;
            place.write(handle);
            Ok(())
        })
    }
    fn cuMemGetAllocationPropertiesFromHandle(place: Out<'_, Properties>, handle: u64) {
        let object = object(handle)?;
        let memory = object.memory()?;
        put(place, Properties {
            kind: PINNED,
            handles: memory.handles.bits() as c_int,
            location: LocationOf::of(memory.location),
            windows: 0,
            compression: 0,
            network: 0,
            usage: 0,
            reserved: [0; 4],
        })
    }
    fn cuMemExportToShareableHandle(place: Room, handle: u64, kind: c_int, flags: c_ulonglong) {
        no_flags(flags)?;
        let object = object(handle)?;
        let kind = HandleType::of(kind).filter(|kind| object.handles().has(*kind)).ok_or(errors::INVALID_VALUE)?;
        if kind == HandleType::Fabric {
            return place.write(fabric_handle(object.file()).ok_or(errors::NOT_SUPPORTED)?.bytes());
        }
        let copy = object.file().file().try_clone().map_err(|error| errors::refused("a handle of memory", 0, &error))?;
        // The place is checked before the descriptor is the caller's.
        place.write(&(-1 as c_int).to_ne_bytes())?;
        place.write(&copy.into_raw_fd().to_ne_bytes())
    }
    /// `handle` is a descriptor itself, or the address of a handle of the fabric.
    fn cuMemImportFromShareableHandle(place: Out<'_, u64>, handle: In<ProcessHandle>, kind: c_int) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        let kind = HandleType::of(kind).ok_or(errors::NOT_SUPPORTED)?;
        let (file, handles) = (opened(handle, kind)?, HandleTypes::only(kind));
        place.write(table(|table| {
            let known = table.objects.get(&file.inode()).and_then(Weak::upgrade);
            let object = match known {
                Some(object) => object,
                None if file.name() == multicast::NAME => Arc::new(Object::Multicast(Multicast::imported(file, handles)?)),
                None => Arc::new(Object::Memory(Memory::imported(file, handles)?)),
            };
            Ok(table.add(object))
        })?);
        Ok(())
    }
    fn cuMemAddressReserve(place: Out<'_, usize>, bytes: usize, align: usize, _wanted: usize, flags: c_ulonglong) {
        let place = place.ok_or(errors::INVALID_VALUE)?;
        no_flags(flags)?;
        size(bytes)?;
        if align != 0 && !align.is_power_of_two() {
            return Err(errors::INVALID_VALUE);
        }
        let new = Reservation::new(bytes, align.max(GRANULARITY))
            .map_err(|error| errors::refused("addresses of device memory", bytes, &error))?;
        let start = new.start();
        table(|table| {
            table.reservations.insert(start, Arc::new(new));
            Ok(())
        })?;
        place.write(start);
        Ok(())
    }
    fn cuMemAddressFree(start: usize, bytes: usize) {
        table(|table| {
            let known = table.reservations.get(&start).is_some_and(|known| known.bytes() == bytes);
            if !known || table.gaps(start, start + bytes) != [(start, bytes)] {
                return Err(errors::INVALID_VALUE);
            }
            // Mappings that are still to be unmapped keep it.
            table.reservations.remove(&start);
            Ok(())
        })
    }
    fn cuMemMap(start: usize, bytes: usize, offset: usize, handle: u64, flags: c_ulonglong) {
        no_flags(flags)?;
        size(bytes)?;
        aligned(start)?;
        aligned(offset)?;
        table(|table| {
            let object = table.object(handle)?;
            let end = (offset as u64).checked_add(bytes as u64).ok_or(errors::INVALID_VALUE)?;
            let reservation = table.reservations.range(..=start).next_back().map(|(_, known)| Arc::clone(known));
            let reservation = reservation.filter(|known| known.holds(start, bytes)).ok_or(errors::INVALID_VALUE)?;
            if end > object.bytes() || table.gaps(start, start + bytes) != [(start, bytes)] {
                return Err(errors::INVALID_VALUE);
            }
            table.clear(start, start + bytes);
            if let Object::Memory(memory) = &*object {
                raw::map(&reservation, start, &memory.file, offset as u64, bytes)?;
            }
            let access = BTreeMap::new();
            table.mappings.insert(start, Mapping { bytes, object, handle, offset: offset as u64, reservation, access });
            Ok(())
        })
    }
    fn cuMemUnmap(start: usize, bytes: usize) {
        let gone = table(|table| {
            let starts = table.whole(start, bytes)?;
            Ok(starts.into_iter().filter_map(|start| Some((start, table.unmap(start)?))).collect::<Vec<_>>())
        })?;
        for (start, (object, number)) in gone {
            // Without a handle or another mapping, its room is free at once.
            drop(object);
            graves::after_launched_work(Box::new(move || {
                if let Some(table) = locked().as_mut()
                    && table.leaving.get(&start).is_some_and(|old| old.number == number)
                {
                    table.clear(start, start + 1);
                }
            }));
        }
        Ok(())
    }
    fn cuMemSetAccess(start: usize, bytes: usize, accesses: In<Access>, count: usize) {
        if count == 0 || count > 2 * super::settings().devices {
            return Err(errors::INVALID_VALUE);
        }
        let flags = |access: Access| {
            let flags = access.flags as c_uint as c_ulonglong;
            if ACCESSES.contains(&flags) { Ok((access.location.get()?, flags)) } else { Err(errors::INVALID_VALUE) }
        };
        let accesses = accesses.list(count)?.into_iter().map(flags).collect::<Result<Vec<_>, _>>()?;
        let closed = table(|table| {
            let mut closed = Vec::new();
            for start in table.whole(start, bytes)? {
                let mapping = table.mappings.get_mut(&start).ok_or(errors::INVALID_VALUE)?;
                let before = mapping.accessible();
                mapping.access.extend(accesses.iter().copied());
                match (before, mapping.accessible()) {
                    (false, true) => open(start, mapping)?,
                    (true, false) => closed.push(start),
                    _ => {}
                }
            }
            Ok(closed)
        })?;
        for start in closed {
            let object = table(|table| table.mappings.get(&start).map(|known| Arc::clone(&known.object)).ok_or(errors::INVALID_VALUE))?;
            graves::after_launched_work(close(start, &object));
        }
        Ok(())
    }
    fn cuMemGetAccess(place: Out<'_, c_ulonglong>, location: In<LocationOf>, address: usize) {
        let location = location.get()?.get()?;
        let flags = table(|table| {
            let (_, mapping) = table.at(address).ok_or(errors::INVALID_VALUE)?;
            Ok(mapping.access.get(&location).copied().unwrap_or(0))
        })?;
        put(place, flags)
    }
}
