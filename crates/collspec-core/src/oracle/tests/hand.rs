//! Cases worked out by hand.
use super::*;
use crate::num::decode_f64;

/// The admissible set as numbers, in ascending order.
fn set(dtype: DType, kind: ReduceKind, values: &[f64]) -> Vec<f64> {
    let (reduction, column) = case(dtype, kind, values);
    match reduction.right_results(&column, &mut Budget::default()).unwrap() {
        RightResults::Bits(bits) => vec![decode_f64(dtype, bits)],
        RightResults::AnyNan => vec![f64::NAN],
        RightResults::OneOf(choices) => choices.iter().map(|c| decode_f64(dtype, c.bits)).collect(),
        within => panic!("{within:?}"),
    }
}

fn exact(dtype: DType, kind: ReduceKind, values: &[f64]) -> Option<RightResults> {
    let (reduction, column) = case(dtype, kind, values);
    reduction.exact(&column)
}

fn bits(dtype: DType, value: f64) -> Option<RightResults> {
    Some(RightResults::Bits(encode_f64(dtype, value)))
}

#[test]
fn cancelling_f32_has_three_sums() {
    // 1 is lost when added to 1e8: both ones, one, or none may survive.
    assert_eq!(set(DType::F32, ReduceKind::Sum, &[1e8, 1.0, -1e8, 1.0]), [0.0, 1.0, 2.0]);
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[1e8, 1.0, -1e8, 1.0]), None);
    assert_eq!(exact(DType::F64, ReduceKind::Sum, &[1e8, 1.0, -1e8, 1.0]), bits(DType::F64, 2.0));
}

#[test]
fn f16_overflows_by_order_and_not_in_a_wide_accumulator() {
    let values = [60000.0, 60000.0, -60000.0];
    assert_eq!(set(DType::F16, ReduceKind::Sum, &values), [60000.0, f64::INFINITY]);
    let (reduction, column) = case(DType::F16, ReduceKind::Sum, &values);
    let judged = reduction.judge(&column, encode_f64(DType::F16, f64::INFINITY), &mut Budget::default());
    let Ruling::Accept { families: Some(families), set_size: Some(2) } = judged.ruling else { panic!("{judged:?}") };
    assert_eq!(families.names(), ["chain/each-step", "chain/mixed", "tree/each-step", "tree/mixed"]);
}

#[test]
fn products_of_powers_of_two_are_exact_on_any_number_of_ranks() {
    for dtype in [DType::F8e4m3, DType::F8e5m2, DType::Bf16, DType::F16, DType::F32, DType::F64] {
        let mut factors = vec![1.0; 1024];
        (factors[3], factors[700], factors[1023]) = (2.0, 0.5, -4.0);
        assert_eq!(exact(dtype, ReduceKind::Prod, &factors), bits(dtype, -4.0), "{dtype:?}");
    }
    // 448 is the largest: 2^8 fits, and 2^9 does not.
    let twos = |count: usize| [vec![2.0; count], vec![1.0; 9]].concat();
    assert_eq!(exact(DType::F8e4m3, ReduceKind::Prod, &twos(8)), bits(DType::F8e4m3, 256.0));
    assert_eq!(exact(DType::F8e4m3, ReduceKind::Prod, &twos(9)), None);
    // In some order 3 * 3 is reached, which has a bit too many for f8e5m2.
    assert_eq!(exact(DType::F8e5m2, ReduceKind::Prod, &[3.0, 3.0, 1.0]), None);
}

#[test]
fn a_reduction_has_a_bound_while_its_roundings_grow_less_than_its_result() {
    for (dtype, kind, most) in
        [(DType::F8e4m3, ReduceKind::Sum, 11), (DType::Bf16, ReduceKind::Sum, 177), (DType::F8e5m2, ReduceKind::Avg, 8)]
    {
        let reduction = |ranks| ColumnReduction { dtype, kind: kind.clone(), ranks };
        assert!(reduction(most).has_bound() && !reduction(most + 1).has_bound(), "{dtype:?}");
        let column = |ranks| (0..ranks).map(|rank| encode_f64(dtype, [0.75, 1.25][rank % 2])).collect::<Vec<u64>>();
        assert!(reduction(most).judgeable(&column(most)).is_ok(), "{dtype:?}");
        assert!(reduction(most + 1).judgeable(&column(most + 1)).is_err(), "{dtype:?}");
    }
    assert!(ColumnReduction { dtype: DType::I8, kind: ReduceKind::Prod, ranks: 1024 }.has_bound());
}

