//! The form `captured`, which runs steps from graphs.
use super::super::case::{Case, Placement, Spanned, Step};
use super::visit;
use crate::ops::{self, Composite, Kind};

/// The prefix of the graphs' names.
const GRAPH: &str = "graph";

/// True for steps that a graph can run, and groups of them. A step that fails as expected would not become part of its graph.
fn can_be_captured(step: &Step) -> bool {
    let runs = match &step.op.kind {
        Kind::Collective(_) | Kind::Send | Kind::Recv | Kind::SendRecv | Kind::Map => true,
        Kind::Composite(composite) => *composite != Composite::Barrier,
        Kind::Group => !step.steps.is_empty() && step.steps.iter().all(can_be_captured),
        _ => false,
    };
    runs && step.error.is_none()
}

/// True for steps that rule out the form: other steps on a graph's streams and in its groups would need more than a graph around each.
fn stays_as_it_is(step: &Step) -> bool {
    let null_stream = step.stream == "default";
    let forks = matches!(step.op.kind, Kind::Group)
        && step.steps.iter().any(|inner| inner.stream != step.steps[0].stream || !inner.after.is_empty());
    step.graph.is_some() || null_stream || forks
}

pub(super) fn inapplicable(case: &Case) -> Option<&'static str> {
    if case.placement == Placement::OneThread {
        return Some("one thread drives all ranks");
    }
    if visit::any(case, stays_as_it_is) {
        return Some("it already has graphs, steps on the null stream, or groups over several streams");
    }
    (!visit::any(case, can_be_captured)).then_some("it has no step that can be captured")
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
        if matches!(step.op.kind, Kind::Loop) {
            step.steps = wrapped(std::mem::take(&mut step.steps), number);
        }
        out.push(step);
    }
    out
}

/// Adds a captured step, the launch of its graph, and the graph's release, each with the step's `times`.
fn in_a_graph(mut step: Step, number: usize, out: &mut Vec<Step>) {
    let (span, times) = (step.span, step.times.take());
    let (comm, ranks, stream) = (step.comm.clone(), step.ranks.clone(), step.stream.clone());
    let graph = Spanned { span, value: format!("{GRAPH}{number}") };
    let about = |op| Step { graph: Some(graph.clone()), stream: stream.clone(), ..Step::bare(op, span) };
    let launch = Step { after: std::mem::take(&mut step.after), ..about(&ops::LAUNCH) };
    let release = about(&ops::RELEASE);
    step.name = None;
    capture(&mut step, &graph);
    let steps = vec![step, launch, release];
    match times {
        Some(times) => {
            out.push(Step { comm, ranks, stream, times: Some(times), steps, ..Step::bare(&ops::LOOP, span) });
        }
        None => out.extend(steps),
    }
}

fn capture(step: &mut Step, graph: &Spanned<String>) {
    step.name = None;
    if matches!(step.op.kind, Kind::Group) {
        step.steps.iter_mut().for_each(|inner| capture(inner, graph));
    } else {
        step.graph = Some(graph.clone());
    }
}
