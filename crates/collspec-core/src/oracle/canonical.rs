//! One fixed member of every admissible set, for snapshots: chain by rank order, each step rounded, products first.
use super::answer::{ColumnReduction, ReduceKind, RightResults};
use super::float::Float;
use super::integer;
use crate::num::{canonical_nan, decode_f64, encode_f64, mask};

impl ColumnReduction {
    /// The bits that a chain by rank order gives, each step rounded, with the scalar applied first. Every NaN is the type's
    /// canonical one; of two admissible zeros max gives +0 and min -0.
    pub fn canonical(&self, column: &[u64]) -> u64 {
        let Some(float) = Float::of(self.dtype) else { return integer::reduce(self, column) };
        if self.is_copy() {
            return column.first().map_or(0, |bits| bits & mask(self.dtype));
        }
        if let ReduceKind::Min | ReduceKind::Max = self.kind {
            return match self.exact(column) {
                Some(RightResults::Bits(bits)) => bits,
                // an infinity of f8e5m2
                Some(RightResults::OneOf(choices)) if choices.iter().any(|c| decode_f64(self.dtype, c.bits) != 0.0) => {
                    choices.first().map_or(0, |c| c.bits)
                }
                Some(RightResults::OneOf(_)) => {
                    encode_f64(self.dtype, if self.kind == ReduceKind::Max { 0.0 } else { -0.0 })
                }
                _ => canonical_nan(self.dtype),
            };
        }
        let scalars = self.scalar_values();
        let leaf = |(rank, bits): (usize, &u64)| {
            let value = decode_f64(self.dtype, *bits);
            scalars.get(rank).map_or(value, |s| float.round(value * s))
        };
        let join = |a: f64, b: f64| float.round(if self.kind == ReduceKind::Prod { a * b } else { a + b });
        let value = column.iter().enumerate().map(leaf).reduce(join).unwrap_or(0.0);
        encode_f64(self.dtype, value)
    }
}
