//! Collects a case's findings, the checks of each lane, and notes.
use super::indices::MAX_WRONG_RANGES;
use super::{Finding, Lane, LaneResult, Subject, merge};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Number of findings that a verdict shows.
const MAX_FINDINGS: usize = 16;
/// Findings, checks and notes of a case that is being judged.
#[derive(Default)]
pub(crate) struct FindingCollector {
    /// True if only pass or fail counts: patterns, outputs, the fingerprint and the snapshot are left out, and so are right
    /// values that only a message would need.
    pub pass_or_fail_only: bool,
    lanes: BTreeMap<Lane, LaneTally>,
    findings: Vec<Found>,
    dropped: u64,
    /// Rounds of the dropped findings, grouped by what is the same in all rounds.
    dropped_rounds: merge::Rounds,
    notes: Vec<String>,
    /// The events after which something is wrong, by rank; also those whose findings are not shown.
    wrong_events: BTreeSet<RankEvent>,
    /// Allocation, and the bytes of its payload that are wrong at the end.
    pub wrong_bytes: Vec<(usize, Range<u64>)>,
}

/// Sort key of a finding: endings, then wrong data in the order of events, then invariants, then the file's expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Priority {
    Ending,
    /// With the number of the event in the plan.
    Data(usize),
    /// With the number of the event, or [`NO_EVENT`].
    Invariant(usize),
    /// With the place among the file's expectations.
    Expectation(usize),
}

impl Priority {
    /// The number that it has.
    pub fn event(self) -> usize {
        match self {
            Self::Ending => 0,
            Self::Data(event) | Self::Invariant(event) | Self::Expectation(event) => event,
        }
    }

    /// True for two endings, two wrong results, two invariants or two expectations, whatever their numbers.
    pub fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// The event number of findings that are not about an event.
pub(crate) const NO_EVENT: usize = usize::MAX;

/// A finding, perhaps of several ranks.
#[derive(Clone)]
pub(crate) struct Found {
    /// Sort key for reports.
    pub priority: Priority,
    /// The finding as reported.
    pub finding: Finding,
    /// The event of each rank. A step that ranks do alone, such as a map, is a different event on each rank.
    pub events: Vec<RankEvent>,
}

impl Found {
    /// The part of the finding that is about the ranks of these events.
    pub fn of_ranks(&self, events: Vec<RankEvent>) -> Self {
        let mut finding = self.finding.clone();
        let mut ranks: Vec<usize> = events.iter().map(|event| event.rank).collect();
        ranks.sort_unstable();
        merge::set_ranks(&mut finding, &ranks);
        Self { priority: self.priority, finding, events }
    }
}

/// An event, by its number in the plan, and the world rank on which something is wrong after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RankEvent {
    /// The event's number in the plan.
    pub event: usize,
    /// World rank on which something is wrong.
    pub rank: usize,
}

/// Checks of one lane.
#[derive(Default)]
struct LaneTally {
    wrong: bool,
    looked_at: u64,
    note: Option<String>,
}

