//! Arithmetic, bit for bit as the PTX ISA defines it. Each function's comment names the section that it follows.
mod float;
mod integer;
mod narrow;
mod round;

pub use float::{
    add_f64, canonical_f32, div_f64, f32_from_f64, f64_from_f32, fma_f32, fma_f64, max_f32, max_f64, min_f32, min_f64,
    minus_product_f64, mul_f64, product_minus_f64, sub_f64, with_payload,
};
pub use integer::{
    bit_field_extract, bit_field_insert, funnel_shift_left, funnel_shift_right, high_bit, permute, shift_left,
    shift_right_signed, shift_right_unsigned,
};
pub use narrow::{BF16, E4M3, E5M2, F16, Narrow};
pub use round::{BRAIN, Binary, DOUBLE, Direction, Exact, HALF, SINGLE};
