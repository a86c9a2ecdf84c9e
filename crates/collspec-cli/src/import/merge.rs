//! The programs of all ranks become one list of steps, in which each rank keeps its own order.
//!
//! A step is what all members of a communicator make next. Where no rank can go on, the step is what some of them make next,
//! and the others are left out of it.
use super::call::Unit;
use super::comms::Comms;
use super::program::{Item, Programs, Units};
use std::collections::HashMap;

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
    shapes: Vec<Shape>,
    at: Vec<usize>,
}

impl Heads<'_> {
    fn item(&self, rank: usize, ahead: usize) -> Option<Item> {
        self.programs.get(rank)?.as_ref()?.get(self.at[rank] + ahead).copied()
    }

    /// The communicator and shape of what the rank makes next, or after that.
    fn makes(&self, rank: usize, ahead: usize) -> Option<(usize, Shape)> {
        let item = self.item(rank, ahead)?;
        Some((self.units[item.unit].comm, self.shapes[item.unit as usize]))
    }

    fn is_absent(&self, rank: usize) -> bool {
        self.programs.get(rank).is_none_or(Option::is_none)
    }

    /// True if all members of a communicator make this next. A rank without a program has made what others have completed.
    fn is_ready(&self, comm: usize, shape: Shape) -> bool {
        let group = self.comms.group(comm);
        let done = group.iter().any(|rank| self.item(*rank, 0).is_some_and(|item| item.done));
        group.iter().all(|rank| match self.makes(*rank, 0) {
            Some(makes) => makes == (comm, shape),
            None => self.is_absent(*rank) && done,
        })
    }

    fn ready(&self, family: usize, shape: Shape) -> Vec<usize> {
        self.by_family[family].iter().copied().filter(|comm| self.is_ready(*comm, shape)).collect()
    }

    /// The step of the ranks of these communicators that make this next.
    fn step(&mut self, family: usize, comms: &[usize], shape: Shape) -> Step {
        let mut step = Step { family, parts: Vec::new(), absent: Vec::new(), complete: true };
        for comm in comms {
            for rank in self.comms.group(*comm) {
                match self.item(*rank, 0) {
                    Some(item) if self.makes(*rank, 0) == Some((*comm, shape)) => {
                        step.parts.push((*rank, item));
                        self.at[*rank] += 1;
                    }
                    _ if self.is_absent(*rank) => step.absent.push(*rank),
                    _ => {}
                }
            }
        }
        step.parts.sort_unstable_by_key(|(rank, _)| *rank);
        step.absent.sort_unstable();
        step
    }

    /// The next step in which nobody is missing.
    fn whole_step(&mut self) -> Option<Step> {
        let mut some_are_ready: Vec<(usize, Shape)> = Vec::new();
        let mut message = None;
        for rank in 0..self.programs.len() {
            let (Some(item), Some((comm, shape))) = (self.item(rank, 0), self.makes(rank, 0)) else { continue };
            let family = self.comms.family(comm);
            if !self.units[item.unit].is_collective() {
                message = message.or(Some((family, shape)));
            } else if !some_are_ready.contains(&(family, shape)) && self.is_ready(comm, shape) {
                let ready = self.ready(family, shape);
                // Other groups of the family may come to it after something else.
                if ready.len() == self.by_family[family].len() {
                    return Some(self.step(family, &ready, shape));
                }
                some_are_ready.push((family, shape));
            }
        }
        if let Some((family, shape)) = message {
            let comms = self.by_family[family].clone();
            let step = self.step(family, &comms, shape);
            return Some(Step { absent: Vec::new(), ..step });
        }
        let (family, shape) = *some_are_ready.first()?;
        let ready = self.ready(family, shape);
        Some(self.step(family, &ready, shape))
    }

    /// What to go on with where ranks are missing: what others make after it too, so that these have left it out; of several, what
    /// most ranks make.
    fn broken_step(&mut self) -> Option<Step> {
        let next: Vec<(usize, Shape)> = (0..self.programs.len()).filter_map(|rank| self.makes(rank, 0)).collect();
        let leads_on = |makes: (usize, Shape)| {
            let of = (0..self.programs.len()).filter(|rank| self.makes(*rank, 0) == Some(makes));
            let mut then = of.filter_map(|rank| self.makes(rank, 1));
            then.any(|then| then != makes && next.contains(&then))
        };
        let ranks = |makes: (usize, Shape)| next.iter().filter(|other| **other == makes).count();
        let (comm, shape) = next.iter().copied().rev().max_by_key(|makes| (leads_on(*makes), ranks(*makes)))?;
        let step = self.step(self.comms.family(comm), &[comm], shape);
        Some(Step { complete: false, absent: Vec::new(), ..step })
    }
}

/// Gives every step to `emit`, in order, until it returns false. In `may_lack` calls a rank may be missing because its program is
/// damaged.
pub fn merge(programs: &Programs, units: &Units, comms: &Comms, mut may_lack: u64, emit: &mut dyn FnMut(Step) -> bool) {
    let mut known: HashMap<Unit, Shape> = HashMap::new();
    let shapes = units.all().iter().map(|unit| {
        let next = known.len() as Shape;
        *known.entry(unit.shape(comms.family(unit.comm))).or_insert(next)
    });
    let shapes = shapes.collect();
    let at = vec![0; programs.len()];
    let mut heads = Heads { programs, units, comms, by_family: comms.by_family(), shapes, at };
    loop {
        let step = heads.whole_step().or_else(|| {
            let mut step = heads.broken_step()?;
            let comm = heads.units[step.parts.first()?.1.unit].comm;
            let group = comms.group(comm);
            let lacking = group.len() - step.parts.len().min(group.len());
            if lacking as u64 <= may_lack && 2 * lacking <= group.len() {
                may_lack -= lacking as u64;
                let makes_it = |rank: &usize| step.parts.iter().any(|(own, _)| own == rank);
                step.absent = group.iter().copied().filter(|rank| !makes_it(rank)).collect();
                step.complete = true;
            }
            Some(step)
        });
        // A rank that is not a member of its own communicator can make nothing.
        let Some(step) = step.filter(|step| !step.parts.is_empty()) else { return };
        if !emit(step) {
            return;
        }
    }
}
