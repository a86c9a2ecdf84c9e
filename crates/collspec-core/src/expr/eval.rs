//! Evaluates expressions.
use super::{BinOp, EvalError, Expr, ExprNode, Func, Scope, Value};

/// The arithmetic of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Operations on whole numbers give whole numbers.
    Whole,
    /// Everything is f64, except indices.
    Float,
}

impl Value {
    /// The value as f64, rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Int(v) => v as f64,
            Self::Float(v) => v,
        }
    }

    /// The value as a whole number, where an expression is used as one.
    ///
    /// # Errors
    ///
    /// The value is not whole, NaN, an infinity, or a number that does not fit 128 bits.
    pub fn to_int(self) -> Result<i128, EvalError> {
        match self {
            Self::Int(v) => Ok(v),
            Self::Float(v) if v.is_nan() => Err(EvalError("not a number, but a whole number is needed".into())),
            Self::Float(v) if v.is_infinite() => Err(EvalError("infinite, but a whole number is needed".into())),
            Self::Float(v) if !(-I128_EDGE..I128_EDGE).contains(&v) => {
                Err(EvalError(format!("{v:e} does not fit 128 bits")))
            }
            Self::Float(v) if v.fract() != 0.0 => {
                Err(EvalError(format!("{v:?} is not whole, but a whole number is needed")))
            }
            Self::Float(v) => Ok(v as i128),
        }
    }

    /// True unless the value is zero.
    pub fn truth(self) -> bool {
        match self {
            Self::Int(v) => v != 0,
            Self::Float(v) => v != 0.0,
        }
    }

    /// True unless the value is zero; a NaN is neither true nor false.
    ///
    /// # Errors
    ///
    /// The value is a NaN.
    pub fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Self::Float(v) if v.is_nan() => Err(EvalError("not a number, but true or false is needed".into())),
            _ => Ok(self.truth()),
        }
    }
}

/// 2^127, exact in f64.
const I128_EDGE: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

impl Expr {
    /// The value in a scope. The work is bounded by the size of the text.
    ///
    /// # Errors
    ///
    /// A name without a value, an operation without a result (such as a division by zero of whole numbers), or wrong arguments.
    pub fn eval<S: Scope + ?Sized>(&self, scope: &S, mode: Mode) -> Result<Value, EvalError> {
        let value = eval_node(&self.node, scope, mode)?;
        Ok(if mode == Mode::Float { Value::Float(value.as_f64()) } else { value })
    }

    /// The value as a whole number.
    pub fn eval_int<S: Scope + ?Sized>(&self, scope: &S) -> Result<i128, EvalError> {
        self.eval(scope, Mode::Whole)?.to_int()
    }
}

impl ExprNode {
    /// The value of this part of an expression.
    pub fn eval<S: Scope + ?Sized>(&self, scope: &S, mode: Mode) -> Result<Value, EvalError> {
        eval_node(self, scope, mode)
    }
}

pub(super) fn eval_node<S: Scope + ?Sized>(n: &ExprNode, scope: &S, mode: Mode) -> Result<Value, EvalError> {
    match n {
        ExprNode::Int(v) => Ok(convert_to_mode(Value::Int(*v), mode)),
        ExprNode::Float(v) => Ok(Value::Float(*v)),
        ExprNode::Name(name) => Ok(convert_to_mode(scope.name(name)?, mode)),
        ExprNode::Index(buffer, index) => {
            let k = eval_node(index, scope, Mode::Whole)?.to_int()?;
            Ok(convert_to_mode(scope.element(buffer, k)?, mode))
        }
        ExprNode::Field(step, field) => Ok(convert_to_mode(scope.field(step, field)?, mode)),
        ExprNode::Neg(inner) => match eval_node(inner, scope, mode)? {
            Value::Int(v) => v.checked_neg().map(Value::Int).ok_or_else(|| overflow("-", None)),
            Value::Float(v) => Ok(Value::Float(-v)),
        },
        ExprNode::Binary(op, left, right) => {
            let (a, b) = (eval_node(left, scope, mode)?, eval_node(right, scope, mode)?);
            Ok(convert_to_mode(binary(*op, a, b)?, mode))
        }
        ExprNode::Call(Func::If, args) => match args.as_slice() {
            [condition, yes, no] => {
                let branch = if eval_node(condition, scope, mode)?.truth() { yes } else { no };
                eval_node(branch, scope, mode)
            }
            _ => Err(arguments(Func::If)),
        },
        ExprNode::Call(Func::Same, args) => match args.as_slice() {
            [ExprNode::Name(a), ExprNode::Name(b)] => Ok(convert_to_mode(Value::Int(scope.same(a, b)?.into()), mode)),
            _ => Err(arguments(Func::Same)),
        },
        ExprNode::Call(func, args) => {
            let values = args.iter().map(|a| eval_node(a, scope, mode)).collect::<Result<Vec<_>, _>>()?;
            Ok(convert_to_mode(call(*func, &values, mode)?, mode))
        }
    }
}

