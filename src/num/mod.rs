//! Element types and their numbers: exact decoding, correct rounding, and text. Used for inputs, `map`, `expect` and the
//! oracle; never by soft-nccl, which has arithmetic of its own so that a conversion error cannot cancel itself out.
mod dtype;

pub use dtype::DType;
