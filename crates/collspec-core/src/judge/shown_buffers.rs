//! Reads the contents of every rank's buffers before and after a run.
use super::buffer_contents::{BufferContents, BufferRow, BufferRows, RowElements, ShownElement};
use super::findings::FindingCollector;
use super::images::image_bytes;
use super::outputs::{whole_buffer, written_buffers};
use crate::job::Observation;
use crate::num::{DType, element_text, get_element};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory};
use crate::plan::{BufId, Plan, Region};

/// Number of rows shown of each of the two parts.
const MAX_ROWS: usize = 256;
/// Number of elements up to which a row is shown completely.
const MAX_ROW_ELEMENTS: u64 = 24;
/// Number of elements at the beginning and at the end of a longer row.
const ROW_BEGINNING: u64 = 12;
const ROW_END: u64 = 4;
/// Number of elements shown from the first wrong one on.
const WRONG_PART: u64 = 6;

/// A case whose buffers are shown.
pub(crate) struct ShownBuffers<'a> {
    pub plan: &'a Plan,
    pub forecast: &'a Forecast,
    /// The run that is shown, if there was one.
    pub run: Option<&'a Observation>,
    /// The memory that is expected at its end; `None` if the data was not judged.
    pub memory: Option<&'a [Memory]>,
    pub collector: &'a FindingCollector,
}

/// The elements of a row, each computed only when it is needed.
struct Row<W, T> {
    /// The first wrong element.
    first_wrong: Option<u64>,
    /// True if the element is wrong.
    wrong: W,
    text: T,
}

impl ShownBuffers<'_> {
    pub fn contents(&self) -> BufferContents {
        let plan = self.plan;
        let visible = |buf: &BufId| !plan.buffers[*buf].name.starts_with('#');
        let before: Vec<BufId> =
            (0..plan.buffers.len()).filter(visible).filter(|buf| plan.buffers[*buf].input.is_some()).collect();
        let before = self.rows(&before, |region| Some(shown_elements(region.len, self.row_before(region)?)));
        let at_the_end =
            self.run.is_some_and(|run| !run.images.iter().all(Vec::is_empty) || run.as_expected.contains(&true));
        let after = at_the_end.then(|| {
            self.rows(&written_buffers(plan), |region| Some(shown_elements(region.len, self.row_after(region)?)))
        });
        BufferContents { before, after }
    }

    /// A row for every rank and buffer.
    fn rows(&self, buffers: &[BufId], elements: impl Fn(Region) -> Option<RowElements>) -> BufferRows {
        let plan = self.plan;
        let name_of = |buf: BufId| match &plan.buffers[buf] {
            buffer if buffer.dtype == DType::F32 => buffer.name.clone(),
            buffer => format!("{} ({})", buffer.name, buffer.dtype.name()),
        };
        let regions = (0..plan.n).flat_map(|rank| buffers.iter().map(move |buf| (rank, *buf)));
        let mut regions = regions.filter_map(|(rank, buf)| Some((rank, buf, whole_buffer(plan, buf, rank)?)));
        let row = |(rank, buf, region)| {
            let elements = elements(region).unwrap_or(RowElements::NotKnown);
            BufferRow { rank, name: name_of(buf), elements }
        };
        let rows = regions.by_ref().take(MAX_ROWS).map(row).collect();
        BufferRows { rows, more: regions.count() }
    }

    fn row_before(&self, region: Region) -> Option<Row<impl Fn(u64) -> bool, impl Fn(u64) -> String>> {
        let part = Part::of(self.plan, region)?;
        let initial = self.forecast.initial.get(part.alloc)?.get(part.image())?;
        let begin = self.forecast.initial_memory(part.alloc);
        let text = move |i: u64| {
            let known = begin.runs_in(part.bytes(i)).all(|(_, run)| run.certainty == Certainty::Known);
            if known { element_text(part.dtype, get_element(part.dtype, &initial, i as usize)) } else { ".".into() }
        };
        Some(Row { first_wrong: None, wrong: |_| false, text })
    }

    fn row_after(&self, region: Region) -> Option<Row<impl Fn(u64) -> bool, impl Fn(u64) -> String>> {
        let part = Part::of(self.plan, region)?;
        let image = image_bytes(self.forecast, self.run?, part.alloc, part.image())?;
        let initial = self.forecast.initial.get(part.alloc)?.get(part.image())?;
        let memory = self.memory.and_then(|memory| memory.get(part.alloc));
        let is_wrong = move |i: u64| self.collector.has_wrong_bytes(part.alloc, &part.bytes(i));
        let text = move |i: u64| {
            let bytes = part.bytes(i);
            let certainty = memory.and_then(|memory| memory.runs_in(bytes).map(|(_, run)| run.certainty).max());
            let actual = get_element(part.dtype, &image, i as usize);
            let poison = actual == get_element(part.dtype, &initial, i as usize);
            match certainty {
                Some(Certainty::Undefined) => "?".into(),
                Some(Certainty::Unwritten) | None if poison && !is_wrong(i) => ".".into(),
                _ => element_text(part.dtype, actual),
            }
        };
        let all = part.start..part.start + part.len;
        let first_wrong = self.collector.first_wrong_byte(part.alloc, &all);
        let first_wrong = first_wrong.map(|byte| (byte - part.start) / part.dtype.size() as u64);
        Some(Row { first_wrong, wrong: is_wrong, text })
    }
}

