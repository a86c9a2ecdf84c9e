//! The arithmetic against values worked out by hand and against a second way of computing them.
use super::types::{E4M3, E5M2};
use super::*;
use half::{bf16, f16};

fn combine_element<const N: usize>(ty: Type, op: Combine, a: [u8; N], b: [u8; N]) -> [u8; N] {
    let mut acc = a;
    combine(ty, op, &mut acc, &b);
    acc
}

#[test]
fn integers_wrap_and_divide_towards_zero() {
    assert_eq!(combine_element(Type::I8, Combine::Sum, 127i8.to_ne_bytes(), 1i8.to_ne_bytes()), (-128i8).to_ne_bytes());
    assert_eq!(
        combine_element(Type::U64, Combine::Prod, u64::MAX.to_ne_bytes(), 3u64.to_ne_bytes()),
        (u64::MAX - 2).to_ne_bytes()
    );
    assert_eq!(combine_element(Type::I32, Combine::Max, (-1i32).to_ne_bytes(), 1i32.to_ne_bytes()), 1i32.to_ne_bytes());
    assert_eq!(
        combine_element(Type::U32, Combine::Max, u32::MAX.to_ne_bytes(), 1u32.to_ne_bytes()),
        u32::MAX.to_ne_bytes()
    );
    let mut x = (-7i32).to_ne_bytes();
    divide(Type::I32, &mut x, 2);
    assert_eq!(i32::from_ne_bytes(x), -3);
    let mut x = (-100i8).to_ne_bytes();
    divide(Type::I8, &mut x, 200);
    assert_eq!(i8::from_ne_bytes(x), 0);
}

#[test]
fn a_nan_loses_against_a_number() {
    for op in [Combine::Max, Combine::Min] {
        assert_eq!(f32::from_ne_bytes(combine_element(Type::F32, op, f32::NAN.to_ne_bytes(), 2f32.to_ne_bytes())), 2.0);
        assert_eq!(f32::from_ne_bytes(combine_element(Type::F32, op, 2f32.to_ne_bytes(), f32::NAN.to_ne_bytes())), 2.0);
        assert!(
            f64::from_ne_bytes(combine_element(Type::F64, op, f64::NAN.to_ne_bytes(), f64::NAN.to_ne_bytes())).is_nan()
        );
        assert_eq!(combine_element(Type::E4m3, op, [0x7f], [0x38]), [0x38]);
        assert_eq!(combine_element(Type::E5m2, op, [0x3c], [0xff]), [0x3c]);
    }
}

#[test]
fn every_code_survives_a_round_trip() {
    for (format, infinity) in [(&E4M3, None), (&E5M2, Some(0x7cu8))] {
        for code in 0..=255u8 {
            let value = format.decode(code);
            if value.is_nan() {
                assert_eq!(format.encode(value), 0x7f);
            } else if Some(code & 0x7f) == infinity {
                assert_eq!(format.encode(value), (code & 0x80) | 0x7b, "infinities saturate");
            } else {
                assert_eq!(format.encode(value), code);
            }
        }
    }
    assert_eq!(E4M3.decode(0x7e), 448.0);
    assert_eq!(E5M2.decode(0x7b), 57_344.0);
    assert_eq!(E4M3.decode(1), 2f32.powi(-9));
    assert_eq!(E5M2.decode(1), 2f32.powi(-16));
}

#[test]
fn eight_bit_floats_round_to_even_and_saturate() {
    assert_eq!(E4M3.decode(E4M3.encode(17.0)), 16.0, "a tie goes to the even code");
    assert_eq!(E4M3.decode(E4M3.encode(19.0)), 20.0);
    assert_eq!(E4M3.decode(E4M3.encode(-1000.0)), -448.0);
    assert_eq!(E4M3.encode(2f32.powi(-10)), 0, "half of the least value");
    assert_eq!(E4M3.add(0x7e, 0x7e), 0x7e);
    assert_eq!(E5M2.add(0x7b, 0x7b), 0x7b);
    assert_eq!(Type::E4m3.reciprocal(1024).map(|s| s[0]), Some(0));
    assert_eq!(Type::E4m3.reciprocal(2).map(|s| E4M3.decode(s[0])), Some(0.5));
}

#[test]
fn sixteen_bit_sums_round_at_each_step() {
    let h = |x: f32| f16::from_f32(x).to_ne_bytes();
    assert_eq!(combine_element(Type::F16, Combine::Sum, h(2048.0), h(1.0)), h(2048.0));
    assert_eq!(combine_element(Type::F16, Combine::Sum, h(2048.0), h(3.0)), h(2052.0));
    let b = |x: f32| bf16::from_f32(x).to_ne_bytes();
    assert_eq!(combine_element(Type::Bf16, Combine::Sum, b(256.0), b(1.0)), b(256.0));
}

#[test]
fn scaling_rounds_to_the_type() {
    let mut x = 3f32.to_ne_bytes();
    scale(Type::F32, &mut x, &Type::F32.reciprocal(3).unwrap_or_default());
    assert_eq!(f32::from_ne_bytes(x), 3.0 * (1.0f32 / 3.0));
    let mut x = i32::MAX.to_ne_bytes();
    let mut two = Scalar::default();
    two[..4].copy_from_slice(&2i32.to_ne_bytes());
    scale(Type::I32, &mut x, &two);
    assert_eq!(i32::from_ne_bytes(x), -2);
}

#[test]
fn numbers_around_each_tie_go_to_the_nearer_eight_bit_float() {
    for (format, largest) in [(&E4M3, 0x7eu8), (&E5M2, 0x7b)] {
        for low in 0..largest {
            let (below, above) = (format.decode(low), format.decode(low + 1));
            let tie = (below + above) / 2.0;
            let even = low + low % 2;
            for (value, code) in [
                (below, low),
                (below.next_up(), low),
                (tie.next_down(), low),
                (tie, even),
                (tie.next_up(), low + 1),
                (above.next_down(), low + 1),
            ] {
                assert_eq!((format.encode(value), format.encode(-value)), (code, code | 0x80), "{value:e}");
            }
        }
    }
}

#[test]
fn eight_bit_sums_and_products_are_the_nearest_values() {
    for (format, largest) in [(&E4M3, 0x7eu8), (&E5M2, 0x7b)] {
        let finite: Vec<u8> = (0..=255u8).filter(|code| code & 0x7f <= largest).collect();
        let values: Vec<f64> = finite.iter().map(|code| f64::from(format.decode(*code))).collect();
        // The nearest value by checking all of them; a tie goes to the even code, a value beyond all to the last.
        let nearest = |x: f64| {
            let distance = |i: &usize| ((values[*i] - x).abs(), finite[*i] % 2);
            let best = (0..finite.len()).min_by(|a, b| distance(a).partial_cmp(&distance(b)).expect("no NaN here"));
            best.map(|i| values[i])
        };
        let mut sums = std::collections::HashMap::new();
        for (i, a) in finite.iter().enumerate() {
            for (j, b) in finite.iter().enumerate() {
                for (exact, got) in
                    [(values[i] + values[j], format.add(*a, *b)), (values[i] * values[j], format.multiply(*a, *b))]
                {
                    let expected = *sums.entry(exact.to_bits()).or_insert_with(|| nearest(exact));
                    assert_eq!(Some(f64::from(format.decode(got))), expected, "{a:#x} {b:#x} {exact}");
                }
            }
        }
    }
}
