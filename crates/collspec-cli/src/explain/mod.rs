//! What a case does, in words and as a picture.
//!
//! A plan's events are executed one after the other, and what they read and write on the ranks and elements that are shown becomes
//! an [`Explanation`], which does not depend on how it is drawn. Values come from the oracle, and origins from the plan's operations.
mod effects;
mod fold;
mod frame;
pub mod html;
mod outline;
mod picture;
mod reduction;
pub mod rounds;
mod style;
mod svg;
pub mod terminal;
mod words;

pub use picture::Explanation;
pub use svg::image;

use collspec_core::oracle::Walk;
use collspec_core::plan::{BufId, CommId, Event, Foresight, Plan, PlanStep, sentences};
use collspec_core::printable::thousands;
use collspec_core::scenario::{Case, Diagnostic, StepKind};
use effects::Messages;
use fold::{shown_elements, shown_ranks};
use frame::Frame;
use outline::{Outline, Unit};
use picture::{Panel, Row, StepPicture, number};
use std::collections::{BTreeMap, BTreeSet};
use words::Happening;

/// Limit on the communicators of a step that are shown.
const MOST_PANELS: usize = 4;

/// A frame's step and communicator.
type Key = (usize, Option<usize>);

/// Explains a planned case.
///
/// # Errors
///
/// A value that cannot be computed.
pub fn explain(case: &Case, plan: &Plan) -> Result<Explanation, Vec<Diagnostic>> {
    let outline = Outline::of(case, plan);
    let messages = Messages::of(plan);
    let (keys, mut frames) = frames(plan, &outline, &messages);
    let mut walk = Walk::new(plan)?;
    for (number, event) in plan.events.iter().enumerate() {
        let frame = keys.get(&number);
        if let Some(frame) = frame.and_then(|key| frames.get_mut(key)) {
            frame.before(plan, event, &walk);
        }
        walk.step()?;
        if let Some(frame) = frame.and_then(|key| frames.get_mut(key)) {
            frame.after(plan, event, &walk);
        }
    }
    let mut happenings = Happenings::of(plan, &outline);
    let mut steps = Vec::new();
    for (number, unit) in outline.units.iter().enumerate() {
        let own = frames.range((number, None)..(number + 1, None)).map(|(key, _)| *key).collect::<Vec<_>>();
        let own = own.into_iter().filter_map(|key| frames.remove(&key)).collect();
        steps.push(step(plan, unit, &mut happenings, number, own));
    }
    if outline.units.iter().any(|unit| unit.rounds > unit.shown + 1) {
        steps.extend(at_the_end(plan, &walk));
    }
    let mut explanation = Explanation { name: case.name.clone(), about: about(case, plan), steps };
    if explanation.has_rounding() {
        explanation.about.push("~: other values may be right too, because a result rounds.".into());
    }
    Ok(explanation)
}

/// A case that the plan refuses, as its file expects.
pub fn refused(case: &Case) -> Explanation {
    let mut about = about_file(case);
    about.push(
        "This case is not run: it has to be refused before it starts, and it is. `collspec run --show` says why."
            .into(),
    );
    Explanation { name: case.name.clone(), about, steps: Vec::new() }
}

/// The frames of all steps, and the events that belong to each.
fn frames(plan: &Plan, outline: &Outline<'_>, messages: &Messages) -> (BTreeMap<usize, Key>, BTreeMap<Key, Frame>) {
    let mut keys: BTreeMap<usize, Key> = BTreeMap::new();
    let mut ranks: BTreeMap<Key, (BTreeSet<usize>, Option<usize>)> = BTreeMap::new();
    for (number, event) in plan.events.iter().enumerate() {
        // What is sent is shown where it arrives.
        let arrival = match event {
            Event::Sent { message, .. } => messages.arrival(*message).and_then(|arrival| plan.events.get(arrival)),
            _ => None,
        };
        let Some(place) = outline.shown(arrival.unwrap_or(event).step()) else { continue };
        let key = (place.unit, effects::comm_of(event));
        let (ranks, root) = ranks.entry(key).or_default();
        ranks.extend(frame::ranks_of(event));
        if let Event::Collective(collective) = event
            && collective.op().rooted
        {
            let members = plan.comms.get(collective.comm()).map(|comm| &comm.members);
            *root = members.and_then(|members| members.get(collective.first.op.root())).copied();
        }
        keys.insert(number, key);
    }
    let mut frames: BTreeMap<Key, Frame> = BTreeMap::new();
    for (key, (ranks, root)) in &ranks {
        if frames.range((key.0, None)..(key.0 + 1, None)).count() < MOST_PANELS {
            frames.insert(*key, Frame::new(plan, key.1, ranks, *root));
        }
    }
    for (number, key) in &keys {
        if let Some(frame) = frames.get_mut(key) {
            frame.touch(plan, &plan.events[*number], messages);
        }
    }
    frames.values_mut().for_each(|frame| frame.choose_elements(plan));
    (keys, frames)
}

/// What happens in the steps of each unit, in the round that is shown.
struct Happenings<'a> {
    /// By unit and inner step.
    events: BTreeMap<(usize, usize), Vec<&'a Event>>,
    planned: BTreeMap<(usize, usize), &'a PlanStep>,
    comms: BTreeMap<usize, BTreeSet<CommId>>,
}

impl<'a> Happenings<'a> {
    fn of(plan: &'a Plan, outline: &Outline<'_>) -> Self {
        let (mut events, mut planned, mut comms) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        for event in &plan.events {
            let Some(place) = outline.shown(event.step()) else { continue };
            comms.entry(place.unit).or_insert_with(BTreeSet::new).extend(effects::comm_of(event));
            if let Some(inner) = place.inner {
                events.entry((place.unit, inner)).or_insert_with(Vec::new).push(event);
            }
        }
        for (id, step) in plan.steps.iter().enumerate() {
            if let Some((place, inner)) = outline.place(id as u32).and_then(|place| Some((place, place.inner?))) {
                planned.entry((place.unit, inner)).or_insert(step);
            }
        }
        Self { events, planned, comms }
    }
}

