//! Streams: queues of work that runs in order.
#![allow(unsafe_code)] // asynchronous copies between raw addresses

use crate::capture::{CaptureError, CapturedRecord, Part};
use crate::device::{Condition, DeviceState, Waiter, host_wait, lock};
use crate::event::{Event, LastRecord, Marker};
use crate::graph::{HostNode, LaunchNode, Node, NodeKind, Start};
use crate::{executor, lazy, pool};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

/// A queue of work that runs in order; clones are the same stream.
#[derive(Clone)]
pub struct Stream(Arc<Inner>);

struct Inner {
    id: usize,
    /// A device's own stream, whose handle is null.
    null: bool,
    device: usize,
    /// Locked only while the device's lock is held.
    queue: Mutex<Queue>,
    /// The capture that its work becomes a part of.
    part: Mutex<Option<Part>>,
}

/// A stream's queue and how far it is.
#[derive(Default)]
pub(crate) struct Queue {
    items: VecDeque<Item>,
    enqueued: u64,
    finished: u64,
    /// True while the stream is ready, at an executor, or parked at a marker or a [`Done`].
    engaged: bool,
    hosts: Vec<(u64, Arc<Waiter>)>,
}

/// A piece of work.
pub(crate) enum Item {
    Copy(Copying),
    Host(Box<dyn FnOnce() + Send>),
    Launch(Start),
    Record(Arc<Marker>),
    Wait(Arc<Marker>),
}

/// Bytes that are copied in less time than another thread takes to wake.
const SHORT_COPY: usize = 64 << 10;

