//! Communicators: the world, those named in the file, and those of a step's `groups`.
use super::eval::{Names, Ranked, ranks};
use super::types::{Comm, CommId};
use crate::job::CallKind;
use crate::scenario::{Case, CommCreation, CommDef, ConfigValue, Diagnostic, NumberByRank, Span, Spanned};
use std::collections::{BTreeMap, HashMap};

mod blocking;
mod changed;
mod ids;
mod standing;

use blocking::Blocking;
pub use changed::ChangedBy;
use ids::ScalableIds;
pub use ids::id_of;
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
}

/// All communicators of a program.
#[derive(Debug)]
pub struct Comms {
    n: usize,
    /// One entry per concrete communicator; 0 is the world.
    pub list: Vec<Comm>,
    blocking: Blocking,
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

/// A rank that joins: (key, rank in the parent, world rank), so that sorting gives the order in the new communicator.
type Joining = (i32, usize, usize);

type Config = [(Spanned<String>, Spanned<ConfigValue>)];

impl Comms {
    /// The communicators at the beginning: the world, not yet used.
    pub fn new(case: &Case) -> Self {
        let n = case.world_size.value;
        let of = (0..n).map(|r| Some((0, r))).collect();
        let world = Named::new(of);
        let mut comms = Self {
            n,
            list: Vec::new(),
            blocking: Blocking::new(case),
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
        let (named, calls) = self.make(None, &lists, self.base, None)?;
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

    fn make(
        &mut self,
        name: Option<&str>,
        lists: &[Vec<usize>],
        config: Option<u32>,
        ids: Option<ScalableIds>,
    ) -> Result<(Named, Vec<(usize, CallKind)>), Diagnostic> {
        let mut named = Named::new(vec![None; self.n]);
        let mut calls = Vec::new();
        for list in lists {
            let comm = self.add(name, list.clone(), config, None);
            let id = self.ids;
            let scalable = ids.map(|ids| ids.of(list.len())).transpose()?;
            self.ids += scalable.unwrap_or(1).max(1);
            for (r, &world) in list.iter().enumerate() {
                named.of[world] = Some((comm, r));
                calls.push((
                    world,
                    CallKind::Init {
                        comm: comm as u32,
                        id,
                        ids: scalable,
                        rank: r as i32,
                        n: list.len() as i32,
                        config,
                    },
                ));
            }
        }
        Ok((named, calls))
    }

    /// Defines a named communicator; returns the calls that create it, each with its world rank. `t` is the round of `times`;
    /// on the world ranks of `failing` the call is expected to fail.
    ///
    /// # Errors
    ///
    /// A rank outside the world or in two groups, an unknown parent, or a colour or key without a usable value.
    pub fn define(
        &mut self,
        case: &Case,
        def: &CommDef,
        t: Option<u64>,
        failing: &[usize],
    ) -> Result<Vec<(usize, CallKind)>, Diagnostic> {
        let CommDef { name, creation: how, config: own, ids } = def;
        let may_fail = !failing.is_empty();
        let ids = ids.as_ref().map(|ids| ScalableIds { count: ids.value, span: ids.span, may_fail });
        let config = self.config(own, self.base);
        let (named, calls) = match how {
            CommCreation::Groups(groups) => {
                let lists = self.checked(groups)?;
                self.make(Some(&name.value), &lists, config, ids)?
            }
            CommCreation::Split { comm, color, key } => {
                self.split(case, &name.value, comm, color, key.as_ref(), config, t, failing)?
            }
            CommCreation::Shrink { .. } | CommCreation::Grow { .. } => {
                return Err(Diagnostic::new(name.span, "only a step makes a communicator in this way"));
            }
        };
        self.named.insert(name.value.clone(), named);
        Ok(calls)
    }

    #[expect(clippy::too_many_arguments, reason = "the keys of one step")]
    fn split(
        &mut self,
        case: &Case,
        name: &str,
        parent: &Spanned<String>,
        color: &NumberByRank,
        key: Option<&NumberByRank>,
        config: Option<u32>,
        t: Option<u64>,
        failing: &[usize],
    ) -> Result<(Named, Vec<(usize, CallKind)>), Diagnostic> {
        let of = self.by_name(parent)?.clone();
        let mut parts: BTreeMap<(CommId, i32), Vec<Joining>> = BTreeMap::new(); // by parent and colour
        let mut asked = Vec::new();
        for world in 0..self.n {
            let Some((comm, rank)) = of.of[world] else { continue };
            let n = self.list[comm].members.len();
            let names =
                Names { rank, n, world_rank: world, world_size: self.n, t, peer: None, i: None, axes: &case.axes };
            let number = |num: &NumberByRank, what: &str| {
                let v = num.whole(&names)?;
                i32::try_from(v).map_err(|_| {
                    Diagnostic::new(num.span, format!("the {what} {v} of rank {rank} does not fit 32 bits"))
                })
            };
            let colour = number(color, "colour")?;
            if colour < -1 && !failing.contains(&world) {
                let text = format!("the colour of rank {rank} is {colour}");
                return Err(Diagnostic::new(color.span, text)
                    .help("colours count from 0; -1 is for ranks that join no new communicator"));
            }
            let order = key.map_or(Ok(rank as i32), |k| number(k, "key"))?;
            asked.push((world, comm, colour, order));
            if colour >= 0 {
                parts.entry((comm, colour)).or_default().push((order, rank, world));
            }
        }
        let mut named = Named::new(vec![None; self.n]);
        for ((parent, _), members) in &mut parts {
            members.sort_unstable();
            let comm = self.add(Some(name), members.iter().map(|m| m.2).collect(), config, Some(*parent));
            for (r, m) in members.iter().enumerate() {
                named.of[m.2] = Some((comm, r));
            }
        }
        let calls = asked
            .into_iter()
            .map(|(world, comm, color, key)| {
                let new = named.of[world].map(|(c, _)| c as u32);
                (world, CallKind::Split { parent: comm as u32, color, key, new, config })
            })
            .collect();
        Ok((named, calls))
    }
}
