//! Cuts an operation into channels and chunks as NCCL does on machines whose GPUs all reach each other by NVLink.
use super::channels::{GRAIN_BYTES, Load, Share};
use super::{Algorithm, Machines, Protocol};
use crate::op::{Kind, Spec};
use std::sync::Arc;

/// Slots of a channel's buffer.
const SLOTS: usize = 8;

/// Bytes of a channel's buffer for each protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Buffers {
    pub simple: usize,
    pub ll: usize,
    pub ll128: usize,
}

impl Buffers {
    /// NCCL's own: 4 MiB, 512 KiB and 4,800 KiB.
    pub(crate) const STANDARD: Self = Self { simple: 4 << 20, ll: 512 << 10, ll128: 4800 << 10 };

    fn slot(self, protocol: Protocol) -> usize {
        match protocol {
            Protocol::Simple => self.simple / SLOTS,
            Protocol::Ll => self.ll / SLOTS,
            Protocol::Ll128 => self.ll128 / SLOTS,
        }
    }

    /// Bytes of the largest message.
    pub(crate) fn largest_chunk(self) -> usize {
        let most = (self.simple / SLOTS).saturating_mul(RING_STEPS).max(self.ll / SLOTS).max(self.ll128 / SLOTS);
        most.max(grain(Protocol::Ll128))
    }
}

/// Threads of a channel, by protocol: an operation uses as many channels as it has bytes for their threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Threads {
    pub plain: usize,
    pub ll128: usize,
}

impl Threads {
    pub(crate) const STANDARD: Self = Self { plain: 512, ll128: 640 };
    const WARP: usize = 32;

    /// The threads for these settings; a number that is not a multiple of a warp counts as the maximum.
    pub(crate) fn of(plain: Option<usize>, ll128: Option<usize>) -> Self {
        let number = |wanted: Option<usize>, least: usize, most: usize| match wanted {
            Some(number) if number > 0 && number.is_multiple_of(Self::WARP) => number.clamp(least, most),
            _ => most,
        };
        let Self { plain: most, ll128: most_ll128 } = Self::STANDARD;
        Self { plain: number(plain, 2 * Self::WARP, most), ll128: number(ll128, most_ll128 / 4, most_ll128) }
    }
}

/// Slots that a chunk of a ring fills where every rank contributes or gets a part.
const RING_STEPS: usize = 4;

/// Chunks are multiples of this many bytes.
fn grain(protocol: Protocol) -> usize {
    match protocol {
        Protocol::Simple => 512,
        Protocol::Ll => 16,
        // The amount that the threads of a warp pass on at a time.
        Protocol::Ll128 => 1920,
    }
}

/// The number of a communicator's channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channels {
    pub number: usize,
    /// Number of channels before copying makes up `number`: the first uses the first tree, the second the second.
    pub distinct: usize,
}

/// The placement of a communicator's ranks, and the settings that an operation is cut by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Topology<'a> {
    pub machines: &'a Arc<Machines>,
    pub channels: Channels,
    pub buffers: Buffers,
    pub threads: Threads,
}

impl Topology<'_> {
    /// The tree that a channel uses.
    pub(super) fn tree(&self, channel: usize) -> usize {
        channel % self.channels.distinct.max(1)
    }

    /// The elements of each channel.
    pub(super) fn shares(&self, load: &Load, algorithm: Algorithm) -> Vec<Share> {
        load.shares_of(self.channels_for(load, algorithm), self.channels.number)
    }

    /// The largest number of channels that leaves enough bytes to each of their threads.
    fn channels_for(&self, load: &Load, algorithm: Algorithm) -> usize {
        let blocks = if matches!(load.kind, Kind::AllGather | Kind::ReduceScatter) { load.n } else { 1 };
        let bytes = load.count.saturating_mul(load.size).saturating_mul(blocks);
        let per_channel = match load.protocol {
            Protocol::Simple => self.threads.plain * 64,
            Protocol::Ll if algorithm == Algorithm::Ring => self.threads.plain * 8 * load.n,
            Protocol::Ll => self.threads.plain * 8,
            Protocol::Ll128 => self.threads.ll128 * 8,
        };
        (bytes / per_channel).clamp(1, self.channels.number)
    }

    /// Elements of a chunk of a channel with this share.
    pub(super) fn chunk(&self, spec: &Spec, share: Share) -> usize {
        let (protocol, size) = (spec.protocol, spec.ty.size());
        let slot = self.buffers.slot(protocol);
        let around = matches!(spec.kind, Kind::AllReduce | Kind::AllGather | Kind::ReduceScatter);
        let mut bytes = match protocol {
            Protocol::Simple if spec.algorithm == Algorithm::Ring && around => slot.saturating_mul(RING_STEPS),
            Protocol::Simple => slot,
            Protocol::Ll => slot / 2,
            Protocol::Ll128 => slot / 16 * 15,
        };
        if protocol == Protocol::Ll128 && matches!(spec.algorithm, Algorithm::Tree | Algorithm::SingleTree) {
            bytes = self.smaller(bytes, share.len.saturating_mul(size));
        }
        let grain = grain(protocol);
        (bytes / grain * grain).max(grain) / size
    }

    /// A tree's chunks by LL128 are halved until there are enough of them to fill the tree's levels.
    fn smaller(&self, mut chunk: usize, bytes: usize) -> usize {
        let machines = self.machines.count();
        let ranks_per_machine = self.machines.ranks() as f32 / machines as f32;
        let levels = (f64::from(1 + machines.ilog2()) + 0.1 * f64::from(ranks_per_machine)) as f32;
        for (factor, least) in [(64.0, 131_072), (16.0, 32_768)] {
            while chunk > least && ((bytes / chunk) as f32) < levels * factor / ranks_per_machine {
                chunk /= 2;
            }
        }
        chunk
    }
}

