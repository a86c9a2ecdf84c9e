//! `expect`: what the file says that buffers hold at the end.
use super::Lane;
use super::findings::{FindingCollector, Priority};
use super::message::{self, Wrong};
use super::pattern;
use crate::job::Observation;
use crate::num::{DType, decode_f64, get, is_nan};
use crate::oracle::Forecast;
use crate::oracle::contents::{Certainty, Memory};
use crate::oracle::walk::region_bytes;
use crate::plan::each::Fraction;
use crate::plan::expect::extent;
use crate::plan::inputs::{bytes, content_count};
use crate::plan::{BufId, Plan, Region};
use crate::scenario::{Content, Diagnostic, Element, ElementValue, Expectation, RowKind, Span, Values};

/// Compares all of them with the final images; `last` says what is undefined.
pub(crate) fn check(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    seen: &Observation,
    collector: &mut FindingCollector,
) {
    for expectation in &plan.case.expect {
        let Some(buf) = plan.buffers.iter().position(|b| b.name == expectation.target.name) else {
            let text = format!("`{}` is expected, but no step makes it", expectation.target.name);
            collector.find(
                LAST,
                at(expectation.target.span, message::plain(Lane::Expected, text, "a buffer".into(), "none".into())),
            );
            continue;
        };
        let eyes = collector.eyes;
        for rank in (0..plan.n).filter(|rank| eyes.rank(*rank)) {
            let checker = Checker { plan, forecast, last, seen, expectation, buf, rank };
            if let Err(diagnostic) = checker.check(collector) {
                let finding = message::plain(Lane::Expected, diagnostic.message, "a value".into(), "none".into());
                collector.find(LAST, at(diagnostic.span, finding));
            }
        }
    }
}

const LAST: Priority = Priority { kind: 3, event: 0 };

fn at(span: Span, finding: super::Finding) -> super::Finding {
    super::Finding { span: Some(span), ..finding }
}

struct Checker<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    last: &'a [Memory],
    seen: &'a Observation,
    expectation: &'a Expectation,
    buf: BufId,
    rank: usize,
}

/// What a row asks for.
enum Row<'a> {
    Any,
    Untouched,
    /// Values, and the written elements among them.
    Values(&'a [Element]),
}

