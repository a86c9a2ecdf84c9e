//! Explains the values of wrong elements: values from before, another rank's, or a sum without a rank. A cause is named only if
//! more than one value supports it and nothing else explains the values as well.
use super::super::findings::{FindingCollector, RankEvent};
use super::{Patterns, WrongWrite};
use crate::num::{DType, get_element};
use crate::ops::Rule;
use crate::oracle::interpreter::{Interpreter, region_bytes};
use crate::oracle::memory::{Certainty, MemoryRun};
use crate::oracle::reduced_buffer::{column, reduction_of};
use crate::oracle::{Budget, ColumnReduction, ReduceKind};
use crate::plan::{CollectiveEvent, Event};
use std::borrow::Cow;

/// A reduction's wrong elements, and the rank whose contribution explains them.
pub(crate) struct FoundReduction {
    event: usize,
    first: usize,
    /// Index and value of each sample.
    held: Vec<(u64, u64)>,
    found: Option<String>,
}

/// The values of the wrong elements.
struct Held<'a> {
    site: &'a WrongWrite<'a>,
    dtype: DType,
}

impl Held<'_> {
    /// The value of an element.
    fn value(&self, index: u64) -> u64 {
        get_element(self.dtype, self.site.actual, index as usize)
    }

    /// True if all wrong elements equal the values in these bytes, whose element `first` is the write's first.
    fn equal(&self, bytes: &[u8], first: usize) -> bool {
        let size = self.dtype.size();
        let has = |index: u64| (first + index as usize + 1) * size <= bytes.len();
        let same =
            |index: u64| has(index) && get_element(self.dtype, bytes, first + index as usize) == self.value(index);
        self.site.wrong.samples().into_iter().all(same) && self.site.wrong.iter().all(same)
    }

    /// True if they hold at least two different values: a single one may be a coincidence.
    fn has_several_values(&self) -> bool {
        let first = self.site.wrong.first().map(|index| self.value(index));
        self.site.wrong.iter().any(|index| Some(self.value(index)) != first)
    }

    /// True if one of them holds more than identical bits, which a library may also have written.
    fn has_telling_value(&self) -> bool {
        let all_ones = u64::MAX >> (64 - 8 * self.dtype.size());
        self.site.wrong.samples().iter().any(|index| ![0, all_ones].contains(&self.value(*index)))
    }
}

