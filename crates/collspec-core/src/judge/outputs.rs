//! The final values of the written buffers as JSON, by buffer and rank.
use super::OutputRows;
use super::images::image_bytes;
use crate::job::Observation;
use crate::num::{DType, Number, decode, element_text, get_element};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory};
use crate::plan::{BufId, Event, Plan, Region};
use serde_json::Value;

/// Number of elements above which a case has no outputs.
const MAX_ELEMENTS: u64 = 4096;

/// Buffers that some step writes, in the plan's order.
pub(crate) fn written_buffers(plan: &Plan) -> Vec<BufId> {
    let mut written = vec![false; plan.buffers.len()];
    for write in plan.events.iter().flat_map(Event::writes).flatten() {
        if let Some(flag) = written.get_mut(write.region.buf) {
            *flag = true;
        }
    }
    (0..plan.buffers.len()).filter(|b| written[*b] && !plan.buffers[*b].name.starts_with('#')).collect()
}

/// The region that covers all of a buffer on a rank; `None` if the rank lacks it.
pub(crate) fn whole_buffer(plan: &Plan, buf: BufId, rank: usize) -> Option<Region> {
    let place = plan.buffers.get(buf)?.places.get(rank).copied().flatten()?;
    Some(Region { buf, rank, start: 0, len: place.count })
}

/// The outputs of a run; `None` for more than [`MAX_ELEMENTS`].
pub(crate) fn json_outputs(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    observation: &Observation,
) -> Option<OutputRows> {
    let buffers = written_buffers(plan);
    let mut total = 0u64;
    for region in buffers.iter().flat_map(|b| (0..plan.n).filter_map(|r| whole_buffer(plan, *b, r))) {
        total = total.checked_add(region.len)?;
    }
    if total > MAX_ELEMENTS {
        return None;
    }
    let row = |buf, rank| json_row(plan, forecast, last, observation, whole_buffer(plan, buf, rank)?);
    let rows = |buf: &BufId| (plan.buffers[*buf].name.clone(), (0..plan.n).map(|rank| row(*buf, rank)).collect());
    Some(buffers.iter().map(rows).collect())
}

fn json_row(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    observation: &Observation,
    region: Region,
) -> Option<Vec<Value>> {
    let dtype = plan.buffers[region.buf].dtype;
    let size = dtype.size() as u64;
    let (alloc, range) = region_bytes(plan, region)?;
    let start = plan.allocs[alloc].start();
    let part = (start + range.start) as usize..(start + range.end) as usize;
    let image = &*image_bytes(forecast, observation, alloc, part.clone())?;
    let initial = &*forecast.initial.get(alloc)?.get(part)?;
    let memory = last.get(alloc)?;
    let poison = |i: u64| {
        let bytes = (i * size) as usize..((i + 1) * size) as usize;
        let at = range.start + i * size;
        image[bytes.clone()] == initial[bytes]
            && memory.runs_in(at..at + size).all(|(_, run)| run.certainty == Certainty::Unwritten)
    };
    let elements = || 0..region.len;
    if region.len > 0 && elements().all(poison) {
        return None;
    }
    let value = |i: u64| if poison(i) { Value::Null } else { json_value(dtype, get_element(dtype, image, i as usize)) };
    Some(elements().map(value).collect())
}

/// An element as a number, or as text if it is NaN or infinite.
fn json_value(dtype: DType, bits: u64) -> Value {
    let value = match decode(dtype, bits) {
        Number::Int(v) => {
            return i64::try_from(v)
                .map(Value::from)
                .or_else(|_| u64::try_from(v).map(Value::from))
                .unwrap_or_default();
        }
        Number::Float(v) => v,
    };
    // The exact value, so that a reader can compare it without knowing the element type.
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(element_text(dtype, bits)), Value::Number)
}