/// The parts of a ring's last pass are multiples of this number of elements.
pub(super) fn grain_elements(size: usize) -> usize {
    (GRAIN_BYTES / size).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arith::Type;
    use crate::op::{PreMul, Spec};

    fn spec(kind: Kind, algorithm: Algorithm, protocol: Protocol, count: usize) -> Spec {
        let (premul, reduction) = (PreMul::None, None);
        Spec {
            kind,
            algorithm,
            protocol,
            send: 0,
            recv: 0,
            count,
            ty: Type::F32,
            reduction,
            premul,
            peer: 0,
            signal: Default::default(),
        }
    }

    fn chunk(kind: Kind, algorithm: Algorithm, protocol: Protocol, count: usize, machines: &[u64]) -> usize {
        let machines = Arc::new(Machines::of(machines));
        let channels = Channels { number: 2, distinct: 2 };
        let topology =
            Topology { machines: &machines, channels, buffers: Buffers::STANDARD, threads: Threads::STANDARD };
        4 * topology.chunk(&spec(kind, algorithm, protocol, count), Share { start: 0, len: count })
    }

    #[test]
    fn chunks_are_those_of_nccls_buffers() {
        use {Algorithm::*, Protocol::*};
        let one = |kind, algorithm, protocol| chunk(kind, algorithm, protocol, 1 << 26, &[0; 8]);
        assert_eq!(one(Kind::AllReduce, Ring, Simple), 2 << 20);
        assert_eq!(one(Kind::ReduceScatter, Ring, Simple), 2 << 20);
        assert_eq!(one(Kind::Broadcast, Ring, Simple), 512 << 10);
        assert_eq!(one(Kind::AllReduce, Tree, Simple), 512 << 10);
        assert_eq!(one(Kind::AllReduce, Ring, Ll), 32 << 10);
        assert_eq!(one(Kind::AllReduce, Ring, Ll128), 576_000);
        assert_eq!(one(Kind::AllReduce, Tree, Ll128), 576_000);
        assert_eq!(Buffers::STANDARD.largest_chunk(), 2 << 20);
    }

    /// Levels are 1 + 0.1 x 8 = 1.8 in one machine of 8, so 1.8 x 64 / 8 = 14.4 chunks and 1.8 x 16 / 8 = 3.6 chunks are wanted; in 8
    /// machines of one rank they are 1 + 3 + 0.1 = 4.1, and 262.4 and 65.6 chunks are wanted.
    #[test]
    fn ll128_cuts_small_trees_into_smaller_chunks() {
        let tree = |bytes: usize, machines: &[u64]| {
            chunk(Kind::AllReduce, Algorithm::Tree, Protocol::Ll128, bytes / 4, machines)
        };
        assert_eq!(tree(15 * 576_000, &[0; 8]), 576_000);
        assert_eq!(tree(14 * 576_000, &[0; 8]), 288_000);
        // 144,000 is the first half that is at most 131,072 after one further halving: 72,000 stays, as 4 of them are enough.
        assert_eq!(tree(4 * 72_000, &[0; 8]), 71_040, "a multiple of 1,920");
        assert_eq!(tree(4 * 36_000, &[0; 8]), 34_560);
        assert_eq!(tree(4, &[0; 8]), 17_280 / 1920 * 1920);
        assert_eq!(tree(1 << 20, &[0, 1, 2, 3, 4, 5, 6, 7]), 17_280);
    }

    #[test]
    fn threads_are_whole_warps_within_nccls_bounds() {
        let threads = |plain, ll128| {
            let Threads { plain, ll128 } = Threads::of(Some(plain), Some(ll128));
            (plain, ll128)
        };
        assert_eq!(threads(128, 320), (128, 320));
        assert_eq!(threads(32, 32), (64, 160));
        assert_eq!(threads(1024, 1024), (512, 640));
        assert_eq!(threads(100, 0), (512, 640));
        assert_eq!(Threads::of(None, None), Threads::STANDARD);
    }

    #[test]
    fn small_operations_use_fewer_channels() {
        let machines = Arc::new(Machines::of(&[0; 4]));
        let channels = Channels { number: 8, distinct: 2 };
        let topology =
            Topology { machines: &machines, channels, buffers: Buffers::STANDARD, threads: Threads::STANDARD };
        let channels = |protocol, algorithm, kind, count| {
            topology.channels_for(&Load { kind, protocol, count, size: 4, n: 4 }, algorithm)
        };
        use {Algorithm::*, Protocol::*};
        assert_eq!(channels(Simple, Ring, Kind::AllReduce, 8191), 1);
        assert_eq!(channels(Simple, Ring, Kind::AllReduce, 3 * 8192), 3);
        assert_eq!(channels(Simple, Ring, Kind::AllReduce, 1 << 20), 8);
        assert_eq!(channels(Simple, Ring, Kind::AllGather, 3 * 2048), 3);
        assert_eq!(channels(Ll, Ring, Kind::AllReduce, 3 * 4096), 3);
        assert_eq!(channels(Ll, Tree, Kind::AllReduce, 3 * 1024), 3);
        assert_eq!(channels(Ll128, Ring, Kind::AllReduce, 3 * 1280), 3);
    }
}
