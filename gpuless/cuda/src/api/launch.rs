//! Launches kernels, and answers queries about them.
use super::kernels::{self, Attributes, Configuration, Found};
use super::raw::{In, Room};
use super::settings::settings;
use super::work::{self, Kernel};
use super::{Handle, Out, Outcome, Runtime, errors, events, put, runtime, streams};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint};

/// Most threads of a block.
const MOST_THREADS: u64 = 1024;
/// Most shared memory of a block when a kernel asks for it, and without.
pub(super) const MOST_SHARED: usize = 227 << 10;
pub(super) const USUAL_SHARED: usize = 48 << 10;
/// Bytes of shared memory of a multiprocessor.
pub(super) const MULTIPROCESSOR_SHARED: usize = 228 << 10;
pub(super) const MULTIPROCESSOR_THREADS: usize = 2048;
pub(super) const MULTIPROCESSOR_BLOCKS: usize = 32;
/// Length of `cudaFuncAttributes` of 11; later versions begin with the same fields.
const ATTRIBUTES_OF_11: usize = 56;
const ATTRIBUTES: usize = 144;

/// `cudaLaunchAttributeID`.
const CLUSTER_DIMENSION: c_int = 4;
const LAUNCH_COMPLETION_EVENT: c_int = 12;
/// `cudaFuncAttribute`: the first and the last, and the one that is used.
const FUNCTION_ATTRIBUTES: std::ops::RangeInclusive<c_int> = 8..=15;
const MAX_DYNAMIC_SHARED: c_int = 8;
/// Marks in the list of `extra`.
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;
/// Most parameters' bytes that a kernel can have.
const MOST_PARAMETERS: usize = 32 << 10;

/// `dim3`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Dimensions {
    pub x: c_uint,
    pub y: c_uint,
    pub z: c_uint,
}

impl Dimensions {
    fn list(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// `cudaLaunchAttribute`, and `CUlaunchAttribute`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchAttribute {
    id: c_int,
    unused: c_int,
    value: [u64; 8],
}

/// `cudaLaunchConfig_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct LaunchConfig {
    grid: Dimensions,
    block: Dimensions,
    shared: usize,
    stream: Handle,
    attributes: In<LaunchAttribute>,
    count: c_uint,
}

pub(super) fn configuration(grid: Dimensions, block: Dimensions, dynamic_shared: usize) -> Configuration {
    Configuration { grid: grid.list(), block: block.list(), cluster: [1; 3], dynamic_shared }
}

/// Checks that a kernel can be launched with this configuration.
pub(super) fn check(found: &Found, configuration: &Configuration) -> Outcome {
    let attributes = attributes(found)?;
    let product = |sizes: [u32; 3]| sizes.iter().map(|size| u64::from(*size)).fold(1, u64::saturating_mul);
    let threads = product(configuration.block);
    let blocks = product(configuration.grid);
    let most = MOST_THREADS.min(attributes.most_threads.into());
    let clusters =
        configuration.grid.iter().zip(configuration.cluster).all(|(grid, cluster)| grid.is_multiple_of(cluster));
    if threads == 0 || threads > most || blocks == 0 || !clusters {
        return Err(errors::INVALID_CONFIGURATION);
    }
    if configuration.dynamic_shared.saturating_add(attributes.shared) > MOST_SHARED {
        return Err(errors::INVALID_VALUE);
    }
    Ok(())
}

/// Libraries have host functions of kernels that were not compiled for every device, and NCCL passes over them by this error.
pub(super) fn attributes(found: &Found) -> Result<Attributes, c_int> {
    found.kernels.attributes(&found.name).ok_or(errors::NO_KERNEL_IMAGE)
}

/// The kernel to launch on a device. One that cannot be is named.
pub(super) fn to_launch(function: *const (), device: usize) -> Result<Found, c_int> {
    let found = kernels::kernel(function).and_then(|found| attributes(&found).map(|_| found));
    found.inspect_err(|_| kernels::tell_refusal(function, device))
}

/// The block of a kernel's parameters, from a list of their addresses, or else from the block that `extra` names.
pub(super) fn parameters(found: &Found, list: In<In<u8>>, extra: In<Handle>) -> Result<Vec<u8>, c_int> {
    if list.is_null() {
        return extra_parameters(extra);
    }
    let places = found.kernels.parameters(&found.name).ok_or(errors::NO_KERNEL_IMAGE)?;
    let len = places.iter().map(|(offset, size)| offset.saturating_add(*size)).max().unwrap_or(0);
    if len > MOST_PARAMETERS {
        return Err(errors::INVALID_DEVICE_FUNCTION);
    }
    let mut block = vec![0; len];
    for (index, (offset, size)) in places.into_iter().enumerate() {
        let from = list.at(index)?;
        if from.is_null() {
            return Err(errors::INVALID_VALUE);
        }
        block[offset..offset + size].copy_from_slice(&from.bytes().copied(size));
    }
    Ok(block)
}

