//! Captures: work put on the streams of a capture is recorded instead of run.
//!
//! A capture begins on one stream, its origin. Another stream joins it when it waits for an event that was recorded in the
//! capture, and leaves it when the capture ends; before that the origin must have waited for it.
use crate::graph::{Graph, Kept, Node, Recorded, Shape};
use crate::stream::Stream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// The scope of threads kept from unsafe calls during a capture; here it only decides which thread may end the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureMode {
    /// `CU_STREAM_CAPTURE_MODE_GLOBAL`.
    Global,
    /// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`.
    ThreadLocal,
    /// `CU_STREAM_CAPTURE_MODE_RELAXED`: any thread may end it.
    Relaxed,
}

/// The reason a call fails because of a capture. The names are those of the driver's codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// The operation is not permitted while the stream is capturing.
    #[error("the operation is not permitted when the stream is capturing")]
    Unsupported,
    /// An earlier call has made the capture invalid.
    #[error("the capture was made invalid by an earlier call")]
    Invalidated,
    /// Two captures would become one.
    #[error("two separate captures would be merged")]
    Merge,
    /// The capture does not belong to this stream.
    #[error("no capture has begun on this stream, or it began on another one")]
    Unmatched,
    /// A stream has joined the capture and its origin has not waited for it.
    #[error("the capture has forked to a stream and its first stream has not waited for it")]
    Unjoined,
    /// Work outside of the capture would depend on it, or the other way round.
    #[error("a dependency would cross the border of the capture")]
    Isolation,
    /// The null stream cannot be captured.
    #[error("the null stream cannot be captured")]
    Implicit,
    /// The event's last record is part of a capture.
    #[error("the event was last recorded in a capture")]
    CapturedEvent,
    /// Another thread has begun the capture.
    #[error("the capture was begun by another thread")]
    WrongThread,
    /// A node refuses to run.
    #[error("a node of the graph cannot be launched")]
    LaunchFailed,
}

impl CaptureError {
    /// Its number, which is the same in `CUresult` and in `cudaError`.
    pub fn code(self) -> i32 {
        match self {
            Self::Unsupported => 900,
            Self::Invalidated => 901,
            Self::Merge => 902,
            Self::Unmatched => 903,
            Self::Unjoined => 904,
            Self::Isolation => 905,
            Self::Implicit => 906,
            Self::CapturedEvent => 907,
            Self::WrongThread => 908,
            // The function that failed has no number: unknown.
            Self::LaunchFailed => 999,
        }
    }
}

/// The state of a stream with regard to captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureStatus {
    /// The stream executes its work.
    None,
    /// Its work becomes part of the capture with this number.
    Active(u64),
    /// The capture with this number cannot become a graph any more.
    Invalidated(u64),
}

impl CaptureStatus {
    /// True if a capture has begun and not ended.
    pub fn is_capturing(self) -> bool {
        self != Self::None
    }
}

/// A capture in progress; all its streams share it.
pub(crate) struct Capture {
    id: u64,
    /// The thread that must end it.
    thread: Option<ThreadId>,
    state: Mutex<State>,
}

/// For each stream, the number of its nodes that come before a stream's next one; streams without any are left out.
type Clock = BTreeMap<usize, usize>;

#[derive(Default)]
struct State {
    /// The origin, and the streams that have joined.
    streams: Vec<Stream>,
    nodes: Vec<Recorded>,
    /// The clock of each stream.
    clocks: Vec<Clock>,
    /// For each record, the clock of its stream.
    records: Vec<Clock>,
    shape: Shape,
    /// For each stream, the nodes that its next one comes after directly.
    ends: Vec<BTreeSet<usize>>,
    /// The same for each record.
    recorded_ends: Vec<BTreeSet<usize>>,
    /// Sides of single nodes.
    beside: Vec<usize>,
    /// Objects that the graph keeps alive.
    kept: Vec<Kept>,
    invalid: Option<CaptureError>,
    over: bool,
}

impl State {
    /// Writes a node down that comes after its stream's last ones.
    fn put(&mut self, stream: usize, node: Node) {
        if let Some(ends) = self.ends.get_mut(stream) {
            let number = self.shape.add(node.kind(), std::mem::take(ends));
            ends.insert(number);
        }
        self.nodes.push(Recorded { stream, node });
    }