impl Checker<'_> {
    fn check(&self, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        let (span, row) = self.row();
        let region = self.region()?;
        match (row, region) {
            (Row::Any, _) | (Row::Untouched, None) => {
                collector.looked(Lane::Expected, 0);
                Ok(())
            }
            (Row::Untouched, Some(region)) => self.untouched(region, span, collector),
            (Row::Values(_), None) => self.absent(span, collector),
            (Row::Values(written), Some(region)) => self.values(region, span, written, collector),
        }
    }

    fn row(&self) -> (Span, Row<'_>) {
        let fill = match &self.expectation.content {
            Content::All(fill) => fill,
            Content::Rows(rows) => match rows.get(self.rank).map(|r| (r.span, &r.kind)) {
                None => return (self.expectation.target.span, Row::Any),
                Some((span, RowKind::Any)) => return (span, Row::Any),
                Some((span, RowKind::Untouched)) => return (span, Row::Untouched),
                Some((span, RowKind::Elements(list))) => return (span, Row::Values(list)),
                Some((_, RowKind::Table(fill))) => fill,
            },
        };
        let row = match &fill.values {
            Values::Any | Values::Poison => Row::Any,
            Values::Untouched => Row::Untouched,
            Values::Row(list) => Row::Values(list),
            Values::Number(element) => Row::Values(std::slice::from_ref(element)),
            _ => Row::Values(&[]),
        };
        (fill.span, row)
    }

    /// The part of the buffer that is meant, if the rank has the buffer.
    fn region(&self) -> Result<Option<Region>, Diagnostic> {
        let part = extent(self.plan, self.expectation, &self.plan.buffers[self.buf], self.rank)?;
        Ok(part.map(|(start, end)| Region { buf: self.buf, rank: self.rank, start, len: end - start }))
    }

    /// What is there, and what was there before.
    fn images(&self, region: Region) -> Option<(&[u8], &[u8])> {
        let (alloc, range) = region_bytes(self.plan, region)?;
        let start = self.plan.allocs[alloc].start();
        let part = (start + range.start) as usize..(start + range.end) as usize;
        Some((self.seen.images.get(alloc)?.get(part.clone())?, self.forecast.initial.get(alloc)?.get(part)?))
    }

    fn untouched(&self, region: Region, span: Span, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        let Some((actual, initial)) = self.images(region) else { return Ok(()) };
        let dtype = self.plan.buffers[self.buf].dtype;
        collector.looked(Lane::Expected, region.len);
        let wrong: Vec<u64> =
            (0..region.len).filter(|i| get(dtype, actual, *i as usize) != get(dtype, initial, *i as usize)).collect();
        let wrong = collector.eyes.noticed(dtype, region.start, wrong, initial, actual);
        let Some(first) = wrong.first().copied() else { return Ok(()) };
        self.report(region, span, &wrong, "untouched".into(), get(dtype, actual, first as usize), collector);
        Ok(())
    }

    fn absent(&self, span: Span, collector: &mut FindingCollector) -> Result<(), Diagnostic> {
        // A table for all ranks speaks of those that have the buffer.
        if matches!(self.expectation.content, Content::All(_)) {
            return Ok(());
        }
        if content_count(&self.plan.case, &self.expectation.content, self.rank)? == Some(0) {
            return Ok(());
        }
        let text = format!("rank {} has no `{}`, but values are expected", self.rank, self.expectation.target.name);
        let mut finding = at(span, message::plain(Lane::Expected, text, "values".into(), "no buffer".into()));
        finding.rank = Some(self.rank);
        collector.find(LAST, finding);
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
        let Some((actual, _)) = self.images(region) else { return Ok(()) };
        let content = &self.expectation.content;
        let said = content_count(&self.plan.case, content, self.rank)?.unwrap_or(region.len);
        let expected = if said == region.len {
            bytes(&self.plan.case, dtype, content, self.rank, region.len, Fraction::Refused)?
        } else {
            let have = region.len;
            let text = format!(
                "rank {}: `{}` has {have} elements, but {said} are expected",
                self.rank, self.expectation.target.name
            );
            let finding = message::plain(Lane::Expected, text, format!("{said} elements"), format!("{have} elements"));
            collector.find(LAST, super::Finding { rank: Some(self.rank), ..at(span, finding) });
            None
        };
        let Some(expected) = expected else { return Ok(()) };
        if is_undefined(self.plan, self.last, region) {
            collector.note(format!(
                "`{}` on rank {} is undefined and was not compared",
                self.expectation.target.name, self.rank
            ));
            return Ok(());
        }
        collector.looked(Lane::Expected, region.len);
        let by_bits = |i: usize| {
            let element = if written.len() == 1 { written.first() } else { written.get(i) };
            element.is_some_and(|e| matches!(e.value, ElementValue::Bits(_)))
        };
        let wrong: Vec<u64> = (0..region.len as usize)
            .filter(|i| !alike(dtype, get(dtype, &expected, *i), get(dtype, actual, *i), by_bits(*i)))
            .map(|i| i as u64)
            .collect();
        let wrong = collector.eyes.noticed(dtype, region.start, wrong, &expected, actual);
        let Some(first) = wrong.first().map(|f| *f as usize) else { return Ok(()) };
        let span = if written.len() == 1 { span } else { written.get(first).map_or(span, |e| e.span) };
        let right = message::value(dtype, get(dtype, &expected, first));
        self.report(region, span, &wrong, right, get(dtype, actual, first), collector);
        Ok(())
    }

    fn report(
        &self,
        region: Region,
        span: Span,
        wrong: &[u64],
        expected: String,
        actual: u64,
        collector: &mut FindingCollector,
    ) {
        let buffer = &self.plan.buffers[self.buf];
        let finding = Wrong {
            lane: Lane::Expected,
            rank: self.rank,
            buffer: message::name(buffer),
            element: region.start + wrong.first().copied().unwrap_or(0),
            expected,
            actual: message::value(buffer.dtype, actual),
            wrong: wrong.len() as u64,
            of: region.len,
            pattern: pattern::places(wrong, region.len),
        };
        collector.find(LAST, message::wrong(self.plan, finding, None, Some(span)));
    }
}

/// True if nobody can say what part of it holds.
pub(crate) fn is_undefined(plan: &Plan, last: &[Memory], region: Region) -> bool {
    let found = region_bytes(plan, region).and_then(|(alloc, range)| Some((last.get(alloc)?, range)));
    found.is_some_and(|(memory, range)| memory.over(range).any(|(_, run)| run.sure == Certainty::Undefined))
}

/// Equal as `expect` means it: by bits, or as numbers where nan is nan and 0 is -0.0.
fn alike(dtype: DType, expected: u64, actual: u64, by_bits: bool) -> bool {
    if expected == actual {
        return true;
    }
    if by_bits || !dtype.is_float() {
        return false;
    }
    let zero = |bits| decode_f64(dtype, bits) == 0.0;
    is_nan(dtype, expected) && is_nan(dtype, actual) || zero(expected) && zero(actual)
}
