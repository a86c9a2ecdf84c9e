//! Evaluates one element of a `map`, for the worker and for the oracle.
use super::{EvalError, Expr, Mode, Scope, Value};
use crate::num::{DType, Number, decode, encode_f64, encode_int, get_element};

/// A buffer that a map reads.
#[derive(Clone, Copy, Debug)]
pub struct MapInput<'a> {
    /// Its name in the expression.
    pub name: &'a str,
    /// Element type.
    pub dtype: DType,
    /// All its bytes.
    pub bytes: &'a [u8],
}

impl MapInput<'_> {
    /// Number of elements.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }
}

/// The bits of element `i` of a map's output. `watch` is called for every element that is read, with input and index.
///
/// # Errors
///
/// As [`expr_bits`].
pub fn map_element(
    expr: &Expr,
    names: &[(String, Value)],
    inputs: &[MapInput<'_>],
    dtype: DType,
    i: u64,
    watch: &dyn Fn(usize, usize),
) -> Result<u64, EvalError> {
    expr_bits(dtype, expr, &ElementScope { names, inputs, i, watch })
}

/// The bits of the element that an expression gives: computed in whole numbers for integer types and wrapped, else in f64
/// and rounded.
///
/// # Errors
///
/// As [`Expr::eval`] and [`value_bits`].
pub fn expr_bits<S: Scope + ?Sized>(dtype: DType, expr: &Expr, scope: &S) -> Result<u64, EvalError> {
    let value = if dtype.is_float() { expr.eval(scope, Mode::Float)? } else { expr.eval_wrapping(scope)? };
    value_bits(dtype, value)
}

/// The bits of a computed value: wrapped or rounded.
///
/// # Errors
///
/// NaN and infinities where the type is of integers: they are no whole number.
pub fn value_bits(dtype: DType, value: Value) -> Result<u64, EvalError> {
    match value {
        Value::Int(v) => Ok(encode_int(dtype, v)),
        Value::Float(v) if dtype.is_float() || v.is_finite() => Ok(encode_f64(dtype, v)),
        Value::Float(_) => value.to_int().map(|v| encode_int(dtype, v)),
    }
}

/// An element as a value of expressions.
pub fn element_value(dtype: DType, bits: u64) -> Value {
    match decode(dtype, bits) {
        Number::Int(v) => Value::Int(v),
        Number::Float(v) => Value::Float(v),
    }
}

struct ElementScope<'a> {
    names: &'a [(String, Value)],
    inputs: &'a [MapInput<'a>],
    i: u64,
    watch: &'a dyn Fn(usize, usize),
}

impl Scope for ElementScope<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        if name == "i" {
            return Ok(Value::Int(self.i.into()));
        }
        if let Some((_, value)) = self.names.iter().find(|(n, _)| n == name) {
            return Ok(*value);
        }
        self.element(name, self.i.into())
    }

    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let found = self.inputs.iter().enumerate().find(|(_, input)| input.name == buffer);
        let Some((number, input)) = found else { return Err(EvalError(format!("`{buffer}` has no value here"))) };
        let count = input.count();
        match usize::try_from(index) {
            Ok(k) if k < count => {
                (self.watch)(number, k);
                Ok(element_value(input.dtype, get_element(input.dtype, input.bytes, k)))
            }
            _ => Err(EvalError(format!("`{buffer}[{index}]` is outside the buffer, which has {count} elements"))),
        }
    }
}
