//! The form `in_place`.
use super::super::case::{BufRef, Case, Num, NumKind, Step};
use super::walk;
use crate::ops::{Collective, InPlace, Kind, Who};
use std::collections::{HashMap, HashSet};

/// How often a program names its buffers, and which ones the file still needs at its end.
#[derive(Default)]
struct Uses {
    reads: HashMap<String, usize>,
    writes: HashMap<String, usize>,
    needed: HashSet<String>,
    asserted: HashSet<String>,
    inputs: HashSet<String>,
}

impl Uses {
    fn of(case: &Case) -> Self {
        let mut uses = Self::default();
        walk::steps(case, &mut |step, _| {
            walk::reads(step, &mut |name| *uses.reads.entry(name.to_owned()).or_default() += 1);
            step.output.iter().for_each(|out| *uses.writes.entry(out.name.clone()).or_default() += 1);
        });
        for assert in &case.asserts {
            walk::names(&assert.v.node, &mut |name| _ = uses.asserted.insert(name.to_owned()));
        }
        uses.needed.extend(case.expect.iter().map(|e| e.target.name.clone()));
        uses.needed.extend(uses.asserted.iter().cloned());
        uses.inputs.extend(case.inputs.iter().map(|def| def.name.v.clone()));
        uses
    }

    /// True if the step may share memory: it alone reads `in`, which nobody looks at in the end, and it alone writes `out`.
    fn allow(&self, step: &Step, again: bool) -> bool {
        let Kind::Collective(op) = &step.op.kind else { return false };
        let whole = |part: &Option<BufRef>| part.as_ref().filter(|part| part.slice.is_none()).map(|p| p.name.clone());
        let (Some(input), Some(output)) = (whole(&step.input), whole(&step.output)) else { return false };
        let once = |uses: &HashMap<String, usize>, name: &str| uses.get(name) == Some(&1);
        op.in_place != InPlace::Never
            && step.in_place.is_none()
            && step.error.is_none()
            && !again
            && input != output
            && once(&self.reads, &input)
            && once(&self.writes, &output)
            && !self.needed.contains(&input)
            && !self.inputs.contains(&output)
            && !(shows_input(op) && self.asserted.contains(&output))
    }
}

/// True if `out` holds the rank's own input where nothing is written.
fn shows_input(op: &Collective) -> bool {
    op.in_place == InPlace::Same && op.writers == Who::Root
}

pub(super) fn lacks(case: &Case) -> Option<&'static str> {
    let uses = Uses::of(case);
    let mut found = false;
    walk::steps(case, &mut |step, again| found |= uses.allow(step, again));
    (!found).then_some("none of its steps can run in place, or they all do")
}

pub(super) fn change(case: &mut Case) {
    let uses = Uses::of(case);
    let mut shown = false;
    set(&mut case.steps, false, &uses, &mut shown);
    if shown {
        // Off the root the snapshot would show the input in place of "untouched".
        case.snapshot = Some(false);
    }
}

fn set(steps: &mut [Step], looped: bool, uses: &Uses, shown: &mut bool) {
    for step in steps {
        let again = looped || step.times.is_some();
        if uses.allow(step, again) {
            step.in_place = Some(Num { span: step.span, kind: NumKind::Int(1) });
            *shown |= matches!(&step.op.kind, Kind::Collective(op) if shows_input(op));
        }
        set(&mut step.steps, again, uses, shown);
    }
}
