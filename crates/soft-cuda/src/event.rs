//! Events: points in a stream that other streams and hosts wait for.
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

/// A point in a stream. Never recorded, it counts as reached.
#[derive(Clone, Default)]
pub struct Event(Arc<Mutex<Option<Arc<Marker>>>>);

impl Event {
    /// An event that was never recorded.
    pub fn new() -> Event {
        Self::default()
    }
    pub(crate) fn last(&self) -> Option<Arc<Marker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
    pub(crate) fn set(&self, marker: Arc<Marker>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(marker);
    }
    /// True if the last record has been reached.
    pub fn query(&self) -> bool {
        crate::lazy::begin_held();
        let _state = lock();
        self.last().is_none_or(|m| m.met())
    }
    /// The host waits until the last record has been reached.
    pub fn synchronize(&self) {
        if let Some(marker) = self.last() {
            host_wait(&*marker, None);
        }
    }
}
