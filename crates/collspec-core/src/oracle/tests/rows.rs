//! Loops over rows against single columns: the same results, rulings and budgets.
use super::super::admissible::GROUPS;
use super::super::answer::JudgedElement;
use super::super::budget::Purpose;
use super::super::reduced_buffer::{ReducedBuffer, reduce};
use super::super::rounding_elements::RoundingElements;
use super::*;
use crate::num::{Random, canonical_nan, decode_f64, get_element, mask, put_element};
use proptest::prelude::*;

/// Values of every sort, by element: random ones, all codes, small whole numbers, the ends of the range, cancellation.
fn inputs(dtype: DType, ranks: usize, elements: usize, seed: u64, sorts: &[u8]) -> Vec<Vec<u8>> {
    let (codes, usual) = (Random::new(DType::U64, seed, None, None), Random::new(dtype, seed, None, None));
    let largest = crate::num::max_finite(dtype).unwrap();
    let value = |rank: u64, i: u64| {
        let code = codes.bits(rank, i);
        let sort = sorts[codes.bits(99, i / 7) as usize % sorts.len()];
        let sign = if code >> 60 & 1 == 1 { -1.0 } else { 1.0 };
        match sort {
            0 => usual.bits(rank, i),
            1 => code & mask(dtype),
            2 => encode_f64(dtype, sign * (code % 9) as f64),
            3 => encode_f64(dtype, sign * largest / [1.0, 2.0, 3.0, 8.0][code as usize % 4]),
            // Subnormals, zeros of both signs, and the least normal numbers.
            4 => code & 0x3f | (code >> 60 & 1) << (dtype.bits() - 1),
            5 if rank % 2 == 1 => usual.bits(rank - 1, i) ^ (code & 1) ^ 1 << (dtype.bits() - 1),
            5 => usual.bits(rank, i),
            // Steps of half a last place: ties.
            _ => encode_f64(dtype, sign * (1.0 + (code % 4) as f64 * f64::powi(0.5, 8 + (code >> 8 & 7) as i32))),
        }
    };
    let row = |rank: usize| {
        let mut bytes = vec![0; elements * dtype.size()];
        (0..elements).for_each(|i| put_element(dtype, &mut bytes, i, value(rank as u64, i as u64)));
        bytes
    };
    (0..ranks).map(row).collect()
}

/// Results that round, and the inputs they were made of.
struct RoundedRows {
    reduction: ColumnReduction,
    inputs: Vec<Vec<u8>>,
    observed: Vec<u8>,
}

impl RoundedRows {
    fn elements(&self) -> RoundingElements<'_> {
        let inputs = self.inputs.iter().map(Vec::as_slice).collect();
        RoundingElements { reduction: &self.reduction, inputs, observed: &self.observed }
    }

    fn len(&self) -> usize {
        self.observed.len() / self.reduction.dtype.size()
    }

    /// Judges all elements at once; an element that is not reported is explained by a chain.
    fn judge(&self, budget: &mut Budget) -> Vec<JudgedElement> {
        let ruling = Ruling::Accept { families: None, set_size: None };
        let by_chain = JudgedElement { lane: ElementLane::Admissible, ruling, note: None };
        let mut judged = vec![by_chain; self.len()];
        let mut told = Vec::new();
        let explained = self.elements().judge(budget, |element, one| {
            told.push(element);
            judged[element] = one;
        });
        assert!(told.is_sorted_by(|a, b| a < b), "{told:?}");
        assert_eq!(explained as usize + told.len(), judged.len());
        judged
    }

    /// Judges one element after the other.
    fn judge_each(&self, budget: &mut Budget) -> Vec<JudgedElement> {
        let inputs: Vec<&[u8]> = self.inputs.iter().map(Vec::as_slice).collect();
        let bits = |i| get_element(self.reduction.dtype, &self.observed, i);
        (0..self.len()).map(|i| self.reduction.judge(&self.reduction.column(&inputs, i), bits(i), budget)).collect()
    }
}