impl Item {
    /// Other work should not wait for it.
    pub fn may_take_long(&self) -> bool {
        match self {
            Self::Copy(copy) => copy.len > SHORT_COPY,
            Self::Host(_) => true,
            // the work that it starts continues elsewhere
            Self::Launch(_) | Self::Record(_) | Self::Wait(_) => false,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) struct Copying {
    dst: *mut u8,
    src: *const u8,
    len: usize,
}

// SAFETY: the addresses are only used by `run`, under the promise of `Stream::copy`'s caller.
unsafe impl Send for Copying {}
// SAFETY: as above; a graph only makes copies of it.
unsafe impl Sync for Copying {}

impl Copying {
    pub fn run(self) {
        // SAFETY: the caller of `Stream::copy` promised that both ranges are valid until the stream has passed them.
        unsafe { std::ptr::copy(self.src, self.dst, self.len) }
    }
}

/// Handles count up from here, so that none is null and none is one of CUDA's small special handles.
static NEXT: AtomicUsize = AtomicUsize::new(0x1000);
/// Handles are this far apart, like addresses of objects: programs store flags in the low bits of a handle.
const STEP: usize = 16;
/// Live streams by handle.
static STREAMS: RwLock<BTreeMap<usize, Weak<Inner>>> = RwLock::new(BTreeMap::new());
/// Each device's null stream.
static NULL: Mutex<BTreeMap<usize, Stream>> = Mutex::new(BTreeMap::new());

impl Drop for Inner {
    fn drop(&mut self) {
        STREAMS.write().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

impl Default for Stream {
    fn default() -> Self {
        Self::new()
    }
}

impl Stream {
    /// A stream with nothing to do.
    pub fn new() -> Stream {
        Self::make(false, crate::current().unwrap_or(0))
    }

    /// The null stream of a device.
    pub fn of_device(device: usize) -> Stream {
        let mut streams = NULL.lock().unwrap_or_else(PoisonError::into_inner);
        streams.entry(device).or_insert_with(|| Self::make(true, device)).clone()
    }

    fn make(null: bool, device: usize) -> Stream {
        let id = NEXT.fetch_add(STEP, Ordering::Relaxed);
        let inner = Arc::new(Inner { id, null, device, queue: Mutex::default(), part: Mutex::default() });
        STREAMS.write().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::downgrade(&inner));
        Stream(inner)
    }

    /// The stream's number, unique in the process.
    pub fn id(&self) -> usize {
        self.0.id
    }

    /// The device that was the calling thread's when the stream was created; device 0 if the thread had set none.
    pub fn device(&self) -> usize {
        self.0.device
    }

    /// The `cudaStream_t` handle: the stream's number, or null for a device's null stream.
    pub fn raw(&self) -> *mut c_void {
        if self.0.null { std::ptr::null_mut() } else { std::ptr::without_provenance_mut(self.0.id) }
    }

    /// The stream of a handle; null means the null stream of the calling thread's device (device 0 if the thread has set
    /// none). `None` if no live stream has this handle.
    pub fn lookup(raw: *mut c_void) -> Option<Stream> {
        if raw.is_null() {
            return Some(Self::of_device(crate::current().unwrap_or(0)));
        }
        let streams = STREAMS.read().unwrap_or_else(PoisonError::into_inner);
        streams.get(&(raw as usize))?.upgrade().map(Stream)
    }

    /// Copies in stream order; the ranges may overlap.
    ///
    /// # Safety
    /// Both ranges must stay valid, and free of other accesses that this stream does not order, until the copy is done; if
    /// the stream is capturing, whenever the graph is launched, until the launch is done.
    pub unsafe fn copy(&self, dst: *mut u8, src: *const u8, len: usize) {
        let copying = Copying { dst, src, len };
        if !self.captured(|| Node::Copy(copying)) {
            self.enqueue(Item::Copy(copying));
        }
    }

    /// Runs `f` in stream order on an executor thread. It should not block: there are few of them. If it panics, the
    /// stream continues. A function that runs once cannot be captured: it makes the stream's capture invalid.
    pub fn host_fn(&self, f: Box<dyn FnOnce() + Send>) {
        if self.capture_status().is_capturing() {
            return self.invalidate_capture();
        }
        self.enqueue(Item::Host(f));
    }

    /// Like [`Stream::host_fn`], for a function that can run repeatedly, so that it can be captured.
    pub fn repeatable_host_fn(&self, f: HostNode) {
        if !self.captured(|| Node::Host(Arc::clone(&f))) {
            self.enqueue(Item::Host(Box::new(move || f())));
        }
    }

    /// Runs `f` in stream order on a thread where it may block: then only this stream waits. It cannot be captured.
    pub fn blocking_host_fn(&self, f: Box<dyn FnOnce() + Send>) {
        self.launch(Box::new(|done| pool::run(f, done)));
    }

    /// The same for a function that can run often, so that it can be captured.
    pub fn repeatable_blocking_host_fn(&self, f: HostNode) {
        if !self.captured(|| Node::BlockingHost(Arc::clone(&f))) {
            self.enqueue(Item::Launch(Box::new(move |done| pool::run(Box::new(move || f()), done))));
        }
    }

    /// The event is reached when everything enqueued so far is finished.
    pub fn record(&self, event: &Event) {
        if let Some(Part { capture, stream }) = self.part().clone() {
            let number = capture.record(stream);
            return event.set(LastRecord::Captured(CapturedRecord { capture, number }));
        }
        let marker = Arc::new(Marker::new(event.has_time()));
        event.set(LastRecord::Marker(marker.clone()));
        self.enqueue(Item::Record(marker));
    }

    /// Work enqueued from now on waits for the event's last record; the host does not. A stream that waits for a record
    /// of a capture becomes part of it.
    ///
    /// # Errors
    /// Captured work would wait for work outside its capture, or the other way round; the stream's capture is then invalid.
    pub fn wait(&self, event: &Event) -> Result<(), CaptureError> {
        let part = self.part().clone();
        match (part, event.last()) {
            (_, None) => Ok(()),
            (None, Some(LastRecord::Marker(marker))) => {
                self.enqueue(Item::Wait(marker));
                Ok(())
            }
            (None, Some(LastRecord::Captured(record))) => self.join_capture(&record),
            (Some(part), Some(LastRecord::Captured(record))) if Arc::ptr_eq(&part.capture, &record.capture) => {
                part.capture.wait(part.stream, record.number);
                Ok(())
            }
            (Some(part), Some(record)) => {
                let why = match record {
                    LastRecord::Captured(_) => CaptureError::Merge,
                    LastRecord::Marker(_) => CaptureError::Isolation,
                };
                part.capture.invalidate(why);
                Err(why)
            }
        }
    }

    /// The same, but in a capture a node: each launch of the graph records the event for those outside of it.
    pub fn record_outside(&self, event: &Event) {
        if !self.captured(|| Node::RecordOutside(event.clone())) {
            self.record(event);
        }
    }

    /// Like [`Stream::wait`], but in a capture it adds a node: each launch of the graph waits for the event's record at that time.
    ///
    /// # Errors
    /// The stream is not capturing, and the event was recorded in a capture that has ended.
    pub fn wait_outside(&self, event: &Event) -> Result<(), CaptureError> {
        if self.captured(|| Node::WaitOutside(event.clone())) { Ok(()) } else { self.wait(event) }
    }

    /// The hook for libraries: when the stream reaches this item, `start` is called on an executor thread, outside all locks; the
    /// stream continues when the [`Done`] is finished or dropped. It cannot be captured; see [`Stream::capture_launch`].
    pub fn launch(&self, start: Start) {
        if self.capture_status().is_capturing() {
            return self.invalidate_capture();
        }
        self.enqueue(Item::Launch(start));
    }

    /// The hook for libraries on a stream that is capturing: adds their node. False if the stream is not capturing.
    pub fn capture_launch(&self, node: LaunchNode) -> bool {
        self.capture_launch_of(NodeKind::Kernel, node)
    }

    /// The same for a node that does something else than a kernel.
    pub fn capture_launch_of(&self, kind: NodeKind, node: LaunchNode) -> bool {
        self.captured(|| Node::Launch(node, kind))
    }

    /// Writes a node down if the stream is capturing.
    fn captured(&self, node: impl FnOnce() -> Node) -> bool {
        let part = self.part().clone();
        if let Some(Part { capture, stream }) = &part {
            capture.add(*stream, node());
        }
        part.is_some()
    }

    /// True for a device's null stream.
    pub(crate) fn is_null(&self) -> bool {
        self.0.null
    }

    /// The stream's part in a capture.
    pub(crate) fn part(&self) -> MutexGuard<'_, Option<Part>> {
        self.0.part.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if everything enqueued so far is finished.
    pub fn query(&self) -> bool {
        lazy::begin_held();
        let _state = lock();
        let queue = self.queue();
        queue.finished == queue.enqueued
    }

    /// The host waits until everything enqueued so far is finished. Captured work never begins: callers check
    /// [`Stream::capture_status`] first.
    pub fn synchronize(&self) {
        host_wait(&self.so_far(), None);
    }

    /// The host waits until everything enqueued so far is finished (true), or `stop` says true (false). `stop` is asked
    /// at first and after every [`crate::wake_hosts`].
    pub fn synchronize_unless(&self, stop: &dyn Fn() -> bool) -> bool {
        host_wait(&self.so_far(), Some(stop))
    }

    fn so_far(&self) -> SoFar<'_> {
        let _state = lock();
        SoFar { stream: self, target: self.queue().enqueued }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enqueue(&self, item: Item) {
        executor::ensure();
        let mut state = lock();
        state.epoch += 1;
        state.pending += 1;
        let mut queue = self.queue();
        queue.enqueued += 1;
        queue.items.push_back(item);
        let engaged = std::mem::replace(&mut queue.engaged, true);
        drop(queue);
        if !engaged && !lazy::hold(self) {
            self.go_on(&mut state);
        }
    }

    /// The front item is finished.
    pub(crate) fn finished(&self, state: &mut DeviceState) {
        state.epoch += 1;
        state.pending -= 1;
        let mut queue = self.queue();
        queue.finished += 1;
        let finished = queue.finished;
        queue.hosts.retain(|(target, waiter)| {
            if *target <= finished {
                state.meet(waiter);
            }
            *target > finished
        });
    }

    /// Passes records and satisfied waits, which need no executor, and takes the item after them. `None` if the queue
    /// is empty, in which case an executor no longer owns the stream, or if the stream waits at a marker.
    pub(crate) fn take(&self, state: &mut DeviceState) -> Option<Item> {
        loop {
            let item = {
                let mut queue = self.queue();
                let item = queue.items.pop_front();
                queue.engaged = item.is_some();
                item
            };
            match item? {
                Item::Record(marker) => {
                    self.finished(state);
                    marker.finish(state);
                }
                Item::Wait(marker) => {
                    if !marker.done_or_park(self) {
                        self.queue().items.push_front(Item::Wait(marker));
                        return None;
                    }
                    self.finished(state);
                }
                item => return Some(item),
            }
        }
    }

    /// Puts an engaged stream where it belongs: nowhere if it is empty, parked, or ready.
    pub(crate) fn go_on(&self, state: &mut DeviceState) {
        if let Some(item) = self.take(state) {
            self.queue().items.push_front(item);
            state.push_ready(self.clone());
        }
    }
}

struct SoFar<'a> {
    stream: &'a Stream,
    target: u64,
}

impl Condition for SoFar<'_> {
    fn met(&self) -> bool {
        self.stream.queue().finished >= self.target
    }
    fn register(&self, waiter: Arc<Waiter>) {
        self.stream.queue().hosts.push((self.target, waiter));
    }
}

/// Holds a launched stream until it is finished or dropped.
pub struct Done(Stream);

impl Done {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(stream)
    }
    /// Lets the stream continue.
    pub fn finish(self) {}

    /// The stream's number.
    pub fn stream(&self) -> usize {
        self.0.id()
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let mut state = lock();
        self.0.finished(&mut state);
        self.0.go_on(&mut state);
    }
}
