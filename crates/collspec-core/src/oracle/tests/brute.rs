//! The second oracle: every order and every tree, one by one, in plain machine arithmetic and the arithmetic of other crates.
use super::super::dyadic::Dyadic;
use super::super::families::Rounding;
use super::super::float::Float;
use super::super::reduction_models::{Division, Fusion, InputScaling, ReductionModel, ReductionModels};
use super::super::search::Search;
use super::*;
use crate::num::decode_f64;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Rounds to a type with the means of the machine and of other crates (from f32, where those are right).
fn narrow(to: Float, value: f32) -> f64 {
    match to {
        Float::F64 | Float::F32 => value.into(),
        Float::F16 => half::f16::from_f32(value).into(),
        Float::Bf16 => half::bf16::from_f32(value).into(),
        Float::E4m3 => float8::F8E4M3::from_f32(value).to_f32().into(),
        Float::E5m2 if value.is_infinite() => f64::from(57344f32.copysign(value)),
        Float::E5m2 => float8::F8E5M2::from_f32(value).to_f32().into(),
    }
}

fn plus(to: Float, a: f64, b: f64) -> f64 {
    if to == Float::F64 { a + b } else { narrow(to, a as f32 + b as f32) }
}

fn times(to: Float, a: f64, b: f64) -> f64 {
    if to == Float::F64 { a * b } else { narrow(to, a as f32 * b as f32) }
}

/// x * s + c, rounded once.
fn times_plus(to: Float, x: f64, s: f64, c: f64) -> f64 {
    let dtype = match to {
        Float::F64 => return x.mul_add(s, c),
        // A partial result may be wider than the type.
        Float::F32 if f64::from(c as f32) == c || c.is_nan() => {
            return f64::from((x as f32).mul_add(s as f32, c as f32));
        }
        Float::F32 => DType::F32,
        Float::F16 => DType::F16,
        Float::Bf16 => DType::Bf16,
        Float::E4m3 => DType::F8e4m3,
        Float::E5m2 => DType::F8e5m2,
    };
    let exact = Dyadic::from_f64(x).mul(&Dyadic::from_f64(s)).add(&Dyadic::from_f64(c));
    match (x * s + c).is_finite() && exact.cmp(&Dyadic::from_f64(0.0)).is_ne() {
        true => decode_f64(dtype, exact.nearest(dtype)),
        false => plus_nothing(to, x * s + c),
    }
}

#[derive(Clone)]
struct Node {
    values: Vec<f64>,
    leaf: Option<(f64, f64)>,
    chain: bool,
}

/// The results that a model may give, by bits; true if a chain gives it.
fn brute(reduction: &ColumnReduction, model: &ReductionModel, values: &[f64], scalars: &[f64]) -> BTreeMap<u64, bool> {
    let scaled = model.input == InputScaling::Product;
    let nodes: Vec<Node> = values
        .iter()
        .enumerate()
        .map(|(rank, &x)| {
            let s = if scaled { scalars[rank] } else { 1.0 };
            let mut alone = Vec::new();
            if let InputScaling::Divided { part, narrowed } = model.input {
                let part = nth(part, reduction.ranks, x);
                alone.push(narrowed.map_or(part, |to| plus_nothing(to, part)));
                if model.rounding == Rounding::Mixed {
                    alone.push(plus_nothing(model.out, part));
                }
            } else if !scaled {
                alone.push(x);
            } else {
                if model.fuse != Fusion::Always || model.acc == model.out {
                    alone.push(times(model.out, x, s));
                }
                if model.fuse != Fusion::Never && model.acc != model.out {
                    alone.push(times(model.acc, x, s));
                }
            }
            Node { values: alone, leaf: Some((x, s)), chain: true }
        })
        .collect();
    let mut out = BTreeMap::new();
    pair_up(reduction, model, &nodes, &mut |last| {
        for &value in &last.values {
            for end in finish(reduction, model, value) {
                *out.entry(encode_f64(reduction.dtype, end)).or_insert(false) |= last.chain;
            }
        }
    });
    out
}

fn finish(reduction: &ColumnReduction, model: &ReductionModel, value: f64) -> Vec<f64> {
    let narrowed = plus_nothing(model.out, value);
    if reduction.kind != ReduceKind::Avg || model.input != InputScaling::Plain {
        return vec![narrowed];
    }
    let n = reduction.ranks as f64;
    let floats = [Float::E4m3, Float::E5m2, Float::Bf16, Float::F16, Float::F32, Float::F64];
    let holds = |wide: &&Float| {
        **wide == model.acc || (is_wider(model.out, **wide) && wide.precision() > model.acc.precision())
    };
    let mut parts = vec![Division::TimesReciprocal(over(model.out, 1.0, n), model.acc)];
    for &float in floats.iter().filter(holds) {
        parts.push(Division::TimesReciprocal(over(float, 1.0, n), float));
        parts.push(Division::DividedBy(n, float));
    }
    let mut ends = Vec::new();
    for part in parts {
        ends.push(plus_nothing(model.out, nth(part, reduction.ranks, value)));
        if model.rounding == Rounding::Mixed {
            ends.push(plus_nothing(model.out, nth(part, reduction.ranks, narrowed)));
            ends.push(match part {
                Division::TimesReciprocal(by, _) => Float::round(model.out, narrowed * by),
                Division::DividedBy(..) => over(model.out, narrowed, n),
            });
        }
    }
    ends
}

