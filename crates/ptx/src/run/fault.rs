//! Failures that end a launch early.
use crate::error::Error;
use std::fmt;

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
    Standstill(Vec<(Spot, String)>),
}
