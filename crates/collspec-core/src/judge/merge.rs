//! Merges findings of several ranks that are otherwise equal.
use super::findings::{Found, NO_EVENT, Priority};
use super::pattern::common;
use super::{Finding, Lane, Subject, message};
use std::collections::{BTreeMap, BTreeSet};

/// True if both findings are equal except for their ranks.
pub(crate) fn is_same(known: &Finding, other: &Finding) -> bool {
    let ranks = known.rank.is_some() && other.rank.is_some() && known.rank != other.rank;
    ranks
        && is_same_place(known, other)
        && common(&known.pattern, &other.pattern).is_some()
        && known.expected == other.expected
        && known.actual == other.actual
        && known.advice == other.advice
        && without_rank_and_pattern(known) == without_rank_and_pattern(other)
}

/// True if both are about the same elements of the same buffer, after the same step or against the same line of the file.
fn is_same_place(known: &Finding, other: &Finding) -> bool {
    known.wrong_elements == other.wrong_elements
        && (known.lane, known.subject) == (other.lane, other.subject)
        && (&known.buffer, known.element, &known.step) == (&other.buffer, other.element, &other.step)
        && (known.span, known.wrong, known.of) == (other.span, other.wrong, other.of)
}

/// The words after `rank 3` at the beginning of the text; `None` if they are not about that rank alone.
fn after_rank(finding: &Finding) -> Option<&str> {
    let rank = finding.rank?;
    finding.text.strip_prefix(&format!("rank {rank}")).filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
}

fn without_rank_and_pattern(finding: &Finding) -> &str {
    let text = after_rank(finding).unwrap_or(&finding.text);
    let pattern = finding.pattern.as_ref().and_then(|pattern| text.strip_suffix(pattern.as_str()));
    pattern.map_or(text, |text| text.trim_end_matches(": "))
}

/// Reduces the finding's pattern to the part shared with that of another rank with the same values.
pub(crate) fn keep_common_pattern(known: &mut Finding, other: &Finding) {
    let Some(pattern) = common(&known.pattern, &other.pattern).filter(|pattern| **pattern != known.pattern) else {
        return;
    };
    let pattern = pattern.clone();
    let words = known.pattern.as_ref().and_then(|pattern| known.text.strip_suffix(pattern.as_str()));
    if let Some(words) = words.map(|words| words.trim_end_matches(": ")) {
        known.text = pattern.as_ref().map_or(words.to_owned(), |pattern| format!("{words}: {pattern}"));
    }
    known.pattern = pattern;
}

/// Sets the ranks of a finding, which must be ascending.
pub(crate) fn set_ranks(finding: &mut Finding, ranks: &[usize]) {
    if let Some((first, others)) = ranks.split_first() {
        if let Some(words) = after_rank(finding) {
            finding.text = format!("rank {first}{words}");
        }
        finding.rank = Some(*first);
        finding.other_ranks = others.to_vec();
    }
}

/// Collects findings about the same wrong elements of several ranks with other values under the first of them, and writes all
/// ranks of a finding into its text.
pub(crate) fn gather_other_values(findings: &mut Vec<Found>) {
    for found in findings.iter_mut() {
        let ranks = found.finding.ranks();
        set_ranks(&mut found.finding, &ranks);
    }
    findings.sort_by_key(|found| (found.priority, found.finding.rank, found.finding.element));
    let mut gathered: Vec<Found> = Vec::new();
    for found in findings.drain(..) {
        let finding = &found.finding;
        let known = gathered.iter_mut().find(|other| {
            let known = &other.finding;
            other.priority.is_like(found.priority)
                && (finding.element.is_some() || finding.subject == Subject::Assert)
                && finding.rank.is_some()
                && finding.consequences.is_empty()
                && known.advice == finding.advice
                && known.pattern == finding.pattern
                && is_same_place(known, finding)
                && finding.ranks().iter().all(|rank| !known.is_about(*rank))
        });
        match known {
            Some(known) => known.finding.ranks_with_other_values.extend(finding.ranks()),
            None => gathered.push(found),
        }
    }
    for Found { finding, .. } in &mut gathered {
        finding.ranks_with_other_values.sort_unstable();
        let ranks = finding.ranks();
        if let Some(words) = after_rank(finding).filter(|_| ranks.len() > 1) {
            finding.text = format!("{}{words}", message::ranks_text(&ranks));
        }
        if !finding.ranks_with_other_values.is_empty() {
            let others = message::ranks_text(&finding.ranks_with_other_values);
            finding.text.push_str(&match finding.subject {
                Subject::Assert => format!("; nor does it on {others}, with other values"),
                _ => format!("; the same elements are wrong on {others}, with other values"),
            });
        }
    }
    *findings = gathered;
}

