//! Collectives described as data. `k` is NCCL's count argument, `n` the communicator's size.
use serde::{Deserialize, Serialize};

/// An entry for one of NCCL's collectives.
#[derive(Debug)]
pub struct Collective {
    /// The function of NCCL.
    pub call: NcclCall,
    /// True if it takes a reduction.
    pub reduces: bool,
    /// True if it takes a root.
    pub rooted: bool,
    /// Length of the send side.
    pub send: Extent,
    /// Length of the receive side.
    pub recv: Extent,
    /// Whose send buffer is read.
    pub readers: Who,
    /// Whose receive buffer is written.
    pub writers: Who,
    /// The way send and receive buffer share memory in place.
    pub in_place: InPlace,
    /// The contents of the receive buffers afterwards.
    pub rule: Rule,
    /// The relation of its bus bandwidth to its algorithm bandwidth.
    pub bandwidth: Bandwidth,
    /// Values of NCCL_ALGO that serve it; `SingleTree` is a word of soft-nccl's alone.
    pub algorithms: &'static [&'static str],
}

macro_rules! calls {
    ($($variant:ident $function:ident $with_config:ident ($($takes:ident),*) $written:ident;)*) => {
        /// The collective functions of NCCL.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum NcclCall {
            $($variant,)*
        }

        impl NcclCall {
            /// Every collective function.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The function's name in the library.
            pub const fn symbol(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($function),)*
                }
            }

            /// The name of the function that takes a configuration of the call.
            pub const fn symbol_with_config(self) -> &'static str {
                match self {
                    $(Self::$variant => stringify!($with_config),)*
                }
            }
        }
    };
}

nccl_sys::collectives!(calls);

impl NcclCall {
    /// True if a group of sends and receives has the same effect, as NCCL's user guide suggests, so that libraries without the function
    /// can run it.
    pub const fn is_pairwise(self) -> bool {
        matches!(self, Self::AlltoAll | Self::Gather | Self::Scatter)
    }
}

/// A buffer's length in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// k elements.
    One,
    /// k * n elements.
    PerRank,
}

impl Extent {
    /// Elements for NCCL's count `k` and `n` ranks; `None` on overflow.
    pub fn elements(self, k: u64, n: usize) -> Option<u64> {
        match self {
            Self::One => Some(k),
            Self::PerRank => k.checked_mul(n as u64),
        }
    }
}

/// The share of the data that must pass each rank's link at least, which makes bandwidths of different operations comparable
/// (nccl-tests, doc/PERFORMANCE.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bandwidth {
    /// The factor 1.
    Whole,
    /// (n - 1) / n
    Others,
    /// 2 (n - 1) / n
    TwiceOthers,
}

impl Bandwidth {
    /// The bus bandwidth divided by the algorithm bandwidth, for this many ranks.
    pub fn factor(self, ranks: usize) -> f64 {
        let others = ranks.saturating_sub(1) as f64 / ranks.max(1) as f64;
        match self {
            Self::Whole => 1.0,
            Self::Others => others,
            Self::TwiceOthers => 2.0 * others,
        }
    }
}

/// The ranks whose buffers a call uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    All,
    Root,
}

impl Who {
    /// True if it holds for this rank.
    pub fn includes(self, rank: usize, root: usize) -> bool {
        self == Self::All || rank == root
    }
}

/// The side of an in-place call that contains the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InPlace {
    /// Both are the same memory.
    Same,
    /// send == recv + rank * k
    SendInRecv,
    /// recv == send + rank * k
    RecvInSend,
    /// The call cannot run in place.
    Never,
}

/// The contents of the receive buffer of rank r.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Elements [0, k) of the reduction.
    Reduced,
    /// Elements [r*k, (r+1)*k) of the reduction.
    ReducedBlock,
    /// The root's send buffer.
    RootCopy,
    /// Block r of the root's send buffer.
    RootBlock,
    /// All send buffers in rank order.
    Concat,
    /// Block r of every send buffer, in rank order.
    Transpose,
}
