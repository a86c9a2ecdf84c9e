//! Copies and digests of results, taken right after the steps that make them.
//!
//! A result that may have several right values and is used again is copied on its stream, so that the next step is judged from what it
//! really read. A result with one right value needs that only if a later step overwrites it; beyond 4 MiB for a case it gets a digest,
//! which a host function computes in stream order.
use super::{Halt, Rank, garbled, no_staging};
use crate::backend::{SetAside, Staging};
use crate::job::{CallKind, DIGEST, digest};
use std::collections::BTreeMap;

impl Rank<'_> {
    /// For each stream, the largest number of bytes of host memory that a digest on it needs.
    fn digests(&self) -> BTreeMap<u32, u64> {
        let mut most = BTreeMap::new();
        for call in &self.job().programs[self.rank] {
            if let CallKind::Checkpoint { bytes, stream, digest: true, .. } = &call.kind {
                let need = Staging::need([*bytes].into_iter(), DIGEST as u64);
                let known = most.entry(*stream).or_insert(need);
                *known = need.max(*known);
            }
        }
        most
    }

    /// Bytes of host memory for all digests.
    pub(super) fn staged_digests(&self) -> u64 {
        self.digests().into_values().fold(0, u64::saturating_add)
    }

    /// Sets host memory aside for the digests of each stream.
    pub(super) fn digest_places(&self, staging: &mut Staging) -> Result<BTreeMap<u32, SetAside>, Halt> {
        self.digests().into_iter().map(|(stream, most)| Ok((stream, staging.set_aside(most)?))).collect()
    }

    /// Takes a checkpoint, in stream order.
    pub(super) fn checkpoint(&mut self, kind: &CallKind) -> Result<(), Halt> {
        let CallKind::Checkpoint { from, bytes, index, stream, digest: only_digest } = kind else { return Ok(()) };
        let find = self.state.shadows.binary_search_by_key(index, |(i, _)| *i);
        let shadow = find.ok().and_then(|at| self.state.shadows.get(at)).map(|(_, shadow)| shadow);
        let shadow = shadow.ok_or_else(|| garbled("checkpoint"))?;
        let from = self.range(*from, *bytes)?;
        if !only_digest {
            self.stream(*stream)?.copy(shadow.at(0, *bytes)?, from, *bytes)?;
            return Ok(());
        }
        let to = shadow.at(0, DIGEST as u64)?;
        let compute = |inputs: &[Vec<u8>]| inputs.first().map(|bytes| digest(bytes).to_vec());
        let super::RankState { streams, staging, digest_places, .. } = &mut *self.state;
        let place = *digest_places.get(stream).ok_or_else(|| garbled("place for a digest"))?;
        let stream = streams.get(*stream as usize).ok_or_else(|| garbled("stream"))?;
        let staging = staging.as_mut().ok_or_else(no_staging)?;
        let reads = vec![(from, *bytes)];
        Ok(stream.map_in(reads, to, DIGEST as u64, Box::new(compute), (staging, place))?)
    }
}
