//! Messages whose other end is not in the programs.
use super::call::{Call, Issued, Unit};
use super::comms::Comms;
use super::peers::{Pair, pair};
use super::program::{Programs, Units};
use std::collections::HashMap;

/// One end of the messages of a pair: the sends, or the receives.
pub type End = (Pair, bool);

/// How many messages of an end there are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub all: usize,
    pub done: usize,
}

/// The messages of all ends.
#[derive(Debug, Default)]
pub struct Counts(HashMap<End, Count>);

impl Counts {
    pub fn of(programs: &Programs, units: &Units, comms: &Comms) -> Self {
        let mut counts = Self::default();
        for (rank, program) in programs.iter().enumerate() {
            for item in program.iter().flatten() {
                let unit = &units[item.unit];
                for (comm, message) in unit.messages() {
                    let Some(pair) = pair(comms, comm, rank, message) else { continue };
                    let count = counts.0.entry((pair, message.sends)).or_default();
                    count.all += 1;
                    count.done += usize::from(item.done);
                }
            }
        }
        counts
    }

    pub fn get(&self, end: End) -> Count {
        self.0.get(&end).copied().unwrap_or_default()
    }

    /// A figure of each end that is not 0, from its count and that of the other end.
    pub fn surplus(&self, figure: impl Fn(End, Count, Count) -> usize) -> HashMap<End, usize> {
        let of = |(end, count): (&End, &Count)| (*end, figure(*end, *count, self.get((end.0, !end.1))));
        self.0.iter().map(of).filter(|(_, surplus)| *surplus > 0).collect()
    }
}

/// Which messages of an end were lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    First,
    Last,
}

/// Removes so many completed messages of each end.
pub fn remove(programs: &mut Programs, units: &mut Units, comms: &Comms, surplus: &HashMap<End, usize>, lost: Lost) {
    if surplus.is_empty() {
        return;
    }
    let counts = Counts::of(programs, units, comms);
    let mut seen: HashMap<End, usize> = HashMap::new();
    for (rank, program) in programs.iter_mut().enumerate() {
        let Some(program) = program else { continue };
        program.retain_mut(|item| {
            let unit = &units[item.unit];
            if !item.done || unit.messages().next().is_none() {
                return true;
            }
            let stays = |issued: &&Issued| {
                let Call::Message(message) = &issued.call else { return true };
                let end = pair(comms, issued.comm, rank, message).map(|pair| (pair, message.sends));
                let Some((end, surplus)) = end.and_then(|end| Some((end, *surplus.get(&end)?))) else { return true };
                let seen = seen.entry(end).or_default();
                *seen += 1;
                match lost {
                    Lost::First => *seen > surplus,
                    Lost::Last => *seen + surplus <= counts.get(end).done,
                }
            };
            let calls: Vec<Issued> = unit.calls.iter().filter(stays).cloned().collect();
            let stays = !calls.is_empty();
            if stays && calls.len() < unit.calls.len() {
                item.unit = units.index(Unit { calls });
            }
            stays
        });
    }
}
