//! Laws that hold for any column, and the bound against random trees.
use super::super::admissible::GROUPS;
use super::super::budget::Purpose;
use super::brute::{columns, kind};
use super::*;
use crate::num::{Random, decode_f64, get_element};
use crate::scenario::case::ElementValue;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn buffers_and_columns_agree(
        (dtype, elements) in columns(12..=12),
        which in 0usize..6,
        ranks in prop::sample::select(vec![1usize, 2, 3, 4, 6]),
        scalars in prop::collection::vec(prop::sample::select(vec![0.0, 1.0, -2.0, 0.5, 3.0, 1.5]), 6),
    ) {
        let reduction = ColumnReduction { dtype, kind: kind(which, dtype, &scalars[..ranks]), ranks };
        let rows: Vec<Vec<u8>> = elements
            .chunks(12 / ranks)
            .map(|row| row.iter().flat_map(|bits| bits.to_le_bytes()[..dtype.size()].to_vec()).collect())
            .collect();
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let answers: Vec<Option<RightResults>> = (0..12 / ranks).map(|i| reduction.exact(&reduction.column(&inputs, i))).collect();
        match reduction.exact_buffer(&inputs) {
            Err(first) => prop_assert_eq!(answers.iter().position(Option::is_none), Some(first)),
            Ok(buffer) => for (i, answer) in answers.iter().enumerate() {
                let bits = get_element(dtype, &buffer.bytes, i);
                prop_assert_eq!(bits, reduction.canonical(&reduction.column(&inputs, i)));
                let special = buffer.special.iter().find(|(index, _)| *index == i).map(|(_, answer)| answer.clone());
                prop_assert_eq!(answer, &Some(special.unwrap_or(RightResults::Bits(bits))));
            },
        }
    }

    #[test]
    fn order_of_ranks_does_not_matter((dtype, column) in columns(3..=6), which in 0usize..5, turn in 1usize..6) {
        let reduction = ColumnReduction { dtype, kind: kind(which, dtype, &[]), ranks: column.len() };
        let mut turned = column.clone();
        turned.rotate_left(turn % column.len());
        let mut budget = Budget::new(10_000_000);
        let first = reduction.right_results(&column, &mut budget);
        prop_assert_eq!(first, reduction.right_results(&turned, &mut Budget::new(10_000_000)));
    }

    /// The whole search, and that without the inputs that change nothing, find the same values.
    #[test]
    fn neutral_inputs_change_nothing(
        (dtype, mut column) in columns(5..=6),
        which in prop::sample::select(vec![0usize, 1, 2, 5]),
        neutral in prop::collection::vec(prop::sample::select(vec![None, Some(0.0), Some(-0.0)]), 6),
        scalars in prop::collection::vec(prop::sample::select(vec![0.0, -0.0, 1.0, -2.0, 0.3, 1e-3]), 6),
    ) {
        let reduction = ColumnReduction { dtype, kind: kind(which, dtype, &scalars[..column.len()]), ranks: column.len() };
        for (bits, neutral) in column.iter_mut().zip(neutral) {
            if let Some(zero) = neutral {
                *bits = encode_f64(dtype, if which == 1 { 1.0 } else { zero });
            }
        }
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(dtype, *bits)).collect();
        let Some((few, values_of_few)) = reduction.without_neutral_inputs(&values) else { return Ok(()) };
        let found = |reduction: &ColumnReduction, values: &[f64]| {
            reduction.search(values, GROUPS, Purpose::Verdict, &mut Budget::default()).unwrap().bits()
        };
        prop_assert_eq!(found(&reduction, &values), found(&few, &values_of_few));
    }
}

