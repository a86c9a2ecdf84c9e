//! The 8- and 16-bit types against a slow reference at every code and every tie; the others by samples and hand.
use super::*;
use crate::scenario::case::ElementValue;
use DType::*;

const SMALL: [DType; 4] = [F16, Bf16, F8e4m3, F8e5m2];

/// Every finite code from zero up with its value, derived from the definition of the format rather than by `Format`.
fn ladder(dtype: DType) -> Vec<(u64, f64)> {
    let (fraction, bias, codes) = match dtype {
        F16 => (10, 15, 0x7c00),
        Bf16 => (7, 127, 0x7f80),
        F8e5m2 => (2, 15, 0x7c),
        F8e4m3 => (3, 7, 0x7f),
        _ => unreachable!(),
    };
    (0..codes)
        .map(|code: u64| {
            let (field, low) =
                ((code >> fraction) as i32, (code & ((1 << fraction) - 1)) as f64 / (1 << fraction) as f64);
            let value = match field {
                0 => low * 2f64.powi(1 - bias),
                _ => (1.0 + low) * 2f64.powi(field - bias),
            };
            (code, value)
        })
        .collect()
}

fn sign(dtype: DType) -> u64 {
    1 << (dtype.bits() - 1)
}

#[test]
fn every_code_decodes_and_comes_back() {
    for dtype in SMALL {
        let ladder = ladder(dtype);
        for &(code, value) in &ladder {
            assert_eq!(decode_f64(dtype, code).to_bits(), value.to_bits(), "{dtype:?} {code:#x}");
            assert_eq!(decode_f64(dtype, code | sign(dtype)).to_bits(), (-value).to_bits());
            assert_eq!(encode_f64(dtype, value), code);
            assert_eq!(encode_f64(dtype, -value), code | sign(dtype));
            assert!(!is_nan(dtype, code));
        }
        for code in ladder.len() as u64..sign(dtype) {
            let infinite = code == ladder.len() as u64 && dtype != F8e4m3;
            assert_eq!(is_nan(dtype, code), !infinite, "{dtype:?} {code:#x}");
            assert_eq!(decode_f64(dtype, code).is_nan(), !infinite);
            assert_eq!(decode_f64(dtype, code).is_infinite(), infinite);
        }
    }
}

#[test]
fn every_tie_goes_to_even_and_its_neighbours_do_not() {
    for dtype in SMALL {
        let ladder = ladder(dtype);
        for pair in ladder.windows(2) {
            let ((low, a), (high, b)) = (pair[0], pair[1]);
            let tie = a + (b - a) / 2.0;
            let even = if low & 1 == 0 { low } else { high };
            for (probe, want) in [(tie, even), (tie.next_down(), low), (tie.next_up(), high)] {
                assert_eq!(encode_f64(dtype, probe), want, "{dtype:?} {probe:e}");
                assert_eq!(encode_f64(dtype, -probe), want | sign(dtype), "{dtype:?} -{probe:e}");
            }
        }
        let (top, largest) = ladder[ladder.len() - 1];
        let edge = largest + (largest - ladder[ladder.len() - 2].1) / 2.0;
        let over = if matches!(dtype, F16 | Bf16) { top + 1 } else { top };
        for (probe, want) in [(edge.next_down(), top), (edge, over), (f64::MAX, over), (f64::INFINITY, over)] {
            assert_eq!(encode_f64(dtype, probe), want, "{dtype:?} {probe:e}");
            assert_eq!(encode_f64(dtype, -probe), want | sign(dtype));
        }
        assert_eq!(encode_f64(dtype, f64::NAN), canonical_nan(dtype));
        assert_eq!(max_finite(dtype), Some(largest));
    }
}

#[test]
fn other_crates_agree_where_they_are_right() {
    for dtype in SMALL {
        for pair in ladder(dtype).windows(2) {
            let tie = pair[0].1 + (pair[1].1 - pair[0].1) / 2.0;
            for probe in [tie as f32, (tie as f32).next_up(), (tie as f32).next_down(), -(tie as f32)] {
                let (got, other) = (
                    encode_f64(dtype, f64::from(probe)),
                    match dtype {
                        F16 => u64::from(half::f16::from_f32(probe).to_bits()),
                        Bf16 => u64::from(half::bf16::from_f32(probe).to_bits()),
                        F8e4m3 => u64::from(float8::F8E4M3::from_f32(probe).to_bits()),
                        _ => u64::from(float8::F8E5M2::from_f32(probe).to_bits()),
                    },
                );
                assert_eq!(got, other, "{dtype:?} {probe:e}");
            }
        }
    }
}

