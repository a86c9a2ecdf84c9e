//! The process groups of all dumps as communicators.
use super::super::comms::Comms;
use super::super::{Error, MAX_RANKS};
use super::dump::Dump;
use super::entry::{Entry, What};
use std::collections::HashMap;

/// The group of all ranks, as torch calls it.
const DEFAULT: &str = "default_pg";

/// A call with the communicator that it belongs to.
#[derive(Clone, Debug)]
pub struct Placed {
    pub comm: usize,
    /// The rank's number in the communicator.
    pub me: usize,
    pub entry: Entry,
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
    names: Vec<(String, String)>,
    /// True if the ranks of a group were not in any dump.
    pub has_guessed: bool,
}

impl Groups {
    /// The groups of the calls of these dumps, and the calls of each rank. The world reaches to the largest rank that a dump names.
    pub fn of(dumps: Vec<Dump>) -> Result<(Self, Calls), Error> {
        let named = dumps.iter().flat_map(|dump| dump.groups.iter().flat_map(|group| group.ranks.iter().copied()));
        let size = named.chain(dumps.iter().map(|dump| dump.rank)).max().map_or(1, |rank| rank + 1);
        let mut groups = Self { size: size.min(MAX_RANKS), ..Self::default() };
        let mut calls: Calls = vec![None; groups.size];
        // By rank and name.
        let mut known: HashMap<(usize, String), usize> = HashMap::new();
        for dump in &dumps {
            let mut own = Vec::with_capacity(dump.entries.len());
            for entry in &dump.entries {
                let key = (dump.rank, entry.group.clone());
                let comm = *known.entry(key).or_insert_with(|| groups.find(dump, &dumps, entry));
                own.push(groups.placed(dump.rank, comm, entry)?);
            }
            calls[dump.rank] = Some(own);
        }
        Ok((groups, calls))
    }

    /// The index of the group of an entry. Groups that do not overlap may have one name.
    fn find(&mut self, dump: &Dump, dumps: &[Dump], entry: &Entry) -> usize {
        let named = |dump: &Dump| {
            dump.groups.iter().find(|group| group.name == entry.group && !group.ranks.is_empty()).cloned()
        };
        let found =
            named(dump).or_else(|| dumps.iter().filter_map(named).find(|group| group.ranks.contains(&dump.rank)));
        self.has_guessed |= found.is_none() && self.size > 1;
        let (ranks, desc) =
            found.map_or_else(|| ((0..self.size).collect(), String::new()), |group| (group.ranks, group.desc));
        let desc = if desc.is_empty() { entry.desc.clone() } else { desc };
        let equal =
            self.names.iter().zip(&self.ranks).position(|((name, _), own)| *name == entry.group && *own == ranks);
        equal.unwrap_or_else(|| {
            self.ranks.push(ranks);
            self.names.push((entry.group.clone(), desc));
            self.ranks.len() - 1
        })
    }

    fn placed(&self, rank: usize, comm: usize, entry: &Entry) -> Result<Placed, Error> {
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
            _ => Ok(Placed { comm, me, entry: entry.clone() }),
        }
    }

    /// The communicators: groups of one description that do not overlap share a name.
    pub fn comms(&self) -> Comms {
        let mut comms = Comms::new(self.size);
        let mut made: Vec<&str> = vec![""];
        let is_all = |ranks: &[usize]| ranks.iter().copied().eq(0..self.size);
        let all: Vec<usize> = (0..self.ranks.len()).filter(|at| is_all(&self.ranks[*at])).collect();
        let world = all.iter().find(|at| self.names[**at].1 == DEFAULT).or(all.first());
        for (at, (ranks, (_, desc))) in self.ranks.iter().zip(&self.names).enumerate() {
            if world == Some(&at) {
                comms.push_world();
                continue;
            }
            let word = if desc == "undefined" { "group" } else { desc.as_str() };
            let families: Vec<usize> = (1..made.len()).filter(|family| made[*family] == desc).collect();
            if comms.push(ranks, &families, word, "group") == made.len() {
                made.push(desc);
            }
        }
        comms.sort();
        comms
    }

    /// The name and description of the only group, if there is one.
    pub fn only(&self) -> Option<&(String, String)> {
        if let [only] = self.names.as_slice() { Some(only) } else { None }
    }
}
