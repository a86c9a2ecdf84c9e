//! Operations on streams that are being captured: they become nodes of a graph, and every launch enqueues them again, with the
//! same buffers. Ranks' operations meet by the order of launches, as those of other calls do by the order of calls.
use super::batch::{BatchId, ByComm, Request, arrival};
use super::hooks::{GraphNode, HeldMemory};
use super::hosts::{Ticket, wait};
use super::lock;
use crate::device::{CapturedNode, Start, Stream};
use crate::failure::{Failure, Outcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The destination of a call's operations.
pub(crate) enum Destination {
    /// They are enqueued now.
    Streams,
    /// They become part of the capture with this number.
    Graph(u64),
}

/// The destination of a group's requests.
///
/// # Errors
/// Streams given to one communicator that are not all captured by the same graph.
pub(crate) fn destination(requests: &ByComm) -> Outcome<Destination> {
    let mut graph = None;
    for (_, requests) in requests {
        for request in requests {
            let own = request.stream.capture();
            if *graph.get_or_insert(own) != own {
                let text =
                    "the streams of a group are neither all outside of captures nor all captured by the same graph";
                return Err(Failure::usage(text));
            }
        }
    }
    Ok(graph.flatten().map_or(Destination::Streams, Destination::Graph))
}

/// The operations of one group on one communicator in a graph.
struct CapturedBatch {
    comm: usize,
    node: GraphNode,
    requests: Vec<Request>,
    streams: usize,
    /// For each launch: its batches, and the number of streams that have not asked for them yet.
    launches: Mutex<HashMap<u64, (Launched, usize)>>,
    /// Memory that the requests name and that is not the caller's.
    _held: Vec<HeldMemory>,
}

/// The batches of one launch, each with its streams; `None` if the operations cannot be enqueued.
type Launched = Option<Arc<Vec<(BatchId, Vec<usize>)>>>;

/// Turns the requests into nodes of their streams' captures.
///
/// # Errors
/// A stream is not captured any more.
pub(crate) fn capture(graph: u64, by_comm: ByComm) -> Outcome<()> {
    for (comm, requests) in by_comm {
        capture_batch(graph, comm, requests)?;
    }
    Ok(())
}

fn capture_batch(graph: u64, comm: usize, mut requests: Vec<Request>) -> Outcome<()> {
    let mut streams: Vec<Stream> = Vec::new();
    for request in &requests {
        if !streams.iter().any(|stream| stream.raw() == request.stream.raw()) {
            streams.push(request.stream.clone());
        }
    }
    let (node, held, now) = {
        let mut state = lock();
        let Some(member) = state.members.get_mut(&comm) else {
            return Err(Failure::argument("the communicator ended meanwhile"));
        };
        let index = member.graphs.add(graph);
        let node = GraphNode { graph, index, rank: member.rank, n: member.n };
        let captured = member.hooks.captured(node, &mut requests);
        (node, captured.held, captured.now)
    };
    let batch = Arc::new(CapturedBatch {
        comm,
        node,
        requests,
        streams: streams.len(),
        launches: Mutex::default(),
        _held: held,
    });
    for stream in streams {
        let (batch, raw) = (Arc::clone(&batch), stream.raw());
        stream.capture_node(CapturedNode::new(move |launch| batch.starts(launch, raw)))?;
    }
    run_beside(comm, now)
}

/// Runs operations at once on another stream and waits for them: for libraries that are wrong on purpose.
fn run_beside(comm: usize, mut requests: Vec<Request>) -> Outcome<()> {
    let Some(beside) = requests.first().and_then(|request| request.stream.beside()) else { return Ok(()) };
    requests.iter_mut().for_each(|request| request.stream = Stream::of_linked_in(&beside));
    let enqueued = lock().enqueue(vec![(comm, requests)])?;
    enqueued.launch()?;
    beside.synchronize();
    Ok(())
}

impl CapturedBatch {
    /// The functions that a stream starts in a launch.
    fn starts(&self, launch: u64, stream: usize) -> Option<Vec<Start>> {
        let mut launches = self.launches();
        let (batches, left) = launches.remove(&launch).unwrap_or_else(|| (self.enqueue(), self.streams));
        if left > 1 {
            launches.insert(launch, (batches.clone(), left - 1));
        }
        let own = |(_, streams): &&(BatchId, Vec<usize>)| streams.contains(&stream);
        batches.map(|batches| batches.iter().filter(own).map(|(id, _)| arrival(*id)).collect())
    }

    /// Gives the operations their numbers for one more launch.
    fn enqueue(&self) -> Launched {
        let mut state = lock();
        let member = state.members.get_mut(&self.comm)?;
        let total = member.graphs.made(self.node.graph);
        let mut requests = self.requests.clone();
        if !member.hooks.replayed(self.node, total, &mut requests) {
            return Some(Arc::default());
        }
        let enqueued = state.enqueue(vec![(self.comm, requests)]).ok()?;
        Some(Arc::new(
            enqueued.batches().map(|(id, streams)| (id, streams.iter().map(Stream::raw).collect())).collect(),
        ))
    }

    fn launches(&self) -> MutexGuard<'_, HashMap<u64, (Launched, usize)>> {
        self.launches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CapturedBatch {
    fn drop(&mut self) {
        let mut state = lock();
        let Some(member) = state.members.get_mut(&self.comm) else { return };
        if member.graphs.remove(self.node.graph) {
            member.hooks.released(self.node.graph);
        }
        if !member.graphs.by_capture.is_empty() {
            return;
        }
        for ticket in std::mem::take(&mut member.graphs.waits) {
            state.answer(ticket, Ok(None));
        }
    }
}

/// The nodes of graphs that a communicator has.
#[derive(Default)]
pub(crate) struct GraphNodes {
    /// For each capture: the number of its nodes, including those that are gone, and the number of live ones.
    by_capture: HashMap<u64, (usize, usize)>,
    /// Host threads that wait until there are no nodes left.
    pub(super) waits: Vec<Ticket>,
}

impl GraphNodes {
    /// One more node of a capture; answers its number.
    fn add(&mut self, graph: u64) -> usize {
        let (made, alive) = self.by_capture.entry(graph).or_default();
        *made += 1;
        *alive += 1;
        *made - 1
    }

    fn made(&self, graph: u64) -> usize {
        self.by_capture.get(&graph).map_or(0, |(made, _)| *made)
    }

    /// A node is gone; true if it was the capture's last.
    fn remove(&mut self, graph: u64) -> bool {
        let Some((_, alive)) = self.by_capture.get_mut(&graph) else { return false };
        *alive = alive.saturating_sub(1);
        let last = *alive == 0;
        if last {
            self.by_capture.remove(&graph);
        }
        last
    }
}

/// Waits until every graph that has captured the communicator is gone.
pub(super) fn outlive_graphs(comm: usize, what: &str) -> Outcome<()> {
    crate::device::host_waits();
    let mut state = lock();
    let Some(member) = state.members.get(&comm).filter(|member| !member.graphs.by_capture.is_empty()) else {
        return Ok(());
    };
    let name = state.comm_text(member.shared);
    let text =
        format!("rank {} in {what} of {name} waits until the graphs that have captured it are released", member.rank);
    let host = state.block_host(1, text);
    if let Some(member) = state.members.get_mut(&comm) {
        member.graphs.waits.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}
