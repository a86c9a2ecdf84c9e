//! Element types and their numbers: exact decoding, correct rounding, and text. Used for inputs, `map`, `expect` and the
//! oracle, but not by soft-nccl, which has other arithmetic so that an error of conversion does not cancel out.
mod dtype;
mod element;
mod encoding;
mod format;
mod random;
mod text;

#[cfg(test)]
mod tests;

pub use dtype::DType;
pub use element::{ElementValue, element_bits, has_infinity, int_range, max_finite, neighbours, overflow_edge};
pub use encoding::{
    Number, canonical_nan, decode, decode_f64, encode_f64, encode_int, get_element, is_nan, mask, put_element,
    put_elements, put_floats, repeat_period,
};
pub(crate) use format::{FloatFormat, round};
pub use random::{Random, SPLITMIX64_STEP, empty_range, splitmix64};
pub use text::{bits_matter, element_hex, element_text};