/// The kind of earlier contents that the wrong elements hold.
enum Before {
    /// Only these words are said.
    Words(&'static str),
    /// Nothing was written, or the written values happen to be the same: the words for either.
    Stale(&'static str, &'static str),
    /// The last values written there were wrong as well, so the same mistake may have been repeated; the words apply to values
    /// equal to those observed.
    Repeated(Option<&'static str>),
}

impl Patterns<'_> {
    /// A description of the wrong elements' values.
    pub(super) fn content(&mut self, collector: &FindingCollector, site: &WrongWrite<'_>) -> Option<String> {
        self.go_before(site.event)?;
        let held = Held { site, dtype: self.plan.buffers[site.region.buf].dtype };
        let before = self.what_was_before(collector, &self.before.as_ref()?.1, &held);
        match before {
            None => self.other_cause(&held),
            Some(Before::Words(words)) => Some(words.to_owned()),
            Some(Before::Stale(stale, equal)) => {
                let other = if self.is_in_place(site) { None } else { self.other_cause(&held) };
                Some(if other.is_some() { equal } else { stale }.to_owned())
            }
            Some(Before::Repeated(equal)) => self.other_cause(&held).or(equal.map(str::to_owned)),
        }
    }

    /// True if the rank's own input is the memory that the event writes.
    fn is_in_place(&self, site: &WrongWrite<'_>) -> bool {
        let bytes = |region| region_bytes(self.plan, region);
        let reads = self.plan.events.get(site.event).map(Event::reads).unwrap_or_default();
        let own = bytes(site.region);
        reads.into_iter().filter_map(bytes).any(|(alloc, range)| {
            own.as_ref().is_some_and(|(to, part)| *to == alloc && part.start < range.end && range.start < part.end)
        })
    }

    /// A description of values that are not earlier contents.
    fn other_cause(&mut self, held: &Held<'_>) -> Option<String> {
        let (plan, site) = (self.plan, held.site);
        let interpreter = &self.before.as_ref()?.1;
        let Event::Collective(collective) = plan.events.get(site.event)? else { return None };
        let rule = collective.op().rule;
        let inputs: Vec<Option<Cow<'_, [u8]>>> = collective
            .sends()
            .map(|send| {
                let (alloc, range) = region_bytes(plan, send?)?;
                interpreter.memory.get(alloc)?.data.get(range.start as usize..range.end as usize)
            })
            .collect();
        let inputs: Vec<Option<&[u8]>> = inputs.iter().map(Option::as_deref).collect();
        let first = if rule == Rule::ReducedBlock { site.write * site.region.len as usize } else { 0 };
        if inputs.get(site.write).copied().flatten().is_some_and(|own| held.equal(own, first)) {
            return Some("they equal the rank's own input".into());
        }
        let Some(kind) = &collective.reduction else {
            let block = collective.count() as usize * held.dtype.size();
            return matches!(rule, Rule::Concat | Rule::Transpose).then(|| block_order(site, block)).flatten();
        };
        let inputs = inputs.into_iter().collect::<Option<Vec<&[u8]>>>()?;
        let members = &plan.comms.get(collective.comm())?.members;
        let samples = site.wrong.samples();
        let values: Vec<(u64, u64)> = samples.iter().map(|index| (*index, held.value(*index))).collect();
        let found = match &self.last_reduction {
            Some(last) if (last.event, last.first) == (site.event, first) && last.held == values => last.found.clone(),
            _ => missing_or_double_rank(&reduction_of(held.dtype, kind, members.len()), &inputs, first, members, held),
        };
        let block = || block_of_rank(held, collective, interpreter);
        let pattern = found.clone().or_else(block);
        self.last_reduction = Some(FoundReduction { event: site.event, first, held: values, found });
        pattern
    }

    /// Recognises elements that still have the contents from before the step or the program.
    fn what_was_before(
        &self,
        collector: &FindingCollector,
        interpreter: &Interpreter<'_>,
        held: &Held<'_>,
    ) -> Option<Before> {
        let plan = self.plan;
        let region = held.site.region;
        let (alloc, range) = region_bytes(plan, region)?;
        let memory = interpreter.memory.get(alloc)?;
        let part = range.start as usize..range.end as usize;
        let or_equal =
            |stale, equal| if held.has_several_values() { Before::Stale(stale, equal) } else { Before::Words(equal) };
        if held.equal(&memory.data.get(part.clone())?, 0) {
            let size = held.dtype.size() as u64;
            let is_blank = |index: u64| {
                let at = range.start + index * size;
                memory.runs_in(at..at + size).all(|(_, run)| run.certainty == Certainty::Unwritten)
            };
            let equal = "they equal the values from before this step";
            let is_wrong = |run: &MemoryRun| {
                let event = run.writer.map(|event| event as usize);
                event.is_some_and(|event| collector.is_wrong_after(RankEvent { event, rank: region.rank }))
            };
            let mut wrong = memory.runs_in(range.clone()).map(|(_, run)| run).filter(is_wrong).peekable();
            return Some(match held.site.wrong.samples().into_iter().all(is_blank) {
                true if held.has_telling_value() => {
                    Before::Words("they hold the poison they started with, so nothing was written")
                }
                true => Before::Words("they hold the poison they started with"),
                // An element with one right value counts as if that had been there.
                false if wrong.peek().is_some() => {
                    Before::Repeated(wrong.all(|run| run.origin.is_some()).then_some(equal))
                }
                false => or_equal("stale: they still hold the values from before this step", equal),
            });
        }
        let start = plan.allocs.get(alloc)?.start() as usize;
        let at_first = self.forecast.initial.get(alloc)?.get(start + part.start..start + part.end)?;
        let (stale, equal) = (
            "stale: they still hold the values from before the program",
            "they equal the values from before the program",
        );
        held.equal(&at_first, 0).then(|| or_equal(stale, equal))
    }
}

/// The pattern of a rank that holds another rank's block of a reduce_scatter.
fn block_of_rank(held: &Held<'_>, collective: &CollectiveEvent, interpreter: &Interpreter<'_>) -> Option<String> {
    let site = held.site;
    if collective.op().rule != Rule::ReducedBlock {
        return None;
    }
    // The whole result, unless its inputs are known only after the run or it is too large to be kept.
    let reduced = interpreter.known_results.get(&site.event)?;
    let blocks: Vec<usize> = collective
        .recvs()
        .enumerate()
        .filter(|(block, _)| *block != site.write)
        .filter(|(block, _)| {
            let len = site.actual.len();
            reduced.bytes.get(block * len..(block + 1) * len).is_some_and(|bytes| *bytes == *site.actual)
        })
        .filter_map(|(_, write)| Some(write?.region.rank))
        .collect();
    let [rank] = blocks.as_slice() else { return None };
    Some(match held.has_several_values() {
        true => format!("the rank holds the block of rank {rank}"),
        false => format!("they equal the block of rank {rank}"),
    })
}

/// The pattern of a gathered buffer whose blocks are in wrong places.
fn block_order(site: &WrongWrite<'_>, block: usize) -> Option<String> {
    if block == 0 || site.actual.len() <= block {
        return None;
    }
    let right: Vec<&[u8]> = site.expected.chunks(block).collect();
    let there: Vec<&[u8]> = site.actual.chunks(block).collect();
    let n = right.len();
    // Ranks with the same data are indistinguishable.
    let only = |wanted: &[u8]| {
        let mut equal = (0..n).filter(|rank| right[*rank] == wanted);
        equal.next().filter(|_| equal.next().is_none())
    };
    let order: Option<Vec<usize>> = there.iter().map(|block| only(block)).collect();
    let Some(order) = order else {
        let (at, from) = (0..n).find_map(|at| Some((at, only(there[at]).filter(|from| *from != at)?)))?;
        return Some(format!("block {at} holds the data of rank {from} of the communicator"));
    };
    let shift = order.first().copied().unwrap_or(0);
    if order.iter().enumerate().all(|(place, from)| *from == (place + shift) % n) {
        return Some(format!("the ranks' blocks are rotated by {shift}"));
    }
    let mut ranks = order.clone();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() == n {
        let order: Vec<String> = order.iter().map(usize::to_string).collect();
        return Some(format!("the ranks' blocks stand in the order {}", order.join(" ")));
    }
    let (at, from) = order.iter().enumerate().find(|(place, from)| place != *from)?;
    Some(format!("block {at} holds the data of rank {from} of the communicator"))
}

/// The pattern of a reduction in which a rank's input is missing or counts twice, if this holds for exactly one rank.
fn missing_or_double_rank(
    whole: &ColumnReduction,
    inputs: &[&[u8]],
    first: usize,
    members: &[usize],
    held: &Held<'_>,
) -> Option<String> {
    let mut budget = Budget::new(1_000_000).without_samples();
    let samples = held.site.wrong.samples();
    // avg divides by the number of ranks, which would change with them.
    if whole.kind == ReduceKind::Avg || inputs.len() < 2 || inputs.len() > 64 {
        return None;
    }
    let mut found: Vec<(bool, usize)> = Vec::new();
    for missing in [true, false] {
        for rank in 0..inputs.len() {
            let mut picked: Vec<usize> = (0..inputs.len()).filter(|r| !missing || *r != rank).collect();
            if !missing {
                picked.push(rank);
            }
            let chosen: Vec<&[u8]> = picked.iter().map(|r| inputs[*r]).collect();
            let kind = match &whole.kind {
                ReduceKind::PreMulSum { scalars } => {
                    ReduceKind::PreMulSum { scalars: picked.iter().filter_map(|r| scalars.get(*r).copied()).collect() }
                }
                other => other.clone(),
            };
            let changed = ColumnReduction { dtype: whole.dtype, kind, ranks: picked.len() };
            let mut values = Vec::new();
            let explains = |i: &u64| {
                column(whole.dtype, &chosen, first + *i as usize, &mut values);
                changed.judge(&values, held.value(*i), &mut budget).ruling.accepted()
            };
            if samples.iter().all(explains) {
                found.push((missing, rank));
            }
        }
    }
    let [(missing, rank)] = found.as_slice() else { return None };
    let who = members.get(*rank).copied().unwrap_or(*rank);
    Some(match (missing, held.has_several_values()) {
        (true, true) => format!("the contribution of rank {who} is missing"),
        (false, true) => format!("the contribution of rank {who} counts twice"),
        (true, false) => format!("as if the contribution of rank {who} were missing"),
        (false, false) => format!("as if the contribution of rank {who} counted twice"),
    })
}
