//! The memory of a plan's regions.
use crate::plan::{Plan, Region};
use std::ops::Range;

/// The allocation of a region and its bytes in the payload; `None` if the region does not exist.
pub(crate) fn region_bytes(plan: &Plan, region: Region) -> Option<(usize, Range<u64>)> {
    let buffer = plan.buffers.get(region.buf)?;
    let place = (*buffer.places.get(region.rank)?)?;
    let size = buffer.dtype.size() as u64;
    let start = place.offset.checked_add(region.start.checked_mul(size)?)?;
    let end = start.checked_add(region.len.checked_mul(size)?)?;
    (end <= plan.allocs.get(place.alloc)?.payload).then_some((place.alloc, start..end))
}
