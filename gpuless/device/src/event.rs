//! Events: points in a stream that other streams and hosts wait for.
use crate::capture::CapturedRecord;
use crate::device::{Condition, DeviceState, Waiter, host_wait, lock};
use crate::stream::Stream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// One record of an event; a wait keeps to the record it saw, even if the event is recorded again.
#[derive(Default)]
pub(crate) struct Marker {
    has_time: bool,
    state: Mutex<MarkerState>,
}

#[derive(Default)]
struct MarkerState {
    done: bool,
    /// The time at which it was reached, if it records one.
    reached: Option<Instant>,
    streams: Vec<Stream>,
    hosts: Vec<Arc<Waiter>>,
}

impl Marker {
    pub fn new(has_time: bool) -> Self {
        Self { has_time, state: Mutex::default() }
    }
    fn state(&self) -> std::sync::MutexGuard<'_, MarkerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The stream has reached the record.
    pub fn finish(&self, state: &mut DeviceState) {
        let (streams, hosts) = {
            let mut marker = self.state();
            marker.done = true;
            marker.reached = self.has_time.then(Instant::now);
            (std::mem::take(&mut marker.streams), std::mem::take(&mut marker.hosts))
        };
        for stream in streams {
            state.push_ready(stream);
        }
        for host in hosts {
            state.meet(&host);
        }
    }
    /// True if it is done; otherwise `stream` becomes ready when it is.
    pub fn done_or_park(&self, stream: &Stream) -> bool {
        let mut state = self.state();
        if !state.done {
            state.streams.push(stream.clone());
        }
        state.done
    }
}

impl Condition for Marker {
    fn met(&self) -> bool {
        self.state().done
    }
    fn register(&self, waiter: Arc<Waiter>) {
        self.state().hosts.push(waiter);
    }
}

/// The last record of an event.
#[derive(Clone)]
pub(crate) enum LastRecord {
    /// A marker on a stream.
    Marker(Arc<Marker>),
    /// A record in a capture: it is reached in each launch, but not outside a launch.
    Captured(CapturedRecord),
}

/// A point in a stream. Never recorded, it counts as reached.
#[derive(Clone, Default)]
pub struct Event {
    has_time: bool,
    last: Arc<Mutex<Option<LastRecord>>>,
}

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Event {
        Self::default()
    }
    /// An event whose records note when the stream reaches them.
    pub fn timed() -> Event {
        Self { has_time: true, ..Self::default() }
    }
    pub(crate) fn has_time(&self) -> bool {
        self.has_time
    }
    pub(crate) fn last(&self) -> Option<LastRecord> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(crate) fn set(&self, record: LastRecord) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
    fn marker(&self) -> Option<Arc<Marker>> {
        match self.last()? {
            LastRecord::Marker(marker) => Some(marker),
            LastRecord::Captured(_) => None,
        }
    }
    /// True if its last record is part of a capture, so that its state cannot be queried.
    pub fn is_captured(&self) -> bool {
        matches!(self.last(), Some(LastRecord::Captured(_)))
    }
    /// True if the last record has been reached.
    pub fn query(&self) -> bool {
        crate::lazy::begin_held();
        let _state = lock();
        self.marker().is_none_or(|m| m.met())
    }
    /// Time between the moments at which this event's last record and that of a later event were reached. `None` if one of them was
    /// not reached, or belongs to an event without timing.
    pub fn time_to(&self, later: &Event) -> Option<Duration> {
        let reached = |event: &Event| event.marker()?.state().reached;
        Some(reached(later)?.saturating_duration_since(reached(self)?))
    }
    /// The host waits until the last record has been reached.
    pub fn synchronize(&self) {
        if let Some(marker) = self.marker() {
            host_wait(&*marker, None);
        }
    }
}
