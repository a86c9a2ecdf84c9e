//! The ranks that wrote a log, and their communicators.
use super::super::MAX_RANKS;
use super::line::{CommInit, LoggedCall, MadeReduction, Writer};
use std::collections::{HashMap, HashSet};

/// Communicators of a log.
const MAX_COMMS: usize = 65_536;
/// Ranks of all communicators together.
const MAX_MEMBERS: usize = 1 << 20;
/// Reductions of a process whose factors are kept.
const MAX_FACTORS: usize = 65_536;

/// What makes a communicator the same on all its ranks.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    Id(u64),
    Made { parent: usize, number: u64, color: u64, shrinks: bool },
}

/// A communicator.
#[derive(Clone, Debug)]
pub struct LoggedComm {
    /// By its rank: who is it.
    pub members: Vec<Option<usize>>,
    pub parent: Option<usize>,
    /// Which split of its parent made it; `None` if none did.
    pub split: Option<u64>,
}

/// A rank: a device of a process.
#[derive(Clone, Debug)]
pub struct LoggedRank {
    pub host: String,
    pub pid: u64,
    /// The index of its process.
    pub process: usize,
    /// Where its device is in the host, if the release says it.
    pub bus: Option<u64>,
    /// Its communicators in the order in which they were made.
    pub comms: Vec<usize>,
}

/// A communicator as a process sees it.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub rank: usize,
    pub comm: usize,
    /// The rank in the communicator.
    pub number: usize,
}

#[derive(Debug, Default)]
struct Process {
    host: String,
    /// True if the name of the host was read more than once.
    is_certain: bool,
    pid: u64,
    /// True if another process with its number began after it.
    has_ended: bool,
    pointers: HashMap<u64, Seen>,
    /// Pointers of communicators that have begun and are not complete.
    begun: HashSet<u64>,
    /// By device.
    ranks: HashMap<u64, usize>,
    /// How many communicators each rank has made from a parent; of releases that do not say it.
    made: HashMap<(usize, usize, bool), u64>,
    /// The factors of reductions, by the communicator's pointer and the reduction's number.
    factors: HashMap<(u64, i64), Option<String>>,
}

/// Everything that was said about processes and communicators.
#[derive(Debug, Default)]
pub struct Processes {
    processes: Vec<Process>,
    by_place: HashMap<(String, u64), usize>,
    known: HashMap<Identity, usize>,
    pub ranks: Vec<LoggedRank>,
    pub comms: Vec<LoggedComm>,
    /// Of all communicators together.
    members: usize,
    /// Processes of which nothing is taken in: those of an earlier run.
    pub left_out: HashSet<usize>,
}

/// Why a communicator is not taken in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// The line contradicts others.
    Contradiction,
    /// There is too much of something.
    TooMuch(String),
    /// The process is one of those that are left out.
    LeftOut,
}

impl Processes {
    /// The process that wrote a line. If two lines were mixed, the end of another one may stand before the host.
    fn find(&mut self, writer: Writer<'_>) -> Option<usize> {
        let place = (writer.host.to_owned(), writer.pid);
        if let Some(at) = self.by_place.get(&place) {
            self.processes[*at].is_certain = true;
            return Some(*at);
        }
        let is_alike = |process: &Process| {
            let (known, said) = (process.host.as_str(), writer.host);
            !process.has_ended && process.pid == writer.pid && (said.ends_with(known) || known.ends_with(said))
        };
        let mut alike = (0..self.processes.len()).filter(|at| is_alike(&self.processes[*at]));
        let at = alike.next().filter(|_| alike.next().is_none())?;
        let process = &mut self.processes[at];
        if writer.host.len() < process.host.len() && !process.is_certain {
            process.host.clone_from(&place.0);
            process.ranks.values().for_each(|rank| self.ranks[*rank].host.clone_from(&place.0));
            self.by_place.insert(place, at);
        }
        Some(at)
    }

    /// A process begins. One that had its number before, as in a container that was started again, has ended.
    pub fn start(&mut self, writer: Writer<'_>) {
        let known = self.by_place.get(&(writer.host.to_owned(), writer.pid)).copied();
        let Some(at) = known.filter(|at| !self.processes[*at].ranks.is_empty() || self.left_out.contains(at)) else {
            return;
        };
        self.processes[at].has_ended = true;
        self.by_place.retain(|_, process| *process != at);
    }

    /// True if the lines of a process are left out.
    pub fn is_left_out(&mut self, writer: Writer<'_>) -> bool {
        !self.left_out.is_empty() && self.find(writer).is_some_and(|at| self.left_out.contains(&at))
    }

    /// The communicator that a process knows by this pointer.
    pub fn comm(&mut self, writer: Writer<'_>, pointer: u64) -> Option<Seen> {
        let at = self.find(writer)?;
        self.processes[at].pointers.get(&pointer).copied()
    }

