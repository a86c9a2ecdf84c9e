//! Results that are rounded in one direction, from those that are rounded to nearest.
//!
//! The exact result is the sum of two numbers of double precision: the rounded one and what it lacks. A nearest number that is further from
//! zero is replaced by the one before it, whose bits are smaller by one in every format.
use crate::code::{BinaryOp, Op, TernaryOp};
use crate::module::Type;
use crate::num::{BF16, Direction, E4M3, E5M2, F16};

/// The result of an operation on the bits of its operands, given the `nearest` one.
pub fn directed(direction: Direction, op: &Op, operands: [u64; 3], nearest: u64) -> u64 {
    let [a, b, c] = operands;
    let (ty, parts): (Type, Vec<(f64, f64)>) = match op {
        Op::Binary { op, ty, .. } => {
            let exact = |at: usize| exact_binary(*op, value(*ty, a, at), value(*ty, b, at));
            (*ty, (0..count(*ty)).map(exact).collect())
        }
        Op::Ternary { op: TernaryOp::Fma, ty, .. } => {
            let exact = |at: usize| {
                let (product, lacks) = exact_product(value(*ty, a, at), value(*ty, b, at));
                let (sum, more) = exact_sum(product, value(*ty, c, at));
                (sum, lacks + more)
            };
            (*ty, (0..count(*ty)).map(exact).collect())
        }
        Op::ConvertFloat { from, into, .. } => (*into, vec![(value(*from, a, 0), 0.0)]),
        // The first operand is the upper one.
        Op::ConvertPairFromF32 { into, .. } => (*into, [b, a].map(|bits| (value(Type::F32, bits, 0), 0.0)).to_vec()),
        _ => return nearest,
    };
    let mut bits = nearest;
    for (at, (exact, lacks)) in parts.into_iter().enumerate() {
        let found = value(ty, nearest, at);
        // What the nearest number is too much; NaN if there is no exact result.
        let excess = (found - exact) - lacks;
        let too_much = match direction {
            Direction::Nearest => continue,
            Direction::Zero if found == 0.0 => continue,
            Direction::Zero => (excess > 0.0) == (found > 0.0),
            Direction::Down => excess > 0.0,
            Direction::Up => excess < 0.0,
        };
        if !too_much || excess == 0.0 || excess.is_nan() {
            continue;
        }
        let one = 1 << (at as u32 * width(ty));
        let sign = 1 << (at as u32 * width(ty) + width(ty) - 1);
        // Bits are smaller for what is nearer to zero. Zero itself becomes the least number of the other sign.
        let away = (direction == Direction::Up) == (found > 0.0);
        match (direction, found == 0.0) {
            (Direction::Down, true) => bits = bits & !sign | sign | one,
            (Direction::Up, true) => bits = bits & !sign | one,
            (Direction::Zero, _) => bits -= one,
            _ if away => bits += one,
            _ => bits -= one,
        }
    }
    bits
}

fn exact_binary(op: BinaryOp, a: f64, b: f64) -> (f64, f64) {
    match op {
        BinaryOp::Add => exact_sum(a, b),
        BinaryOp::Sub => exact_sum(a, -b),
        _ => exact_product(a, b),
    }
}

/// Knuth's sum of two numbers.
fn exact_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

fn exact_product(a: f64, b: f64) -> (f64, f64) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// Numbers in a value of this type.
fn count(ty: Type) -> usize {
    if matches!(ty, Type::F16x2 | Type::Bf16x2 | Type::E4m3x2 | Type::E5m2x2) { 2 } else { 1 }
}

/// The bits of one of them.
fn width(ty: Type) -> u32 {
    8 * ty.bytes() / count(ty) as u32
}

