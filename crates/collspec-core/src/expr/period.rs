//! Finds the number of elements after which an expression's values repeat.
use super::block::CompiledNode;
use super::{BinOp, Value};

/// Whole numbers below this are exact in f64, and so are their sums and differences while they stay below it.
pub(super) const EXACT: i128 = 1 << 53;

/// A period of the first `count` elements, if one is known: an expression has one if it uses `i` only in remainders of
/// `a * i + b`.
pub(super) fn period(code: &CompiledNode, count: i128) -> Option<u64> {
    match code {
        CompiledNode::Const(_) => Some(1),
        CompiledNode::Element | CompiledNode::Input(_) => None,
        CompiledNode::Neg(inner) => period(inner, count),
        CompiledNode::Binary(BinOp::Rem, a, b) => match (linear_form(a, count), linear_form(b, count)) {
            (Some((slope, _)), Some((0, divisor))) if divisor != 0 => {
                u64::try_from(divisor.abs() / gcd(slope, divisor)).ok()
            }
            _ => least_common_multiple(period(a, count)?, period(b, count)?),
        },
        CompiledNode::Binary(_, a, b) => least_common_multiple(period(a, count)?, period(b, count)?),
        CompiledNode::If(c, a, b) => {
            least_common_multiple(period(c, count)?, least_common_multiple(period(a, count)?, period(b, count)?)?)
        }
        CompiledNode::Call(_, args) => {
            args.iter().try_fold(1, |all, arg| least_common_multiple(all, period(arg, count)?))
        }
    }
}

/// Slope and start of `slope * i + start`, whole and exact for every `i` below `count` in either arithmetic.
fn linear_form(code: &CompiledNode, count: i128) -> Option<(i128, i128)> {
    let (slope, start) = match code {
        CompiledNode::Const(Value::Int(v)) => (0, *v),
        CompiledNode::Const(Value::Float(v)) if v.fract() == 0.0 && v.abs() < EXACT as f64 => (0, *v as i128),
        CompiledNode::Element => (1, 0),
        CompiledNode::Neg(inner) => {
            let (slope, start) = linear_form(inner, count)?;
            (-slope, -start)
        }
        CompiledNode::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let ((a, p), (b, q)) = (linear_form(a, count)?, linear_form(b, count)?);
            if *op == BinOp::Add { (a + b, p + q) } else { (a - b, p - q) }
        }
        CompiledNode::Binary(BinOp::Mul, a, b) => match (linear_form(a, count)?, linear_form(b, count)?) {
            ((0, p), (b, q)) => (p * b, p * q),
            ((a, p), (0, q)) => (a * q, p * q),
            _ => return None,
        },
        _ => return None,
    };
    let most = slope.abs().checked_mul(count)?.checked_add(start.checked_abs()?)?;
    (most < EXACT).then_some((slope, start))
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a.into(), b.into()) as u64).checked_mul(b)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
