//! The snapshot of a case: inputs and results by rank, the same on every backend as long as the results are right.
use super::findings::FindingCollector;
use super::images::image_bytes;
use super::outputs::{whole_buffer, written_buffers};
use crate::job::Observation;
use crate::num::{DType, element_text, get_element, is_nan};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::Certainty;
use crate::plan::{BufId, Plan, Region};
use crate::printable::printable_lines;
use std::fmt::Write;

/// Number of elements up to which a case has a snapshot by default.
const MAX_ELEMENTS: u64 = 256;
/// Number of elements of a row that are printed.
const MAX_ROW_ELEMENTS: u64 = 1024;

/// True if the case has a snapshot.
pub(crate) fn has_snapshot(plan: &Plan) -> bool {
    let case = &plan.case;
    let elements = || {
        let regions = (0..plan.buffers.len()).filter(|b| !plan.buffers[*b].name.starts_with('#'));
        let counts = regions.flat_map(|b| (0..plan.n).filter_map(move |r| whole_buffer(plan, b, r)));
        counts.fold(0u64, |sum, region| sum.saturating_add(region.len))
    };
    case.snapshot.unwrap_or_else(|| !case.swept && elements() <= MAX_ELEMENTS)
}

/// The snapshot's text. Right results are printed in canonical form, with `~` where several values are right.
pub(crate) fn render(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    collector: &FindingCollector,
) -> String {
    let mut out = String::new();
    if let Some(description) = &plan.case.description {
        out.push_str(&printable_lines(description.trim()));
        out.push_str("\n\n");
    }
    let visible: Vec<BufId> = (0..plan.buffers.len()).filter(|b| !plan.buffers[*b].name.starts_with('#')).collect();
    let before: Vec<BufId> = visible.iter().copied().filter(|b| plan.buffers[*b].input.is_some()).collect();
    let page = SnapshotText { plan, forecast, observation, collector };
    out.push_str("before\n");
    page.push_rows(&mut out, &before, true);
    out.push_str("after\n");
    page.push_rows(&mut out, &written_buffers(plan), false);
    out
}

/// The data that a snapshot prints.
struct SnapshotText<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    observation: &'a Observation,
    collector: &'a FindingCollector,
}

impl SnapshotText<'_> {
    fn push_rows(&self, out: &mut String, buffers: &[BufId], before: bool) {
        let names: Vec<String> = buffers.iter().map(|b| self.name(*b)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for rank in 0..self.plan.n {
            for (buf, name) in buffers.iter().zip(&names) {
                if let Some(region) = whole_buffer(self.plan, *buf, rank) {
                    let row = self.row(region, before).unwrap_or_else(|| "?".into());
                    // Writing to a String cannot fail.
                    let _ = writeln!(out, "  rank {rank}  {name:width$}  {row}");
                }
            }
        }
    }

    fn name(&self, buf: BufId) -> String {
        let buffer = &self.plan.buffers[buf];
        match buffer.dtype {
            DType::F32 => buffer.name.clone(),
            other => format!("{} ({})", buffer.name, other.name()),
        }
    }

    fn row(&self, region: Region, before: bool) -> Option<String> {
        let (alloc, range) = region_bytes(self.plan, region)?;
        let dtype = self.plan.buffers[region.buf].dtype;
        let size = dtype.size() as u64;
        let start = self.plan.allocs[alloc].start();
        let part = (start + range.start) as usize..(start + range.end) as usize;
        let initial = self.forecast.initial.get(alloc)?.get(part.clone())?;
        let initial = &*initial;
        let image = image_bytes(self.forecast, self.observation, alloc, part)?;
        let image = &*image;
        let memory = self.forecast.final_memory.get(alloc)?;
        let last = &*memory.data.get(range.start as usize..range.end as usize)?;
        let begin = self.forecast.initial_memory(alloc);
        let mut words = Vec::new();
        let mut blank = region.len > 0;
        for i in 0..region.len.min(MAX_ROW_ELEMENTS) {
            let at = range.start + i * size..range.start + (i + 1) * size;
            let element = i as usize;
            let word = if before {
                match begin.runs_in(at).map(|(_, run)| run.certainty).max() {
                    Some(Certainty::Known) => element_text(dtype, get_element(dtype, initial, element)),
                    _ => ".".into(),
                }
            } else if self.collector.has_wrong_bytes(alloc, &at) {
                element_text(dtype, get_element(dtype, image, element))
            } else {
                let right = get_element(dtype, last, element);
                match memory.runs_in(at).map(|(_, run)| run.certainty).max() {
                    Some(Certainty::Known) => element_text(dtype, right),
                    Some(Certainty::Ambiguous) if is_nan(dtype, right) => element_text(dtype, right),
                    Some(Certainty::Ambiguous) => format!("~{}", element_text(dtype, right)),
                    Some(Certainty::Undefined) => "?".into(),
                    _ => ".".into(),
                }
            };
            blank &= word == ".";
            words.push(word);
        }
        if blank {
            return Some("untouched".into());
        }
        let more = if region.len > MAX_ROW_ELEMENTS {
            format!(" and {} more", region.len - MAX_ROW_ELEMENTS)
        } else {
            String::new()
        };
        Some(format!("[{}]{more}", words.join(", ")))
    }
}
