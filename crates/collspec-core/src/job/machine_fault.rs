//! Faults of the machine on which a job runs: what they are, and what they can strike.
use super::ExecutedFunction;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of fault of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    BitFlipUser,
    BitFlipNccl,
    LostWrite,
    StuckGpu,
    SlowGpu,
    NetCut,
    NetBitFlip,
    NetRepeat,
    NetDelay,
    IbRetryExceeded,
    IbPortDown,
    IbPortFlap,
    IbQpError,
    IbCqError,
    IbDeviceError,
    IbLateMessage,
    IbLateCompletion,
    IbLostWrite,
    IbBitFlip,
    IbRepeat,
    IbReorder,
    IbSlowNic,
    IbPartition,
}

/// What a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Struck {
    /// GPUs, and what their kernels store.
    Gpus,
    /// Connections of NET/Socket, so that each rank must be on a different host.
    Sockets,
    /// Network adapters, so that ranks must be on several nodes that have some.
    Adapters,
}

/// Every kind, its name, and what happens.
const KINDS: [(FaultKind, &str, &str); 23] = [
    (FaultKind::BitFlipUser, "bit_flip_user", "a bit flips in an input or output that kernels have written"),
    (
        FaultKind::BitFlipNccl,
        "bit_flip_nccl",
        "a bit flips in device memory that NCCL allocated and kernels have written",
    ),
    (FaultKind::LostWrite, "lost_write", "a store of a warp to 128 bytes of global memory does not happen"),
    (FaultKind::StuckGpu, "stuck_gpu", "the kernels of a GPU halt and never continue"),
    (FaultKind::SlowGpu, "slow_gpu", "the kernels of a GPU halt for half a second"),
    (FaultKind::NetCut, "net_cut", "a connection of NET/Socket is cut"),
    (FaultKind::NetBitFlip, "net_bit_flip", "a bit flips in data that arrives by NET/Socket"),
    (FaultKind::NetRepeat, "net_repeat", "a segment that arrives by NET/Socket arrives twice"),
    (FaultKind::NetDelay, "net_delay", "data arrives half a second late by NET/Socket"),
    (FaultKind::IbRetryExceeded, "ib_retry_exceeded", "a message of NET/IB is never answered, nor are those after it"),
    (FaultKind::IbPortDown, "ib_port_down", "the port of a network adapter goes down for good"),
    (FaultKind::IbPortFlap, "ib_port_flap", "the port of a network adapter is down for 300 ms"),
    (FaultKind::IbQpError, "ib_qp_error", "a queue pair fails (IBV_EVENT_QP_FATAL)"),
    (FaultKind::IbCqError, "ib_cq_error", "a completion queue fails (IBV_EVENT_CQ_ERR)"),
    (FaultKind::IbDeviceError, "ib_device_error", "a network adapter fails (IBV_EVENT_DEVICE_FATAL)"),
    (FaultKind::IbLateMessage, "ib_late_message", "a message of NET/IB leaves half a second late"),
    (FaultKind::IbLateCompletion, "ib_late_completion", "a message of NET/IB completes half a second late"),
    (FaultKind::IbLostWrite, "ib_lost_write", "the data of a message of NET/IB does not arrive, and nobody says so"),
    (FaultKind::IbBitFlip, "ib_bit_flip", "a bit flips in a message of NET/IB"),
    (FaultKind::IbRepeat, "ib_repeat", "the data of a message of NET/IB is written a second time 5 ms later"),
    (FaultKind::IbReorder, "ib_reorder", "the data of a message of NET/IB arrives behind that of the next one"),
    (FaultKind::IbSlowNic, "ib_slow_nic", "a network adapter sends 1 MB/s from then on"),
    (FaultKind::IbPartition, "ib_partition", "a node is cut off from all others"),
];