fn reduction(dtype: DType, which: usize, ranks: usize, seed: u64) -> ColumnReduction {
    let codes = Random::new(DType::U64, seed ^ 1, None, None);
    let scalar = |rank: u64| {
        let choices = [0.0, -0.0, 1.0, -2.0, 0.5, 3.0, 1.0 / 3.0, 1e-3];
        let code = codes.bits(rank, 0);
        if code.is_multiple_of(19) {
            code >> 8 & mask(dtype)
        } else {
            encode_f64(dtype, choices[(code >> 8) as usize % 8])
        }
    };
    let kind = match which {
        0 | 1 => ReduceKind::Sum,
        2 => ReduceKind::Avg,
        3 => ReduceKind::PreMulSum { scalars: (0..ranks as u64).map(scalar).collect() },
        4 => ReduceKind::Prod,
        5 => ReduceKind::Min,
        _ => ReduceKind::Max,
    };
    ColumnReduction { dtype, kind, ranks }
}

/// The answer of `reduce` for an element, column by column.
fn reduced_alone(reduction: &ColumnReduction, inputs: &[&[u8]], i: usize) -> Result<(u64, bool), String> {
    let column = reduction.column(inputs, i);
    match reduction.exact(&column) {
        Some(RightResults::Bits(bits)) => Ok((bits, false)),
        Some(_) => Ok((reduction.canonical(&column), true)),
        None => reduction.judgeable(&column).map(|()| (reduction.canonical(&column), true)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reductions_of_rows_and_of_columns_agree(
        dtype in prop::sample::select(FLOATS.to_vec()),
        which in 0usize..7,
        ranks in prop::sample::select(vec![1usize, 2, 3, 4, 5, 8, 9, 17]),
        elements in prop::sample::select(vec![1usize, 3, 40, 255, 256, 257, 520]),
        seed in any::<u64>(),
        sorts in prop::collection::vec(0u8..7, 1..4),
    ) {
        let reduction = reduction(dtype, which, ranks, seed);
        let rows = inputs(dtype, ranks, elements, seed, &sorts);
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let want: Vec<_> = (0..elements).map(|i| reduced_alone(&reduction, &inputs, i)).collect();
        match reduce(&reduction, &inputs, Vec::new(), false) {
            Err(text) => {
                let (i, why) = want.iter().enumerate().find_map(|(i, want)| Some((i, want.clone().err()?))).expect("an error");
                prop_assert_eq!(text, format!("cannot be judged: element {i}: {why}"));
            }
            Ok(reduced) => assert_reduced(&reduction, &inputs, &reduced, &want)?,
        }
        // With results of a run as inputs nothing is refused.
        let reduced = reduce(&reduction, &inputs, vec![true; elements], true);
        prop_assert!(reduced.is_ok_and(|reduced| (0..elements).all(|i| reduced.is_ambiguous(i))));
    }

    #[test]
    fn many_elements_are_judged_as_one_after_the_other(
        dtype in prop::sample::select(FLOATS.to_vec()),
        which in 0usize..5,
        ranks in prop::sample::select(vec![2usize, 3, 4, 5, 9, 12]),
        elements in prop::sample::select(vec![5usize, 40, 300]),
        seed in any::<u64>(),
        sorts in prop::collection::vec(0u8..7, 1..3),
        (joins, steps, samples) in (prop::sample::select(vec![0u64, 300, 20_000]), prop::sample::select(vec![0u64, 500, u64::MAX]), 0u32..4),
        length in 1usize..150,
        how in 0u64..6,
    ) {
        let reduction = reduction(dtype, which, ranks, seed);
        let rows = rounding(reduction, &inputs(dtype, ranks, elements, seed, &sorts), elements, length, how, seed);
        let new_budget = || {
            let mut budget = Budget::new(joins);
            (budget.samples, budget.chain_steps) = (samples, steps);
            budget
        };
        let (mut alone, mut together) = (new_budget(), new_budget());
        prop_assert_eq!(rows.judge(&mut together), rows.judge_each(&mut alone));
        prop_assert_eq!((together.joins, together.reserve, together.sample_joins), (alone.joins, alone.reserve, alone.sample_joins));
        prop_assert_eq!((together.chain_steps, together.samples), (alone.chain_steps, alone.samples));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_right_value_is_far_off(
        dtype in prop::sample::select(FLOATS.to_vec()),
        which in prop::sample::select(vec![0usize, 2, 3]),
        ranks in 2usize..=8,
        seed in any::<u64>(),
        sorts in prop::collection::vec(0u8..7, 1..3),
    ) {
        let reduction = reduction(dtype, which, ranks, seed);
        let rows = inputs(dtype, ranks, 2, seed, &sorts);
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        for i in 0..2 {
            let column = reduction.column(&inputs, i);
            let values: Vec<f64> = column.iter().map(|bits| decode_f64(dtype, *bits)).collect();
            let mut budget = Budget::default();
            let prepared = budget.prepared(&reduction);
            let Ok(found) = reduction.search(&values, GROUPS, Purpose::Verdict, &mut budget) else { continue };
            for bits in found.bits() {
                prop_assert!(!reduction.is_far_off(&prepared, &values, bits), "{bits:#x} of {column:x?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn samples_for_the_fingerprint_change_no_verdict(
        dtype in prop::sample::select(FLOATS.to_vec()),
        which in 0usize..5,
        ranks in prop::sample::select(vec![2usize, 3, 4, 5, 9]),
        elements in prop::sample::select(vec![40usize, 300]),
        seed in any::<u64>(),
        sorts in prop::collection::vec(0u8..7, 1..3),
        (joins, samples) in (prop::sample::select(vec![0u64, 300, 3_000, 20_000]), prop::sample::select(vec![1u32, 30, 1024])),
        length in 1usize..150,
        how in 0u64..6,
    ) {
        let reduction = reduction(dtype, which, ranks, seed);
        let rows = rounding(reduction, &inputs(dtype, ranks, elements, seed, &sorts), elements, length, how, seed);
        let judged = |samples| {
            let mut budget = Budget::new(joins);
            budget.samples = samples;
            let mut judged = rows.judge(&mut budget);
            for one in &mut judged {
                if let Ruling::Accept { families, set_size } = &mut one.ruling {
                    (*families, *set_size) = (None, None);
                }
            }
            (judged, budget.joins, budget.reserve, budget.chain_steps)
        };
        prop_assert_eq!(judged(samples), judged(0));
    }
}

#[test]
fn a_sum_without_one_rank_is_far_off() {
    for (dtype, which) in [(DType::F32, 0), (DType::F64, 0), (DType::F16, 0), (DType::Bf16, 0), (DType::F32, 2)] {
        let reduction = reduction(dtype, which, 4, 1);
        let values = [0.7, 1.3, 2.1, 0.9].map(|value| decode_f64(dtype, encode_f64(dtype, value)));
        let column: Vec<u64> = values.iter().map(|value| encode_f64(dtype, *value)).collect();
        let divisor = if which == 2 { 4.0 } else { 1.0 };
        let wrong = encode_f64(dtype, values.iter().skip(1).sum::<f64>() / divisor);
        let mut budget = Budget::default();
        let prepared = budget.prepared(&reduction);
        for bits in [wrong, canonical_nan(dtype), encode_f64(dtype, f64::INFINITY)] {
            assert!(reduction.is_far_off(&prepared, &values, bits), "{dtype:?} {bits:#x}");
            let judged = reduction.judge(&column, bits, &mut budget);
            let ruling = Ruling::Reject { answer: None };
            assert_eq!(judged, JudgedElement { lane: ElementLane::Admissible, ruling, note: None });
        }
        let joins = budget.joins;
        assert_eq!(joins, Budget::default().joins, "no search");
        assert!(matches!(reduction.right_results(&column, &mut budget), Ok(RightResults::OneOf(_))));
    }
}

#[test]
fn elements_that_are_searched_ahead_cost_what_they_cost_one_after_the_other() {
    let reduction = reduction(DType::F32, 0, 8, 3);
    // Where inputs cancel, no chain gives the result of a tree.
    let rows = rounding(reduction, &inputs(DType::F32, 8, 200, 3, &[0, 0, 5]), 200, 20, 1, 3);
    let plenty = 10_000_000_000;
    for (joins, samples) in [plenty, 1_000_000, 30_000].into_iter().flat_map(|joins| [(joins, 1024), (joins, 0)]) {
        let (mut alone, mut together) = (Budget::new(joins), Budget::new(joins));
        (alone.samples, together.samples) = (samples, samples);
        let want = rows.judge_each(&mut alone);
        assert_eq!(rows.judge(&mut together), want);
        assert_eq!((together.joins, together.sample_joins), (alone.joins, alone.sample_joins));
        let has_families = |judged: &JudgedElement| matches!(judged.ruling, Ruling::Accept { families: Some(_), .. });
        assert_eq!(want.iter().all(has_families), joins == plenty && samples > 0);
        assert!(alone.joins < joins, "trees are searched");
    }
}

fn assert_reduced(
    reduction: &ColumnReduction,
    inputs: &[&[u8]],
    reduced: &ReducedBuffer,
    want: &[Result<(u64, bool), String>],
) -> Result<(), TestCaseError> {
    let (dtype, bytes) = (reduction.dtype, reduced.bytes.to_vec());
    for (i, want) in want.iter().enumerate() {
        let got = (get_element(dtype, &bytes, i), reduced.is_ambiguous(i));
        prop_assert_eq!(&Ok(got), want, "element {}: {:x?}", i, reduction.column(inputs, i));
        if reduced.rounding_run(i..i + 1) > 0 {
            prop_assert_eq!(reduction.exact(&reduction.column(inputs, i)), None, "element {}", i);
        }
    }
    Ok(())
}

/// The columns without an exact answer, with results by runs of an order: chains, trees, wide accumulators, and wrong ones.
fn rounding(
    reduction: ColumnReduction,
    rows: &[Vec<u8>],
    elements: usize,
    length: usize,
    how: u64,
    seed: u64,
) -> RoundedRows {
    let (dtype, ranks) = (reduction.dtype, reduction.ranks);
    let codes = Random::new(DType::U64, seed ^ 2, None, None);
    let all: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
    let (mut inputs, mut observed) = (vec![Vec::new(); ranks], Vec::new());
    let bytes_of = |bits: u64| bits.to_le_bytes()[..dtype.size()].to_vec();
    for i in 0..elements {
        let column = reduction.column(&all, i);
        if reduction.exact(&column).is_some() {
            continue;
        }
        for (row, bits) in inputs.iter_mut().zip(&column) {
            row.extend(bytes_of(*bits));
        }
        let code = codes.bits(0, (i / length) as u64);
        let mut turned = column.clone();
        turned.rotate_left(code as usize % ranks);
        if code >> 32 & 1 == 1 {
            turned.reverse();
        }
        // A scalar belongs to its rank, so only chains by rank order stay right there.
        let by_chain = reduction.canonical(&turned);
        let value = |bits: &u64| decode_f64(dtype, *bits);
        let pairs: Vec<u64> = column.chunks(2).map(|pair| encode_f64(dtype, pair.iter().map(value).sum())).collect();
        let tree = encode_f64(dtype, pairs.iter().map(value).sum());
        let noise = codes.bits(1, i as u64);
        observed.extend(bytes_of(match how {
            0 => by_chain,
            1 if code & 1 == 0 => tree,
            1 => by_chain,
            2 => encode_f64(dtype, column.iter().map(value).sum()),
            3 if noise.is_multiple_of(5) => by_chain ^ 1,
            4 if noise.is_multiple_of(3) => tree,
            5 if noise.is_multiple_of(3) => canonical_nan(dtype),
            5 if noise % 3 == 1 => noise >> 8 & mask(dtype),
            _ => by_chain,
        }));
    }
    RoundedRows { reduction, inputs, observed }
}

#[test]
fn large_buffers_are_reduced_in_parts_as_in_one() {
    for (dtype, which) in [(DType::F32, 0), (DType::Bf16, 2)] {
        let (elements, ranks, at) = (70_000, 4, 33_333);
        let reduction = reduction(dtype, which, ranks, 1);
        let rows = inputs(dtype, ranks, elements, 1, &[0, 2, 1, 5]);
        let cut = at * dtype.size();
        let of = |part: &dyn Fn(&Vec<u8>) -> Vec<u8>| {
            let part: Vec<Vec<u8>> = rows.iter().map(part).collect();
            reduce(&reduction, &part.iter().map(Vec::as_slice).collect::<Vec<_>>(), Vec::new(), false).unwrap()
        };
        let (whole, first, second) = (of(&Vec::clone), of(&|row| row[..cut].to_vec()), of(&|row| row[cut..].to_vec()));
        assert_eq!(whole.bytes.to_vec(), [first.bytes.to_vec(), second.bytes.to_vec()].concat());
        for i in 0..elements {
            let (part, i_part) = if i < at { (&first, i) } else { (&second, i - at) };
            assert_eq!(whole.is_ambiguous(i), part.is_ambiguous(i_part), "{i}");
            assert_eq!(whole.rounding_run(i..i + 1), part.rounding_run(i_part..i_part + 1), "{i}");
        }
        assert!(whole.ambiguous_count() > 10_000);
    }
}