    fn ends_of(&self, stream: usize) -> BTreeSet<usize> {
        self.ends.get(stream).cloned().unwrap_or_default()
    }

    /// Makes the end of a launch wait for the nodes outside the streams, too.
    fn wait_for_beside(&mut self) {
        for side in std::mem::take(&mut self.beside) {
            let record = self.records.len();
            self.records.push(Clock::new());
            self.recorded_ends.push(BTreeSet::new());
            self.nodes.push(Recorded { stream: side, node: Node::Record(record) });
            self.nodes.push(Recorded { stream: 0, node: Node::Wait(record) });
        }
    }
}

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Capture {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn status(&self) -> CaptureStatus {
        match self.state().invalid {
            None => CaptureStatus::Active(self.id),
            Some(_) => CaptureStatus::Invalidated(self.id),
        }
    }

    pub fn invalidate(&self, why: CaptureError) {
        self.state().invalid.get_or_insert(why);
    }

    /// Writes a node down.
    pub fn add(&self, stream: usize, node: Node) {
        let mut state = self.state();
        state.put(stream, node);
        if let Some(clock) = state.clocks.get_mut(stream) {
            *clock.entry(stream).or_default() += 1;
        }
    }

    /// Records an event; waits refer to its number.
    pub fn record(&self, stream: usize) -> usize {
        let mut state = self.state();
        let number = state.records.len();
        let clock = state.clocks.get(stream).cloned().unwrap_or_default();
        state.records.push(clock);
        let ends = state.ends_of(stream);
        state.recorded_ends.push(ends);
        state.nodes.push(Recorded { stream, node: Node::Record(number) });
        number
    }

    /// Writes down that a stream of the capture waits for a record.
    pub fn wait(&self, stream: usize, record: usize) {
        let mut state = self.state();
        let seen = state.records.get(record).cloned().unwrap_or_default();
        if let Some(clock) = state.clocks.get_mut(stream) {
            for (stream, count) in seen {
                let own = clock.entry(stream).or_default();
                *own = count.max(*own);
            }
        }
        let seen = state.recorded_ends.get(record).cloned().unwrap_or_default();
        let State { shape, ends, .. } = &mut *state;
        if let Some(ends) = ends.get_mut(stream) {
            // What comes after them comes after their own dependencies anyway.
            seen.iter().for_each(|node| shape.take_dependencies(*node, ends));
            ends.extend(seen);
        }
        state.nodes.push(Recorded { stream, node: Node::Wait(record) });
    }

    /// Adds a node on a new stream of the capture. The origin stream does not have to wait for it. `None` if the capture is over.
    pub fn add_beside(&self, node: Node) -> Option<usize> {
        let side = self.join(&Stream::new())?;
        let mut state = self.state();
        state.put(side, node);
        state.beside.push(side);
        Some(side)
    }

    /// Orders a node added by [`Capture::add_beside`] after the current nodes of a stream.
    pub fn put_after(&self, side: usize, stream: usize) {
        let record = self.record(stream);
        let mut state = self.state();
        let (node, before) = (state.ends_of(side), state.ends_of(stream));
        node.into_iter().for_each(|node| state.shape.put_after(node, &before));
        let own = |node: &Recorded| node.stream == side && !matches!(node.node, Node::Record(_) | Node::Wait(_));
        if let Some(place) = state.nodes.iter().position(own) {
            // A launch makes all records before it begins, so the wait may come before the record that it is for.
            state.nodes.insert(place, Recorded { stream: side, node: Node::Wait(record) });
        }
    }

    /// The graph and its launches keep this.
    pub fn keep(&self, kept: Kept) -> bool {
        let mut state = self.state();
        if !state.over {
            state.kept.push(kept);
        }
        !state.over
    }

    /// True once the capture has ended.
    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Adds a stream; returns its number in the capture, or `None` if the capture is over.
    fn join(&self, stream: &Stream) -> Option<usize> {
        let mut state = self.state();
        if state.over {
            return None;
        }
        let number = state.streams.len();
        state.streams.push(stream.clone());
        state.clocks.push(Clock::new());
        state.ends.push(BTreeSet::new());
        Some(number)
    }

    /// The number of the capture.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The nodes that a stream's next one comes after directly.
    pub fn ends(&self, stream: usize) -> BTreeSet<usize> {
        self.state().ends_of(stream)
    }

    /// The graph as it is so far.
    pub fn shape<T>(&self, f: impl FnOnce(&Shape) -> T) -> T {
        f(&self.state().shape)
    }
}

