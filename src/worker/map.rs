//! A `map`: every element of the output from the expression.
use crate::expr::map::{MapInput, map_element};
use crate::expr::{Expr, Value};
use crate::num::{DType, put_element};

/// The bytes of all elements.
///
/// # Errors
///
/// The first element that has no value.
pub fn all(
    expr: &Expr,
    names: &[(String, Value)],
    reads: &[(String, DType)],
    bytes: &[Vec<u8>],
    count: u64,
    dtype: DType,
) -> Result<Vec<u8>, String> {
    let inputs: Vec<_> =
        reads.iter().zip(bytes).map(|((name, dtype), bytes)| MapInput { name, dtype: *dtype, bytes }).collect();
    let mut out = vec![0u8; count as usize * dtype.size()];
    for i in 0..count {
        let bits = map_element(expr, names, &inputs, dtype, i, &|_, _| ())
            .map_err(|error| format!("map `{}`, element {i}: {error}", expr.text))?;
        put_element(dtype, &mut out, i as usize, bits);
    }
    Ok(out)
}
