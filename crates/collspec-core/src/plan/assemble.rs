//! Assembles a plan from the results of the other modules.
use super::deadlock::Analysis;
use super::limits::Limits;
use super::lower::LoweredProgram;
use super::{Cost, Plan};
use crate::job::{Call, CallKind};

/// The plan, without its cost.
pub fn assemble(lowered: LoweredProgram, analysis: Analysis) -> Plan {
    let unrolled = lowered.unrolled;
    let case = unrolled.case;
    let mut comms = unrolled.comms;
    let mut prelude = std::mem::take(&mut comms.prelude);
    let mut programs = lowered.programs;
    prelude.resize(case.total_ranks(), Vec::new());
    programs.resize(case.total_ranks(), Vec::new());
    if comms.world_used {
        let world = comms.world_calls();
        for (calls, first) in prelude.iter_mut().zip(world) {
            calls.splice(0..0, first);
        }
    }
    let calls = |list: Vec<CallKind>| {
        list.into_iter().map(|kind| Call { step: 0, tolerate: false, left_in_progress: false, kind }).collect()
    };
    Plan {
        n: unrolled.n,
        buffers: lowered.placed.buffers,
        allocs: lowered.placed.allocs,
        nonblocking: comms.nonblocking(case.total_ranks()),
        comms: comms.list,
        steps: unrolled.steps,
        events: analysis.events,
        prelude: prelude.into_iter().map(calls).collect(),
        programs,
        configs: comms.configs,
        ids: comms.ids,
        grow_ids: comms.grow_ids,
        streams: unrolled.real_streams,
        null_stream: unrolled.null_stream,
        tags: unrolled.tags,
        warnings: Vec::new(),
        cost: Cost::default(),
        limits: Limits::default(),
        foresight: analysis.foresight,
        constants: lowered.constants,
        undefined: analysis.undefined,
        lost: lowered.deaths.lost,
        comm_steps: unrolled.comm_steps,
        history: None,
        case,
    }
}
