//! The programs of all ranks become one list of steps, in which each rank keeps its own order.
//!
//! A step is what all members of a communicator make next. Where no rank can go on, the step is what some of them make next,
//! and the others are left out of it.
use super::call::Unit;
use super::comms::Comms;
use super::program::{Item, Programs, Units};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// A step: who makes it, and from which place of each program.
#[derive(Clone, Debug)]
pub struct Step {
    pub family: usize,
    /// World rank and what it makes, in rising order.
    pub parts: Vec<(usize, Item)>,
    /// Ranks without a program that take part.
    pub absent: Vec<usize>,
    /// False if ranks that the operation waits for are left out.
    pub complete: bool,
}

/// A unit without what may differ between its ranks.
type Shape = u32;

/// The state of the merge: where each rank is.
struct Heads<'a> {
    programs: &'a Programs,
    units: &'a Units,
    comms: &'a Comms,
    by_family: Vec<Vec<usize>>,
    /// By unit.
    shapes: Vec<Shape>,
    /// By unit: the communicators whose ranks must all make the same, and what.
    awaited: Vec<Vec<(usize, Shape)>>,
    at: Vec<usize>,
}

impl Heads<'_> {
    fn item(&self, rank: usize, ahead: usize) -> Option<Item> {
        self.programs.get(rank)?.as_ref()?.get(self.at[rank] + ahead).copied()
    }

    /// The first communicator and the shape of what the rank makes next, or after that.
    fn makes(&self, rank: usize, ahead: usize) -> Option<(usize, Shape)> {
        let item = self.item(rank, ahead)?;
        Some((self.units[item.unit].calls.first()?.comm, self.shapes[item.unit as usize]))
    }

    fn awaited(&self, rank: usize) -> &[(usize, Shape)] {
        self.item(rank, 0).map_or(&[], |item| &self.awaited[item.unit as usize])
    }

    fn is_absent(&self, rank: usize) -> bool {
        self.programs.get(rank).is_none_or(Option::is_none)
    }

    /// True if all members of a communicator make this next. A rank without a program has made what others have completed, unless
    /// it is part of a group with other things.
    fn is_ready(&self, comm: usize, shape: Shape) -> bool {
        let group = self.comms.group(comm);
        let done = group.iter().any(|rank| self.item(*rank, 0).is_some_and(|item| item.done));
        let is_alone = |rank: &usize| {
            let has_messages = |item: Item| self.units[item.unit].messages().next().is_some();
            self.awaited(*rank).len() <= 1 && !self.item(*rank, 0).is_some_and(has_messages)
        };
        let absent_make_it = done && group.iter().all(is_alone);
        group.iter().all(|rank| match self.item(*rank, 0) {
            Some(_) => self.awaited(*rank).contains(&(comm, shape)),
            None => self.is_absent(*rank) && absent_make_it,
        })
    }

    /// The ranks that make a collective of this rank's next unit, and those of their other ones, if all have come to it.
    fn together(&self, rank: usize) -> Option<BTreeSet<usize>> {
        let mut ranks = BTreeSet::from([rank]);
        let mut awaited = self.awaited(rank).to_vec();
        let mut at = 0;
        while let Some((comm, shape)) = awaited.get(at).copied() {
            if !self.is_ready(comm, shape) {
                return None;
            }
            for rank in self.comms.group(comm).iter().filter(|rank| !self.is_absent(**rank)) {
                ranks.insert(*rank);
                let more = self.awaited(*rank).iter().filter(|own| !awaited.contains(own)).copied();
                awaited.extend(more.collect::<Vec<_>>());
            }
            at += 1;
        }
        Some(ranks)
    }

    fn all_that_make(&self, shape: Shape) -> impl Iterator<Item = usize> {
        (0..self.programs.len()).filter(move |rank| self.makes(*rank, 0).is_some_and(|(_, own)| own == shape))
    }

    /// The steps of what these ranks make next: one for each shape, by their lowest ranks.
    fn steps(&mut self, ranks: &BTreeSet<usize>) -> Vec<Step> {
        let mut steps: BTreeMap<Shape, Step> = BTreeMap::new();
        let mut absent = BTreeSet::new();
        for rank in ranks {
            let (Some(item), Some((comm, shape))) = (self.item(*rank, 0), self.makes(*rank, 0)) else { continue };
            let awaited = self.awaited(*rank).iter().flat_map(|(comm, _)| self.comms.group(*comm));
            absent.extend(awaited.copied().filter(|rank| self.is_absent(*rank)));
            let family = self.comms.family(comm);
            let new = || Step { family, parts: Vec::new(), absent: Vec::new(), complete: true };
            steps.entry(shape).or_insert_with(new).parts.push((*rank, item));
            self.at[*rank] += 1;
        }
        let mut steps: Vec<Step> = steps.into_values().collect();
        steps.sort_by_key(|step| step.parts.first().map(|(rank, _)| *rank));
        if let Some(first) = steps.first_mut() {
            first.absent = absent.into_iter().collect();
        }
        steps
    }

    /// The next steps in which nobody is missing.
    fn whole_steps(&mut self) -> Option<Vec<Step>> {
        let (mut tried, mut some_are_ready, mut message) = (Vec::new(), None, None);
        for rank in 0..self.programs.len() {
            let Some((_, shape)) = self.makes(rank, 0) else { continue };
            if self.awaited(rank).is_empty() {
                message = message.or(Some(shape));
                continue;
            }
            if tried.contains(&shape) {
                continue;
            }
            let Some(mut ready) = self.together(rank) else { continue };
            for other in self.all_that_make(shape) {
                if !ready.contains(&other) {
                    ready.extend(self.together(other).into_iter().flatten());
                }
            }
            // Other groups of the family may come to it after something else.
            let comms = self.awaited(rank).iter().flat_map(|(comm, _)| &self.by_family[self.comms.family(*comm)]);
            let mut ranks = comms.flat_map(|comm| self.comms.group(*comm));
            if ranks.all(|rank| ready.contains(rank) || self.is_absent(*rank)) {
                return Some(self.steps(&ready));
            }
            tried.push(shape);
            some_are_ready = some_are_ready.or(Some(ready));
        }
        let ranks = message.map(|shape| self.all_that_make(shape).collect()).or(some_are_ready)?;
        Some(self.steps(&ranks))
    }

    /// What to go on with where ranks are missing: what others make after it too, so that these have left it out; of several, what
    /// most ranks make.
    fn broken_step(&mut self) -> Option<Step> {
        let next: Vec<(usize, Shape)> = (0..self.programs.len()).filter_map(|rank| self.makes(rank, 0)).collect();
        let all: HashSet<(usize, Shape)> = next.iter().copied().collect();
        // By what is made next: whether it leads on to what others make next, and how many ranks make it.
        let mut worth: HashMap<(usize, Shape), (bool, usize)> = HashMap::new();
        for rank in 0..self.programs.len() {
            let Some(makes) = self.makes(rank, 0) else { continue };
            let leads_on = self.makes(rank, 1).is_some_and(|then| then != makes && all.contains(&then));
            let (leads, ranks) = worth.entry(makes).or_default();
            (*leads, *ranks) = (*leads || leads_on, *ranks + 1);
        }
        let makes = next.iter().copied().rev().max_by_key(|makes| worth.get(makes))?;
        let ranks = (0..self.programs.len()).filter(|rank| self.makes(*rank, 0) == Some(makes)).collect();
        let step = self.steps(&ranks).pop()?;
        Some(Step { complete: false, absent: Vec::new(), ..step })
    }
}