/// The value in this arithmetic: in floating point, whole numbers become f64 at once.
pub(super) fn convert_to_mode(value: Value, mode: Mode) -> Value {
    if mode == Mode::Float { Value::Float(value.as_f64()) } else { value }
}

pub(super) fn binary(op: BinOp, a: Value, b: Value) -> Result<Value, EvalError> {
    use std::cmp::Ordering::{Equal, Greater, Less};
    if let (Value::Int(x), Value::Int(y)) = (a, b)
        && let Some(result) = whole(op, x, y)
    {
        return result;
    }
    let order = match (a, b) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(&y)),
        _ => a.as_f64().partial_cmp(&b.as_f64()),
    };
    let (x, y) = (a.as_f64(), b.as_f64());
    Ok(match op {
        BinOp::Add => Value::Float(x + y),
        BinOp::Sub => Value::Float(x - y),
        BinOp::Mul => Value::Float(x * y),
        BinOp::Div => Value::Float(x / y),
        BinOp::Rem => Value::Float(remainder(x, y)),
        BinOp::Pow => Value::Float(libm::pow(x, y)),
        BinOp::Lt => truth(order == Some(Less)),
        BinOp::Le => truth(matches!(order, Some(Less | Equal))),
        BinOp::Gt => truth(order == Some(Greater)),
        BinOp::Ge => truth(matches!(order, Some(Greater | Equal))),
        BinOp::Eq => truth(order == Some(Equal)),
        BinOp::Ne => truth(order != Some(Equal)),
    })
}

fn truth(b: bool) -> Value {
    Value::Int(b.into())
}

/// An operation on whole numbers; `None` for comparisons and negative powers.
pub(super) fn whole(op: BinOp, x: i128, y: i128) -> Option<Result<Value, EvalError>> {
    let by_zero = || Err(EvalError(format!("division of {x} by zero")));
    let checked = |v: Option<i128>, sign| v.map(Value::Int).ok_or_else(|| overflow(sign, Some((x, y))));
    Some(match op {
        BinOp::Add => checked(x.checked_add(y), "+"),
        BinOp::Sub => checked(x.checked_sub(y), "-"),
        BinOp::Mul => checked(x.checked_mul(y), "*"),
        BinOp::Div | BinOp::Rem if y == 0 => by_zero(),
        BinOp::Div => checked(x.checked_div(y), "/"),
        // The remainder takes the divisor's sign: one more divisor where the signs differ.
        BinOp::Rem => match x.checked_rem(y) {
            None => Ok(Value::Int(0)),
            Some(r) if r != 0 && (r < 0) != (y < 0) => Ok(Value::Int(r + y)),
            Some(r) => Ok(Value::Int(r)),
        },
        BinOp::Pow if y < 0 => {
            if x == 0 {
                return Some(by_zero());
            }
            return None;
        }
        BinOp::Pow => match (x, u32::try_from(y)) {
            (0 | 1, _) => Ok(Value::Int(if y == 0 { 1 } else { x })),
            (-1, _) => Ok(Value::Int(if y % 2 == 0 { 1 } else { -1 })),
            (_, Ok(e)) => checked(x.checked_pow(e), "^"),
            (_, Err(_)) => Err(overflow("^", Some((x, y)))),
        },
        _ => return None,
    })
}

/// 2^53: whole numbers below it are exact in f64.
const EXACT: f64 = 9_007_199_254_740_992.0;

