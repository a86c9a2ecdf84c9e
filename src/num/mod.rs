//! Element types and their numbers: exact decoding, correct rounding, and text. Used for inputs, `map`, `expect` and the
//! oracle; never by soft-nccl, which has arithmetic of its own so that a conversion error cannot cancel itself out.
mod code;
mod dtype;
mod element;
mod format;
mod random;
mod text;

#[cfg(test)]
mod tests;

pub use code::{
    Number, canonical_nan, decode, decode_f64, encode_f64, encode_int, get, is_nan, mask, put, put_all, repeat,
};
pub use dtype::DType;
pub use element::{ElementValue, element_bits, has_infinity, int_range, max_finite, neighbours, overflow_edge};
pub(crate) use format::{Format, round};
pub use random::{Random, empty_range};
pub use text::{hex, text};
