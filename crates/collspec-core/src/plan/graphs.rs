//! Graphs: capture is not execution. Captured items become calls without an effect between the beginning and the end of
//! their capture; after every launch come copies of them, which represent the work of the launch. These copies take part in all
//! later phases: counts, memory, races, the simulation and the oracle; only the worker does not receive them.
//!
//! A capture begins with the first step of its graph on a rank and ends with the last one before the graph is launched or
//! released. It begins on its first stream; other streams enter it through `after`, and are joined at its end.
use super::item::{Item, ItemKind, Phase, Program};
use super::limits::Limits;
use super::types::{PlanStep, StepId};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, Placement, Span, dedupe};
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet, HashMap};

pub(super) mod check;
mod copies;
mod emit;
mod registered;

pub(super) use registered::check as check_registrations;

/// One capture of a graph on one rank. A graph that was released can be captured again under its name.
#[derive(Debug)]
struct Capture {
    /// Index into [`Program::graphs`].
    name: u32,
    /// Number in the rank's program; the worker knows the graph by it.
    id: u32,
    /// Its items, by index.
    items: Vec<usize>,
    /// The stream on which it begins.
    origin: u32,
    launched: bool,
}

/// One rank's captures and launches.
#[derive(Debug, Default)]
struct Survey {
    captures: Vec<Capture>,
    /// For each item: the capture that it belongs to, launches or releases.
    of: HashMap<usize, usize>,
    /// Captures that are launched once after the last step.
    at_the_end: Vec<usize>,
}

/// Replaces captured items by captures and launches.
///
/// # Errors
///
/// Captures and launches that CUDA or NCCL refuse or leave undefined.
pub fn expand(p: &mut Program, limits: &Limits) -> Result<(), Vec<Diagnostic>> {
    p.real_streams = p.streams;
    let about_graphs = |item: &Item| {
        item.phase != Phase::Eager
            || matches!(item.kind, ItemKind::Call(CallKind::Launch { .. } | CallKind::Release { .. }))
    };
    let Some(first) = p.items.iter().flatten().find(|item| about_graphs(item)) else { return Ok(()) };
    if p.case.placement == Placement::OneThread {
        let text = "graphs cannot be used with `placement = \"one_thread\"`";
        return Err(vec![Diagnostic::new(first.span, text).help(
            "NCCL's documentation says that launches of several communicators' graphs from one thread can deadlock",
        )]);
    }
    let surveys = survey(p).map_err(dedupe)?;
    check::check(p, &surveys).map_err(dedupe)?;
    let steps = Steps::new(p, &surveys);
    emit::emit(p, &surveys, steps, limits).map_err(|d| vec![d])
}

/// Finds every rank's captures, and the target of each launch and release.
fn survey(p: &Program) -> Result<Vec<Survey>, Vec<Diagnostic>> {
    let mut diags = Vec::new();
    let named = |kind: &ItemKind| match kind {
        ItemKind::Call(CallKind::Launch { graph, .. }) => Some((*graph, true)),
        ItemKind::Call(CallKind::Release { graph }) => Some((*graph, false)),
        _ => None,
    };
    let all = || p.items.iter().flatten();
    let launched: BTreeSet<u32> =
        all().filter_map(|item| named(&item.kind)).filter(|(_, launch)| *launch).map(|(graph, _)| graph).collect();
    let captured: BTreeSet<u32> = all().filter_map(|item| item.phase.graph()).collect();
    let mut surveys = Vec::with_capacity(p.n);
    for (rank, items) in p.items.iter().enumerate() {
        let mut survey = Survey::default();
        let mut live: BTreeMap<u32, usize> = BTreeMap::new();
        for (index, item) in items.iter().enumerate() {
            if let Some(name) = item.phase.graph() {
                let at = *live.entry(name).or_insert_with(|| {
                    let id = survey.captures.len() as u32;
                    survey.captures.push(Capture { name, id, items: Vec::new(), origin: 0, launched: false });
                    survey.captures.len() - 1
                });
                if survey.captures[at].launched {
                    diags.push(captured_late(p, name, item.span));
                }
                survey.captures[at].items.push(index);
                survey.of.insert(index, at);
                continue;
            }
            let Some((name, launch)) = named(&item.kind) else { continue };
            match live.get(&name).copied() {
                Some(at) => {
                    survey.captures[at].launched |= launch;
                    survey.of.insert(index, at);
                    if !launch {
                        live.remove(&name);
                        if !survey.captures[at].launched {
                            diags.push(never_launched(p, name, rank, item.span));
                        }
                    }
                }
                None => diags.extend(not_captured(p, name, (rank, index), &captured)),
            }
        }
        for (name, at) in live {
            let capture = &mut survey.captures[at];
            if capture.launched {
                continue;
            }
            if let Some(exit) = items.last().filter(|item| item.ends_the_rank()) {
                diags.push(ends_before_launch(p, name, rank, exit.span, items[capture.items[0]].span));
            } else if launched.contains(&name) && diags.is_empty() {
                diags.push(never_launched(p, name, rank, items[capture.items[0]].span));
            }
            capture.launched = true;
            survey.at_the_end.push(at);
        }
        for capture in &mut survey.captures {
            let streams = capture.items.iter().filter_map(|index| check::stream_of(&items[*index].kind));
            capture.origin = streams.into_iter().next().unwrap_or(0);
        }
        survey.at_the_end.sort_unstable();
        surveys.push(survey);
    }
    if diags.is_empty() { Ok(surveys) } else { Err(diags) }
}

