//! The form `grouped`.
use super::super::case::{Case, NumKind, Ranks, Step, Where};
use super::walk;
use crate::ops::{self, CommOp, Composite, Kind, Op};
use std::collections::{HashMap, HashSet};

/// Most steps that are put into one group.
const MOST: usize = 64;

/// True for NCCL's own calls, unless one is to fail: it would make its whole group fail.
fn wraps(step: &Step) -> bool {
    let calls = match &step.op.kind {
        Kind::Collective(_) | Kind::Send | Kind::Recv | Kind::SendRecv => true,
        // A barrier's host waits for it, which it cannot inside a group.
        Kind::Composite(composite) => *composite != Composite::Barrier,
        Kind::Map | Kind::Group | Kind::Loop | Kind::Host(_) | Kind::Comm(_) | Kind::Later => false,
    };
    calls && step.error.is_none()
}

pub(super) fn lacks(case: &Case) -> Option<&'static str> {
    // Inside a group that the file has, nothing is left to do.
    fn any(steps: &[Step]) -> bool {
        steps.iter().any(|step| wraps(step) || matches!(step.op.kind, Kind::Loop) && any(&step.steps))
    }
    (!any(&case.steps)).then_some("it has no NCCL call outside a group")
}

pub(super) fn change(case: &mut Case) {
    let program = Program::of(case);
    let steps = std::mem::take(&mut case.steps);
    case.steps = program.wrapped(steps, &ops::GROUP);
    // Steps of one group begin and end together.
    walk::drop_figures(case, &["seconds"]);
}

/// Properties of a program that depend on all its steps.
struct Program {
    /// Buffers that share memory with another one because a step runs in place. All buffers with the same memory have the same
    /// representative name as value.
    shared: HashMap<String, String>,
    /// Communicators that are aborted. Which of their steps are cut short must not depend on groups.
    aborted: HashSet<String>,
}

impl Program {
    fn of(case: &Case) -> Self {
        let mut program = Self { shared: HashMap::new(), aborted: HashSet::new() };
        walk::steps(case, &mut |step, _| {
            let in_place = step.in_place.as_ref().is_some_and(|num| !matches!(num.kind, NumKind::Int(0)));
            if let (true, Some(input), Some(output)) = (in_place, &step.input, &step.output) {
                program.share(&input.name, &output.name);
            }
            if let (Kind::Comm(CommOp::Abort), Where::Comm(comm)) = (&step.op.kind, &step.place) {
                program.aborted.insert(comm.v.clone());
            }
        });
        program
    }

    fn share(&mut self, one: &str, other: &str) {
        let (one, other) = (self.memory(one).to_owned(), self.memory(other).to_owned());
        self.shared.values_mut().filter(|memory| **memory == other).for_each(|memory| memory.clone_from(&one));
        self.shared.insert(other, one.clone());
        self.shared.insert(one.clone(), one);
    }

    /// The representative name of a buffer's memory.
    fn memory<'a>(&'a self, name: &'a str) -> &'a str {
        self.shared.get(name).map_or(name, String::as_str)
    }

    fn wrapped(&self, steps: Vec<Step>, group: &'static Op) -> Vec<Step> {
        let mut out = Vec::with_capacity(steps.len());
        let mut run = Run::default();
        for mut step in steps {
            if wraps(&step) && run.takes(&step, self) {
                run.push(step, self);
                continue;
            }
            run.close(group, &mut out);
            if wraps(&step) {
                run.push(step, self);
                if run.repeats() {
                    run.close(group, &mut out);
                }
            } else {
                if matches!(step.op.kind, Kind::Loop) {
                    step.steps = self.wrapped(step.steps, group);
                }
                out.push(step);
            }
        }
        run.close(group, &mut out);
        out
    }
}

/// Neighbouring steps for one group.
#[derive(Default)]
struct Run {
    steps: Vec<Step>,
    /// Memory that the steps read, by the names that [`Program::memory`] gives.
    reads: HashSet<String>,
    writes: HashSet<String>,
}

impl Run {
    /// True if the step may join: it touches nothing that the others write and writes nothing that they touch, on the same
    /// stream and in the same communicator, and waits for no other stream, which the group's calls would then do too late.
    fn takes(&self, step: &Step, program: &Program) -> bool {
        let Some(first) = self.steps.first() else { return false };
        let same_comm = match (&first.place, &step.place) {
            (Where::Comm(a), Where::Comm(b)) => a.v == b.v && !program.aborted.contains(&a.v),
            _ => false,
        };
        let mut apart = true;
        walk::reads(step, &mut |name| apart &= !self.writes.contains(program.memory(name)));
        let output = step.output.as_ref().map(|output| program.memory(&output.name));
        apart &= output.is_none_or(|memory| !self.writes.contains(memory) && !self.reads.contains(memory));
        apart
            && same_comm
            && first.stream == step.stream
            && step.after.is_empty()
            && step.times.is_none()
            && self.steps.len() < MOST
    }

    fn push(&mut self, step: Step, program: &Program) {
        walk::reads(&step, &mut |name| _ = self.reads.insert(program.memory(name).to_owned()));
        self.writes.extend(step.output.iter().map(|output| program.memory(&output.name).to_owned()));
        self.steps.push(step);
    }

    fn repeats(&self) -> bool {
        self.steps.iter().any(|step| step.times.is_some())
    }

    /// Ends the run: its steps become a group. What repeats is the group, for a step's rounds may depend on each other.
    fn close(&mut self, group: &'static Op, out: &mut Vec<Step>) {
        let Self { mut steps, .. } = std::mem::take(self);
        let Some(first) = steps.first_mut() else { return };
        let times = first.times.take();
        let ranks = if times.is_some() { first.ranks.clone() } else { Ranks::All };
        out.push(Step {
            span: first.span,
            op: group,
            name: None,
            input: None,
            output: None,
            reduce: None,
            root: None,
            place: first.place.clone(),
            ranks,
            own_ranks: false,
            in_place: None,
            null_pointers: false,
            stream: first.stream.clone(),
            after: Vec::new(),
            times,
            error: None,
            peer: None,
            to: None,
            from: None,
            count: None,
            counts: None,
            expr: None,
            dtype: None,
            seconds: None,
            wait_stream: None,
            new: None,
            steps,
        });
    }
}
