//! Points of a capture: what a library names when it puts something into the graph that is being made.
use crate::capture::{Capture, Part};
use crate::event::Event;
use crate::graph::{HostNode, LaunchNode, Node};
use crate::stream::Stream;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// All that a stream has in a capture so far, or a node that stands beside the streams.
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

    /// True when the capture has ended, so that nothing can be added any more.
    pub fn is_over(&self) -> bool {
        self.capture().is_over()
    }

    /// True if both are of one capture.
    pub fn is_of_capture(&self, other: &CapturePoint) -> bool {
        Arc::ptr_eq(&self.0.capture, &other.0.capture)
    }

    fn beside(&self, node: Node) -> Option<CapturePoint> {
        let stream = self.capture().add_beside(node)?;
        Some(Self(Part { capture: Arc::clone(&self.0.capture), stream }))
    }

    /// Adds to the graph, after nothing yet, a record of an event that others outside of it see. The streams of the capture need not wait
    /// for it. `None`: the capture is over.
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
        self.beside(Node::Launch(node))
    }

    /// Makes this node, which stands beside the streams, come after `earlier`. False: they are of different captures.
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
    /// All that the stream has in its capture so far; `None` if it does not capture.
    pub fn capture_point(&self) -> Option<CapturePoint> {
        self.part().clone().map(CapturePoint)
    }

    /// What the stream captures from now on comes after `point`. False: the stream is not in that capture.
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
