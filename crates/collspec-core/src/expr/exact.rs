//! Evaluates an `assert`: whole numbers stay whole as long as an operation's result is whole, so that 64-bit elements and large
//! sums are compared exactly. `/` never drops a fraction here: 7 / 2 is 3.5.
use super::eval::{binary, call, eval_node, whole};
use super::{BinOp, EvalError, Expr, ExprNode, Func, Mode, Scope, Value};
use std::cmp::Ordering;

impl Expr {
    /// The value for an `assert`. The work is bounded by the size of the text.
    ///
    /// # Errors
    ///
    /// A name does not have a value, an index is not a whole number, or arguments are wrong.
    pub fn eval_exact<S: Scope + ?Sized>(&self, scope: &S) -> Result<Value, EvalError> {
        self.node.eval_exact(scope)
    }
}

impl ExprNode {
    /// The value of this part of an `assert`.
    pub fn eval_exact<S: Scope + ?Sized>(&self, scope: &S) -> Result<Value, EvalError> {
        match self {
            Self::Neg(inner) => Ok(match inner.eval_exact(scope)? {
                Value::Int(v) => v.checked_neg().map_or(Value::Float(-(v as f64)), Value::Int),
                Value::Float(v) => Value::Float(-v),
            }),
            Self::Binary(op, left, right) => operation(*op, left.eval_exact(scope)?, right.eval_exact(scope)?),
            Self::Call(Func::If, args) => match args.as_slice() {
                [condition, yes, no] => if condition.eval_exact(scope)?.truth() { yes } else { no }.eval_exact(scope),
                _ => eval_node(self, scope, Mode::Whole),
            },
            Self::Call(func, args) if *func != Func::Same => {
                let values = args.iter().map(|arg| arg.eval_exact(scope)).collect::<Result<Vec<_>, _>>()?;
                function(*func, &values)
            }
            // Leaves, whose values come from the scope; an index is whole in every arithmetic.
            _ => eval_node(self, scope, Mode::Whole),
        }
    }
}

fn operation(op: BinOp, a: Value, b: Value) -> Result<Value, EvalError> {
    let holds = |wanted: fn(Option<Ordering>) -> bool| Ok(Value::Int(wanted(compare(a, b)).into()));
    match op {
        BinOp::Lt => return holds(|order| order == Some(Ordering::Less)),
        BinOp::Le => return holds(|order| matches!(order, Some(Ordering::Less | Ordering::Equal))),
        BinOp::Gt => return holds(|order| order == Some(Ordering::Greater)),
        BinOp::Ge => return holds(|order| matches!(order, Some(Ordering::Greater | Ordering::Equal))),
        BinOp::Eq => return holds(|order| order == Some(Ordering::Equal)),
        BinOp::Ne => return holds(|order| order != Some(Ordering::Equal)),
        BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Pow => {}
    }
    if let (Value::Int(x), Value::Int(y)) = (a, b) {
        let has_fraction = op == BinOp::Div && x.checked_rem(y) != Some(0);
        if !has_fraction && let Some(Ok(value)) = whole(op, x, y) {
            return Ok(value);
        }
    }
    binary(op, Value::Float(a.as_f64()), Value::Float(b.as_f64()))
}

/// A function applied to values that are whole as far as possible.
fn function(func: Func, values: &[Value]) -> Result<Value, EvalError> {
    match (func, values) {
        (Func::Min, [first, rest @ ..]) => Ok(extreme(*first, rest, Ordering::Greater)),
        (Func::Max, [first, rest @ ..]) => Ok(extreme(*first, rest, Ordering::Less)),
        (Func::Abs, [Value::Int(i128::MIN)]) => Ok(Value::Float(-(i128::MIN as f64))),
        // The difference of two whole numbers is exact, and so is its comparison.
        (Func::Close, [Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_), _]) => {
            let [a, b, most] = [values[0], values[1], values[2]].map(whole_if_exact);
            match (a, b) {
                (Value::Int(a), Value::Int(b)) => {
                    let apart = i128::try_from(a.abs_diff(b)).map_or(Value::Float(a.abs_diff(b) as f64), Value::Int);
                    Ok(Value::Int(matches!(compare(apart, most), Some(Ordering::Less | Ordering::Equal)).into()))
                }
                _ => call(func, values, Mode::Float),
            }
        }
        _ => call(func, values, Mode::Float),
    }
}

/// The smallest or greatest of some values: the first one for which no other is `beyond` it. NaN if one is NaN.
fn extreme(first: Value, rest: &[Value], replaced_if: Ordering) -> Value {
    rest.iter().fold(first, |best, value| match compare(best, *value) {
        None => Value::Float(f64::NAN),
        Some(Ordering::Equal) => match (best, *value) {
            // Equal numbers differ in their sign if they are zeros.
            (Value::Float(x), Value::Float(y)) => {
                let order = y.is_sign_negative().cmp(&x.is_sign_negative());
                if order == replaced_if { *value } else { best }
            }
            _ => best,
        },
        Some(order) => {
            if order == replaced_if {
                *value
            } else {
                best
            }
        }
    })
}

/// Converts a float that is a whole number; -0.0 and numbers that do not fit 128 bits stay floats.
fn whole_if_exact(value: Value) -> Value {
    match value {
        Value::Float(v) if v.fract() == 0.0 && v != 0.0 => value.to_int().map_or(value, Value::Int),
        _ => value,
    }
}

/// The order of two numbers, without rounding; `None` if one is NaN.
fn compare(a: Value, b: Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Int(x), Value::Int(y)) => Some(x.cmp(&y)),
        (Value::Float(x), Value::Float(y)) => x.partial_cmp(&y),
        (Value::Int(x), Value::Float(y)) => compare_mixed(x, y),
        (Value::Float(x), Value::Int(y)) => compare_mixed(y, x).map(Ordering::reverse),
    }
}

fn compare_mixed(whole: i128, float: f64) -> Option<Ordering> {
    match Value::Float(float.trunc()).to_int() {
        // The fraction decides between equal whole parts.
        Ok(truncated) => Some(whole.cmp(&truncated).then(0.0.partial_cmp(&float.fract())?)),
        // NaN, or further from zero than any whole number here.
        Err(_) => 0.0.partial_cmp(&float),
    }
}
