//! Computes operations one lane at a time: the meaning of every operation on registers, as the ISA defines it.
use super::directed::directed;
use crate::code::{Approximate, BinaryOp, Comparison, MulPart, Op, Rounding, TernaryOp, UnaryOp};
use crate::module::Type;
use crate::num::{
    BF16, BRAIN, Binary, DOUBLE, Direction, E4M3, E5M2, Exact, F16, HALF, Narrow, SINGLE, add_f64, bit_field_extract,
    bit_field_insert, canonical_f32, div_f64, f32_from_f64, f64_from_f32, fma_f32, fma_f64, funnel_shift_left,
    funnel_shift_right, high_bit, max_f32, max_f64, min_f32, min_f64, minus_product_f64, mul_f64, permute,
    product_minus_f64, shift_left, shift_right_signed, shift_right_unsigned, sub_f64, with_payload,
};

/// The bits of at most four operands or results.
pub type Values = [u128; 4];

/// The result of an operation on its operands' bits, in the order of its fields; all results but those of an unpacking are
/// in the first field. `None` for an operation that does more than compute.
pub fn compute(op: &Op, operands: &Values) -> Option<Values> {
    let [a, b, c, d] = operands.map(|bits| bits as u64);
    let one = match op {
        Op::Unary { op: UnaryOp::Move, ty: Type::B128, .. } => return Some([operands[0], 0, 0, 0]),
        Op::Unary { op, ty, .. } => unary(*op, *ty, a),
        Op::Binary { op, ty, .. } => binary(*op, *ty, a, b),
        Op::Ternary { op, ty, .. } => ternary(*op, *ty, a, b, c),
        Op::BitFieldInsert { ty, .. } => bit_field_insert(a, b, c as u32, d as u32, 8 * ty.bytes()),
        Op::Select { ty: Type::B128, .. } => {
            return Some([if c & 1 == 1 { operands[0] } else { operands[1] }, 0, 0, 0]);
        }
        Op::Select { .. } => {
            if c & 1 == 1 {
                a
            } else {
                b
            }
        }
        Op::Compare { comparison, ty, .. } => u64::from(compare(*comparison, *ty, a, b)),
        Op::Pack { part, parts, .. } => {
            let each = operands.iter().take(parts.len()).enumerate();
            let whole = each.fold(0, |whole, (at, bits)| whole | bits << (at as u32 * part.bits()));
            return Some([whole, 0, 0, 0]);
        }
        Op::Unpack { part, to, .. } => {
            let count = to.len() as u32;
            let of = |at: u32| if at < count { operands[0] >> (at * part.bits()) } else { 0 };
            return Some(std::array::from_fn(|at| u128::from(low(of(at as u32) as u64, part.bits()))));
        }
        Op::ConvertWhole { from, into, .. } => extended(*into, extended(*from, a)),
        Op::ConvertFloat { rounding, from, into, .. } => convert(*rounding, *from, *into, a),
        Op::ConvertPair { from, into, .. } => pair(part_of(*into), halves(part_of(*from), a)),
        Op::ConvertPairFromF32 { into, .. } => pair(part_of(*into), [b, a].map(f32_of).map(f64::from)),
        Op::Flushed(op) => return flushed(op, operands),
        Op::Directed(direction, op) => directed(*direction, op, [a, b, c], compute(op, operands)?[0] as u64),
        _ => return None,
    };
    Some([u128::from(one), 0, 0, 0])
}

/// The result of an operation on f32 for which subnormal numbers are zeros.
fn flushed(op: &Op, operands: &Values) -> Option<Values> {
    let (takes, gives) = match op {
        Op::Compare { .. } => (true, false),
        Op::ConvertFloat { from, into, .. } => (*from == Type::F32, *into == Type::F32),
        _ => (true, true),
    };
    let flush = |bits: u128| if bits & 0x7f80_0000 == 0 { bits & 1 << 31 } else { bits };
    let results = compute(op, &if takes { operands.map(flush) } else { *operands })?;
    Some(if gives { results.map(flush) } else { results })
}

fn low(bits: u64, width: u32) -> u64 {
    if width >= 64 { bits } else { bits & ((1 << width) - 1) }
}