/// A number in a value of this type.
fn value(ty: Type, bits: u64, at: usize) -> f64 {
    let bits = bits >> (at as u32 * width(ty));
    match ty {
        Type::F16 | Type::F16x2 => F16.decode(bits as u16),
        Type::Bf16 | Type::Bf16x2 => BF16.decode(bits as u16),
        Type::E4m3x2 => E4M3.decode(bits as u16 & 0xff),
        Type::E5m2x2 => E5M2.decode(bits as u16 & 0xff),
        Type::F32 => f64::from(f32::from_bits(bits as u32)),
        Type::F64 => f64::from_bits(bits),
        Type::S8 => f64::from(bits as i8),
        Type::S16 => f64::from(bits as i16),
        Type::S32 => f64::from(bits as i32),
        Type::U8 => f64::from(bits as u8),
        Type::U16 => f64::from(bits as u16),
        _ => f64::from(bits as u32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Source;
    use crate::run::scalar::compute;

    fn rounded(op: Op, operands: [u64; 3]) -> u64 {
        let all = [operands[0], operands[1], operands[2], 0].map(u128::from);
        compute(&Op::Directed(Direction::Zero, Box::new(op)), &all).unwrap()[0] as u64
    }

    fn binary(op: BinaryOp, ty: Type) -> Op {
        let none = Source::Constant(0);
        Op::Binary { op, ty, says_rounding: true, to: None, a: none.clone(), b: none }
    }

    #[test]
    fn results_are_the_nearest_ones_that_are_not_further_from_zero() {
        let f32s = |a: f32, b: f32| {
            f32::from_bits(rounded(binary(BinaryOp::Add, Type::F32), [a.to_bits().into(), b.to_bits().into(), 0]) as u32)
        };
        let tiny = f32::EPSILON / 2.0;
        assert_eq!(f32s(1.0, 1.5 * tiny), 1.0, "it would be rounded up");
        assert_eq!(f32s(-1.0, -1.5 * tiny), -1.0);
        assert_eq!(f32s(1.0, 0.5 * tiny), 1.0, "it is rounded down anyway");
        assert_eq!(f32s(1.0, -0.5 * tiny), 1.0 - tiny);
        assert_eq!((f32s(1.0, 2.0), f32s(f32::MAX, f32::MAX)), (3.0, f32::MAX));
        assert!(f32s(f32::INFINITY, 1.0).is_infinite() && f32s(f32::NAN, 1.0).is_nan());
        let (a, b) = (0.1f64, 3.0f64);
        let product =
            rounded(binary(BinaryOp::Mul(crate::code::MulPart::Low), Type::F64), [a.to_bits(), b.to_bits(), 0]);
        assert_eq!(f64::from_bits(product), 0.3, "the nearest number is 0.30000000000000004");
    }

    #[test]
    fn down_and_up_enclose_the_exact_result() {
        let none = Source::Constant(0);
        let fma =
            Op::Ternary { op: TernaryOp::Fma, ty: Type::F32, to: None, a: none.clone(), b: none.clone(), c: none };
        let of = |direction, numbers: [f32; 3]| {
            let bits = numbers.map(|number| u128::from(number.to_bits()));
            let op = Op::Directed(direction, Box::new(fma.clone()));
            f32::from_bits(compute(&op, &[bits[0], bits[1], bits[2], 0]).unwrap()[0] as u32)
        };
        let all = |numbers| [Direction::Down, Direction::Up, Direction::Zero].map(|direction| of(direction, numbers));
        let tiny = f32::from_bits(1);
        assert_eq!(all([1.0, 1.0, tiny]), [1.0, 1.0f32.next_up(), 1.0]);
        assert_eq!(all([-1.0, 1.0, tiny]), [-1.0, (-1.0f32).next_up(), (-1.0f32).next_up()]);
        assert_eq!(all([1.0, 1.0, -tiny]), [1.0f32.next_down(), 1.0, 1.0f32.next_down()]);
        assert_eq!(all([f32::MAX, 2.0, 0.0]), [f32::MAX, f32::INFINITY, f32::MAX]);
        assert_eq!(all([tiny, tiny, 0.0]), [0.0, tiny, 0.0]);
        assert_eq!(all([tiny, -tiny, 0.0]), [-tiny, 0.0, 0.0]);
        assert_eq!(all([2.0, 3.0, 1.0]), [7.0; 3]);
        assert!(all([f32::NAN, 3.0, 1.0]).iter().all(|number| number.is_nan()));
    }

    #[test]
    fn both_numbers_of_a_pair_are_rounded() {
        // 2049 is halfway between two numbers of f16, and 2051 is rounded up.
        let [one, large] = [1.0, 2050.0].map(|value| u64::from(F16.encode(value, false)));
        let sum = rounded(binary(BinaryOp::Add, Type::F16x2), [large << 16 | large, one << 16 | one, 0]);
        assert_eq!(sum, large << 16 | large);
        let none = Source::Constant(0);
        let convert = Op::ConvertPairFromF32 { into: Type::Bf16x2, to: None, a: none.clone(), b: none };
        let above = u64::from(1.006f32.to_bits());
        assert_eq!(rounded(convert, [above, 1.0f32.to_bits().into(), 0]), 0x3f80_3f80);
    }
}
