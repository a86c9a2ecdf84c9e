//! What one run of a case does differently from another run of the same program.
use super::{Disturbance, Kernels};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// It goes whole from the command to the device: a new way in which runs can differ is a field here, an entry in the table of options,
/// and its effect where the worker or the device asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variation {
    /// The fault of a library in between, in the words that select it; empty for none.
    pub fault: String,
    /// The seed of the order in which tasks and warps take turns; each repetition of the case has the next one.
    pub seed: Option<u64>,
    /// If the seed also decides when others see the stores of kernels on software GPUs, the part of a store that they see at once.
    pub delay_stores: Option<StoreUnit>,
    /// If it also decides the moments at which kernels' loads see memory, the loads for which it does.
    pub early_loads: Option<EarlyLoads>,
    /// What happens to the machine meanwhile; on software GPUs only.
    pub disturbance: Option<Disturbance>,
    /// What is different about the kernels; on software GPUs only.
    pub kernels: Option<Kernels>,
}

impl Variation {
    /// True if the machine or its kernels are other than usual.
    pub fn concerns_machine(&self) -> bool {
        self.disturbance.is_some() || self.kernels.is_some()
    }

    /// The same with a seed, if stores that are late or loads that are early need one that says how much.
    #[must_use]
    pub fn with_seed_if_needed(self) -> Self {
        let needed = self.delay_stores.is_some() || self.early_loads.is_some();
        Self { seed: self.seed.or(needed.then_some(0)), ..self }
    }
}

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