#[test]
fn few_numbers_among_many_ranks_are_searched() {
    let numbers = [[1.0, 2f64.powi(-24), 0.0], [1.0, 2f64.powi(-24) * 1.5, 0.0], [1.0, 2f64.powi(-25), 2f64.powi(-25)]];
    for (numbers, sums) in numbers.iter().zip([&[0u32][..], &[1], &[0]]) {
        let mut values = vec![0.0; 16];
        for (place, number) in [3, 8, 14].into_iter().zip(numbers) {
            values[place] = *number;
        }
        let (reduction, column) = case(DType::F32, ReduceKind::Sum, &values);
        for off in 0..4u32 {
            let bits = (1f32.to_bits() + off).into();
            let judged = reduction.judge(&column, bits, &mut Budget::default());
            assert_eq!(judged.ruling.accepted(), sums.contains(&off), "{numbers:?} +{off}: {judged:?}");
            assert_ne!(judged.lane, ElementLane::Bounded);
        }
    }
}

#[test]
fn few_numbers_are_bounded_once_the_budget_is_used_up() {
    let mut values = vec![0.0; 16];
    values[2..5].copy_from_slice(&[1.0, 2f64.powi(-24), 2f64.powi(-24)]);
    let (reduction, column) = case(DType::F32, ReduceKind::Sum, &values);
    let mut poor = Budget::new(0);
    let judged = reduction.judge(&column, 1f32.to_bits().into(), &mut poor);
    assert!(judged.ruling.accepted() && judged.lane == ElementLane::Admissible, "a chain: {judged:?}");
    let judged = reduction.judge(&column, (1f32.to_bits() + 3).into(), &mut poor);
    assert!(poor.is_exhausted() && judged.lane == ElementLane::Bounded, "{judged:?}");
}

#[test]
fn an_average_over_so_many_ranks_that_a_part_of_it_is_zero_is_not_zero() {
    // 1/1024 is below the least f8e4m3, and so is 0 when it is rounded.
    let values: Vec<f64> = (0..1024).map(|rank| if rank < 7 { 448.0 } else { 16.0 }).collect();
    let (reduction, column) = case(DType::F8e4m3, ReduceKind::Avg, &values);
    assert!(reduction.without_neutral_inputs(&values).is_none());
    assert!(reduction.judgeable(&column).is_err());
}

/// A random tree in f32 with the type's rounding at each join.
fn random_tree(dtype: DType, mut nodes: Vec<f64>, source: &Random, seed: u64, multiply: bool) -> u64 {
    let mut step = 0;
    while nodes.len() > 1 {
        let mut pick = || {
            step += 1;
            let at = source.bits(seed, step) as usize % nodes.len();
            nodes.swap_remove(at)
        };
        let (a, b) = (pick(), pick());
        let exact = if multiply { a * b } else { a + b };
        nodes.push(decode_f64(dtype, encode_f64(dtype, exact)));
    }
    encode_f64(dtype, nodes[0])
}

#[test]
fn random_trees_stay_within_the_bound() {
    let source = Random::new(DType::U64, 5, None, None);
    for dtype in [DType::F32, DType::F16, DType::Bf16, DType::F64] {
        for ranks in [9, 17, 40] {
            for seed in 0..60 {
                for kind in [ReduceKind::Sum, ReduceKind::Avg, ReduceKind::Prod] {
                    let multiply = kind == ReduceKind::Prod;
                    let (low, high) = if multiply { (0.9, 1.1) } else { (-1.0, 1.0) };
                    let inputs =
                        Random::new(dtype, seed, Some(&ElementValue::Float(low)), Some(&ElementValue::Float(high)));
                    let column: Vec<u64> = (0..ranks).map(|r| inputs.bits(r, ranks)).collect();
                    let reduction = ColumnReduction { dtype, kind, ranks: ranks as usize };
                    let scalars = reduction.scalar_values();
                    let leaves = column.iter().enumerate().map(|(r, bits)| {
                        let x = decode_f64(dtype, *bits);
                        scalars.get(r).map_or(x, |s| decode_f64(dtype, encode_f64(dtype, x * s)))
                    });
                    let result = random_tree(dtype, leaves.collect(), &source, seed, multiply);
                    let answer = reduction.right_results(&column, &mut Budget::default()).unwrap();
                    assert!(
                        answer.admits(dtype, result),
                        "{dtype:?} {ranks} {:?}: {:#x} not {}",
                        reduction.kind,
                        result,
                        answer.text(dtype)
                    );
                    let judged = reduction.judge(&column, result, &mut Budget::default());
                    assert!(judged.ruling.accepted() && judged.lane != ElementLane::Exact, "{judged:?}");
                    // Far off is out.
                    let off =
                        encode_f64(dtype, decode_f64(dtype, result) + if dtype == DType::Bf16 { 16.0 } else { 2.0 });
                    assert!(!reduction.judge(&column, off, &mut Budget::default()).ruling.accepted(), "{dtype:?}");
                }
            }
        }
    }
}

