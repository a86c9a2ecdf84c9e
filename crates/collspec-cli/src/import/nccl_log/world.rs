//! The world of a log: which rank each process is, and the communicators as a scenario has them.
use super::super::MAX_RANKS;
use super::super::comms::{Comms, Family};
use super::super::per_rank::value_per_rank;
use super::processes::{LoggedComm, Processes};
use collspec_core::judge::message::ranks_text;

/// The ranks and communicators of the scenario.
#[derive(Debug)]
pub struct World {
    pub size: usize,
    /// By logged rank: its rank in the world.
    pub ranks: Vec<usize>,
    pub comms: Comms,
    /// What was guessed.
    pub remarks: Vec<String>,
}

/// Numbers the ranks by the largest communicator, and gathers communicators into families. Those that `used` says are named.
pub fn world(processes: &Processes, used: &[bool]) -> Result<World, String> {
    let largest = processes.comms.iter().map(|comm| comm.members.len()).max().unwrap_or(0);
    let (ranks, mut remarks) = numbered(processes, largest);
    let size = ranks.iter().map(|rank| rank + 1).max().unwrap_or(0).max(largest);
    if size > MAX_RANKS {
        return Err(format!("{size} ranks: a scenario has at most {MAX_RANKS}"));
    }
    let absent: Vec<usize> = (0..size).filter(|rank| !ranks.contains(rank)).collect();
    let mut guessed_members = 0;
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for comm in &processes.comms {
        let known: Vec<Option<usize>> = comm.members.iter().map(|member| member.map(|logged| ranks[logged])).collect();
        let is_world =
            known.len() == size && known.iter().enumerate().all(|(at, rank)| rank.is_none_or(|rank| rank == at));
        guessed_members += usize::from(!is_world && known.contains(&None));
        groups.push(if is_world { (0..size).collect() } else { filled(&known, &absent, size) });
    }
    if !absent.is_empty() {
        let ranks = ranks_text(&absent);
        remarks.push(format!("guessed: the log has nothing of {ranks}, which make the collectives of the others"));
    }
    if guessed_members > 0 {
        remarks.push(format!("guessed: which ranks without a log are in communicators ({guessed_members})"));
    }
    Ok(World { comms: families(processes, &groups, size, used), size, ranks, remarks })
}

/// World ranks: those in the largest communicator; more processes than it has are numbered after it.
fn numbered(processes: &Processes, largest: usize) -> (Vec<usize>, Vec<String>) {
    let mut ranks: Vec<Option<usize>> = vec![None; processes.ranks.len()];
    let of_largest: Vec<&LoggedComm> = processes.comms.iter().filter(|comm| comm.members.len() == largest).collect();
    for (number, member) in of_largest.first().iter().flat_map(|comm| &comm.members).enumerate() {
        if let Some(logged) = member {
            ranks[*logged] = Some(number);
        }
    }
    if !ranks.contains(&None) {
        return (ranks.into_iter().flatten().collect(), Vec::new());
    }
    let mut place = |logged: usize, number: usize| {
        if ranks[logged].is_none() {
            ranks[logged] = Some(number);
        }
        ranks[logged] == Some(number)
    };
    let mut after = largest..;
    for logged in of_largest.iter().skip(1).flat_map(|comm| comm.members.iter().flatten()) {
        if place(*logged, after.start) {
            after.next();
        }
    }
    // Those that no large communicator has may be its unknown members.
    let unknown = of_largest.first().map(|comm| (0..largest).filter(|number| comm.members[*number].is_none()));
    let mut free = unknown.into_iter().flatten().chain(after).peekable();
    for logged in 0..processes.ranks.len() {
        if free.peek().is_some_and(|number| place(logged, *number)) {
            free.next();
        }
    }
    let remark = "guessed: no communicator has all processes, so they are numbered as they come in the log";
    (ranks.into_iter().flatten().collect(), vec![remark.to_owned()])
}

/// The members, with ranks that have no log in the places that nothing is known of.
fn filled(known: &[Option<usize>], absent: &[usize], size: usize) -> Vec<usize> {
    let others = (0..size).filter(|rank| !absent.contains(rank));
    let mut fill = absent.iter().copied().chain(others).filter(|rank| !known.contains(&Some(*rank)));
    known.iter().map(|member| member.or_else(|| fill.next()).unwrap_or(0)).collect()
}

/// How the communicators of a family were made.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    World,
    /// By a split of a family, which has this number.
    BySplit(usize, u64),
    /// By an id: its size, and how many its ranks have made before.
    ById(usize, usize),
}

/// Communicators that were made together and do not overlap share a name.
fn families(processes: &Processes, groups: &[Vec<usize>], size: usize, used: &[bool]) -> Comms {
    let mut comms = Comms::new(size);
    let mut made = vec![Made::World];
    let mut has_world = false;
    // A communicator is needed if it is used, or one that was split out of it.
    let mut needed: Vec<bool> = used.to_vec();
    for (comm, logged) in processes.comms.iter().enumerate().rev() {
        if let Some(parent) = logged.parent.filter(|_| needed[comm]) {
            needed[parent] = true;
        }
    }
    for (comm, (logged, group)) in processes.comms.iter().zip(groups).enumerate() {
        let is_world = group.iter().copied().eq(0..size);
        if (is_world && !has_world && logged.parent.is_none()) || !needed[comm] {
            has_world |= is_world;
            comms.push_world();
            continue;
        }
        let order = |rank: &usize| processes.ranks[*rank].comms.iter().position(|other| *other == comm);
        let (own, parent) = match (logged.parent, logged.split) {
            (Some(parent), Some(number)) => {
                let parent = comms.family(parent);
                (Made::BySplit(parent, number), Some(parent))
            }
            _ => (Made::ById(group.len(), logged.members.iter().flatten().filter_map(order).min().unwrap_or(0)), None),
        };
        let families: Vec<usize> = (1..made.len()).filter(|at| made[*at] == own).collect();
        let family = comms.push(group, &families, if parent.is_some() { "split" } else { "comm" }, "comm");
        if family == made.len() {
            made.push(own);
            comms.families[family].parent = parent;
        }
    }
    comms.sort();
    for at in 1..comms.families.len() {
        let family = &comms.families[at];
        let value = family.parent.and_then(|parent| split_value(family, &comms.families[parent]));
        let family = &mut comms.families[at];
        family.parent = family.parent.filter(|_| value.is_some());
        family.value = value;
    }
    comms
}

/// The value of a split of a single communicator.
fn split_value(family: &Family, parent: &Family) -> Option<String> {
    let [from] = parent.groups.as_slice() else { return None };
    let places: Vec<Option<(usize, usize)>> = from.iter().map(|rank| family.place(*rank)).collect();
    if places.iter().flatten().count() != family.members().len() {
        return None;
    }
    let colors: Vec<i64> = places.iter().map(|place| place.map_or(-1, |(group, _)| group as i64)).collect();
    let keys: Vec<usize> = places.iter().map(|place| place.map_or(0, |(_, at)| at)).collect();
    // Without keys the ranks keep their order.
    let in_order =
        |group: usize| places.iter().flatten().filter(|(own, _)| *own == group).map(|(_, at)| at).is_sorted();
    let needs_keys = !(0..family.groups.len()).all(in_order);
    let parent = parent.key().replacen(", ", "", 1) + if parent.is_world() { "" } else { ", " };
    let key = if needs_keys { format!(", key = {}", value_per_rank(&keys)) } else { String::new() };
    Some(format!("{{ {parent}color = {}{key} }}", value_per_rank(&colors)))
}
