//! The loops over elements. Elements are read byte-wise, so that no buffer needs an alignment.
//!
//! A macro for each kind of type defines the [`Kernels`] of a type of that kind.
use super::{Combine, Scalar};

/// The arithmetic of one element type.
pub(super) struct Kernels {
    /// Bytes of one element.
    pub size: usize,
    /// `acc[i] = acc[i] (op) other[i]`
    pub combine: fn(Combine, acc: &mut [u8], other: &[u8]),
    /// Multiplies every element by a scalar.
    pub scale: fn(&mut [u8], &Scalar),
    /// Divides every element by a number; floats stay as they are.
    pub divide: fn(&mut [u8], usize),
    /// The nearest element to a number in double and single precision; `None` for integers.
    pub nearest: fn(f64, f32) -> Option<Scalar>,
    /// The value of a scalar; `None` for integers.
    pub value: fn(&Scalar) -> Option<f64>,
}

/// Applies a function of two elements' bytes along two buffers.
pub(super) fn zip<const N: usize>(acc: &mut [u8], other: &[u8], f: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    let (acc, _) = acc.as_chunks_mut::<N>();
    let (other, _) = other.as_chunks::<N>();
    for (a, b) in acc.iter_mut().zip(other) {
        *a = f(*a, *b);
    }
}

/// Applies a function of one element's bytes along a buffer.
pub(super) fn each<const N: usize>(data: &mut [u8], f: impl Fn([u8; N]) -> [u8; N]) {
    let (data, _) = data.as_chunks_mut::<N>();
    for a in data {
        *a = f(*a);
    }
}

/// The first bytes of a scalar.
pub(super) fn first<const N: usize>(scalar: &Scalar) -> [u8; N] {
    std::array::from_fn(|i| scalar.get(i).copied().unwrap_or(0))
}

/// A scalar whose first bytes are these.
pub(super) fn scalar_of<const N: usize>(bytes: [u8; N]) -> Scalar {
    std::array::from_fn(|i| bytes.get(i).copied().unwrap_or(0))
}

/// True if `$y` replaces `$x` as the greater number: a NaN loses against a number, and 0 is greater than -0, as on a GPU.
macro_rules! is_greater {
    ($y:expr, $x:expr) => {{
        let (x, y) = ($x, $y);
        x.is_nan() || y > x || (y == x && x.is_sign_negative())
    }};
}
pub(super) use is_greater;

/// Integers, which wrap around; averages divide in a wider type, because 200 ranks do not fit an i8.
macro_rules! integer {
    ($t:ty) => {{
        use $crate::arith::kernels::{Kernels, each, first, zip};
        const N: usize = size_of::<$t>();
        fn v(bytes: [u8; N]) -> $t {
            <$t>::from_ne_bytes(bytes)
        }
        Kernels {
            size: N,
            combine: |op, acc, other| match op {
                Combine::Sum => zip::<N>(acc, other, |a, b| v(a).wrapping_add(v(b)).to_ne_bytes()),
                Combine::Prod => zip::<N>(acc, other, |a, b| v(a).wrapping_mul(v(b)).to_ne_bytes()),
                Combine::Max => zip::<N>(acc, other, |a, b| v(a).max(v(b)).to_ne_bytes()),
                Combine::Min => zip::<N>(acc, other, |a, b| v(a).min(v(b)).to_ne_bytes()),
            },
            scale: |data, scalar| {
                let s = v(first(scalar));
                each::<N>(data, |a| v(a).wrapping_mul(s).to_ne_bytes());
            },
            divide: |data, n| each::<N>(data, |a| ((i128::from(v(a)) / n.max(1) as i128) as $t).to_ne_bytes()),
            nearest: |_, _| None,
            value: |_| None,
        }
    }};
}

/// Floats that the processor adds and multiplies.
macro_rules! native {
    ($t:ty) => {{
        use $crate::arith::kernels::{Kernels, each, first, is_greater, scalar_of, zip};
        const N: usize = size_of::<$t>();
        fn v(bytes: [u8; N]) -> $t {
            <$t>::from_ne_bytes(bytes)
        }
        Kernels {
            size: N,
            combine: |op, acc, other| match op {
                Combine::Sum => zip::<N>(acc, other, |a, b| (v(a) + v(b)).to_ne_bytes()),
                Combine::Prod => zip::<N>(acc, other, |a, b| (v(a) * v(b)).to_ne_bytes()),
                Combine::Max => zip::<N>(acc, other, |a, b| if is_greater!(v(b), v(a)) { b } else { a }),
                Combine::Min => zip::<N>(acc, other, |a, b| if is_greater!(-v(b), -v(a)) { b } else { a }),
            },
            scale: |data, scalar| {
                let s = v(first(scalar));
                each::<N>(data, |a| (v(a) * s).to_ne_bytes());
            },
            divide: |_, _| {},
            nearest: |double, single| {
                let value = if N == 8 { double as $t } else { single as $t };
                Some(scalar_of(value.to_ne_bytes()))
            },
            value: |scalar| Some(f64::from(v(first(scalar)))),
        }
    }};
}

/// Floats of 16 bits. One step in single precision and one rounding give the correctly rounded result of a sum or product:
/// single precision has more than twice as many digits.
macro_rules! narrow {
    ($t:ty) => {{
        use $crate::arith::kernels::{Kernels, each, first, is_greater, scalar_of, zip};
        fn v(bytes: [u8; 2]) -> f32 {
            <$t>::from_ne_bytes(bytes).to_f32()
        }
        Kernels {
            size: 2,
            combine: |op, acc, other| match op {
                Combine::Sum => zip::<2>(acc, other, |a, b| <$t>::from_f32(v(a) + v(b)).to_ne_bytes()),
                Combine::Prod => zip::<2>(acc, other, |a, b| <$t>::from_f32(v(a) * v(b)).to_ne_bytes()),
                Combine::Max => zip::<2>(acc, other, |a, b| if is_greater!(v(b), v(a)) { b } else { a }),
                Combine::Min => zip::<2>(acc, other, |a, b| if is_greater!(-v(b), -v(a)) { b } else { a }),
            },
            scale: |data, scalar| {
                let s = v(first(scalar));
                each::<2>(data, |a| <$t>::from_f32(v(a) * s).to_ne_bytes());
            },
            divide: |_, _| {},
            nearest: |_, single| Some(scalar_of(<$t>::from_f32(single).to_ne_bytes())),
            value: |scalar| Some(f64::from(v(first(scalar)))),
        }
    }};
}

/// Floats of 8 bits, by tables.
macro_rules! tiny {
    ($format:expr) => {{
        use $crate::arith::kernels::{Kernels, each, scalar_of, zip};
        Kernels {
            size: 1,
            combine: |op, acc, other| match op {
                Combine::Sum => zip::<1>(acc, other, |[a], [b]| [$format.add(a, b)]),
                Combine::Prod => zip::<1>(acc, other, |[a], [b]| [$format.multiply(a, b)]),
                Combine::Max => zip::<1>(acc, other, |[a], [b]| [$format.max(a, b)]),
                Combine::Min => zip::<1>(acc, other, |[a], [b]| [$format.min(a, b)]),
            },
            scale: |data, scalar| {
                let [s, ..] = *scalar;
                each(data, |[a]| [$format.multiply(a, s)]);
            },
            divide: |_, _| {},
            nearest: |_, single| Some(scalar_of([$format.encode(single)])),
            value: |scalar| Some(f64::from($format.decode(scalar[0]))),
        }
    }};
}

pub(super) use {integer, narrow, native, tiny};
