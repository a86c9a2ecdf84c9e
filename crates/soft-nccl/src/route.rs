//! How data goes: along which ranks, and in which form.
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

/// The way a chunk of memory is shared between data and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// All of it data.
    Simple,
    /// Lines of 128 bytes, 8 of which are a flag.
    Ll128,
    /// Every 4 bytes of data have a flag of 4 bytes.
    Ll,
}

impl Protocol {
    /// Number of data bytes in this many bytes of memory.
    pub(crate) fn data(self, bytes: usize) -> usize {
        match self {
            Self::Simple => bytes,
            Self::Ll128 => bytes / 128 * 120,
            Self::Ll => bytes / 2,
        }
    }
}
