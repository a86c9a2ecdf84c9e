//! Makes a job from a plan: adds checkpoints to the programs and gives every image its place in the arena.
use crate::job::{AllocSpec, Call, CallKind, CheckpointSpec, DIGEST, Job, Ptr, RankEnd, Report, Variation};
use collspec_core::oracle::Checkpoint;
use collspec_core::plan::{Plan, Write};
use collspec_core::scenario::Placement;
use std::collections::BTreeSet;

/// Maps indices in a job's programs back to those in the plan's.
#[derive(Clone, Debug, Default)]
pub struct CallMap(Vec<Vec<u32>>);

impl CallMap {
    fn plan_index(&self, rank: usize, call: u32) -> u32 {
        // a step word may be one ahead of the last call
        let Some(calls) = self.0.get(rank) else { return call };
        calls.get(call as usize).or(calls.last()).copied().unwrap_or(call)
    }

    /// Replaces the job's call indices in a report by the plan's.
    pub fn translate(&self, report: &mut Report) {
        for (rank, report) in report.ranks.iter_mut().enumerate() {
            for (call, ..) in &mut report.codes {
                *call = self.plan_index(rank, *call);
            }
            match &mut report.end {
                RankEnd::Error { prelude: false, call: Some(call), .. } | RankEnd::Running { call } => {
                    *call = self.plan_index(rank, *call);
                }
                _ => {}
            }
        }
    }
}

/// Every image and checkpoint starts on a new cache line.
const ALIGN: u64 = 64;
/// Memory of the ranks starts on a new page.
const PAGE: u64 = 4096;

/// The place of the ranks' memory while the programs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryPlace {
    /// Outside the arena: initial images are copied out of it, and final ones into it.
    Device,
    /// In the arena itself, where this process can read it.
    Arena,
}

pub fn job(plan: &Plan, place_of: MemoryPlace, checkpoints: &[Checkpoint]) -> (Job, CallMap) {
    let mut end = 8 * plan.ranks() as u64;
    let mut place = |len: u64, align: u64| {
        let at = end.next_multiple_of(align);
        end = at + len;
        at
    };
    let allocs = plan.allocs.iter().map(|alloc| {
        let image = alloc.image();
        let in_arena = place_of == MemoryPlace::Arena && !alloc.window;
        let initial = place(image, if in_arena { PAGE } else { ALIGN });
        let last = if in_arena { initial } else { place(image, ALIGN) };
        AllocSpec { rank: alloc.rank as u32, start: alloc.start(), from_library: alloc.window, image, initial, last }
    });
    let allocs = allocs.collect();
    let mut inserts: Vec<Vec<(u32, Call)>> = vec![Vec::new(); plan.ranks()];
    let mut specs = Vec::with_capacity(checkpoints.len());
    for (index, Checkpoint { write, digest, .. }) in checkpoints.iter().enumerate() {
        let region = &write.region;
        let buffer = &plan.buffers[region.buf];
        let size = buffer.dtype.size() as u64;
        let bytes = region.len * size;
        let from = match &buffer.places[region.rank] {
            Some(place) => Ptr::At { alloc: place.alloc as u32, byte: place.offset + region.start * size },
            None => Ptr::Null,
        };
        // an empty checkpoint keeps the numbering where there is nothing to write
        let bytes = if from == Ptr::Null { 0 } else { bytes };
        let kept = if *digest { DIGEST as u64 } else { bytes };
        specs.push(CheckpointSpec { rank: region.rank as u32, bytes: kept, at: place(kept, ALIGN) });
        let step = plan.programs[region.rank].get(write.after as usize).map_or(0, |call| call.step);
        let (after, stream) = place_of_copy(&plan.programs[region.rank], write);
        let kind = CallKind::Checkpoint { from, bytes, index: index as u32, stream, digest: *digest };
        if from != Ptr::Null {
            inserts[region.rank].push((after, Call { step, tolerate: false, left_in_progress: false, kind }));
        }
    }
    let (programs, map) = plan.programs.iter().zip(inserts).map(|(program, inserts)| insert(program, inserts)).unzip();
    let job = Job {
        case: plan.case.name.clone(),
        n: plan.ranks() as u32,
        ranks: 0..plan.ranks() as u32,
        makes_ids: plan.programs.iter().zip(0u32..).find(|(program, _)| !ends(program)).map_or(0, |(_, rank)| rank),
        comms: plan.comms.iter().map(|comm| comm.members.iter().map(|&rank| rank as u32).collect()).collect(),
        left_to_abort: left_to_abort(plan),
        configs: plan.configs.clone(),
        nonblocking: plan.nonblocking.clone(),
        ids: plan.ids,
        grow_ids: plan.grow_ids,
        streams: plan.streams,
        null_stream: plan.null_stream,
        allocs,
        checkpoints: specs,
        tags: plan.tags.len() as u32,
        prelude: plan.prelude.clone(),
        programs,
        one_thread: plan.case.placement == Placement::OneThread,
        arena: end,
        reuse: None,
        variation: Variation::default(),
        words_unseen: false,
        timed: None,
        world: None,
    };
    (job, CallMap(map))
}

