//! Recognises the kind of error in a set of wrong elements: their positions, and what they hold instead.
use super::indices::Indices;
use super::lanes::Replay;
use crate::job::Observation;
use crate::num::get_element;
use crate::ops::Rule;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::Certainty;
use crate::oracle::reduced_buffer::{column, reduction_of};
use crate::oracle::{Budget, ColumnReduction, Forecast, ReduceKind};
use crate::plan::{CollectiveEvent, Event, Plan, Region};
use std::borrow::Cow;

/// A write with wrong elements.
pub(crate) struct WrongWrite<'a> {
    pub event: usize,
    pub write: usize,
    pub region: Region,
    /// The region's expected bytes.
    pub expected: &'a [u8],
    /// The region's actual bytes.
    pub actual: &'a [u8],
    /// Indices of the wrong elements, from the region's start; at least one.
    pub wrong: &'a Indices,
}

/// Number of wrong elements on which a hypothesis is tested.
pub(crate) const SAMPLES: usize = 256;

/// The pattern of wrong elements as text; `None` if none is recognised.
pub(crate) fn recognise(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    site: &WrongWrite<'_>,
) -> Option<String> {
    let place = positions_pattern(site.wrong, site.region.len);
    let content = content_pattern(plan, forecast, observation, site);
    match (place, content) {
        (Some(place), Some(content)) => Some(format!("{place}; {content}")),
        (place, content) => place.or(content),
    }
}

/// Number of wrong elements up to which irregular ones are listed.
const MAX_LISTED: u64 = 4;

/// The pattern of the wrong elements' positions.
pub(crate) fn positions_pattern(wrong: &Indices, of: u64) -> Option<String> {
    let (first, last, count) = (wrong.first()?, wrong.last()?, wrong.count());
    if count == of || count < 2 && of < 3 {
        return None;
    }
    if last - first + 1 == count {
        return Some(match count {
            1 if last + 1 == of => "the last element".into(),
            1 if first == 0 => "the first element".into(),
            1 => return None,
            _ if last + 1 == of => format!("the tail, the last {count} elements"),
            _ if first == 0 => format!("the first {count} elements"),
            _ => format!("a block, elements {first} to {last}"),
        });
    }
    if let (Some(stride), 3..) = (wrong.stride(), count) {
        let ordinal = match stride {
            2 => "second".into(),
            3 => "third".into(),
            k => format!("{k}th"),
        };
        return Some(format!("every {ordinal} element from {first} to {last}"));
    }
    if (2..=MAX_LISTED).contains(&count) {
        let others: Vec<String> = wrong.iter().filter(|index| *index != last).map(|index| index.to_string()).collect();
        return Some(format!("{} and {last}", others.join(", ")));
    }
    // Irregular positions, most of those from the first wrong element to the end.
    (last + 1 == of && count * 2 > of - first).then(|| format!("scattered from element {first} to the end"))
}

/// A description of what the wrong elements hold.
fn content_pattern(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    site: &WrongWrite<'_>,
) -> Option<String> {
    let size = plan.buffers[site.region.buf].dtype.size();
    let mut interpreter = forecast.new_interpreter(plan);
    interpreter.run(0..site.event, &mut Replay { plan, forecast, observation });
    let (alloc, range) = region_bytes(plan, site.region)?;
    let samples = site.wrong.samples();
    let all = |other: &dyn Fn(usize) -> Option<u64>| {
        let dtype = plan.buffers[site.region.buf].dtype;
        samples.iter().all(|i| other(*i as usize) == Some(get_element(dtype, site.actual, *i as usize)))
    };
    let memory = &interpreter.memory[alloc];
    let before = &*memory.data.get(range.start as usize..range.end as usize)?;
    let dtype = plan.buffers[site.region.buf].dtype;
    if all(&|i| Some(get_element(dtype, before, i))) {
        let at = range.start + site.wrong.first()? * size as u64;
        let blank = memory.runs_in(at..at + 1).any(|(_, run)| run.certainty == Certainty::Unwritten);
        return Some(
            if blank {
                "they hold the poison they started with, so nothing was written"
            } else {
                "stale: they still hold the values from before this step"
            }
            .into(),
        );
    }
    let start = plan.allocs[alloc].start() as usize;
    let part = start + range.start as usize..start + range.end as usize;
    let at_first = forecast.initial.get(alloc).and_then(|image| image.get(part))?;
    if all(&|i| Some(get_element(dtype, &at_first, i))) {
        return Some("stale: they still hold the values from before the program".into());
    }
    let Event::Collective(collective) = plan.events.get(site.event)? else { return None };
    let rule = collective.op().rule;
    let inputs: Vec<Option<Cow<'_, [u8]>>> = collective
        .sends()
        .map(|send| {
            let (alloc, range) = region_bytes(plan, send?)?;
            interpreter.memory[alloc].data.get(range.start as usize..range.end as usize)
        })
        .collect();
    let inputs: Vec<Option<&[u8]>> = inputs.iter().map(Option::as_deref).collect();
    let first = if rule == Rule::ReducedBlock { site.write * site.region.len as usize } else { 0 };
    let own = inputs.get(site.write).copied().flatten().filter(|own| own.len() >= site.actual.len());
    if own.is_some_and(|own| all(&|i| Some(get_element(dtype, own, first + i)))) {
        return Some("they equal the rank's own input".into());
    }
    if let Some(kind) = &collective.reduction {
        let inputs: Option<Vec<&[u8]>> = inputs.into_iter().collect();
        let members = &plan.comms.get(collective.comm())?.members;
        let found = missing_or_double_rank(&reduction_of(dtype, kind, members.len()), &inputs?, first, members, site);
        return found.or_else(|| shifted_block(site, collective, &right_results(plan, forecast, observation, site)?));
    }
    matches!(rule, Rule::Concat | Rule::Transpose).then(|| block_order(site, collective.count() as usize * size))?
}

