//! Points of a capture: a library refers to them when it adds to the graph that is being made.
use crate::capture::{Capture, Part};
use crate::event::Event;
use crate::graph::{HostNode, LaunchNode, Node, NodeKind};
use crate::stream::Stream;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// Everything that a stream has in a capture so far, or a node outside the streams.
#[derive(Clone)]
pub struct CapturePoint(Part);

impl fmt::Debug for CapturePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CapturePoint").field(&self.0.stream).finish()
    }
}

impl PartialEq for CapturePoint {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0.capture, &other.0.capture) && self.0.stream == other.0.stream
    }
}

impl Eq for CapturePoint {}

impl CapturePoint {
    fn capture(&self) -> &Capture {
        &self.0.capture
    }

    /// True once the capture has ended, so that nodes can no longer be added.
    pub fn is_over(&self) -> bool {
        self.capture().is_over()
    }

    /// True if both belong to the same capture.
    pub fn is_of_capture(&self, other: &CapturePoint) -> bool {
        Arc::ptr_eq(&self.0.capture, &other.0.capture)
    }

    fn beside(&self, node: Node) -> Option<CapturePoint> {
        let stream = self.capture().add_beside(node)?;
        Some(Self(Part { capture: Arc::clone(&self.0.capture), stream }))
    }

    /// Adds to the graph, so far without predecessors, a record of an event that is visible outside the graph. The streams of the capture
    /// need not wait for it. `None` if the capture is over.
    pub fn record_beside(&self, event: &Event) -> Option<CapturePoint> {
        self.beside(Node::RecordOutside(event.clone()))
    }

    /// The same for a wait for the record that the event has when the graph is launched.
    pub fn wait_beside(&self, event: &Event) -> Option<CapturePoint> {
        self.beside(Node::WaitOutside(event.clone()))
    }

    /// The same for a host function, which may block.
    pub fn blocking_host_fn_beside(&self, f: HostNode) -> Option<CapturePoint> {
        self.beside(Node::BlockingHost(f))
    }

    /// The same for a library's own node.
    pub fn launch_beside(&self, node: LaunchNode) -> Option<CapturePoint> {
        self.beside(Node::Launch(node, NodeKind::Kernel))
    }

    /// The same for a node that does nothing.
    pub fn nothing_beside(&self) -> Option<CapturePoint> {
        self.beside(Node::Launch(Arc::new(|_| Some(Vec::new())), NodeKind::Empty))
    }

    /// The number of its capture.
    pub fn capture_id(&self) -> u64 {
        self.capture().id()
    }

    /// The nodes that come directly before what its stream captures next, or the node itself: numbers as in
    /// [`Graph::kind`](crate::Graph::kind).
    pub fn ends(&self) -> Vec<usize> {
        self.capture().ends(self.0.stream).into_iter().collect()
    }

    /// What a node of its capture does.
    pub fn kind(&self, node: usize) -> Option<NodeKind> {
        self.capture().shape(|shape| shape.kind(node))
    }

    /// The nodes that a node of its capture comes after directly.
    pub fn after(&self, node: usize) -> Option<Vec<usize>> {
        self.capture().shape(|shape| shape.after(node))
    }

    /// Orders this node, which is outside the streams, after `earlier`. False if they belong to different captures.
    pub fn put_after(&self, earlier: &CapturePoint) -> bool {
        let same = self.is_of_capture(earlier);
        if same {
            self.capture().put_after(self.0.stream, earlier.0.stream);
        }
        same
    }

    /// The graph and its launches keep this, whatever becomes of the others that have it. False: the capture is over.
    pub fn keep(&self, kept: Arc<dyn Any + Send + Sync>) -> bool {
        self.capture().keep(kept)
    }
}

impl Stream {
    /// Everything that the stream has in its capture so far; `None` if it does not capture.
    pub fn capture_point(&self) -> Option<CapturePoint> {
        self.part().clone().map(CapturePoint)
    }

    /// Orders what the stream captures from now on after `point`. False if the stream is not in that capture.
    pub fn capture_after(&self, point: &CapturePoint) -> bool {
        let part = self.part().clone();
        let Some(part) = part.filter(|part| Arc::ptr_eq(&part.capture, &point.0.capture)) else { return false };
        if part.stream != point.0.stream {
            let record = part.capture.record(point.0.stream);
            part.capture.wait(part.stream, record);
        }
        true
    }
}