#[test]
fn eight_bits_saturate_at_each_step() {
    assert_eq!(exact(DType::F8e4m3, ReduceKind::Sum, &[448.0, 448.0]), bits(DType::F8e4m3, 448.0));
    // Saturated and then reduced, or not saturated at all.
    assert_eq!(set(DType::F8e4m3, ReduceKind::Sum, &[448.0, 448.0, -448.0]), [0.0, 448.0]);
    // An infinity is gone after one operation, but one rank only copies.
    let sum = [f64::INFINITY, 1.0];
    assert_eq!(exact(DType::F8e5m2, ReduceKind::Sum, &sum), bits(DType::F8e5m2, 57344.0));
    // Whether min and max go through half precision is the library's business.
    for (kind, inputs, right, wrong) in [
        (ReduceKind::Max, [0x7c, 0x3c], [0x7b, 0x7c], [0x3c, 0x7a, 0x7d, 0xfc]),
        (ReduceKind::Min, [0xfc, 0x3c], [0xfb, 0xfc], [0x3c, 0xfa, 0xfd, 0x7c]),
    ] {
        let reduction = ColumnReduction { dtype: DType::F8e5m2, kind, ranks: 2 };
        let judge = |bits| reduction.judge(&inputs, bits, &mut Budget::default()).ruling.accepted();
        assert!(right.into_iter().all(judge), "{inputs:x?}");
        assert!(!wrong.into_iter().any(judge), "{inputs:x?}");
        assert_eq!(reduction.canonical(&inputs), right[0]);
    }
    // Finite numbers are not in doubt.
    assert_eq!(exact(DType::F8e5m2, ReduceKind::Min, &[f64::INFINITY, 1.0]), bits(DType::F8e5m2, 1.0));
    let copy = ColumnReduction { dtype: DType::F8e5m2, kind: ReduceKind::Max, ranks: 1 };
    assert_eq!(copy.exact(&[0x7c]), Some(RightResults::Bits(0x7c)));
}

#[test]
fn avg_of_two_divided_by_three_knows_fused_products() {
    // premul_sum with the scalar of three ranks, on two: a*s rounded or not, and likewise b*s.
    let third = encode_f64(DType::F32, 1.0 / 3.0);
    // Chosen so that fusing matters.
    let (a, b) = (f32::from_bits(0x3f68_c2d2), f32::from_bits(0x3f51_7f64));
    let kind = ReduceKind::PreMulSum { scalars: vec![third; 2] };
    let s = f32::from_bits(third as u32);
    let by_machine = [a * s + b * s, a.mul_add(s, b * s), b.mul_add(s, a * s)];
    let found = set(DType::F32, kind, &[a.into(), b.into()]);
    assert!(by_machine.iter().any(|v| *v != by_machine[0]));
    for value in by_machine {
        assert!(found.contains(&value.into()), "{value} is not in {found:?}");
    }
    assert!(found.iter().all(|v| by_machine.iter().any(|m| f64::from(*m) == *v)));
}

#[test]
fn avg_by_a_power_of_two_is_exact() {
    assert_eq!(exact(DType::F32, ReduceKind::Avg, &[1.0, 2.0, 3.0, 5.0]), bits(DType::F32, 2.75));
    assert_eq!(exact(DType::F32, ReduceKind::Avg, &[1.0, 2.0, 3.0]), None);
    // 3 * bf16(1/13) is a bf16 number, but not the one next to 3/13.
    let mut three = vec![0.0; 13];
    three[..2].copy_from_slice(&[1.0, 2.0]);
    assert_eq!(exact(DType::Bf16, ReduceKind::Avg, &three), None);
    assert_eq!(exact(DType::Bf16, ReduceKind::Avg, &[0.0, 0.0, -0.0]), bits(DType::Bf16, 0.0));
    // Halving first stays in range (50000 is a tie), summing first overflows.
    assert_eq!(exact(DType::F16, ReduceKind::Avg, &[60000.0, 40000.0]), None);
    assert_eq!(set(DType::F16, ReduceKind::Avg, &[60000.0, 40000.0]), [49984.0, f64::INFINITY]);
}