/// The value of this type in 64 bits: with its sign, or with zeros.
fn extended(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::S8 => bits as i8 as u64,
        Type::S16 => bits as i16 as u64,
        Type::S32 => bits as i32 as u64,
        _ => low(bits, 8 * ty.bytes()),
    }
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn f32_bits(value: f32) -> u64 {
    u64::from(value.to_bits())
}

/// The narrow format of a type, and how many of it a value has.
fn narrow(ty: Type) -> Option<(Narrow, u32)> {
    Some(match ty {
        Type::F16 => (F16, 1),
        Type::F16x2 => (F16, 2),
        Type::Bf16 => (BF16, 1),
        Type::Bf16x2 => (BF16, 2),
        _ => return None,
    })
}

/// Does something to each 16-bit part.
fn by_parts(parts: u32, f: impl Fn(u32) -> u16) -> u64 {
    (0..parts).fold(0, |all, part| all | u64::from(f(16 * part)) << (16 * part))
}

/// The format of a pair's parts.
fn part_of(ty: Type) -> Narrow {
    match ty {
        Type::E4m3x2 => E4M3,
        Type::E5m2x2 => E5M2,
        Type::Bf16x2 | Type::Bf16 => BF16,
        _ => F16,
    }
}

fn part_bits(format: Narrow) -> u32 {
    if format == E4M3 || format == E5M2 { 8 } else { 16 }
}

/// The two numbers of a pair, the lower one first.
fn halves(format: Narrow, bits: u64) -> [f64; 2] {
    let width = part_bits(format);
    [bits, bits >> width].map(|bits| format.decode(low(bits, width) as u16))
}

/// A pair of two numbers, the lower one first. 8-bit formats saturate.
fn pair(format: Narrow, values: [f64; 2]) -> u64 {
    let width = part_bits(format);
    let [low, high] = values.map(|value| u64::from(format.encode(value, width == 8)));
    low | high << width
}

fn unary(op: UnaryOp, ty: Type, a: u64) -> u64 {
    let bits = 8 * ty.bytes();
    match op {
        UnaryOp::Move => low(a, bits),
        UnaryOp::Not if ty == Type::Pred => u64::from(a == 0),
        UnaryOp::Not => low(!a, bits),
        UnaryOp::Neg | UnaryOp::Abs => match (narrow(ty), ty) {
            (Some((format, parts)), _) => by_parts(parts, |at| {
                let part = (a >> at) as u16;
                if format.is_nan(part) {
                    format.nan()
                } else if op == UnaryOp::Neg {
                    part ^ 0x8000
                } else {
                    part & 0x7fff
                }
            }),
            (_, Type::F32) => f32_bits(canonical_f32(if op == UnaryOp::Neg { -f32_of(a) } else { f32_of(a).abs() })),
            (_, Type::F64) => {
                let value = f64::from_bits(a);
                with_payload(if op == UnaryOp::Neg { -value } else { value.abs() }, [value]).to_bits()
            }
            _ => {
                let value = extended(ty, a) as i64;
                low(if op == UnaryOp::Neg || value < 0 { value.wrapping_neg() } else { value } as u64, bits)
            }
        },
        UnaryOp::Popc => u64::from(low(a, bits).count_ones()),
        UnaryOp::Clz => u64::from(low(a, bits).leading_zeros() + bits - 64),
        UnaryOp::Brev => low(a, bits).reverse_bits() >> (64 - bits),
        UnaryOp::Bfind { shift_amount } => u64::from(high_bit(a, bits, ty.is_signed(), shift_amount)),
        UnaryOp::Reciprocal(direction) => {
            let value = float(ty, a);
            match Exact::of(value).filter(|exact| exact.whole > 0) {
                Some(exact) => exact.reciprocal().round(format(ty), direction),
                // Of infinities, zeros and NaN.
                None => float_bits(ty, value, 1.0 / value),
            }
        }
        UnaryOp::SquareRoot(direction) => {
            let value = float(ty, a);
            match Exact::of(value).filter(|exact| exact.whole > 0 && !exact.negative) {
                Some(exact) => exact.square_root().round(format(ty), direction),
                None => float_bits(ty, value, value.sqrt()),
            }
        }
        UnaryOp::Approximate { function, flush } => approximate(function, flush, ty, a),
    }
}

