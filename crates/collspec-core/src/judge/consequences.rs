//! Finds the wrong results that follow from earlier wrong ones: a correct step that received wrong data produces wrong results.
use super::findings::{FindingCollector, Found, NO_EVENT, Priority, RankEvent};
use super::images::image_bytes;
use super::lanes::overwritten;
use super::{Finding, Subject, merge, message};
use crate::image::contents::Contents;
use crate::job::Observation;
use crate::num::get_element;
use crate::oracle::interpreter::{AmbiguousResult, ResultResolver, Uncomputable, region_bytes};
use crate::oracle::memory::{Certainty, Memory};
use crate::oracle::reduced_buffer::column;
use crate::oracle::{Budget, Forecast, Ruling};
use crate::plan::{Plan, Region};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// Number of events above which this search is left out.
const MAX_EVENTS: usize = 10_000;

/// Moves findings that follow from others under the first of those: later wrong results, ranks that differ, and expectations
/// that the right result would meet.
pub(crate) fn fold(plan: &Plan, forecast: &Forecast, observation: &Observation, collector: &mut FindingCollector) {
    let wrong: Vec<RankEvent> = collector
        .findings()
        .iter()
        .filter(|found| matches!(found.priority, Priority::Data(_)) && found.finding.element.is_some())
        .flat_map(|found| found.events.iter().copied())
        .collect();
    let events = wrong.iter().map(|wrong| wrong.event);
    let (Some(first), Some(last)) = (events.clone().min(), events.max()) else { return };
    let mut roots = if first < last && last < MAX_EVENTS {
        Walk { plan, forecast, observation, wrong: &wrong }.roots(last)
    } else {
        BTreeMap::new()
    };
    // With several earlier events that are wrong independently, the cause of a result is ambiguous.
    let own: BTreeSet<usize> = wrong.iter().filter(|w| !roots.contains_key(w)).map(|w| w.event).collect();
    roots.retain(|wrong, _| own.range(..wrong.event).count() == 1);
    let is_changed_elsewhere =
        |found: &Found| found.priority == Priority::Invariant(NO_EVENT) && found.finding.element.is_some();
    let has_one_cause = own.len() == 1 && !collector.findings().iter().any(is_changed_elsewhere);
    let wrong_buffers: BTreeSet<String> = collector
        .findings()
        .iter()
        .filter(|found| matches!(found.priority, Priority::Data(_)))
        .filter_map(|found| found.finding.buffer.clone())
        .collect();
    // For each event that is wrong independently: the findings that follow from it.
    let mut results: BTreeMap<usize, Vec<Found>> = BTreeMap::new();
    let mut words: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    collector.findings_mut().retain_mut(|found| {
        if matches!(found.priority, Priority::Data(_)) && found.finding.element.is_some() && !found.events.is_empty() {
            let (following, own): (Vec<RankEvent>, Vec<RankEvent>) =
                found.events.iter().partition(|event| roots.contains_key(event));
            if let Some(root) = following.iter().filter_map(|event| roots.get(event)).min() {
                results.entry(*root).or_default().push(found.of_ranks(following));
            }
            if !own.is_empty() {
                *found = found.of_ranks(own);
                return true;
            }
            return false;
        }
        let Found { priority, finding, .. } = found;
        let same_event = matches!(priority, Priority::Invariant(event) if wrong.iter().any(|w| w.event == *event))
            && finding.element.is_some();
        let reads_wrong = finding.buffer.as_ref().is_none_or(|buffer| wrong_buffers.contains(buffer));
        let follows = finding.follows && has_one_cause && reads_wrong;
        if !(same_event || follows) {
            return true;
        }
        let event = if same_event { priority.event() } else { first };
        let root = roots.iter().find(|(wrong, _)| wrong.event == event).map_or(event, |(_, root)| *root);
        let buffer = finding.buffer.as_deref().unwrap_or_default();
        let text = match finding.subject {
            Subject::Expect => format!("`expect` of `{buffer}` fails"),
            Subject::Assert => format!("assert `{}` does not hold", finding.expected),
            Subject::Lane | Subject::Ending | Subject::Error | Subject::Refusal => {
                format!("`{buffer}` is not the same on all ranks")
            }
        };
        let known = words.entry(root).or_default();
        if !known.contains(&text) {
            known.push(text);
        }
        false
    });
    for (root, found) in results {
        words.entry(root).or_default().splice(0..0, wrong_results(&found));
    }
    for (root, words) in words {
        let of_root = |found: &&mut Found| {
            matches!(found.priority, Priority::Data(_)) && found.events.iter().any(|event| event.event == root)
        };
        if let Some(found) = collector.findings_mut().iter_mut().filter(of_root).min_by_key(|found| found.priority) {
            found.finding.consequences.extend(words);
        }
    }
}

