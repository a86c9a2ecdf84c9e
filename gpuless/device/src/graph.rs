//! Graphs: work that was captured, and runs each time it is launched.
use crate::capture::CaptureError;
use crate::event::{Event, LastRecord, Marker};
use crate::stream::{Copying, Done, Item, Stream};
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The function that a stream calls when its turn has come; the stream continues when the [`Done`] is finished or dropped.
pub type Start = Box<dyn FnOnce(Done) + Send>;
/// A library's node: called on the host for each launch, with the launch's number; returns the functions that the stream starts, in
/// turn, or `None` if it cannot be launched.
pub type LaunchNode = Arc<dyn Fn(u64) -> Option<Vec<Start>> + Send + Sync>;
/// A host function that can run any number of times.
pub type HostNode = Arc<dyn Fn() + Send + Sync>;

/// A piece of captured work.
pub(crate) enum Node {
    Copy(Copying),
    Host(HostNode),
    BlockingHost(HostNode),
    Launch(LaunchNode, NodeKind),
    Record(usize),
    Wait(usize),
    /// A record of an event that others outside of the graph see.
    RecordOutside(Event),
    /// A wait for the record that the event has when the graph is launched.
    WaitOutside(Event),
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeKind {
    /// A kernel.
    Kernel,
    /// A copy.
    Copy,
    /// Memory set to a value.
    Fill,
    /// A function of the host.
    Host,
    /// Nothing: it only orders others.
    Empty,
    /// A wait for an event outside of the graph.
    Wait,
    /// A record of an event that others outside of the graph see.
    Record,
}

impl Node {
    pub fn kind(&self) -> NodeKind {
        match self {
            Self::Copy(_) => NodeKind::Copy,
            Self::Host(_) | Self::BlockingHost(_) => NodeKind::Host,
            Self::Launch(_, kind) => *kind,
            Self::Record(_) | Self::Wait(_) => NodeKind::Empty,
            Self::RecordOutside(_) => NodeKind::Record,
            Self::WaitOutside(_) => NodeKind::Wait,
        }
    }
}

/// The kinds of a graph's nodes, in the order in which they were captured, and for each the nodes that it comes after directly.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shape(Vec<(NodeKind, BTreeSet<usize>)>);

impl Shape {
    pub fn add(&mut self, kind: NodeKind, after: BTreeSet<usize>) -> usize {
        self.0.push((kind, after));
        self.0.len() - 1
    }

    pub fn put_after(&mut self, node: usize, others: &BTreeSet<usize>) {
        if let Some((_, after)) = self.0.get_mut(node) {
            after.extend(others.iter().filter(|other| **other != node));
        }
    }

    /// Takes out of `from` what a node comes after directly.
    pub fn take_dependencies(&self, node: usize, from: &mut BTreeSet<usize>) {
        if let Some((_, after)) = self.0.get(node) {
            from.retain(|other| !after.contains(other));
        }
    }

    pub fn kind(&self, node: usize) -> Option<NodeKind> {
        self.0.get(node).map(|(kind, _)| *kind)
    }

    pub fn after(&self, node: usize) -> Option<Vec<usize>> {
        self.0.get(node).map(|(_, after)| after.iter().copied().collect())
    }
}

/// A node, and the number of its stream in the capture.
pub(crate) struct Recorded {
    pub stream: usize,
    pub node: Node,
}

/// The nodes recorded by a capture; clones refer to the same graph.
#[derive(Clone)]
pub struct Graph(Arc<Contents>);

struct Contents {
    streams: usize,
    nodes: Vec<Recorded>,
    /// Objects that live as long as the graph and its launches.
    kept: Vec<Kept>,
    shape: Shape,
}

/// Something that a graph keeps.
pub(crate) type Kept = Arc<dyn Any + Send + Sync>;

impl Graph {
    pub(crate) fn new(streams: usize, nodes: Vec<Recorded>, kept: Vec<Kept>, shape: Shape) -> Self {
        Self(Arc::new(Contents { streams, nodes, kept, shape }))
    }

    /// Its number of nodes, dependencies left out.
    pub fn len(&self) -> usize {
        self.0.nodes.iter().filter(|node| !matches!(node.node, Node::Record(_) | Node::Wait(_))).count()
    }

