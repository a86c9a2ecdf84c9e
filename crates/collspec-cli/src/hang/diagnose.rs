//! From the calls of all ranks to what is said of them.
use super::departure::{Departure, How, departures};
use super::diagnosis::{Called, Cause, Diagnosis, Finding, Line, Waiting};
use super::job::Job;
use super::parting::{Parting, parting};
use super::sequences::{Place, Sequences, Token, stack};
use super::waits::Waits;
use crate::import::call::{Call, Issued};
use crate::import::flight_recorder::State;
use crate::import::peers::partner;
use collspec_core::judge::message::ranks_text;
use std::collections::HashMap;

/// Calls of a group that are named.
const MAX_NAMED: usize = 2;

/// Says why a job stands still.
pub fn diagnose(job: &Job) -> Diagnosis {
    let sequences = Sequences::of(job);
    let partings: Vec<Option<Parting>> =
        sequences.comms.iter().map(|members| parting(members, job.knows_progress)).collect();
    let waits = Waits::of(job, &sequences, &partings);
    let look = Look { job, sequences, partings, waits };
    let mut found = look.partings();
    if found.is_empty() {
        found = look.messages();
    }
    if found.is_empty() {
        found = look.circle();
    }
    if found.is_empty() {
        found = look.lines();
    }
    if found.is_empty() {
        found = look.unknown();
    }
    found.sort_by_key(|found| (found.is_stop, found.index));
    let last_common = found.first().and_then(|found| look.last_common(found));
    let findings = merged(found);
    let waiting = look.waiting();
    let verdict = look.verdict(&findings, &waiting);
    Diagnosis { verdict, findings, waiting, last_common, remarks: job.remarks.clone() }
}

/// A finding, and where it lies in the job.
struct Found {
    finding: Finding,
    /// A rank that does as the others do, and where in its program.
    like: usize,
    index: usize,
    is_stop: bool,
}

struct Look<'a> {
    job: &'a Job,
    sequences: Sequences,
    partings: Vec<Option<Parting>>,
    waits: Waits,
}