fn extra_parameters(extra: In<Handle>) -> Result<Vec<u8>, c_int> {
    let (mut buffer, mut len) = (None, 0);
    let mut index = 0;
    while !extra.is_null() {
        match extra.at(index)?.addr() {
            0 => break,
            BUFFER_POINTER => buffer = Some(extra.buffer(index + 1)?),
            BUFFER_SIZE => len = extra.size(index + 1)?,
            _ => return Err(errors::INVALID_VALUE),
        }
        index += 2;
    }
    match buffer {
        _ if len > MOST_PARAMETERS => Err(errors::INVALID_VALUE),
        Some(buffer) if !buffer.is_null() => Ok(buffer.copied(len)),
        _ if len == 0 => Ok(Vec::new()),
        _ => Err(errors::INVALID_VALUE),
    }
}

/// A launch, as all functions for it understand it.
pub(super) struct Launch {
    pub function: *const (),
    pub configuration: Configuration,
    pub parameters: In<In<u8>>,
    pub extra: In<Handle>,
    pub stream: Handle,
    pub attributes: Vec<LaunchAttribute>,
}

pub(super) fn launch(launch: Launch) -> Outcome {
    let Launch { function, mut configuration, parameters: list, extra, stream, attributes } = launch;
    let target = streams::lookup(stream)?;
    errors::check(target.device)?;
    let found = to_launch(function, target.device)?;
    let mut begun = None;
    for attribute in &attributes {
        let [first, second, ..] = attribute.value;
        match attribute.id {
            CLUSTER_DIMENSION => {
                // three numbers of 32 bits
                let halves = [first & 0xffff_ffff, first >> 32, second & 0xffff_ffff];
                configuration.cluster = halves.map(|half| u32::try_from(half).unwrap_or(1).max(1));
            }
            LAUNCH_COMPLETION_EVENT => {
                let handle = usize::try_from(first).map_err(|_| errors::INVALID_RESOURCE_HANDLE)?;
                begun = Some(events::lookup(std::ptr::without_provenance_mut(handle))?);
            }
            // placement of its blocks, and so on
            _ => {}
        }
    }
    check(&found, &configuration)?;
    let parameters = parameters(&found, list, extra)?;
    if let Some(event) = begun {
        // All blocks begin at once, when the stream has got to the kernel.
        target.stream.record(&event);
    }
    let Found { kernels, name } = found;
    // The kernel runs on the device of its stream or, if the runtime did not create the stream, on the current device.
    work::launch(&target, Kernel { kernels, name, device: target.device, configuration, parameters });
    Ok(())
}

/// Blocks of a kernel that a multiprocessor holds.
fn occupancy(found: &Found, threads: c_int, dynamic_shared: usize) -> Result<c_int, c_int> {
    let threads = usize::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(errors::INVALID_VALUE)?;
    let shared = attributes(found)?.shared.saturating_add(dynamic_shared);
    if threads as u64 > MOST_THREADS || shared > MOST_SHARED {
        return Ok(0);
    }
    // A thousand bytes of each block are the system's.
    let by_shared = MULTIPROCESSOR_SHARED / (shared + 1024);
    let by_threads = MULTIPROCESSOR_THREADS / threads.next_multiple_of(32);
    Ok(super::int(by_shared.min(by_threads).min(MULTIPROCESSOR_BLOCKS)))
}

fn function_attributes(place: Room, len: usize, function: *const ()) -> Outcome {
    let attributes = attributes(&kernels::kernel(function)?)?;
    let (major, minor) = settings().capability;
    let version = (major * 10 + minor).to_ne_bytes();
    let mut bytes = [0; ATTRIBUTES];
    let mut set = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    set(0, &attributes.shared.to_ne_bytes());
    set(8, &attributes.constant.to_ne_bytes());
    set(16, &attributes.local.to_ne_bytes());
    set(24, &attributes.most_threads.to_ne_bytes());
    set(28, &attributes.registers.to_ne_bytes());
    set(32, &version);
    set(36, &version);
    set(44, &super::int(MOST_SHARED.saturating_sub(attributes.shared)).to_ne_bytes());
    place.write(&bytes[..len])
}

