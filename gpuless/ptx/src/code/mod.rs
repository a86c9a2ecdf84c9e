//! Instructions with types: the effect of each, and the registers that it uses.
mod body;
mod change;
mod contract;
mod decode;
mod flow;
mod op;
mod registers;
mod slots;
mod waits;

pub use body::Body;
pub use change::Change;
pub use contract::contract;
pub use decode::{Unsupported, decode, unsupported};
pub use op::{
    Address, AddressBase, Approximate, AtomicOp, BinaryOp, Comparison, ConstantBits, MemoryOrder, MulPart,
    MultimemAction, Op, Operation, Reduction, Rounding, ShuffleMode, Source, SpecialRegister, TernaryOp, UnaryOp,
    VoteMode, Width,
};
pub use slots::Slots;
pub use waits::waits;