#[test]
fn products_that_become_subnormal_stay_within_the_wide_bound() {
    let source = Random::new(DType::U64, 6, None, None);
    let mut met = 0;
    for (dtype, ranks) in [(DType::F8e4m3, 9), (DType::F16, 9), (DType::F16, 20), (DType::F32, 12)] {
        for seed in 0..300 {
            // from numbers above 1 down to products among the subnormal numbers
            let low =
                2f64.powi(crate::oracle::float::Float::of(dtype).unwrap().min_normal_exponent() / ranks as i32 - 1);
            let inputs =
                Random::new(dtype, seed, Some(&ElementValue::Float(-4.0 * low)), Some(&ElementValue::Float(8.0 * low)));
            let column: Vec<u64> = (0..ranks).map(|r| inputs.bits(r, ranks)).collect();
            let reduction = ColumnReduction { dtype, kind: ReduceKind::Prod, ranks: ranks as usize };
            let values: Vec<f64> = column.iter().map(|bits| decode_f64(dtype, *bits)).collect();
            if reduction.judgeable(&column).is_ok() {
                continue;
            }
            met += 1;
            let large: f64 = values.iter().map(|value| value.abs()).filter(|value| *value > 1.0).product();
            let result = random_tree(dtype, values, &source, seed, true);
            let judged = reduction.judge(&column, result, &mut Budget::default());
            assert!(judged.ruling.accepted(), "{dtype:?} {column:x?} {result:#x}: {judged:?}");
            if large > 20.0 {
                continue;
            }
            let off = reduction.judge(&column, encode_f64(dtype, 100.0), &mut Budget::default());
            assert!(!off.ruling.accepted(), "{dtype:?} {column:x?}: {off:?}");
        }
    }
    assert!(met > 300, "{met}");
}

#[test]
fn the_edges_of_the_bound_decide() {
    for dtype in [DType::F32, DType::F16, DType::F64] {
        for (seed, kind) in (0..30).flat_map(|seed| [(seed, ReduceKind::Sum), (seed, ReduceKind::Avg)]) {
            let (ranks, inputs) = (9 + seed as usize, Random::new(dtype, seed, None, None));
            let column: Vec<u64> = (0..ranks as u64).map(|r| inputs.bits(r, 7)).collect();
            let reduction = ColumnReduction { dtype, kind, ranks };
            let Ok(RightResults::Within { lo, hi, .. }) = reduction.right_results(&column, &mut Budget::default())
            else {
                panic!()
            };
            let accepts = |bits| reduction.judge(&column, bits, &mut Budget::new(0)).ruling.accepted();
            let value = |bits| decode_f64(dtype, bits);
            assert!(value(lo) < 0.0 || value(hi) > 0.0);
            assert!(accepts(lo) && accepts(hi), "{dtype:?} {seed}");
            // One code away from zero is one value further out.
            let outward = |bits: u64, inward: bool| if inward { bits - 1 } else { bits + 1 };
            assert!(!accepts(outward(hi, value(hi) < 0.0)), "{dtype:?} {seed}");
            assert!(!accepts(outward(lo, value(lo) > 0.0)), "{dtype:?} {seed}");
        }
    }
}