/// A line for each step and buffer.
fn wrong_results(found: &[Found]) -> Vec<String> {
    // The first finding of each step and buffer, the ranks and the labels, which differ by round.
    let mut lines: Vec<(&Finding, Vec<usize>, BTreeSet<&String>)> = Vec::new();
    let key = |finding: &Finding| (finding.buffer.clone(), finding.step.as_deref().map(merge::without_round));
    for found in found {
        let finding = &found.finding;
        match lines.iter_mut().find(|(known, ..)| key(known) == key(finding)) {
            Some((_, ranks, labels)) => {
                ranks.extend(finding.ranks());
                labels.extend(&finding.step);
            }
            None => lines.push((finding, finding.ranks(), finding.step.iter().collect())),
        }
    }
    let line = |(finding, mut ranks, labels): (&Finding, Vec<usize>, BTreeSet<&String>)| {
        ranks.sort_unstable();
        ranks.dedup();
        let more = match labels.len() {
            ..=1 => String::new(),
            2 => " and in 1 more round".to_owned(),
            all => format!(" and in {} more rounds", all - 1),
        };
        let after = finding.step.as_ref().map(|step| format!(" after {step}{more}")).unwrap_or_default();
        let buffer = finding.buffer.as_deref().unwrap_or_default();
        format!("`{buffer}`{after} is wrong on {}", message::ranks_text(&ranks))
    };
    lines.into_iter().map(line).collect()
}

/// A second pass over a run, in which every step receives what the earlier steps really wrote.
struct Walk<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    observation: &'a Observation,
    wrong: &'a [RankEvent],
}

impl Walk<'_> {
    /// The wrong results that are right for their step's actual inputs, each with the first event that was wrong independently.
    fn roots(&self, last: usize) -> BTreeMap<RankEvent, usize> {
        let mut interpreter = self.forecast.new_interpreter(self.plan);
        // They were computed from right inputs.
        interpreter.known_results.clear();
        let (mut roots, mut root) = (BTreeMap::new(), None);
        let mut budget = Budget::default().without_samples();
        for (number, event) in self.plan.events.iter().enumerate().take(last + 1) {
            let mut judge = StepJudge { walk: self, budget: &mut budget, wrong_ranks: Vec::new() };
            interpreter.run(number..number + 1, &mut judge);
            let mut wrong_ranks = judge.wrong_ranks;
            for (write, target) in event.writes().into_iter().enumerate() {
                let Some(region) = target.map(|target| target.region) else { continue };
                let Some(observed) = self.observed(number, write, region) else { continue };
                let Some((alloc, range)) = region_bytes(self.plan, region) else { continue };
                let Some(memory) = interpreter.memory.get_mut(alloc) else { continue };
                let part = range.start as usize..range.end as usize;
                let Some(bytes) = memory.data.get(part.clone()) else { continue };
                if bytes.len() == observed.len() && *bytes != *observed {
                    wrong_ranks.push(region.rank);
                    let _ = memory.data.write(part.start, &Contents::from(observed.into_owned()));
                }
            }
            let before = root;
            for wrong in self.wrong.iter().filter(|wrong| wrong.event == number) {
                match before {
                    Some(root) if !wrong_ranks.contains(&wrong.rank) => {
                        roots.insert(*wrong, root);
                    }
                    _ => {
                        root.get_or_insert(number);
                    }
                }
            }
        }
        roots
    }

    /// The observed result of a write: its copy, or the final contents if nothing was written there later.
    fn observed(&self, event: usize, write: usize, region: Region) -> Option<Cow<'_, [u8]>> {
        if let Some(number) = self.forecast.copy(event, write) {
            return self.observation.checkpoints.get(number).map(|bytes| bytes.into());
        }
        if overwritten(self.plan, event, region) {
            return None;
        }
        let (alloc, range) = region_bytes(self.plan, region)?;
        let start = self.plan.allocs.get(alloc)?.start();
        let part = (start + range.start) as usize..(start + range.end) as usize;
        image_bytes(self.forecast, self.observation, alloc, part)
    }
}

/// Judges results of one step that have several right values, given the data that the step received.
struct StepJudge<'a, 'w> {
    walk: &'a Walk<'w>,
    budget: &'a mut Budget,
    /// World ranks with a wrong element.
    wrong_ranks: Vec<usize>,
}

impl ResultResolver for StepJudge<'_, '_> {
    fn resolve(&mut self, choice: &AmbiguousResult<'_>) -> Option<Vec<u8>> {
        let region = choice.target.region;
        let observed = self.walk.observed(choice.event, choice.write, region)?;
        let dtype = choice.reduction.dtype;
        if observed.len() != choice.canonical.len() {
            return None;
        }
        let mut values = Vec::new();
        let mut bytes = choice.canonical.to_vec();
        let size = dtype.size();
        for (i, place) in
            bytes.chunks_mut(size).enumerate().filter(|(i, _)| choice.reduced.is_ambiguous(choice.first + i))
        {
            column(dtype, choice.inputs, choice.first + i, &mut values);
            let actual = get_element(dtype, &observed, i);
            if matches!(choice.reduction.judge(&values, actual, self.budget).ruling, Ruling::Reject { .. }) {
                self.wrong_ranks.push(region.rank);
            } else if let Some(own) = observed.get(i * size..(i + 1) * size) {
                place.copy_from_slice(own);
            }
        }
        Some(bytes)
    }

    fn uncomputable(&mut self, _: Uncomputable) {}
}

/// True if the oracle's memory holds all of a region's values.
pub(crate) fn is_certain(plan: &Plan, memory: &[Memory], region: Region) -> bool {
    let found = region_bytes(plan, region).and_then(|(alloc, range)| Some((memory.get(alloc)?, range)));
    found.is_some_and(|(memory, range)| {
        memory.runs_in(range).all(|(_, run)| matches!(run.certainty, Certainty::Known | Certainty::Ambiguous))
    })
}
