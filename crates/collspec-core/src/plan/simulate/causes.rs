//! Determines which operations are over before an abort in every run. The simulation shows only one possible order: an operation
//! that it finishes before the abort may still be running when a real run aborts.
//!
//! The graph has a vertex for the start and the end of each node, and a vertex each time a host learns that something is over. A
//! path from one vertex to another means that the first comes before the second in every run.
use super::super::lower::LoweredProgram;
use super::super::rank_op::RankOp;
use super::{Index, Simulation};
use crate::job::CallKind;
use rustc_hash::FxHashMap;

/// The number of vertices and edges that the searches for one simulation may visit.
const MOST_VISITS: usize = 1 << 28;

pub(super) type Vertex = u32;

/// The graph of a simulation.
pub(super) struct Causes {
    /// For each vertex: the vertices with an edge to it.
    before: Vec<Vec<Vertex>>,
    /// For each vertex: the time at which the simulation reached it.
    time: Vec<u32>,
    now: u32,
    /// For each rank: the vertex of its host's knowledge.
    host: Vec<Vertex>,
    /// The vertex at which each node starts.
    start: Vec<Vertex>,
    end: Vec<Vertex>,
    /// Vertices for meetings of hosts.
    met: FxHashMap<(u32, usize), Vertex>,
}

/// Searches for the vertices that come before another one.
pub(super) struct Past {
    /// For each vertex: the number of the last search that reached it.
    seen: Vec<u32>,
    search: u32,
    visits: usize,
}

impl Causes {
    /// `None` if the program does not abort anything.
    pub fn of(lowered: &LoweredProgram) -> Option<Self> {
        let aborts = |kind: &CallKind| {
            matches!(kind, CallKind::Abort { .. } | CallKind::Revoke { .. } | CallKind::Shrink { abort: true, .. })
        };
        lowered.programs.iter().flatten().find(|call| aborts(&call.kind))?;
        let n = lowered.unrolled.n;
        let (before, host) = (vec![Vec::new(); n], (0..n as Vertex).collect());
        Some(Self {
            before,
            time: vec![0; n],
            now: 0,
            host,
            start: Vec::new(),
            end: Vec::new(),
            met: FxHashMap::default(),
        })
    }

    fn vertex(&mut self, before: Vec<Vertex>) -> Vertex {
        self.before.push(before);
        self.now += 1;
        self.time.push(self.now);
        (self.before.len() - 1) as Vertex
    }

    /// Records that the simulation reaches the vertex now.
    fn comes(&mut self, vertex: Vertex) {
        self.now += 1;
        self.time[vertex as usize] = self.now;
    }

    fn follows(&mut self, vertex: Vertex, before: Vertex) {
        self.before[vertex as usize].push(before);
    }

    /// The time at which a node began.
    pub fn start_time(&self, node: usize) -> u32 {
        self.time[self.start[node] as usize]
    }

    /// The time at which a node ended.
    pub fn end_time(&self, node: usize) -> u32 {
        self.time[self.end[node] as usize]
    }

    /// A vertex for an abort of a rank, which comes before all that its host does later.
    pub fn abort(&mut self, rank: usize) -> Vertex {
        let abort = self.vertex(vec![self.host[rank]]);
        self.host[rank] = abort;
        abort
    }

    /// True if the node starts after the vertex in every run.
    pub fn starts_after(&self, node: usize, vertex: Vertex) -> bool {
        let mut past = Past::new(self);
        past.search(self, self.start[node], self.time[vertex as usize]);
        past.seen[vertex as usize] == past.search
    }

    /// The vertex of a rank's host's knowledge.
    pub fn host(&self, rank: usize) -> Vertex {
        self.host[rank]
    }
}

impl Past {
    pub fn new(causes: &Causes) -> Self {
        Self { seen: vec![0; causes.before.len()], search: 0, visits: 0 }
    }

    /// Finds the vertices that come before `from` in every run, back to the time `since` of the simulation. Returns false
    /// when all searches together have visited more than [`MOST_VISITS`].
    pub fn search(&mut self, causes: &Causes, from: Vertex, since: u32) -> bool {
        self.search += 1;
        self.seen[from as usize] = self.search;
        let mut open = vec![from];
        while let Some(vertex) = open.pop() {
            let before = &causes.before[vertex as usize];
            self.visits += 1 + before.len();
            for other in before {
                let seen = &mut self.seen[*other as usize];
                // The simulation is one possible run, so older vertices lead only to even older ones.
                if *seen != self.search && causes.time[*other as usize] >= since {
                    *seen = self.search;
                    open.push(*other);
                }
            }
        }
        self.visits <= MOST_VISITS
    }

    /// True if the node is over before the vertex at which the last search started.
    pub fn has_ended(&self, causes: &Causes, node: usize) -> bool {
        self.seen[causes.end[node] as usize] == self.search
    }
}

