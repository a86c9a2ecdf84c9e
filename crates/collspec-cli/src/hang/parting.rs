//! Where the members of a communicator part: the first collective that they do not all make alike.
use super::sequences::{Member, Place};

/// The first collective of a communicator that cannot complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parting {
    /// Its members make different calls.
    Differ { at: usize },
    /// These members have made no such call, although it is known what they did.
    Lacks { at: usize, lacking: Vec<usize> },
    /// All members make it of which anything is known, but not of these.
    Unknown { at: usize, unknown: Vec<usize> },
}

impl Parting {
    pub fn at(&self) -> usize {
        match self {
            Self::Differ { at } | Self::Lacks { at, .. } | Self::Unknown { at, .. } => *at,
        }
    }
}

/// `None` if all collectives are made by all members. A call that a member has completed was made by all. Of a member whose dump is old,
/// nothing is known after its last call.
pub fn parting(members: &[Member], old: &[bool], knows_progress: bool) -> Option<Parting> {
    let known: Vec<(usize, &[Place])> =
        members.iter().filter_map(|member| Some((member.rank, member.calls.as_deref()?))).collect();
    let longest = known.iter().map(|(_, calls)| calls.len()).max()?;
    let mut waits_for_unknown = None;
    for at in 0..longest {
        let makes = || known.iter().filter_map(|(_, calls)| calls.get(at));
        let mut shapes = makes().map(|place| place.token.shape);
        let first = shapes.next();
        if shapes.any(|shape| Some(shape) != first) {
            return Some(Parting::Differ { at });
        }
        if makes().any(|place| place.done) {
            continue;
        }
        let lacks = |(rank, calls): &&(usize, &[Place])| calls.len() <= at && !old[*rank];
        let lacking: Vec<usize> = known.iter().filter(lacks).map(|(rank, _)| *rank).collect();
        if !lacking.is_empty() {
            return Some(Parting::Lacks { at, lacking });
        }
        let is_unknown =
            |member: &&Member| member.calls.as_ref().is_none_or(|calls| old[member.rank] && calls.len() <= at);
        let unknown: Vec<usize> = members.iter().filter(is_unknown).map(|member| member.rank).collect();
        // Where it is not known what was completed, the last call is the one that they may wait in.
        if (waits_for_unknown.is_none() || !knows_progress) && !unknown.is_empty() {
            waits_for_unknown = Some(Parting::Unknown { at, unknown });
        }
    }
    waits_for_unknown
}
