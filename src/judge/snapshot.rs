//! The snapshot of a case: before and after by rank, the same on every backend as long as everything is right.
use super::findings::FindingCollector;
use super::outputs::{whole, written};
use crate::job::Observation;
use crate::num::{DType, get, is_nan, text};
use crate::oracle::Forecast;
use crate::oracle::contents::Certainty;
use crate::oracle::walk::region_bytes;
use crate::plan::{BufId, Plan, Region};
use crate::printable::printable_lines;
use std::fmt::Write;

/// Elements up to which a case has a snapshot without asking for it.
const MOST: u64 = 256;
/// Elements of one row that are printed.
const ROW: u64 = 1024;

/// True if the case has one.
pub(crate) fn wanted(plan: &Plan) -> bool {
    let case = &plan.case;
    let elements = || {
        let regions = (0..plan.buffers.len()).filter(|b| !plan.buffers[*b].name.starts_with('#'));
        let counts = regions.flat_map(|b| (0..plan.n).filter_map(move |r| whole(plan, b, r)));
        counts.fold(0u64, |sum, region| sum.saturating_add(region.len))
    };
    case.snapshot.unwrap_or_else(|| !case.swept && elements() <= MOST)
}

/// The text. What was judged right is printed in canonical form, with `~` where several values are right.
pub(crate) fn write(plan: &Plan, forecast: &Forecast, seen: &Observation, collector: &FindingCollector) -> String {
    let mut out = String::new();
    if let Some(description) = &plan.case.description {
        out.push_str(&printable_lines(description.trim()));
        out.push_str("\n\n");
    }
    let visible: Vec<BufId> = (0..plan.buffers.len()).filter(|b| !plan.buffers[*b].name.starts_with('#')).collect();
    let before: Vec<BufId> = visible.iter().copied().filter(|b| plan.buffers[*b].input.is_some()).collect();
    let page = Page { plan, forecast, seen, collector };
    out.push_str("before\n");
    page.part(&mut out, &before, true);
    out.push_str("after\n");
    page.part(&mut out, &written(plan), false);
    out
}

struct Page<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    seen: &'a Observation,
    collector: &'a FindingCollector,
}

impl Page<'_> {
    fn part(&self, out: &mut String, buffers: &[BufId], before: bool) {
        let names: Vec<String> = buffers.iter().map(|b| self.name(*b)).collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for rank in 0..self.plan.n {
            for (buf, name) in buffers.iter().zip(&names) {
                if let Some(region) = whole(self.plan, *buf, rank) {
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
        let image = self.seen.images.get(alloc)?.get(part)?;
        let memory = self.forecast.last.get(alloc)?;
        let begin = self.forecast.begin(alloc);
        let mut words = Vec::new();
        let mut blank = region.len > 0;
        for i in 0..region.len.min(ROW) {
            let at = range.start + i * size..range.start + (i + 1) * size;
            let element = i as usize;
            let word = if before {
                match begin.over(at).map(|(_, run)| run.sure).max() {
                    Some(Certainty::Known) => text(dtype, get(dtype, initial, element)),
                    _ => ".".into(),
                }
            } else if self.collector.is_wrong(alloc, &at) {
                text(dtype, get(dtype, image, element))
            } else {
                let right = get(dtype, &memory.data[range.start as usize..range.end as usize], element);
                match memory.over(at).map(|(_, run)| run.sure).max() {
                    Some(Certainty::Known) => text(dtype, right),
                    Some(Certainty::Soft) if is_nan(dtype, right) => text(dtype, right),
                    Some(Certainty::Soft) => format!("~{}", text(dtype, right)),
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
        let more = if region.len > ROW { format!(" and {} more", region.len - ROW) } else { String::new() };
        Some(format!("[{}]{more}", words.join(", ")))
    }
}