#[test]
fn f64_to_16_bits_rounds_once() {
    // 1 + half a place + a little: through f32 the little is lost and the tie goes down.
    assert_eq!(encode_f64(F16, 1.0 + 2f64.powi(-11) + 2f64.powi(-40)), 0x3c01);
    assert_eq!(encode_f64(Bf16, 1.0 + 2f64.powi(-8) + 2f64.powi(-40)), 0x3f81);
    assert_eq!(encode_int(F16, 2049 * 4), encode_f64(F16, 8196.0));
    assert_eq!(encode_int(F32, (1 << 24) + 1), 0x4b80_0000);
    assert_eq!(encode_int(F32, (1 << 24) + 3), 0x4b80_0002);
    // 2^60 + 2^36 + 1 lies above a tie of f32, but f64 rounds it onto the tie.
    assert_eq!(encode_int(F32, (1 << 60) + (1 << 36) + 1), u64::from(2f32.powi(60).next_up().to_bits()));
    assert_eq!(encode_int(F64, i128::from(i64::MIN)), (-(2f64.powi(63))).to_bits());
    assert_eq!(encode_int(F8e4m3, 1_000_000), 0x7e);
    assert_eq!(encode_int(F16, -1_000_000), 0xfc00);
}

#[test]
fn f32_and_f64_of_the_general_rounder_are_the_machines() {
    let source = Random::new(U64, 7, None, None);
    for i in 0..200_000 {
        let (mantissa, exponent) = (source.bits(0, i) >> 11, (source.bits(1, i) % 320) as i32 - 180);
        let value = mantissa as f64 * 2f64.powi(exponent - 53);
        for dtype in [F32, F64] {
            let format = FloatFormat::of(dtype).unwrap();
            assert_eq!(round(&format, false, u128::from(mantissa), exponent - 53), encode_f64(dtype, value));
        }
        // A longer mantissa, against the conversion of whole numbers.
        let long = u128::from(source.bits(2, i)) << 40 | u128::from(source.bits(3, i) >> 24);
        assert_eq!(encode_int(F32, long as i128), u64::from((long as f32).to_bits()));
        assert_eq!(encode_int(F64, long as i128), (long as f64).to_bits());
    }
}

#[test]
fn small_formats_are_rounded_as_the_general_rounder_does() {
    let source = Random::new(U64, 11, None, None);
    let rounded = |dtype, value: f64| {
        let format = FloatFormat::of(dtype).unwrap();
        match FloatFormat::of(F64).unwrap().parts(value.to_bits()) {
            Some((negative, mantissa, exponent)) => round(&format, negative, u128::from(mantissa), exponent),
            None => format.signed(value < 0.0, format.too_large()),
        }
    };
    let edges = [0.0, -0.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY];
    for dtype in SMALL {
        for value in edges {
            assert_eq!(encode_f64(dtype, value), rounded(dtype, value), "{dtype:?} {value:e}");
        }
        for i in 0..100_000 {
            let any = f64::from_bits(source.bits(0, i));
            // Exponents about those of the format, and mantissas with many zeros, so that there are ties.
            let sparse = source.bits(1, i) & source.bits(2, i) & source.bits(3, i) >> (i % 52);
            let exponent = 1023 - 160 + source.bits(4, i) % 320;
            let near = f64::from_bits((i & 1) << 63 | exponent << 52 | sparse & ((1 << 52) - 1));
            for value in [any, near].into_iter().filter(|value| !value.is_nan()) {
                assert_eq!(encode_f64(dtype, value), rounded(dtype, value), "{dtype:?} {value:e}");
            }
            let whole = i128::from(source.bits(5, i) as i64 >> (i % 64));
            let format = FloatFormat::of(dtype).unwrap();
            assert_eq!(encode_int(dtype, whole), round(&format, whole < 0, whole.unsigned_abs(), 0), "{whole}");
        }
    }
}

#[test]
fn the_rounder_takes_mantissas_of_any_length() {
    let format = FloatFormat::of(F16).unwrap();
    // The least value is 2^-24; these lie at about half of it, and next to that.
    assert_eq!(round(&format, false, u128::MAX, -24 - 128), 0x0001);
    assert_eq!(round(&format, false, u128::MAX, -24 - 129), 0x0000);
    assert_eq!(round(&format, false, 1 << 127, -24 - 128), 0x0000);
    assert_eq!(round(&format, false, (1 << 127) + 1, -24 - 128), 0x0001);
    assert_eq!(round(&format, true, u128::MAX, -24 - 130), 0x8000);
    assert_eq!(round(&format, false, u128::MAX, -128), 0x3c00);
    assert_eq!(round(&format, false, u128::MAX, 99_000), 0x7c00);
    assert_eq!(round(&format, false, 1, -99_000), 0);
}

