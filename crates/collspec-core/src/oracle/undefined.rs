//! Elements whose contents are undefined, because an operation that wrote them was cut short. Where a file of one case compares
//! nothing but such elements, the comparison would always pass, so the file is refused.
use super::interpreter::region_bytes;
use super::memory::{Certainty, Memory};
use crate::expr::{ExprNode, Func};
use crate::plan::expect::extent;
use crate::plan::{BufId, Plan, Region};
use crate::scenario::{BufferContent, Diagnostic, Expectation, Expr, FillValues, RowKind, Span, Spanned};
use std::ops::Range;

/// The undefined elements of a region, counted from its start, in rising order.
pub(crate) fn undefined_elements(plan: &Plan, last: &[Memory], region: Region) -> Vec<Range<u64>> {
    let Some((alloc, range)) = region_bytes(plan, region) else { return Vec::new() };
    let (Some(memory), Some(buffer)) = (last.get(alloc), plan.buffers.get(region.buf)) else { return Vec::new() };
    let size = buffer.dtype.size() as u64;
    let mut found: Vec<Range<u64>> = Vec::new();
    for (part, _) in memory.runs_in(range.clone()).filter(|(_, run)| run.certainty == Certainty::Undefined) {
        let (start, end) = ((part.start - range.start) / size, (part.end - range.start).div_ceil(size));
        match found.last_mut() {
            Some(before) if before.end >= start => before.end = end,
            _ => found.push(start..end),
        }
    }
    found
}

/// Number of elements in ranges that [`undefined_elements`] gave.
pub(crate) fn number_of(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// True if one of these ranges has the element; they do not overlap and are in rising order.
pub(crate) fn is_in<T: PartialOrd + Copy>(ranges: &[Range<T>], element: T) -> bool {
    let behind = ranges.partition_point(|range| range.end <= element);
    ranges.get(behind).is_some_and(|range| range.start <= element)
}

/// Reports expectations and asserts of a single case that compare only undefined elements. In a sweep some cases may have nothing
/// to compare.
pub(super) fn compared_in_vain(plan: &Plan, last: &[Memory]) -> Vec<Diagnostic> {
    let undefined = |memory: &Memory| memory.runs().iter().any(|run| run.certainty == Certainty::Undefined);
    if plan.case.swept || !last.iter().any(undefined) {
        return Vec::new();
    }
    let contents = FinalContents { plan, last };
    let expected = plan.case.expect.iter().filter_map(|e| contents.expected_in_vain(e));
    let asserted = plan.case.asserts.iter().filter_map(|a| contents.asserted_in_vain(a));
    expected.chain(asserted).collect()
}

/// The extent to which elements on a rank are defined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Defined {
    /// There are no elements.
    Empty,
    /// No element is defined.
    Nothing,
    /// Some elements are defined.
    Something,
}

/// The contents of buffers at the end.
struct FinalContents<'a> {
    plan: &'a Plan,
    last: &'a [Memory],
}

impl FinalContents<'_> {
    fn expected_in_vain(&self, e: &Expectation) -> Option<Diagnostic> {
        let buf = self.plan.buffers.iter().position(|b| b.name == e.target.name)?;
        let mut found = Defined::Empty;
        for rank in 0..self.plan.n {
            let (span, by_row) = match compared_row(e, rank) {
                Compared::Nothing => continue,
                Compared::Touch => return None,
                Compared::Values { span, by_row } => (span, by_row),
            };
            let Ok(Some((start, end))) = extent(self.plan, e, self.plan.buffers.get(buf)?, rank) else { continue };
            match self.defined(Region { buf, rank, start, len: end - start }) {
                Defined::Empty => {}
                Defined::Something => found = Defined::Something,
                Defined::Nothing if by_row => {
                    let text = format!(
                        "all of `{}` is undefined on rank {rank} at the end, so these values would not be compared",
                        e.target.name
                    );
                    return Some(Diagnostic::new(span, text).help("write \"any\" for this rank"));
                }
                Defined::Nothing if found == Defined::Empty => found = Defined::Nothing,
                Defined::Nothing => {}
            }
        }
        (found == Defined::Nothing).then(|| {
            let text = format!("all of `{}` is undefined at the end, so nothing would be compared", e.target.name);
            Diagnostic::new(e.target.span, text).help(HELP)
        })
    }

    fn asserted_in_vain(&self, a: &Spanned<Expr>) -> Option<Diagnostic> {
        let reads = Reads::of(self.plan, &a.value.node)?;
        let has = |rank: usize, buf: &BufId| {
            self.plan.buffers.get(*buf).is_some_and(|b| b.places.get(rank).is_some_and(Option::is_some))
        };
        let ranks = (0..self.plan.n).filter(|rank| reads.all().all(|buf| has(*rank, buf)));
        let mut found = Defined::Empty;
        for rank in ranks {
            match self.read_on(&reads, rank) {
                Defined::Something => return None,
                Defined::Nothing => found = Defined::Nothing,
                Defined::Empty => {}
            }
        }
        (found == Defined::Nothing).then(|| {
            let text = format!("`{}` reads only undefined elements, so nothing would be checked", a.value.text);
            Diagnostic::new(a.span, text).help(HELP)
        })
    }

    /// The extent to which the elements that an `assert` reads on a rank are defined.
    fn read_on(&self, reads: &Reads, rank: usize) -> Defined {
        let whole = |buf: &BufId| {
            let place = self.plan.buffers.get(*buf)?.places.get(rank).copied().flatten()?;
            Some(Region { buf: *buf, rank, start: 0, len: place.count })
        };
        let undefined =
            |buf: &BufId| whole(buf).map(|region| undefined_elements(self.plan, self.last, region)).unwrap_or_default();
        let element = |(buf, index): &(BufId, Option<u64>)| match index {
            Some(index) => is_in(&undefined(buf), *index),
            None => whole(buf).is_some_and(|region| self.defined(region) == Defined::Nothing),
        };
        if reads.indexed.iter().any(element) || reads.compared.iter().any(|buf| !undefined(buf).is_empty()) {
            return Defined::Nothing;
        }
        let Some(first) = reads.each.first() else { return Defined::Something };
        let count = whole(first).map_or(0, |region| region.len);
        if count == 0 {
            return Defined::Empty;
        }
        let mut ranges: Vec<Range<u64>> = reads.each.iter().flat_map(undefined).collect();
        ranges.sort_by_key(|range| range.start);
        let covered = ranges.iter().fold(0, |end, range| if range.start > end { end } else { end.max(range.end) });
        if covered >= count { Defined::Nothing } else { Defined::Something }
    }

    fn defined(&self, region: Region) -> Defined {
        if region.len == 0 {
            return Defined::Empty;
        }
        let undefined = number_of(&undefined_elements(self.plan, self.last, region));
        if undefined >= region.len { Defined::Nothing } else { Defined::Something }
    }
}

