//! Results of arithmetic that follows a wrong rule, for two elements or for an element and a scalar.
use super::value::{self, Format, Overflow, Rounding, Value};
use crate::element::{Operator, Type};

/// A way of computing that is wrong for some values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A subnormal result becomes zero.
    ResultsFlushed,
    /// A subnormal input counts as zero.
    InputsFlushed,
    /// Inputs and result are rounded to another format.
    Through(OtherFormat),
    /// The bits are interpreted in another format.
    ReadAs(OtherFormat),
    /// A finite result beyond the largest number becomes this.
    Beyond(Overflow),
    /// A NaN gives way to the other input.
    NanLost,
    /// A NaN wins a comparison.
    NanWins,
    /// An infinity in the inputs is treated as the largest number.
    InfinityLargest,
    /// An infinity in the inputs is treated as a NaN.
    InfinityNan,
    /// An infinity in the inputs loses its sign.
    InfinityUnsigned,
    /// Opposite infinities add up to zero.
    OppositesCancel,
    /// Infinity times zero is zero.
    ZeroWins,
    /// Rounded otherwise than to nearest, ties to even.
    Rounded(Rounding),
    /// With more than 8 ranks, the last bit of the result is lost.
    Coarse,
    /// Whole numbers become f32 or f64 on the way.
    Float(OtherFormat),
    /// Whole numbers count as signed where they are not, and the other way round.
    OtherSign,
    /// Only the lower half of a whole number is used.
    LowerHalf,
    /// Whole numbers stop at the ends of their range.
    Clamped,
    /// An average of whole numbers is rounded down.
    Floor,
    /// An average of whole numbers is rounded to the nearest.
    Nearest,
    /// The scalar's sign is lost.
    Unsigned,
    /// The scalar's upper half is zero.
    ZeroExtended,
    /// The scalar's upper half repeats the sign of the lower one.
    SignExtended,
    /// A copy makes a signalling NaN quiet.
    Quiet,
}

/// Another format than the type's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OtherFormat {
    F64,
    F32,
    Tf32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    E4m3Fnuz,
    E5m2Fnuz,
}

impl OtherFormat {
    fn format(self) -> Format {
        match self {
            Self::F64 => value::F64,
            Self::F32 => value::F32,
            Self::Tf32 => value::TF32,
            Self::F16 => value::F16,
            Self::Bf16 => value::BF16,
            Self::E4m3 => value::E4M3,
            Self::E5m2 => value::E5M2,
            Self::E4m3Fnuz => value::E4M3_FNUZ,
            Self::E5m2Fnuz => value::E5M2_FNUZ,
        }
    }
}

/// The wrong result for `a` and `b`; `None` if the rule gives the right one, which is `right`.
pub(super) fn combined(rule: Rule, ty: Type, operator: Operator, [a, b]: [u64; 2], right: u64) -> Option<u64> {
    let wrong = match Format::of(ty) {
        Some(format) => {
            let hop = Hop { format, operator, a, b, right };
            let wrong = hop.wrong(rule)?;
            // All NaN count as equal.
            (!(format.is_nan(wrong) && format.is_nan(right))).then_some(wrong)?
        }
        None => wrong_integer(rule, ty, operator, a, b)?,
    };
    (wrong != right).then_some(wrong)
}

/// Two elements combined as they should be.
pub(super) fn right(ty: Type, operator: Operator, a: u64, b: u64) -> u64 {
    match Format::of(ty) {
        Some(format) => Hop { format, operator, a, b, right: 0 }.sound(format, a, b),
        None => cut(ty, applied(operator, read(ty, a), read(ty, b))),
    }
}

fn applied(operator: Operator, x: i128, y: i128) -> i128 {
    match operator {
        Operator::Sum => x + y,
        // The product of two 64-bit numbers keeps its lower 64 bits even if it wraps.
        Operator::Prod => x.wrapping_mul(y),
        Operator::Min => x.min(y),
        Operator::Max => x.max(y),
    }
}

