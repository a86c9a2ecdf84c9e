//! Failures that end a launch early.
use crate::error::Error;
use std::fmt;
use std::sync::Arc;

/// The position of a warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The block's number in the launch.
    pub block: u32,
    /// The warp's number in the block.
    pub warp: u32,
    /// The lanes at this position, a bit for each.
    pub lanes: u32,
    /// The function, with the unit and line of the operation.
    pub at: String,
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}, warp {}, lanes {:#010x}, {}", self.block, self.warp, self.lanes, self.at)
    }
}

/// What lanes of a warp wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// A barrier of the block.
    Barrier {
        /// The barrier's number.
        number: usize,
        /// The number of threads that it is for; `None` for all of the block.
        threads: Option<u32>,
    },
    /// Other lanes of the warp.
    Lanes,
    /// Memory that they poll, which does not change.
    Poll {
        /// The address that the first lane polls.
        address: u64,
    },
    /// They can go on.
    Nothing,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier { number, threads: None } => write!(f, "waits at barrier {number} for all threads"),
            Self::Barrier { number, threads: Some(threads) } => {
                write!(f, "waits at barrier {number} for {threads} threads")
            }
            Self::Lanes => f.write_str("waits for other lanes of the warp"),
            Self::Poll { address } => write!(f, "polls {address:#x}, which does not change"),
            Self::Nothing => f.write_str("can go on"),
        }
    }
}

/// A block whose warps all wait, or poll memory that does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingBlock {
    pub device: usize,
    /// True if the device is halted.
    pub halted: bool,
    pub kernel: Arc<str>,
    /// The positions of its lanes, and what they wait for.
    pub spots: Vec<(Spot, Wait)>,
}

/// The reason a launch has ended before its threads.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The kernel or a function that it calls cannot be read.
    #[error(transparent)]
    Text(#[from] Error),
    /// The launch violates the kernel's requirements.
    #[error("{0}")]
    Launch(String),
    /// An instruction cannot be executed.
    #[error("{spot}: {what}")]
    Instruction {
        /// The position of the failure.
        spot: Box<Spot>,
        /// A description of the failure.
        what: String,
    },
    /// Every warp waits for something that no warp can provide.
    #[error("nothing moves: {}", .0.iter().map(|(spot, why)| format!("{spot} {why}")).collect::<Vec<_>>().join("; "))]
    Standstill(Vec<(Spot, Wait)>),
}
