//! Reports the calls without a partner when nothing can move any more.
use super::super::comms::id_of;
use super::super::lower::Index;
use super::super::rank_op::{RankOp, Route};
use super::super::ranks_hint::who_runs;
use super::super::types::{CommId, Event, Waiting};
use super::Simulation;
use super::aborts::MAY_BE_ABORTED;
use crate::job::CallKind;
use crate::scenario::Diagnostic;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const SEND_WAITS: &str = "the send waits for its recv";

/// The roots of a communicator's unique ids that have not heard from all of their ranks; only some of them, if there are many.
fn roots_that_wait(members: &[usize], absent: &[usize], ids: usize) -> String {
    const TOLD: usize = 4;
    let mut by_id: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let of_id = members.iter().enumerate().filter(|(_, world)| absent.contains(world));
    for (rank, world) in of_id.filter(|_| ids > 1) {
        by_id.entry(id_of(rank, members.len(), ids)).or_default().push(*world);
    }
    let root = |(id, ranks): (usize, Vec<usize>)| {
        let plural = if ranks.len() == 1 { "" } else { "s" };
        let list: Vec<String> = ranks.iter().take(TOLD).map(ToString::to_string).collect();
        let more = if ranks.len() > TOLD { ", ..." } else { "" };
        format!("; the root of unique id {id} has not heard of rank{plural} {}{more}", list.join(", "))
    };
    by_id.into_iter().take(TOLD).map(root).collect()
}

