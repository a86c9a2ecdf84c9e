//! Integer reductions: one answer in any order. Sums and products wrap; avg is the wrapped sum over the number of ranks,
//! towards zero; min and max compare by the sign of the type (NCCL's src/device/reduce_kernel.h).
use super::answer::{ColumnReduction, ReduceKind};
use crate::num::{DType, Number, decode, encode_int, mask};

/// The result's bits for one column.
pub(super) fn reduce(reduction: &ColumnReduction, column: &[u64]) -> u64 {
    let dtype = reduction.dtype;
    let value = |bits: u64| match decode(dtype, bits) {
        Number::Int(v) => v,
        Number::Float(_) => 0,
    };
    let sum = || column.iter().fold(0u64, |sum, v| sum.wrapping_add(*v)) & mask(dtype);
    match &reduction.kind {
        ReduceKind::Sum => sum(),
        ReduceKind::Prod => column.iter().fold(1u64, |product, v| product.wrapping_mul(*v)) & mask(dtype),
        ReduceKind::Min => column.iter().copied().min_by_key(|v| value(*v)).unwrap_or(0),
        ReduceKind::Max => column.iter().copied().max_by_key(|v| value(*v)).unwrap_or(0),
        ReduceKind::Avg => encode_int(dtype, value(sum()) / reduction.ranks.max(1) as i128),
        ReduceKind::PreMulSum { scalars } => {
            column.iter().zip(scalars).fold(0u64, |sum, (v, s)| sum.wrapping_add(v.wrapping_mul(*s))) & mask(dtype)
        }
    }
}

/// The result of whole buffers of equal length.
pub(super) fn reduce_buffers(reduction: &ColumnReduction, inputs: &[&[u8]]) -> Option<Vec<u8>> {
    Some(match reduction.dtype {
        DType::I8 => buffers::<i8, 1>(reduction, inputs),
        DType::U8 => buffers::<u8, 1>(reduction, inputs),
        DType::I32 => buffers::<i32, 4>(reduction, inputs),
        DType::U32 => buffers::<u32, 4>(reduction, inputs),
        DType::I64 => buffers::<i64, 8>(reduction, inputs),
        DType::U64 => buffers::<u64, 8>(reduction, inputs),
        _ => return None,
    })
}

/// The wrapping arithmetic of a machine integer.
trait WrappingInt<const SIZE: usize>: Copy + Ord {
    fn read(bytes: [u8; SIZE]) -> Self;
    fn write(self) -> [u8; SIZE];
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn divide(self, ranks: i128) -> Self;
    fn from_low_bits(bits: u64) -> Self;
}

macro_rules! int {
    ($($t:ty: $size:literal),*) => {$(
        impl WrappingInt<$size> for $t {
            fn read(bytes: [u8; $size]) -> Self {
                Self::from_le_bytes(bytes)
            }
            fn write(self) -> [u8; $size] {
                self.to_le_bytes()
            }
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn divide(self, ranks: i128) -> Self {
                // The quotient is not larger than the value, so it fits.
                (i128::from(self) / ranks) as Self
            }
            fn from_low_bits(bits: u64) -> Self {
                bits as Self
            }
        }
    )*};
}
int!(i8: 1, u8: 1, i32: 4, u32: 4, i64: 8, u64: 8);

fn buffers<T: WrappingInt<SIZE>, const SIZE: usize>(reduction: &ColumnReduction, inputs: &[&[u8]]) -> Vec<u8> {
    let elements = |input: &[u8]| -> Vec<T> { input.as_chunks::<SIZE>().0.iter().map(|b| T::read(*b)).collect() };
    let Some((first, rest)) = inputs.split_first() else { return Vec::new() };
    let mut out = elements(first);
    let mut join = |op: fn(T, T) -> T| {
        for input in rest {
            for (o, bytes) in out.iter_mut().zip(input.as_chunks::<SIZE>().0) {
                *o = op(*o, T::read(*bytes));
            }
        }
    };
    match &reduction.kind {
        ReduceKind::Sum | ReduceKind::Avg => join(T::add),
        ReduceKind::Prod => join(T::mul),
        ReduceKind::Min => join(T::min),
        ReduceKind::Max => join(T::max),
        ReduceKind::PreMulSum { scalars } => {
            out.fill(T::from_low_bits(0));
            for (input, scalar) in inputs.iter().zip(scalars) {
                for (o, bytes) in out.iter_mut().zip(input.as_chunks::<SIZE>().0) {
                    *o = o.add(T::read(*bytes).mul(T::from_low_bits(*scalar)));
                }
            }
        }
    }
    if reduction.kind == ReduceKind::Avg {
        let ranks = reduction.ranks.max(1) as i128;
        out.iter_mut().for_each(|v| *v = v.divide(ranks));
    }
    out.into_iter().flat_map(T::write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(dtype: DType, kind: ReduceKind, values: &[i128]) -> i128 {
        let reduction = ColumnReduction { dtype, kind, ranks: values.len() };
        let column: Vec<u64> = values.iter().map(|v| encode_int(dtype, *v)).collect();
        let bits = reduce(&reduction, &column);
        let bytes: Vec<Vec<u8>> = column.iter().map(|v| v.to_le_bytes()[..dtype.size()].to_vec()).collect();
        let inputs: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let whole = reduce_buffers(&reduction, &inputs).unwrap();
        assert_eq!(crate::num::get_element(dtype, &whole, 0), bits, "buffers and columns agree");
        match decode(dtype, bits) {
            Number::Int(v) => v,
            Number::Float(_) => unreachable!(),
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(run(DType::I8, ReduceKind::Sum, &[100, 100]), -56);
        assert_eq!(run(DType::U8, ReduceKind::Prod, &[16, 17]), 16);
        assert_eq!(run(DType::I32, ReduceKind::Sum, &[i32::MAX.into(), 1]), i32::MIN.into());
        assert_eq!(run(DType::U64, ReduceKind::Sum, &[u64::MAX.into(), 3]), 2);
        assert_eq!(run(DType::I64, ReduceKind::Prod, &[i64::MIN.into(), -1]), i64::MIN.into());
    }

    #[test]
    fn avg_divides_the_wrapped_sum_towards_zero() {
        assert_eq!(run(DType::I32, ReduceKind::Avg, &[-3, -4]), -3);
        assert_eq!(run(DType::I8, ReduceKind::Avg, &[100, 100, 1]), -18);
        assert_eq!(run(DType::U8, ReduceKind::Avg, &[200, 200]), 72);
        assert_eq!(run(DType::I32, ReduceKind::Avg, &[7]), 7);
    }

    #[test]
    fn order_is_by_the_sign_of_the_type() {
        assert_eq!(run(DType::I8, ReduceKind::Min, &[1, -1]), -1);
        assert_eq!(run(DType::U8, ReduceKind::Min, &[1, 255]), 1);
        assert_eq!(run(DType::I64, ReduceKind::Max, &[i64::MIN.into(), -2]), -2);
        assert_eq!(run(DType::U64, ReduceKind::Max, &[1 << 63, 5]), 1 << 63);
        assert_eq!(run(DType::I8, ReduceKind::PreMulSum { scalars: vec![2, 255] }, &[100, 3]), -59);
    }
}
