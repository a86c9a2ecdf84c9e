//! Tracks the progress of a rank's streams and host, call by call, as far as the program itself determines it.
use super::lower::LoweredProgram;
use super::rank_op::{Placed, RankOp};
use crate::job::{Call, CallKind};

/// For each stream, the number of calls that are over.
#[derive(Clone)]
struct Over(Vec<usize>);

impl Over {
    fn join(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own = (*own).max(*other));
    }
}

/// The moment at which a rank's host makes a call.
pub struct Now<'a> {
    pub index: usize,
    pub call: &'a Call,
    pub op: Option<&'a RankOp<Placed>>,
    /// The operation's number on its stream, from 1; 0 for a call without operation.
    pub number: usize,
    /// True if this call is enqueued now, or the calls of the group that it ends.
    pub enqueues: bool,
    /// All that comes before the call. The calls of its group are not part of it: they are enqueued when the group ends.
    pub progress: &'a Progress,
}

/// Goes over the calls of a rank.
pub fn walk(lowered: &LoweredProgram, rank: usize, mut see: impl FnMut(&Now)) {
    let mut progress = Progress::new(lowered.unrolled.streams as usize);
    for (index, call) in lowered.programs[rank].iter().enumerate() {
        progress.follow(call.kind.effect());
        let op = lowered.op((rank, index));
        let number = op.map_or(0, |op| progress.issue(op.stream() as usize));
        let enqueues = lowered.ends[rank][index] as usize == index;
        see(&Now { index, call, op, number, enqueues, progress: &progress });
        if enqueues {
            progress.enqueue();
        }
    }
}

/// The progress of one rank as its calls are followed in order.
pub struct Progress {
    /// For each stream: the calls that are over once it has finished all its work.
    streams: Vec<Over>,
    /// The calls that the host has waited for.
    host: Over,
    /// For each stream: the operations that the host has issued. Those of a group are enqueued when it ends.
    issued: Vec<usize>,
}

impl Progress {
    /// The state before the first call, with this many streams.
    fn new(streams: usize) -> Self {
        let none = Over(vec![0; streams]);
        Self { streams: vec![none.clone(); streams], host: none, issued: vec![0; streams] }
    }

    /// Follows a call that orders streams, or that the host waits in.
    fn follow(&mut self, kind: &CallKind) {
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

    /// The host issues an operation to the stream; returns its number on it, from 1.
    fn issue(&mut self, stream: usize) -> usize {
        self.issued[stream] += 1;
        self.issued[stream]
    }

    /// Adds the operations that the host has issued to their streams.
    fn enqueue(&mut self) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.0[number] = self.issued[number];
        }
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