#[test]
fn integers_wrap_and_cut() {
    assert_eq!(encode_int(I8, 200), 200);
    assert_eq!(decode(I8, 200), Number::Int(-56));
    assert_eq!(encode_int(U8, -1), 255);
    assert_eq!(encode_f64(I32, -2.9), 0xffff_fffe);
    assert_eq!(encode_f64(U8, 256.5), 0);
    assert_eq!(encode_f64(I64, 2f64.powi(70) + 2f64.powi(60)), 1 << 60);
    assert_eq!(encode_f64(U64, 1e300), 0);
    assert_eq!(encode_f64(I32, 0.75), 0);
    assert_eq!(encode_f64(I32, -0.75), 0);
    assert_eq!(encode_f64(I32, f64::NAN), 0);
    assert_eq!(encode_f64(I32, f64::INFINITY), 0);
    assert_eq!(decode(U64, u64::MAX), Number::Int((1 << 64) - 1));
    assert_eq!(int_range(I64), Some((i64::MIN.into(), i64::MAX.into())));
    assert_eq!(int_range(U64), Some((0, u64::MAX.into())));
}

#[test]
fn text_is_short_and_reads_back() {
    let text_of = |dtype, value| element_text(dtype, encode_f64(dtype, value));
    for (value, want) in [
        (4.0, "4"),
        (0.1, "0.1"),
        (-0.0, "-0.0"),
        (1e30, "1e30"),
        (-2.5e-9, "-2.5e-9"),
        (123.25, "123.25"),
        (1e-5, "0.00001"),
        (f64::NAN, "nan"),
        (f64::NEG_INFINITY, "-inf"),
        (1e8, "100000000"),
    ] {
        assert_eq!(text_of(F32, value), want);
    }
    assert_eq!(text_of(F8e4m3, 448.0), "448");
    assert_eq!(text_of(F64, 0.1 + 0.2), "0.30000000000000004");
    assert_eq!(element_text(F32, 1), "1e-45");
    assert_eq!(element_text(I8, 200), "-56");
    assert_eq!(element_hex(Bf16, 0x7fc1), "0x7fc1");
    assert_eq!(element_hex(U8, 7), "0x07");
    for dtype in SMALL {
        for (code, _) in ladder(dtype) {
            assert_eq!(encode_f64(dtype, element_text(dtype, code).parse().unwrap()), code, "{dtype:?} {code:#x}");
        }
    }
}

#[test]
fn elements_lie_in_bytes() {
    let mut bytes = [0u8; 12];
    put_element(F32, &mut bytes, 2, 0x1234_5678);
    put_element(F32, &mut bytes, 3, 0xffff_ffff);
    assert_eq!(bytes[8..], [0x78, 0x56, 0x34, 0x12]);
    assert_eq!(get_element(F32, &bytes, 2), 0x1234_5678);
    assert_eq!(get_element(F32, &bytes, usize::MAX), 0);
}

#[test]
fn random_elements_never_change() {
    assert_eq!(Random::new(U64, 0, None, None).bits(0, 0), 0x2382_75bc_38fc_be91);
    assert_eq!(Random::new(U64, 1, None, None).bits(2, 3), 0x6ae5_15c1_c0ac_7e37);
    assert_eq!(element_hex(F32, Random::new(F32, 42, None, None).bits(1, 5)), "0x3eaae6e4");
}

#[test]
fn random_elements_stay_in_range() {
    for dtype in DType::ALL {
        let (low, high) = (ElementValue::Int(2), ElementValue::Int(5));
        let source = Random::new(dtype, 3, Some(&low), Some(&high));
        let mut seen = std::collections::BTreeSet::new();
        for i in 0..4_000 {
            let value = decode(dtype, source.bits(i % 4, i / 4)).as_f64();
            assert!(2.0 <= value && if dtype.is_float() { value < 5.0 } else { value <= 5.0 }, "{dtype:?} {value}");
            seen.insert(value.to_bits());
        }
        assert!(if dtype.is_float() { seen.len() > 4 } else { seen.len() == 4 }, "{dtype:?} {}", seen.len());
    }
    for (dtype, low, high) in
        DType::ALL.into_iter().flat_map(|t| [(t, None, None), (t, Some(0), Some(4)), (t, Some(1), Some(0))])
    {
        let (low, high) = (low.map(ElementValue::Int), high.map(ElementValue::Int));
        let source = Random::new(dtype, 9, low.as_ref(), high.as_ref());
        let mut bytes = vec![0; 1003 * dtype.size()];
        source.fill(5, 0, &mut bytes);
        for i in 0..1003 {
            assert_eq!(get_element(dtype, &bytes, i), source.bits(5, i as u64), "{dtype:?} {i}");
        }
    }
    let empty = Random::new(F32, 3, Some(&ElementValue::Int(2)), Some(&ElementValue::Int(2)));
    assert_eq!(empty.bits(0, 0), encode_f64(F32, 2.0));
}