#[test]
fn special_values() {
    let inf = f64::INFINITY;
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[1.0, f64::NAN, 2.0]), Some(RightResults::AnyNan));
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[inf, 1.0, -inf]), Some(RightResults::AnyNan));
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[inf, 1.0, 2.0]), bits(DType::F32, inf));
    assert_eq!(exact(DType::F32, ReduceKind::Prod, &[inf, 0.0, 2.0]), Some(RightResults::AnyNan));
    assert_eq!(exact(DType::F32, ReduceKind::Prod, &[-3.0, 0.0, 2.0]), bits(DType::F32, -0.0));
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[-0.0, -0.0, -0.0]), bits(DType::F32, -0.0));
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[-0.0, 0.0, -0.0]), bits(DType::F32, 0.0));
    assert_eq!(exact(DType::F32, ReduceKind::Sum, &[3.0, -1.0, -2.0]), bits(DType::F32, 0.0));
    // A number wins over a NaN; between zeros either.
    assert_eq!(exact(DType::Bf16, ReduceKind::Max, &[f64::NAN, -3.0, -4.0]), bits(DType::Bf16, -3.0));
    assert_eq!(exact(DType::Bf16, ReduceKind::Min, &[f64::NAN, f64::NAN]), Some(RightResults::AnyNan));
    assert_eq!(set(DType::F32, ReduceKind::Max, &[-0.0, 0.0, -1.0]), [-0.0, 0.0]);
    assert_eq!(exact(DType::F32, ReduceKind::Max, &[-0.0, -0.0]), bits(DType::F32, -0.0));
    // One rank copies, payload and all; but avg of floats multiplies.
    let one = |kind| ColumnReduction { dtype: DType::F32, kind, ranks: 1 };
    assert_eq!(one(ReduceKind::Sum).exact(&[0x7fc0_1234]), Some(RightResults::Bits(0x7fc0_1234)));
    assert_eq!(one(ReduceKind::Avg).exact(&[0x7fc0_1234]), Some(RightResults::AnyNan));
    assert_eq!(
        one(ReduceKind::PreMulSum { scalars: vec![0x4000_0000] }).exact(&[0x3f80_0000]),
        Some(RightResults::Bits(0x4000_0000))
    );
}

#[test]
fn products_by_order() {
    assert_eq!(exact(DType::F32, ReduceKind::Prod, &[3.0, 5.0, 0.5, -7.0]), bits(DType::F32, -52.5));
    // Overflow, or not, by order.
    assert_eq!(set(DType::F16, ReduceKind::Prod, &[300.0, 300.0, 0.125]), [11248.0, f64::INFINITY]);
    assert_eq!(exact(DType::F16, ReduceKind::Prod, &[300.0, 300.0, 0.0]), None);
}

#[test]
fn nan_observed_is_one_class() {
    let (reduction, column) = case(DType::F16, ReduceKind::Sum, &[60000.0, 60000.0, -60000.0, -60000.0]);
    // (60000 + 60000) + (-60000 - 60000) is inf - inf.
    let mut budget = Budget::default();
    assert!(reduction.judge(&column, 0xfe01, &mut budget).ruling.accepted());
    assert!(!reduction.judge(&column, 0x3c00, &mut budget).ruling.accepted());
}

#[test]
fn a_wrong_value_is_rejected_with_what_was_right() {
    let (reduction, column) = case(DType::F32, ReduceKind::Sum, &[1e8, 1.0, -1e8, 1.0]);
    let judged = reduction.judge(&column, encode_f64(DType::F32, 3.0), &mut Budget::default());
    let Ruling::Reject { answer: Some(answer) } = &judged.ruling else { panic!("{judged:?}") };
    assert_eq!(answer.text(DType::F32), "one of 0, 1, 2");
}

/// True if the bits may come out, and the families that give them.
fn judged(dtype: DType, kind: ReduceKind, column: &[u64], bits: u64) -> Option<Vec<String>> {
    let reduction = ColumnReduction { dtype, kind, ranks: column.len() };
    match reduction.judge(column, bits, &mut Budget::default()).ruling {
        Ruling::Accept { families, .. } => Some(families.map(FamilySet::names).unwrap_or_default()),
        _ => None,
    }
}

