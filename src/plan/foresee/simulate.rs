//! The play itself: hosts issue calls to streams, streams run them in order, calls wait for their partners.
use super::super::lower::{LoweredProgram, MemoryEffect};
use super::super::types::{CommId, Event, Waiting, Write};
use super::{collective, host_blocking, message};
use crate::job::What;
use crate::scenario::Diagnostic;
use std::collections::{HashMap, HashSet, VecDeque};

/// How it went.
#[derive(Debug, Default)]
pub struct Played {
    /// In the order in which they happened.
    pub events: Vec<Event>,
    /// Who could not go on.
    pub waiting: Vec<Waiting>,
    /// Ranks' calls that do not fit together.
    pub faults: Vec<Diagnostic>,
}

/// (rank, call).
type At = (usize, usize);

/// What is enqueued as one: a call, or a group of them.
struct Node {
    rank: usize,
    calls: Vec<usize>,
    streams: Vec<u32>,
    /// Calls that have not happened.
    left: usize,
    /// (stream, number of nodes that must have left it).
    after: Vec<(u32, usize)>,
    active: bool,
    done: bool,
}

#[derive(Default)]
struct Stream {
    queue: VecDeque<usize>,
    issued: usize,
    finished: usize,
    /// The next node waits for these too.
    after: Vec<(u32, usize)>,
}

struct SimulatedRank {
    cursor: usize,
    streams: Vec<Stream>,
    /// Calls of the group that is open.
    group: Option<(usize, Vec<usize>)>,
    /// Nodes the host has not waited for.
    unwaited: Vec<usize>,
    host_arrived: bool,
}

#[derive(Default)]
struct Meeting {
    arrived: Vec<At>,
    nodes: Vec<usize>,
    happened: bool,
}

#[derive(Default)]
struct Message {
    post: Option<(At, usize)>,
    land: Option<(At, usize)>,
    posted: bool,
    number: usize,
}

struct Play<'a> {
    low: &'a LoweredProgram,
    buffered: bool,
    out: Played,
    ranks: Vec<SimulatedRank>,
    nodes: Vec<Node>,
    meetings: HashMap<(CommId, usize), Meeting>,
    hosts: HashMap<(u32, usize), Vec<usize>>,
    messages: HashMap<(CommId, usize, usize, usize), Message>,
    /// By call: its number on its communicator or pair, given when the host issues it.
    numbers: HashMap<At, usize>,
    counters: HashMap<(CommId, usize, usize, u8), usize>,
    /// Calls that an abort ended before their streams came to them.
    aborted: HashSet<At>,
    /// Nodes of calls, for aborts.
    node_of: HashMap<At, usize>,
    next_message: usize,
    ready: VecDeque<usize>,
    queued: Vec<bool>,
}

/// Plays the program; `buffered` sends do not wait.
pub fn play(low: &LoweredProgram, buffered: bool) -> Played {
    let n = low.p.n;
    let stream = |_| Stream::default();
    let rank = |_| SimulatedRank {
        cursor: 0,
        streams: (0..low.p.streams).map(stream).collect(),
        group: None,
        unwaited: Vec::new(),
        host_arrived: false,
    };
    let mut play = Play {
        low,
        buffered,
        out: Played::default(),
        ranks: (0..n).map(rank).collect(),
        nodes: Vec::new(),
        meetings: HashMap::new(),
        hosts: HashMap::new(),
        messages: HashMap::new(),
        numbers: HashMap::new(),
        counters: HashMap::new(),
        aborted: HashSet::new(),
        node_of: HashMap::new(),
        next_message: 0,
        ready: (0..n).collect(),
        queued: vec![true; n],
    };
    while let Some(rank) = play.ready.pop_front() {
        play.queued[rank] = false;
        play.advance(rank);
    }
    for rank in 0..n {
        play.report(rank);
    }
    play.unreceived();
    play.out
}