/// A region's place in an allocation.
#[derive(Clone, Copy)]
struct Part {
    dtype: DType,
    alloc: usize,
    /// First byte in the allocation's payload.
    start: u64,
    /// Number of bytes in the region.
    len: u64,
    /// First byte in the allocation's image.
    in_image: usize,
}

impl Part {
    fn of(plan: &Plan, region: Region) -> Option<Self> {
        let (alloc, range) = region_bytes(plan, region)?;
        let from = plan.allocs.get(alloc)?.start();
        let (len, in_image) = (range.end - range.start, (from + range.start) as usize);
        Some(Self { dtype: plan.buffers.get(region.buf)?.dtype, alloc, start: range.start, len, in_image })
    }

    fn image(&self) -> std::ops::Range<usize> {
        self.in_image..self.in_image + self.len as usize
    }

    fn bytes(&self, i: u64) -> std::ops::Range<u64> {
        let size = self.dtype.size() as u64;
        self.start + i * size..self.start + (i + 1) * size
    }
}

/// The elements of a row that are shown: for a long row its beginning, its end, and the part that begins with the first wrong
/// element.
fn shown_elements(len: u64, row: Row<impl Fn(u64) -> bool, impl Fn(u64) -> String>) -> RowElements {
    let Row { first_wrong, wrong, text } = row;
    let is_shown = |i: u64| {
        len <= MAX_ROW_ELEMENTS
            || i < ROW_BEGINNING
            || i >= len - ROW_END
            || first_wrong.is_some_and(|first| (first..first + WRONG_PART).contains(&i))
    };
    let shown = (0..len).filter(|i| is_shown(*i));
    let elements: Vec<_> = shown.map(|index| ShownElement { index, text: text(index), wrong: wrong(index) }).collect();
    if len > 0 && elements.iter().all(|element| element.text == "." && !element.wrong) {
        return RowElements::Untouched;
    }
    RowElements::Shown { len, elements }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(len: u64, wrong: impl Fn(u64) -> bool, text: impl Fn(u64) -> String) -> String {
        shown_elements(len, Row { first_wrong: (0..len).find(|i| wrong(*i)), wrong, text }).to_string()
    }

    #[test]
    fn of_a_long_row_the_ends_and_what_is_wrong_are_shown() {
        let row = text(100, |i| i == 50 || i == 51, |i| i.to_string());
        let parts =
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..., [50] !50, !51, 52, 53, 54, 55, ..., [96] 96, 97, 98, 99";
        assert_eq!(row, format!("[{parts}] 100 elements"));
    }

    #[test]
    fn an_empty_row_is_not_untouched() {
        assert_eq!(text(0, |_| false, |_| ".".into()), "[]");
        assert_eq!(text(2, |_| false, |_| ".".into()), "untouched");
        assert_eq!(text(2, |i| i == 1, |_| ".".into()), "[., !.]");
    }
}
