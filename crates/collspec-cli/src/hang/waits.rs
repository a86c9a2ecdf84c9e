//! Which call each rank stands in, and which ranks it waits for there.
use super::job::Job;
use super::parting::Parting;
use super::sequences::{Place, Sequences};
use crate::import::peers::{Pair, pair};
use collspec_core::num::DType;
use std::collections::HashMap;

/// One end of a message.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The index in the program of its rank.
    pub index: usize,
    pub dtype: DType,
    pub count: u64,
}

/// The sends of a pair of ranks, and the receives.
#[derive(Clone, Debug, Default)]
pub struct Messages {
    pub sent: Vec<End>,
    pub received: Vec<End>,
}

impl Messages {
    /// Both sides of the messages of a pair: a rank, the other one, its ends and those of the other.
    fn sides(&self, (_, from, to): Pair) -> [(usize, usize, &[End], &[End]); 2] {
        [(from, to, &self.sent, &self.received), (to, from, &self.received, &self.sent)]
    }
}

/// The first end of a rank's messages with another one that the other has no call for.
#[derive(Clone, Copy, Debug)]
pub struct LoneEnd {
    pub rank: usize,
    pub other: usize,
    /// The index in the rank's program.
    pub index: usize,
}

/// Where all ranks stand.
#[derive(Debug)]
pub struct Waits {
    pub messages: Vec<(Pair, Messages)>,
    /// By rank: which launches of its program were completed, as far as that is known.
    pub done: Vec<Vec<bool>>,
    /// By rank: the index of the launch that it stands in; `None` if it waits for nothing.
    pub heads: Vec<Option<usize>>,
    /// By rank: those that it waits for and of which something is known.
    pub waits_for: Vec<Vec<usize>>,
}

impl Waits {
    /// `messages` are those of the job, and `partings` those of all communicators.
    pub fn of(job: &Job, sequences: &Sequences, messages: Vec<(Pair, Messages)>, partings: &[Option<Parting>]) -> Self {
        let mut done: Vec<Vec<bool>> = job
            .programs
            .iter()
            .map(|program| program.iter().flatten().map(|item| item.done || !job.knows_progress).collect())
            .collect();
        if !job.knows_progress {
            // A log has calls, and not how far they came: those are open that cannot complete.
            for (members, parting) in sequences.comms.iter().zip(partings) {
                // Ranks without a log are taken to come along, else everything after their first call would be open.
                let Some(parting) = parting.as_ref().filter(|parting| !matches!(parting, Parting::Unknown { .. }))
                else {
                    continue;
                };
                let at = parting.at();
                for member in members {
                    for place in member.calls.iter().flatten().skip(at) {
                        done[member.rank][place.index] = false;
                    }
                }
            }
            for (rank, _, ends, others) in messages.iter().flat_map(|(pair, both)| both.sides(*pair)) {
                ends.iter().skip(others.len()).for_each(|end| done[rank][end.index] = false);
            }
        }
        let heads: Vec<Option<usize>> = done.iter().map(|own| own.iter().position(|done| !done)).collect();
        let mut waits = Self { messages, done, heads, waits_for: vec![Vec::new(); job.programs.len()] };
        waits.find_awaited(sequences);
        waits
    }

    fn find_awaited(&mut self, sequences: &Sequences) {
        for members in &sequences.comms {
            for member in members {
                let Some(head) = self.heads[member.rank] else { continue };
                let Some(own) = member.calls.as_deref() else { continue };
                let Ok(at) = own.binary_search_by_key(&head, |place| place.index) else { continue };
                for other in members.iter().filter(|other| other.rank != member.rank) {
                    let Some(calls) = &other.calls else { continue };
                    if !self.is_there(other.rank, calls.get(at), own[at].token.shape) {
                        self.waits_for[member.rank].push(other.rank);
                    }
                }
            }
        }
        for (own, other, ends, others) in self.messages.iter().flat_map(|(pair, both)| both.sides(*pair)) {
            // Nothing is known of a rank without a program.
            let Some(head) = self.heads[own].filter(|_| !self.done[other].is_empty()) else { continue };
            let is_there = |end: &End| self.done[other][end.index] || self.heads[other] == Some(end.index);
            let in_head = ends.iter().enumerate().filter(|(_, end)| end.index == head);
            let awaited = in_head.filter(|(at, _)| !others.get(*at).is_some_and(is_there));
            self.waits_for[own].extend(awaited.map(|_| other));
        }
        for awaited in &mut self.waits_for {
            awaited.sort_unstable();
            awaited.dedup();
        }
    }

    /// True if a rank has made this call, or stands in it.
    fn is_there(&self, rank: usize, call: Option<&Place>, shape: u32) -> bool {
        call.is_some_and(|call| {
            call.token.shape == shape && (self.done[rank][call.index] || self.heads[rank] == Some(call.index))
        })
    }

    /// The ends of messages that have no other end.
    pub fn lone_ends(&self) -> impl Iterator<Item = LoneEnd> {
        self.messages.iter().flat_map(|(pair, both)| both.sides(*pair)).filter_map(|(rank, other, ends, others)| {
            Some(LoneEnd { rank, other, index: ends.get(others.len())?.index })
        })
    }

    /// Ranks each of which waits for the next, and the last for the first: the fewest, if two wait for each other.
    pub fn circle(&self) -> Option<Vec<usize>> {
        for (rank, awaited) in self.waits_for.iter().enumerate() {
            let back = |other: &&usize| self.waits_for[**other].binary_search(&rank).is_ok();
            if let Some(other) = awaited.iter().find(back) {
                return Some(vec![rank, *other]);
            }
        }
        let mut seen = vec![false; self.waits_for.len()];
        for start in 0..self.waits_for.len() {
            let mut path: Vec<usize> = Vec::new();
            let mut next = Some(start);
            while let Some(rank) = next {
                if let Some(begin) = path.iter().position(|earlier| *earlier == rank) {
                    return Some(path.split_off(begin));
                }
                if std::mem::replace(&mut seen[rank], true) {
                    break;
                }
                path.push(rank);
                next = self.waits_for[rank].first().copied();
            }
        }
        None
    }
}

/// The messages of all pairs, in the order in which each rank makes them.
pub fn messages(job: &Job) -> Vec<(Pair, Messages)> {
    let mut pairs: HashMap<Pair, Messages> = HashMap::new();
    for (rank, program) in job.programs.iter().enumerate() {
        for (index, item) in program.iter().flatten().enumerate() {
            for (comm, message) in job.units[item.unit].messages() {
                let Some(pair) = pair(&job.comms, comm, rank, message) else { continue };
                let both = pairs.entry(pair).or_default();
                let ends = if message.sends { &mut both.sent } else { &mut both.received };
                ends.push(End { index, dtype: message.dtype, count: message.count });
            }
        }
    }
    let mut pairs: Vec<(Pair, Messages)> = pairs.into_iter().collect();
    pairs.sort_by_key(|(pair, _)| *pair);
    pairs
}