fn step(plan: &Plan, unit: &Unit<'_>, all: &mut Happenings<'_>, number: usize, frames: Vec<Frame>) -> StepPicture {
    let mut words = Vec::new();
    if matches!(unit.step.kind, StepKind::Group(_)) {
        words.push(Happening { plan, step: unit.step, planned: None, events: Vec::new() }.words());
    }
    for (inner, step) in unit.inner.iter().enumerate() {
        let key = (number, inner);
        let (planned, events) = (all.planned.remove(&key), all.events.remove(&key).unwrap_or_default());
        words.push(Happening { plan, step, planned, events }.words());
    }
    let (mut panels, mut notes) = (Vec::new(), Vec::new());
    let shown = frames.len();
    for frame in frames {
        let (panel, own) = frame.finish(plan);
        panels.extend(panel);
        notes.extend(own);
    }
    let comms = all.comms.get(&number).map_or(0, BTreeSet::len);
    if comms > shown && shown > 0 {
        notes.push(format!("… {}.", number_of(comms - shown, "more communicator")));
    }
    let more = unit.rounds.saturating_sub(unit.shown + 1);
    if more > 0 && panels.is_empty() {
        notes.push(format!("It happens {} times in all.", more + 1));
    } else if more > 0 {
        let captured = unit.inner.iter().any(|step| step.graph.is_some());
        let (what, plural) = if captured { ("launch", "launches") } else { ("round", "rounds") };
        let what = if more == 1 { what } else { plural };
        notes.push(format!(
            "This is the first {}; … {} more {what}.",
            if captured { "launch" } else { "round" },
            thousands(more as u64)
        ));
    }
    let of = match &unit.step.kind {
        StepKind::Group(_) => {
            let mut kinds: Vec<&str> = Vec::new();
            for step in &unit.inner {
                if !kinds.contains(&step.op.name) {
                    kinds.push(step.op.name);
                }
            }
            format!(" of {}", picture::list(kinds.into_iter().map(str::to_owned), 4))
        }
        _ => String::new(),
    };
    let heading = format!("Step {}: {}{of}", unit.path, unit.step.op.name);
    StepPicture { heading, words, panels, notes }
}

fn number_of(count: usize, what: &str) -> String {
    number(count as u64, what)
}

/// The buffers that were written, after all rounds.
fn at_the_end(plan: &Plan, walk: &Walk<'_>) -> Option<StepPicture> {
    let written: BTreeSet<(usize, BufId)> = plan
        .events
        .iter()
        .flat_map(Event::writes)
        .flatten()
        .map(|write| (write.region.rank, write.region.buf))
        .collect();
    let visible = |buf: &BufId| !plan.buffers[*buf].name.starts_with('#');
    let buffers: BTreeSet<BufId> = written.iter().map(|(_, buf)| *buf).filter(visible).collect();
    let all: Vec<usize> = (0..plan.n).collect();
    let shown = shown_ranks(&all, None);
    let mut rows = Vec::new();
    for rank in &shown {
        let strip = |buf: &BufId| {
            let len = plan.buffers[*buf].places.get(*rank).copied().flatten().map_or(0, |place| place.count);
            let elements = shown_elements(len, std::iter::empty());
            let cells: Vec<_> = elements
                .iter()
                .map(|at| frame::cell_of(plan, *buf, walk.element(*buf, *rank, *at), Vec::new()))
                .collect();
            frame::with_gaps(&elements, &cells)
        };
        rows.push(Row::Rank(format!("rank {rank}"), buffers.iter().map(strip).collect()));
    }
    if shown.len() < plan.n {
        let at = rows.len().saturating_sub(1);
        rows.insert(at, Row::Gap(format!("… {}", number_of(plan.n - shown.len(), "more rank"))));
    }
    let columns: Vec<String> = buffers.iter().map(|buf| words::typed(&plan.buffers[*buf])).collect();
    (!columns.is_empty()).then(|| StepPicture {
        heading: "At the end".into(),
        words: vec!["After all rounds the buffers that were written hold:".into()],
        panels: vec![Panel { title: None, columns, rows }],
        notes: Vec::new(),
    })
}

fn about_file(case: &Case) -> Vec<String> {
    case.description.iter().cloned().collect()
}

fn about(case: &Case, plan: &Plan) -> Vec<String> {
    let mut about = about_file(case);
    if !case.before.is_empty() {
        about.push("The steps of `before` run first, on communicators of their own; they are not shown.".into());
    }
    if case.form.is_some() {
        about.push("This is a form of the case in the file.".into());
    }
    let waiting = match &plan.foresight {
        Foresight::Completes => None,
        Foresight::MayBlock(waiting) => Some(("This program finishes only if sends are buffered", waiting)),
        Foresight::Stuck(waiting) => Some(("This program cannot finish, and what depends on it is not shown", waiting)),
    };
    if let Some((words, waiting)) = waiting {
        let label = |w: &collspec_core::plan::Waiting| {
            plan.steps.get(w.step as usize).map_or_else(String::new, |step| step.label.clone())
        };
        let sentences: Vec<String> = sentences(waiting, label).into_iter().take(3).collect();
        about.push(format!("{words}: {}.", sentences.join("; ")));
    }
    if let Some(reason) = &plan.undefined {
        about.push(format!("The data is not defined: {reason}."));
    }
    about
}
