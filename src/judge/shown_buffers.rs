//! What every rank's buffers held before and after a run, as text for people.
use super::findings::FindingCollector;
use super::outputs::{whole_buffer, written_buffers};
use crate::job::Observation;
use crate::num::{DType, element_text, get_element};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory};
use crate::plan::{BufId, Plan, Region};
use std::fmt::Write;

/// Rows that are shown of each of the two parts.
const MAX_ROWS: usize = 256;
/// Elements up to which a row is shown whole.
const MAX_ROW_ELEMENTS: u64 = 24;
/// Elements at the beginning and at the end of a longer row.
const ROW_BEGINNING: u64 = 12;
const ROW_END: u64 = 4;
/// Elements that are shown from the first wrong one on.
const WRONG_PART: u64 = 6;

/// A case of which the buffers are shown.
pub(crate) struct ShownBuffers<'a> {
    pub plan: &'a Plan,
    pub forecast: &'a Forecast,
    /// The run that is shown, if there was one.
    pub run: Option<&'a Observation>,
    /// The memory that is expected at its end; `None` if the data was not judged.
    pub memory: Option<&'a [Memory]>,
    pub collector: &'a FindingCollector,
}

/// An element of a row as text, and true if it is wrong.
type Word = (String, bool);

impl ShownBuffers<'_> {
    pub fn text(&self) -> String {
        let plan = self.plan;
        let visible = |buf: &BufId| !plan.buffers[*buf].name.starts_with('#');
        let before: Vec<BufId> =
            (0..plan.buffers.len()).filter(visible).filter(|buf| plan.buffers[*buf].input.is_some()).collect();
        let mut out = String::from("before\n");
        self.push_rows(&mut out, &before, |region| self.word_before(region));
        if self.run.is_none_or(|run| run.images.iter().all(Vec::is_empty)) {
            out.push_str("after: not known, because the ranks did not come to the end\n");
            return out;
        }
        out.push_str("after\n");
        let wrong = self.push_rows(&mut out, &written_buffers(plan), |region| self.word_after(region));
        if wrong {
            out.push_str("  (! marks what is wrong)\n");
        }
        out
    }

    /// Writes a line for every rank and buffer; true if an element in them is wrong.
    fn push_rows<W: Fn(u64) -> Word>(
        &self,
        out: &mut String,
        buffers: &[BufId],
        words: impl Fn(Region) -> Option<W>,
    ) -> bool {
        let plan = self.plan;
        let names: Vec<String> = buffers
            .iter()
            .map(|buf| match &plan.buffers[*buf] {
                buffer if buffer.dtype == DType::F32 => buffer.name.clone(),
                buffer => format!("{} ({})", buffer.name, buffer.dtype.name()),
            })
            .collect();
        let width = names.iter().map(String::len).max().unwrap_or(0);
        let row_of = |rank, buf| whole_buffer(plan, buf, rank);
        let rows = (0..plan.n).flat_map(|rank| buffers.iter().zip(&names).map(move |(buf, name)| (rank, *buf, name)));
        let mut rows = rows.filter_map(|(rank, buf, name)| Some((rank, name, row_of(rank, buf)?)));
        let mut wrong = false;
        for (rank, name, region) in rows.by_ref().take(MAX_ROWS) {
            let row = words(region).map_or_else(|| "not known".into(), |word| row_text(region.len, word, &mut wrong));
            // Writing to a String cannot fail.
            let _ = writeln!(out, "  rank {rank}  {name:width$}  {row}");
        }
        let more = rows.count();
        if more > 0 {
            let _ = writeln!(out, "  and {more} more rows");
        }
        wrong
    }

    fn word_before(&self, region: Region) -> Option<impl Fn(u64) -> Word> {
        let part = Part::of(self.plan, region)?;
        let initial = self.forecast.initial.get(part.alloc)?.get(part.image.clone())?;
        let begin = self.forecast.initial_memory(part.alloc);
        Some(move |i: u64| {
            let known = begin.runs_in(part.bytes(i)).all(|(_, run)| run.certainty == Certainty::Known);
            let text = element_text(part.dtype, get_element(part.dtype, initial, i as usize));
            (if known { text } else { ".".into() }, false)
        })
    }

    fn word_after(&self, region: Region) -> Option<impl Fn(u64) -> Word> {
        let part = Part::of(self.plan, region)?;
        let image = self.run?.images.get(part.alloc)?.get(part.image.clone())?;
        let initial = self.forecast.initial.get(part.alloc)?.get(part.image.clone())?;
        let memory = self.memory.and_then(|memory| memory.get(part.alloc));
        Some(move |i: u64| {
            let bytes = part.bytes(i);
            let wrong = self.collector.has_wrong_bytes(part.alloc, &bytes);
            let certainty = memory.and_then(|memory| memory.runs_in(bytes).map(|(_, run)| run.certainty).max());
            let actual = get_element(part.dtype, image, i as usize);
            let poison = actual == get_element(part.dtype, initial, i as usize);
            let text = match certainty {
                Some(Certainty::Undefined) => "?".into(),
                Some(Certainty::Unwritten) | None if poison && !wrong => ".".into(),
                _ => element_text(part.dtype, actual),
            };
            (text, wrong)
        })
    }
}