/// Gives every step to `emit`, in order, until it returns false. `may_lack` is asked whether the programs of ranks may lack a call
/// that the others make.
pub fn merge(
    programs: &Programs,
    units: &Units,
    comms: &Comms,
    may_lack: &mut dyn FnMut(&[usize]) -> bool,
    emit: &mut dyn FnMut(Step) -> bool,
) {
    let mut known: HashMap<Unit, Shape> = HashMap::new();
    let mut number = |unit: Unit| {
        let next = known.len() as Shape;
        *known.entry(unit).or_insert(next)
    };
    let shapes = units.all().iter().map(|unit| number(unit.shape(comms))).collect();
    let mut awaited = |unit: &Unit| unit.awaited(comms).into_iter().map(|(comm, all)| (comm, number(all))).collect();
    let awaited = units.all().iter().map(&mut awaited).collect();
    let at = vec![0; programs.len()];
    let mut heads = Heads { programs, units, comms, by_family: comms.by_family(), shapes, awaited, at };
    loop {
        let steps = heads.whole_steps().or_else(|| {
            let mut step = heads.broken_step()?;
            let unit = step.parts.first()?.1.unit;
            let [(comm, _)] = heads.awaited[unit as usize][..] else { return Some(vec![step]) };
            let group = comms.group(comm);
            let makes_it = |rank: &usize| step.parts.iter().any(|(own, _)| own == rank);
            let lacking: Vec<usize> = group.iter().copied().filter(|rank| !makes_it(rank)).collect();
            if 2 * lacking.len() <= group.len() && may_lack(&lacking) {
                (step.absent, step.complete) = (lacking, true);
            }
            Some(vec![step])
        });
        let Some(steps) = steps.filter(|steps| !steps.is_empty()) else { return };
        if !steps.into_iter().all(&mut *emit) {
            return;
        }
    }
}
