//! The form `in_place`, which makes input and output share memory.
use super::super::case::{Case, CollectiveStep, NumberByRank, NumberByRankKind, Step, StepKind};
use super::visit;
use crate::ops::{Collective, InPlace, Who};
use std::collections::{HashMap, HashSet};

/// The number of reads and writes of each buffer, and the buffers that the file uses at the end.
#[derive(Default)]
struct BufferUses {
    reads: HashMap<String, usize>,
    writes: HashMap<String, usize>,
    needed: HashSet<String>,
    asserted: HashSet<String>,
    inputs: HashSet<String>,
}

impl BufferUses {
    fn of(case: &Case) -> Self {
        let mut uses = Self::default();
        visit::steps(case, &mut |step, _| {
            visit::reads(step, &mut |name| *uses.reads.entry(name.to_owned()).or_default() += 1);
            step.output().into_iter().for_each(|out| *uses.writes.entry(out.name.clone()).or_default() += 1);
        });
        for assert in &case.asserts {
            uses.asserted.extend(assert.value.names().into_iter().map(str::to_owned));
        }
        uses.needed.extend(case.expect.iter().map(|e| e.target.name.clone()));
        uses.needed.extend(uses.asserted.iter().cloned());
        uses.inputs.extend(case.inputs.iter().map(|def| def.name.value.clone()));
        uses
    }

    /// True if the step may run in place: only it reads `in`, whose final contents are not used, and only it writes `out`.
    fn allow(&self, step: &Step, again: bool) -> bool {
        let StepKind::Collective(collective) = &step.kind else { return false };
        let CollectiveStep { op, input, output: Some(output), in_place: None, .. } = collective else { return false };
        let whole = input.slice.is_none() && output.slice.is_none();
        let (input, output) = (&input.name, &output.name);
        let once = |uses: &HashMap<String, usize>, name: &str| uses.get(name) == Some(&1);
        op.in_place != InPlace::Never
            && whole
            && step.error.is_none()
            && !again
            && input != output
            && once(&self.reads, input)
            && once(&self.writes, output)
            && !self.needed.contains(input)
            && !self.inputs.contains(output)
            && !(shows_input(op) && self.asserted.contains(output))
    }
}

/// True if `out` contains the rank's input on ranks where the operation writes nothing.
fn shows_input(op: &Collective) -> bool {
    op.in_place == InPlace::Same && op.writers == Who::Root
}

pub(super) fn inapplicable(case: &Case) -> Option<&'static str> {
    let uses = BufferUses::of(case);
    let mut found = false;
    visit::steps(case, &mut |step, again| found |= uses.allow(step, again));
    (!found).then_some("none of its steps can run in place, or they all do")
}

pub(super) fn apply(case: &mut Case) {
    let uses = BufferUses::of(case);
    let mut shown = false;
    set(&mut case.steps, false, &uses, &mut shown);
    if shown {
        // On ranks other than the root the snapshot would show the input instead of "untouched".
        case.snapshot = Some(false);
    }
}

fn set(steps: &mut [Step], looped: bool, uses: &BufferUses, shown: &mut bool) {
    for step in steps {
        let again = looped || step.times.is_some();
        let allowed = uses.allow(step, again);
        match &mut step.kind {
            StepKind::Collective(collective) if allowed => {
                collective.in_place = Some(NumberByRank { span: step.span, kind: NumberByRankKind::Int(1) });
                *shown |= shows_input(collective.op);
            }
            _ => set(step.inner_mut(), again, uses, shown),
        }
    }
}
