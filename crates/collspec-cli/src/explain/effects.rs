//! What an event reads and writes, and which rank each part of a result comes from.
use collspec_core::ops::Rule;
use collspec_core::plan::{CollectiveEvent, CommId, Event, Plan, Region};
use std::collections::HashMap;

/// The origin of a part of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This world rank's memory, unchanged.
    Copy(usize),
    /// A reduction of all ranks' elements; the region begins with this element of it.
    Reduced(u64),
    /// Anything: an abort or an error may have cut the operation short.
    Undefined,
}

/// A part of a buffer that an event writes.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub region: Region,
    pub source: Source,
}

/// The world ranks that send the messages of a plan, and the events in which they arrive.
pub struct Messages {
    senders: HashMap<usize, usize>,
    arrivals: HashMap<usize, usize>,
}

impl Messages {
    pub fn of(plan: &Plan) -> Self {
        let (mut senders, mut arrivals) = (HashMap::new(), HashMap::new());
        for (number, event) in plan.events.iter().enumerate() {
            match event {
                Event::Sent { message, call } => _ = senders.insert(*message, call.op.memory.rank),
                Event::Received { message, .. } => _ = arrivals.insert(*message, number),
                _ => {}
            }
        }
        Self { senders, arrivals }
    }

    /// The world rank that sends a message.
    pub fn sender(&self, message: usize) -> Option<usize> {
        self.senders.get(&message).copied()
    }

    /// The event in which a message arrives.
    pub fn arrival(&self, message: usize) -> Option<usize> {
        self.arrivals.get(&message).copied()
    }
}

/// The communicator of an event; a map has none.
pub fn comm_of(event: &Event) -> Option<CommId> {
    match event {
        Event::Collective(collective) => Some(collective.comm()),
        Event::Sent { call, .. } | Event::Received { call, .. } => Some(call.op.comm),
        Event::Map(_) | Event::Undefined { .. } => None,
    }
}

/// The parts that an event writes on the ranks for which `is_shown`.
pub fn pieces(plan: &Plan, event: &Event, messages: &Messages, is_shown: impl Fn(usize) -> bool) -> Vec<Piece> {
    match event {
        Event::Collective(collective) => {
            let recvs = collective.recvs().enumerate().filter_map(|(at, write)| Some((at, write?.region)));
            let shown = recvs.filter(|(_, region)| is_shown(region.rank));
            shown.flat_map(|(at, region)| of_collective(plan, collective, at, region)).collect()
        }
        Event::Received { message, call } if is_shown(call.op.memory.rank) => {
            let source = messages.sender(*message).map_or(Source::Undefined, Source::Copy);
            vec![Piece { region: call.op.memory, source }]
        }
        Event::Map(call) if is_shown(call.op.out.rank) => {
            vec![Piece { region: call.op.out, source: Source::Copy(call.op.out.rank) }]
        }
        Event::Undefined { out, .. } => {
            let out = out.iter().map(|write| write.region).filter(|region| is_shown(region.rank));
            out.map(|region| Piece { region, source: Source::Undefined }).collect()
        }
        Event::Sent { .. } | Event::Received { .. } | Event::Map(_) => Vec::new(),
    }
}

/// The parts of what rank `at` of the communicator receives.
fn of_collective(plan: &Plan, collective: &CollectiveEvent, at: usize, region: Region) -> Vec<Piece> {
    let members = plan.comms.get(collective.comm()).map_or(&[][..], |comm| &comm.members);
    let world = |rank: usize| members.get(rank).copied().unwrap_or(rank);
    match collective.op().rule {
        Rule::Reduced => vec![Piece { region, source: Source::Reduced(0) }],
        Rule::ReducedBlock => vec![Piece { region, source: Source::Reduced(at as u64 * region.len) }],
        Rule::RootCopy | Rule::RootBlock => {
            vec![Piece { region, source: Source::Copy(world(collective.first.op.root())) }]
        }
        Rule::Concat | Rule::Transpose => {
            let ranks = collective.calls.len().max(1) as u64;
            let len = region.len / ranks;
            let block = |rank: u64| {
                let region = Region { start: region.start + rank * len, len, ..region };
                Piece { region, source: Source::Copy(world(rank as usize)) }
            };
            (0..ranks).map(block).collect()
        }
    }
}
