//! The ranks of messages.
use super::call::Message;
use super::comms::{Comms, Family};

/// A message's communicator, sender and receiver, by their world ranks.
pub type Pair = (usize, usize, usize);

/// The world rank that is so far after this one in a communicator.
pub fn partner(group: &[usize], rank: usize, distance: usize) -> Option<usize> {
    let me = group.iter().position(|member| *member == rank)?;
    group.get((me + distance) % group.len()).copied()
}

/// The pair of a message that a rank makes.
pub fn pair(comms: &Comms, comm: usize, rank: usize, message: &Message) -> Option<Pair> {
    let other = partner(comms.group(comm), rank, message.distance)?;
    Some(if message.sends { (comm, rank, other) } else { (comm, other, rank) })
}

/// The value of `peer` for world ranks of a family: the rank at this distance after each.
pub fn peer(family: &Family, ranks: &[usize], distance: usize) -> String {
    let n = family.size();
    let before = n.saturating_sub(distance);
    let ranks: Vec<usize> = ranks.iter().filter_map(|rank| Some(family.place(*rank)?.1)).collect();
    match ranks.as_slice() {
        [rank] => ((rank + distance) % n).to_string(),
        _ if distance == 0 => "\"rank\"".to_owned(),
        ranks if ranks.iter().all(|rank| rank + distance < n) => format!("\"rank + {distance}\""),
        ranks if ranks.iter().all(|rank| *rank >= before) => format!("\"rank - {before}\""),
        _ if before < distance => format!("\"(rank - {before}) % n\""),
        _ => format!("\"(rank + {distance}) % n\""),
    }
}