/// The communicators that some rank aborts, or that lose a rank.
fn left_to_abort(plan: &Plan) -> Vec<u32> {
    let (mut aborted, mut dead) = (BTreeSet::new(), BTreeSet::new());
    for call in plan.programs.iter().flatten() {
        match &call.kind {
            CallKind::Abort { comm } => _ = aborted.insert(*comm),
            CallKind::AwaitDeath { ranks, .. } => dead.extend(ranks.iter().copied()),
            _ => {}
        }
    }
    let loses_a_rank = |members: &[usize]| members.iter().any(|member| dead.contains(&(*member as u32)));
    let of = (0..).zip(&plan.comms).filter(|(index, comm)| aborted.contains(index) || loses_a_rank(&comm.members));
    of.map(|(index, _)| index).collect()
}

/// True if the program ends with the end of its rank's process while others continue.
fn ends(program: &[Call]) -> bool {
    matches!(program.last().map(|call| &call.kind), Some(CallKind::Exit { death: Some(_), .. }))
}

/// The call after which a copy is taken, and its stream. Results of a graph are copied after the launch.
fn place_of_copy(program: &[Call], write: &Write) -> (u32, u32) {
    match Plan::launch_of(program, write.after) {
        Some((launch, stream)) => (launch, stream),
        None => (write.after, write.stream),
    }
}

/// A worker's program: without the work of launches, and with calls inserted after the calls they name; and the origin of each call.
fn insert(program: &[Call], mut inserts: Vec<(u32, Call)>) -> (Vec<Call>, Vec<u32>) {
    inserts.sort_by_key(|(after, _)| *after);
    let mut inserts = inserts.into_iter().peekable();
    let (mut calls, mut map) = (Vec::new(), Vec::new());
    for (index, call) in program.iter().enumerate() {
        if !matches!(call.kind, CallKind::Replayed { .. }) {
            calls.push(call.clone());
            map.push(index as u32);
        }
        while let Some((_, call)) = inserts.next_if(|(after, _)| *after as usize == index) {
            calls.push(call);
            map.push(index as u32);
        }
    }
    (calls, map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Answers, RankReport};

    fn wait(step: u32) -> Call {
        Call { step, tolerate: false, left_in_progress: false, kind: CallKind::Wait { stream: None } }
    }

    #[test]
    fn inserted_calls_stand_after_theirs_and_indices_lead_back() {
        let program = [wait(0), wait(1), wait(2)];
        let (calls, map) = insert(&program, vec![(2, wait(20)), (0, wait(10)), (0, wait(11))]);
        assert_eq!(calls.iter().map(|c| c.step).collect::<Vec<_>>(), [0, 10, 11, 1, 2, 20]);
        assert_eq!(map, [0, 0, 0, 1, 2, 2]);
        let error = RankEnd::Error { prelude: false, call: Some(3), code: 5, text: String::new() };
        let prelude = RankEnd::Error { prelude: true, call: Some(3), code: 5, text: String::new() };
        let report = |end| RankReport {
            end,
            codes: vec![(4, 5, String::new())],
            figures: Vec::new(),
            answers: Answers::default(),
            times: Vec::new(),
            work: None,
            machine: None,
        };
        let mut all = Report {
            ranks: vec![report(error), report(RankEnd::Running { call: 6 }), report(prelude.clone())],
            ..Report::default()
        };
        CallMap(vec![map.clone(), map.clone(), map]).translate(&mut all);
        assert!(matches!(all.ranks[0].end, RankEnd::Error { call: Some(1), .. }));
        assert_eq!(all.ranks[0].codes[0].0, 2);
        assert_eq!(all.ranks[1].end, RankEnd::Running { call: 2 });
        assert_eq!(all.ranks[2].end, prelude);
    }
}
