//! Evaluates elements of integer types. They hold the low bits of a number, and the low bits of the result of `+ - * ^` follow from those
//! of the operands, so intermediate results may exceed the 128 bits of [`Mode::Whole`].
use super::eval::{binary, eval_node};
use super::{BinOp, EvalError, Expr, ExprNode, Func, Mode, Scope, Value};

/// An intermediate result of wrapping arithmetic.
#[derive(Clone, Copy)]
enum WrappedNumber {
    /// The value, known exactly.
    Exact(Value),
    /// The low 128 bits of a whole number that does not fit them.
    Low(i128),
}

use WrappedNumber::{Exact, Low};

impl Expr {
    /// The value for an element of an integer type: a whole number is right in its low 128 bits, however large it is. The
    /// work is bounded by the size of the text.
    ///
    /// # Errors
    ///
    /// As [`Expr::eval`]; a number beyond 128 bits is one only where an operation needs all of it: `/`, `%`, a
    /// comparison, a function, an index, floating point.
    pub fn eval_wrapping<S: Scope + ?Sized>(&self, scope: &S) -> Result<Value, EvalError> {
        Ok(match number(&self.node, scope)? {
            Exact(value) => value,
            Low(bits) => Value::Int(bits),
        })
    }
}

fn number<S: Scope + ?Sized>(n: &ExprNode, scope: &S) -> Result<WrappedNumber, EvalError> {
    match n {
        ExprNode::Neg(inner) => Ok(match number(inner, scope)? {
            Exact(Value::Int(v)) => v.checked_neg().map_or(Low(v), |v| Exact(Value::Int(v))),
            Exact(Value::Float(v)) => Exact(Value::Float(-v)),
            Low(bits) => Low(bits.wrapping_neg()),
        }),
        ExprNode::Binary(op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Pow), a, b) => {
            ring(*op, number(a, scope)?, number(b, scope)?)
        }
        ExprNode::Call(Func::If, args) => match args.as_slice() {
            [condition, yes, no] => {
                number(if eval_node(condition, scope, Mode::Whole)?.truth() { yes } else { no }, scope)
            }
            _ => eval_node(n, scope, Mode::Whole).map(Exact),
        },
        _ => eval_node(n, scope, Mode::Whole).map(Exact),
    }
}

/// Operations whose low bits follow from the low bits of their operands.
fn ring(op: BinOp, a: WrappedNumber, b: WrappedNumber) -> Result<WrappedNumber, EvalError> {
    let (x, y) = match (a, b) {
        (Exact(a), Exact(b)) => match (binary(op, a, b), a, b) {
            (Err(_), Value::Int(x), Value::Int(y)) if op != BinOp::Pow || y >= 0 => (x, y),
            (result, ..) => return result.map(Exact),
        },
        (Exact(Value::Int(x)) | Low(x), Exact(Value::Int(y)) | Low(y)) => (x, y),
        (Exact(Value::Float(_)), _) | (_, Exact(Value::Float(_))) => return Err(beyond()),
    };
    Ok(Low(match op {
        BinOp::Add => x.wrapping_add(y),
        BinOp::Sub => x.wrapping_sub(y),
        BinOp::Mul => x.wrapping_mul(y),
        // The exponent is needed in full: its low bits alone do not determine the result, and a negative one needs the whole base.
        BinOp::Pow if matches!(b, Exact(_)) && y >= 0 => power(x, y),
        _ => return Err(beyond()),
    }))
}

fn beyond() -> EvalError {
    EvalError("a number that does not fit 128 bits is needed in full here".into())
}

/// The low bits of a power, by squaring.
fn power(mut base: i128, mut exponent: i128) -> i128 {
    let mut result = 1i128;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}
