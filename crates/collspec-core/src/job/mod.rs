//! The calls of a rank's program, and the observations of a run of all programs.
mod answers;
mod calls;
mod kernels;
mod machine_fault;
mod observation;
mod report;

pub use answers::{Answer, Answers, Asked, MemoryAnswer, MemoryAsked, PointerAnswer, WindowAnswer};
pub use calls::{Call, CallKind, MapRead, Ptr, Red, Signal};
pub use kernels::{ChangeKind, ExecutedFunction, ExecutedInstruction, Kernels, Mutant};
pub use machine_fault::{
    Disturbance, FAULT_IN_LOG, FAULT_KINDS, FaultKind, HOST_CODE, MachineCounts, MachineFault, MachineReport,
    NO_KERNEL_MOVES, Struck,
};
pub use observation::{Ended, Observation};
pub use report::{Figure, RankEnd, RankReport, Traffic, Work};

/// Error code for failures outside NCCL: a map without a value, the driver before the program runs.
pub const NOT_NCCL: i32 = -1;

/// Bytes of a [`digest`].
pub const DIGEST: usize = 16;

/// A result's hash, which the worker keeps instead of a copy if there is no room for the copy.
pub fn digest(bytes: &[u8]) -> [u8; DIGEST] {
    xxhash_rust::xxh3::xxh3_128(bytes).to_le_bytes()
}