#[test]
fn the_bound_is_as_derived() {
    // 16 ranks of 1 + 2^-23 except for two that cancel: G = 16w/(1 - 16w), w only slightly above u, sum|x| about 16.
    let mut values = vec![1.0 + 2f64.powi(-23); 16];
    values[3] = -0.75;
    let (reduction, column) = case(DType::F32, ReduceKind::Sum, &values);
    let RightResults::Within { lo, hi, .. } = reduction.right_results(&column, &mut Budget::default()).unwrap() else {
        panic!()
    };
    let size: f64 = values.iter().map(|v| v.abs()).sum();
    let width = decode_f64(DType::F32, hi) - decode_f64(DType::F32, lo);
    let error = 16.0 * 2f64.powi(-24) * size;
    assert!(2.0 * error <= width && width <= 2.0 * error + 4.0 * 2f64.powi(-20), "{width} {error}");
}

#[test]
fn every_rounding_counts_in_the_bound() {
    // Inputs that nearly cancel, so that the type is fine enough there to show the bound's width.
    let values: Vec<f64> = (0..16).map(|i| if i % 2 == 0 { 1.25 } else { -1.5 } + f64::from(i) / 32.0).collect();
    let size: f64 = values.iter().map(|v| v.abs()).sum();
    let third = 1.0 / 3.0;
    for (dtype, kind, roundings, unit, factor) in [
        (DType::F32, ReduceKind::Sum, 16.0, 2f64.powi(-24), 1.0),
        (DType::F32, ReduceKind::Avg, 18.0, 2f64.powi(-24), 1.0 / 16.0),
        (
            DType::F32,
            ReduceKind::PreMulSum { scalars: vec![encode_f64(DType::F32, third); 16] },
            17.0,
            2f64.powi(-24),
            third,
        ),
        (DType::F16, ReduceKind::Sum, 16.0, 2f64.powi(-11) + 2f64.powi(-24), 1.0),
        (
            DType::F16,
            ReduceKind::PreMulSum { scalars: vec![encode_f64(DType::F16, third); 16] },
            17.0,
            2f64.powi(-11),
            third,
        ),
    ] {
        let (reduction, column) = case(dtype, kind, &values);
        let RightResults::Within { lo, hi, .. } = reduction
            .bound(
                super::super::float::Float::of(dtype).unwrap(),
                &column.iter().map(|bits| decode_f64(dtype, *bits)).collect::<Vec<_>>(),
                &reduction.scalar_values(),
            )
            .unwrap()
        else {
            panic!()
        };
        let width = decode_f64(dtype, hi) - decode_f64(dtype, lo);
        let want = 2.0 * (f64::powf(1.0 + unit, roundings) - 1.0) * size * factor;
        assert!(want <= width * 1.001 && width <= want * 1.02, "{dtype:?} {roundings}: {width} for {want}");
    }
}

#[test]
fn rotated_chains_need_no_bound() {
    let inputs = Random::new(DType::F32, 4, None, None);
    let values: Vec<f64> =
        (0..12).map(|r| decode_f64(DType::F32, inputs.bits(r, 0)) * 3f64.powi(r as i32 % 5)).collect();
    let (reduction, column) = case(DType::F32, ReduceKind::Sum, &values);
    let values: Vec<f64> = column.iter().map(|bits| decode_f64(DType::F32, *bits)).collect();
    let mut seen = std::collections::BTreeSet::new();
    let add = |sum: f64, v: f64| f64::from((sum + v) as f32);
    for start in 0..12 {
        let mut turned = values.clone();
        turned.rotate_left(start);
        let forwards = turned.iter().copied().reduce(add).unwrap();
        let backwards = turned.iter().rev().copied().reduce(add).unwrap();
        for result in [forwards, backwards] {
            seen.insert(result.to_bits());
            let judged = reduction.judge(&column, encode_f64(DType::F32, result), &mut Budget::default());
            assert!(judged.lane == ElementLane::Admissible && judged.ruling.accepted(), "{start} {judged:?}");
        }
    }
    assert!(seen.len() > 2, "the order matters: {seen:?}");
}

