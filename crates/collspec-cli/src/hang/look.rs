//! A job with everything that was found out about its calls, and what is said of them.
use super::departure::{Departure, How, departures};
use super::diagnosis::{Called, Cause, Finding};
use super::job::Job;
use super::parting::Parting;
use super::sequences::{Place, Sequences, Token, stack};
use super::waits::{LoneEnd, Waits};
use crate::import::call::{Call, Issued};
use crate::import::flight_recorder::Stack;
use crate::import::peers::partner;

/// Calls of a group that are named.
const MAX_NAMED: usize = 2;

/// A finding, and where it lies in the job.
pub struct Found {
    pub finding: Finding,
    /// A rank that does as the others do, and where in its program.
    pub like: usize,
    pub index: usize,
}

pub struct Look<'a> {
    pub job: &'a Job,
    pub sequences: Sequences,
    /// By rank: true if its dump is older than those of others.
    pub old: Vec<bool>,
    pub partings: Vec<Option<Parting>>,
    pub waits: Waits,
    /// By rank: true if its calls do not follow each other as before.
    pub novel: Vec<bool>,
}

impl Look<'_> {
    /// The members of a communicator of which something is known, with their calls in it.
    pub fn known_members(&self, comm: usize) -> Vec<(usize, &[Place])> {
        let members = self.sequences.comms[comm].iter();
        members.filter_map(|member| Some((member.rank, member.calls.as_deref()?))).collect()
    }

    /// The members that leave the others until the call at `last`.
    pub fn departed(&self, members: &[(usize, &[Place])], last: usize) -> Vec<Found> {
        let tokens = |places: &[Place]| places.iter().map(|place| place.token).collect();
        let tokens: Vec<(usize, Vec<Token>)> = members.iter().map(|(rank, places)| (*rank, tokens(places))).collect();
        let tokens: Vec<(usize, &[Token])> = tokens.iter().map(|(rank, tokens)| (*rank, tokens.as_slice())).collect();
        let left = departures(&tokens, last).into_iter();
        left.filter_map(|departure| self.left(departure, |rank, at| place_of(members, rank, at))).collect()
    }

    /// A rank that left the others. `index` is the place of a rank's call in its program.
    pub fn left(&self, departure: Departure, index: impl Fn(usize, usize) -> Option<usize>) -> Option<Found> {
        let Departure { rank, how, at, calls, others, like, is_minority } = departure;
        let (own, theirs) = (self.called(rank, index(rank, at)?), self.called(like, index(like, at)?));
        let (call, instead) = if how == How::Added { (own, theirs) } else { (theirs, own) };
        let finding = Finding::new(how.into(), vec![rank], others, call, Some(instead));
        let finding = Finding { calls, is_undecided: !is_minority, ..finding };
        Some(Found { finding, like, index: index(like, at)? })
    }

    /// Ranks that make no more calls, while others wait for them in this one.
    pub fn stopped(&self, ranks: Vec<usize>, others: Vec<usize>, like: usize, index: usize) -> Found {
        let last = ranks.first().and_then(|rank| self.last_call(*rank));
        let finding = Finding::new(Cause::Stopped, ranks, others, self.called(like, index), last);
        Found { finding, like, index }
    }

    /// The ends of messages that a rank stands in and that have no other end.
    pub fn waited_for(&self) -> impl Iterator<Item = LoneEnd> {
        self.waits.lone_ends().filter(|end| self.waits.heads[end.rank] == Some(end.index))
    }

    /// What a rank has called last.
    pub fn last_call(&self, rank: usize) -> Option<Called> {
        Some(self.called(rank, self.waits.done[rank].len().checked_sub(1)?))
    }

    /// What a rank calls at a place of its program.
    pub fn called(&self, rank: usize, index: usize) -> Called {
        let job = self.job;
        let item = job.programs[rank].as_ref().and_then(|program| program.get(index)).copied();
        let calls = item.map_or(&[][..], |item| &job.units[item.unit].calls);
        let comm = calls.first().map_or(0, |issued| issued.comm);
        let mut words: Vec<String> = calls.iter().take(MAX_NAMED).map(|issued| self.words(rank, issued)).collect();
        if calls.len() > MAX_NAMED {
            words.push(format!("{} more", calls.len() - MAX_NAMED));
        }
        let what = match words.split_last() {
            Some((last, rest)) if !rest.is_empty() => format!("a group of {} and {last}", rest.join(", ")),
            _ => words.concat(),
        };
        let launch = item.and_then(|item| job.launches.get(rank)?.get(item.at as usize));
        let members = &self.sequences.comms.get(comm);
        let place = || {
            let member = members.and_then(|members| members.iter().find(|member| member.rank == rank))?;
            let at = member.calls.as_ref()?.binary_search_by_key(&index, |place| place.index).ok()?;
            Some((at + 1).to_string())
        };
        Called {
            what,
            communicator: job.names.get(comm).cloned().unwrap_or_default(),
            members: job.comms.group(comm).to_vec(),
            number: launch.and_then(|launch| Some(launch.entries.first()?.label())).or_else(place),
            progress: launch.map(|launch| launch.state),
            stack: item.and_then(|item| stack(job, rank, item)).cloned().unwrap_or_else(|| Stack::from([])),
        }
    }

    fn words(&self, rank: usize, issued: &Issued) -> String {
        match &issued.call {
            Call::Collective(call) if call.op == "barrier" => call.op.to_owned(),
            // Of dumps; see `AllToAlls`.
            Call::Collective(call) if call.op == "all_to_all_v" => format!("all_to_all of {}", call.dtype.name()),
            Call::Collective(call) => format!("{} of {} {}{}", call.op, call.count, call.dtype.name(), call.keys()),
            Call::Message(message) => {
                let other = partner(self.job.comms.group(issued.comm), rank, message.distance);
                let other = other.map_or_else(String::new, |other| format!(" rank {other}"));
                let (op, to) = if message.sends { ("send", "to") } else { ("recv", "from") };
                format!("{op} of {} {} {to}{other}", message.count, message.dtype.name())
            }
        }
    }
}

/// The place in its program of a member's call.
fn place_of(members: &[(usize, &[Place])], rank: usize, at: usize) -> Option<usize> {
    let (_, places) = members.iter().find(|(own, _)| *own == rank)?;
    Some(places.get(at)?.index)
}
