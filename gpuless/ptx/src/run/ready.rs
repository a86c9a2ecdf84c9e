//! A function that is ready to run: its instructions with the code that executes them, and the contents of its frames.
use super::handlers::Handler;
use super::registers::Slot;
use crate::code::{Op, Width};
use crate::link::{FunctionId, SharedMemory, VariableId};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// An instruction. The meaning of its fields is up to its handler; most have a target and three operands.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Instruction {
    /// The code that executes it.
    pub run: Handler,
    /// The slot of its result.
    pub to: Slot,
    /// The slots of its operands.
    pub a: Slot,
    pub b: Slot,
    pub c: Slot,
    pub d: Slot,
    /// Small facts of its kind.
    pub flags: u32,
    /// An immediate number, such as an address's offset.
    pub number: u64,
    /// Four more slots, or other numbers.
    pub more: [Slot; 4],
    /// Instructions of the text that it counts for: 1 for the first of those that one becomes, or 0.
    pub weight: u32,
    /// True if it only waits for others, so that the number of its executions means nothing.
    pub waits: bool,
}

/// The slot of a result that no instruction reads.
pub const NOWHERE: Slot = Slot::MAX;

/// The way a constant's value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// It is the same everywhere.
    Bits(u64),
    /// The address of a variable, plus an offset in bytes.
    Variable(VariableId, i64),
    /// A byte of the kernel's parameters.
    Parameter(i64),
    /// A byte of the frame's own memory, which is separate for each lane.
    Own(i64),
    /// A byte of shared memory that each block has.
    Shared(SharedMemory, i64),
    /// A byte of the shared memory that the launch asks for.
    DynamicShared(i64),
}

/// A value that is in its slot when a frame is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constant {
    /// The slot that holds the constant.
    pub slot: Slot,
    /// The width of the slot.
    pub width: Width,
    /// The value before relocation to a frame.
    pub known: Known,
}

/// An operation that is computed from its general description, and where its operands are.
#[derive(Clone, Debug)]
pub struct General {
    /// The operation to execute.
    pub op: Op,
    /// The slots that it reads, in the order of its fields.
    pub sources: Vec<(Slot, Width)>,
    /// The slots that it writes.
    pub to: Vec<Option<(Slot, Width)>>,
}

/// Bytes of a frame's own memory.
pub type Bytes = Range<u64>;

/// The arguments and results of a call, in the caller's own memory.
#[derive(Clone, Debug, Default)]
pub struct CallSite {
    /// The arguments that the function receives.
    pub arguments: Vec<Bytes>,
    /// The places of its results.
    pub results: Vec<Bytes>,
}

/// A function that is ready to run.
#[derive(Debug)]
pub struct Ready {
    /// The function's id in the program.
    pub function: FunctionId,
    /// Its instructions; the last one leaves it.
    pub instructions: Vec<Instruction>,
    /// For each instruction, the operation of the text from which it was made.
    pub operation_of: Vec<u32>,
    /// Values that frames begin with.
    pub constants: Vec<Constant>,
    /// Bytes of registers and constants, of a lane.
    pub register_bytes: u32,
    /// Bytes of own memory per lane.
    pub own_bytes: u64,
    /// The address of own memory is a multiple of this number of bytes.
    pub own_align: u64,
    /// Its parameters and results in its own memory.
    pub interface: CallSite,
    /// Its calls with parameters.
    pub calls: Vec<CallSite>,
    /// Operations that have no handler of their own.
    pub general: Vec<General>,
    /// The reasons some operations cannot be executed.
    pub refusals: Vec<String>,
    /// If it is noted what of it is executed, these notes.
    pub notes: Option<Notes>,
}

impl Ready {
    /// A function without instructions.
    pub fn empty(function: FunctionId) -> Self {
        Self {
            function,
            instructions: Vec::new(),
            operation_of: Vec::new(),
            constants: Vec::new(),
            register_bytes: 0,
            own_bytes: 0,
            own_align: 1,
            interface: CallSite::default(),
            calls: Vec::new(),
            general: Vec::new(),
            refusals: Vec::new(),
            notes: None,
        }
    }
}

/// What of a function is executed.
#[derive(Debug)]
pub struct Notes {
    /// For each instruction, the code that really executes it.
    handlers: Vec<Handler>,
    seen: Vec<AtomicBool>,
}

impl Notes {
    /// Puts a handler that takes notes in the place of a function's own ones.
    pub fn take_over(ready: &mut Ready, noting: Handler) {
        let handlers: Vec<Handler> =
            ready.instructions.iter_mut().map(|of| std::mem::replace(&mut of.run, noting)).collect();
        let seen = handlers.iter().map(|_| AtomicBool::new(false)).collect();
        ready.notes = Some(Self { handlers, seen });
    }

    /// Notes that an instruction is executed, and gives its handler.
    pub fn note(&self, at: usize) -> Option<Handler> {
        self.seen.get(at)?.store(true, Ordering::Relaxed);
        self.handlers.get(at).copied()
    }

    /// The operations that were executed. One with a guard becomes two instructions, and only the last one does what it says.
    pub fn operations(&self, operation_of: &[u32]) -> Vec<u32> {
        // The last instruction leaves the function, and is no operation of it.
        let pairs = operation_of.windows(2).zip(&self.seen);
        pairs
            .filter(|(pair, seen)| pair[0] != pair[1] && seen.load(Ordering::Relaxed))
            .map(|(pair, _)| pair[0])
            .collect()
    }
}
