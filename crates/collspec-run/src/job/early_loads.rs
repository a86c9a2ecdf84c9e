//! The loads of kernels that may be early.
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// The loads that may find what memory held at an earlier moment on software GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EarlyLoads {
    /// Weak ones, as from a GPU's L1 cache.
    Weak,
    /// Volatile and relaxed ones too, as PTX permits.
    All,
}

impl EarlyLoads {
    /// The word that selects them.
    pub fn name(self) -> &'static str {
        match self {
            Self::Weak => "weak",
            Self::All => "all",
        }
    }
}

impl FromStr for EarlyLoads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = [Self::Weak, Self::All].into_iter().find(|loads| loads.name() == text);
        known.ok_or_else(|| "expected weak or all".to_owned())
    }
}