/// The rounds of findings, keyed by what is the same in all of them.
#[derive(Default)]
pub(crate) struct Rounds(BTreeMap<RoundKey, BTreeMap<String, Round>>);

/// The key of a round: step without its round, buffer and lane.
type RoundKey = (String, Option<String>, Lane);

/// The findings in one round of a step.
#[derive(Default)]
struct Round {
    /// Ranks with findings in the round.
    ranks: BTreeSet<usize>,
    /// Number of dropped findings in the round.
    dropped: u64,
}

impl Rounds {
    /// Records the round of a finding that is dropped, if it belongs to one.
    pub fn add_dropped(&mut self, priority: Priority, finding: &Finding) {
        if let Some(round) = self.add(priority, finding) {
            round.dropped += 1;
        }
    }

    fn add(&mut self, priority: Priority, finding: &Finding) -> Option<&mut Round> {
        let (key, label) = round_of(priority, finding)?;
        let round = self.0.entry(key).or_default().entry(label).or_default();
        round.ranks.extend(finding.ranks().iter().chain(&finding.ranks_with_other_values));
        Some(round)
    }
}

/// The step's label without its round.
pub(crate) fn without_round(label: &str) -> String {
    const ROUND: &str = ", round ";
    let mut parts = label.split(ROUND);
    let mut text = parts.next().unwrap_or_default().to_owned();
    parts.for_each(|part| text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit())));
    text
}

/// The round that a finding is about. Memory that no event writes is checked once: its step is the first that reads it.
fn round_of(priority: Priority, finding: &Finding) -> Option<(RoundKey, String)> {
    let is_of_event = finding.subject == Subject::Lane && priority.event() != NO_EVENT;
    let label = finding.step.clone().filter(|_| is_of_event)?;
    let step = without_round(&label);
    (step != label).then(|| ((step, finding.buffer.clone(), finding.lane), label))
}

/// True if at least `number` findings are about other rounds of this step: more would leave no room for those of other steps.
pub(crate) fn has_rounds(findings: &[Found], priority: Priority, finding: &Finding, number: usize) -> bool {
    let Some((key, _)) = round_of(priority, finding) else { return false };
    let is_other = |found: &&Found| round_of(found.priority, &found.finding).is_some_and(|(known, _)| known == key);
    findings.iter().filter(is_other).count() >= number
}

/// Of the findings on rounds of one step with the same ranks, keeps only those of the first round, with the number of rounds.
/// Returns the number of dropped findings that this covers.
pub(crate) fn gather_rounds(findings: &mut Vec<Found>, mut rounds: Rounds) -> u64 {
    for found in findings.iter() {
        rounds.add(found.priority, &found.finding);
    }
    // For each step and set of ranks, the round that represents the others.
    let mut told: BTreeMap<(RoundKey, &BTreeSet<usize>), &String> = BTreeMap::new();
    findings.retain_mut(|found| {
        let Some((key, label)) = round_of(found.priority, &found.finding) else { return true };
        let Some((of_step, (label, round))) = rounds.0.get(&key).and_then(|of| Some((of, of.get_key_value(&label)?)))
        else {
            return true;
        };
        let number = of_step.values().filter(|other| other.ranks == round.ranks).count();
        let first = *told.entry((key, &round.ranks)).or_insert(label);
        if first != label && found.finding.consequences.is_empty() {
            return false;
        }
        if first == label && number > 1 {
            found.finding.rounds = number as u64;
            found.finding.text.push_str(&format!("; wrong in {number} rounds, of which this is the first"));
        }
        true
    });
    let dropped = rounds.0.iter().flat_map(|(key, of_step)| of_step.values().map(move |round| (key, round)));
    dropped
        .filter(|(key, round)| told.contains_key(&((*key).clone(), &round.ranks)))
        .map(|(_, round)| round.dropped)
        .sum()
}