/// True for the types in which the other may be accumulated.
fn is_wider(of: Float, wide: Float) -> bool {
    match of {
        Float::F64 => false,
        Float::F32 => wide == Float::F64,
        Float::F16 | Float::Bf16 => wide == Float::F32,
        Float::E4m3 | Float::E5m2 => matches!(wide, Float::F16 | Float::F32),
    }
}

/// A quotient by the machine.
fn over(to: Float, a: f64, b: f64) -> f64 {
    if to == Float::F64 { a / b } else { narrow(to, a as f32 / b as f32) }
}

fn nth(part: Division, ranks: usize, x: f64) -> f64 {
    match part {
        Division::TimesReciprocal(by, float) => times(float, x, by),
        Division::DividedBy(n, float) => {
            assert_eq!(n, ranks as f64);
            over(float, x, n)
        }
    }
}

fn plus_nothing(to: Float, value: f64) -> f64 {
    if to == Float::F64 { value } else { narrow(to, value as f32) }
}

/// Joins any two nodes, until one is left.
fn pair_up(reduction: &ColumnReduction, model: &ReductionModel, nodes: &[Node], done: &mut dyn FnMut(&Node)) {
    if let [last] = nodes {
        return done(last);
    }
    for j in 1..nodes.len() {
        for i in 0..j {
            let mut rest = nodes.to_vec();
            let b = rest.remove(j);
            let a = rest.remove(i);
            rest.push(join(reduction, model, &a, &b));
            pair_up(reduction, model, &rest, done);
        }
    }
}

fn join(reduction: &ColumnReduction, model: &ReductionModel, a: &Node, b: &Node) -> Node {
    let (mut values, mut direct) = (Vec::new(), Vec::new());
    let mut push = |value: f64| {
        values.push(value);
        if model.rounding == Rounding::Mixed {
            values.push(plus_nothing(model.out, value));
        }
    };
    if model.fuse != Fusion::Always || (a.leaf.is_none() && b.leaf.is_none()) {
        for &x in &a.values {
            for &y in &b.values {
                push(if reduction.kind == ReduceKind::Prod { times(model.acc, x, y) } else { plus(model.acc, x, y) });
            }
        }
    }
    if model.fuse != Fusion::Never {
        for (one, other) in [(a, b), (b, a)] {
            let Some((x, s)) = one.leaf else { continue };
            for &partial in &other.values {
                push(times_plus(model.acc, x, s, partial));
            }
            if model.rounding == Rounding::Mixed {
                direct.extend(other.values.iter().map(|&partial| times_plus(model.out, x, s, partial)));
            }
        }
    }
    values.extend(direct);
    values.sort_by(f64::total_cmp);
    values.dedup_by(|a, b| a.to_bits() == b.to_bits());
    Node { values, leaf: None, chain: a.chain && b.chain && (a.leaf.is_some() || b.leaf.is_some()) }
}

