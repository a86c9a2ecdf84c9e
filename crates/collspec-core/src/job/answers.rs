//! The answers of NCCL's query functions.
use serde::{Deserialize, Serialize};

/// The answers of NCCL's query functions on one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// About communicators: asked when they have been created, and when the program is over.
    pub comms: Vec<Asked>,
    /// The memory statistics of communicators: asked with the rest, and after each suspend and resume.
    pub memory: Vec<MemoryAsked>,
    /// The text for each code, `None` for a null pointer. Only one rank of a process asks; empty on all others.
    pub texts: Vec<(i32, Option<String>)>,
    /// NCCL's version code, from the rank that asks for the texts.
    pub version: Option<i32>,
    /// Calls that failed as they were expected to, after which the last error was a null pointer.
    pub mute: u32,
    /// Splits without a colour after which the handle was not null.
    pub handles_without_colour: u32,
    /// About windows: asked when they have been created.
    pub windows: Vec<WindowAnswer>,
}

/// The answer about a window that was registered without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowAnswer {
    /// Number of the registration.
    pub id: u32,
    /// False if the library gave a null window, because it does not support windows here.
    pub given: bool,
    /// The answer of `ncclWinGetUserPtr`.
    pub pointer: PointerAnswer,
}

/// The answer of a function that writes an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PointerAnswer {
    /// The library has no such function.
    Absent,
    /// The address of the registered memory.
    Registered,
    /// The answer is a null pointer.
    Null,
    /// The answer is another address.
    Other,
    /// It returned this code.
    Refused(i32),
}

/// The answers about one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Index of the communicator.
    pub comm: u32,
    /// Its number of ranks.
    pub count: Answer,
    /// This rank's number in it.
    pub rank: Answer,
    /// The answer about the rank's device.
    pub device: Answer,
    /// The calling thread's current device, which is the right answer for `device`.
    pub current: Option<i32>,
    /// The asynchronous error's code.
    pub error: Answer,
}

/// The answers of `ncclCommMemStats` about one communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryAsked {
    /// Index of the communicator.
    pub comm: u32,
    /// True if the program has suspended it.
    pub suspended: bool,
    /// Bytes that suspending releases.
    pub suspendable: MemoryAnswer,
    /// 1 while they are released.
    pub released: MemoryAnswer,
    /// Bytes that stay allocated.
    pub persistent: MemoryAnswer,
    /// All bytes that are allocated.
    pub total: MemoryAnswer,
}

/// The answer about one statistic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryAnswer {
    /// The answer is this number.
    Is(u64),
    /// Success, and nothing was written.
    Nothing,
    /// It returned this code.
    Refused(i32),
}

/// The answer of a query function that writes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The library has no such function.
    Absent,
    /// The answer is this number.
    Is(i32),
    /// Success, and nothing was written.
    Nothing,
    /// It returned this code.
    Refused(i32),
}
