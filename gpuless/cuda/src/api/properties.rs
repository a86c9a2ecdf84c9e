//! `cudaDeviceProp`, whose layout differs in each runtime, and the runtime's version.
use super::launch::{MOST_SHARED, MULTIPROCESSOR_BLOCKS, MULTIPROCESSOR_SHARED, MULTIPROCESSOR_THREADS, USUAL_SHARED};
use super::raw::Room;
use super::settings::{PciPlace, settings};
use super::{Out, Outcome, Runtime, devices, put, runtime};
use std::ffi::c_int;

/// The offsets of fields that have moved between versions; the others come before them.
struct Layout {
    bytes: usize,
    multiprocessors: usize,
    can_map_host_memory: usize,
    concurrent_kernels: usize,
    pci_bus: usize,
    pci_domain: usize,
    async_engines: usize,
    unified_addressing: usize,
    multiprocessor_threads: usize,
    stream_priorities: usize,
    multiprocessor_shared: usize,
    multiprocessor_registers: usize,
    cooperative_launch: usize,
    shared_opt_in: usize,
    multiprocessor_blocks: usize,
    /// `None` in runtime 11, which lacks it.
    memory_pools: Option<usize>,
    cluster_launch: Option<usize>,
}

/// 11.1 has one field more at its end, which is left alone: a program that was built for 11.0 has no room for it.
const V11: Layout = Layout {
    bytes: 720,
    multiprocessors: 388,
    can_map_host_memory: 400,
    concurrent_kernels: 576,
    pci_bus: 584,
    pci_domain: 592,
    async_engines: 600,
    unified_addressing: 604,
    multiprocessor_threads: 624,
    stream_priorities: 628,
    multiprocessor_shared: 640,
    multiprocessor_registers: 648,
    cooperative_launch: 688,
    shared_opt_in: 696,
    multiprocessor_blocks: 712,
    memory_pools: None,
    cluster_launch: None,
};

const V12: Layout = Layout { bytes: 1032, memory_pools: Some(744), cluster_launch: Some(772), ..V11 };

const V13: Layout = Layout {
    bytes: 1008,
    multiprocessors: 384,
    can_map_host_memory: 392,
    concurrent_kernels: 560,
    pci_bus: 568,
    pci_domain: 576,
    async_engines: 584,
    unified_addressing: 588,
    multiprocessor_threads: 604,
    stream_priorities: 608,
    multiprocessor_shared: 624,
    multiprocessor_registers: 632,
    cooperative_launch: 668,
    shared_opt_in: 672,
    multiprocessor_blocks: 688,
    memory_pools: Some(720),
    cluster_launch: Some(748),
};

/// A structure that is being filled.
struct Fields(Vec<u8>);

impl Fields {
    fn set(&mut self, offset: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(offset..offset + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
    fn int(&mut self, offset: usize, value: usize) {
        self.set(offset, &super::int(value).to_ne_bytes());
    }
    fn size(&mut self, offset: usize, value: usize) {
        self.set(offset, &value.to_ne_bytes());
    }
}

fn fill(place: Room, number: c_int, layout: &Layout) -> Outcome {
    let device = devices::device(number)?;
    let known = settings();
    let PciPlace { domain, bus, slot } = known.pci(device);
    let mut fields = Fields(vec![0; layout.bytes]);
    let name = known.name.as_bytes();
    fields.set(0, &name[..name.len().min(255)]);
    fields.set(256, &gpuless_device::uuid(device));
    fields.size(288, known.memory);
    fields.size(296, USUAL_SHARED);
    fields.int(304, 65536); // registers of a block
    fields.int(308, 32); // threads of a warp
    fields.size(312, c_int::MAX as usize); // pitch of copies
    fields.int(320, 1024); // threads of a block
    for (offset, most) in [(324, 1024), (328, 1024), (332, 64), (336, c_int::MAX as usize), (340, 65535), (344, 65535)]
    {
        fields.int(offset, most); // dimensions of a block and of a grid
    }
    fields.size(352, 65536); // constants
    fields.int(360, known.capability.0 as usize);
    fields.int(364, known.capability.1 as usize);
    fields.size(368, 512); // alignment of textures
    fields.int(layout.multiprocessors, known.multiprocessors as usize);
    fields.int(layout.can_map_host_memory, 1);
    fields.int(layout.concurrent_kernels, 1);
    fields.int(layout.pci_bus, bus as usize);
    fields.int(layout.pci_bus + size_of::<c_int>(), slot as usize);
    fields.int(layout.pci_domain, domain as usize);
    fields.int(layout.async_engines, 3);
    fields.int(layout.unified_addressing, 1);
    fields.int(layout.multiprocessor_threads, MULTIPROCESSOR_THREADS);
    fields.int(layout.stream_priorities, 1);
    fields.size(layout.multiprocessor_shared, MULTIPROCESSOR_SHARED);
    fields.int(layout.multiprocessor_registers, 65536);
    fields.int(layout.cooperative_launch, 1);
    fields.size(layout.shared_opt_in, MOST_SHARED);
    fields.int(layout.multiprocessor_blocks, MULTIPROCESSOR_BLOCKS);
    layout.memory_pools.into_iter().for_each(|offset| fields.int(offset, 1));
    layout.cluster_launch.into_iter().for_each(|offset| fields.int(offset, usize::from(known.capability.0 >= 9)));
    place.write(&fields.0)
}

mod v11 {
    use super::*;
    runtime! {
        fn cudaGetDeviceProperties(place: Room, device: c_int) { fill(place, device, &V11) }
        fn cudaRuntimeGetVersion(place: Out<'_, c_int>) { put(place, 11080) }
    }
}

/// The first name is still that of the function for programs that were built for 11.
mod v12 {
    use super::*;
    runtime! {
        fn cudaGetDeviceProperties(place: Room, device: c_int) { fill(place, device, &V11) }
        fn cudaGetDeviceProperties_v2(place: Room, device: c_int) { fill(place, device, &V12) }
        fn cudaRuntimeGetVersion(place: Out<'_, c_int>) { put(place, 12080) }
    }
}

mod v13 {
    use super::*;
    runtime! {
        fn cudaGetDeviceProperties(place: Room, device: c_int) { fill(place, device, &V13) }
        fn cudaRuntimeGetVersion(place: Out<'_, c_int>) { put(place, 13000) }
    }
}

pub(super) fn functions(runtime: Runtime) -> Vec<(&'static str, *const ())> {
    match runtime {
        Runtime::V11 => v11::functions(),
        Runtime::V12 => v12::functions(),
        Runtime::V13 => v13::functions(),
    }
}
