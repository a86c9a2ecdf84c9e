//! Events: points in a stream that other streams and hosts wait for.
use crate::capture::CapturedRecord;
use crate::device::{Condition, DeviceState, Waiter, host_wait, lock};
use crate::stream::Stream;
use std::sync::{Arc, Mutex, PoisonError};

/// One record of an event; a wait keeps to the record it saw, even if the event is recorded again.
#[derive(Default)]
pub(crate) struct Marker(Mutex<MarkerState>);

#[derive(Default)]
struct MarkerState {
    done: bool,
    streams: Vec<Stream>,
    hosts: Vec<Arc<Waiter>>,
}

impl Marker {
    fn state(&self) -> std::sync::MutexGuard<'_, MarkerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
    /// The stream has reached the record.
    pub fn finish(&self, state: &mut DeviceState) {
        let (streams, hosts) = {
            let mut marker = self.state();
            marker.done = true;
            (std::mem::take(&mut marker.streams), std::mem::take(&mut marker.hosts))
        };
        for stream in streams {
            state.push_ready(stream);
        }
        for host in hosts {
            state.meet(&host);
        }
    }
    /// True if it is done; else `stream` becomes ready when it is.
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
    /// Of a stream.
    Marker(Arc<Marker>),
    /// Of a capture: it is reached in each launch, and never by itself.
    Captured(CapturedRecord),
}

/// A point in a stream. Never recorded, it counts as reached.
#[derive(Clone, Default)]
pub struct Event(Arc<Mutex<Option<LastRecord>>>);

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Event {
        Self::default()
    }
    pub(crate) fn last(&self) -> Option<LastRecord> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(crate) fn set(&self, record: LastRecord) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
    fn marker(&self) -> Option<Arc<Marker>> {
        match self.last()? {
            LastRecord::Marker(marker) => Some(marker),
            LastRecord::Captured(_) => None,
        }
    }
    /// True if its last record is part of a capture, so that nothing can be asked of it.
    pub fn is_captured(&self) -> bool {
        matches!(self.last(), Some(LastRecord::Captured(_)))
    }
    /// True if the last record has been reached.
    pub fn query(&self) -> bool {
        crate::lazy::begin_held();
        let _state = lock();
        self.marker().is_none_or(|m| m.met())
    }
    /// The host waits until the last record has been reached.
    pub fn synchronize(&self) {
        if let Some(marker) = self.marker() {
            host_wait(&*marker, None);
        }
    }
}
