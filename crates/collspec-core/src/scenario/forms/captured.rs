//! The form `captured`, which runs steps from graphs.
use super::super::case::{Case, Placement, Spanned, Step, StepKind, all_steps};
use super::visit;
use crate::ops;

/// The prefix of the graphs' names.
const GRAPH: &str = "graph";

/// True for steps that a graph can run, and groups of them. A step that fails as expected would not become part of its graph.
fn can_be_captured(step: &Step) -> bool {
    let runs = match &step.kind {
        StepKind::Map { .. } => true,
        StepKind::Barrier => false,
        StepKind::Group(steps) => !steps.is_empty() && steps.iter().all(can_be_captured),
        _ => step.op.kind.transfers(),
    };
    runs && step.error.is_none()
}

/// True for steps that rule out the form: other steps on a graph's streams and in its groups would need more than a graph around each.
fn stays_as_it_is(step: &Step) -> bool {
    let null_stream = step.stream == "default";
    let forks = matches!(&step.kind, StepKind::Group(steps)
        if steps.iter().any(|inner| inner.stream != steps[0].stream || !inner.after.is_empty()));
    step.graph.is_some()
        || matches!(step.kind, StepKind::Launch { .. } | StepKind::Release { .. })
        || null_stream
        || forks
}

pub(super) fn inapplicable(case: &Case) -> Option<&'static str> {
    if case.placement == Placement::OneThread {
        return Some("one thread drives all ranks");
    }
    if all_steps(&case.steps).any(stays_as_it_is) {
        return Some("it already has graphs, steps on the null stream, or groups over several streams");
    }
    (!all_steps(&case.steps).any(can_be_captured)).then_some("it has no step that can be captured")
}

pub(super) fn apply(case: &mut Case) {
    let mut number = 0;
    let steps = std::mem::take(&mut case.steps);
    case.steps = wrapped(steps, &mut number);
    // The figures count calls that run when they are made.
    visit::drop_figures(case, &["seconds", "rounds", "sent", "received", "inner"]);
}

fn wrapped(steps: Vec<Step>, number: &mut usize) -> Vec<Step> {
    let mut out = Vec::with_capacity(steps.len());
    for mut step in steps {
        if can_be_captured(&step) {
            *number += 1;
            in_a_graph(step, *number, &mut out);
            continue;
        }
        if let StepKind::Loop(steps) = &mut step.kind {
            *steps = wrapped(std::mem::take(steps), number);
        }
        out.push(step);
    }
    out
}

/// Adds a captured step, the launch of its graph, and the graph's release, each with the step's `times`.
fn in_a_graph(mut step: Step, number: usize, out: &mut Vec<Step>) {
    let (span, times) = (step.span, step.times.take());
    let (comm, ranks, stream) = (step.comm.clone(), step.ranks.clone(), step.stream.clone());
    let graph = format!("{GRAPH}{number}");
    let about = |op, kind| Step { stream: stream.clone(), ..Step::bare(op, span, kind) };
    let after = std::mem::take(&mut step.after);
    let launch = Step { after, ..about(&ops::LAUNCH, StepKind::Launch { graph: graph.clone() }) };
    let release = about(&ops::RELEASE, StepKind::Release { graph: graph.clone() });
    capture(&mut step, &Spanned { span, value: graph });
    let steps = vec![step, launch, release];
    match times {
        Some(times) => {
            let whole = Step::bare(&ops::LOOP, span, StepKind::Loop(steps));
            out.push(Step { comm, ranks, stream, times: Some(times), ..whole });
        }
        None => out.extend(steps),
    }
}

fn capture(step: &mut Step, graph: &Spanned<String>) {
    step.name = None;
    match &mut step.kind {
        StepKind::Group(steps) => steps.iter_mut().for_each(|inner| capture(inner, graph)),
        _ => step.graph = Some(graph.clone()),
    }
}
