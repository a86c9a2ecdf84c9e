//! `expect`: the values that buffers must hold at the end.
use super::consequences::is_certain;
use super::findings::{FindingCollector, Priority};
use super::images::image_bytes;
use super::indices::Indices;
use super::message::{self, WrongElements};
use super::{Finding, Lane, Subject, pattern, tolerance};
use crate::job::Observation;
use crate::num::{DType, decode_f64, get_element, is_nan};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::{Certainty, Memory};
use crate::oracle::undefined::{is_in, number_of, undefined_elements};
use crate::plan::expect::extent;
use crate::plan::expr_fill::Fraction;
use crate::plan::inputs::{bytes, content_count};
use crate::plan::{BufId, Plan, Region};
use crate::scenario::{BufferContent, Diagnostic, Element, ElementValue, Expectation, FillValues, RowKind, Span};
use std::borrow::Cow;
use std::cell::{Cell, OnceCell};

/// Compares every expectation with the final images; `last` gives the undefined contents.
pub(crate) fn check(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    observation: &Observation,
    collector: &mut FindingCollector,
) {
    for expectation in &plan.case.expect {
        let Some(buf) = plan.buffers.iter().position(|b| b.name == expectation.target.name) else {
            let text = format!("`{}` is expected, but no step makes it", expectation.target.name);
            collector.add(
                EXPECT_PRIORITY,
                with_span(
                    expectation.target.span,
                    message::about(Subject::Expect, text, "a buffer".into(), "none".into()),
                ),
            );
            continue;
        };
        let tolerance = OnceCell::new();
        let compared = Cell::new(Compared::default());
        for rank in 0..plan.n {
            let (tolerance, compared) = (&tolerance, &compared);
            let checker =
                ExpectationCheck { plan, forecast, last, observation, expectation, buf, rank, tolerance, compared };
            if let Err(diagnostic) = checker.check(collector) {
                let finding = message::about(Subject::Expect, diagnostic.message, "a value".into(), "none".into());
                collector.add(EXPECT_PRIORITY, with_span(diagnostic.span, finding));
            }
        }
        let Compared { something, undefined } = compared.get();
        // A single case like this is refused before it runs, unless only the data decide which elements are undefined.
        if undefined && !something && !plan.case.swept {
            let name = &expectation.target.name;
            let text = format!("`{name}` was not compared: all of it is undefined");
            let finding = message::about(Subject::Expect, text, "values".into(), "undefined".into());
            collector.add(EXPECT_PRIORITY, with_span(expectation.target.span, finding));
        }
    }
}

/// Records if an expectation has compared anything on some rank, and if it met undefined elements.
#[derive(Clone, Copy, Default)]
struct Compared {
    something: bool,
    undefined: bool,
}

const EXPECT_PRIORITY: Priority = Priority::Expectation(0);

fn with_span(span: Span, finding: Finding) -> Finding {
    Finding { span: Some(span), ..finding }
}

const EXPECTATION_IS_WRONG: &str = "the library's result is what the oracle expects; the expectation is probably wrong";

const NOT_WRITTEN: &str = "not written";
const WRITE_UNTOUCHED: &str = "no step writes this on this rank; if that is right, expect `\"untouched\"` on it";

/// An expectation for a buffer on one rank.
struct ExpectationCheck<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    last: &'a [Memory],
    observation: &'a Observation,
    expectation: &'a Expectation,
    buf: BufId,
    rank: usize,
    /// The advice for a result that rounds, which is the same on all ranks; computed when first needed.
    tolerance: &'a OnceCell<String>,
    /// Outcome of the comparisons on this rank and earlier ones.
    compared: &'a Cell<Compared>,
}

/// The expectation for one rank.
enum ExpectedRow<'a> {
    Any,
    Untouched,
    /// Values, with the elements that the file writes out.
    Values(&'a [Element]),
}

