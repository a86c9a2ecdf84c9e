//! f32 and f64.
use super::operations;
use crate::num::{
    add_f64, canonical_f32, div_f64, f32_from_f64, f64_from_f32, fma_f32, fma_f64, max_f32, max_f64, min_f32, min_f64,
    minus_product_f64, mul_f64, product_minus_f64, sub_f64,
};

operations!(Two, |a, b|:
    AddF32 [f32 => f32] canonical_f32(a + b);
    SubF32 [f32 => f32] canonical_f32(a - b);
    MulF32 [f32 => f32] canonical_f32(a * b);
    DivF32 [f32 => f32] canonical_f32(a / b);
    MinF32 [f32 => f32] min_f32(a, b);
    MaxF32 [f32 => f32] max_f32(a, b);
    AddF64 [f64 => f64] add_f64(a, b);
    SubF64 [f64 => f64] sub_f64(a, b);
    MulF64 [f64 => f64] mul_f64(a, b);
    DivF64 [f64 => f64] div_f64(a, b);
    MinF64 [f64 => f64] min_f64(a, b);
    MaxF64 [f64 => f64] max_f64(a, b);
);

operations!(Three, |a, b, c|:
    FmaF32 [f32 => f32] fma_f32(a, b, c);
    FmaF64 [f64 => f64] fma_f64(a, b, c);
    ProductMinusF32 [f32 => f32] fma_f32(a, b, -c);
    ProductMinusF64 [f64 => f64] product_minus_f64(a, b, c);
    MinusProductF32 [f32 => f32] fma_f32(-a, b, c);
    MinusProductF64 [f64 => f64] minus_product_f64(a, b, c);
);

operations!(One, |a|:
    F64FromF32 [f32 => f64] f64_from_f32(a);
    F32FromF64 [f64 => f32] f32_from_f64(a);
    F32FromU32 [u32 => f32] a as f32;
    F32FromS32 [i32 => f32] a as f32;
    F64FromU32 [u32 => f64] f64::from(a);
    F64FromS32 [i32 => f64] f64::from(a);
);