    /// A process makes a reduction; false if its communicator is not known.
    pub fn make(&mut self, writer: Writer<'_>, made: MadeReduction) -> bool {
        let Some(process) = self.find(writer).map(|at| &mut self.processes[at]) else { return false };
        let is_known = process.pointers.contains_key(&made.comm);
        if is_known && process.factors.len() < MAX_FACTORS {
            process.factors.insert((made.comm, made.op), made.factor);
        }
        is_known
    }

    /// The factor of a call's reduction.
    pub fn factor(&mut self, writer: Writer<'_>, call: &LoggedCall) -> Option<String> {
        let at = self.find(writer)?;
        self.processes[at].factors.get(&(call.comm, call.op)).cloned().flatten()
    }

    /// A communicator begins on the rank that is returned.
    pub fn begin(&mut self, writer: Writer<'_>, init: &CommInit) -> Result<usize, NotTaken> {
        if init.nranks == 0 || init.rank >= init.nranks {
            return Err(NotTaken::Contradiction);
        }
        if init.nranks > MAX_RANKS {
            let message = format!("a communicator of {} ranks: a scenario has at most {MAX_RANKS}", init.nranks);
            return Err(NotTaken::TooMuch(message));
        }
        let found = self.find(writer);
        let at = found.unwrap_or_else(|| {
            self.by_place.insert((writer.host.to_owned(), writer.pid), self.processes.len());
            self.processes.push(Process { host: writer.host.to_owned(), pid: writer.pid, ..Process::default() });
            self.processes.len() - 1
        });
        if self.left_out.contains(&at) {
            return Err(NotTaken::LeftOut);
        }
        let process = &mut self.processes[at];
        if let (true, Some(seen)) = (init.is_complete, process.pointers.get(&init.pointer))
            && process.begun.remove(&init.pointer)
        {
            return Ok(seen.rank);
        }
        let parent = init.parent.map(|parent| process.pointers.get(&parent).copied().ok_or(NotTaken::Contradiction));
        let parent = parent.transpose()?;
        let rank = match parent.map(|parent| parent.rank).or_else(|| process.ranks.get(&init.device).copied()) {
            Some(rank) => rank,
            None if self.ranks.len() >= MAX_RANKS => {
                let message = format!("more than {MAX_RANKS} ranks: import the log of one job at a time");
                return Err(NotTaken::TooMuch(message));
            }
            None => {
                let (host, pid, bus) = (writer.host.to_owned(), writer.pid, init.bus);
                self.ranks.push(LoggedRank { host, pid, process: at, bus, comms: Vec::new() });
                process.ranks.insert(init.device, self.ranks.len() - 1);
                self.ranks.len() - 1
            }
        };
        let mut logged = LoggedComm { members: vec![None; init.nranks], parent: None, split: None };
        let identity = match (parent, init.id) {
            (Some(parent), id) => {
                let made = process.made.entry((rank, parent.comm, init.shrinks)).or_default();
                *made += 1;
                let number = init.number.filter(|_| !init.shrinks).unwrap_or(*made);
                (logged.parent, logged.split) = (Some(parent.comm), (!init.shrinks).then_some(number));
                // The color is in the hash of releases that do not say the number of the split.
                let color = id.filter(|_| init.number.is_none()).or(init.color).unwrap_or(0);
                Identity::Made { parent: parent.comm, number, color, shrinks: init.shrinks }
            }
            (None, Some(id)) => Identity::Id(id),
            (None, None) => return Err(NotTaken::Contradiction),
        };
        let next = self.comms.len();
        if next >= MAX_COMMS {
            return Err(NotTaken::TooMuch(format!("more than {MAX_COMMS} communicators: import a part of the log")));
        }
        let comm = *self.known.entry(identity).or_insert(next);
        if comm == next {
            self.members += init.nranks;
            if self.members > MAX_MEMBERS {
                let message =
                    format!("communicators of more than {MAX_MEMBERS} ranks together: import a part of the log");
                return Err(NotTaken::TooMuch(message));
            }
            self.comms.push(logged);
        }
        let members = &mut self.comms[comm].members;
        let is_member = members.contains(&Some(rank));
        match members.get_mut(init.rank) {
            Some(place) if place.is_none() && !is_member => *place = Some(rank),
            Some(place) if *place == Some(rank) => {}
            _ => return Err(NotTaken::Contradiction),
        }
        if !init.is_complete {
            process.begun.insert(init.pointer);
        }
        process.pointers.insert(init.pointer, Seen { rank, comm, number: init.rank });
        if !self.ranks[rank].comms.contains(&comm) {
            self.ranks[rank].comms.push(comm);
        }
        Ok(rank)
    }
}
