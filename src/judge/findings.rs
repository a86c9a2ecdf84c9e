//! Collects a case's findings, the checks of each lane, and notes.
use super::flaw::JudgeMutation;
use super::{Finding, Lane, LaneResult};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of findings that a verdict shows.
const MAX_FINDINGS: usize = 16;
/// Number of ranges of wrong bytes that are kept for the snapshot.
const MAX_WRONG_RANGES: usize = 65_536;

/// Findings, checks and notes of a case that is being judged.
#[derive(Default)]
pub(crate) struct FindingCollector {
    /// The flaw of this judge, if it has one.
    pub mutation: JudgeMutation,
    /// True if only pass or fail counts: patterns, outputs and snapshot are left out.
    pub pass_or_fail_only: bool,
    lanes: BTreeMap<Lane, LaneTally>,
    findings: Vec<(Priority, Finding)>,
    dropped: u64,
    notes: Vec<String>,
    /// Allocation, and the bytes of its payload that are wrong at the end.
    pub wrong_bytes: Vec<(usize, Range<u64>)>,
}

/// Sort key of a finding: endings, then wrong data in the order of events, then invariants, then the file's expectations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority {
    /// 0 for a wrong ending, 1 for data, 2 for invariants, 3 for expectations.
    pub kind: u8,
    /// Number of the event in the plan.
    pub event: usize,
}

/// Checks of one lane.
#[derive(Default)]
struct LaneTally {
    wrong: bool,
    looked_at: u64,
    note: Option<String>,
}

impl FindingCollector {
    /// A collector for a judge with this flaw, of which only pass or fail counts.
    pub fn pass_or_fail_only(mutation: JudgeMutation) -> Self {
        Self { mutation, pass_or_fail_only: true, ..Self::default() }
    }
    /// Counts elements or checks that a lane has compared.
    pub fn count_checked(&mut self, lane: Lane, number: u64) {
        self.lanes.entry(lane).or_default().looked_at += number;
    }
    /// Sets the note on a lane, unless it has one.
    pub fn note_on_lane(&mut self, lane: Lane, note: String) {
        self.lanes.entry(lane).or_default().note.get_or_insert(note);
    }
    /// Adds a note on the case, unless it is there already.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
    /// Adds a finding and fails its lane.
    pub fn add(&mut self, priority: Priority, finding: Finding) {
        self.lanes.entry(finding.lane).or_default().wrong = true;
        if self.findings.len() < 4 * MAX_FINDINGS {
            self.findings.push((priority, finding));
        } else {
            self.dropped += 1;
        }
    }
    /// Fails a lane; the finding follows.
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
    /// True if one more finding would be shown, so that looking for its pattern is worth the time.
    pub fn wants_pattern(&self) -> bool {
        !self.pass_or_fail_only && self.findings.len() < MAX_FINDINGS
    }
    /// True if there is no finding.
    pub fn is_empty(&self) -> bool {
        self.findings.is_empty()
    }
    /// True if any of these bytes is marked as wrong.
    pub fn has_wrong_bytes(&self, alloc: usize, bytes: &Range<u64>) -> bool {
        self.wrong_bytes.iter().any(|(a, range)| *a == alloc && range.start < bytes.end && bytes.start < range.end)
    }
    /// Lanes, findings by priority, and notes.
    pub fn finish(mut self) -> (Vec<LaneResult>, Vec<Finding>, Vec<String>) {
        let lanes = self.lanes.into_iter().map(|(lane, a)| LaneResult {
            lane,
            pass: !a.wrong,
            looked_at: a.looked_at,
            note: a.note,
        });
        self.findings.sort_by_key(|(rank, finding)| (*rank, finding.rank, finding.element));
        self.dropped += self.findings.len().saturating_sub(MAX_FINDINGS) as u64;
        if self.dropped > 0 {
            self.notes.push(format!("{} more findings are not shown", self.dropped));
        }
        (lanes.collect(), self.findings.into_iter().map(|(_, f)| f).take(MAX_FINDINGS).collect(), self.notes)
    }
}
