//! The part of a kernel's store that others see at once, if stores are delayed.
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The part of a store that becomes visible at once on software GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreUnit {
    /// One element of a thread's vector, as PTX guarantees.
    Element,
    /// All that a thread stores with one instruction.
    Thread,
    /// All that a block has stored to the same 128 bytes.
    Line,
}

impl StoreUnit {
    /// The word that selects it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Element => "element",
            Self::Thread => "thread",
            Self::Line => "line",
        }
    }
}

impl FromStr for StoreUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Element, Self::Thread, Self::Line].into_iter().find(|unit| unit.name() == text);
        known.ok_or_else(|| "expected element, thread or line".to_owned())
    }
}