/// A column of a type: numbers of few binades that cancel and tie, small whole numbers, and now and then a special value; or
/// any codes of the type and its extremes.
pub(super) fn columns(ranks: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = (DType, Vec<u64>)> {
    let special =
        vec![0.0, -0.0, 60000.0, -60000.0, 400.0, -440.0, 1e8, -1e8, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
    let element = prop_oneof![
        6 => (-1.0f64..1.0, -3i32..4).prop_map(|(m, e)| m * 2f64.powi(e)),
        3 => (-9i32..10).prop_map(f64::from),
        1 => prop::sample::select(special.clone()),
    ];
    let dtype = || prop::sample::select(FLOATS.to_vec());
    let encoded = |dtype, values: Vec<f64>| (dtype, values.into_iter().map(|v| encode_f64(dtype, v)).collect());
    let tame = (dtype(), prop::collection::vec(element, ranks.clone())).prop_map(move |(t, v)| encoded(t, v));
    // The least value, the least normal and its neighbours, the largest, infinity.
    let edge = (dtype(), prop::collection::vec((0usize..12, any::<u64>()), ranks)).prop_map(move |(dtype, picks)| {
        let format = crate::num::FloatFormat::of(dtype).unwrap();
        let normal = 1 << format.fraction;
        let codes =
            [1, 2, 3, normal - 1, normal, normal + 1, format.max_code, format.max_code - 1, format.max_code + 1, 0];
        let bits = |(pick, random): (usize, u64)| match codes.get(pick) {
            Some(code) => format.signed(random & 1 == 1, *code),
            None if pick == 10 => random & crate::num::mask(dtype),
            None => encode_f64(dtype, [1.0, -1.0, 2.0, 0.5][random as usize % 4]),
        };
        (dtype, picks.into_iter().map(bits).collect())
    });
    prop_oneof![3 => tame, 2 => edge]
}

/// A kind of reduction; scalars come from the same distribution.
pub(super) fn kind(index: usize, dtype: DType, scalars: &[f64]) -> ReduceKind {
    match index {
        0 => ReduceKind::Sum,
        1 => ReduceKind::Prod,
        2 => ReduceKind::Avg,
        3 => ReduceKind::Min,
        4 => ReduceKind::Max,
        _ => ReduceKind::PreMulSum { scalars: scalars.iter().map(|s| encode_f64(dtype, *s)).collect() },
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every way's set, value by value and shape by shape; the exact lane; the judgement.
    #[test]
    fn both_oracles_agree(
        (dtype, column) in columns(2..=4),
        which in prop::sample::select(vec![0usize, 1, 2, 5]),
        scalars in prop::collection::vec(prop_oneof![-2.0f64..2.0, prop::sample::select(vec![0.0, 0.5, -1.0, 3.0, 1e-3])], 4),
    ) {
        let reduction = ColumnReduction { dtype, kind: kind(which, dtype, &scalars[..column.len()]), ranks: column.len() };
        let values: Vec<f64> = column.iter().map(|bits| decode_f64(dtype, *bits)).collect();
        let scalars = reduction.scalar_values();
        let ReductionModels { usual, wider, rare } = ReductionModels::for_reduction(&reduction);
        let (mut search, mut all) = (Search::default(), BTreeMap::new());
        for group in [usual, wider, rare] {
            let mut by_group = BTreeMap::new();
            for model in &group {
                let want = brute(&reduction, model, &values, &scalars);
                let mut got = BTreeMap::new();
                for member in search.run(model, &model.leaves(&values, &scalars), &mut u64::MAX.clone()).unwrap() {
                    model.final_results(member.value, member.shape(), |v, families| {
                        let bits = encode_f64(dtype, v);
                        *got.entry(bits).or_insert(false) |= member.chain;
                        let known = by_group.entry(bits).or_insert(FamilySet::EMPTY);
                        *known = known.union(families);
                    });
                }
                prop_assert_eq!(&got, &want, "{:?}", model);
            }
            for (bits, families) in by_group {
                all.entry(bits).or_insert(families);
            }
        }
        let mut budget = Budget::default();
        if let Some(exact) = reduction.exact(&column) {
            prop_assert_eq!(all.len(), 1, "claimed exact: {:?} of {:?}", exact, all);
            let bits = *all.keys().next().unwrap();
            prop_assert!(exact.admits(dtype, bits), "{:?} is not {:#x}", exact, bits);
        }
        prop_assert!(all.contains_key(&reduction.canonical(&column)));
        for (bits, families) in &all {
            let judged = reduction.judge(&column, *bits, &mut budget);
            let Ruling::Accept { families: Some(found), .. } = judged.ruling else {
                prop_assert_eq!(judged.lane, ElementLane::Exact);
                continue;
            };
            prop_assert_eq!(found, *families);
            for (neighbour, wrong) in [(bits ^ 1, !all.contains_key(&(bits ^ 1))), (bits ^ 4, !all.contains_key(&(bits ^ 4)))] {
                if wrong && !crate::num::is_nan(dtype, neighbour) {
                    prop_assert!(!reduction.judge(&column, neighbour, &mut budget).ruling.accepted());
                }
            }
        }
    }
}

#[test]
fn five_ranks_agree_too() {
    let source = crate::num::Random::new(DType::F64, 11, None, None);
    for dtype in FLOATS {
        for round in 0..4 {
            let values: Vec<f64> = (0..5).map(|r| f64::from_bits(source.bits(r, round)) * 8.0).collect();
            let (reduction, column) = case(dtype, ReduceKind::Sum, &values);
            let values: Vec<f64> = column.iter().map(|bits| decode_f64(dtype, *bits)).collect();
            let ReductionModels { usual, wider, .. } = ReductionModels::for_reduction(&reduction);
            for model in usual.iter().chain(&wider) {
                let want = brute(&reduction, model, &values, &[]);
                let mut got = BTreeMap::new();
                for member in Search::default().run(model, &model.leaves(&values, &[]), &mut u64::MAX.clone()).unwrap()
                {
                    model.final_results(member.value, member.shape(), |v, _| {
                        *got.entry(encode_f64(dtype, v)).or_insert(false) |= member.chain
                    });
                }
                assert_eq!(got, want, "{dtype:?} {model:?}");
            }
        }
    }
}
