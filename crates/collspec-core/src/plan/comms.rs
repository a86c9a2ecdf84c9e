//! Communicators: the world, those named in the file, and those of a step's `groups`.
use super::eval::ranks;
use super::types::{Comm, CommId};
use crate::job::CallKind;
use crate::scenario::{Case, CommCreation, ConfigValue, Diagnostic, Span, Spanned};
use std::collections::{BTreeMap, HashMap};

mod blocking;
mod changed;
mod ids;
mod maker;
mod meetings;
mod split;
mod standing;

use blocking::Blocking;
pub use ids::id_of;
use ids::scalable_ids;
pub use maker::{Calls, Maker};
pub use meetings::Meetings;
use meetings::{Gathering, Lineage};
pub use standing::{Standing, Use};

/// A named communicator as seen by every rank of the world.
#[derive(Clone, Debug)]
pub struct Named {
    /// The rank's own communicator and its rank in it.
    pub of: Vec<Option<(CommId, usize)>>,
    /// The place in the file that ended it, by rank.
    pub ended: Vec<Option<Span>>,
    /// Other restrictions on its use, by rank.
    pub standing: Vec<Standing>,
}

impl Named {
    /// A communicator that every rank may use.
    pub fn new(of: Vec<Option<(CommId, usize)>>) -> Self {
        let n = of.len();
        Self { of, ended: vec![None; n], standing: vec![Standing::default(); n] }
    }

    /// Gives the name to another communicator of a rank, or to none.
    fn set(&mut self, world: usize, of: Option<(CommId, usize)>) {
        self.of[world] = of;
        self.ended[world] = None;
        self.standing[world] = Standing::default();
    }
}

/// All communicators of a program.
#[derive(Debug)]
pub struct Comms {
    n: usize,
    /// One entry per concrete communicator; 0 is the world.
    pub list: Vec<Comm>,
    blocking: Blocking,
    pub meetings: Meetings,
    named: HashMap<String, Named>,
    groups: HashMap<Vec<Vec<usize>>, Named>,
    /// The distinct configurations of communicators.
    pub configs: Vec<Vec<(String, ConfigValue)>>,
    /// Number of unique ids in use.
    pub ids: u32,
    /// Number of ids that a live communicator gives while the program runs.
    pub grow_ids: u32,
    base: Option<u32>,
    /// True once a step uses the world communicator.
    pub world_used: bool,
    world_id: u32,
    /// The communicator that the world is split out of.
    outer: Option<CommId>,
    /// Calls before the first step, by rank, except for those that create the world.
    pub prelude: Vec<Vec<CallKind>>,
}

type Config = [(Spanned<String>, Spanned<ConfigValue>)];

impl Comms {
    /// The communicators at the beginning: the world, not yet used. `meetings` has what is foreseen of calls that come later.
    pub fn new(case: &Case, meetings: Meetings) -> Self {
        let n = case.world_size.value;
        let of = (0..n).map(|r| Some((0, r))).collect();
        let world = Named::new(of);
        let mut comms = Self {
            n,
            list: Vec::new(),
            blocking: Blocking::new(case),
            meetings,
            named: HashMap::from([("world".to_owned(), world)]),
            groups: HashMap::new(),
            configs: Vec::new(),
            ids: 1,
            grow_ids: 0,
            base: None,
            world_used: false,
            world_id: 0,
            outer: None,
            prelude: vec![Vec::new(); n],
        };
        comms.base = comms.config(&case.config, None);
        comms.add(Some("world"), (0..n).collect(), comms.base, None);
        comms.outer = case.outer.as_ref().map(|outer| comms.add(None, outer.order.clone(), comms.base, None));
        comms
    }

    fn config(&mut self, own: &Config, base: Option<u32>) -> Option<u32> {
        let mut merged: BTreeMap<String, ConfigValue> = match base.and_then(|i| self.configs.get(i as usize)) {
            Some(fields) => fields.iter().cloned().collect(),
            None => BTreeMap::new(),
        };
        if own.is_empty() {
            return base;
        }
        merged.extend(own.iter().map(|(k, v)| (k.value.clone(), v.value.clone())));
        self.configs.push(merged.into_iter().collect());
        u32::try_from(self.configs.len() - 1).ok()
    }

    /// The calls that create the world, by rank, idle ranks last.
    pub fn world_calls(&self) -> Vec<Vec<CallKind>> {
        let init = |comm: CommId, rank: usize, n: usize| CallKind::Init {
            comm: comm as u32,
            id: self.world_id,
            ids: None,
            rank: rank as i32,
            n: n as i32,
            config: self.base,
        };
        let Some(outer) = self.outer else { return (0..self.n).map(|rank| vec![init(0, rank, self.n)]).collect() };
        let order = &self.list[outer].members;
        let mut calls = vec![Vec::new(); order.len()];
        for (number, &rank) in order.iter().enumerate() {
            let inside = rank < self.n;
            let split = CallKind::Split {
                parent: outer as u32,
                color: if inside { 0 } else { -1 },
                key: rank as i32,
                new: inside.then_some(0),
                config: self.base,
            };
            calls[rank] = vec![init(outer, number, order.len()), split];
        }
        calls
    }