thread_local! {
    /// The configurations of launches that programs' `<<<...>>>` has begun.
    static BEGUN: RefCell<Vec<Begun>> = const { RefCell::new(Vec::new()) };
}

/// Grid, block, dynamic shared memory and stream of a launch.
type Begun = (Dimensions, Dimensions, usize, Handle);

mod all {
    use super::*;
    runtime! {
        fn __cudaGetKernel(place: Out<'_, Handle>, function: *const ()) {
            kernels::kernel(function)?;
            put(place, function.cast_mut().cast())
        }
        by_thread __cudaLaunchKernel_ptsz fn __cudaLaunchKernel(
            kernel: *const (),
            grid: Dimensions,
            block: Dimensions,
            parameters: In<In<u8>>,
            shared: usize,
            stream: Handle,
        ) {
            let configuration = configuration(grid, block, shared);
            launch(Launch { function: kernel, configuration, parameters, extra: In::null(), stream, attributes: Vec::new() })
        }
        fn __cudaPushCallConfiguration(grid: Dimensions, block: Dimensions, shared: usize, stream: Handle) {
            BEGUN.with_borrow_mut(|begun| begun.push((grid, block, shared, stream)));
            Ok(())
        }
        fn __cudaPopCallConfiguration(
            grid: Out<'_, Dimensions>,
            block: Out<'_, Dimensions>,
            shared: Out<'_, usize>,
            stream: Out<'_, Handle>,
        ) {
            let last = BEGUN.with_borrow_mut(Vec::pop).ok_or(errors::INVALID_CONFIGURATION)?;
            put(grid, last.0)?;
            put(block, last.1)?;
            put(shared, last.2)?;
            put(stream, last.3)
        }
        by_thread cudaLaunchKernel_ptsz fn cudaLaunchKernel(
            function: *const (),
            grid: Dimensions,
            block: Dimensions,
            parameters: In<In<u8>>,
            shared: usize,
            stream: Handle,
        ) {
            let configuration = configuration(grid, block, shared);
            launch(Launch { function, configuration, parameters, extra: In::null(), stream, attributes: Vec::new() })
        }
        by_thread cudaLaunchKernelExC_ptsz fn cudaLaunchKernelExC(
            config: In<LaunchConfig>,
            function: *const (),
            parameters: In<In<u8>>,
        ) {
            let LaunchConfig { grid, block, shared, stream, attributes, count } = config.get()?;
            let configuration = configuration(grid, block, shared);
            let attributes = attributes.list(count as usize)?;
            launch(Launch { function, configuration, parameters, extra: In::null(), stream, attributes })
        }
        /// A kernel's handle for the driver is the address of its host function.
        fn cudaGetFuncBySymbol(place: Out<'_, Handle>, function: *const ()) {
            kernels::kernel(function)?;
            put(place, function.cast_mut().cast())
        }
        fn cudaFuncSetAttribute(function: *const (), attribute: c_int, value: c_int) {
            let shared = attributes(&kernels::kernel(function)?)?.shared;
            if !FUNCTION_ATTRIBUTES.contains(&attribute) {
                return Err(errors::INVALID_VALUE);
            }
            let fits = usize::try_from(value).is_ok_and(|bytes| bytes.saturating_add(shared) <= MOST_SHARED);
            if attribute == MAX_DYNAMIC_SHARED && !fits { Err(errors::INVALID_VALUE) } else { Ok(()) }
        }
        fn cudaFuncSetCacheConfig(function: *const (), _config: c_int) { kernels::kernel(function).map(|_| ()) }
        fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            place: Out<'_, c_int>,
            function: *const (),
            threads: c_int,
            shared: usize,
        ) { put(place, occupancy(&kernels::kernel(function)?, threads, shared)?) }
        fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            place: Out<'_, c_int>,
            function: *const (),
            threads: c_int,
            shared: usize,
            _flags: c_uint,
        ) { put(place, occupancy(&kernels::kernel(function)?, threads, shared)?) }
    }
}

mod v11 {
    use super::*;
    runtime! {
        fn cudaFuncGetAttributes(place: Room, function: *const ()) {
            function_attributes(place, ATTRIBUTES_OF_11, function)
        }
    }
}

mod later {
    use super::*;
    runtime! {
        fn cudaFuncGetAttributes(place: Room, function: *const ()) { function_attributes(place, ATTRIBUTES, function) }
    }
}

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    let own = match runtime {
        Runtime::V11 => v11::functions(),
        Runtime::V12 | Runtime::V13 => later::functions(),
    };
    [all::functions(), own].concat()
}

#[cfg(test)]
pub(super) use all::*;