/// The scalar as a wrong rule reads it; `None` if it reads it right.
pub(super) fn scalar(rule: Rule, ty: Type, right: u64) -> Option<u64> {
    let wrong = match (Format::of(ty), rule) {
        (Some(format), Rule::Unsigned) => right & !format.sign(),
        (Some(format), Rule::Through(other)) => through(format, other.format(), right),
        (None, Rule::Unsigned) => cut(ty, read(ty, right).abs()),
        (None, Rule::ZeroExtended) => right & half_mask(ty),
        (None, Rule::SignExtended) => {
            let shift = 64 - half_mask(ty).count_ones();
            cut(ty, i128::from((right << shift) as i64 >> shift))
        }
        (None, Rule::Float(other)) => cut(ty, float(other, read(ty, right))),
        _ => return None,
    };
    (wrong != right).then_some(wrong)
}

/// The wrong quotient of a whole number and a number of ranks; `None` if the rule gives the right one.
pub(super) fn quotient(rule: Rule, ty: Type, sum: u64, n: usize, right: u64) -> Option<u64> {
    let (value, n) = (read(ty, sum), n.max(1) as i128);
    let wrong = match rule {
        Rule::Float(OtherFormat::F32) => cut(ty, (value as f32 / n as f32) as i128),
        Rule::Float(_) => cut(ty, (value as f64 / n as f64) as i128),
        Rule::OtherSign => cut(ty, read(opposite(ty), sum) / n),
        Rule::LowerHalf => cut(ty, lower_half(ty, sum) / n),
        Rule::Floor => cut(ty, value.div_euclid(n)),
        Rule::Nearest => cut(ty, (2 * value + n * value.signum()) / (2 * n)),
        _ => return None,
    };
    (wrong != right).then_some(wrong)
}

struct Hop {
    format: Format,
    operator: Operator,
    a: u64,
    b: u64,
    right: u64,
}

impl Hop {
    fn wrong(&self, rule: Rule) -> Option<u64> {
        let Self { format, operator, a, b, right } = *self;
        let chooses = matches!(operator, Operator::Min | Operator::Max);
        let on = |change: &dyn Fn(u64) -> u64| Some(self.sound(format, change(a), change(b)));
        match rule {
            Rule::ResultsFlushed => Some(if format.is_subnormal(right) { right & format.sign() } else { right }),
            Rule::InputsFlushed => on(&|bits| if format.is_subnormal(bits) { bits & format.sign() } else { bits }),
            Rule::Through(other) => {
                let narrow = other.format();
                let to = |bits| narrow.encode(format.decode(bits), Rounding::NearestEven, narrow.usual_overflow());
                let result = self.sound(narrow, to(a), to(b));
                Some(format.encode(narrow.decode(result), Rounding::NearestEven, format.usual_overflow()))
            }
            Rule::ReadAs(other) => Some(self.sound(other.format(), a, b)),
            Rule::Beyond(overflow) => {
                let finite = |bits| matches!(format.decode(bits), Value::Finite { .. });
                let exact = self.exact(format, a, b)?;
                (finite(a) && finite(b)).then(|| format.encode(exact, Rounding::NearestEven, overflow))
            }
            Rule::NanLost => match (format.is_nan(a), format.is_nan(b)) {
                (true, false) => Some(b),
                (false, true) => Some(a),
                _ => None,
            },
            Rule::NanWins => (chooses && (format.is_nan(a) || format.is_nan(b))).then(|| format.nan()),
            Rule::InfinityLargest => on(&|bits| match format.is_infinite(bits) {
                true => bits & format.sign() | format.largest(),
                false => bits,
            }),
            Rule::InfinityNan => on(&|bits| if format.is_infinite(bits) { format.nan() } else { bits }),
            Rule::InfinityUnsigned => on(&|bits| if format.is_infinite(bits) { bits & !format.sign() } else { bits }),
            Rule::OppositesCancel | Rule::ZeroWins => {
                let made = format.is_nan(right) && !format.is_nan(a) && !format.is_nan(b);
                made.then_some(0)
            }
            Rule::Rounded(rounding) => {
                Some(format.encode(self.exact(format, a, b)?, rounding, format.usual_overflow()))
            }
            Rule::Coarse => {
                let narrow = format.coarser();
                let bits = narrow.encode(self.exact(format, a, b)?, Rounding::NearestEven, narrow.usual_overflow());
                Some(format.encode(narrow.decode(bits), Rounding::NearestEven, format.usual_overflow()))
            }
            _ => None,
        }
    }