/// A region's place in an allocation.
struct Part {
    dtype: DType,
    alloc: usize,
    /// First byte in the allocation's payload.
    start: u64,
    /// Bytes in the allocation's image.
    image: std::ops::Range<usize>,
}

impl Part {
    fn of(plan: &Plan, region: Region) -> Option<Self> {
        let (alloc, range) = region_bytes(plan, region)?;
        let from = plan.allocs.get(alloc)?.start();
        let image = (from + range.start) as usize..(from + range.end) as usize;
        Some(Self { dtype: plan.buffers.get(region.buf)?.dtype, alloc, start: range.start, image })
    }

    fn bytes(&self, i: u64) -> std::ops::Range<u64> {
        let size = self.dtype.size() as u64;
        self.start + i * size..self.start + (i + 1) * size
    }
}

/// A row in brackets. Of a long one its beginning, its end, and the part that begins with the first wrong element.
fn row_text(len: u64, word: impl Fn(u64) -> Word, any_wrong: &mut bool) -> String {
    let first_wrong = (0..len).find(|i| word(*i).1);
    *any_wrong |= first_wrong.is_some();
    let is_shown = |i: u64| {
        len <= MAX_ROW_ELEMENTS
            || i < ROW_BEGINNING
            || i >= len - ROW_END
            || first_wrong.is_some_and(|wrong| (wrong..wrong + WRONG_PART).contains(&i))
    };
    let last = (0..len).filter(|i| is_shown(*i));
    let (mut parts, mut next, mut blank) = (Vec::new(), 0, len > 0);
    for i in last {
        let (text, wrong) = word(i);
        blank &= text == "." && !wrong;
        let gap = i != next;
        if gap {
            parts.push("...".to_owned());
        }
        let mark = if wrong { "!" } else { "" };
        parts.push(if gap { format!("[{i}] {mark}{text}") } else { format!("{mark}{text}") });
        next = i + 1;
    }
    if blank {
        return "untouched".into();
    }
    let total = if len > MAX_ROW_ELEMENTS { format!(" {len} elements") } else { String::new() };
    format!("[{}]{total}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::row_text;

    #[test]
    fn of_a_long_row_the_ends_and_what_is_wrong_are_shown() {
        let mut wrong = false;
        let row = row_text(100, |i| (i.to_string(), i == 50 || i == 51), &mut wrong);
        let parts =
            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ..., [50] !50, !51, 52, 53, 54, 55, ..., [96] 96, 97, 98, 99";
        assert_eq!(row, format!("[{parts}] 100 elements"));
        assert!(wrong);
    }

    #[test]
    fn an_empty_row_is_not_untouched() {
        let mut wrong = false;
        assert_eq!(row_text(0, |_| (".".into(), false), &mut wrong), "[]");
        assert_eq!(row_text(2, |_| (".".into(), false), &mut wrong), "untouched");
        assert_eq!(row_text(2, |i| (".".into(), i == 1), &mut wrong), "[., !.]");
        assert!(wrong);
    }
}
