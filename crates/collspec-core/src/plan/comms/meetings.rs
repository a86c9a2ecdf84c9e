//! Which calls of ranks make one communicator together. NCCL matches the calls as they come, not by their place in a program: the
//! n-th ncclCommSplit that a rank makes on a communicator meets the n-th of every other rank, each with its own colour, and an
//! id joins all calls that pass it. So the ranks of a communicator may come to it by different steps.
use super::CommId;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Calls of one kind that are numbered together, so that a rank's n-th meets the n-th of the others.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Gathering {
    /// `init` with one name, members and number of ids: they share the ids. A step's `groups` have no name.
    Init {
        name: Option<String>,
        members: Vec<usize>,
        ids: Option<u32>,
    },
    Split {
        parent: Lineage,
    },
    /// Which ranks meet is decided by those left out, in ascending order.
    Shrink {
        parent: Lineage,
        without: Vec<usize>,
    },
    Grow {
        parent: Lineage,
        with: Vec<usize>,
    },
    /// The calls that no step makes.
    Given(CommId),
}

/// Stands for a [`Gathering`].
pub(super) type GatheringId = u32;

/// Stands for a communicator by the calls that make it, so that it is the same in every unrolling of a case. A communicator's
/// number is not: it depends on how many were made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lineage(u32);

/// A rank that joins: (key, rank in the parent, world rank), so that sorting gives the order in the new communicator.
pub(super) type Joining = (i32, usize, usize);

/// For the splits that meet: the colour and place of each rank that has made its call, by world rank.
type Splits = HashMap<(GatheringId, u32), BTreeMap<usize, (i32, Joining)>>;

/// Numbers for different values, in order of their appearance.
#[derive(Clone, Debug)]
struct Numbered<T>(HashMap<T, u32>);

impl<T: Eq + Hash> Numbered<T> {
    fn of(&mut self, value: T) -> u32 {
        let next = self.0.len() as u32;
        *self.0.entry(value).or_insert(next)
    }
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

/// The calls that make communicators: those of this unrolling of the case, and the splits of the one before.
#[derive(Clone, Debug, Default)]
pub struct Meetings {
    gatherings: Numbered<Gathering>,
    lineages: Numbered<(GatheringId, u32, i32)>,
    foreseen: Splits,
    splits: Splits,
    /// The number of calls so far.
    calls: HashMap<(GatheringId, usize), u32>,
    /// Communicators, with the first of their ids.
    made: HashMap<Lineage, (CommId, u32)>,
    lineage_of: HashMap<CommId, Lineage>,
}

impl Meetings {
    /// True if all splits were foreseen as they came.
    pub fn were_foreseen(&self) -> bool {
        self.splits == self.foreseen
    }

    /// What the next unrolling of the same case can foresee.
    pub fn foresight(self) -> Self {
        Self { gatherings: self.gatherings, lineages: self.lineages, foreseen: self.splits, ..Self::default() }
    }

    pub(super) fn gathering(&mut self, gathering: Gathering) -> GatheringId {
        self.gatherings.of(gathering)
    }

    /// A rank makes its next call: its number.
    pub(super) fn next(&mut self, gathering: GatheringId, world: usize) -> u32 {
        let count = self.calls.entry((gathering, world)).or_insert(0);
        *count += 1;
        *count - 1
    }

    /// The communicator that calls of this number make, of this colour where they split one.
    pub(super) fn lineage(&mut self, gathering: GatheringId, number: u32, color: i32) -> Lineage {
        Lineage(self.lineages.of((gathering, number, color)))
    }

    pub(super) fn made(&self, lineage: Lineage) -> Option<(CommId, u32)> {
        self.made.get(&lineage).copied()
    }

    pub(super) fn makes(&mut self, lineage: Lineage, comm: CommId, id: u32) {
        self.made.insert(lineage, (comm, id));
        self.lineage_of.insert(comm, lineage);
    }

    pub(super) fn lineage_of(&mut self, comm: CommId) -> Lineage {
        match self.lineage_of.get(&comm) {
            Some(lineage) => *lineage,
            None => {
                let given = self.gathering(Gathering::Given(comm));
                self.lineage(given, 0, 0)
            }
        }
    }

    /// A rank makes its next split of a communicator: its number.
    pub(super) fn splits(&mut self, gathering: GatheringId, world: usize, color: i32, joining: Joining) -> u32 {
        let number = self.next(gathering, world);
        self.splits.entry((gathering, number)).or_default().insert(world, (color, joining));
        number
    }

    /// The rank's split of this number: its colour and place. It may be one that the unrolling has not come to yet.
    pub(super) fn split_of(&self, gathering: GatheringId, number: u32, world: usize) -> Option<(i32, Joining)> {
        let meeting = (gathering, number);
        let known = [&self.splits, &self.foreseen].into_iter().find_map(|splits| splits.get(&meeting)?.get(&world));
        known.copied()
    }
}