impl FindingCollector {
    /// A collector for which only pass or fail counts.
    pub fn pass_or_fail_only() -> Self {
        Self { pass_or_fail_only: true, ..Self::default() }
    }
    /// A collector of the same kind without findings.
    pub fn emptied(&self) -> Self {
        Self { pass_or_fail_only: self.pass_or_fail_only, ..Self::default() }
    }
    /// Counts elements or checks that a lane has compared.
    pub fn count_checked(&mut self, lane: Lane, number: u64) {
        self.lanes.entry(lane).or_default().looked_at += number;
    }
    /// Sets the note on a lane, unless it has one.
    pub fn note_on_lane(&mut self, lane: Lane, note: String) {
        self.lanes.entry(lane).or_default().note.get_or_insert(note);
    }
    /// Adds a note on the case, unless it was added before.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
    /// Adds a finding and fails its lane. If an equal finding of another rank exists, the rank is added to that one.
    pub fn add(&mut self, priority: Priority, finding: Finding) {
        self.lanes.entry(finding.lane).or_default().wrong = true;
        let same = |known: &&mut Found| {
            let expectations = !matches!(priority, Priority::Expectation(_)) || known.priority == priority;
            known.priority.is_like(priority) && expectations && merge::is_same(&known.finding, &finding)
        };
        let own = finding.rank.map(|rank| RankEvent { event: priority.event(), rank });
        self.wrong_events.extend(own.filter(|_| matches!(priority, Priority::Data(_))));
        if let Some(known) = self.findings.iter_mut().find(same) {
            known.priority = known.priority.min(priority);
            merge::keep_common_pattern(&mut known.finding, &finding);
            known.finding.other_ranks.extend(finding.rank);
            known.events.extend(own);
        } else if self.findings.len() < 4 * MAX_FINDINGS
            && !merge::has_rounds(&self.findings, priority, &finding, MAX_FINDINGS)
        {
            self.findings.push(Found { priority, finding, events: own.into_iter().collect() });
        } else {
            self.dropped += 1;
            self.dropped_rounds.add_dropped(priority, &finding);
        }
    }
    /// True if a result of the event on this rank was found wrong.
    pub fn is_wrong_after(&self, event: RankEvent) -> bool {
        self.wrong_events.contains(&event)
    }
    /// The findings so far.
    pub fn findings(&self) -> &[Found] {
        &self.findings
    }
    /// The findings so far, for changing them.
    pub fn findings_mut(&mut self) -> &mut Vec<Found> {
        &mut self.findings
    }
    /// True if every lane except the file's own expectations found nothing wrong.
    fn oracle_agrees(&self) -> bool {
        self.lanes.iter().all(|(lane, tally)| *lane == Lane::Expected || !tally.wrong)
    }
    /// Fails a lane; the finding is added separately.
    pub fn fail_lane(&mut self, lane: Lane) {
        self.lanes.entry(lane).or_default().wrong = true;
    }
    /// Marks bytes of an allocation's final payload as wrong.
    pub fn mark_wrong_bytes(&mut self, alloc: usize, bytes: Range<u64>) {
        if let Some((last, range)) = self.wrong_bytes.last_mut()
            && *last == alloc
            && range.end == bytes.start
        {
            range.end = bytes.end;
            return;
        }
        if self.wrong_bytes.len() < MAX_WRONG_RANGES {
            self.wrong_bytes.push((alloc, bytes));
        }
    }
    /// True if there is room to show one more finding.
    pub fn shows_one_more(&self) -> bool {
        self.findings.len() < MAX_FINDINGS
    }
    /// True if nothing was found wrong.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
    /// True if any of these bytes is marked as wrong.
    pub fn has_wrong_bytes(&self, alloc: usize, bytes: &Range<u64>) -> bool {
        self.wrong_bytes.iter().any(|(a, range)| *a == alloc && range.start < bytes.end && bytes.start < range.end)
    }
    /// The first of these bytes of an allocation that is wrong.
    pub fn first_wrong_byte(&self, alloc: usize, bytes: &Range<u64>) -> Option<u64> {
        let overlap = |range: &Range<u64>| range.start < bytes.end && bytes.start < range.end;
        let inside = self.wrong_bytes.iter().filter(|(a, range)| *a == alloc && overlap(range));
        inside.map(|(_, range)| range.start.max(bytes.start)).min()
    }
    /// Lanes, findings by priority, and notes.
    pub fn finish(mut self) -> (Vec<LaneResult>, Vec<Finding>, Vec<String>) {
        if !self.oracle_agrees() {
            let about_results = |finding: &Finding| matches!(finding.subject, Subject::Expect | Subject::Assert);
            let findings = self.findings.iter_mut().map(|found| &mut found.finding);
            findings.filter(|finding| about_results(finding)).for_each(|finding| finding.advice = None);
        }
        let lanes = self.lanes.into_iter().map(|(lane, a)| LaneResult {
            lane,
            pass: !a.wrong,
            looked_at: a.looked_at,
            note: a.note,
        });
        merge::gather_other_values(&mut self.findings);
        self.dropped -= merge::gather_rounds(&mut self.findings, self.dropped_rounds).min(self.dropped);
        self.dropped += self.findings.len().saturating_sub(MAX_FINDINGS) as u64;
        if self.dropped > 0 {
            self.notes.push(format!("{} more findings are not shown", self.dropped));
        }
        (lanes.collect(), self.findings.into_iter().map(|found| found.finding).take(MAX_FINDINGS).collect(), self.notes)
    }
}