    /// The result without rounding; `None` for min and max, which choose one of their inputs.
    fn exact(&self, format: Format, a: u64, b: u64) -> Option<Value> {
        let (a, b) = (format.decode(a), format.decode(b));
        match self.operator {
            Operator::Sum => Some(a.sum(b)),
            Operator::Prod => Some(a.product(b)),
            Operator::Min | Operator::Max => None,
        }
    }

    /// The right result, in a format.
    fn sound(&self, format: Format, a: u64, b: u64) -> u64 {
        match self.exact(format, a, b) {
            Some(exact) => format.encode(exact, Rounding::NearestEven, format.usual_overflow()),
            None if format.is_nan(a) => b,
            None if format.is_nan(b) => a,
            None => {
                // Keys in the order of the values, from sign and magnitude.
                let key = |bits: u64| match bits & format.sign() {
                    0 => i128::from(bits),
                    _ => -i128::from(bits & (format.sign() - 1)),
                };
                if (key(a) < key(b)) == (self.operator == Operator::Min) { a } else { b }
            }
        }
    }
}

pub(super) fn through(format: Format, other: Format, bits: u64) -> u64 {
    let narrow = other.encode(format.decode(bits), Rounding::NearestEven, other.usual_overflow());
    format.encode(other.decode(narrow), Rounding::NearestEven, format.usual_overflow())
}

fn wrong_integer(rule: Rule, ty: Type, operator: Operator, a: u64, b: u64) -> Option<u64> {
    let apply = |x: i128, y: i128| applied(operator, x, y);
    let saturated = |x: i128, y: i128| match operator {
        Operator::Prod => x.saturating_mul(y),
        _ => apply(x, y),
    };
    match rule {
        Rule::Float(other) => {
            // Both inputs are whole as floats, so rounding the exact result is the arithmetic of that float.
            let [x, y] = [a, b].map(|bits| float(other, read(ty, bits)));
            Some(clamped(ty, float(other, saturated(x, y))))
        }
        Rule::OtherSign => {
            let other = opposite(ty);
            Some(cut(ty, apply(read(other, a), read(other, b))))
        }
        Rule::LowerHalf => {
            let value = apply(lower_half(ty, a), lower_half(ty, b));
            Some(cut(ty, lower_half(ty, value as u64)))
        }
        Rule::Clamped => {
            let [x, y] = [a, b].map(|bits| read(ty, bits));
            Some(clamped(ty, saturated(x, y)))
        }
        _ => None,
    }
}

fn bits_of(ty: Type) -> u32 {
    8 * ty.size() as u32
}

pub(crate) fn is_signed(ty: Type) -> bool {
    matches!(ty, Type::I8 | Type::I32 | Type::I64)
}

fn opposite(ty: Type) -> Type {
    match ty {
        Type::I8 => Type::U8,
        Type::U8 => Type::I8,
        Type::I32 => Type::U32,
        Type::U32 => Type::I32,
        Type::I64 => Type::U64,
        Type::U64 => Type::I64,
        other => other,
    }
}

fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

fn half_mask(ty: Type) -> u64 {
    mask(bits_of(ty) / 2)
}

fn extend(bits: u64, width: u32, signed: bool) -> i128 {
    let bits = bits & mask(width);
    if signed && bits >> (width - 1) & 1 == 1 { i128::from(bits) - (1 << width) } else { i128::from(bits) }
}

pub(crate) fn read(ty: Type, bits: u64) -> i128 {
    extend(bits, bits_of(ty), is_signed(ty))
}

fn lower_half(ty: Type, bits: u64) -> i128 {
    extend(bits, bits_of(ty) / 2, is_signed(ty))
}

pub(super) fn cut(ty: Type, value: i128) -> u64 {
    value as u64 & mask(bits_of(ty))
}

fn clamped(ty: Type, value: i128) -> u64 {
    let (low, high) = match is_signed(ty) {
        true => (-(1 << (bits_of(ty) - 1)), (1 << (bits_of(ty) - 1)) - 1),
        false => (0, i128::from(mask(bits_of(ty)))),
    };
    cut(ty, value.clamp(low, high))
}

fn float(other: OtherFormat, value: i128) -> i128 {
    if other == OtherFormat::F32 { value as f32 as i128 } else { value as f64 as i128 }
}
