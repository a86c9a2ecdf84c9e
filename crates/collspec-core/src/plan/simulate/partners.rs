//! Calls that have reached the heads of their streams find their partners and happen.
use super::super::lower::Index;
use super::super::rank_op::{RankOp, Route};
use super::super::registration::check_collective;
use super::super::types::Event;
use super::matching::{check_message, collective_event};
use super::{Message, Simulation};

impl Simulation<'_> {
    /// A call has reached the head of its stream.
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
                match collective_event(lowered, &arrived, |at| self.is_unknown(at)) {
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

    /// The number assigned to a call when its host issued it.
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
            self.clocks_message(send.map(|(_, node)| node), at, node);
            self.out.mismatches.extend(check_message(lowered, from, at).err());
            if !self.is_unknown(at) {
                self.out.events.push(Event::Received { message, call: lowered.rank_call(at, op.clone()) });
            }
            self.over(at, node);
        }
    }
}
