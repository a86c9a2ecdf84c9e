//! Names of a run's processes and communicators that another run of the same program has too: their numbers and addresses are others.
use crate::judge::Key;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Who makes calls: the number of a process as the files have it, and its number of the GPU.
pub type Place = (u32, u32);

/// A communicator's place in the job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommName {
    /// The job's ranks that are its own, by rank. Those that are not known are missing.
    pub ranks: Vec<usize>,
    /// How many communicators of the same ranks were used before.
    pub number: usize,
}

/// A call, or the launch of one in a graph.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallName {
    pub comm: Rc<CommName>,
    /// Sender and receiver of a message.
    pub message: Option<(usize, usize)>,
    pub sequence: u64,
    pub launch: u64,
}

/// What is known of a communicator: who has each of its ranks, and each one's first call in it.
pub type Members = BTreeMap<usize, (Place, u64)>;

/// The names of all communicators by the number that their ranks share.
///
/// The job's ranks are those of the largest communicator if everyone is in it. Otherwise they follow the order in which the processes were
/// started, which launchers start by rank.
pub fn names(comms: &HashMap<u64, Members>, processes: &[String]) -> HashMap<u64, Rc<CommName>> {
    let places: BTreeSet<Place> =
        comms.values().flat_map(|members| members.values().map(|(place, _)| *place)).collect();
    let has_all = |members: &&Members| members.values().map(|(place, _)| *place).collect::<BTreeSet<_>>() == places;
    // Ranks may begin to use two communicators in different orders, so one of them decides: rank 0, or the lowest that is known.
    let first_call = |members: &Members| members.values().map(|(_, call)| *call).next();
    let world = comms.values().filter(has_all).min_by_key(|members| first_call(members));
    let ranks: HashMap<Place, usize> = match world {
        Some(world) => world.iter().map(|(rank, (place, _))| (*place, *rank)).collect(),
        None => {
            let mut places: Vec<Place> = places.into_iter().collect();
            places.sort_by_cached_key(|(process, device)| (started(processes, *process), *device));
            places.into_iter().zip(0..).collect()
        }
    };
    let ranks_of = |members: &Members| -> Vec<usize> {
        members.values().filter_map(|(place, _)| ranks.get(place).copied()).collect()
    };
    let mut order: Vec<(Vec<usize>, Option<u64>, u64)> =
        comms.iter().map(|(comm, members)| (ranks_of(members), first_call(members), *comm)).collect();
    order.sort();
    let mut names = HashMap::new();
    let mut before: Option<Rc<CommName>> = None;
    for (ranks, _, comm) in order {
        let number = before.filter(|before| before.ranks == ranks).map_or(0, |before| before.number + 1);
        let name = Rc::new(CommName { ranks, number });
        names.insert(comm, Rc::clone(&name));
        before = Some(name);
    }
    names
}

/// A process's host and number.
fn started(processes: &[String], process: u32) -> (&str, u64) {
    let name = processes.get(process as usize).map_or("", String::as_str);
    let (host, number) = name.rsplit_once(':').unwrap_or((name, ""));
    (host, number.parse().unwrap_or(u64::MAX))
}

impl CallName {
    pub fn new(comm: &Rc<CommName>, key: &Key, launch: u64) -> Self {
        let (message, sequence) = match *key {
            Key::Collective { sequence, .. } => (None, sequence),
            Key::Message { from, to, sequence, .. } => (Some((from, to)), sequence),
        };
        Self { comm: Rc::clone(comm), message, sequence, launch }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(of: &[(u32, u32, u64)]) -> Members {
        of.iter().map(|(process, device, call)| ((*process, *device), *call)).enumerate().collect()
    }

    #[test]
    fn ranks_are_those_of_the_world_and_groups_are_counted() {
        let processes: Vec<String> = ["h:30", "h:9"].map(str::to_owned).into();
        let mut comms = HashMap::from([
            (7, members(&[(1, 0, 0), (0, 0, 0)])),
            (8, members(&[(1, 0, 5), (0, 0, 5)])),
            (5, members(&[(0, 0, 3)])),
        ]);
        let all = names(&comms, &processes);
        let name = |comm: u64| (all[&comm].ranks.clone(), all[&comm].number);
        assert_eq!((name(7), name(8), name(5)), ((vec![0, 1], 0), (vec![0, 1], 1), (vec![1], 0)));
        // Without one that has all: 9 was started before 30.
        comms = HashMap::from([(5, members(&[(0, 0, 3)])), (6, members(&[(1, 0, 0)]))]);
        let all = names(&comms, &processes);
        assert_eq!((&all[&5].ranks, &all[&6].ranks), (&vec![1], &vec![0]));
    }
}