impl Look<'_> {
    /// Of each communicator whose members part: who left the others.
    fn partings(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for (comm, parting) in self.partings.iter().enumerate() {
            let (last, lacking) = match parting {
                None | Some(Parting::Unknown { .. }) => continue,
                Some(Parting::Differ { at }) => (Some(*at), &[][..]),
                // Until there the calls are equal, but may come from different lines.
                Some(Parting::Lacks { at, lacking }) => (at.checked_sub(1), lacking.as_slice()),
            };
            let members = self.known_members(comm);
            let left = last.map_or_else(Vec::new, |last| self.departed(&members, last));
            if !left.is_empty() {
                found.extend(left.into_iter().map(|(_, found)| found));
                continue;
            }
            let at = parting.as_ref().map_or(0, Parting::at);
            let stopped: Vec<usize> =
                lacking.iter().copied().filter(|rank| self.waits.heads[*rank].is_none()).collect();
            let others: Vec<usize> =
                members.iter().filter(|(_, places)| places.len() > at).map(|(rank, _)| *rank).collect();
            if let (false, Some(like)) = (stopped.is_empty(), others.first())
                && let Some(index) = place_of(&members, *like, at)
            {
                found.push(self.stopped(stopped, others.clone(), *like, index));
            }
        }
        found
    }

    /// Calls that fit together, but come from lines that do not: a rank is ahead of the others or behind them.
    fn lines(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for comm in 0..self.sequences.comms.len() {
            let members = self.known_members(comm);
            let last = members.iter().map(|(_, places)| places.len()).max().unwrap_or(0);
            let departed = self.departed(&members, last).into_iter();
            let is_clear = |departure: &Departure| departure.is_minority && departure.how != How::Instead;
            found.extend(departed.filter(|(departure, _)| is_clear(departure)).map(|(_, found)| found));
        }
        found
    }

    /// The members of a communicator of which something is known, with their calls in it.
    fn known_members(&self, comm: usize) -> Vec<(usize, &[Place])> {
        let members = self.sequences.comms[comm].iter();
        members.filter_map(|member| Some((member.rank, member.calls.as_deref()?))).collect()
    }

    /// The members that leave the others until the call at `last`.
    fn departed(&self, members: &[(usize, &[Place])], last: usize) -> Vec<(Departure, Found)> {
        let tokens = |places: &[Place]| places.iter().map(|place| place.token).collect();
        let tokens: Vec<(usize, Vec<Token>)> = members.iter().map(|(rank, places)| (*rank, tokens(places))).collect();
        let tokens: Vec<(usize, &[Token])> = tokens.iter().map(|(rank, tokens)| (*rank, tokens.as_slice())).collect();
        let left = departures(&tokens, last).into_iter();
        left.filter_map(|departure| {
            let found = self.left(&departure, |rank, at| place_of(members, rank, at))?;
            Some((departure, found))
        })
        .collect()
    }

    /// A rank that left the others. `index` is the place of a rank's call in its program.
    fn left(&self, departure: &Departure, index: impl Fn(usize, usize) -> Option<usize>) -> Option<Found> {
        let Departure { rank, how, at, calls, others, is_minority } = departure;
        let like = *others.first()?;
        let (own, theirs) = (self.called(*rank, index(*rank, *at)?), self.called(like, index(like, *at)?));
        let (call, instead) = if *how == How::Added { (own, theirs) } else { (theirs, own) };
        let finding = Finding {
            cause: (*how).into(),
            ranks: vec![*rank],
            others: others.clone(),
            call,
            instead: Some(instead),
            calls: *calls,
            is_undecided: !is_minority,
            alike: 0,
        };
        Some(Found { finding, like, index: index(like, *at)?, is_stop: false })
    }

    /// Ranks that make no more calls, while others wait for them in this one.
    fn stopped(&self, ranks: Vec<usize>, others: Vec<usize>, like: usize, index: usize) -> Found {
        let last = |rank: &usize| Some(self.called(*rank, self.waits.done[*rank].len().checked_sub(1)?));
        let finding = Finding {
            cause: Cause::Stopped,
            instead: ranks.first().and_then(last),
            ranks,
            others,
            call: self.called(like, index),
            calls: 0,
            is_undecided: false,
            alike: 0,
        };
        Found { finding, like, index, is_stop: true }
    }

    /// Messages whose ends do not fit together, and those that nobody will send or receive.
    fn messages(&self) -> Vec<Found> {
        let mut found = Vec::new();
        let is_open = |rank: usize, index: usize| !self.waits.done[rank][index];
        for ((_, from, to), both) in &self.waits.messages {
            let differ = both.sent.iter().zip(&both.received).find(|(sent, received)| {
                (sent.count, sent.dtype) != (received.count, received.dtype)
                    && (!self.job.knows_progress || is_open(*from, sent.index) || is_open(*to, received.index))
            });
            if let Some((sent, received)) = differ {
                let finding = Finding {
                    cause: Cause::MessagesDiffer,
                    ranks: vec![*to],
                    others: vec![*from],
                    call: self.called(*from, sent.index),
                    instead: Some(self.called(*to, received.index)),
                    calls: 1,
                    is_undecided: true,
                    alike: 0,
                };
                found.push(Found { finding, like: *from, index: sent.index, is_stop: false });
                continue;
            }
            let matched = both.sent.len().min(both.received.len());
            for (own, other, ends) in [(*from, *to, &both.sent), (*to, *from, &both.received)] {
                let is_known = self.job.programs[other].is_some();
                let alone = ends.get(matched).filter(|end| is_open(own, end.index));
                if let Some(end) = alone.filter(|_| is_known && self.waits.heads[other].is_none()) {
                    found.push(self.stopped(vec![other], vec![own], own, end.index));
                }
            }
        }
        found
    }

    /// Ranks that wait for each other: one may have left out a call of another communicator, else their order is wrong.
    fn circle(&self) -> Vec<Found> {
        let Some(circle) = self.waits.circle() else { return Vec::new() };
        let [first, second, ..] = circle.as_slice() else { return Vec::new() };
        let (Some(index), Some(other)) = (self.waits.heads[*first], self.waits.heads[*second]) else {
            return Vec::new();
        };
        let left = self.left_the_program(&circle);
        if !left.is_empty() {
            return left;
        }
        if let Some(found) = self.no_message(&circle) {
            return vec![found];
        }
        let finding = Finding {
            cause: Cause::Order,
            ranks: circle.clone(),
            others: Vec::new(),
            call: self.called(*first, index),
            instead: Some(self.called(*second, other)),
            calls: 0,
            is_undecided: true,
            alike: 0,
        };
        vec![Found { finding, like: *first, index, is_stop: false }]
    }

    /// The message that one of these ranks waits for, while the rank at its other end has gone on to the call that it stands in.
    fn no_message(&self, circle: &[usize]) -> Option<Found> {
        self.waits.messages.iter().find_map(|((_, from, to), both)| {
            let matched = both.sent.len().min(both.received.len());
            [(*from, *to, &both.sent), (*to, *from, &both.received)].into_iter().find_map(|(own, other, ends)| {
                let alone = ends.get(matched).filter(|end| self.waits.heads[own] == Some(end.index))?;
                let stands = self.waits.heads[other].filter(|_| circle.contains(&own) && circle.contains(&other))?;
                let finding = Finding {
                    cause: Cause::NoMessage,
                    ranks: vec![other],
                    others: vec![own],
                    call: self.called(own, alone.index),
                    instead: Some(self.called(other, stands)),
                    calls: 1,
                    is_undecided: true,
                    alike: 0,
                };
                Some(Found { finding, like: own, index: alone.index, is_stop: false })
            })
        })
    }

    /// The few ranks that left the program which most members of the communicators make that these ranks stand in.
    fn left_the_program(&self, circle: &[usize]) -> Vec<Found> {
        let heads = circle.iter().filter_map(|rank| {
            let item = self.job.programs[*rank].as_ref()?.get(self.waits.heads[*rank]?)?;
            Some(&self.job.units[item.unit].calls)
        });
        let mut ranks: Vec<usize> =
            heads.flatten().flat_map(|issued| self.job.comms.group(issued.comm)).copied().collect();
        ranks.sort_unstable();
        ranks.dedup();
        let programs: Vec<(usize, &[Token])> =
            ranks.iter().filter_map(|rank| Some((*rank, self.sequences.programs[*rank].as_deref()?))).collect();
        let last = programs.iter().map(|(_, program)| program.len()).max().unwrap_or(0);
        let left = departures(&programs, last);
        let is_clear = |departure: &Departure| departure.is_minority && departure.how != How::Instead;
        if !left.iter().all(is_clear) {
            return Vec::new();
        }
        left.iter().filter_map(|departure| self.left(departure, |_, at| Some(at))).collect()
    }

    /// What all wait for of which nothing is known.
    fn unknown(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for (comm, parting) in self.partings.iter().enumerate() {
            let Some(Parting::Unknown { at, unknown }) = parting else { continue };
            let known = self.sequences.comms[comm].iter().filter_map(|member| {
                let place = member.calls.as_ref()?.get(*at)?;
                Some((member.rank, place.index))
            });
            let known: Vec<(usize, usize)> = known.collect();
            let Some((like, index)) = known.first().copied() else { continue };
            let finding = Finding {
                cause: Cause::Unknown,
                ranks: unknown.clone(),
                others: known.iter().map(|(rank, _)| *rank).collect(),
                call: self.called(like, index),
                instead: None,
                calls: 0,
                is_undecided: true,
                alike: 0,
            };
            found.push(Found { finding, like, index, is_stop: false });
        }
        for ((_, from, to), both) in &self.waits.messages {
            let matched = both.sent.len().min(both.received.len());
            for (own, other, ends) in [(*from, *to, &both.sent), (*to, *from, &both.received)] {
                let alone = ends.get(matched).filter(|end| self.waits.heads[own] == Some(end.index));
                let Some(end) = alone.filter(|_| self.job.programs[other].is_none()) else { continue };
                let finding = Finding {
                    cause: Cause::Unknown,
                    ranks: vec![other],
                    others: vec![own],
                    call: self.called(own, end.index),
                    instead: None,
                    calls: 0,
                    is_undecided: true,
                    alike: 0,
                };
                found.push(Found { finding, like: own, index: end.index, is_stop: false });
            }
        }
        found
    }

    /// The call before that of a finding, in the same communicator.
    fn last_common(&self, found: &Found) -> Option<Called> {
        let program = self.job.programs[found.like].as_ref()?;
        let comms = |index: usize| self.job.units[program[index].unit].calls.iter().map(|issued| issued.comm);
        let comm = comms(found.index).next()?;
        let before = (0..found.index).rev().find(|index| comms(*index).any(|other| other == comm))?;
        Some(self.called(found.like, before))
    }

    /// Where all ranks stand. Ranks that stand in the same call are together.
    fn waiting(&self) -> Vec<Waiting> {
        let mut by_call: HashMap<(Option<Called>, Option<Called>, bool), Vec<usize>> = HashMap::new();
        for (rank, program) in self.job.programs.iter().enumerate() {
            let call = self.waits.heads[rank].map(|head| self.called(rank, head));
            let last = program
                .as_ref()
                .filter(|_| call.is_none())
                .and_then(|program| Some(self.called(rank, program.len().checked_sub(1)?)));
            by_call.entry((call, last, program.is_none())).or_default().push(rank);
        }
        let mut waiting: Vec<Waiting> = by_call
            .into_iter()
            .map(|((call, last, is_unknown), ranks)| Waiting { ranks, call, last, is_unknown })
            .collect();
        waiting.sort_by(|one, other| one.ranks.cmp(&other.ranks));
        waiting
    }

    /// What a rank calls at a place of its program.
    fn called(&self, rank: usize, index: usize) -> Called {
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
        let frames = item.and_then(|item| stack(job, rank, item));
        let line = |frame: &crate::import::flight_recorder::Frame| Line {
            function: frame.function.to_string(),
            file: frame.file.to_string(),
            line: frame.line,
        };
        Called {
            what,
            communicator: job.names.get(comm).cloned().unwrap_or_default(),
            members: job.comms.group(comm).to_vec(),
            number: launch.and_then(|launch| Some(launch.entries.first()?.label())).or_else(place),
            progress: launch.map(|launch| match launch.state {
                State::Completed => "completed",
                State::Started => "started",
                State::Scheduled => "scheduled",
            }),
            stack: frames.into_iter().flat_map(|stack| stack.iter().map(line)).collect(),
        }
    }

    fn words(&self, rank: usize, issued: &Issued) -> String {
        match &issued.call {
            Call::Collective(call) if call.op == "barrier" => call.op.to_owned(),
            Call::Collective(call) => format!("{} of {} {}{}", call.op, call.count, call.dtype.name(), call.keys()),
            Call::Message(message) => {
                let other = partner(self.job.comms.group(issued.comm), rank, message.distance);
                let other = other.map_or_else(String::new, |other| format!(" rank {other}"));
                let (op, to) = if message.sends { ("send", "to") } else { ("recv", "from") };
                format!("{op} of {} {} {to}{other}", message.count, message.dtype.name())
            }
        }
    }

    fn verdict(&self, findings: &[Finding], waiting: &[Waiting]) -> String {
        match findings.first() {
            Some(finding) => finding.sentence(),
            None if !self.job.knows_progress => {
                "No rank left the others: all ranks have made the same calls, as far as the logs go. Which of them were completed is not in logs."
                    .to_owned()
            }
            None if waiting.iter().all(|waiting| waiting.call.is_none()) => {
                "No rank left the others: all ranks have made the same calls, and no call is open.".to_owned()
            }
            None => "No rank left the others: every rank has made the calls that are still open. Something other than a missing call holds \
                     them up, such as the network, a GPU, or other work on a stream."
                .to_owned(),
        }
    }
}