/// The value of f32 or f64.
fn float(ty: Type, bits: u64) -> f64 {
    if ty == Type::F32 { f64::from(f32_of(bits)) } else { f64::from_bits(bits) }
}

fn format(ty: Type) -> Binary {
    if ty == Type::F32 { SINGLE } else { DOUBLE }
}

/// The result of an operation on one number of f32 or f64.
fn float_bits(ty: Type, operand: f64, result: f64) -> u64 {
    if ty == Type::F32 { f32_bits(canonical_f32(result as f32)) } else { with_payload(result, [operand]).to_bits() }
}

/// The ISA bounds the error of these; double precision, rounded once more for f32, is within every bound.
fn approximate(function: Approximate, flush: bool, ty: Type, a: u64) -> u64 {
    let flushed = |value: f64| {
        let least = if ty == Type::F32 { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
        if flush && value.abs() < least { 0f64.copysign(value) } else { value }
    };
    let value = flushed(float(ty, a));
    let result = match function {
        Approximate::Reciprocal => 1.0 / value,
        Approximate::SquareRoot => value.sqrt(),
        Approximate::ReciprocalSquareRoot => 1.0 / value.sqrt(),
        Approximate::Exponential => value.exp2(),
        Approximate::Logarithm => value.log2(),
        Approximate::Sine => value.sin(),
        Approximate::Cosine => value.cos(),
        Approximate::HyperbolicTangent => value.tanh(),
    };
    float_bits(ty, value, flushed(result))
}

/// The result of an operation with two operands on their bits.
pub fn binary(op: BinaryOp, ty: Type, a: u64, b: u64) -> u64 {
    if let Some((format, parts)) = narrow(ty) {
        return by_parts(parts, |at| narrow_binary(op, format, (a >> at) as u16, (b >> at) as u16));
    }
    match ty {
        Type::F32 => f32_bits(match op {
            BinaryOp::Add => canonical_f32(f32_of(a) + f32_of(b)),
            BinaryOp::Sub => canonical_f32(f32_of(a) - f32_of(b)),
            BinaryOp::Div => canonical_f32(f32_of(a) / f32_of(b)),
            BinaryOp::Min => min_f32(f32_of(a), f32_of(b)),
            BinaryOp::Max => max_f32(f32_of(a), f32_of(b)),
            BinaryOp::CopySign => return low(b & i32::MAX as u64 | a & 1 << 31, 32),
            _ => canonical_f32(f32_of(a) * f32_of(b)),
        }),
        Type::F64 => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            match op {
                BinaryOp::Add => add_f64(a, b),
                BinaryOp::Sub => sub_f64(a, b),
                BinaryOp::Div => div_f64(a, b),
                BinaryOp::Min => min_f64(a, b),
                BinaryOp::Max => max_f64(a, b),
                BinaryOp::CopySign => b.copysign(a),
                _ => mul_f64(a, b),
            }
            .to_bits()
        }
        _ => whole_binary(op, ty, a, b),
    }
}

fn narrow_binary(op: BinaryOp, format: Narrow, a: u16, b: u16) -> u16 {
    match op {
        BinaryOp::Add => format.add(a, b),
        BinaryOp::Sub => format.add(a, b ^ 0x8000),
        BinaryOp::Min => format.min(a, b),
        BinaryOp::Max => format.max(a, b),
        _ => format.mul(a, b),
    }
}

