//! Compares two order maps of the same result: the order changed, or only the rounding or the scale, or nothing.
use super::map::{Explanation, OrderMap, OrderRun};
use serde::{Deserialize, Serialize};

/// The change from one order map to another of the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderChange {
    /// Both maps are equal.
    Same,
    /// The maps do not contradict each other, but some elements have several explanations.
    Compatible,
    /// The same order, or orders of which one is unknown, with another rounding or scale.
    OtherRounding,
    /// The order differs for some elements.
    OtherOrder,
    /// One of the two has no map, or the results have different lengths.
    NotExplained,
}

impl OrderChange {
    /// A description of the change.
    pub fn words(self) -> &'static str {
        match self {
            Self::Same => "same order",
            Self::Compatible => "perhaps the same order: too few elements tell",
            Self::OtherRounding => "same order, other rounding or scale",
            Self::OtherOrder => "other order",
            Self::NotExplained => "not explained by an order map",
        }
    }
}

pub fn compare(base: &OrderMap, candidate: &OrderMap) -> OrderChange {
    if !base.is_explained() || !candidate.is_explained() || base.elements != candidate.elements {
        return OrderChange::NotExplained;
    }
    let listed = |map: &OrderMap| map.runs.len() as u64 == map.run_count;
    let mut worst = OrderChange::Same;
    let (mut ours, mut theirs) = (Cursor::new(base), Cursor::new(candidate));
    let mut at = 0;
    while at < base.elements {
        let (Some(end), Some(their_end)) = (ours.advance(at), theirs.advance(at)) else {
            // Beyond the listed runs only the hash can show a difference.
            if base.hash != candidate.hash {
                worst = worst.max(OrderChange::OtherOrder);
            }
            return worst;
        };
        worst = worst.max(ours.change_to(&theirs));
        at = end.min(their_end).max(at + 1);
    }
    if !(listed(base) && listed(candidate)) && base.hash != candidate.hash {
        worst = worst.max(OrderChange::OtherOrder);
    }
    worst
}

/// The change in one line, for instance `ring 0,1,2,3 (chunks of 32,768) -> chain 3,2,1,0`.
pub fn describe_change(base: &OrderMap, candidate: &OrderMap) -> String {
    let (from, to) = (&base.name, &candidate.name);
    if from != to {
        return format!("{from} -> {to}");
    }
    match compare(base, candidate) {
        OrderChange::OtherOrder => {
            let first = first_difference(base, candidate);
            let at = first.map_or(String::new(), |element| {
                format!(", first in element {}", crate::printable::thousands(element))
            });
            format!("{from} -> the same kind of order, but other runs{at}")
        }
        change => format!("{from}: {}", change.words()),
    }
}

/// The first element with another order.
fn first_difference(base: &OrderMap, candidate: &OrderMap) -> Option<u64> {
    let (mut ours, mut theirs) = (Cursor::new(base), Cursor::new(candidate));
    let mut at = 0;
    loop {
        let end = ours.advance(at)?.min(theirs.advance(at)?);
        if ours.change_to(&theirs) == OrderChange::OtherOrder {
            return Some(at);
        }
        at = end.max(at + 1);
    }
}

/// Walks over a map's elements by ranges that the same runs may explain.
struct Cursor<'a> {
    map: &'a OrderMap,
    run: usize,
    /// The run on the other side of a boundary that is not known exactly.
    neighbour: Option<&'a OrderRun>,
}

impl<'a> Cursor<'a> {
    fn new(map: &'a OrderMap) -> Self {
        Self { map, run: 0, neighbour: None }
    }

    /// Moves to the range that begins at an element and returns its end; `None` beyond the listed runs.
    fn advance(&mut self, at: u64) -> Option<u64> {
        while self.map.runs.get(self.run + 1).is_some_and(|next| next.start <= at) {
            self.run += 1;
        }
        let run = self.map.runs.get(self.run)?;
        let run_end = run.start.saturating_add(run.elements);
        if at >= run_end {
            return None;
        }
        let before = self.run.checked_sub(1).and_then(|before| self.map.runs.get(before));
        let next = self.map.runs.get(self.run + 1);
        if let Some(before) = before.filter(|_| at < run.latest_start) {
            self.neighbour = Some(before);
            return Some(run_end.min(run.latest_start));
        }
        if let Some(next) = next.filter(|next| at >= next.earliest_start) {
            self.neighbour = Some(next);
            return Some(run_end);
        }
        self.neighbour = None;
        Some(next.map_or(run_end, |next| run_end.min(next.earliest_start)))
    }

    /// The explanations of the range: those of its run and its neighbour, then others that fit as well.
    fn explanations(&self) -> (Vec<&'a Explanation>, Vec<&'a Explanation>) {
        let run = self.map.runs.get(self.run);
        let of = |indices: &mut dyn Iterator<Item = u32>| -> Vec<&'a Explanation> {
            indices.filter_map(|index| self.map.explanation(index)).collect()
        };
        let sure = of(&mut run.into_iter().chain(self.neighbour).map(|run| run.explanation));
        let others = of(&mut run.into_iter().chain(self.neighbour).flat_map(|run| run.others.iter().copied()));
        (sure, others)
    }

    fn change_to(&self, other: &Cursor<'_>) -> OrderChange {
        let ((sure, others), (their_sure, their_others)) = (self.explanations(), other.explanations());
        let best = |ours: &[&Explanation], theirs: &[&Explanation]| {
            let pairs = ours.iter().flat_map(|a| theirs.iter().map(move |b| change(a, b)));
            pairs.min().unwrap_or(OrderChange::OtherOrder)
        };
        let of_sure = best(&sure, &their_sure);
        let with_others = best(&sure, &their_others).min(best(&others, &their_sure)).min(best(&others, &their_others));
        of_sure.min(with_others.max(OrderChange::Compatible))
    }
}

fn change(from: &Explanation, to: &Explanation) -> OrderChange {
    let same_computing = from.computing == to.computing;
    match (from.additions == to.additions, from.is_any_order() || to.is_any_order()) {
        (true, _) if same_computing => OrderChange::Same,
        (false, true) if same_computing => OrderChange::Compatible,
        (true, _) | (false, true) => OrderChange::OtherRounding,
        (false, false) => OrderChange::OtherOrder,
    }
}