/// The place in its program of a member's call.
fn place_of(members: &[(usize, &[Place])], rank: usize, at: usize) -> Option<usize> {
    let (_, places) = members.iter().find(|(own, _)| *own == rank)?;
    Some(places.get(at)?.index)
}

/// One finding for each cause: ranks that left others in the same way, in communicators of one kind, are one.
fn merged(found: Vec<Found>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for Found { finding, .. } in found {
        let is_alike = |other: &Finding| {
            let key = |finding: &Finding| {
                let words = |called: &Called| (called.what.clone(), called.stack.clone());
                (finding.cause, finding.calls, words(&finding.call), finding.instead.as_ref().map(words))
            };
            key(other) == key(&finding)
        };
        match findings.iter_mut().find(|other| is_alike(other)) {
            Some(other) => {
                other.alike += usize::from(other.call.members != finding.call.members);
                for (all, more) in [(&mut other.ranks, finding.ranks), (&mut other.others, finding.others)] {
                    all.extend(more);
                    all.sort_unstable();
                    all.dedup();
                }
                other.is_undecided |= finding.is_undecided;
            }
            None => findings.push(finding),
        }
    }
    findings
}

impl Finding {
    /// In one sentence.
    pub fn sentence(&self) -> String {
        let (ranks, others) = (ranks_text(&self.ranks), ranks_text(&self.others));
        let at =
            |called: &Called| called.stack.first().map_or_else(String::new, |line| format!(" at {}", line.place()));
        let (call, place) = (&self.call.what, at(&self.call));
        let instead = self.instead.as_ref().map_or("nothing", |called| called.what.as_str());
        let more = match self.calls {
            0 | 1 => String::new(),
            2 => " and the call after it".to_owned(),
            calls => format!(" and the {} calls after it", calls - 1),
        };
        let sentence = match self.cause {
            Cause::LeftOut => format!("{ranks} left out the {call}{place}{more}, which {others} called"),
            Cause::Added => format!("{ranks} called {call}{place}{more}, which {others} left out"),
            Cause::Instead => {
                let own = self.instead.as_ref().map_or_else(String::new, at);
                format!("{ranks} called {instead}{own}, where {others} called {call}{place}")
            }
            Cause::Stopped => {
                let wait = if self.others.len() == 1 { "waits" } else { "wait" };
                format!("{ranks} made no more calls, and {others} {wait} for that in {call}{place}")
            }
            Cause::MessagesDiffer => {
                format!("a message does not fit: {others} called {call}{place}, and {ranks} {instead}")
            }
            Cause::NoMessage => {
                let own = self.instead.as_ref().map_or_else(String::new, at);
                format!("{others} waits in {call}{place}, and {ranks} has no call for it, but is in {instead}{own}")
            }
            Cause::Order => {
                let own = self.instead.as_ref().map_or_else(String::new, at);
                let first = self.ranks.first().copied().unwrap_or(0);
                let second = self.ranks.get(1).copied().unwrap_or(0);
                format!(
                    "{ranks} wait for each other: rank {first} in {call} on {}{place}, rank {second} in {instead} on {}{own}",
                    self.call.communicator,
                    self.instead.as_ref().map_or("", |called| called.communicator.as_str())
                )
            }
            Cause::Unknown => format!("nothing is known of {ranks}, for which {others} may wait in {call}{place}"),
        };
        let mut letters = sentence.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase()).into_iter();
        let undecided = match self.cause {
            Cause::LeftOut | Cause::Added | Cause::Instead if self.is_undecided => {
                "; or the others are wrong, as there is no majority"
            }
            _ => "",
        };
        format!("{}{undecided}.", first.chain(letters).collect::<String>())
    }
}

impl Line {
    /// `train.py:150`.
    pub fn place(&self) -> String {
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        self.line.map_or(name.to_owned(), |line| format!("{name}:{line}"))
    }

    /// The same with the folder.
    pub fn at(&self) -> String {
        self.line.map_or(self.file.clone(), |line| format!("{}:{line}", self.file))
    }
}
