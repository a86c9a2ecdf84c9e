//! After how many elements an expression's values repeat.
use super::columns::Code;
use super::{BinOp, Value};

/// Whole numbers below this are exact in f64, and so are their sums and differences while they stay below it.
pub(super) const EXACT: i128 = 1 << 53;

/// A period of the first `count` elements, if one is known: what depends on `i` through remainders of `a * i + b` only has one.
pub(super) fn period(code: &Code, count: i128) -> Option<u64> {
    match code {
        Code::Const(_) => Some(1),
        Code::Element => None,
        Code::Neg(inner) => period(inner, count),
        Code::Binary(BinOp::Rem, a, b) => match (line(a, count), line(b, count)) {
            (Some((slope, _)), Some((0, divisor))) if divisor != 0 => {
                u64::try_from(divisor.abs() / gcd(slope, divisor)).ok()
            }
            _ => common(period(a, count)?, period(b, count)?),
        },
        Code::Binary(_, a, b) => common(period(a, count)?, period(b, count)?),
        Code::If(c, a, b) => common(period(c, count)?, common(period(a, count)?, period(b, count)?)?),
        Code::Call(_, args) => args.iter().try_fold(1, |all, arg| common(all, period(arg, count)?)),
    }
}

/// Slope and start of `slope * i + start`, whole and exact for every `i` below `count` in either arithmetic.
fn line(code: &Code, count: i128) -> Option<(i128, i128)> {
    let (slope, start) = match code {
        Code::Const(Value::Int(v)) => (0, *v),
        Code::Const(Value::Float(v)) if v.fract() == 0.0 && v.abs() < EXACT as f64 => (0, *v as i128),
        Code::Element => (1, 0),
        Code::Neg(inner) => {
            let (slope, start) = line(inner, count)?;
            (-slope, -start)
        }
        Code::Binary(op @ (BinOp::Add | BinOp::Sub), a, b) => {
            let ((a, p), (b, q)) = (line(a, count)?, line(b, count)?);
            if *op == BinOp::Add { (a + b, p + q) } else { (a - b, p - q) }
        }
        Code::Binary(BinOp::Mul, a, b) => match (line(a, count)?, line(b, count)?) {
            ((0, p), (b, q)) => (p * b, p * q),
            ((a, p), (0, q)) => (a * q, p * q),
            _ => return None,
        },
        _ => return None,
    };
    let most = slope.abs().checked_mul(count)?.checked_add(start.checked_abs()?)?;
    (most < EXACT).then_some((slope, start))
}

fn common(a: u64, b: u64) -> Option<u64> {
    (a / gcd(a.into(), b.into()) as u64).checked_mul(b)
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a.max(1)
}