#[test]
fn an_average_may_divide_the_sum() {
    // Seven ranks: dividing and multiplying by 1/7 differ, in f32 and in f64.
    let single: Vec<f32> = (0..7).map(|rank| 0.3 + rank as f32 * 1.7).collect();
    let double: Vec<f64> = (0..7).map(|rank| 0.3 + f64::from(rank) * 1.7).collect();
    let found = (1..2000).find_map(|i| {
        let column: Vec<f32> = single.iter().map(|x| x * i as f32).collect();
        let sum = column.iter().copied().reduce(|a, b| a + b)?;
        (sum / 7.0 != sum * (1.0 / 7.0)).then(|| (column.iter().map(|x| x.to_bits().into()).collect::<Vec<u64>>(), sum))
    });
    let (column, sum) = found.unwrap();
    let families = judged(DType::F32, ReduceKind::Avg, &column, (sum / 7.0).to_bits().into()).unwrap();
    assert!(families.contains(&"chain/each-step/after-divided".to_owned()), "{families:?}");
    let found = (1..2000).find_map(|i| {
        let column: Vec<f64> = double.iter().map(|x| x * f64::from(i)).collect();
        let sum = column.iter().copied().reduce(|a, b| a + b)?;
        let parts = column.iter().map(|x| x * (1.0 / 7.0)).reduce(|a, b| a + b)?;
        let other = sum / 7.0 != sum * (1.0 / 7.0) && sum / 7.0 != parts;
        other.then(|| (column.iter().map(|x| x.to_bits()).collect::<Vec<u64>>(), sum))
    });
    let (column, sum) = found.unwrap();
    let families = judged(DType::F64, ReduceKind::Avg, &column, (sum / 7.0).to_bits()).unwrap();
    assert!(families.contains(&"chain/each-step/after-divided".to_owned()), "{families:?}");
    // A divisor that is wrong stays wrong.
    assert_eq!(judged(DType::F64, ReduceKind::Avg, &column, (sum / 6.0).to_bits()), None);
}

#[test]
fn an_average_may_divide_each_input() {
    let column: Vec<u64> = [1.7f32, 2.9, 0.4].iter().map(|x| x.to_bits().into()).collect();
    let parts = 1.7f32 / 3.0 + 2.9f32 / 3.0 + 0.4f32 / 3.0;
    assert!(judged(DType::F32, ReduceKind::Avg, &column, parts.to_bits().into()).is_some());
    // 1/3 of 8 bits has an error of three percent; a library that averages in f32 makes none.
    let column: Vec<u64> = [96.0, 104.0, 112.0].iter().map(|x| encode_f64(DType::F8e4m3, *x)).collect();
    for mean in [104.0, 112.0] {
        assert!(judged(DType::F8e4m3, ReduceKind::Avg, &column, encode_f64(DType::F8e4m3, mean)).is_some(), "{mean}");
    }
    assert!(judged(DType::F8e4m3, ReduceKind::Avg, &column, encode_f64(DType::F8e4m3, 128.0)).is_none());
}

#[test]
fn f32_may_be_accumulated_in_f64() {
    // Half an ulp of 1, twice: lost one by one, seen by a wide sum.
    let half = 2f32.powi(-24);
    let column: Vec<u64> = [1.0, half, -1.0, half * 0.5, 1.0].iter().map(|x: &f32| x.to_bits().into()).collect();
    let values = [1.0f64, half.into(), -1.0, f64::from(half) * 0.5, 1.0];
    let wide = values.iter().sum::<f64>() as f32;
    let families = judged(DType::F32, ReduceKind::Sum, &column, wide.to_bits().into()).unwrap();
    assert!(families.contains(&"chain/once".to_owned()), "{families:?}");
    assert_eq!(judged(DType::F32, ReduceKind::Sum, &column, wide.next_up().next_up().to_bits().into()), None);
}

#[test]
fn eight_bits_may_keep_their_products() {
    // 1.125 * 1.125 is 1.265625, between 1.25 and 1.375: three of them are 3.75 rounded each, 3.796875 at once, so 3.75;
    // of 1.375 * 1.375 = 1.890625, which is 1.875 or kept, five are 9.375 or 9.453125: 9 either way, but 17 tell.
    let scalar = encode_f64(DType::F8e4m3, 1.375);
    let kind = ReduceKind::PreMulSum { scalars: vec![scalar; 8] };
    let column: Vec<u64> =
        [1.375, 1.375, 1.375, 1.375, 1.375, 1.375, 1.375, 1.125].map(|x| encode_f64(DType::F8e4m3, x)).to_vec();
    let wide: f64 = column.iter().map(|bits| decode_f64(DType::F8e4m3, *bits) * 1.375).sum();
    let families = judged(DType::F8e4m3, kind, &column, encode_f64(DType::F8e4m3, wide)).unwrap();
    assert!(families.contains(&"chain/once/before-fused".to_owned()), "{families:?}");
}