/// The names of all kinds.
pub const FAULT_KINDS: [&str; KINDS.len()] = {
    let mut names = [""; KINDS.len()];
    let mut at = 0;
    while at < KINDS.len() {
        names[at] = KINDS[at].1;
        at += 1;
    }
    names
};

impl FaultKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        KINDS.iter().map(|(kind, ..)| *kind)
    }

    fn entry(self) -> Option<&'static (Self, &'static str, &'static str)> {
        KINDS.iter().find(|(kind, ..)| *kind == self)
    }

    pub fn name(self) -> &'static str {
        self.entry().map_or("", |(_, name, _)| name)
    }

    /// What happens, in words.
    pub fn describe(self) -> &'static str {
        self.entry().map_or("", |(_, _, words)| words)
    }

    pub fn named(name: &str) -> Option<Self> {
        KINDS.iter().find(|(_, known, _)| *known == name).map(|(kind, ..)| *kind)
    }

    /// What it strikes.
    pub fn strikes(self) -> Struck {
        match self {
            Self::BitFlipUser | Self::BitFlipNccl | Self::LostWrite | Self::StuckGpu | Self::SlowGpu => Struck::Gpus,
            Self::NetCut | Self::NetBitFlip | Self::NetRepeat | Self::NetDelay => Struck::Sockets,
            _ => Struck::Adapters,
        }
    }

    /// The number of moments at which it can strike.
    pub fn moments(self, counts: &MachineCounts) -> u64 {
        match self {
            // It strikes what an earlier store has written.
            Self::BitFlipUser => counts.stores_to_user.saturating_sub(1),
            Self::BitFlipNccl => counts.stores_to_nccl.saturating_sub(1),
            Self::LostWrite | Self::StuckGpu | Self::SlowGpu => counts.stores,
            Self::NetCut | Self::NetBitFlip | Self::NetRepeat | Self::NetDelay => counts.received,
            _ => counts.messages,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A fault that strikes once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineFault {
    /// What happens.
    pub kind: FaultKind,
    /// A world rank of the process in which it happens.
    pub rank: u32,
    /// The moment: less than [`FaultKind::moments`] of this process.
    pub moment: u64,
    /// Decides the place.
    pub seed: u64,
}

/// What happens to the machine while a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Disturbance {
    /// Nothing, but what faults could strike is counted.
    None,
    /// A fault strikes.
    Fault(MachineFault),
}

/// What faults could strike in a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineCounts {
    /// Stores of warps to global memory.
    pub stores: u64,
    /// Those to device memory that NCCL allocated.
    pub stores_to_nccl: u64,
    /// Those to inputs and outputs.
    pub stores_to_user: u64,
    /// Bytes that have arrived by NET/Socket.
    pub received: u64,
    /// Messages with data that the network adapters have sent to other processes.
    #[serde(default)]
    pub messages: u64,
}

/// In [`MachineReport::reached`], numbers from here on are functions of the library's host code, and those below instructions of its kernels.
pub const HOST_CODE: u64 = 1 << 63;

/// What happened to the machine in a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MachineReport {
    /// What faults could have struck.
    pub counts: MachineCounts,
    /// What the fault did, if it struck here.
    pub fault: Option<String>,
    /// The instructions that were executed, if this was noted.
    pub executed: Vec<ExecutedFunction>,
    /// What of the library was reached, if this was noted: instructions of kernels, and functions of its host code. The numbers mean the same in
    /// every process with the same library.
    #[serde(default)]
    pub reached: Vec<u64>,
}

/// The beginning of the line of a worker's log that says what a fault has done.
pub const FAULT_IN_LOG: &str = "fault of the machine: ";

/// The first line of what software GPUs say about a hang. Indented lines about each kernel follow, and then a line for each rank that waits.
pub const NO_KERNEL_MOVES: &str = "no kernel on the software GPUs moves:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_those_of_the_files() {
        for kind in FaultKind::all() {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert_eq!(FaultKind::named(kind.name()), Some(kind));
        }
    }
}
