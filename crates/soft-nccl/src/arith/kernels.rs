//! The loops over elements. Elements are read byte-wise, so that no buffer needs an alignment.
use super::fp8::{E4M3, E5M2};
use super::{Combine, Scalar, Type};
use half::{bf16, f16};

/// Applies a function of two elements' bytes along two buffers.
fn zip<const N: usize>(acc: &mut [u8], other: &[u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (acc, _) = acc.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    for (a, b) in acc.iter_mut().zip(other) {
        *a = f(*a, *b);
    }
}

/// Applies a function of one element's bytes along a buffer.
fn each<const N: usize>(data: &mut [u8], f: impl Fn([u8; N]) -> [u8; N]) {
    let (data, _) = data.as_chunks_mut::<N>();
    for a in data {
        *a = f(*a);
    }
}

fn first<const N: usize>(scalar: &Scalar) -> [u8; N] {
    std::array::from_fn(|i| scalar.get(i).copied().unwrap_or(0))
}

macro_rules! integer {
    ($t:ty, $op:expr, $acc:expr, $other:expr) => {{
        const N: usize = size_of::<$t>();
        let v = |bytes: [u8; N]| <$t>::from_ne_bytes(bytes);
        match $op {
            Combine::Sum => zip::<N>($acc, $other, |a, b| v(a).wrapping_add(v(b)).to_ne_bytes()),
            Combine::Prod => zip::<N>($acc, $other, |a, b| v(a).wrapping_mul(v(b)).to_ne_bytes()),
            Combine::Max => zip::<N>($acc, $other, |a, b| v(a).max(v(b)).to_ne_bytes()),
            Combine::Min => zip::<N>($acc, $other, |a, b| v(a).min(v(b)).to_ne_bytes()),
        }
    }};
}

macro_rules! native_float {
    ($t:ty, $op:expr, $acc:expr, $other:expr) => {{
        const N: usize = size_of::<$t>();
        let v = |bytes: [u8; N]| <$t>::from_ne_bytes(bytes);
        match $op {
            Combine::Sum => zip::<N>($acc, $other, |a, b| (v(a) + v(b)).to_ne_bytes()),
            Combine::Prod => zip::<N>($acc, $other, |a, b| (v(a) * v(b)).to_ne_bytes()),
            Combine::Max => zip::<N>($acc, $other, |a, b| if v(a).is_nan() || v(b) > v(a) { b } else { a }),
            Combine::Min => zip::<N>($acc, $other, |a, b| if v(a).is_nan() || v(b) < v(a) { b } else { a }),
        }
    }};
}

// One step in single precision and one rounding give the correctly rounded result of a 16-bit sum or product: single
// precision has more than twice as many digits.
macro_rules! narrow_float {
    ($t:ty, $op:expr, $acc:expr, $other:expr) => {{
        let v = |bytes: [u8; 2]| <$t>::from_ne_bytes(bytes).to_f32();
        match $op {
            Combine::Sum => zip::<2>($acc, $other, |a, b| <$t>::from_f32(v(a) + v(b)).to_ne_bytes()),
            Combine::Prod => zip::<2>($acc, $other, |a, b| <$t>::from_f32(v(a) * v(b)).to_ne_bytes()),
            Combine::Max => zip::<2>($acc, $other, |a, b| if v(a).is_nan() || v(b) > v(a) { b } else { a }),
            Combine::Min => zip::<2>($acc, $other, |a, b| if v(a).is_nan() || v(b) < v(a) { b } else { a }),
        }
    }};
}

macro_rules! tiny_float {
    ($format:expr, $op:expr, $acc:expr, $other:expr) => {{
        match $op {
            Combine::Sum => zip::<1>($acc, $other, |[a], [b]| [$format.add(a, b)]),
            Combine::Prod => zip::<1>($acc, $other, |[a], [b]| [$format.multiply(a, b)]),
            Combine::Max => zip::<1>($acc, $other, |[a], [b]| [$format.max(a, b)]),
            Combine::Min => zip::<1>($acc, $other, |[a], [b]| [$format.min(a, b)]),
        }
    }};
}

pub(super) fn combine(ty: Type, op: Combine, acc: &mut [u8], other: &[u8]) {
    match ty {
        Type::I8 => integer!(i8, op, acc, other),
        Type::U8 => integer!(u8, op, acc, other),
        Type::I32 => integer!(i32, op, acc, other),
        Type::U32 => integer!(u32, op, acc, other),
        Type::I64 => integer!(i64, op, acc, other),
        Type::U64 => integer!(u64, op, acc, other),
        Type::F32 => native_float!(f32, op, acc, other),
        Type::F64 => native_float!(f64, op, acc, other),
        Type::F16 => narrow_float!(f16, op, acc, other),
        Type::Bf16 => narrow_float!(bf16, op, acc, other),
        Type::E4m3 => tiny_float!(E4M3, op, acc, other),
        Type::E5m2 => tiny_float!(E5M2, op, acc, other),
    }
}

pub(super) fn scale(ty: Type, data: &mut [u8], scalar: &Scalar) {
    macro_rules! wrapping {
        ($t:ty) => {{
            let s = <$t>::from_ne_bytes(first(scalar));
            each(data, |a| <$t>::from_ne_bytes(a).wrapping_mul(s).to_ne_bytes())
        }};
    }
    macro_rules! native {
        ($t:ty) => {{
            let s = <$t>::from_ne_bytes(first(scalar));
            each(data, |a| (<$t>::from_ne_bytes(a) * s).to_ne_bytes())
        }};
    }
    macro_rules! narrow {
        ($t:ty) => {{
            let s = <$t>::from_ne_bytes(first(scalar)).to_f32();
            each(data, |a| <$t>::from_f32(<$t>::from_ne_bytes(a).to_f32() * s).to_ne_bytes())
        }};
    }
    match ty {
        Type::I8 => wrapping!(i8),
        Type::U8 => wrapping!(u8),
        Type::I32 => wrapping!(i32),
        Type::U32 => wrapping!(u32),
        Type::I64 => wrapping!(i64),
        Type::U64 => wrapping!(u64),
        Type::F32 => native!(f32),
        Type::F64 => native!(f64),
        Type::F16 => narrow!(f16),
        Type::Bf16 => narrow!(bf16),
        Type::E4m3 => each(data, |[a]| [E4M3.multiply(a, scalar[0])]),
        Type::E5m2 => each(data, |[a]| [E5M2.multiply(a, scalar[0])]),
    }
}

pub(super) fn divide(ty: Type, data: &mut [u8], n: usize) {
    // Wider than the element: 200 ranks do not fit an i8.
    macro_rules! by {
        ($t:ty, $wide:ty) => {
            each(data, |a| ((<$wide>::from(<$t>::from_ne_bytes(a)) / n.max(1) as $wide) as $t).to_ne_bytes())
        };
    }
    match ty {
        Type::I8 => by!(i8, i128),
        Type::U8 => by!(u8, u64),
        Type::I32 => by!(i32, i128),
        Type::U32 => by!(u32, u64),
        Type::I64 => by!(i64, i128),
        Type::U64 => by!(u64, u64),
        Type::F16 | Type::F32 | Type::F64 | Type::Bf16 | Type::E4m3 | Type::E5m2 => {}
    }
}
