//! The form `grouped`, which puts neighbouring steps into groups.
use super::super::case::{Case, CollectiveStep, NumberByRankKind, Ranks, Step, StepComm, StepKind, all_steps};
use super::visit;
use crate::ops::{self, CommOp};
use std::collections::{HashMap, HashSet};

/// Limit on the steps that are put into one group.
const MAX_STEPS: usize = 64;

/// True for NCCL's own calls, unless one is expected to fail: it would make its whole group fail.
fn can_be_grouped(step: &Step) -> bool {
    // A barrier waits on the host, which is not possible inside a group.
    let calls = step.op.kind.transfers() && !matches!(step.kind, StepKind::Barrier);
    calls && step.error.is_none()
}

pub(super) fn inapplicable(case: &Case) -> Option<&'static str> {
    // Steps inside a group of the file stay unchanged.
    fn any(steps: &[Step]) -> bool {
        steps.iter().any(|step| can_be_grouped(step) || matches!(&step.kind, StepKind::Loop(steps) if any(steps)))
    }
    (!any(&case.steps)).then_some("it has no NCCL call outside a group")
}

pub(super) fn apply(case: &mut Case) {
    let program = SharedBuffers::of(case);
    let steps = std::mem::take(&mut case.steps);
    case.steps = program.wrapped(steps);
    // Steps of one group begin and end at the same time.
    visit::drop_figures(case, &["seconds"]);
}

/// The graph that a step is captured into.
fn graph(step: &Step) -> Option<&str> {
    step.graph.as_ref().map(|graph| graph.value.as_str())
}

/// Properties of a program that restrict its groups.
struct SharedBuffers {
    /// Buffers that share memory because a step runs in place, each with one name that represents the memory.
    shared: HashMap<String, String>,
    /// Communicators that are aborted. Groups must not change which of their steps are ended early.
    aborted: HashSet<String>,
}

impl SharedBuffers {
    fn of(case: &Case) -> Self {
        let mut program = Self { shared: HashMap::new(), aborted: HashSet::new() };
        for step in all_steps(&case.steps) {
            match (&step.kind, &step.comm) {
                (StepKind::Collective(CollectiveStep { input, output: Some(output), in_place: Some(num), .. }), _)
                    if !matches!(num.kind, NumberByRankKind::Int(0)) =>
                {
                    program.share(&input.name, &output.name);
                }
                (StepKind::Comm(CommOp::Abort), StepComm::Comm(comm)) => _ = program.aborted.insert(comm.value.clone()),
                _ => {}
            }
        }
        program
    }

    fn share(&mut self, one: &str, other: &str) {
        let (one, other) = (self.memory(one).to_owned(), self.memory(other).to_owned());
        self.shared.values_mut().filter(|memory| **memory == other).for_each(|memory| memory.clone_from(&one));
        self.shared.insert(other, one.clone());
        self.shared.insert(one.clone(), one);
    }

    /// The name that represents a buffer's memory.
    fn memory<'a>(&'a self, name: &'a str) -> &'a str {
        self.shared.get(name).map_or(name, String::as_str)
    }

    fn wrapped(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut out = Vec::with_capacity(steps.len());
        let mut run = StepRun::default();
        for mut step in steps {
            if can_be_grouped(&step) && run.can_take(&step, self) {
                run.push(step, self);
                continue;
            }
            run.close(&mut out);
            if can_be_grouped(&step) {
                run.push(step, self);
                if run.repeats() {
                    run.close(&mut out);
                }
            } else {
                if let StepKind::Loop(steps) = &mut step.kind {
                    *steps = self.wrapped(std::mem::take(steps));
                }
                out.push(step);
            }
        }
        run.close(&mut out);
        out
    }
}

/// Neighbouring steps that become one group.
#[derive(Default)]
struct StepRun {
    steps: Vec<Step>,
    /// Memory that the steps read, by the names that [`SharedBuffers::memory`] gives.
    reads: HashSet<String>,
    writes: HashSet<String>,
}

impl StepRun {
    /// True if the step may join: it does not touch what the others write and does not write what they touch, is on the same
    /// stream and in the same communicator, and does not wait for another stream, which the group's calls would then do too late.
    fn can_take(&self, step: &Step, program: &SharedBuffers) -> bool {
        let Some(first) = self.steps.first() else { return false };
        let same_comm = match (&first.comm, &step.comm) {
            (StepComm::Comm(a), StepComm::Comm(b)) => a.value == b.value && !program.aborted.contains(&a.value),
            _ => false,
        };
        let mut apart = true;
        visit::reads(step, &mut |name| apart &= !self.writes.contains(program.memory(name)));
        let output = step.output().map(|output| program.memory(&output.name));
        apart &= output.is_none_or(|memory| !self.writes.contains(memory) && !self.reads.contains(memory));
        apart
            && same_comm
            && first.stream == step.stream
            && graph(first) == graph(step)
            && step.after.is_empty()
            && step.times.is_none()
            && self.steps.len() < MAX_STEPS
    }

    fn push(&mut self, step: Step, program: &SharedBuffers) {
        visit::reads(&step, &mut |name| _ = self.reads.insert(program.memory(name).to_owned()));
        self.writes.extend(step.output().map(|output| program.memory(&output.name).to_owned()));
        self.steps.push(step);
    }

    fn repeats(&self) -> bool {
        self.steps.iter().any(|step| step.times.is_some())
    }

    /// Turns the steps into a group. `times` moves to the group, because a step's rounds may depend on each other.
    fn close(&mut self, out: &mut Vec<Step>) {
        let Self { mut steps, .. } = std::mem::take(self);
        let Some(first) = steps.first_mut() else { return };
        let (span, times) = (first.span, first.times.take());
        let ranks = if times.is_some() { first.ranks.clone() } else { Ranks::All };
        let (comm, stream) = (first.comm.clone(), first.stream.clone());
        out.push(Step { comm, ranks, stream, times, ..Step::bare(&ops::GROUP, span, StepKind::Group(steps)) });
    }
}