impl Play<'_> {
    fn wake(&mut self, rank: usize) {
        if !self.queued[rank] {
            self.queued[rank] = true;
            self.ready.push_back(rank);
        }
    }

    /// Lets a rank's host and streams go as far as they can.
    fn advance(&mut self, rank: usize) {
        loop {
            let moved = self.host(rank);
            let ran = self.streams(rank);
            if !moved && !ran {
                break;
            }
        }
    }

    /// Issues calls until the host has to wait; true if it got further.
    fn host(&mut self, rank: usize) -> bool {
        let mut moved = false;
        let low = self.low;
        while let Some(call) = low.programs[rank].get(self.ranks[rank].cursor) {
            let index = self.ranks[rank].cursor;
            match &call.what {
                What::GroupStart => match &mut self.ranks[rank].group {
                    Some((depth, _)) => *depth += 1,
                    None => self.ranks[rank].group = Some((1, Vec::new())),
                },
                What::GroupEnd => {
                    let closed = match &mut self.ranks[rank].group {
                        Some((depth, calls)) => {
                            *depth -= 1;
                            (*depth == 0).then(|| std::mem::take(calls))
                        }
                        None => None,
                    };
                    if let Some(calls) = closed {
                        self.ranks[rank].group = None;
                        self.issue(rank, calls);
                    }
                }
                What::After { stream, on } => {
                    let deps: Vec<(u32, usize)> =
                        on.iter().map(|s| (*s, self.ranks[rank].streams[*s as usize].issued)).collect();
                    self.ranks[rank].streams[*stream as usize].after.extend(deps);
                    self.node(rank, Vec::new(), vec![*stream]);
                }
                What::Wait { stream } => {
                    let idle = |s: &Stream| s.queue.is_empty();
                    let streams = &self.ranks[rank].streams;
                    let done = match stream {
                        Some(s) => idle(&streams[*s as usize]),
                        None => streams.iter().all(idle),
                    };
                    if !done {
                        return moved;
                    }
                    let nodes = &self.nodes;
                    self.ranks[rank].unwaited.retain(|node| !nodes[*node].done);
                }
                What::Init { .. } | What::Split { .. } if !call.tolerate => {
                    if !self.host_meeting(rank, index) {
                        return moved;
                    }
                    self.ranks[rank].host_arrived = false;
                }
                What::Finalize { comm } | What::Destroy { comm } => {
                    let busy = self.ranks[rank]
                        .streams
                        .iter()
                        .flat_map(|s| &s.queue)
                        .any(|node| self.speaks(*node, *comm as usize));
                    if busy {
                        return moved;
                    }
                }
                What::Abort { comm } => self.abort(rank, *comm as usize),
                What::Exit => {
                    self.ranks[rank].cursor = low.programs[rank].len();
                    return true;
                }
                _ if low.sems[rank][index].is_some() => match &mut self.ranks[rank].group {
                    Some((_, calls)) => calls.push(index),
                    None => self.issue(rank, vec![index]),
                },
                _ => {}
            }
            self.ranks[rank].cursor += 1;
            moved = true;
        }
        moved
    }

    /// `Init` and `Split` wait on the host for every member; true once all are there.
    fn host_meeting(&mut self, rank: usize, index: usize) -> bool {
        let low = self.low;
        let what = &low.programs[rank][index].what;
        debug_assert!(host_blocking(what), "only these meet on the host");
        let (comm, kind) = match what {
            What::Init { comm, .. } => (*comm, 2),
            What::Split { parent, .. } => (*parent, 3),
            _ => return true,
        };
        let members = &low.p.comms.list[comm as usize].members;
        let number = match self.numbers.get(&(rank, index)) {
            Some(number) => *number,
            None => self.number((rank, index), (comm as usize, rank, 0, kind)),
        };
        let key = (comm * 2 + u32::from(kind == 3), number);
        let here = self.hosts.entry(key).or_default();
        if !self.ranks[rank].host_arrived {
            self.ranks[rank].host_arrived = true;
            here.push(rank);
            if here.len() == members.len() {
                let others: Vec<usize> = here.clone();
                others.into_iter().filter(|r| *r != rank).for_each(|r| self.wake(r));
            }
        }
        self.hosts.get(&key).is_some_and(|h| h.len() >= members.len())
    }

    fn number(&mut self, at: At, key: (CommId, usize, usize, u8)) -> usize {
        let counter = self.counters.entry(key).or_insert(0);
        let number = *counter;
        *counter += 1;
        self.numbers.insert(at, number);
        number
    }

    fn stream_of(&self, at: At) -> u32 {
        match &self.low.sems[at.0][at.1] {
            Some(MemoryEffect::Collective(c)) => c.stream,
            Some(
                MemoryEffect::Post { stream, .. }
                | MemoryEffect::Land { stream, .. }
                | MemoryEffect::Map { stream, .. },
            ) => *stream,
            None => 0,
        }
    }

    /// A group starts as one what it has of one communicator; its communicators take their turns on a stream, in the
    /// order in which the group first names them.
    fn issue(&mut self, rank: usize, calls: Vec<usize>) {
        let mut parts: Vec<(Option<CommId>, Vec<usize>)> = Vec::new();
        for index in calls {
            let comm = comm_of(self.low, (rank, index));
            match parts.iter_mut().find(|(c, _)| *c == comm) {
                Some((_, list)) => list.push(index),
                None => parts.push((comm, vec![index])),
            }
        }
        for (_, part) in parts {
            self.issue_part(rank, part);
        }
    }

    fn issue_part(&mut self, rank: usize, calls: Vec<usize>) {
        let mut streams: Vec<u32> = calls.iter().map(|i| self.stream_of((rank, *i))).collect();
        streams.sort_unstable();
        streams.dedup();
        for index in &calls {
            let key = match &self.low.sems[rank][*index] {
                Some(MemoryEffect::Collective(c)) => (c.comm, c.me, 0, 0),
                Some(MemoryEffect::Post { comm, me, peer, .. }) => (*comm, *me, *peer, 1),
                Some(MemoryEffect::Land { comm, me, peer, .. }) => (*comm, *peer, *me, 4),
                _ => continue,
            };
            self.number((rank, *index), key);
        }
        if !calls.is_empty() {
            self.node(rank, calls, streams);
        }
    }

    fn node(&mut self, rank: usize, calls: Vec<usize>, streams: Vec<u32>) {
        let id = self.nodes.len();
        let mut after = Vec::new();
        for s in &streams {
            let stream = &mut self.ranks[rank].streams[*s as usize];
            after.append(&mut stream.after);
            stream.issued += 1;
            stream.queue.push_back(id);
        }
        for index in &calls {
            self.node_of.insert((rank, *index), id);
        }
        self.ranks[rank].unwaited.push(id);
        let left = calls.len();
        self.nodes.push(Node { rank, calls, streams, left, after, active: false, done: false });
    }

    fn speaks(&self, node: usize, comm: CommId) -> bool {
        let rank = self.nodes[node].rank;
        self.nodes[node].calls.iter().any(|i| comm_of(self.low, (rank, *i)) == Some(comm))
    }

    /// Runs what stands at the head of a rank's streams; true if something finished.
    fn streams(&mut self, rank: usize) -> bool {
        let mut ran = false;
        for s in 0..self.ranks[rank].streams.len() {
            while let Some(id) = self.ranks[rank].streams[s].queue.front().copied() {
                if !self.nodes[id].active {
                    let node = &self.nodes[id];
                    let streams = &self.ranks[rank].streams;
                    let heads = node.streams.iter().all(|s| streams[*s as usize].queue.front() == Some(&id));
                    let deps = node.after.iter().all(|(s, count)| streams[*s as usize].finished >= *count);
                    if !heads || !deps {
                        break;
                    }
                    self.nodes[id].active = true;
                    for index in self.nodes[id].calls.clone() {
                        if self.aborted.contains(&(rank, index)) {
                            // Calls before it on its streams may have written to its output since the abort.
                            self.undefine((rank, index), &[]);
                            self.happened(id);
                        } else {
                            self.arrive((rank, index), id);
                        }
                    }
                }
                if self.nodes[id].left > 0 {
                    break;
                }
                self.finish(id);
                ran = true;
            }
        }
        ran
    }

    fn finish(&mut self, id: usize) {
        let node = &mut self.nodes[id];
        node.done = true;
        let (rank, streams) = (node.rank, node.streams.clone());
        for s in streams {
            let stream = &mut self.ranks[rank].streams[s as usize];
            stream.queue.pop_front();
            stream.finished += 1;
        }
        self.wake(rank);
    }

    fn happened(&mut self, node: usize) {
        let node = &mut self.nodes[node];
        node.left = node.left.saturating_sub(1);
        let rank = node.rank;
        self.wake(rank);
    }

    /// A call has come to the head of its stream.
    fn arrive(&mut self, at: At, node: usize) {
        let low = self.low;
        let number = self.numbers.get(&at).copied().unwrap_or(0);
        match &low.sems[at.0][at.1] {
            Some(MemoryEffect::Collective(c)) => {
                let size = low.p.comms.list[c.comm].members.len();
                let meeting = self.meetings.entry((c.comm, number)).or_default();
                meeting.arrived.push(at);
                meeting.nodes.push(node);
                if meeting.arrived.len() < size {
                    return;
                }
                meeting.happened = true;
                let (arrived, nodes) = (meeting.arrived.clone(), meeting.nodes.clone());
                match collective(low, &arrived) {
                    Ok(event) => self.out.events.push(event),
                    Err(d) => self.out.faults.push(d),
                }
                nodes.into_iter().for_each(|n| self.happened(n));
            }
            Some(MemoryEffect::Post { comm, me, peer, .. }) => {
                let key = (*comm, *me, *peer, number);
                self.message(key).post = Some((at, node));
                self.deliver(key);
            }
            Some(MemoryEffect::Land { comm, me, peer, .. }) => {
                let key = (*comm, *peer, *me, number);
                self.message(key).land = Some((at, node));
                self.deliver(key);
            }
            Some(MemoryEffect::Map { expr, names, reads, out, stream }) => {
                let out = Write { region: *out, after: low.ends[at.0][at.1], stream: *stream };
                let step = low.programs[at.0][at.1].step;
                self.out.events.push(Event::Map {
                    step,
                    expr: expr.clone(),
                    names: names.clone(),
                    reads: reads.clone(),
                    out,
                });
                self.happened(node);
            }
            None => self.happened(node),
        }
    }

    fn message(&mut self, key: (CommId, usize, usize, usize)) -> &mut Message {
        let next = &mut self.next_message;
        self.messages.entry(key).or_insert_with(|| {
            *next += 1;
            Message { number: *next - 1, ..Message::default() }
        })
    }

    fn deliver(&mut self, key: (CommId, usize, usize, usize)) {
        let low = self.low;
        let buffered = self.buffered;
        let message_ = self.message(key);
        let (post, land, number) = (message_.post, message_.land, message_.number);
        let send_now = post.is_some() && !message_.posted && (buffered || land.is_some());
        if send_now {
            message_.posted = true;
        }
        if let (true, Some((at, node))) = (send_now, post)
            && let Some(MemoryEffect::Post { from, .. }) = &low.sems[at.0][at.1]
        {
            self.out.events.push(Event::Post { step: low.programs[at.0][at.1].step, message: number, from: *from });
            self.happened(node);
        }
        if let (Some((from, _)), Some((at, node))) = (post, land)
            && let Some(MemoryEffect::Land { to, stream, .. }) = &low.sems[at.0][at.1]
        {
            self.out.faults.extend(message(low, from, at).err());
            let to = Write { region: *to, after: low.ends[at.0][at.1], stream: *stream };
            self.out.events.push(Event::Land { step: low.programs[at.0][at.1].step, message: number, to });
            self.happened(node);
        }
    }

    /// Aborts this rank's calls on `comm` that its host has not waited for. What they have written is undefined.
    fn abort(&mut self, rank: usize, comm: CommId) {
        let low = self.low;
        for id in self.ranks[rank].unwaited.clone() {
            for index in self.nodes[id].calls.clone() {
                let at = (rank, index);
                if comm_of(low, at) != Some(comm) {
                    continue;
                }
                let mut others = Vec::new();
                let mut over = false;
                if let (Some(MemoryEffect::Collective(_)), Some(number)) =
                    (&low.sems[rank][index], self.numbers.get(&at))
                {
                    let meeting = self.meetings.entry((comm, *number)).or_default();
                    over = meeting.happened;
                    others.extend(meeting.arrived.iter().copied().filter(|a| *a != at));
                }
                self.undefine(at, &others);
                if !over && !self.nodes[id].done {
                    if self.nodes[id].active {
                        self.happened(id);
                    } else {
                        self.aborted.insert(at);
                    }
                }
            }
        }
    }

    /// Marks what a call and its partners' calls have written as undefined.
    fn undefine(&mut self, at: At, partners: &[At]) {
        let out = [at].iter().chain(partners).filter_map(|at| self.written(*at)).collect();
        self.out.events.push(Event::Undefined { step: self.low.programs[at.0][at.1].step, out });
    }

    fn written(&self, at: At) -> Option<Write> {
        let region = match self.low.sems[at.0][at.1].as_ref()? {
            MemoryEffect::Collective(c) => c.recv?,
            MemoryEffect::Land { to, .. } => *to,
            _ => return None,
        };
        Some(Write { region, after: self.low.ends[at.0][at.1], stream: self.stream_of(at) })
    }

    /// Sends that nobody ever receives: buffered or not, that is a mistake.
    fn unreceived(&mut self) {
        let low = self.low;
        let calls = |rank: usize| low.sems[rank].iter().enumerate().map(move |(i, sem)| ((rank, i), sem));
        let all = (0..low.p.n).flat_map(calls);
        let mut balance: HashMap<(CommId, usize, usize), (i64, At)> = HashMap::new();
        for (at, sem) in all {
            let (key, one) = match sem {
                Some(MemoryEffect::Post { comm, me, peer, .. }) => ((*comm, *me, *peer), 1),
                Some(MemoryEffect::Land { comm, me, peer, .. }) => ((*comm, *peer, *me), -1),
                _ => continue,
            };
            let entry = balance.entry(key).or_insert((0, at));
            entry.0 += one;
            if one > 0 {
                entry.1 = at;
            }
        }
        for ((_, me, peer), (left, at)) in balance {
            if left > 0 && !self.out.events.iter().any(|e| matches!(e, Event::Undefined { .. })) {
                let step = &low.p.steps[low.programs[at.0][at.1].step as usize];
                let text = format!("rank {peer} never receives what rank {me} sends it here");
                self.out.faults.push(Diagnostic::new(step.span, text).help("add the recv, or remove the send"));
            }
        }
    }

    /// What a rank that has not finished waits for.
    fn report(&mut self, rank: usize) {
        let low = self.low;
        let head =
            self.ranks[rank].streams.iter().filter_map(|s| s.queue.front()).find(|id| self.nodes[**id].active).copied();
        if let Some(id) = head {
            let calls = &self.nodes[id].calls;
            let open = calls.iter().find_map(|i| self.lacks((rank, *i)).map(|w| (*i, w)));
            if let Some((index, (on, what))) = open {
                self.out.waiting.push(Waiting { rank, step: low.programs[rank][index].step, what, on });
                return;
            }
        }
        if let Some(call) = low.programs[rank].get(self.ranks[rank].cursor) {
            let comm = match &call.what {
                What::Init { comm, .. } => *comm,
                What::Split { parent, .. } => *parent,
                _ => return,
            };
            let members = &low.p.comms.list[comm as usize].members;
            let on = members.iter().copied().filter(|r| *r != rank && !self.ranks[*r].host_arrived).collect();
            self.out.waiting.push(Waiting {
                rank,
                step: call.step,
                what: "every member must make this call".to_owned(),
                on,
            });
        }
    }

    /// Whom a call that has arrived but not happened waits for.
    fn lacks(&self, at: At) -> Option<(Vec<usize>, String)> {
        let low = self.low;
        let number = self.numbers.get(&at).copied().unwrap_or(0);
        let world = |comm: CommId, r: usize| low.p.comms.list[comm].members.get(r).copied().unwrap_or(r);
        match low.sems[at.0][at.1].as_ref()? {
            MemoryEffect::Collective(c) => {
                let meeting = self.meetings.get(&(c.comm, number))?;
                if meeting.happened {
                    return None;
                }
                let members = &low.p.comms.list[c.comm].members;
                let on = members.iter().copied().filter(|m| !meeting.arrived.iter().any(|a| a.0 == *m)).collect();
                Some((on, "a collective waits for every rank of its communicator".to_owned()))
            }
            MemoryEffect::Post { comm, me, peer, .. } => {
                let message = self.messages.get(&(*comm, *me, *peer, number))?;
                (!message.posted).then(|| (vec![world(*comm, *peer)], "the send waits for its recv".to_owned()))
            }
            MemoryEffect::Land { comm, me, peer, .. } => {
                let message = self.messages.get(&(*comm, *peer, *me, number))?;
                (!message.posted).then(|| (vec![world(*comm, *peer)], "the recv waits for its send".to_owned()))
            }
            MemoryEffect::Map { .. } => None,
        }
    }
}

fn comm_of(low: &LoweredProgram, at: At) -> Option<CommId> {
    match low.sems[at.0][at.1].as_ref()? {
        MemoryEffect::Collective(c) => Some(c.comm),
        MemoryEffect::Post { comm, .. } | MemoryEffect::Land { comm, .. } => Some(*comm),
        MemoryEffect::Map { .. } => None,
    }
}