const HELP: &str = "compare what is written by an operation that is over, or leave this out";

/// The comparison that an expectation makes on a rank.
enum Compared {
    Nothing,
    /// Only the fact that elements were or were not written.
    Touch,
    /// Values, which the rank's own row says or a table for all ranks.
    Values {
        span: Span,
        by_row: bool,
    },
}

fn compared_row(e: &Expectation, rank: usize) -> Compared {
    let (fill, by_row) = match &e.content {
        BufferContent::All(fill) => (fill, false),
        BufferContent::Rows(rows) => match rows.get(rank).map(|row| (row.span, &row.kind)) {
            None | Some((_, RowKind::Any)) => return Compared::Nothing,
            Some((_, RowKind::Untouched)) => return Compared::Touch,
            Some((span, RowKind::Elements(_))) => return Compared::Values { span, by_row: true },
            Some((_, RowKind::Table(fill))) => (fill, true),
        },
    };
    match fill.values {
        FillValues::Any | FillValues::Poison => Compared::Nothing,
        FillValues::Untouched => Compared::Touch,
        _ => Compared::Values { span: fill.span, by_row },
    }
}

/// The buffers and elements that an expression reads.
#[derive(Default)]
struct Reads {
    /// Buffers whose every element is read.
    each: Vec<BufId>,
    /// Buffers of which one element is read, with its index if the expression gives it as a number.
    indexed: Vec<(BufId, Option<u64>)>,
    /// Buffers that `same` compares.
    compared: Vec<BufId>,
}

impl Reads {
    /// `None` if the values of other parts decide which parts are read.
    fn of(plan: &Plan, node: &ExprNode) -> Option<Self> {
        let mut reads = Self::default();
        reads.collect(plan, node)?;
        Some(reads)
    }

    fn all(&self) -> impl Iterator<Item = &BufId> {
        self.each.iter().chain(self.indexed.iter().map(|(buf, _)| buf)).chain(&self.compared)
    }

    fn collect(&mut self, plan: &Plan, node: &ExprNode) -> Option<()> {
        let find = |name: &String| plan.buffers.iter().position(|b| b.name == *name);
        match node {
            ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Field(..) => {}
            ExprNode::Name(name) => self.each.extend(find(name)),
            ExprNode::Index(name, index) => {
                let written = match **index {
                    ExprNode::Int(index) => u64::try_from(index).ok(),
                    _ => None,
                };
                self.indexed.extend(find(name).map(|buf| (buf, written)));
                self.collect(plan, index)?;
            }
            ExprNode::Neg(inner) => self.collect(plan, inner)?,
            ExprNode::Binary(_, a, b) => {
                self.collect(plan, a)?;
                self.collect(plan, b)?;
            }
            ExprNode::Call(Func::If, _) => return None,
            ExprNode::Call(Func::Same, args) => {
                let names = args.iter().filter_map(|arg| match arg {
                    ExprNode::Name(name) => find(name),
                    _ => None,
                });
                self.compared.extend(names);
            }
            ExprNode::Call(_, args) => args.iter().try_for_each(|arg| self.collect(plan, arg))?,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_is_in_the_range_that_contains_it() {
        let ranges = [2u64..4, 4..5, 9..12];
        for element in 0..14 {
            assert_eq!(is_in(&ranges, element), ranges.iter().any(|range| range.contains(&element)), "{element}");
        }
        assert!(!is_in(&[], 0u64));
    }
}