/// A stream's part in a capture.
#[derive(Clone)]
pub(crate) struct Part {
    pub capture: Arc<Capture>,
    /// The stream's number in it; the origin's is 0.
    pub stream: usize,
}

/// A record of an event that is part of a capture.
#[derive(Clone)]
pub(crate) struct CapturedRecord {
    pub capture: Arc<Capture>,
    pub number: usize,
}

impl Stream {
    /// Captures the stream's work from now on.
    ///
    /// # Errors
    /// The stream is capturing already, or it is a device's null stream.
    pub fn begin_capture(&self, mode: CaptureMode) -> Result<(), CaptureError> {
        if self.is_null() {
            return Err(CaptureError::Implicit);
        }
        let mut part = self.part();
        if let Some(part) = &*part {
            part.capture.invalidate(CaptureError::Unsupported);
            return Err(CaptureError::Unsupported);
        }
        let thread = (mode != CaptureMode::Relaxed).then(|| std::thread::current().id());
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let capture = Arc::new(Capture { id, thread, state: Mutex::default() });
        let stream = capture.join(self).unwrap_or(0);
        *part = Some(Part { capture, stream });
        Ok(())
    }

    /// Ends the capture that began on this stream and returns a graph of the work put on its streams.
    ///
    /// # Errors
    /// No capture began on this stream, another thread began it, a stream of it was not joined, or a call in between has made it
    /// invalid. A capture that began on this stream is over in any case except that of another thread.
    pub fn end_capture(&self) -> Result<Graph, CaptureError> {
        let Some(part) = self.part().clone() else { return Err(CaptureError::Unmatched) };
        if part.stream != 0 {
            part.capture.invalidate(CaptureError::Unmatched);
            return Err(CaptureError::Unmatched);
        }
        if part.capture.thread.is_some_and(|thread| thread != std::thread::current().id()) {
            return Err(CaptureError::WrongThread);
        }
        let (streams, graph) = {
            let mut state = part.capture.state();
            state.over = true;
            state.wait_for_beside();
            let joined = state.clocks.first().is_some_and(|origin| {
                state.clocks.iter().enumerate().all(|(stream, clock)| origin.get(&stream) == clock.get(&stream))
            });
            let streams = std::mem::take(&mut state.streams);
            let graph = match state.invalid {
                Some(_) => Err(CaptureError::Invalidated),
                None if !joined => Err(CaptureError::Unjoined),
                None => {
                    let (nodes, kept) = (std::mem::take(&mut state.nodes), std::mem::take(&mut state.kept));
                    Ok(Graph::new(streams.len(), nodes, kept, std::mem::take(&mut state.shape)))
                }
            };
            let kept = std::mem::take(&mut state.kept);
            drop(state);
            // Without a graph nothing keeps these values, and their owner may ask for this capture when they are dropped.
            drop(kept);
            (streams, graph)
        };
        for stream in streams {
            *stream.part() = None;
        }
        graph
    }

    /// The stream's state with regard to captures.
    pub fn capture_status(&self) -> CaptureStatus {
        self.part().as_ref().map_or(CaptureStatus::None, |part| part.capture.status())
    }

    /// Makes the stream's capture invalid, if it is capturing, after a call that cannot be captured.
    pub fn invalidate_capture(&self) {
        if let Some(part) = &*self.part() {
            part.capture.invalidate(CaptureError::Unsupported);
        }
    }

    /// The stream, which captures nothing, becomes part of a capture by waiting for a record of it.
    pub(crate) fn join_capture(&self, record: &CapturedRecord) -> Result<(), CaptureError> {
        let stream = record.capture.join(self).ok_or(CaptureError::Isolation)?;
        *self.part() = Some(Part { capture: Arc::clone(&record.capture), stream });
        record.capture.wait(stream, record.number);
        Ok(())
    }
}