pub(super) fn remainder(x: f64, y: f64) -> f64 {
    let whole = |v: f64| v.abs() < EXACT && v as i64 as f64 == v;
    // Of whole numbers a division gives the same as the long one of `fmod`.
    let r = if whole(x) && whole(y) && y != 0.0 { (x as i64 % y as i64) as f64 } else { libm::fmod(x, y) };
    if r == 0.0 {
        return libm::copysign(0.0, y);
    }
    if (r < 0.0) != (y < 0.0) { r + y } else { r }
}

pub(super) fn call(func: Func, values: &[Value], mode: Mode) -> Result<Value, EvalError> {
    let [first, rest @ ..] = values else { return Err(arguments(func)) };
    let x = first.as_f64();
    Ok(match func {
        Func::Min => rest.iter().fold(*first, |a, b| min_or_max(a, *b, |o| o.is_gt())),
        Func::Max => rest.iter().fold(*first, |a, b| min_or_max(a, *b, |o| o.is_lt())),
        Func::Abs => match first {
            Value::Int(v) => Value::Int(v.checked_abs().ok_or_else(|| overflow("abs", None))?),
            Value::Float(v) => Value::Float(libm::fabs(*v)),
        },
        Func::Floor => round(*first, libm::floor, mode),
        Func::Ceil => round(*first, libm::ceil, mode),
        Func::Sqrt => Value::Float(libm::sqrt(x)),
        Func::Exp => Value::Float(libm::exp(x)),
        Func::Ln => Value::Float(libm::log(x)),
        Func::Log2 => Value::Float(libm::log2(x)),
        Func::Sin => Value::Float(libm::sin(x)),
        Func::Cos => Value::Float(libm::cos(x)),
        Func::Close => match rest {
            [b, tolerance] => truth(is_close(*first, *b, *tolerance)),
            _ => return Err(arguments(func)),
        },
        Func::If | Func::Same => return Err(arguments(func)),
    })
}

/// The smaller or greater of two values, -0.0 below 0.0; NaN if one is NaN.
fn min_or_max(a: Value, b: Value, take_b: fn(std::cmp::Ordering) -> bool) -> Value {
    if let (Value::Int(x), Value::Int(y)) = (a, b) {
        return if take_b(x.cmp(&y)) { b } else { a };
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    match x.partial_cmp(&y) {
        None => Value::Float(f64::NAN),
        Some(o) => {
            // Equal numbers differ in their sign if they are zeros.
            let o = o.then(y.is_sign_negative().cmp(&x.is_sign_negative()));
            Value::Float(if take_b(o) { y } else { x })
        }
    }
}

/// True if two numbers differ by at most the tolerance. A tolerance that is relative to an infinite result is infinite: an
/// infinity is close only to itself, so that such an assert does not hold for everything.
fn is_close(a: Value, b: Value, tolerance: Value) -> bool {
    let (x, y, most) = (a.as_f64(), b.as_f64(), tolerance.as_f64());
    if x.is_infinite() || y.is_infinite() {
        return x == y && most >= 0.0;
    }
    match (a, b, tolerance) {
        (Value::Int(a), Value::Int(b), Value::Int(most)) => {
            u128::try_from(most).is_ok_and(|most| a.abs_diff(b) <= most)
        }
        (Value::Int(a), Value::Int(b), Value::Float(most)) => a.abs_diff(b) as f64 <= most,
        _ => (x - y).abs() <= most,
    }
}

/// In whole numbers a rounded number becomes whole if it fits. In floating point it stays a float, because a whole number
/// would lose the sign of -0.0.
fn round(value: Value, f: fn(f64) -> f64, mode: Mode) -> Value {
    let Value::Float(v) = value else { return value };
    let r = Value::Float(f(v));
    match mode {
        Mode::Float => r,
        Mode::Whole => r.to_int().map_or(r, Value::Int),
    }
}

fn arguments(func: Func) -> EvalError {
    EvalError(format!("`{}` has the wrong arguments", func.name()))
}

fn overflow(sign: &str, operands: Option<(i128, i128)>) -> EvalError {
    EvalError(match operands {
        Some((x, y)) => format!("{x} {sign} {y} does not fit 128 bits"),
        None => format!("`{sign}` of the least number does not fit 128 bits"),
    })
}