fn whole_binary(op: BinaryOp, ty: Type, a: u64, b: u64) -> u64 {
    let bits = 8 * ty.bytes();
    let signed = ty.is_signed();
    let (a, b) = if matches!(op, BinaryOp::Shl | BinaryOp::Shr) { (a, b) } else { (extended(ty, a), extended(ty, b)) };
    let wide = |a: u64, b: u64| -> u128 {
        if signed { (i128::from(a as i64) * i128::from(b as i64)) as u128 } else { u128::from(a) * u128::from(b) }
    };
    let value = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul(MulPart::Low) => a.wrapping_mul(b),
        BinaryOp::Mul(MulPart::High) => (wide(a, b) >> bits) as u64,
        BinaryOp::Mul(MulPart::Wide) => return low(wide(a, b) as u64, 2 * bits),
        // The ISA leaves a division by zero open; GPUs give all ones.
        BinaryOp::Div | BinaryOp::Rem if b == 0 => u64::MAX,
        BinaryOp::Div if signed => (a as i64).wrapping_div(b as i64) as u64,
        BinaryOp::Div => a / b,
        BinaryOp::Rem if signed => (a as i64).wrapping_rem(b as i64) as u64,
        BinaryOp::Rem => a % b,
        BinaryOp::Min if signed => (a as i64).min(b as i64) as u64,
        BinaryOp::Min => a.min(b),
        BinaryOp::Max if signed => (a as i64).max(b as i64) as u64,
        BinaryOp::Max => a.max(b),
        BinaryOp::MinRelu => (a as i64).min(b as i64).max(0) as u64,
        BinaryOp::MaxRelu => (a as i64).max(b as i64).max(0) as u64,
        BinaryOp::And => a & b,
        BinaryOp::Or => a | b,
        BinaryOp::Xor => a ^ b,
        BinaryOp::Shl => shift_left(a, b as u32, bits),
        BinaryOp::Shr if signed => shift_right_signed(a, b as u32, bits),
        BinaryOp::Shr => shift_right_unsigned(a, b as u32, bits),
        BinaryOp::CopySign => b,
    };
    low(value, bits)
}

fn ternary(op: TernaryOp, ty: Type, a: u64, b: u64, c: u64) -> u64 {
    match op {
        TernaryOp::Mad(part) => {
            let product = whole_binary(BinaryOp::Mul(part), ty, a, b);
            let bits = 8 * ty.bytes() * if part == MulPart::Wide { 2 } else { 1 };
            low(product.wrapping_add(c), bits)
        }
        TernaryOp::Fma => match (narrow(ty), ty) {
            (Some((format, parts)), _) => {
                by_parts(parts, |at| format.fma((a >> at) as u16, (b >> at) as u16, (c >> at) as u16))
            }
            (_, Type::F32) => f32_bits(fma_f32(f32_of(a), f32_of(b), f32_of(c))),
            _ => fma_f64(f64::from_bits(a), f64::from_bits(b), f64::from_bits(c)).to_bits(),
        },
        TernaryOp::ProductMinus | TernaryOp::MinusProduct if ty == Type::F64 => {
            let [a, b, c] = [a, b, c].map(f64::from_bits);
            if op == TernaryOp::ProductMinus { product_minus_f64(a, b, c) } else { minus_product_f64(a, b, c) }
                .to_bits()
        }
        TernaryOp::ProductMinus => ternary(TernaryOp::Fma, ty, a, b, negated(ty, c)),
        TernaryOp::MinusProduct => ternary(TernaryOp::Fma, ty, negated(ty, a), b, c),
        TernaryOp::Prmt => u64::from(permute(a as u32, b as u32, c as u32)),
        TernaryOp::PrmtMode(selectors) => u64::from(permute(a as u32, b as u32, u32::from(selectors[c as usize % 4]))),
        TernaryOp::Bfe => bit_field_extract(a, b as u32, c as u32, 8 * ty.bytes(), ty.is_signed()),
        TernaryOp::FunnelLeft { wrap } => u64::from(funnel_shift_left(a as u32, b as u32, c as u32, wrap)),
        TernaryOp::FunnelRight { wrap } => u64::from(funnel_shift_right(a as u32, b as u32, c as u32, wrap)),
    }
}

/// A number, or both of a pair, with the other sign.
fn negated(ty: Type, bits: u64) -> u64 {
    match ty {
        Type::F32 => bits ^ 1 << 31,
        Type::F16x2 | Type::Bf16x2 => bits ^ 0x8000_8000,
        _ => bits ^ 0x8000,
    }
}

