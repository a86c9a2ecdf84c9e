//! Recognises the kind of error in a set of wrong elements from their positions and values.
mod content;

use super::findings::FindingCollector;
use super::indices::Indices;
use super::lanes::Replay;
use crate::job::Observation;
use crate::oracle::Forecast;
use crate::oracle::interpreter::{Interpreter, region_bytes};
use crate::plan::{Plan, Region};

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

/// The first replays, up to this number, are made whatever they cost.
const FREE_REPLAYS: usize = 16;
/// Limit on the events replayed beyond these.
const MAX_REPLAYED_EVENTS: usize = 10_000;

/// Recognises the patterns of a run's wrong elements.
pub(crate) struct Patterns<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    observation: &'a Observation,
    /// The memory before an event, which the writes of its ranks share.
    before: Option<(usize, Interpreter<'a>)>,
    replays: usize,
    replayed_events: usize,
    /// The last result for a reduction, kept because its ranks often have the same wrong elements.
    last_reduction: Option<content::FoundReduction>,
}

impl<'a> Patterns<'a> {
    /// The state before the first search for a pattern.
    pub fn new(plan: &'a Plan, forecast: &'a Forecast, observation: &'a Observation) -> Self {
        Self { plan, forecast, observation, before: None, replays: 0, replayed_events: 0, last_reduction: None }
    }

    /// The pattern of wrong elements as text; `None` if none is recognised or no message would show it. Their values are examined
    /// only while the collector shows one more finding.
    pub fn recognise(&mut self, collector: &FindingCollector, site: &WrongWrite<'_>) -> Option<String> {
        if collector.pass_or_fail_only {
            return None;
        }
        let place = positions_pattern(site.wrong, site.region.len);
        let content = if collector.shows_one_more() { self.content(collector, site) } else { None };
        match (place, content) {
            (Some(place), Some(content)) => Some(format!("{place}{BETWEEN}{content}")),
            (place, content) => place.or(content),
        }
    }

    /// The contents of a region before an event.
    pub fn bytes_before(&mut self, event: usize, region: Region) -> Option<Vec<u8>> {
        self.go_before(event)?;
        let (alloc, range) = region_bytes(self.plan, region)?;
        let memory = self.before.as_ref()?.1.memory.get(alloc)?;
        memory.data.get(range.start as usize..range.end as usize).map(std::borrow::Cow::into_owned)
    }

    /// Replays the events before this one, unless that was done already or would take too long.
    fn go_before(&mut self, event: usize) -> Option<()> {
        let from = match self.before.take() {
            Some((at, interpreter)) if at <= event => (at, interpreter),
            _ => {
                let few = self.replays < FREE_REPLAYS || self.replayed_events + event <= MAX_REPLAYED_EVENTS;
                self.replays += 1;
                (0, few.then(|| self.forecast.new_interpreter(self.plan))?)
            }
        };
        let (at, mut interpreter) = from;
        self.replayed_events += event - at;
        let mut replay = Replay { plan: self.plan, forecast: self.forecast, observation: self.observation };
        interpreter.run(at..event, &mut replay);
        self.before = Some((event, interpreter));
        Some(())
    }
}

/// The separator between the words on positions and on contents.
const BETWEEN: &str = "; ";

/// The common part of two patterns of the same wrong elements with the same values, provided that they may have the same
/// cause: a statement about contents that is in only one of them is a coincidence.
pub(super) fn common<'p>(a: &'p Option<String>, b: &'p Option<String>) -> Option<&'p Option<String>> {
    let extends = |longer: &Option<String>, shorter: &Option<String>| match (longer, shorter) {
        (Some(_), None) => true,
        (Some(longer), Some(shorter)) => {
            longer.strip_prefix(shorter.as_str()).is_some_and(|rest| rest.starts_with(BETWEEN))
        }
        (None, _) => false,
    };
    if a == b || extends(a, b) { Some(b) } else { extends(b, a).then_some(a) }
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
    // Irregular positions that include most of those from the first wrong element to the end.
    (last + 1 == of && count * 2 > of - first).then(|| format!("scattered from element {first} to the end"))
}
