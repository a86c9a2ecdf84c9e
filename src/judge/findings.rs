//! Keeps account while a case is judged: lanes, findings, remarks.
use super::flaw::Eyes;
use super::{Finding, Lane, LaneResult};
use std::collections::BTreeMap;
use std::ops::Range;

/// Findings that are kept.
const MOST: usize = 16;
/// Stretches of wrong bytes that are kept for the snapshot.
const STRETCHES: usize = 65_536;

/// The account.
#[derive(Default)]
pub(crate) struct FindingCollector {
    /// With what is looked.
    pub eyes: Eyes,
    /// True if only the verdict counts: nothing is made out for people.
    pub bare: bool,
    lanes: BTreeMap<Lane, Account>,
    findings: Vec<(Priority, Finding)>,
    dropped: u64,
    notes: Vec<String>,
    /// Allocation and bytes of its payload that are wrong at the end.
    pub wrong: Vec<(usize, Range<u64>)>,
}

/// How early a finding is told: what a step computed wrongly first, by order of steps, then invariants, then the file's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Priority {
    /// 0 for a wrong ending, 1 for data, 2 for invariants, 3 for expectations.
    pub kind: u8,
    /// Event.
    pub event: usize,
}

#[derive(Default)]
struct Account {
    wrong: bool,
    looked_at: u64,
    note: Option<String>,
}

impl FindingCollector {
    /// For a verdict alone, by a judge with these eyes.
    pub fn bare(eyes: Eyes) -> Self {
        Self { eyes, bare: true, ..Self::default() }
    }
    /// So many things were looked at in a lane.
    pub fn looked(&mut self, lane: Lane, number: u64) {
        self.lanes.entry(lane).or_default().looked_at += number;
    }
    /// A remark on a lane; the first stays.
    pub fn remark(&mut self, lane: Lane, note: String) {
        self.lanes.entry(lane).or_default().note.get_or_insert(note);
    }
    /// A remark on the case.
    pub fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
    /// Something is wrong.
    pub fn find(&mut self, priority: Priority, finding: Finding) {
        self.lanes.entry(finding.lane).or_default().wrong = true;
        if self.findings.len() < 4 * MOST {
            self.findings.push((priority, finding));
        } else {
            self.dropped += 1;
        }
    }
    /// A lane has something wrong (which a finding will say).
    pub fn fail(&mut self, lane: Lane) {
        self.lanes.entry(lane).or_default().wrong = true;
    }
    /// Bytes at the end are wrong.
    pub fn wrong(&mut self, alloc: usize, bytes: Range<u64>) {
        if let Some((last, range)) = self.wrong.last_mut()
            && *last == alloc
            && range.end == bytes.start
        {
            range.end = bytes.end;
            return;
        }
        if self.wrong.len() < STRETCHES {
            self.wrong.push((alloc, bytes));
        }
    }
    /// True if one more finding would be shown, so that looking closer is worth its time.
    pub fn worth(&self) -> bool {
        !self.bare && self.findings.len() < MOST
    }
    /// True if nothing was found so far.
    pub fn clean(&self) -> bool {
        self.findings.is_empty()
    }
    /// True if a byte at the end is known to be wrong.
    pub fn is_wrong(&self, alloc: usize, bytes: &Range<u64>) -> bool {
        self.wrong.iter().any(|(a, range)| *a == alloc && range.start < bytes.end && bytes.start < range.end)
    }
    /// Lanes, findings (most telling first) and remarks.
    pub fn close(mut self) -> (Vec<LaneResult>, Vec<Finding>, Vec<String>) {
        let lanes = self.lanes.into_iter().map(|(lane, a)| LaneResult {
            lane,
            pass: !a.wrong,
            looked_at: a.looked_at,
            note: a.note,
        });
        self.findings.sort_by_key(|(rank, finding)| (*rank, finding.rank, finding.element));
        self.dropped += self.findings.len().saturating_sub(MOST) as u64;
        if self.dropped > 0 {
            self.notes.push(format!("{} more findings are not shown", self.dropped));
        }
        (lanes.collect(), self.findings.into_iter().map(|(_, f)| f).take(MOST).collect(), self.notes)
    }
}