fn compare(comparison: Comparison, ty: Type, a: u64, b: u64) -> bool {
    let order = match ty {
        Type::F32 => f32_of(a).partial_cmp(&f32_of(b)),
        Type::F64 => f64::from_bits(a).partial_cmp(&f64::from_bits(b)),
        Type::F16 => F16.decode(a as u16).partial_cmp(&F16.decode(b as u16)),
        Type::Bf16 => BF16.decode(a as u16).partial_cmp(&BF16.decode(b as u16)),
        _ if ty.is_signed() => Some((extended(ty, a) as i64).cmp(&(extended(ty, b) as i64))),
        _ => Some(extended(ty, a).cmp(&extended(ty, b))),
    };
    use Comparison::{EqOrNan, GeOrNan, GtOrNan, LeOrNan, LtOrNan, Nan, NeOrNan, Numbers};
    let Some(order) = order else {
        return matches!(comparison, EqOrNan | NeOrNan | LtOrNan | LeOrNan | GtOrNan | GeOrNan | Nan);
    };
    match comparison {
        Comparison::Eq | EqOrNan => order.is_eq(),
        Comparison::Ne | NeOrNan => order.is_ne(),
        Comparison::Lt | LtOrNan => order.is_lt(),
        Comparison::Le | LeOrNan => order.is_le(),
        Comparison::Gt | GtOrNan => order.is_gt(),
        Comparison::Ge | GeOrNan => order.is_ge(),
        Numbers => true,
        Nan => false,
    }
}

fn convert(rounding: Rounding, from: Type, into: Type, a: u64) -> u64 {
    let value = match from {
        Type::F16 => F16.decode(a as u16),
        Type::Bf16 => BF16.decode(a as u16),
        Type::F32 | Type::F64 => float(from, a),
        _ => {
            let signed = from.is_signed().then(|| extended(from, a) as i64);
            let whole = signed.map_or(extended(from, a), i64::unsigned_abs);
            let exact = Exact { negative: signed.is_some_and(|signed| signed < 0), whole, exponent: 0 };
            return rounded(exact, rounding, into);
        }
    };
    let value = match rounding {
        Rounding::NearestWhole => value.round_ties_even(),
        Rounding::TowardsZeroWhole => value.trunc(),
        Rounding::DownWhole => value.floor(),
        Rounding::UpWhole => value.ceil(),
        Rounding::ToUnit if value > 0.0 => value.min(1.0),
        Rounding::ToUnit => 0.0,
        Rounding::None | Rounding::Nearest | Rounding::Directed(_) => value,
    };
    match into {
        // A NaN keeps its payload where both types have one.
        Type::F32 if from == Type::Bf16 => low(a, 16) << 16,
        Type::F32 if from == Type::F64 && value.is_nan() => f32_bits(f32_from_f64(f64::from_bits(a))),
        Type::F32 if value.is_nan() => f32_bits(canonical_f32(f32::NAN)),
        Type::F64 if from == Type::F64 && value.is_nan() => with_payload(value, [f64::from_bits(a)]).to_bits(),
        Type::F64 if from == Type::F32 && value.is_nan() => f64_from_f32(f32_of(a)).to_bits(),
        Type::F64 if value.is_nan() => f64_from_f32(canonical_f32(f32::NAN)).to_bits(),
        Type::F16 | Type::Bf16 if value.is_nan() => u64::from(F16.nan()),
        Type::F16 | Type::Bf16 | Type::F32 | Type::F64 => {
            let infinity = Exact { negative: value < 0.0, whole: 1, exponent: MORE_THAN_ANY };
            match Exact::of(value) {
                Some(exact) => rounded(exact, rounding, into),
                None => rounded(infinity, Rounding::Nearest, into),
            }
        }
        _ if value.is_nan() => extended(into, not_a_number(from, into)),
        // Numbers out of range become the nearest number in range.
        Type::S8 => value as i8 as u64,
        Type::S16 => value as i16 as u64,
        Type::S32 => value as i32 as u64,
        Type::S64 => value as i64 as u64,
        Type::U8 => u64::from(value as u8),
        Type::U16 => u64::from(value as u16),
        Type::U32 => u64::from(value as u32),
        _ => value as u64,
    }
}

/// An exponent beyond those of all formats.
const MORE_THAN_ANY: i32 = 4096;

