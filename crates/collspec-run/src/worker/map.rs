//! A `map`: every element of the output from the expression.
use collspec_core::expr::map::{BlockMap, MapInput, map_element};
use collspec_core::expr::{BLOCK, Expr, Value};
use collspec_core::num::{DType, put_element};

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
    let blocks = BlockMap::new(expr, names, &inputs, dtype);
    let mut from = 0;
    for bytes in out.chunks_mut(BLOCK * dtype.size()) {
        let len = (bytes.len() / dtype.size()) as u64;
        if !blocks.as_ref().is_some_and(|blocks| blocks.put(&inputs, from, bytes)) {
            for i in from..from + len {
                let bits = map_element(expr, names, &inputs, dtype, i, &|_, _| ())
                    .map_err(|error| format!("map `{}`, element {i}: {error}", expr.text))?;
                put_element(dtype, bytes, (i - from) as usize, bits);
            }
        }
        from += len;
    }
    Ok(out)
}
