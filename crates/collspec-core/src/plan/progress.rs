//! Tracks the progress of a rank's streams and host, call by call, as far as the program itself determines it.
use crate::job::CallKind;

/// For each stream, the number of calls that are over.
#[derive(Clone)]
struct Over(Vec<usize>);

impl Over {
    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }
}

/// The progress of one rank as its calls are followed in order.
pub struct Progress {
    /// For each stream: the calls that are over once it has finished all its work.
    streams: Vec<Over>,
    /// The calls that the host has waited for.
    host: Over,
}

impl Progress {
    /// The state before the first call, with this many streams.
    pub fn new(streams: usize) -> Self {
        let none = Over(vec![0; streams]);
        Self { streams: vec![none.clone(); streams], host: none }
    }

    /// Follows a call that orders streams, or that the host waits in.
    pub fn follow(&mut self, kind: &CallKind) {
        match kind {
            CallKind::After { stream, on } => {
                for other in on {
                    let seen = self.streams[*other as usize].clone();
                    self.streams[*stream as usize].join(&seen);
                }
            }
            CallKind::Wait { stream } => {
                let waited = stream.map_or(0..self.streams.len(), |stream| stream as usize..stream as usize + 1);
                waited.for_each(|stream| self.host.join(&self.streams[stream]));
            }
            _ => {}
        }
    }

    /// Adds an operation to the stream; returns its number on it, from 1.
    pub fn issue(&mut self, stream: usize) -> usize {
        let own = &mut self.streams[stream].0[stream];
        *own += 1;
        *own
    }

    /// True if the next work on `stream` begins after the operation of `other` with this number has ended.
    pub fn is_before(&self, other: usize, number: usize, stream: usize) -> bool {
        self.streams[stream].0[other] >= number || self.host_has(other, number)
    }

    /// True if the host has waited for the stream's operation with this number.
    pub fn host_has(&self, stream: usize, number: usize) -> bool {
        self.host.0[stream] >= number
    }
}
