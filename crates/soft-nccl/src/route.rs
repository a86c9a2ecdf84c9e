//! How data goes: along which ranks, and by which protocol.
use serde::{Deserialize, Serialize};

/// The routes of an operation's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// Around a ring, or along a chain for rooted operations.
    Ring,
    /// Two binary trees, each with half of the data; every rank has children in at most one.
    Tree,
    /// One binary tree (a word of this library).
    SingleTree,
    /// Straight between the two ranks; operations built on that have no choice.
    Direct,
}

impl Algorithm {
    /// The algorithm's name in NCCL_ALGO.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ring => "Ring",
            Self::Tree => "Tree",
            Self::SingleTree => "SingleTree",
            Self::Direct => "Direct",
        }
    }
}

/// The word of NCCL_PROTO. The data of all three travels alike; ranks that name different ones have not made the same call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    Simple,
    Ll128,
    Ll,
}
