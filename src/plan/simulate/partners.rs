//! Calls that have come to the heads of their streams find their partners and happen; an abort ends them.
use super::super::lower::Index;
use super::super::rank_op::{RankOp, Route};
use super::super::registration::check_collective;
use super::super::types::{CommId, Event, Write};
use super::matching::{check_message, collective_event};
use super::{Message, Simulation};

impl Simulation<'_> {
    /// A call has come to the head of its stream.
    pub(super) fn arrive(&mut self, at: Index, node: usize) {
        let lowered = self.lowered;
        let number = self.number_of(at);
        match lowered.op(at) {
            Some(RankOp::Collective(c)) => {
                let size = lowered.unrolled.comms.list[c.comm].members.len();
                let meeting = self.meetings.entry((c.comm, number)).or_default();
                meeting.arrived.push(at);
                meeting.nodes.push(node);
                if meeting.arrived.len() < size {
                    return;
                }
                meeting.happened = true;
                let (arrived, nodes) = (meeting.arrived.clone(), meeting.nodes.clone());
                self.clocks_collective(&arrived, &nodes);
                match collective_event(lowered, &arrived) {
                    Ok(event) => {
                        self.out.mismatches.extend(check_collective(lowered, &arrived).err());
                        self.out.events.push(Event::Collective(event));
                    }
                    Err(diagnostic) => self.out.mismatches.push(diagnostic),
                }
                arrived.into_iter().zip(nodes).for_each(|(at, node)| self.over(at, node));
            }
            Some(op @ (RankOp::Send(_) | RankOp::Recv(_))) => {
                let Some(route) = op.route() else { return };
                let message = self.message(route, number);
                let side = if matches!(op, RankOp::Send(_)) { &mut message.send } else { &mut message.recv };
                *side = Some((at, node));
                self.deliver(route, number);
            }
            Some(RankOp::OneSided(op)) => self.arrive_one_sided(at, node, op),
            Some(RankOp::Map(map)) => {
                if !self.is_lost(at) {
                    self.out.events.push(Event::Map(lowered.rank_call(at, map.clone())));
                }
                self.over(at, node);
            }
            None => self.happened(node),
        }
    }

    /// The number that a call got when its host issued it.
    pub(super) fn number_of(&self, at: Index) -> usize {
        self.numbers.get(&at).copied().unwrap_or(0)
    }

    fn message(&mut self, route: Route, number: usize) -> &mut Message {
        let next = &mut self.next_message;
        self.messages.entry((route, number)).or_insert_with(|| {
            *next += 1;
            Message { number: *next - 1, ..Message::default() }
        })
    }

    fn deliver(&mut self, route: Route, number: usize) {
        let lowered = self.lowered;
        let buffered = self.buffered;
        let state = self.message(route, number);
        let (send, recv, message) = (state.send, state.recv, state.number);
        let leaves = send.is_some() && !state.sent && (buffered || recv.is_some());
        if leaves {
            state.sent = true;
        }
        if let (true, Some((at, node))) = (leaves, send)
            && let Some(RankOp::Send(op)) = lowered.op(at)
        {
            self.out.events.push(Event::Sent { message, call: lowered.rank_call(at, op.clone()) });
            self.over(at, node);
        }
        if let (Some((from, _)), Some((at, node))) = (send, recv)
            && let Some(RankOp::Recv(op)) = lowered.op(at)
        {
            self.clocks_message(send.map(|(_, node)| node), node);
            self.out.mismatches.extend(check_message(lowered, from, at).err());
            if !self.is_lost(at) {
                self.out.events.push(Event::Received { message, call: lowered.rank_call(at, op.clone()) });
            }
            self.over(at, node);
        }
    }

    /// Aborts this rank's calls on `comm` that its host has not waited for. What they have written is undefined.
    pub(super) fn abort(&mut self, rank: usize, comm: CommId) {
        let lowered = self.lowered;
        self.release(rank, comm);
        for id in self.unwaited(rank) {
            for index in self.nodes[id].calls.clone() {
                let at = (rank, index);
                let op = lowered.op(at);
                if op.and_then(RankOp::comm) != Some(comm) {
                    continue;
                }
                let mut others = Vec::new();
                let mut over = false;
                if let (Some(RankOp::Collective(_)), Some(number)) = (op, self.numbers.get(&at)) {
                    let meeting = self.meetings.entry((comm, *number)).or_default();
                    over = meeting.happened;
                    others.extend(meeting.arrived.iter().copied().filter(|a| *a != at));
                }
                // What a rank's own abort has ended, no later abort of another rank changes.
                others.retain(|(other, _)| !self.has_released(*other, comm));
                self.undefine(at, &others);
                self.abort_one_sided(at, self.nodes[id].done);
                if (!over || self.is_lost(at)) && !self.nodes[id].done {
                    if self.nodes[id].active {
                        self.happened(id);
                    } else {
                        self.aborted.insert(at);
                    }
                }
            }
        }
    }

    /// Marks what a call and its partners' calls have written as undefined, their factors in device memory among it: those are
    /// written on the stream right before the call.
    pub(super) fn undefine(&mut self, at: Index, partners: &[Index]) {
        let lowered = self.lowered;
        let writes = |at: &Index| {
            let after = lowered.ends[at.0][at.1];
            let factor = lowered.factor_in_device_memory(*at);
            let of = move |op: &'_ RankOp<_>| -> Vec<Write> {
                let regions = op.writes().iter().copied().chain(factor);
                regions.map(|region| Write { region, after, stream: op.stream() }).collect()
            };
            lowered.op(*at).map(of).unwrap_or_default()
        };
        let out = [at].iter().chain(partners).flat_map(writes).collect();
        self.out.events.push(Event::Undefined { step: lowered.step(at), out });
    }
}
