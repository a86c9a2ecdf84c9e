//! The steps of a file, and which of a plan's unrolled steps belong to each.
use collspec_core::ops::Kind;
use collspec_core::plan::Plan;
use collspec_core::scenario::{Case, Span, Step, StepKind};
use std::collections::HashMap;

/// A step that is explained as one: a single step, or a group with its steps.
pub struct Unit<'c> {
    /// Its number, such as `2` or `2.1` for the first step of a loop.
    pub path: String,
    /// The step itself.
    pub step: &'c Step,
    /// The steps whose operations happen in it: itself, or those of the group.
    pub inner: Vec<&'c Step>,
    /// The number of times that it runs.
    pub rounds: usize,
    /// The round that is shown: the first in which anything happens.
    pub shown: usize,
}

/// The place of a plan's step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Index of the unit.
    pub unit: usize,
    /// Index among the unit's inner steps; `None` for the group itself.
    pub inner: Option<usize>,
    pub round: usize,
}

/// The units of a case.
pub struct Outline<'c> {
    pub units: Vec<Unit<'c>>,
    /// By step of the plan.
    places: Vec<Option<Place>>,
}

impl<'c> Outline<'c> {
    pub fn of(case: &'c Case, plan: &Plan) -> Self {
        let mut units = Vec::new();
        collect(&case.steps, "", &mut units);
        let mut by_span: HashMap<Span, (usize, Option<usize>)> = HashMap::new();
        for (number, unit) in units.iter().enumerate() {
            by_span.entry(unit.step.span).or_insert((number, None));
            for (at, inner) in unit.inner.iter().enumerate() {
                let place = by_span.entry(inner.span).or_insert((number, Some(at)));
                if *place == (number, None) {
                    place.1 = Some(at);
                }
            }
        }
        let mut rounds: HashMap<Span, usize> = HashMap::new();
        let place = |step: &collspec_core::plan::PlanStep| {
            let (unit, inner) = by_span.get(&step.span).copied()?;
            let round = rounds.entry(step.span).or_default();
            *round += 1;
            Some(Place { unit, inner, round: *round - 1 })
        };
        let places: Vec<Option<Place>> = plan.steps.iter().map(place).collect();
        let mut outline = Self { units, places };
        outline.choose_rounds(plan);
        outline
    }

    /// The place of a step of the plan.
    pub fn place(&self, step: u32) -> Option<Place> {
        self.places.get(step as usize).copied().flatten()
    }

    /// The place of a step of the plan if it belongs to the round that is shown.
    pub fn shown(&self, step: u32) -> Option<Place> {
        self.place(step).filter(|place| self.units[place.unit].shown == place.round)
    }

    fn choose_rounds(&mut self, plan: &Plan) {
        for place in self.places.iter().flatten() {
            let unit = &mut self.units[place.unit];
            unit.rounds = unit.rounds.max(place.round + 1);
        }
        let mut first: HashMap<usize, usize> = HashMap::new();
        for place in plan.events.iter().filter_map(|event| self.place(event.step())) {
            let round = first.entry(place.unit).or_insert(place.round);
            *round = (*round).min(place.round);
        }
        for (unit, round) in first {
            self.units[unit].shown = round;
        }
    }
}

fn collect<'c>(steps: &'c [Step], prefix: &str, units: &mut Vec<Unit<'c>>) {
    for (at, step) in steps.iter().enumerate() {
        let path = format!("{prefix}{}", at + 1);
        match &step.kind {
            StepKind::Loop(inner) => collect(inner, &format!("{path}."), units),
            kind => {
                let inner = match kind {
                    StepKind::Group(inner) => flat(inner),
                    _ => vec![step],
                };
                units.push(Unit { path, step, inner, rounds: 0, shown: 0 });
            }
        }
    }
}

/// The steps of a group, without loops.
fn flat(steps: &[Step]) -> Vec<&Step> {
    let is_container = |step: &&Step| matches!(step.op.kind, Kind::Group | Kind::Loop);
    collspec_core::scenario::all_steps(steps).filter(|step| !is_container(step)).collect()
}