impl Simulation<'_> {
    /// The host of a rank issues a node. For each stream that the node waits for, `behind` gives the number of its nodes that come first.
    pub(super) fn causes_issue(&mut self, rank: usize, behind: impl Iterator<Item = (u32, usize)>) {
        let Some(causes) = &mut self.causes else { return };
        let last = |(stream, count): (u32, usize)| {
            let stream = &self.ranks[rank].streams[stream as usize];
            // The host already knows that earlier ones are over.
            let last = count.checked_sub(1).filter(|last| *last >= stream.waited)?;
            stream.nodes.get(last).copied()
        };
        let mut before: Vec<Vertex> = behind.filter_map(last).map(|id| causes.end[id]).collect();
        before.push(causes.host[rank]);
        let start = causes.vertex(before);
        let end = causes.vertex(vec![start]);
        causes.start.push(start);
        causes.end.push(end);
    }

    pub(super) fn causes_begin(&mut self, id: usize) {
        if let Some(causes) = &mut self.causes {
            causes.comes(causes.start[id]);
        }
    }

    pub(super) fn causes_end(&mut self, id: usize) {
        if let Some(causes) = &mut self.causes {
            causes.comes(causes.end[id]);
        }
    }

    /// The thread that drives all ranks moves to another step: from now on all hosts know what one rank's host knows.
    pub(super) fn causes_thread_goes_on(&mut self) {
        let Some(causes) = &mut self.causes else { return };
        let mut before = causes.host.clone();
        before.dedup();
        if before.len() > 1 {
            let all = causes.vertex(before);
            causes.host.fill(all);
        }
    }

    /// The host of a rank has waited for a stream, or for all.
    pub(super) fn causes_host_waits(&mut self, rank: usize, stream: Option<u32>) {
        let streams = self.ranks[rank].streams.iter().enumerate();
        let waited = streams.filter(|(number, _)| stream.is_none_or(|stream| stream as usize == *number));
        let new = waited.filter_map(|(_, stream)| stream.nodes.get(stream.waited..)?.last().copied()).collect();
        self.causes_host_knows(rank, new);
    }

    /// The host of a rank knows that these nodes are over.
    pub(super) fn causes_host_knows(&mut self, rank: usize, nodes: Vec<usize>) {
        let Some(causes) = &mut self.causes else { return };
        if !nodes.is_empty() {
            let mut before: Vec<Vertex> = nodes.into_iter().map(|id| causes.end[id]).collect();
            before.push(causes.host[rank]);
            causes.host[rank] = causes.vertex(before);
        }
    }

    pub(super) fn causes_host_comes(&mut self, rank: usize, meeting: (u32, usize)) {
        let Some(causes) = &mut self.causes else { return };
        let host = causes.host[rank];
        let vertex = match causes.met.get(&meeting) {
            Some(vertex) => *vertex,
            None => causes.vertex(Vec::new()),
        };
        causes.met.insert(meeting, vertex);
        causes.follows(vertex, host);
        causes.comes(vertex);
    }

    pub(super) fn causes_hosts_met(&mut self, rank: usize, meetings: &[(u32, usize)]) {
        let Some(causes) = &mut self.causes else { return };
        let met: Vec<Vertex> = meetings.iter().filter_map(|meeting| causes.met.get(meeting).copied()).collect();
        match met.as_slice() {
            [] => {}
            // After a meeting all its hosts have the same knowledge.
            [met] => causes.host[rank] = *met,
            _ => causes.host[rank] = causes.vertex(met),
        }
    }

    /// The ranks that receive data of a collective wait for the starts of those that send some, unless an abort may end their call
    /// before that.
    pub(super) fn causes_collective(&mut self, arrived: &[Index], nodes: &[usize]) {
        let Some(causes) = &mut self.causes else { return };
        let calls = arrived.iter().zip(nodes).filter_map(|(at, node)| match self.lowered.op(*at) {
            Some(RankOp::Collective(op)) if op.size.count > 0 => Some((*at, op, *node)),
            _ => None,
        });
        let calls: Vec<_> = calls.collect();
        let givers = calls.iter().filter(|(_, op, _)| op.op.readers.includes(op.rank, op.root()));
        let given: Vec<Vertex> = givers.map(|(_, _, node)| causes.start[*node]).collect();
        let given = causes.vertex(given);
        for (at, op, node) in &calls {
            if op.op.writers.includes(op.rank, op.root()) && !self.aborts.may_be_cut(*at) {
                let end = causes.end[*node];
                causes.follows(end, given);
            }
        }
    }

    /// A receive, or a wait for signals, has received what other nodes have sent.
    pub(super) fn causes_message(&mut self, from: impl IntoIterator<Item = usize>, at: Index, node: usize) {
        let Some(causes) = &mut self.causes else { return };
        if self.aborts.may_be_cut(at) {
            return;
        }
        for from in from {
            let (end, start) = (causes.end[node], causes.start[from]);
            causes.follows(end, start);
        }
    }
}