    /// Looks up a communicator by name.
    pub fn by_name(&mut self, name: &Spanned<String>) -> Result<&Named, Diagnostic> {
        if name.value == "world" {
            self.world_used = true;
        }
        self.named.get(&name.value).ok_or_else(|| {
            Diagnostic::new(name.span, format!("there is no communicator `{}` at this point", name.value))
        })
    }

    /// For each world rank: its communicator of this name, and its rank in that communicator.
    pub fn of_name(&self, name: &str) -> Vec<Option<(CommId, usize)>> {
        self.named.get(name).map_or_else(Vec::new, |named| named.of.clone())
    }

    /// The place in the file where a rank has ended a communicator.
    pub fn ended(&self, name: &str, rank: usize) -> Option<Span> {
        self.named.get(name).and_then(|named| named.ended[rank])
    }

    /// The restrictions on a rank's use of a communicator.
    pub fn standing(&self, name: &str, rank: usize) -> Option<Standing> {
        self.named.get(name).map(|named| named.standing[rank])
    }

    /// The configuration of the world.
    pub fn world_config(&self) -> Option<u32> {
        self.base
    }

    /// The communicators of a step's `groups`; equal lists share them.
    pub fn by_groups(&mut self, groups: &Spanned<Vec<Vec<Spanned<i128>>>>) -> Result<Named, Diagnostic> {
        let lists = self.checked(groups)?;
        if let Some(named) = self.groups.get(&lists) {
            return Ok(named.clone());
        }
        let (named, calls) = self.make(None, &lists, self.base)?;
        for (rank, call) in calls {
            self.prelude[rank].push(call);
        }
        self.groups.insert(lists, named.clone());
        Ok(named)
    }

    fn checked(&self, groups: &Spanned<Vec<Vec<Spanned<i128>>>>) -> Result<Vec<Vec<usize>>, Diagnostic> {
        let mut seen: HashMap<usize, Span> = HashMap::new();
        let mut lists = Vec::new();
        for group in &groups.value {
            let mut list = Vec::new();
            for rank in group {
                let Some(r) = usize::try_from(rank.value).ok().filter(|r| *r < self.n) else {
                    let text = format!("rank {} is not in the world of {}", rank.value, ranks(self.n));
                    return Err(Diagnostic::new(rank.span, text)
                        .help(format!("ranks count from 0 to {}", self.n.saturating_sub(1))));
                };
                if let Some(first) = seen.insert(r, rank.span) {
                    let text = format!("rank {r} is in two places of `groups`");
                    return Err(Diagnostic::new(rank.span, text)
                        .related(first, "first here")
                        .help("a rank has one place in `groups`"));
                }
                list.push(r);
            }
            if !list.is_empty() {
                lists.push(list);
            }
        }
        if lists.is_empty() {
            return Err(Diagnostic::new(groups.span, "`groups` names no rank"));
        }
        Ok(lists)
    }

    /// Adds a communicator that is created with a configuration, or from a parent and with the parent's.
    fn add(&mut self, name: Option<&str>, members: Vec<usize>, config: Option<u32>, parent: Option<CommId>) -> CommId {
        self.blocking.add(config.and_then(|index| self.configs.get(index as usize)), parent);
        self.list.push(Comm { name: name.map(str::to_owned), members });
        self.list.len() - 1
    }

    /// The communicator of a lineage, or for calls that fail together that of `unmade`; with the first of its ids. `add` adds it for
    /// the first of the calls.
    fn met(
        &mut self,
        lineage: Option<Lineage>,
        unmade: &mut Option<(CommId, u32)>,
        add: impl FnOnce(&mut Self) -> (CommId, u32),
    ) -> (CommId, u32) {
        let known = lineage.map_or(*unmade, |lineage| self.meetings.made(lineage));
        known.unwrap_or_else(|| {
            let (comm, id) = add(self);
            match lineage {
                Some(lineage) => self.meetings.makes(lineage, comm, id),
                None => *unmade = Some((comm, id)),
            }
            (comm, id)
        })
    }