/// The expected bytes of every write of the event, by position.
fn right_results(
    plan: &Plan,
    forecast: &Forecast,
    observation: &Observation,
    site: &WrongWrite<'_>,
) -> Option<Vec<Vec<u8>>> {
    let mut interpreter = forecast.new_interpreter(plan);
    let mut replay = Replay { plan, forecast, observation };
    interpreter.run(0..site.event, &mut replay);
    struct Canonical;
    impl crate::oracle::interpreter::ResultResolver for Canonical {
        fn resolve(&mut self, _: &crate::oracle::interpreter::AmbiguousResult<'_>) -> Option<Vec<u8>> {
            None
        }
        fn uncomputable(&mut self, _: crate::oracle::interpreter::Uncomputable) {}
    }
    interpreter.run(site.event..site.event + 1, &mut Canonical);
    plan.events
        .get(site.event)?
        .writes()
        .into_iter()
        .map(|write| match write {
            Some(write) => {
                let (alloc, range) = region_bytes(plan, write.region)?;
                Some(interpreter.memory[alloc].data.get(range.start as usize..range.end as usize)?.into_owned())
            }
            None => Some(Vec::new()),
        })
        .collect()
}

/// The pattern of a rank that holds another rank's block of a reduce_scatter.
fn shifted_block(site: &WrongWrite<'_>, collective: &CollectiveEvent, results: &[Vec<u8>]) -> Option<String> {
    if collective.op().rule != Rule::ReducedBlock {
        return None;
    }
    let other = results.iter().enumerate().position(|(i, r)| i != site.write && r.as_slice() == site.actual)?;
    let rank = collective.recvs().nth(other)??.region.rank;
    Some(format!("the rank holds the block of rank {rank}"))
}

/// The pattern of a gathered buffer whose blocks stand in wrong places.
fn block_order(site: &WrongWrite<'_>, block: usize) -> Option<String> {
    if block == 0 || site.actual.len() <= block {
        return None;
    }
    let right: Vec<&[u8]> = site.expected.chunks(block).collect();
    let there: Vec<&[u8]> = site.actual.chunks(block).collect();
    let n = right.len();
    for shift in 1..n {
        if (0..n).all(|i| there[i] == right[(i + shift) % n]) {
            return Some(format!("the ranks' blocks are rotated by {shift}"));
        }
    }
    let mut free: Vec<bool> = vec![true; n];
    let order: Option<Vec<String>> = there
        .iter()
        .map(|b| {
            let found = (0..n).find(|i| free[*i] && right[*i] == *b)?;
            free[found] = false;
            Some(found.to_string())
        })
        .collect();
    match order {
        Some(order) => Some(format!("the ranks' blocks stand in the order {}", order.join(" "))),
        None => {
            let (at, from) = (0..n).find_map(|i| {
                let from = (0..n).find(|j| right[*j] == there[i])?;
                (there[i] != right[i]).then_some((i, from))
            })?;
            Some(format!("block {at} holds the data of rank {from} of the communicator"))
        }
    }
}

/// The pattern of a reduction in which a rank's input is missing or counts twice.
fn missing_or_double_rank(
    whole: &ColumnReduction,
    inputs: &[&[u8]],
    first: usize,
    members: &[usize],
    site: &WrongWrite<'_>,
) -> Option<String> {
    let mut budget = Budget::new(1_000_000).without_samples();
    let samples = site.wrong.samples();
    // avg divides by the number of ranks, which would change with them.
    if whole.kind == ReduceKind::Avg || inputs.len() < 2 || inputs.len() > 64 {
        return None;
    }
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
                let actual = get_element(whole.dtype, site.actual, *i as usize);
                changed.judge(&values, actual, &mut budget).ruling.accepted()
            };
            if samples.iter().all(explains) {
                let who = members.get(rank).copied().unwrap_or(rank);
                return Some(match missing {
                    true => format!("the contribution of rank {who} is missing"),
                    false => format!("the contribution of rank {who} counts twice"),
                });
            }
        }
    }
    None
}