impl ExpectationCheck<'_> {
    fn check(&self, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        let (span, row) = self.row();
        let region = self.region()?;
        match (row, region) {
            (ExpectedRow::Any, _) | (ExpectedRow::Untouched, None) => {
                collector.count_checked(Lane::Expected, 0);
                Ok(())
            }
            (ExpectedRow::Untouched, Some(region)) => self.untouched(region, span, collector),
            (ExpectedRow::Values(_), None) => self.absent(span, collector),
            (ExpectedRow::Values(written), Some(region)) => self.values(region, span, written, collector),
        }
    }

    fn row(&self) -> (Span, ExpectedRow<'_>) {
        let fill = match &self.expectation.content {
            BufferContent::All(fill) => fill,
            BufferContent::Rows(rows) => match rows.get(self.rank).map(|r| (r.span, &r.kind)) {
                None => return (self.expectation.target.span, ExpectedRow::Any),
                Some((span, RowKind::Any)) => return (span, ExpectedRow::Any),
                Some((span, RowKind::Untouched)) => return (span, ExpectedRow::Untouched),
                Some((span, RowKind::Elements(list))) => return (span, ExpectedRow::Values(list)),
                Some((_, RowKind::Table(fill))) => fill,
            },
        };
        let row = match &fill.values {
            FillValues::Any | FillValues::Poison => ExpectedRow::Any,
            FillValues::Untouched => ExpectedRow::Untouched,
            FillValues::Row(list) => ExpectedRow::Values(list),
            FillValues::Number(element) => ExpectedRow::Values(std::slice::from_ref(element)),
            _ => ExpectedRow::Values(&[]),
        };
        (fill.span, row)
    }

    /// The expected part of the buffer, if the rank has the buffer.
    fn region(&self) -> Result<Option<Region>, Diagnostic> {
        let part = extent(self.plan, self.expectation, &self.plan.buffers[self.buf], self.rank)?;
        Ok(part.map(|(start, end)| Region { buf: self.buf, rank: self.rank, start, len: end - start }))
    }

    /// The region's final and initial bytes.
    fn images(&self, region: Region) -> Option<[Cow<'_, [u8]>; 2]> {
        let (alloc, range) = region_bytes(self.plan, region)?;
        let start = self.plan.allocs[alloc].start();
        let part = (start + range.start) as usize..(start + range.end) as usize;
        let actual = image_bytes(self.forecast, self.observation, alloc, part.clone())?;
        Some([actual, self.forecast.initial.get(alloc)?.get(part)?])
    }

    fn untouched(&self, region: Region, span: Span, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        let Some([actual, initial]) = self.images(region) else { return Ok(()) };
        let (actual, initial) = (&*actual, &*initial);
        let dtype = self.plan.buffers[self.buf].dtype;
        collector.count_checked(Lane::Expected, region.len);
        let wrong: Indices = (0..region.len)
            .filter(|i| get_element(dtype, actual, *i as usize) != get_element(dtype, initial, *i as usize))
            .collect();
        let Some(first) = wrong.first() else { return Ok(()) };
        let is = message::value_text(dtype, get_element(dtype, actual, first as usize));
        let mut finding = self.finding(region, span, &wrong, ("untouched".into(), is));
        finding.follows = self.right_bytes(region).is_some_and(|right| *right == *initial);
        finding.advice = self.advice(region, &wrong, actual);
        collector.add(EXPECT_PRIORITY, finding);
        Ok(())
    }

    fn absent(&self, span: Span, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        // A table for all ranks applies to those that have the buffer.
        if matches!(self.expectation.content, BufferContent::All(_)) {
            return Ok(());
        }
        if content_count(&self.plan.case, &self.expectation.content, self.rank)? == Some(0) {
            return Ok(());
        }
        let name = &self.expectation.target.name;
        let text = format!("rank {}: values are expected, but there is no `{name}` here", self.rank);
        let mut finding = with_span(span, message::about(Subject::Expect, text, "values".into(), "no buffer".into()));
        finding.rank = Some(self.rank);
        collector.add(EXPECT_PRIORITY, finding);
        Ok(())
    }

    fn values(
        &self,
        region: Region,
        span: Span,
        written: &[Element],
        collector: &mut FindingCollector,
    ) -> Result<(), Diagnostic> {
        let dtype = self.plan.buffers[self.buf].dtype;
        let Some([actual, initial]) = self.images(region) else { return Ok(()) };
        let (actual, initial) = (&*actual, &*initial);
        let content = &self.expectation.content;
        let expected_count = content_count(&self.plan.case, content, self.rank)?.unwrap_or(region.len);
        let expected = if expected_count == region.len {
            bytes(&self.plan.case, dtype, content, self.rank, region.len, Fraction::Refused)?
        } else {
            let have = region.len;
            let text = format!(
                "rank {}: `{}` has {have} elements, but {expected_count} are expected",
                self.rank, self.expectation.target.name
            );
            let (want, have) = (format!("{expected_count} elements"), format!("{have} elements"));
            let finding = message::about(Subject::Expect, text, want, have);
            collector.add(EXPECT_PRIORITY, Finding { rank: Some(self.rank), ..with_span(span, finding) });
            None
        };
        let Some(expected) = expected else { return Ok(()) };
        let undefined = undefined_elements(self.plan, self.last, region);
        let left_out = number_of(&undefined);
        let so_far = self.compared.get();
        self.compared.set(Compared {
            something: so_far.something || left_out < region.len,
            undefined: so_far.undefined || left_out > 0,
        });
        if left_out > 0 {
            let (name, rank) = (&self.expectation.target.name, self.rank);
            let of = region.len;
            collector.note(if left_out < of {
                format!("{left_out} of {of} elements of `{name}` on rank {rank} are undefined and were not compared")
            } else {
                format!("`{name}` on rank {rank} is undefined and was not compared")
            });
        }
        let is_defined = |i: usize| !is_in(&undefined, i as u64);
        collector.count_checked(Lane::Expected, region.len - left_out);
        let by_bits = |i: usize| {
            let element = if written.len() == 1 { written.first() } else { written.get(i) };
            element.is_some_and(|e| matches!(e.value, ElementValue::Bits(_)))
        };
        let differs = |actual: &[u8], i: usize| {
            !values_equal(dtype, get_element(dtype, &expected, i), get_element(dtype, actual, i), by_bits(i))
        };
        let wrong = (0..region.len as usize).filter(|i| is_defined(*i) && differs(actual, *i));
        let wrong: Indices = wrong.map(|i| i as u64).collect();
        let Some(first) = wrong.first().map(|first| first as usize) else { return Ok(()) };
        let span = if written.len() == 1 { span } else { written.get(first).map_or(span, |e| e.span) };
        let bits = |bytes: &[u8]| get_element(dtype, bytes, first);
        let mut values = message::value_texts(dtype, bits(&expected), bits(actual));
        if self.is_unwritten(region, [first as u64], actual, initial) {
            values.1 = NOT_WRITTEN.into();
        }
        let mut finding = self.finding(region, span, &wrong, values);
        if !collector.pass_or_fail_only {
            let right = self.right_bytes(region);
            finding.follows = right.is_some_and(|right| (0..region.len as usize).all(|i| !differs(&right, i)));
            let unwritten = self.is_unwritten(region, wrong.iter(), actual, initial);
            finding.advice = if unwritten { Some(WRITE_UNTOUCHED.into()) } else { self.advice(region, &wrong, actual) };
        }
        collector.add(EXPECT_PRIORITY, finding);
        Ok(())
    }

    /// The region's right bytes, if the oracle knows all of them.
    fn right_bytes(&self, region: Region) -> Option<Cow<'_, [u8]>> {
        let (alloc, range) = region_bytes(self.plan, region).filter(|_| is_certain(self.plan, self.last, region))?;
        self.last.get(alloc)?.data.get(range.start as usize..range.end as usize)
    }

    /// True if no step writes these elements and they still have their initial values.
    fn is_unwritten(
        &self,
        region: Region,
        elements: impl IntoIterator<Item = u64>,
        actual: &[u8],
        initial: &[u8],
    ) -> bool {
        let size = self.plan.buffers[self.buf].dtype.size() as u64;
        let Some((alloc, range)) = region_bytes(self.plan, region) else { return false };
        let Some(memory) = self.last.get(alloc) else { return false };
        elements.into_iter().all(|i| {
            let (start, end) = (i * size, (i + 1) * size);
            let kept = actual.get(start as usize..end as usize) == initial.get(start as usize..end as usize);
            let mut runs = memory.runs_in(range.start + start..range.start + end);
            kept && runs.all(|(_, run)| run.certainty == Certainty::Unwritten)
        })
    }

    /// Names the probable culprit if the region's actual elements are what the oracle expects but not what the file expects.
    fn advice(&self, region: Region, wrong: &Indices, actual: &[u8]) -> Option<String> {
        let size = self.plan.buffers[self.buf].dtype.size() as u64;
        let (alloc, range) = region_bytes(self.plan, region)?;
        let memory = self.last.get(alloc)?;
        let (mut rounds, mut exact) = (false, false);
        for i in wrong.iter() {
            let at = range.start + i * size..range.start + (i + 1) * size;
            let right = memory.data.get(at.start as usize..at.end as usize)?;
            if actual.get((i * size) as usize..((i + 1) * size) as usize) != Some(&*right) {
                return None;
            }
            let certainty = memory.runs_in(at).map(|(_, run)| run.certainty).max()?;
            match certainty {
                Certainty::Known => exact = true,
                Certainty::Ambiguous => rounds = true,
                _ => return None,
            }
        }
        // A single element that rounding does not explain is enough: a tolerance would hide it.
        if exact || !rounds {
            return Some(EXPECTATION_IS_WRONG.into());
        }
        let Self { plan, forecast, observation, expectation, buf, .. } = *self;
        Some(self.tolerance.get_or_init(|| tolerance::advice(plan, forecast, observation, expectation, buf)).clone())
    }

    fn finding(&self, region: Region, span: Span, wrong: &Indices, (expected, actual): (String, String)) -> Finding {
        let finding = WrongElements {
            lane: Lane::Expected,
            rank: self.rank,
            buffer: message::buffer_label(&self.plan.buffers[self.buf]),
            element: region.start + wrong.first().unwrap_or(0),
            expected,
            actual,
            wrong,
            of: region.len,
            pattern: pattern::positions_pattern(wrong, region.len),
        };
        Finding { subject: Subject::Expect, ..message::wrong_elements(self.plan, finding, None, Some(span)) }
    }
}

/// Equality as defined for `expect`: by bits, or as numbers where nan is nan and 0 is -0.0.
fn values_equal(dtype: DType, expected: u64, actual: u64, by_bits: bool) -> bool {
    if expected == actual {
        return true;
    }
    if by_bits || !dtype.is_float() {
        return false;
    }
    let zero = |bits| decode_f64(dtype, bits) == 0.0;
    is_nan(dtype, expected) && is_nan(dtype, actual) || zero(expected) && zero(actual)
}