    /// The communicators of `lists`, for each caller in `by`, or for all ranks without one; with the calls that make them.
    fn make(
        &mut self,
        by: Option<&Maker<'_>>,
        lists: &[Vec<usize>],
        config: Option<u32>,
    ) -> Result<(Named, Calls), Diagnostic> {
        let name = by.map(|by| by.def.name.value.as_str());
        let ids = by.and_then(|by| by.def.ids.as_ref());
        let mut named = self.named_before(by);
        let mut calls = Calls::new();
        for list in lists {
            let scalable = match (ids, by) {
                (Some(ids), Some(by)) => {
                    let all_fail = !list.iter().any(|world| by.works(*world));
                    Some(scalable_ids(ids, list.len(), all_fail)?)
                }
                _ => None,
            };
            if let Some(by) = by {
                by.check_all_end_alike(list.iter().copied())?;
            }
            let gathering = self.meetings.gathering(Gathering::Init {
                name: name.map(str::to_owned),
                members: list.clone(),
                ids: scalable,
            });
            let runs = |world: &usize| by.is_none_or(|by| by.runs[*world]);
            let works = |world: usize| by.is_none_or(|by| by.works(world));
            let callers: Vec<(usize, usize, Option<u32>)> = (0..list.len())
                .zip(list.iter().copied())
                .filter(|(_, world)| runs(world))
                .map(|(rank, world)| (rank, world, works(world).then(|| self.meetings.next(gathering, world))))
                .collect();
            let first = callers.iter().find_map(|(_, _, number)| *number);
            // For calls that fail, if no other call of the step makes one.
            let mut unmade = None;
            for (rank, world, number) in callers {
                let lineage = number.or(first).map(|number| self.meetings.lineage(gathering, number, 0));
                let (comm, id) = self.met(lineage, &mut unmade, |comms| {
                    let id = comms.ids;
                    comms.ids += scalable.unwrap_or(1).max(1);
                    (comms.add(name, list.clone(), config, None), id)
                });
                self.check_blocking_agrees(by, comm, config, None)?;
                if works(world) {
                    named.set(world, Some((comm, rank)));
                }
                calls.push((
                    world,
                    CallKind::Init {
                        comm: comm as u32,
                        id,
                        ids: scalable,
                        rank: rank as i32,
                        n: list.len() as i32,
                        config,
                    },
                ));
            }
        }
        Ok((named, calls))
    }

    /// What a name stands for at this point.
    pub fn named(&self, name: &str) -> Option<Named> {
        self.named.get(name).cloned()
    }

    /// Gives a name back to what it stood for before on these ranks, on which a group that should have made a communicator has failed.
    pub fn unmake(&mut self, name: &str, before: Option<&Named>, ranks: &[usize]) {
        let Some(named) = self.named.get_mut(name).filter(|_| !ranks.is_empty()) else { return };
        for world in ranks {
            named.set(*world, None);
            if let Some(before) = before {
                named.of[*world] = before.of[*world];
                named.ended[*world] = before.ended[*world];
                named.standing[*world] = before.standing[*world];
            }
        }
        if named.of.iter().all(Option::is_none) {
            self.named.remove(name);
        }
    }

    /// What the name stands for on each rank before the step gives it to others: on ranks that do not run the step, what it has stood
    /// for so far, since each rank may come to its call by another step.
    fn named_before(&self, by: Option<&Maker<'_>>) -> Named {
        let nothing = || Named::new(vec![None; self.n]);
        let Some(by) = by else { return nothing() };
        let mut named = self.named.get(&by.def.name.value).cloned().unwrap_or_else(nothing);
        (0..self.n).filter(|world| by.works(*world)).for_each(|world| named.set(world, None));
        named
    }

    /// Defines the communicators that a step makes, or an entry of `comms`; returns the calls that make them, each with its world
    /// rank.
    ///
    /// # Errors
    ///
    /// A rank outside the world or in two groups; an unknown parent; a colour or key without a usable value; ranks that the
    /// communicator lacks or already has; no rank that leaves or remains; or calls of ranks that must not make one.
    pub fn define(&mut self, by: &Maker<'_>) -> Result<Calls, Diagnostic> {
        let config = self.config(&by.def.config, self.base);
        let (named, calls) = match &by.def.creation {
            CommCreation::Groups(groups) => {
                let lists = self.checked(groups)?;
                self.make(Some(by), &lists, config)?
            }
            CommCreation::Split { comm, color, key } => self.split(by, comm, color, key.as_ref(), config)?,
            CommCreation::Shrink { comm, without, abort } => self.shrink(by, comm, without, *abort, config)?,
            CommCreation::Grow { comm, with } => self.grow(by, comm, with, config)?,
        };
        // A split without colours gives its name to communicators of no rank. A call that fails gives it to nothing: had it the
        // name, a use of what was never made would be planned as one that works.
        let splits = matches!(by.def.creation, CommCreation::Split { .. });
        let may_be_of_none = splits && (0..self.n).any(|world| by.works(world));
        if may_be_of_none || named.of.iter().any(Option::is_some) {
            self.named.insert(by.def.name.value.clone(), named);
        }
        Ok(calls)
    }
}
