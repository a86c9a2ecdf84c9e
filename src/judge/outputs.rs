//! What came out, for machines: JSON values by buffer and rank.
use super::Outputs;
use crate::job::Observation;
use crate::num::{DType, Number, decode, get, text};
use crate::oracle::Forecast;
use crate::oracle::contents::{Certainty, Memory};
use crate::oracle::walk::{region_bytes, writes_of};
use crate::plan::{BufId, Plan, Region};
use serde_json::Value;

/// Elements above which nothing is listed.
const MOST: u64 = 4096;

/// Buffers that some step writes, in the plan's order.
pub(crate) fn written(plan: &Plan) -> Vec<BufId> {
    let mut written = vec![false; plan.buffers.len()];
    for write in plan.events.iter().flat_map(writes_of).flatten() {
        if let Some(flag) = written.get_mut(write.region.buf) {
            *flag = true;
        }
    }
    (0..plan.buffers.len()).filter(|b| written[*b] && !plan.buffers[*b].name.starts_with('#')).collect()
}

/// All of a buffer on a rank that has it.
pub(crate) fn whole(plan: &Plan, buf: BufId, rank: usize) -> Option<Region> {
    let place = plan.buffers.get(buf)?.places.get(rank).copied().flatten()?;
    Some(Region { buf, rank, start: 0, len: place.count })
}

/// By buffer name, by world rank: `None` where the rank has no such buffer or it is still all poison.
pub(crate) fn list(plan: &Plan, forecast: &Forecast, last: &[Memory], seen: &Observation) -> Option<Outputs> {
    let buffers = written(plan);
    let mut total = 0u64;
    for region in buffers.iter().flat_map(|b| (0..plan.n).filter_map(|r| whole(plan, *b, r))) {
        total = total.checked_add(region.len)?;
    }
    if total > MOST {
        return None;
    }
    let row = |buf, rank| row(plan, forecast, last, seen, whole(plan, buf, rank)?);
    let rows = |buf: &BufId| (plan.buffers[*buf].name.clone(), (0..plan.n).map(|rank| row(*buf, rank)).collect());
    Some(buffers.iter().map(rows).collect())
}

fn row(plan: &Plan, forecast: &Forecast, last: &[Memory], seen: &Observation, region: Region) -> Option<Vec<Value>> {
    let dtype = plan.buffers[region.buf].dtype;
    let size = dtype.size() as u64;
    let (alloc, range) = region_bytes(plan, region)?;
    let start = plan.allocs[alloc].start();
    let image = seen.images.get(alloc)?.get((start + range.start) as usize..(start + range.end) as usize)?;
    let initial = forecast.initial.get(alloc)?.get((start + range.start) as usize..(start + range.end) as usize)?;
    let memory = last.get(alloc)?;
    let poison = |i: u64| {
        let bytes = (i * size) as usize..((i + 1) * size) as usize;
        let at = range.start + i * size;
        image[bytes.clone()] == initial[bytes]
            && memory.over(at..at + size).all(|(_, run)| run.sure == Certainty::Blank)
    };
    let elements = || 0..region.len;
    if region.len > 0 && elements().all(poison) {
        return None;
    }
    let value = |i: u64| if poison(i) { Value::Null } else { json(dtype, get(dtype, image, i as usize)) };
    Some(elements().map(value).collect())
}

/// A number; NaN and infinities as text.
fn json(dtype: DType, bits: u64) -> Value {
    let value = match decode(dtype, bits) {
        Number::Int(v) => {
            return i64::try_from(v)
                .map(Value::from)
                .or_else(|_| u64::try_from(v).map(Value::from))
                .unwrap_or_default();
        }
        Number::Float(v) => v,
    };
    // The exact value: a reader need not know the element type to compare it.
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(text(dtype, bits)), Value::Number)
}