#[test]
fn bytes_repeat_and_elements_are_put_in_a_row() {
    for len in 0..20 {
        let mut bytes: Vec<u8> = (0..len).collect();
        repeat_period(&mut bytes, 3);
        assert!(bytes.iter().enumerate().all(|(i, b)| usize::from(*b) == i % 3), "{bytes:?}");
    }
    for dtype in DType::ALL {
        let (mut one, mut all) = (vec![0; 5 * dtype.size()], vec![0; 5 * dtype.size()]);
        (0..5).for_each(|i| put_element(dtype, &mut one, i, 0x0102_0304_0506_0708 * i as u64));
        put_elements(dtype, &mut all, (0..9).map(|i| 0x0102_0304_0506_0708 * i));
        assert_eq!(one, all, "{dtype:?}");
        let values = [0.0, -0.0, 1.5, -2.75e-5, 1e-310, 1e9, -1e300, f64::INFINITY, f64::NAN, 255.5, 3.0];
        let (mut one, mut all) = (vec![0; 9 * dtype.size()], vec![0; 9 * dtype.size()]);
        values.iter().enumerate().for_each(|(i, v)| put_element(dtype, &mut one, i, encode_f64(dtype, *v)));
        put_floats(dtype, &mut all, &values);
        assert_eq!(one, all, "{dtype:?}");
    }
}

#[test]
fn whole_numbers_that_a_type_cannot_hold_have_neighbours() {
    for (dtype, v, wanted) in [
        (Bf16, 257, Some((256, Some(258)))),
        (Bf16, -257, Some((-258, Some(-256)))),
        (Bf16, 256, None),
        (Bf16, 1 << 100, None),
        (F16, 2049, Some((2048, Some(2050)))),
        (F16, 65505, Some((65504, None))),
        (F16, -65505, Some((-65504, None))),
        (F8e4m3, 17, Some((16, Some(18)))),
        (F8e4m3, 450, Some((448, None))),
        (F8e5m2, 9, Some((8, Some(10)))),
        (F32, (1 << 24) + 1, Some((1 << 24, Some((1 << 24) + 2)))),
        (F64, i128::MIN, None),
        (U8, 300, None),
    ] {
        let found = super::neighbours(dtype, v);
        assert_eq!(found, wanted, "{dtype:?} {v}");
    }
    // A number without neighbours is held exactly, and neighbours themselves are held exactly.
    for dtype in [F16, Bf16, F8e4m3, F8e5m2] {
        for v in -400i128..=400 {
            let held = |v: i128| decode_f64(dtype, encode_int(dtype, v)) == v as f64;
            match super::neighbours(dtype, v) {
                None => assert!(held(v), "{dtype:?} {v}"),
                Some((low, high)) => {
                    assert!(!held(v) && held(low) && low < v, "{dtype:?} {v}");
                    assert!(high.is_some_and(|high| held(high) && v < high), "{dtype:?} {v}");
                }
            }
        }
    }
}

#[test]
fn a_range_of_random_numbers_can_be_empty() {
    let empty = |dtype, low: Option<f64>, high: Option<f64>| {
        let value = |v: Option<f64>| v.map(ElementValue::Float);
        super::empty_range(dtype, value(low).as_ref(), value(high).as_ref()).is_some()
    };
    assert!(!empty(F32, None, None) && !empty(I8, None, None));
    assert!(empty(F32, Some(1.0), None) && empty(F32, None, Some(-1.0)));
    assert!(!empty(I8, Some(127.0), None) && !empty(I8, Some(3.0), Some(3.0)) && empty(I8, Some(4.0), Some(3.0)));
    assert!(empty(Bf16, Some(1.0), Some(1.0001)) && !empty(F32, Some(1.0), Some(1.0001)));
    let int = |v: i128| Some(ElementValue::Int(v));
    assert!(super::empty_range(I64, int((1 << 53) + 1).as_ref(), int(1 << 53).as_ref()).is_some());
}
