//! The process groups of all dumps as communicators.
use super::super::comms::Comms;
use super::super::{Error, MAX_RANKS};
use super::dump::{Dump, Group};
use super::entry::{Entry, What};
use std::collections::HashMap;
use std::sync::Arc;

/// The group of all ranks, as torch calls it.
pub const DEFAULT: &str = "default_pg";

/// Groups that calls are made in: each becomes a communicator.
const MAX_GROUPS: usize = 8_192;

/// A call with the communicator that it belongs to.
#[derive(Clone, Debug)]
pub struct Placed {
    pub comm: usize,
    /// The rank's number in the communicator.
    pub me: usize,
    pub entry: Arc<Entry>,
}

/// By world rank: its calls; `None` without a dump.
pub type Calls = Vec<Option<Vec<Placed>>>;

/// The groups of all dumps.
#[derive(Debug, Default)]
pub struct Groups {
    /// Ranks of the world.
    pub size: usize,
    /// World ranks of each group.
    pub ranks: Vec<Vec<usize>>,
    /// What torch calls it, and its description.
    names: Vec<(Arc<str>, Arc<str>)>,
    /// By name and ranks.
    known: HashMap<(Arc<str>, Vec<usize>), usize>,
    /// True if the ranks of a group were not in any dump.
    pub has_guessed: bool,
}

impl Groups {
    /// The groups of the calls of these dumps, and the calls of each rank. The world reaches to the largest rank that a dump names.
    pub fn of(mut dumps: Vec<Dump>) -> Result<(Self, Calls), Error> {
        let named = dumps.iter().flat_map(|dump| dump.groups.iter().flat_map(|group| group.ranks.iter().copied()));
        let size = named.chain(dumps.iter().map(|dump| dump.rank)).max().map_or(1, |rank| rank + 1);
        let mut groups = Self { size: size.min(MAX_RANKS), ..Self::default() };
        let mut calls: Calls = vec![None; groups.size];
        let entries: Vec<Vec<Entry>> = dumps.iter_mut().map(|dump| std::mem::take(&mut dump.entries)).collect();
        let named: Vec<HashMap<&str, &Group>> = dumps.iter().map(by_name).collect();
        for ((dump, own_groups), entries) in dumps.iter().zip(&named).zip(entries) {
            let mut known: HashMap<Arc<str>, usize> = HashMap::new();
            let mut own = Vec::with_capacity(entries.len());
            for entry in entries {
                let comm = match known.get(&entry.group) {
                    Some(comm) => *comm,
                    None => {
                        let comm = groups.find(dump.rank, own_groups, &named, &entry)?;
                        known.insert(entry.group.clone(), comm);
                        comm
                    }
                };
                own.push(groups.placed(dump.rank, comm, entry)?);
            }
            calls[dump.rank] = Some(own);
        }
        Ok((groups, calls))
    }

    /// The index of the group of an entry. Groups that do not overlap may have one name.
    fn find(
        &mut self,
        rank: usize,
        own: &HashMap<&str, &Group>,
        all: &[HashMap<&str, &Group>],
        entry: &Entry,
    ) -> Result<usize, Error> {
        let name: &str = &entry.group;
        let of_another = || all.iter().filter_map(|groups| groups.get(name)).find(|group| group.ranks.contains(&rank));
        let found = own.get(name).or_else(of_another);
        self.has_guessed |= found.is_none() && self.size > 1;
        let ranks = found.map_or_else(|| (0..self.size).collect(), |group| group.ranks.clone());
        let desc = found.map(|group| &group.desc).filter(|desc| !desc.is_empty()).unwrap_or(&entry.desc);
        let next = self.ranks.len();
        let at = *self.known.entry((entry.group.clone(), ranks.clone())).or_insert(next);
        if at == next {
            if next >= MAX_GROUPS {
                return Err(Error::Input(format!("the dumps have more than {MAX_GROUPS} groups with calls")));
            }
            self.ranks.push(ranks);
            self.names.push((entry.group.clone(), desc.clone()));
        }
        Ok(at)
    }

    fn placed(&self, rank: usize, comm: usize, entry: Entry) -> Result<Placed, Error> {
        let ranks = &self.ranks[comm];
        let me = ranks.iter().position(|member| *member == rank).ok_or_else(|| {
            let name = &entry.group;
            Error::Input(format!(
                "the dump of rank {rank} has calls of group `{name}`, whose ranks do not include {rank}: is the number at the end \
                 of the file's name the rank?"
            ))
        })?;
        match entry.what {
            What::Send(peer) | What::Recv(peer) if peer >= ranks.len() => {
                let name = &entry.name;
                Err(Error::Input(format!("the dump of rank {rank} has `{name}` in a group that has no such rank")))
            }
            _ => Ok(Placed { comm, me, entry: Arc::new(entry) }),
        }
    }

    /// The communicators: groups of one description that do not overlap share a name.
    pub fn comms(&self) -> Comms {
        let mut comms = Comms::new(self.size);
        let mut made: Vec<&str> = vec![""];
        let is_all = |ranks: &[usize]| ranks.iter().copied().eq(0..self.size);
        let all: Vec<usize> = (0..self.ranks.len()).filter(|at| is_all(&self.ranks[*at])).collect();
        let world = all.iter().find(|at| &*self.names[**at].1 == DEFAULT).or(all.first());
        for (at, (ranks, (_, desc))) in self.ranks.iter().zip(&self.names).enumerate() {
            if world == Some(&at) {
                comms.push_world();
                continue;
            }
            let word = if &**desc == "undefined" { "group" } else { desc };
            let families: Vec<usize> = (1..made.len()).filter(|family| made[*family] == &**desc).collect();
            if comms.push(ranks, &families, word, "group") == made.len() {
                made.push(desc);
            }
        }
        comms.sort();
        comms
    }

    /// How torch describes each group: `default_pg`, or what the program says; its name if it has no description.
    pub fn descriptions(&self) -> Vec<String> {
        let word = |(name, desc): &(Arc<str>, Arc<str>)| match &**desc {
            "" | "undefined" => format!("process group {name}"),
            desc => desc.to_owned(),
        };
        self.names.iter().map(word).collect()
    }

    /// The name and description of the only group, if there is one.
    pub fn only(&self) -> Option<&(Arc<str>, Arc<str>)> {
        if let [only] = self.names.as_slice() { Some(only) } else { None }
    }
}

/// The groups of a dump whose ranks it says, by name: the first of each.
fn by_name(dump: &Dump) -> HashMap<&str, &Group> {
    dump.groups.iter().rev().filter(|group| !group.ranks.is_empty()).map(|group| (&*group.name, group)).collect()
}