impl Simulation<'_> {
    /// Reports sends that no rank ever receives: buffered or not, that is an error. Where ranks stand still, the sends are a part of
    /// that: who should receive them may stand elsewhere, and nothing says what it would do next.
    pub(super) fn report_unreceived(&mut self) {
        let lowered = self.lowered;
        if !self.out.waiting.is_empty() {
            return self.report_waiting_sends();
        }
        let calls = |rank: usize| lowered.ops[rank].iter().enumerate().map(move |(i, op)| ((rank, i), op));
        let mut balance: FxHashMap<Route, (i64, Index)> = FxHashMap::default();
        for (at, op) in (0..lowered.unrolled.n).flat_map(calls) {
            let Some(op) = op else { continue };
            let Some(route) = op.route() else { continue };
            let entry = balance.entry(route).or_insert((0, at));
            if matches!(op, RankOp::Send(_)) {
                *entry = (entry.0 + 1, at);
            } else {
                entry.0 -= 1;
            }
        }
        let aborted = self.out.events.iter().any(|e| matches!(e, Event::Undefined { .. }));
        let mut routes: Vec<_> = balance.into_iter().collect();
        // The first step in the program of the lowest rank is shown.
        routes.sort_unstable_by_key(|(route, (_, at))| (*at, route.to));
        for (route, (left, at)) in routes {
            if left > 0 && !aborted {
                let step = &lowered.unrolled.steps[lowered.step(at) as usize];
                let members = &lowered.unrolled.comms.list[route.comm].members;
                let [to, from] = [route.to, route.from].map(|rank| members.get(rank).copied().unwrap_or(rank));
                let text = format!("rank {to} never receives what rank {from} sends it here");
                let hint = who_runs(&lowered.unrolled.case, step.span);
                let help = hint.unwrap_or_else(|| "add the recv, or remove the send".into());
                self.out.mismatches.push(Diagnostic::new(step.span, text).help(help));
            }
        }
    }

    /// Reports the ranks whose sends were taken as buffered, and which wait for no other reason.
    fn report_waiting_sends(&mut self) {
        let lowered = self.lowered;
        let unreceived = self.messages.values().filter(|message| message.recv.is_none());
        let mut sends: Vec<Index> = unreceived.filter_map(|message| Some(message.send?.0)).collect();
        sends.sort_unstable();
        for at in sends {
            let (rank, _) = at;
            let waits = self.out.waiting.iter().any(|waiting| waiting.rank == rank);
            let Some(route) = lowered.op(at).and_then(RankOp::route) else { continue };
            if waits || self.is_dead(rank) || self.is_unknown(at) {
                continue;
            }
            let to = lowered.unrolled.comms.list[route.comm].members.get(route.to).copied().unwrap_or(route.to);
            self.out.waiting.push(Waiting { rank, step: lowered.step(at), what: SEND_WAITS.to_owned(), on: vec![to] });
        }
    }

    /// Reports the reason a rank that has not finished waits.
    pub(super) fn report_waiting(&mut self, rank: usize) {
        let lowered = self.lowered;
        if self.is_dead(rank) {
            return;
        }
        if let Some(waiting) = self.waits_for_the_dead(rank) {
            self.out.waiting.push(waiting);
            return;
        }
        if let Some(waiting) = self.host_waiting(rank) {
            self.out.waiting.push(waiting);
            return;
        }
        let streams = &self.ranks[rank].streams;
        let head = streams.iter().filter_map(|s| s.queue.front()).find(|id| self.nodes[**id].active).copied();
        if let Some(id) = head {
            let calls = &self.nodes[id].calls;
            let open = calls.iter().find_map(|i| self.partners_missing((rank, *i), id).map(|missing| (*i, missing)));
            if let Some((index, (on, what))) = open {
                self.out.waiting.push(Waiting { rank, step: lowered.step((rank, index)), what, on });
                return;
            }
        }
        if let Some(call) = lowered.programs[rank].get(self.ranks[rank].cursor) {
            if let CallKind::AwaitDeath { death, .. } = call.kind {
                let what = "the step goes on when all ranks have come to it".to_owned();
                self.out.waiting.push(Waiting { rank, step: call.step, what, on: self.absent(death) });
                return;
            }
            let group = self.ranks[rank].group.as_ref();
            let makers = group.map_or_else(|| vec![self.ranks[rank].cursor], |group| group.makers.clone());
            if let Some(waiting) = makers.into_iter().find_map(|index| self.unmet(rank, index)) {
                self.out.waiting.push(waiting);
            }
        }
    }

    /// The hosts that a call has come to meet, and which have not come.
    fn unmet(&mut self, rank: usize, index: usize) -> Option<Waiting> {
        let lowered = self.lowered;
        let call = &lowered.programs[rank][index];
        let (meeting, comm) = self.meeting_of(rank, index)?;
        // One thread may not have come to the rank's call yet.
        let here = self.hosts.get(&meeting).filter(|here| here.contains(&rank))?;
        let members = &lowered.unrolled.comms.list[comm as usize].members;
        let on: Vec<usize> = members.iter().copied().filter(|member| !here.contains(member)).collect();
        let mut what = "every member must make this call".to_owned();
        if let CallKind::Init { ids: Some(ids), .. } = call.kind {
            what.push_str(&roots_that_wait(members, &on, ids as usize));
        }
        (!on.is_empty()).then_some(Waiting { rank, step: call.step, what, on })
    }

    /// The world ranks that a call which has arrived but not happened waits for, and the reason.
    fn partners_missing(&self, at: Index, node: usize) -> Option<(Vec<usize>, String)> {
        if let Some(waits) = self.waits_for_abort(at) {
            return Some(waits);
        }
        let (on, what) = self.absent_partners(at)?;
        let withdrawn = self.withdrawn_partners(at, node);
        let (aborted, never): (Vec<usize>, Vec<usize>) = on.into_iter().partition(|rank| withdrawn.contains(rank));
        // If some rank never makes the call, the others wait for it whether or not another rank aborts.
        if never.is_empty() && !aborted.is_empty() {
            Some((aborted, MAY_BE_ABORTED.to_owned()))
        } else {
            Some((never, what))
        }
    }

    /// The world ranks whose part of a call has not come, and the reason that it waits for them.
    fn absent_partners(&self, at: Index) -> Option<(Vec<usize>, String)> {
        let lowered = self.lowered;
        let number = self.number_of(at);
        let members = |comm: CommId| &lowered.unrolled.comms.list[comm].members;
        let unsent = |route: Route| self.messages.get(&(route, number)).is_some_and(|message| !message.sent);
        let world = |comm: CommId, rank: usize| vec![members(comm).get(rank).copied().unwrap_or(rank)];
        let op = lowered.op(at)?;
        match op {
            RankOp::Collective(c) => {
                let meeting = self.meetings.get(&(c.comm, number))?;
                if meeting.happened {
                    return None;
                }
                let absent = |member: &usize| !meeting.arrived.iter().any(|a| a.0 == *member);
                let on = members(c.comm).iter().copied().filter(absent).collect();
                Some((on, "a collective waits for every rank of its communicator".to_owned()))
            }
            RankOp::Send(_) => {
                let route = op.route().filter(|route| unsent(*route))?;
                Some((world(route.comm, route.to), SEND_WAITS.to_owned()))
            }
            RankOp::Recv(_) => {
                let route = op.route().filter(|route| unsent(*route))?;
                Some((world(route.comm, route.from), "the recv waits for its send".to_owned()))
            }
            RankOp::OneSided(op) => self.signals_missing(at, op),
            RankOp::Map(_) => None,
        }
    }
}