    /// True if a launch does nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a node does, of those from 0 to [`Graph::len`] in the order in which they were captured.
    pub fn kind(&self, node: usize) -> Option<NodeKind> {
        self.0.shape.kind(node)
    }

    /// The nodes that a node comes after directly.
    pub fn after(&self, node: usize) -> Option<Vec<usize>> {
        self.0.shape.after(node)
    }

    /// The graph, ready to be launched.
    pub fn instantiate(&self) -> GraphExec {
        let side_streams = (1..self.0.streams).map(|_| Stream::new()).collect();
        GraphExec { graph: self.clone(), side_streams, last: Mutex::default() }
    }
}

/// A graph that can be launched any number of times. Its launches run one after the other.
pub struct GraphExec {
    graph: Graph,
    /// Streams for work that was captured on streams other than the first.
    side_streams: Vec<Stream>,
    /// The end of the last launch.
    last: Mutex<Option<Arc<Marker>>>,
}

static LAUNCHES: AtomicU64 = AtomicU64::new(1);

impl GraphExec {
    /// Puts the graph on a stream, after its current work and before later work.
    ///
    /// # Errors
    /// The stream is capturing, or a node cannot be launched; then no part of the graph runs.
    pub fn launch(&self, stream: &Stream) -> Result<(), CaptureError> {
        if stream.capture_status().is_capturing() {
            stream.invalidate_capture();
            return Err(CaptureError::Unsupported);
        }
        let number = LAUNCHES.fetch_add(1, Ordering::Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = &self.graph.0.nodes;
        let mut starts = Vec::with_capacity(nodes.len());
        for recorded in nodes {
            starts.push(match &recorded.node {
                Node::Launch(node, _) => node(number).ok_or(CaptureError::LaunchFailed)?,
                _ => Vec::new(),
            });
        }
        if let Some(before) = last.take() {
            stream.enqueue(Item::Wait(before));
        }
        if !self.side_streams.is_empty() {
            // Also a node that comes after no other one runs when the stream has got here.
            let begin = Arc::new(Marker::default());
            stream.enqueue(Item::Record(Arc::clone(&begin)));
            self.side_streams.iter().for_each(|side| side.enqueue(Item::Wait(Arc::clone(&begin))));
        }
        let records = nodes.iter().filter(|recorded| matches!(recorded.node, Node::Record(_))).count();
        let markers: Vec<Arc<Marker>> = (0..records).map(|_| Arc::default()).collect();
        for (recorded, starts) in nodes.iter().zip(starts) {
            let on = match recorded.stream.checked_sub(1) {
                None => stream,
                Some(side) => &self.side_streams[side],
            };
            match &recorded.node {
                Node::Copy(copying) => on.enqueue(Item::Copy(*copying)),
                Node::Host(f) => {
                    let f = Arc::clone(f);
                    on.enqueue(Item::Host(Box::new(move || f())));
                }
                Node::BlockingHost(f) => {
                    let f = Arc::clone(f);
                    on.enqueue(Item::Launch(Box::new(|done| crate::pool::run(Box::new(move || f()), done))));
                }
                Node::Launch(..) => starts.into_iter().for_each(|start| on.enqueue(Item::Launch(start))),
                Node::Record(record) => on.enqueue(Item::Record(Arc::clone(&markers[*record]))),
                Node::Wait(record) => on.enqueue(Item::Wait(Arc::clone(&markers[*record]))),
                Node::RecordOutside(event) => {
                    let marker = Arc::new(Marker::new(event.has_time()));
                    event.set(LastRecord::Marker(Arc::clone(&marker)));
                    on.enqueue(Item::Record(marker));
                }
                Node::WaitOutside(event) => {
                    if let Some(LastRecord::Marker(marker)) = event.last() {
                        on.enqueue(Item::Wait(marker));
                    }
                }
            }
        }
        if !self.graph.0.kept.is_empty() {
            // Even if the graph is destroyed in the meantime, the resources of this launch are kept until here.
            let graph = self.graph.clone();
            stream.enqueue(Item::Host(Box::new(move || drop(graph))));
        }
        let end = Arc::new(Marker::default());
        stream.enqueue(Item::Record(Arc::clone(&end)));
        *last = Some(end);
        Ok(())
    }
}
