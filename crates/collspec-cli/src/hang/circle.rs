//! Ranks that wait for each other: which of them is at fault, if that can be told.
use super::departure::{Departure, How, departures};
use super::diagnosis::{Called, Cause, Finding};
use super::look::{Found, Look};
use super::sequences::{Member, Token};
use super::waits::LoneEnd;
use std::cmp::Reverse;

impl Look<'_> {
    /// Ranks that wait for each other: one may have left out a call of another communicator, else their order is wrong.
    pub fn circle(&self) -> Vec<Found> {
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
        vec![Found { finding, like, index }]
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
        Some(Found { finding, like: waiting, index })
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
        Some(Found { finding, like: rank, index })
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
}
