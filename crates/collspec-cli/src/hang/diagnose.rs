//! From the calls of all ranks to what is said of them.
use super::diagnosis::{Called, Cause, Diagnosis, Finding, Waiting};
use super::history::novel_ranks;
use super::job::Job;
use super::look::{Found, Look};
use super::old::old_ranks;
use super::parting::{Parting, parting};
use super::sequences::Sequences;
use super::waits::{LoneEnd, Waits, messages};
use crate::import::flight_recorder::Unfit;
use collspec_core::judge::message::ranks_text;
use std::collections::{BTreeSet, HashMap, HashSet};

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
    found.sort_by_key(|found| (found.finding.cause == Cause::Stopped, found.index));
    let last_common = found.first().and_then(|found| look.last_common(found));
    let findings = merged(found);
    let waiting = look.waiting();
    let verdict = look.verdict(&findings, &waiting);
    Diagnosis { verdict, findings, waiting, last_common, remarks: job.remarks.clone() }
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
            Some(Found { finding, like: *from, index: sent.index })
        });
        let has_stopped =
            |other: usize| self.job.programs[other].is_some() && !self.old[other] && self.waits.heads[other].is_none();
        let stopped = self.waited_for().filter(|end| has_stopped(end.other));
        let stopped = stopped.map(|end| self.stopped(vec![end.other], vec![end.rank], end.rank, end.index));
        differ.chain(stopped).collect()
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
            found.push(Found { finding, like, index });
        }
        for LoneEnd { rank, other, index } in self.waited_for() {
            if self.job.programs[other].is_none() || self.old[other] {
                let (call, last) = (self.called(rank, index), self.last_call(other));
                let finding = Finding::new(Cause::Unknown, vec![other], vec![rank], call, last);
                found.push(Found { finding, like: rank, index });
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
            let last = if call.is_none() { self.last_call(rank) } else { None };
            by_call.entry((call, last, program.is_none())).or_default().push(rank);
        }
        let mut waiting: Vec<Waiting> = by_call
            .into_iter()
            .map(|((call, last, is_unknown), ranks)| Waiting { ranks, call, last, is_unknown })
            .collect();
        waiting.sort_by(|one, other| one.ranks.cmp(&other.ranks));
        waiting
    }

    /// What is said if the sizes of an open all_to_all do not fit together.
    fn unfit(&self) -> Option<String> {
        let stands_in = |(rank, head): (usize, &Option<usize>)| {
            let item = self.job.programs[rank].as_ref()?.get((*head)?)?;
            let launch = self.job.launches.get(rank)?.get(item.at as usize)?;
            Some(Unfit { comm: launch.comm, number: launch.entries.first()?.number })
        };
        let standing: HashSet<Unfit> = self.waits.heads.iter().enumerate().filter_map(stands_in).collect();
        let unfit = self.job.unfit.iter().find(|unfit| standing.contains(unfit))?;
        let on = self.job.names.get(unfit.comm)?;
        Some(format!(
            "No rank left the others, but the sizes that they gave to the all_to_all that is call {} of {on} do not fit together: what is sent \
             is not what is received.",
            unfit.number
        ))
    }

    fn verdict(&self, findings: &[Finding], waiting: &[Waiting]) -> String {
        match findings.first().map(Finding::sentence).or_else(|| self.unfit()) {
            Some(sentence) => sentence,
            None if waiting.iter().any(|waiting| waiting.is_unknown) => {
                let of = |is_unknown: bool| {
                    let those = waiting.iter().filter(|waiting| waiting.is_unknown == is_unknown);
                    let ranks: BTreeSet<usize> = those.flat_map(|waiting| waiting.ranks.iter().copied()).collect();
                    ranks_text(&ranks.into_iter().collect::<Vec<_>>())
                };
                format!(
                    "Nothing is known of {}, so it cannot be said whether a rank left the others. The calls of {} show nothing wrong.",
                    of(true),
                    of(false)
                )
            }
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
