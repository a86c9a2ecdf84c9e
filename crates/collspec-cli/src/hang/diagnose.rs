//! From the calls of all ranks to what is said of them.
use super::departure::{Departure, How, departures};
use super::diagnosis::{Called, Cause, Diagnosis, Finding, Waiting};
use super::history::novel_ranks;
use super::job::Job;
use super::old::old_ranks;
use super::parting::{Parting, parting};
use super::sequences::{Member, Place, Sequences, Token, stack};
use super::waits::{LoneEnd, Waits, messages};
use crate::import::call::{Call, Issued};
use crate::import::flight_recorder::Stack;
use crate::import::peers::partner;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Calls of a group that are named.
const MAX_NAMED: usize = 2;

/// Says why a job stands still.
pub fn diagnose(job: &Job) -> Diagnosis {
    let sequences = Sequences::of(job);
    let messages = messages(job);
    let old = old_ranks(job, &sequences, &messages);
    let partings: Vec<Option<Parting>> =
        sequences.comms.iter().map(|members| parting(members, &old, job.knows_progress)).collect();
    let waits = Waits::of(job, &sequences, messages, &partings);
    let novel = novel_ranks(&sequences.programs, &waits);
    let look = Look { job, sequences, old, partings, waits, novel };
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
    /// By rank: true if its dump is older than those of others.
    old: Vec<bool>,
    partings: Vec<Option<Parting>>,
    waits: Waits,
    /// By rank: true if its calls do not follow each other as before.
    novel: Vec<bool>,
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
                found.extend(left);
                continue;
            }
            let at = parting.as_ref().map_or(0, Parting::at);
            let stopped: Vec<usize> =
                lacking.iter().copied().filter(|rank| self.waits.heads[*rank].is_none()).collect();
            let makers: Vec<(usize, usize)> =
                members.iter().filter_map(|(rank, places)| Some((*rank, places.get(at)?.index))).collect();
            let mut standing = makers.iter().copied().filter(|(rank, index)| self.waits.heads[*rank] == Some(*index));
            if let (false, Some((like, index))) = (stopped.is_empty(), standing.next()) {
                let others = [like].into_iter().chain(standing.map(|(rank, _)| rank)).collect();
                let is_undecided = stopped.len() >= makers.len();
                let mut stopped = self.stopped(stopped, others, like, index);
                stopped.finding.is_undecided = is_undecided;
                found.push(stopped);
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
            // To make the same call from another line may be intended.
            let is_clear = |departed: &Found| departed.finding.cause != Cause::Instead;
            found.extend(departed.filter(is_clear));
        }
        found
    }

    /// The members of a communicator of which something is known, with their calls in it.
    fn known_members(&self, comm: usize) -> Vec<(usize, &[Place])> {
        let members = self.sequences.comms[comm].iter();
        members.filter_map(|member| Some((member.rank, member.calls.as_deref()?))).collect()
    }

    /// The members that leave the others until the call at `last`.
    fn departed(&self, members: &[(usize, &[Place])], last: usize) -> Vec<Found> {
        let tokens = |places: &[Place]| places.iter().map(|place| place.token).collect();
        let tokens: Vec<(usize, Vec<Token>)> = members.iter().map(|(rank, places)| (*rank, tokens(places))).collect();
        let tokens: Vec<(usize, &[Token])> = tokens.iter().map(|(rank, tokens)| (*rank, tokens.as_slice())).collect();
        let left = departures(&tokens, last).into_iter();
        left.filter_map(|departure| self.left(departure, |rank, at| place_of(members, rank, at))).collect()
    }

    /// A rank that left the others. `index` is the place of a rank's call in its program.
    fn left(&self, departure: Departure, index: impl Fn(usize, usize) -> Option<usize>) -> Option<Found> {
        let Departure { rank, how, at, calls, others, like, is_minority } = departure;
        let (own, theirs) = (self.called(rank, index(rank, at)?), self.called(like, index(like, at)?));
        let (call, instead) = if how == How::Added { (own, theirs) } else { (theirs, own) };
        let finding = Finding::new(how.into(), vec![rank], others, call, Some(instead));
        let finding = Finding { calls, is_undecided: !is_minority, ..finding };
        Some(Found { finding, like, index: index(like, at)?, is_stop: false })
    }

    /// Ranks that make no more calls, while others wait for them in this one.
    fn stopped(&self, ranks: Vec<usize>, others: Vec<usize>, like: usize, index: usize) -> Found {
        let last = ranks.first().and_then(|rank| self.last_call(*rank));
        let finding = Finding::new(Cause::Stopped, ranks, others, self.called(like, index), last);
        Found { finding, like, index, is_stop: true }
    }

    /// Messages whose two ends differ in size or type, and those whose other end is never called because its rank makes no more calls.
    fn messages(&self) -> Vec<Found> {
        let is_open = |rank: usize, index: usize| !self.job.knows_progress || !self.waits.done[rank][index];
        let differ = self.waits.messages.iter().filter_map(|((_, from, to), both)| {
            let mut pairs = both.sent.iter().zip(&both.received);
            let (sent, received) = pairs.find(|(sent, received)| {
                (sent.count, sent.dtype) != (received.count, received.dtype)
                    && (is_open(*from, sent.index) || is_open(*to, received.index))
            })?;
            let (call, instead) = (self.called(*from, sent.index), self.called(*to, received.index));
            let finding = Finding::new(Cause::MessagesDiffer, vec![*to], vec![*from], call, Some(instead));
            Some(Found { finding, like: *from, index: sent.index, is_stop: false })
        });
        let has_stopped =
            |other: usize| self.job.programs[other].is_some() && !self.old[other] && self.waits.heads[other].is_none();
        let stopped = self.waited_for().filter(|end| has_stopped(end.other));
        let stopped = stopped.map(|end| self.stopped(vec![end.other], vec![end.rank], end.rank, end.index));
        differ.chain(stopped).collect()
    }

    /// The ends of messages that a rank stands in and that have no other end.
    fn waited_for(&self) -> impl Iterator<Item = LoneEnd> {
        self.waits.lone_ends().filter(|end| self.waits.heads[end.rank] == Some(end.index))
    }

    /// Ranks that wait for each other: one may have left out a call of another communicator, else their order is wrong.
    fn circle(&self) -> Vec<Found> {
        let Some(circle) = self.waits.circle() else { return Vec::new() };
        let left = self.left_the_program(&circle);
        if !left.is_empty() {
            return left;
        }
        if let Some(found) = self.no_message(&circle) {
            return vec![found];
        }
        let novel: Vec<usize> = (0..circle.len()).filter(|at| self.novel[circle[*at]]).collect();
        let culprit = match novel.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        // The waiting rank, and the one that it waits for.
        let at = culprit.map_or(0, |culprit| (culprit + circle.len() - 1) % circle.len());
        let pair = [circle[at], circle[(at + 1) % circle.len()]];
        if let Some(left_out) = culprit.and_then(|_| self.left_out_what_others_wait_in(pair[1], pair[0])) {
            return vec![left_out];
        }
        let mut sides: Vec<(usize, usize, Called, Vec<usize>)> = Vec::new();
        for rank in pair {
            let Some(index) = self.waits.heads[rank] else { continue };
            sides.push((rank, index, self.called(rank, index), self.standing_with(rank)));
        }
        if culprit.is_none() {
            // The fewer last.
            sides.sort_by_key(|(.., ranks)| Reverse(ranks.len()));
        }
        let Ok([(like, index, call, others), (.., instead, ranks)]) = <[_; 2]>::try_from(sides) else {
            return Vec::new();
        };
        let finding = Finding::new(Cause::Order, ranks, others, call, Some(instead));
        let finding = Finding { is_undecided: culprit.is_none(), ..finding };
        vec![Found { finding, like, index, is_stop: false }]
    }

    /// The ranks that stand in the same call as this one.
    fn standing_with(&self, rank: usize) -> Vec<usize> {
        let (Some(own), Some(index)) = (self.head(rank), self.waits.heads[rank]) else { return Vec::new() };
        let unit = self.job.programs[rank].as_ref().map(|program| &self.job.units[program[index].unit]);
        // Messages of equal shape have other ends.
        let Some(unit) = unit.filter(|unit| unit.messages().next().is_none()) else { return vec![rank] };
        let is_same = |other: &usize| self.head(*other).is_some_and(|head| head.shape == own.shape);
        let comm = unit.calls.first().map_or(&[][..], |issued| self.job.comms.group(issued.comm));
        comm.iter().copied().filter(is_same).collect()
    }

    /// The call that a rank stands in.
    fn head(&self, rank: usize) -> Option<&Token> {
        self.sequences.programs[rank].as_ref()?.get(self.waits.heads[rank]?)
    }

    /// The finding that `rank` left out the collective in which `waiting` stands; `None` if `rank` has made it.
    fn left_out_what_others_wait_in(&self, rank: usize, waiting: usize) -> Option<Found> {
        let (own, index) = (self.waits.heads[rank]?, self.waits.heads[waiting]?);
        let lacks = |members: &Vec<Member>| {
            let calls = |rank| members.iter().find(|member| member.rank == rank)?.calls.as_deref();
            let at = calls(waiting)?.binary_search_by_key(&index, |call| call.index).ok()?;
            Some(calls(rank)?.len() <= at)
        };
        if !self.sequences.comms.iter().filter_map(lacks).any(|lacks| lacks) {
            return None;
        }
        let (call, instead) = (self.called(waiting, index), self.called(rank, own));
        let finding = Finding::new(Cause::LeftOut, vec![rank], self.standing_with(waiting), call, Some(instead));
        Some(Found { finding, like: waiting, index, is_stop: false })
    }

    /// The message that one of these ranks waits for, while the rank at its other end has gone on to the call that it stands in. The one
    /// whose calls do not follow each other as before is at fault.
    fn no_message(&self, circle: &[usize]) -> Option<Found> {
        let ends: Vec<LoneEnd> =
            self.waited_for().filter(|end| circle.contains(&end.rank) && circle.contains(&end.other)).collect();
        let is_clear = |end: &&LoneEnd| self.novel[end.other] && !self.novel[end.rank];
        let clear = ends.iter().find(is_clear);
        if clear.is_none() {
            let mut others = ends.iter().filter(|end| self.novel[end.rank] && !self.novel[end.other]);
            let left_out = others.find_map(|end| self.left_out_what_others_wait_in(end.rank, end.other));
            if left_out.is_some() {
                return left_out;
            }
        }
        let LoneEnd { rank, other, index } = *clear.or(ends.first())?;
        let stands = self.called(other, self.waits.heads[other]?);
        let finding = Finding::new(Cause::NoMessage, vec![other], vec![rank], self.called(rank, index), Some(stands));
        let finding = Finding { is_undecided: clear.is_none(), ..finding };
        Some(Found { finding, like: rank, index, is_stop: false })
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
        // Programs may differ by rank, as those of a pipeline do. A call that both sides have completed does not hold up the job, unless
        // others wait for this rank in it.
        let is_done = |rank: usize, at: usize| self.waits.done[rank].get(at).is_some_and(|done| *done);
        let is_clear = |Departure { rank, how, at, like, is_minority, .. }: &Departure| {
            let call = self.sequences.programs[*like].as_ref().and_then(|program| program.get(*at));
            let waits_in_it = |other: usize| self.waits.waits_for[other].contains(rank) && self.head(other) == call;
            let holds_up =
                !is_done(*rank, *at) || !is_done(*like, *at) || ranks.iter().any(|other| waits_in_it(*other));
            *is_minority && *how != How::Instead && holds_up
        };
        if self.job.is_cut || !left.iter().all(is_clear) {
            return Vec::new();
        }
        left.into_iter().filter_map(|departure| self.left(departure, |_, at| Some(at))).collect()
    }

    /// The calls in which ranks may wait for others of which nothing is known.
    fn unknown(&self) -> Vec<Found> {
        let mut found = Vec::new();
        for (comm, parting) in self.partings.iter().enumerate() {
            let Some(Parting::Unknown { at, unknown }) = parting else { continue };
            let members = self.known_members(comm);
            let makers: Vec<(usize, usize)> =
                members.iter().filter_map(|(rank, places)| Some((*rank, places.get(*at)?.index))).collect();
            let Some((like, index)) = makers.first().copied() else { continue };
            let others = makers.iter().map(|(rank, _)| *rank).collect();
            let last = unknown.first().and_then(|rank| self.last_call(*rank));
            let finding = Finding::new(Cause::Unknown, unknown.clone(), others, self.called(like, index), last);
            found.push(Found { finding, like, index, is_stop: false });
        }
        for LoneEnd { rank, other, index } in self.waited_for() {
            if self.job.programs[other].is_none() || self.old[other] {
                let (call, last) = (self.called(rank, index), self.last_call(other));
                let finding = Finding::new(Cause::Unknown, vec![other], vec![rank], call, last);
                found.push(Found { finding, like: rank, index, is_stop: false });
            }
        }
        found
    }

    /// The last collective before a finding that all members of its communicator completed.
    fn last_common(&self, found: &Found) -> Option<Called> {
        let item = self.job.programs[found.like].as_ref()?.get(found.index)?;
        let comm = self.job.units[item.unit].calls.first()?.comm;
        let members = self.known_members(comm);
        let (_, places) = members.iter().find(|(rank, _)| *rank == found.like)?;
        let before = places.partition_point(|place| place.index < found.index);
        let is_common = |at: &usize| {
            let mut all = members.iter().map(|(rank, places)| Some((*rank, places.get(*at)?)));
            all.all(|place| place.is_some_and(|(rank, place)| self.waits.done[rank][place.index]))
        };
        let at = (0..before).rev().find(is_common)?;
        Some(self.called(found.like, places[at].index))
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

    /// What a rank has called last.
    fn last_call(&self, rank: usize) -> Option<Called> {
        Some(self.called(rank, self.waits.done[rank].len().checked_sub(1)?))
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
            None if self.partings.iter().flatten().any(|parting| matches!(parting, Parting::Lacks { .. })) => {
                "No rank left the others: a rank that lacks a call stands in another one, for which all that is known is there. Something other \
                 than a missing call holds it up, such as the network, a GPU, or other work on a stream."
                    .to_owned()
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

/// One finding for each cause: ranks that left others in the same way, in communicators of one kind, are one, and so is a rank that many
/// wait for.
fn merged(found: Vec<Found>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for Found { finding, .. } in found {
        let words = |called: &Called| (called.what.clone(), called.stack.clone());
        let key = |finding: &Finding| {
            (finding.cause, finding.calls, words(&finding.call), finding.instead.as_ref().map(words))
        };
        let is_absent = matches!(finding.cause, Cause::Stopped | Cause::Unknown);
        let is_alike = |other: &&mut Finding| match is_absent {
            true => (other.cause, &other.ranks) == (finding.cause, &finding.ranks),
            false => key(other) == key(&finding),
        };
        let Some(other) = findings.iter_mut().find(is_alike) else {
            findings.push(finding);
            continue;
        };
        other.alike += usize::from(other.call.members != finding.call.members);
        if is_absent {
            continue;
        }
        for (all, more) in [(&mut other.ranks, finding.ranks), (&mut other.others, finding.others)] {
            all.extend(more);
            all.sort_unstable();
            all.dedup();
        }
        other.is_undecided |= finding.is_undecided;
    }
    findings
}
