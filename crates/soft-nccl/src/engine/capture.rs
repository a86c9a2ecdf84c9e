//! Operations on streams that are being captured: they become nodes of a graph, and every launch enqueues them again, with the
//! same buffers. Ranks' operations meet by the order of launches, as those of other calls do by the order of calls.
use super::batch::{ByComm, Request, arrival};
use super::hosts::wait;
use super::lock;
use super::task::BatchId;
use super::waiting::Ticket;
use crate::device::{CapturedNode, Start, Stream};
use crate::failure::{Failure, Outcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The destination of a call's operations.
pub(crate) enum Destination {
    /// They are enqueued now.
    Streams,
    /// They become part of their streams' capture.
    Graph,
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
    Ok(if graph.flatten().is_some() { Destination::Graph } else { Destination::Streams })
}

/// The operations of one group on one communicator in a graph.
struct CapturedBatch {
    comm: usize,
    requests: Vec<Request>,
    streams: usize,
    /// For each launch: its batches, and the number of streams that have not asked for them yet.
    launches: Mutex<HashMap<u64, (Launched, usize)>>,
}

/// The batches of one launch, each with its streams; `None` if the operations cannot be enqueued.
type Launched = Option<Arc<Vec<(BatchId, Vec<usize>)>>>;

/// Turns the requests into nodes of their streams' captures.
///
/// # Errors
/// A stream is not captured any more.
pub(crate) fn capture(by_comm: ByComm) -> Outcome<()> {
    by_comm.into_iter().try_for_each(|(comm, requests)| capture_batch(comm, requests))
}

fn capture_batch(comm: usize, requests: Vec<Request>) -> Outcome<()> {
    let mut streams: Vec<Stream> = Vec::new();
    for request in &requests {
        if !streams.iter().any(|stream| stream.raw() == request.stream.raw()) {
            streams.push(request.stream.clone());
        }
    }
    match lock().comms.members.get_mut(&comm) {
        Some(member) => member.graphs.alive += 1,
        None => return Err(Failure::argument("the communicator ended meanwhile")),
    }
    let batch = Arc::new(CapturedBatch { comm, requests, streams: streams.len(), launches: Mutex::default() });
    for stream in streams {
        let (batch, raw) = (Arc::clone(&batch), stream.raw());
        stream.capture_node(CapturedNode::new(move |launch| batch.starts(launch, raw)))?;
    }
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
        let enqueued = lock().enqueue(vec![(self.comm, self.requests.clone())]).ok()?;
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
        let Some(member) = state.comms.members.get_mut(&self.comm) else { return };
        member.graphs.alive = member.graphs.alive.saturating_sub(1);
        if member.graphs.alive > 0 {
            return;
        }
        for ticket in std::mem::take(&mut member.graphs.waits) {
            state.hosts.answer(ticket, Ok(None));
        }
    }
}

/// Waits until every graph that has captured the communicator is gone.
pub(super) fn outlive_graphs(comm: usize, what: &str) -> Outcome<()> {
    crate::device::host_waits();
    let mut state = lock();
    let Some(member) = state.comms.members.get(&comm).filter(|member| member.graphs.alive > 0) else {
        return Ok(());
    };
    let name = state.comms.text(member.shared);
    let text =
        format!("rank {} in {what} of {name} waits until the graphs that have captured it are released", member.rank);
    let host = state.hosts.block(1, text);
    if let Some(member) = state.comms.members.get_mut(&comm) {
        member.graphs.waits.push(Ticket { host, index: 0 });
    }
    wait(state, host).into_iter().try_for_each(|answer| answer.map(|_| ()))
}
