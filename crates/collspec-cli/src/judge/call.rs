//! A rank's call, and which elements of its buffers are the same element of the operation.
use collspec_core::num::DType;

/// Ranks of a communicator, and elements of a call, beyond which a number is not believed.
pub const MAX_RANKS: usize = 1024;
pub const MAX_COUNT: u64 = 1 << 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    AllReduce,
    Reduce,
    Broadcast,
    AllGather,
    Gather,
    ReduceScatter,
    Scatter,
    AllToAll,
    Send,
    Recv,
}

/// NCCL's name of each, and the scenario language's.
const OPS: [(Op, &str, &str); 10] = [
    (Op::AllReduce, "AllReduce", "all_reduce"),
    (Op::Reduce, "Reduce", "reduce"),
    (Op::Broadcast, "Broadcast", "broadcast"),
    (Op::AllGather, "AllGather", "all_gather"),
    (Op::Gather, "Gather", "gather"),
    (Op::ReduceScatter, "ReduceScatter", "reduce_scatter"),
    (Op::Scatter, "Scatter", "scatter"),
    (Op::AllToAll, "AlltoAll", "all_to_all"),
    (Op::Send, "Send", "send"),
    (Op::Recv, "Recv", "recv"),
];

impl Op {
    pub fn named(name: &str) -> Option<Self> {
        OPS.iter().find(|(_, known, _)| *known == name).map(|(op, ..)| *op)
    }

    /// The scenario language's word.
    pub fn word(self) -> &'static str {
        OPS.iter().find(|(op, ..)| *op == self).map_or("", |(_, _, word)| word)
    }

    pub fn is_message(self) -> bool {
        matches!(self, Self::Send | Self::Recv)
    }

    pub fn reduces(self) -> bool {
        matches!(self, Self::AllReduce | Self::Reduce | Self::ReduceScatter)
    }

    pub fn is_rooted(self) -> bool {
        matches!(self, Self::Reduce | Self::Broadcast | Self::Gather | Self::Scatter)
    }
}

/// What a line says of a rank's call.
#[derive(Clone, Debug)]
pub struct Call {
    pub op: Op,
    /// A number that the communicator's ranks share.
    pub comm: u64,
    /// Of the communicator's collectives, or of the messages from one rank to another.
    pub sequence: u64,
    pub rank: usize,
    pub ranks: usize,
    /// The root, or the other rank of a message.
    pub root: usize,
    pub count: u64,
    pub dtype: DType,
    /// NCCL's number of the reduction.
    pub reduce: i64,
    /// The bits of the factor, if it is in the host's memory.
    pub factor: Option<u64>,
    /// The communicator's calls before this one.
    pub number: u64,
    /// Lines with data of each side.
    pub lines: [u64; 3],
    /// A graph's, which is made at each of its launches.
    pub in_graph: bool,
    /// The process's number of the GPU.
    pub device: u32,
    /// Where the program makes it.
    pub place: String,
}

/// The calls of a communicator that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Collective { comm: u64, sequence: u64 },
    Message { comm: u64, from: usize, to: usize, sequence: u64 },
}

impl Key {
    /// The number that the communicator's ranks share.
    pub fn comm(&self) -> u64 {
        match self {
            Self::Collective { comm, .. } | Self::Message { comm, .. } => *comm,
        }
    }
}

/// What data is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    In,
    Out,
    /// A factor in memory of the device: one element.
    Factor,
}

impl Call {
    pub fn key(&self) -> Key {
        let Self { comm, sequence, .. } = *self;
        match self.op {
            Op::Send => Key::Message { comm, from: self.rank, to: self.root, sequence },
            Op::Recv => Key::Message { comm, from: self.root, to: self.rank, sequence },
            _ => Key::Collective { comm, sequence },
        }
    }

    /// How many ranks' calls belong together.
    pub fn members(&self) -> usize {
        if self.op.is_message() { 2 } else { self.ranks }
    }

    /// Blocks of `count` elements in a buffer.
    pub fn blocks(&self, side: Side) -> u64 {
        match (self.op, side) {
            (Op::AllToAll, _)
            | (Op::ReduceScatter | Op::Scatter, Side::In)
            | (Op::AllGather | Op::Gather, Side::Out) => self.ranks as u64,
            _ => 1,
        }
    }

    /// The part of the operation that a block of a buffer is: equal numbers are equal elements, before or after the operation.
    pub fn cell(&self, side: Side, block: u64) -> u64 {
        let (rank, ranks) = (self.rank as u64, self.ranks as u64);
        match (self.op, side) {
            (Op::AllGather | Op::Gather, Side::In) | (Op::ReduceScatter | Op::Scatter, Side::Out) => rank,
            (Op::AllGather | Op::Gather, Side::Out) | (Op::ReduceScatter | Op::Scatter, Side::In) => block,
            (Op::AllToAll, Side::In) => rank * ranks + block,
            (Op::AllToAll, Side::Out) => block * ranks + rank,
            _ => 0,
        }
    }

    /// True if this rank's input counts.
    pub fn reads(&self) -> bool {
        match self.op {
            Op::Broadcast | Op::Scatter => self.rank == self.root,
            Op::Recv => false,
            _ => true,
        }
    }

    /// `all_reduce sum of 1000 f32`
    pub fn text(&self) -> String {
        let reduce = if self.op.reduces() { format!(" {}", self.reduce_word()) } else { String::new() };
        let root = match self.op {
            Op::Send => format!(" to rank {}", self.root),
            Op::Recv => format!(" from rank {}", self.root),
            op if op.is_rooted() => format!(", root {}", self.root),
            _ => String::new(),
        };
        format!("{}{reduce} of {} {}{root}", self.op.word(), self.count, self.dtype.name())
    }

    /// The scenario language's word.
    pub fn reduce_word(&self) -> &'static str {
        match self.reduce {
            0 => "sum",
            1 => "prod",
            2 => "max",
            3 => "min",
            4 => "avg",
            _ => "premul_sum",
        }
    }
}
