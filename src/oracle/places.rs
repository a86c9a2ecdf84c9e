//! Where a plan's regions lie, and what its events write.
use crate::plan::{Event, Plan, Region, Write};
use std::ops::Range;

/// The allocation and the bytes of its payload that a region is.
pub(crate) fn region_bytes(plan: &Plan, region: Region) -> Option<(usize, Range<u64>)> {
    let buffer = plan.buffers.get(region.buf)?;
    let place = (*buffer.places.get(region.rank)?)?;
    let size = buffer.dtype.size() as u64;
    let start = place.offset.checked_add(region.start.checked_mul(size)?)?;
    let end = start.checked_add(region.len.checked_mul(size)?)?;
    (end <= plan.allocs.get(place.alloc)?.payload).then_some((place.alloc, start..end))
}

/// What an event writes.
pub(crate) fn writes_of(event: &Event) -> Vec<Option<&Write>> {
    match event {
        Event::Collective { recv, .. } => recv.iter().map(Option::as_ref).collect(),
        Event::Post { .. } => Vec::new(),
        Event::Land { to, .. } => vec![Some(to)],
        Event::Map { out, .. } => vec![Some(out)],
        Event::Undefined { out, .. } => out.iter().map(Some).collect(),
    }
}
