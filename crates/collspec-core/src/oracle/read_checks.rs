//! Chooses where a run copies memory that a library call has read and that is overwritten before the end: only such a copy can
//! show if the call has changed it.
use super::interpreter::region_bytes;
use crate::job::CallKind;
use crate::plan::{CollectiveEvent, Event, Plan, RankCall, Region, Write};
use std::collections::{BTreeMap, HashMap};

/// A read after which the memory is checked.
pub(super) struct ReadCheck {
    /// The event that reads the memory.
    pub event: usize,
    /// The region, with the place where a copy is ordered. Nothing is written there.
    pub read: Write,
    /// True if the overwriting call belongs to the same launch of a graph, so that a copy is impossible.
    pub lost: bool,
}

/// The last read of memory that has not been written since, keyed by first byte, end and stream.
type OpenReads = BTreeMap<(u64, u64, u32), (usize, Write)>;

/// The last reads, on each stream, of memory that is then overwritten.
pub(super) fn read_checks(plan: &Plan) -> Vec<ReadCheck> {
    let mut open: HashMap<usize, OpenReads> = HashMap::new();
    let mut checks = Vec::new();
    for (number, event) in plan.events.iter().enumerate() {
        for write in event.writes().into_iter().flatten() {
            let Some((alloc, range)) = region_bytes(plan, write.region).filter(|(_, range)| !range.is_empty()) else {
                continue;
            };
            let Some(reads) = open.get_mut(&alloc) else { continue };
            reads.retain(|(start, end, _), (event, read)| {
                if *start >= range.end || range.start >= *end {
                    return true;
                }
                // A copy would delay the overwriting call, and hide a call that reads too late.
                if !waits_between(plan, read, &write) {
                    return false;
                }
                let launch = |write: &Write| Plan::launch_of(plan.programs.get(write.region.rank)?, write.after);
                // A check within a launch or a group is impossible.
                let lost = read.after == write.after || launch(read).is_some_and(|own| launch(&write) == Some(own));
                checks.push(ReadCheck { event: *event, read: *read, lost });
                false
            });
        }
        for (read, own) in reads(event) {
            let Some((alloc, range)) = region_bytes(plan, read.region).filter(|(_, range)| !range.is_empty()) else {
                continue;
            };
            // In place, the input has been overwritten.
            let own = own.and_then(|region| region_bytes(plan, region));
            if own.is_none_or(|(to, part)| to != alloc || range.end <= part.start || part.end <= range.start) {
                open.entry(alloc).or_default().insert((range.start, range.end, read.stream), (number, read));
            }
        }
    }
    checks.sort_by_key(|check| check.event);
    checks
}

/// True if the rank waits on the host between a read and the write that overwrites the memory.
fn waits_between(plan: &Plan, read: &Write, write: &Write) -> bool {
    let program = plan.programs.get(read.region.rank).map(Vec::as_slice).unwrap_or_default();
    let between = program.get(read.after as usize..write.after as usize).unwrap_or_default();
    between.iter().any(|call| matches!(call.kind, CallKind::Wait { .. }))
}

/// The regions that a library event reads, with the places where copies of them are in order; and what the same call writes.
fn reads(event: &Event) -> Vec<(Write, Option<Region>)> {
    let at = |region: Region, after: u32, stream: u32| Write { region, after, stream };
    match event {
        Event::Collective(CollectiveEvent { calls, .. }) => calls
            .iter()
            .filter_map(|RankCall { op, after, .. }| Some((at(op.send?, *after, op.stream), op.recv)))
            .collect(),
        Event::Sent { call, .. } => vec![(at(call.op.memory, call.after, call.op.stream), None)],
        Event::Map(_) | Event::Received { .. } | Event::Undefined { .. } => Vec::new(),
    }
}
