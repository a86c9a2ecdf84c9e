//! Instructions with types: what each does, to which registers.
mod decode;
mod op;

pub use decode::{Unsupported, decode, unsupported};
pub use op::{
    Address, AddressBase, AtomicOp, BinaryOp, Comparison, ConstantBits, MemoryOrder, MulPart, Op, Operation, Reduction,
    Rounding, ShuffleMode, Source, SpecialRegister, TernaryOp, UnaryOp, VoteMode, Width,
};
