//! Uses of registered memory: a communicator's calls use the memory registered with it, and puts go through windows.
use super::super::lower::LoweredProgram;
use super::super::rank_op::{Placed, RankOp};
use super::super::registration::Registration;
use super::super::types::{AllocId, CommId};
use super::{ByStream, Use, by_stream, uses};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;

/// The latest use of a registration by a stream: the number of the call on it.
pub(super) struct LatestUse {
    pub stream: usize,
    pub number: u32,
    /// True for a put through a window, which need not use the memory.
    pub puts: bool,
}

/// The registered memory that a rank's streams use.
pub(super) struct Registered {
    memory: FxHashMap<(AllocId, CommId), Vec<ByStream>>,
    /// For each window and stream: the latest put.
    puts: FxHashMap<u32, BTreeMap<usize, u32>>,
}

impl Registered {
    /// The state of a rank before its first call.
    pub(super) fn of(lowered: &LoweredProgram, rank: usize) -> Self {
        let known: FxHashSet<(AllocId, CommId)> =
            lowered.registrations.of_rank(rank).iter().map(|r| (r.alloc, r.comm)).collect();
        let used = lowered.ops[rank].iter().flatten().filter(|_| !known.is_empty()).flat_map(|op| {
            let uses = uses(lowered, op).into_iter();
            uses.filter_map(|used| Some(((used.alloc, op.comm()?), op.stream() as usize, used)))
        });
        Self { memory: by_stream(used.filter(|(key, ..)| known.contains(key))), puts: FxHashMap::default() }
    }

    /// A call is enqueued with this number on its stream.
    pub(super) fn record(&mut self, op: &RankOp<Placed>, window: Option<u32>, uses: &[Use], number: u32) {
        let (stream, Some(comm)) = (op.stream() as usize, op.comm()) else { return };
        if let Some(window) = window {
            self.puts.entry(window).or_default().insert(stream, number);
        }
        for used in uses {
            let all = self.memory.get_mut(&(used.alloc, comm)).into_iter().flatten();
            for by in all.filter(|by| by.stream == stream) {
                let list = if used.writes { &mut by.writes } else { &mut by.reads };
                list.record(used.start, used.end, number);
            }
        }
    }

    /// The latest uses of a registration; `bytes` are those in the allocation's payload.
    pub(super) fn latest_uses(&self, of: &Registration, bytes: Range<u64>) -> impl Iterator<Item = LatestUse> {
        let uses = self.memory.get(&(of.alloc, of.comm)).into_iter().flatten().map(move |by| {
            let number = by.writes.of(bytes.start, bytes.end).max(by.reads.of(bytes.start, bytes.end));
            LatestUse { stream: by.stream, number, puts: false }
        });
        let puts = self.puts.get(&of.id).filter(|_| of.window).into_iter().flatten();
        uses.chain(puts.map(|(stream, number)| LatestUse { stream: *stream, number: *number, puts: true }))
    }
}