fn captured_late(p: &Program, name: u32, span: Span) -> Diagnostic {
    let name = &p.graphs[name as usize];
    Diagnostic::new(
        span,
        format!("the graph `{name}` has been launched before this step, so nothing more can be captured into it"),
    )
    .help(format!(
        "capture it under another name, or end the graph with `{{ op = \"release\", graph = \"{name}\" }}` before"
    ))
}

fn never_launched(p: &Program, name: u32, rank: usize, span: Span) -> Diagnostic {
    let text = format!("the graph `{}` is captured on rank {rank} and never launched there", p.graphs[name as usize]);
    Diagnostic::new(span, text).help("launch it, or let the ranks that launch it alone capture it")
}

fn ends_before_launch(p: &Program, name: u32, rank: usize, exit: Span, captured: Span) -> Diagnostic {
    let name = &p.graphs[name as usize];
    Diagnostic::new(exit, format!("rank {rank} ends before `{name}` is launched"))
        .related(captured, "captured here")
        .help("launch it before the `exit`, or let only ranks capture it that go on")
}

/// The reason a rank cannot launch or release a graph; `None` if only the ranks that have captured it do so.
fn not_captured(p: &Program, name: u32, (rank, index): (usize, usize), captured: &BTreeSet<u32>) -> Option<Diagnostic> {
    let text = &p.graphs[name as usize];
    let item = &p.items[rank][index];
    if !captured.contains(&name) {
        let known = captured.iter().map(|name| p.graphs[*name as usize].as_str());
        let d = Diagnostic::new(item.span, format!("no step is captured into a graph `{text}`"));
        return Some(match nearest(text, known) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("add `graph = \"{text}\"` to the steps that it is to run")),
        });
    }
    let own = p.items[rank].iter().enumerate().filter(|(_, item)| item.phase.graph() == Some(name));
    let (before, behind): (Vec<_>, Vec<_>) = own.partition(|(at, _)| *at < index);
    if let Some((_, later)) = behind.first() {
        let text = format!("the graph `{text}` is not captured yet");
        return Some(Diagnostic::new(item.span, text).related(later.span, "captured here"));
    }
    (!before.is_empty())
        .then(|| Diagnostic::new(item.span, format!("the graph `{text}` was released before this step")))
}

/// The steps of a program with those of its launches.
struct Steps {
    /// New step numbers, by old number.
    moved: Vec<StepId>,
    /// The step that represents a captured step in a launch (old numbers).
    replayed: HashMap<(StepId, StepId), StepId>,
    /// For each graph: the step that represents the launch after the last step.
    last: BTreeMap<u32, StepId>,
    list: Vec<PlanStep>,
    units: Vec<StepId>,
}

impl Steps {
    fn new(p: &Program, surveys: &[Survey]) -> Self {
        let old = p.steps.len() as StepId;
        let mut inside: BTreeMap<StepId, BTreeSet<StepId>> = BTreeMap::new();
        let mut last: BTreeMap<u32, StepId> = BTreeMap::new();
        for (items, survey) in p.items.iter().zip(surveys) {
            let captured = |at: usize| survey.captures[at].items.iter().map(|index| items[*index].step);
            for (index, at) in &survey.of {
                if let ItemKind::Call(CallKind::Launch { .. }) = items[*index].kind {
                    inside.entry(items[*index].step).or_default().extend(captured(*at));
                }
            }
            for at in &survey.at_the_end {
                let next = old + last.len() as StepId;
                let step = *last.entry(survey.captures[*at].name).or_insert(next);
                inside.entry(step).or_default().extend(captured(*at));
            }
        }
        let names: BTreeMap<StepId, u32> = last.iter().map(|(name, step)| (*step, *name)).collect();
        let mut steps = Self { moved: Vec::new(), replayed: HashMap::new(), last, list: Vec::new(), units: Vec::new() };
        for id in 0..old + names.len() as StepId {
            let step = p.steps.get(id as usize).cloned().unwrap_or_else(|| {
                let name = names.get(&id).map_or("", |name| p.graphs[*name as usize].as_str());
                let label = format!("the launch of `{name}` after the last step");
                PlanStep { span: p.case.span, label, error: Vec::new(), error_span: None }
            });
            let launch = step.label.clone();
            let number = steps.add(step);
            steps.moved.push(number);
            for captured in inside.get(&id).into_iter().flatten() {
                let Some(step) = p.steps.get(*captured as usize) else { continue };
                let label = format!("{} in {launch}", step.label);
                let number = steps.add(PlanStep { span: step.span, label, error: Vec::new(), error_span: None });
                steps.replayed.insert((id, *captured), number);
            }
        }
        for (id, unit) in p.units.iter().enumerate() {
            steps.units[steps.moved[id] as usize] = steps.moved[*unit as usize];
        }
        steps
    }

    fn add(&mut self, step: PlanStep) -> StepId {
        self.list.push(step);
        self.units.push(self.list.len() as StepId - 1);
        self.list.len() as StepId - 1
    }
}
