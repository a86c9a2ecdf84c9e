//! Elements that an expression of `i` gives: one period of them if they repeat, blocks of them otherwise.
use super::eval::{Names, evaluate};
use super::inputs::{encode, mode};
use crate::num::{DType, encode_f64, encode_int, put, put_all, repeat};
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
    match column {
        // Integers wrap: the low bytes are the element.
        Column::Whole(values) if !dtype.is_float() => put_all(dtype, bytes, values.iter().map(|v| *v as u64)),
        Column::Whole(values) => put_all(dtype, bytes, values.iter().map(|v| encode_int(dtype, (*v).into()))),
        Column::Float(values) => put_all(dtype, bytes, values.iter().map(|v| encode_f64(dtype, *v))),
    }
}