#[test]
fn products_may_be_kept_in_a_wider_type() {
    let factors = [1.0009766f32, 1.0009766, 1.0009766, 1.0029297, 1.0048828].map(half::f16::from_f32);
    let column: Vec<u64> = factors.iter().map(|x| x.to_bits().into()).collect();
    let wide = half::f16::from_f32(factors.iter().map(|x| x.to_f32()).product());
    assert!(judged(DType::F16, ReduceKind::Prod, &column, wide.to_bits().into()).is_some());
}

#[test]
fn ranks_need_not_agree_on_what_is_the_same_number() {
    let open = |kind, a, b| ColumnReduction { dtype: DType::F32, kind, ranks: 2 }.may_differ_between_ranks(a, b);
    assert!(open(ReduceKind::Max, 0, 0x8000_0000) && open(ReduceKind::Min, 0x8000_0000, 0));
    assert!(!open(ReduceKind::Sum, 0, 0x8000_0000) && !open(ReduceKind::Max, 0, 1));
    assert!(open(ReduceKind::Sum, 0x7fc0_0000, 0xffc0_0001) && !open(ReduceKind::Sum, 0x7fc0_0000, 0x7f80_0000));
    let whole = ColumnReduction { dtype: DType::I32, kind: ReduceKind::Max, ranks: 2 };
    assert!(!whole.may_differ_between_ranks(0, i64::from(i32::MIN) as u64 & 0xffff_ffff));
}

#[test]
fn a_nan_decides_scaled_sums_of_any_number_of_ranks() {
    let counting: Vec<f64> = (0..9).map(f64::from).collect();
    let with = |rank: usize, value: f64| {
        let mut values = counting.clone();
        values[rank] = value;
        values
    };
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8e4m3, DType::F8e5m2] {
        let thirds = || ReduceKind::PreMulSum { scalars: vec![encode_f64(dtype, 1.0 / 3.0); 9] };
        for kind in [ReduceKind::Avg, thirds()] {
            for rank in [0, 4, 8] {
                let found = exact(dtype, kind.clone(), &with(rank, f64::NAN));
                assert_eq!(found, Some(RightResults::AnyNan), "{dtype:?} {kind:?} {rank}");
            }
        }
        // A scalar that is NaN, and infinity times zero.
        for (scalar, input) in [(f64::NAN, 1.0), (0.0, f64::INFINITY)] {
            if dtype == DType::F8e4m3 && input.is_infinite() {
                continue; // It has no infinity.
            }
            let mut scalars = vec![encode_f64(dtype, 1.0 / 3.0); 9];
            scalars[5] = encode_f64(dtype, scalar);
            let (mut reduction, mut column) = case(dtype, thirds(), &counting);
            reduction.kind = ReduceKind::PreMulSum { scalars };
            column[5] = if input.is_infinite() && dtype == DType::F8e5m2 { 0x7c } else { encode_f64(dtype, input) };
            assert_eq!(reduction.exact(&column), Some(RightResults::AnyNan), "{dtype:?} {scalar} * {input}");
        }
    }
}

#[test]
fn infinities_decide_scaled_sums_whose_products_are_rounded() {
    let (up, down) = (f64::INFINITY, f64::NEG_INFINITY);
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
        let thirds = ReduceKind::PreMulSum { scalars: vec![encode_f64(dtype, 1.0 / 3.0); 9] };
        for kind in [ReduceKind::Avg, thirds] {
            let values = |first, last| [first, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, last];
            assert_eq!(exact(dtype, kind.clone(), &values(up, down)), Some(RightResults::AnyNan), "{dtype:?} {kind:?}");
            assert_eq!(exact(dtype, kind.clone(), &values(up, 8.0)), bits(dtype, up), "{dtype:?} {kind:?}");
            assert_eq!(exact(dtype, kind.clone(), &values(0.0, down)), bits(dtype, down), "{dtype:?} {kind:?}");
        }
    }
    // Next to numbers that may overflow to the other infinity, the order decides.
    let large = f64::from(f32::MAX);
    let scalars = vec![encode_f64(DType::F32, 1.0 / 3.0); 6];
    let column = [up, -large, -large, -large, -large, -large];
    assert_eq!(exact(DType::F32, ReduceKind::PreMulSum { scalars }, &column), None);
}
