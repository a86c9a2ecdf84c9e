//! Elements that an expression of `i` gives: one period of them if they repeat, blocks of them otherwise.
use super::eval::{Names, evaluate};
use super::inputs::{encode, mode};
use crate::num::{DType, encode_f64, put, repeat};
use crate::scenario::expr::{BLOCK, Column, Columns};
use crate::scenario::{Diagnostic, Expr, Span};

/// Fills the bytes with the elements from the first on.
///
/// # Errors
///
/// The first element that has no value.
pub fn fill(expr: &Expr, span: Span, mut names: Names, dtype: DType, bytes: &mut [u8]) -> Result<(), Diagnostic> {
    let (size, mode) = (dtype.size(), mode(dtype));
    let count = bytes.len() / size;
    let columns = Columns::new(expr, &names, mode);
    let period = columns.as_ref().and_then(|c| c.period(count as u64)).and_then(|p| usize::try_from(p).ok());
    let computed = period.unwrap_or(count).min(count);
    for from in (0..computed).step_by(BLOCK) {
        let len = BLOCK.min(computed - from);
        let block = &mut bytes[from * size..(from + len) * size];
        match columns.as_ref().and_then(|c| c.block(from as u64, len)) {
            Some(column) => write(dtype, &column, block),
            None => {
                for k in 0..len {
                    names.i = Some((from + k) as u64);
                    put(dtype, block, k, encode(dtype, evaluate(expr, span, &names, mode)?));
                }
            }
        }
    }
    repeat(bytes, computed * size);
    Ok(())
}

fn write(dtype: DType, column: &Column, bytes: &mut [u8]) {
    let places = bytes.chunks_exact_mut(dtype.size());
    match column {
        // Integers wrap: the low bytes are the element.
        Column::Whole(values) if !dtype.is_float() => {
            places.zip(values).for_each(|(place, v)| place.copy_from_slice(&v.to_le_bytes()[..place.len()]));
        }
        Column::Whole(values) => {
            places.zip(values).for_each(|(place, v)| {
                place.copy_from_slice(&crate::num::encode_int(dtype, (*v).into()).to_le_bytes()[..place.len()]);
            });
        }
        Column::Float(values) => {
            places.zip(values).for_each(|(place, v)| {
                place.copy_from_slice(&encode_f64(dtype, *v).to_le_bytes()[..place.len()]);
            });
        }
    }
}