#[test]
fn one_budget_serves_many_reductions() {
    let mut budget = Budget::default();
    for kind in [ReduceKind::Sum, ReduceKind::Avg, ReduceKind::Prod, ReduceKind::Sum] {
        let (reduction, column) = case(DType::F32, kind, &[0.1, 0.7, 0.3]);
        let want = reduction.right_results(&column, &mut Budget::default());
        assert_eq!(reduction.right_results(&column, &mut budget), want);
        assert!(reduction.judge(&column, reduction.canonical(&column), &mut budget).ruling.accepted());
    }
}

#[test]
fn buffers_do_not_lose_the_smallest() {
    let rows: Vec<[u8; 8]> =
        [2f64.powi(890), 2f64.powi(-1000), 2f64.powi(-1000)].iter().map(|v| v.to_le_bytes()).collect();
    let inputs: Vec<&[u8]> = rows.iter().map(|row| row.as_slice()).collect();
    let reduction = ColumnReduction { dtype: DType::F64, kind: ReduceKind::Sum, ranks: 3 };
    assert_eq!(reduction.exact_buffer(&inputs), Err(0));
}

#[test]
fn what_cannot_be_judged_is_said_beforehand() {
    let refused = |dtype, kind, values: &[f64]| {
        let (reduction, column) = case(dtype, kind, values);
        let planned = reduction.judgeable(&column);
        let judged = reduction.judge(&column, 0x1234, &mut Budget::default());
        // Products that may become subnormal have a wider bound, for inputs that a run gave.
        let wide = planned.as_ref().is_err_and(|why| why.contains("least normal"));
        let unable = matches!(judged.ruling, Ruling::Unable { .. });
        assert_eq!(planned.is_err(), unable || wide, "{planned:?} {judged:?}");
        planned.err()
    };
    let mut large = vec![60000.0; 9];
    large[4] = -59968.0;
    assert_eq!(refused(DType::F16, ReduceKind::Sum, &large).unwrap(), "a partial result may overflow f16");
    assert_eq!(refused(DType::F32, ReduceKind::Sum, &large), None);
    let mut infinite = vec![0.1; 9];
    infinite[2] = f64::INFINITY;
    infinite[3] = 3e38;
    assert_eq!(
        refused(DType::F32, ReduceKind::Sum, &infinite).unwrap(),
        "rank 2's inf makes the result depend on the order"
    );
    let tiny = refused(DType::F32, ReduceKind::Prod, &[1.1e-5; 9]).unwrap();
    assert_eq!(tiny, "a partial product may fall below the least normal f32 number");
    let coarse = refused(DType::F8e5m2, ReduceKind::Sum, &[0.875; 12]).unwrap();
    assert!(coarse.starts_with("the error bound of"), "{coarse}");
}

#[test]
fn a_small_budget_falls_back_and_says_so() {
    let values: Vec<f64> = (0..8).map(|i| 0.1 + f64::from(i) * 0.37).collect();
    let (reduction, column) = case(DType::F32, ReduceKind::Sum, &values);
    // A balanced tree, which is not a chain.
    let x: Vec<f32> = column.iter().map(|bits| f32::from_bits(*bits as u32)).collect();
    let tree = ((x[0] + x[5]) + (x[2] + x[7])) + ((x[1] + x[4]) + (x[3] + x[6]));
    let mut poor = Budget::new(10);
    // Outside the bound of five last places, and not so far that no search is needed.
    let mut off = tree;
    for _ in 0..8 {
        off = off.next_up();
    }
    let judged = reduction.judge(&column, off.to_bits().into(), &mut poor);
    assert!(poor.is_exhausted() && judged.lane == ElementLane::Bounded && !judged.ruling.accepted(), "{judged:?}");
    let judged = reduction.judge(&column, tree.to_bits().into(), &mut Budget::default());
    assert!(judged.lane == ElementLane::Admissible && judged.ruling.accepted(), "{judged:?}");
}