/// A number rounded to a floating-point type.
fn rounded(exact: Exact, rounding: Rounding, into: Type) -> u64 {
    let direction = if let Rounding::Directed(direction) = rounding { direction } else { Direction::Nearest };
    let format = match into {
        Type::F16 => HALF,
        Type::Bf16 => BRAIN,
        _ => format(into),
    };
    exact.round(format, direction)
}

/// The whole number that NaN becomes (PTX ISA, 9.7.9.21): only the highest bit, or 0 if both types are narrow.
fn not_a_number(from: Type, into: Type) -> u64 {
    let bits = 8 * into.bytes();
    if from == Type::F64 || bits == 64 { 1 << (bits - 1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Source;

    #[test]
    fn not_a_number_becomes_a_whole_one() {
        let whole = |into| convert(Rounding::TowardsZeroWhole, Type::F32, into, f32_bits(f32::NAN));
        assert_eq!([Type::S64, Type::U64].map(whole), [1 << 63; 2]);
        assert_eq!([Type::S8, Type::U16, Type::S32, Type::U32].map(whole), [0; 4]);
        assert_eq!(convert(Rounding::TowardsZeroWhole, Type::F64, Type::U32, f64::NAN.to_bits()), 1 << 31);
    }

    #[test]
    fn conversions_round_the_exact_value_once() {
        let wide = |into, value: f64| convert(Rounding::Nearest, Type::F64, into, value.to_bits());
        // In single precision it would become a tie, and so the even number below.
        assert_eq!(wide(Type::F16, 1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3c01);
        assert_eq!(wide(Type::Bf16, 1.0 + 2f64.powi(-8) + 2f64.powi(-40)), 0x3f81);
        let whole = |from, into, bits| convert(Rounding::Nearest, from, into, bits);
        assert_eq!(whole(Type::S32, Type::F16, (-2049i32) as u32 as u64), 0xe800);
        assert_eq!(whole(Type::U64, Type::F16, u64::MAX), 0x7c00);
        assert_eq!(whole(Type::U64, Type::Bf16, 0x101 << 48 | 1), 0x5b81);
        assert_eq!(whole(Type::U16, Type::F16, 0xffff), 0x7c00);
        assert_eq!(whole(Type::S16, Type::Bf16, 0xffff), 0xbf80);
        let to = |direction, value: f64| {
            convert(Rounding::Directed(direction), Type::F64, Type::F16, value.to_bits()) as u16
        };
        assert_eq!(to(Direction::Zero, 1e9), 0x7bff);
        assert_eq!((to(Direction::Down, -1e9), to(Direction::Up, -1e9)), (0xfc00, 0xfbff));
        assert_eq!((to(Direction::Up, 1e-30), to(Direction::Down, 1e-30)), (1, 0));
        assert_eq!([f64::NAN, f64::INFINITY].map(|value| wide(Type::Bf16, value)), [0x7fff, 0x7f80]);
        let half = |rounding, value: f32| {
            convert(rounding, Type::F16, Type::S32, u64::from(F16.encode(value.into(), false))) as u32 as i32
        };
        assert_eq!([Rounding::DownWhole, Rounding::UpWhole].map(|rounding| half(rounding, -1.5)), [-2, -1]);
        assert_eq!(convert(Rounding::None, Type::F16, Type::F64, 0x3e00), 1.5f64.to_bits());
    }

    #[test]
    fn reciprocals_and_roots_of_special_numbers() {
        let of = |op, value: f32| f32::from_bits(unary(op, Type::F32, f32_bits(value)) as u32);
        let reciprocal = UnaryOp::Reciprocal(Direction::Nearest);
        assert_eq!(of(reciprocal, 3.0), 1.0 / 3.0);
        assert_eq!([0.0, -0.0, f32::INFINITY].map(|value| of(reciprocal, value)), [f32::INFINITY, -f32::INFINITY, 0.0]);
        assert_eq!(of(reciprocal, -f32::NAN).to_bits(), 0x7fff_ffff);
        let root = UnaryOp::SquareRoot(Direction::Up);
        assert_eq!((of(root, 2.0), of(root, 4.0)), (2f32.sqrt().next_up(), 2.0));
        assert!(of(root, -0.0).is_sign_negative() && of(root, -1.0).to_bits() == 0x7fff_ffff);
        let near = |function, flush, value| of(UnaryOp::Approximate { function, flush }, value);
        assert_eq!(near(Approximate::Exponential, false, -140.0), 2f32.powi(-140));
        assert_eq!(near(Approximate::Exponential, true, -140.0), 0.0);
        assert_eq!(near(Approximate::Reciprocal, true, 1e-40), f32::INFINITY);
        assert_eq!(near(Approximate::Logarithm, false, 0.0), f32::NEG_INFINITY);
        assert_eq!(near(Approximate::ReciprocalSquareRoot, false, 4.0), 0.5);
    }

    #[test]
    fn subnormal_numbers_are_zeros_where_the_instruction_says_so() {
        let none = || Source::Constant(0);
        let least = u128::from(f32::MIN_POSITIVE.to_bits());
        let of = |op: Op, a: u128, b: u128| compute(&Op::Flushed(Box::new(op)), &[a, b, 0, 0]).unwrap()[0];
        let binary = |op| Op::Binary { op, ty: Type::F32, says_rounding: false, to: None, a: none(), b: none() };
        assert_eq!(of(binary(BinaryOp::Add), 1, 1), 0, "operands");
        assert_eq!(of(binary(BinaryOp::Sub), least | 1, least), 0, "results");
        assert_eq!(of(binary(BinaryOp::Mul(MulPart::Low)), 1 << 31 | 5, least), 1 << 31, "the sign stays");
        assert_eq!(of(binary(BinaryOp::Max), least, 7), least);
        let compare = Op::Compare { comparison: Comparison::Eq, ty: Type::F32, to: None, a: none(), b: none() };
        assert_eq!(of(compare, 3, 0), 1);
        let half = Op::ConvertFloat { rounding: Rounding::None, from: Type::F16, into: Type::F32, to: None, a: none() };
        assert_eq!(of(half, 1, 0), u128::from(2f32.powi(-24).to_bits()));
    }

    #[test]
    fn comparisons_say_what_holds_of_a_nan() {
        use Comparison::*;
        let holds = |comparison, a: f32, b: f32| compare(comparison, Type::F32, f32_bits(a), f32_bits(b));
        let all = [Eq, Ne, Lt, Le, Gt, Ge, EqOrNan, NeOrNan, LtOrNan, LeOrNan, GtOrNan, GeOrNan, Numbers, Nan];
        let of = |a, b| all.map(|comparison| u8::from(holds(comparison, a, b)));
        assert_eq!(of(1.0, 2.0), [0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 1, 0]);
        assert_eq!(of(0.0, -0.0), [1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0, 1, 1, 0]);
        assert_eq!(of(f32::NAN, 1.0), [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1]);
        assert!(compare(Lt, Type::F16, 0xbc00, 0x3c00) && compare(GtOrNan, Type::Bf16, 0x7fc0, 0));
        let unit = |value: f32| f32::from_bits(convert(Rounding::ToUnit, Type::F32, Type::F32, f32_bits(value)) as u32);
        assert_eq!([-1.0, 0.25, 7.0, f32::NAN].map(unit), [0.0, 0.25, 1.0, 0.0]);
        let sign = |ty, a, b| binary(BinaryOp::CopySign, ty, a, b);
        assert_eq!(sign(Type::F32, f32_bits(-0.0), f32_bits(3.0)), f32_bits(-3.0));
        assert_eq!(sign(Type::F64, 1f64.to_bits(), (-3f64).to_bits()), 3f64.to_bits());
    }

    #[test]
    fn conversions_to_whole_numbers_stop_at_the_ends() {
        let whole = |rounding, value: f32| convert(rounding, Type::F32, Type::S32, f32_bits(value)) as u32 as i32;
        let values = [-2.9, 2.9, 3e9, -3e9, f32::NAN, f32::INFINITY];
        let all = values.map(|value| whole(Rounding::TowardsZeroWhole, value));
        assert_eq!(all, [-2, 2, i32::MAX, i32::MIN, 0, i32::MAX]);
        assert_eq!([0.5, 1.5, -2.5].map(|value| whole(Rounding::NearestWhole, value)), [0, 2, -2]);
    }
}
