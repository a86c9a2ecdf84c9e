//! Order maps of results that a plain model computes, in f32 and its own arithmetic.
use super::*;
use crate::num::{DType, Random};
use crate::oracle::reduced_buffer::reduce;
use crate::oracle::{ColumnReduction, ReduceKind};
use proptest::prelude::*;

/// The inputs by rank.
type Inputs = Vec<Vec<f32>>;

fn random_inputs(ranks: usize, elements: usize, seed: u64) -> Inputs {
    let source = Random::new(DType::F32, seed, None, None);
    let value = |rank: usize, i: usize| f32::from_bits(source.bits(rank as u64, i as u64) as u32);
    (0..ranks).map(|rank| (0..elements).map(|i| value(rank, i)).collect()).collect()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn map_of_bytes(dtype: DType, kind: ReduceKind, inputs: &[Vec<u8>], result: &[u8]) -> OrderMap {
    find_map_of_bytes(dtype, kind, inputs, result).expect("some element tells")
}

fn find_map_of_bytes(dtype: DType, kind: ReduceKind, inputs: &[Vec<u8>], result: &[u8]) -> Option<OrderMap> {
    let reduction = ColumnReduction { dtype, kind, ranks: inputs.len() };
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let reduced = reduce(&reduction, &inputs, Vec::new(), false).unwrap();
    let elements = (result.len() / dtype.size()) as u32;
    let telling = (0..elements).filter(|i| reduced.is_ambiguous(*i as usize)).collect();
    let columns = Columns { dtype, inputs: &inputs, result, telling };
    order_map(&reduction, columns, &mut MapBudget::default())
}

fn map_of(kind: ReduceKind, inputs: &Inputs, result: &[f32]) -> OrderMap {
    let inputs: Vec<Vec<u8>> = inputs.iter().map(|values| bytes_of(values)).collect();
    map_of_bytes(DType::F32, kind, &inputs, &bytes_of(result))
}

/// The sum of element `i` along a chain.
fn chain(inputs: &Inputs, order: &[usize], i: usize) -> f32 {
    order[1..].iter().fold(inputs[order[0]][i], |sum, rank| sum + inputs[*rank][i])
}

/// The chain of a ring's chunk that ends at position `last` of the ring.
fn ending_at(ring: &[usize], last: usize) -> Vec<usize> {
    (1..=ring.len()).map(|k| ring[(last + k) % ring.len()]).collect()
}

/// A ring's sums over parts, each cut in passes of chunks as NCCL cuts a channel's share.
fn ring_sums(inputs: &Inputs, ring: &[usize], parts: &[usize], chunk: usize) -> Vec<f32> {
    let n = ring.len();
    let mut sums = Vec::new();
    for part in parts {
        let end = sums.len() + part;
        while sums.len() < end {
            let pass = (end - sums.len()).min(n * chunk);
            let each = pass.div_ceil(n).min(chunk);
            let start = sums.len();
            for k in 0..pass {
                sums.push(chain(inputs, &ending_at(ring, k / each), start + k));
            }
        }
    }
    sums
}

fn starts(map: &OrderMap) -> Vec<u64> {
    map.runs.iter().map(|run| run.start).collect()
}

fn orders(map: &OrderMap) -> Vec<&str> {
    map.runs.iter().map(|run| map.explanation(run.explanation).unwrap().order.as_str()).collect()
}

/// The value of additions as an explanation writes them, in a plain model.
fn value_of(additions: &str, leaf: &dyn Fn(usize) -> f64, join: &dyn Fn(f64, f64) -> f64) -> f64 {
    fn parse(
        text: &mut std::iter::Peekable<std::str::Chars>,
        leaf: &dyn Fn(usize) -> f64,
        join: &dyn Fn(f64, f64) -> f64,
    ) -> f64 {
        if text.next_if_eq(&'(').is_some() {
            let left = parse(text, leaf, join);
            assert_eq!(text.next(), Some('+'));
            let right = parse(text, leaf, join);
            assert_eq!(text.next(), Some(')'));
            return join(left, right);
        }
        let mut rank = 0;
        while let Some(digit) = text.next_if(char::is_ascii_digit) {
            rank = rank * 10 + digit.to_digit(10).unwrap() as usize;
        }
        leaf(rank)
    }
    parse(&mut additions.chars().peekable(), leaf, join)
}

/// Checks that every element, recomputed by its run's explanation, has the observed bits; also with every boundary moved as far as
/// the map allows.
fn assert_replays(map: &OrderMap, inputs: &Inputs, result: &[f32]) {
    assert_eq!(map.run_count, map.runs.len() as u64);
    let mut next = 0;
    for run in &map.runs {
        assert_eq!(run.start, next, "{map:?}");
        assert!(run.earliest_start <= run.start && run.start <= run.latest_start, "{map:?}");
        next = run.start + run.elements;
    }
    assert_eq!(next, map.elements);
    for (at, run) in map.runs.iter().enumerate() {
        let latest_end = map.runs.get(at + 1).map_or(map.elements, |next| next.latest_start);
        for index in std::iter::once(&run.explanation).chain(&run.others) {
            let explanation = map.explanation(*index).unwrap();
            for i in run.earliest_start as usize..latest_end as usize {
                // Other explanations are for this run alone.
                if *index != run.explanation && !(run.start..run.start + run.elements).contains(&(i as u64)) {
                    continue;
                }
                let leaf = |rank: usize| f64::from(inputs[rank][i]);
                let value = match explanation.computing.as_str() {
                    "rounded at each step" => {
                        value_of(&explanation.additions, &leaf, &|a, b| f64::from(a as f32 + b as f32))
                    }
                    "f64 accumulator" => value_of(&explanation.additions, &leaf, &|a, b| a + b),
                    other => panic!("{other}"),
                };
                assert_eq!((value as f32).to_bits(), result[i].to_bits(), "element {i}: {explanation:?}");
            }
        }
    }
}

#[test]
fn one_chain_is_named_by_its_ranks() {
    for (order, name) in [
        (vec![3, 2, 1, 0], "chain 3,2,1,0"),
        (vec![0, 1, 2, 3], "chain 0,1,2,3"),
        (vec![1, 2, 3, 0], "chain 1,2,3,0"),
        (vec![0, 2, 1, 3], "chain 0,2,1,3"),
        (vec![5, 0, 3, 1, 4, 2], "chain 0,5,3,1,4,2"),
        (vec![6, 2, 0, 3, 1, 4, 7, 5], "chain 2,6,0,3,1,4,7,5"),
    ] {
        let inputs = random_inputs(order.len(), 200, 3);
        let result: Vec<f32> = (0..200).map(|i| chain(&inputs, &order, i)).collect();
        let map = map_of(ReduceKind::Sum, &inputs, &result);
        assert_eq!((map.name.as_str(), map.pattern, map.run_count), (name, Pattern::OneOrder, 1));
        assert_replays(&map, &inputs, &result);
    }
}

/// Shares of four channels as NCCL 2.27.5 cut them.
#[test]
fn three_ranks_in_four_channels() {
    for (count, share, chunk) in [(70_000, 20_496, 6_832), (600_000, 150_528, 50_176)] {
        let inputs = random_inputs(3, count, 5);
        let mut parts = vec![share; 3];
        parts.push(count - 3 * share);
        let map = map_of(ReduceKind::Sum, &inputs, &ring_sums(&inputs, &[0, 1, 2], &parts, chunk));
        assert!(map.name.starts_with("ring 0,1,2, 4 parts (chunks of "), "{}", map.name);
        assert_eq!(map.run_count, 12, "{}", map.name);
    }
}

/// As in NCCL's LL128 kernels with f32.
#[test]
fn products_of_some_elements_are_fused() {
    let (inputs, factors) = (random_inputs(3, 400, 7), [0.7f32, 1.1, 1.4]);
    let sum = |i: usize| {
        let first = inputs[1][i] * factors[1];
        [2, 0].into_iter().fold(first, |sum, rank| match i % 4 {
            1 => inputs[rank][i].mul_add(factors[rank], sum),
            _ => sum + inputs[rank][i] * factors[rank],
        })
    };
    let scalars = factors.iter().map(|factor| factor.to_bits().into()).collect();
    let map = map_of(ReduceKind::PreMulSum { scalars }, &inputs, &(0..400).map(sum).collect::<Vec<_>>());
    assert_eq!(map.name, "chain 1,2,0, scaled before, of some elements without rounding");
}

#[test]
fn rings_are_named_with_their_chunks() {
    for (ring, parts, chunk, name, runs) in [
        (vec![0, 1, 2, 3], vec![80], 5, "ring 0,1,2,3, 4 parts (chunks of 5)", 16),
        (vec![0, 1, 2, 3], vec![64], 8, "ring 0,1,2,3, 2 parts (chunks of 8)", 8),
        (vec![0, 1, 2, 3], vec![32, 32], 8, "ring 0,1,2,3, 2 parts (chunks of 8)", 8),
        (vec![0, 1, 2, 3], vec![20, 20], 8, "ring 0,1,2,3, 2 parts (chunks of 5)", 8),
        (vec![0, 3, 2, 1], vec![80], 5, "ring 0,3,2,1, 4 parts (chunks of 5)", 16),
        (vec![0, 1, 2], vec![150], 50, "ring 0,1,2 (chunks of 50)", 3),
        (vec![0, 2, 1], vec![150], 50, "ring 0,2,1 (chunks of 50)", 3),
        (vec![0, 2, 1, 3], vec![400], 25, "ring 0,2,1,3, 4 parts (chunks of 25)", 16),
        (vec![0, 3, 1, 5, 4, 2], vec![600], 100, "ring 0,3,1,5,4,2 (chunks of 100)", 6),
        (vec![0, 1, 2, 3, 4, 5, 6, 7], vec![4096], 256, "ring 0,1,2,3,4,5,6,7, 2 parts (chunks of 256)", 16),
    ] {
        let elements = parts.iter().sum();
        let inputs = random_inputs(ring.len(), elements, 11);
        let result = ring_sums(&inputs, &ring, &parts, chunk);
        let map = map_of(ReduceKind::Sum, &inputs, &result);
        assert_eq!((map.name.as_str(), map.pattern, map.run_count), (name, Pattern::Ring, runs), "{map:#?}");
        assert_replays(&map, &inputs, &result);
        let each = starts(&map)[1];
        assert!(starts(&map).iter().enumerate().all(|(k, start)| *start == k as u64 * each), "{:?}", starts(&map));
    }
}

#[test]
fn a_ring_of_many_ranks_is_told_in_ranges() {
    let ring: Vec<usize> = (0..24).collect();
    let inputs = random_inputs(24, 2400, 4);
    let result = ring_sums(&inputs, &ring, &[2400], 100);
    let map = map_of(ReduceKind::Sum, &inputs, &result);
    assert_eq!(map.name, "ring 0-23 (chunks of 100)");
    assert_eq!(orders(&map)[..2], ["chain 1-23,0", "chain 2-23,0,1"]);
}

#[test]
fn channels_of_different_sizes_are_followed() {
    for (parts, chunk, name, want) in [
        // A full pass, then one of smaller chunks, in each channel.
        (
            vec![560, 400],
            80,
            "ring 0,1,2,3, 4 parts (chunks of 20 to 80)",
            vec![0, 80, 160, 240, 320, 380, 440, 500, 560, 640, 720, 800, 880, 900, 920, 940],
        ),
        (
            vec![3072 * 4, 2048 * 4],
            4096,
            "ring 0,1,2,3, 2 parts (chunks of 3,072 and 2,048)",
            vec![0, 3072, 6144, 9216, 12288, 14336, 16384, 18432],
        ),
        (
            vec![2048 * 4, 3072 * 4],
            4096,
            "ring 0,1,2,3, 2 parts (chunks of 3,072 and 2,048)",
            vec![0, 2048, 4096, 6144, 8192, 11264, 14336, 17408],
        ),
    ] {
        let inputs = random_inputs(4, parts.iter().sum(), 21);
        let result = ring_sums(&inputs, &[0, 1, 2, 3], &parts, chunk);
        let map = map_of(ReduceKind::Sum, &inputs, &result);
        assert_eq!(map.name, name, "{map:#?}");
        assert_replays(&map, &inputs, &result);
        for (run, want) in map.runs.iter().zip(want) {
            assert!(run.earliest_start <= want && want <= run.latest_start, "{want}: {run:?}");
        }
    }
}

/// The sum of a binary tree that adds its children's sums to its own, the first child first.
fn tree(
    inputs: &Inputs,
    children: &dyn Fn(usize) -> Vec<usize>,
    turn: &dyn Fn(usize) -> usize,
    at: usize,
    i: usize,
) -> f32 {
    children(at).into_iter().fold(inputs[turn(at)][i], |sum, child| sum + tree(inputs, children, turn, child, i))
}

/// The children of NCCL's binary tree of 8 ranks, by hand.
fn tree_of_eight(rank: usize) -> Vec<usize> {
    match rank {
        0 => vec![4],
        4 => vec![2, 6],
        2 => vec![1, 3],
        6 => vec![5, 7],
        _ => Vec::new(),
    }
}

#[test]
fn trees_are_named() {
    let inputs = random_inputs(8, 400, 8);
    let first: Vec<f32> = (0..400).map(|i| tree(&inputs, &tree_of_eight, &|rank| rank, 0, i)).collect();
    let second: Vec<f32> = (0..400).map(|i| tree(&inputs, &tree_of_eight, &|rank| 7 - rank, 0, i)).collect();
    let map = map_of(ReduceKind::Sum, &inputs, &first);
    assert_eq!(map.name, "first tree of a double binary tree");
    let both: Vec<f32> = first[..200].iter().chain(&second[200..]).copied().collect();
    let map = map_of(ReduceKind::Sum, &inputs, &both);
    assert_eq!((map.name.as_str(), map.pattern), ("double binary tree (halves of 200)", Pattern::DoubleTree));
    assert_eq!(starts(&map), [0, 200]);
    assert_replays(&map, &inputs, &both);
    let pairs: Vec<f32> = (0..400)
        .map(|i| {
            let pair = |rank: usize| inputs[rank][i] + inputs[rank + 1][i];
            (pair(0) + pair(2)) + (pair(4) + pair(6))
        })
        .collect();
    assert_eq!(map_of(ReduceKind::Sum, &inputs, &pairs).name, "pairs, neighbours first");
    let far: Vec<f32> = (0..400)
        .map(|i| {
            let pair = |rank: usize| inputs[rank][i] + inputs[rank + 4][i];
            (pair(0) + pair(2)) + (pair(1) + pair(3))
        })
        .collect();
    assert_eq!(map_of(ReduceKind::Sum, &inputs, &far).name, "pairs, farthest first");
    let grouped: Vec<f32> =
        (0..400).map(|i| chain(&inputs, &[3, 2, 1, 0], i) + chain(&inputs, &[7, 6, 5, 4], i)).collect();
    let map = map_of(ReduceKind::Sum, &inputs, &grouped);
    assert_eq!(map.name, "groups of 4: chains downwards inside, chain 0,1 between");
}

#[test]
fn a_wide_accumulator_hides_the_order() {
    let inputs = random_inputs(4, 3000, 5);
    let result: Vec<f32> =
        (0..3000).map(|i| inputs.iter().map(|values| f64::from(values[i])).sum::<f64>() as f32).collect();
    let map = map_of(ReduceKind::Sum, &inputs, &result);
    assert_eq!((map.name.as_str(), map.pattern, map.run_count), ("any order, f64 accumulator", Pattern::AnyOrder, 1));
}

fn half_inputs(ranks: usize, elements: usize) -> (Vec<Vec<half::f16>>, Vec<Vec<u8>>) {
    let inputs = random_inputs(ranks, elements, 17);
    let halves: Vec<Vec<half::f16>> =
        inputs.iter().map(|values| values.iter().map(|v| half::f16::from_f32(*v)).collect()).collect();
    let bytes = halves.iter().map(|values| values.iter().flat_map(|v| v.to_le_bytes()).collect()).collect();
    (halves, bytes)
}

#[test]
fn sums_of_groups_may_be_wide() {
    let (inputs, bytes) = half_inputs(8, 600);
    let group = |from: usize, i: usize| {
        half::f16::from_f32((from..from + 4).map(|rank| inputs[rank][i].to_f32()).rev().sum::<f32>())
    };
    let each =
        |bits: &dyn Fn(usize) -> half::f16| -> Vec<u8> { (0..600).flat_map(|i| bits(i).to_le_bytes()).collect() };
    let mixed = each(&|i| half::f16::from_f32(group(0, i).to_f32() + group(4, i).to_f32()));
    let map = map_of_bytes(DType::F16, ReduceKind::Sum, &bytes, &mixed);
    assert_eq!(map.name, "groups of 4: chains downwards inside, chain 0,1 between, f32 inside groups, rounded between");
    let wide = each(&|i| half::f16::from_f32(inputs.iter().map(|values| values[i].to_f32()).sum::<f32>()));
    let map = map_of_bytes(DType::F16, ReduceKind::Sum, &bytes, &wide);
    assert_eq!(map.name, "any order, f32 accumulator");
    let steps = each(&|i| {
        inputs[1..].iter().fold(inputs[0][i], |sum, values| half::f16::from_f32(sum.to_f32() + values[i].to_f32()))
    });
    let map = map_of_bytes(DType::F16, ReduceKind::Sum, &bytes, &steps);
    assert_eq!(map.name, "chain 0,1,2,3,4,5,6,7");
}

#[test]
fn scales_are_named() {
    let inputs = random_inputs(3, 500, 6);
    let third = 1.0f32 / 3.0;
    let ring = [0, 1, 2];
    let by = |value: &dyn Fn(&[usize], usize) -> f32| -> Vec<f32> {
        (0..500).map(|i| value(&ending_at(&ring, i / 167), i)).collect()
    };
    let before =
        by(&|order, i| order[1..].iter().fold(inputs[order[0]][i] * third, |sum, r| sum + inputs[*r][i] * third));
    let fused =
        by(&|order, i| order[1..].iter().fold(inputs[order[0]][i] * third, |sum, r| inputs[*r][i].mul_add(third, sum)));
    let after = by(&|order, i| chain(&inputs, order, i) * third);
    let divided = by(&|order, i| chain(&inputs, order, i) / 3.0);
    let mut maps = Vec::new();
    for (result, words) in [
        (before, "scaled before"),
        (fused, "scaled before without rounding"),
        (after, "scaled after in f32"),
        (divided, "divided after in f32"),
    ] {
        let map = map_of(ReduceKind::Avg, &inputs, &result);
        assert_eq!(map.name, format!("ring 0,1,2 (chunks of 167), {words}"));
        maps.push(map);
    }
    for (a, map) in maps.iter().enumerate() {
        for (b, other) in maps.iter().enumerate() {
            // The order of a fused chain also shows which of its first two ranks comes first.
            let fused = a == 1 || b == 1;
            match compare(map, other) {
                OrderChange::Same => assert_eq!(a, b),
                OrderChange::OtherRounding => assert!(a != b),
                change => assert!(fused && a != b, "{change:?}"),
            }
        }
    }
}

#[test]
fn two_ranks_have_no_order() {
    let inputs = random_inputs(2, 300, 9);
    let scalars: Vec<u64> = [0.3f32, 0.7].iter().map(|s| u64::from(s.to_bits())).collect();
    let kind = ReduceKind::PreMulSum { scalars };
    let before: Vec<f32> = (0..300).map(|i| inputs[0][i] * 0.3 + inputs[1][i] * 0.7).collect();
    let map = map_of(kind.clone(), &inputs, &before);
    assert_eq!(map.name, "any order (two ranks), scaled before");
    // Fused, it matters which rank adds its product to the other's.
    let fused: Vec<f32> = (0..300).map(|i| inputs[1][i].mul_add(0.7, inputs[0][i] * 0.3)).collect();
    let map = map_of(kind, &inputs, &fused);
    assert_eq!(map.name, "chain 0,1, scaled before without rounding");
}

#[test]
fn an_order_of_its_own_for_every_element_is_no_map() {
    for ranks in [4, 6] {
        let inputs = random_inputs(ranks, 2000, 12);
        let source = Random::new(DType::U32, 77, None, None);
        let result: Vec<f32> = (0..2000)
            .map(|i| {
                // A random tree: two random partial results are added until one is left.
                let mut parts: Vec<f32> = (0..ranks).map(|rank| inputs[rank][i]).collect();
                for step in 0..ranks as u64 - 1 {
                    let a = parts.swap_remove(source.bits(2 * step, i as u64) as usize % parts.len());
                    let b = parts.swap_remove(source.bits(2 * step + 1, i as u64) as usize % parts.len());
                    parts.push(a + b);
                }
                parts[0]
            })
            .collect();
        let map = map_of(ReduceKind::Sum, &inputs, &result);
        assert!(map.name.starts_with("not explained by one map: no order of "), "{}", map.name);
        assert_eq!((map.pattern, map.runs.len()), (Pattern::NotExplained, 0));
    }
}

#[test]
fn changes_are_told_by_name() {
    let inputs = random_inputs(4, 4096, 2);
    let sum = |ring: &[usize], parts: &[usize], chunk| {
        map_of(ReduceKind::Sum, &inputs, &ring_sums(&inputs, ring, parts, chunk))
    };
    let one = sum(&[0, 1, 2, 3], &[4096], 4096);
    let two = sum(&[0, 1, 2, 3], &[2048, 2048], 4096);
    let down: Vec<f32> = (0..4096).map(|i| chain(&inputs, &[3, 2, 1, 0], i)).collect();
    let down = map_of(ReduceKind::Sum, &inputs, &down);
    let wide: Vec<f32> =
        (0..4096).map(|i| inputs.iter().map(|values| f64::from(values[i])).sum::<f64>() as f32).collect();
    let wide = map_of(ReduceKind::Sum, &inputs, &wide);
    assert_eq!((compare(&one, &one), compare(&one, &two)), (OrderChange::Same, OrderChange::OtherOrder));
    assert_eq!(describe_change(&one, &two), "ring 0,1,2,3 (chunks of 1,024) -> ring 0,1,2,3, 2 parts (chunks of 512)");
    assert_eq!(describe_change(&one, &down), "ring 0,1,2,3 (chunks of 1,024) -> chain 3,2,1,0");
    assert_eq!(compare(&one, &wide), OrderChange::OtherRounding);
    assert_eq!(describe_change(&down, &wide), "chain 3,2,1,0 -> any order, f64 accumulator");
    // Other data, the same algorithm: the precision of the boundaries differs.
    let inputs = random_inputs(4, 4096, 3);
    let again = map_of(ReduceKind::Sum, &inputs, &ring_sums(&inputs, &[0, 1, 2, 3], &[4096], 4096));
    assert_eq!(compare(&one, &again), OrderChange::Same);
}

#[test]
fn a_boundary_is_known_up_to_elements_that_both_runs_explain() {
    // Elements 20 to 27 are exact, so the boundary at 24 may be anywhere among them.
    let mut inputs = random_inputs(3, 72, 31);
    inputs.iter_mut().for_each(|values| values[20..28].fill(1.0));
    let result: Vec<f32> = (0..72).map(|i| chain(&inputs, if i < 24 { &[0, 1, 2] } else { &[2, 1, 0] }, i)).collect();
    let map = map_of(ReduceKind::Sum, &inputs, &result);
    let [_, second] = map.runs.as_slice() else { panic!("{map:#?}") };
    assert!(second.earliest_start <= 20 && second.latest_start >= 28, "{second:?}");
    assert_eq!(compare(&map, &map), OrderChange::Same);
    // The same with the boundary at 27 has the same bits, and the same map.
    let moved: Vec<f32> = (0..72).map(|i| chain(&inputs, if i < 27 { &[0, 1, 2] } else { &[2, 1, 0] }, i)).collect();
    assert_eq!(map_of(ReduceKind::Sum, &inputs, &moved), map);
    let later: Vec<f32> = (0..72).map(|i| chain(&inputs, if i < 48 { &[0, 1, 2] } else { &[2, 1, 0] }, i)).collect();
    assert_eq!(compare(&map, &map_of(ReduceKind::Sum, &inputs, &later)), OrderChange::OtherOrder);
}

#[test]
fn few_elements_are_said_to_tell_too_little() {
    // One element of 40 rounds, and to the same value in every order.
    let mut inputs: Inputs = vec![vec![1.0; 40]; 3];
    for (values, value) in inputs.iter_mut().zip([16_777_216.0, 4.0, 0.5]) {
        values[7] = value;
    }
    let result: Vec<f32> = (0..40).map(|i| chain(&inputs, &[0, 1, 2], i)).collect();
    let map = map_of(ReduceKind::Sum, &inputs, &result);
    assert_eq!((map.name.as_str(), map.telling), ("any order (too few elements tell)", 1));
}

#[test]
fn halves_of_few_elements_are_those_of_a_double_tree() {
    let inputs = random_inputs(8, 16, 5);
    let turn = |i: usize| move |rank: usize| if i < 8 { rank } else { 7 - rank };
    let result: Vec<f32> = (0..16).map(|i| tree(&inputs, &tree_of_eight, &turn(i), 0, i)).collect();
    assert_eq!(map_of(ReduceKind::Sum, &inputs, &result).name, "double binary tree (halves of 8)");
}

#[test]
fn maps_read_back() {
    let inputs = random_inputs(4, 100, 2);
    let map = map_of(ReduceKind::Sum, &inputs, &ring_sums(&inputs, &[0, 1, 2, 3], &[100], 25));
    let order = ResultOrder { step: "step 1".into(), buffer: "y".into(), ranks: vec![0, 1], map };
    let text = serde_json::to_string(&order).unwrap();
    assert_eq!(serde_json::from_str::<ResultOrder>(&text).unwrap(), order);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_map_reproduces_all_bits(
        order in (3usize..=6).prop_flat_map(|n| Just((0..n).collect::<Vec<_>>()).prop_shuffle()),
        chunk in 20usize..90,
        passes in 1usize..4,
        left_over in 0usize..150,
        kind in 0u8..4,
        seed in any::<u64>(),
    ) {
        let n = order.len();
        let even = passes * n * chunk;
        let elements = if kind == 2 { even + left_over } else { even };
        let inputs = random_inputs(n, elements, seed);
        let result: Vec<f32> = match kind {
            0 => (0..elements).map(|i| chain(&inputs, &order, i)).collect(),
            1 | 2 => ring_sums(&inputs, &order, &[elements], chunk),
            _ => {
                let mut other = order.clone();
                other.reverse();
                (0..elements).map(|i| chain(&inputs, if i < elements / 2 { &order } else { &other }, i)).collect()
            }
        };
        let map = map_of(ReduceKind::Sum, &inputs, &result);
        // The rest may be cut in pieces of a few elements, which many orders explain.
        prop_assert!(map.is_explained() || kind == 2, "{}", map.name);
        if map.is_explained() {
            assert_replays(&map, &inputs, &result);
        }
        prop_assert_eq!(compare(&map, &map) == OrderChange::Same, map.is_explained());
    }
}

#[test]
fn every_ring_with_a_smaller_last_pass_is_found() {
    for n in 3..=6u32 {
        for order in super::named_orders::all_chains(n, false) {
            let ring: Vec<usize> = order.chain().into_iter().map(|rank| rank as usize).collect();
            let elements = ring.len() * 32 + 38;
            let inputs = random_inputs(ring.len(), elements, 945_587_919_346_749_429);
            let result = ring_sums(&inputs, &ring, &[elements], 32);
            let map = map_of(ReduceKind::Sum, &inputs, &result);
            assert_eq!((map.pattern, map.run_count), (Pattern::Ring, 2 * u64::from(n)), "{ring:?}: {map:#?}");
            assert_replays(&map, &inputs, &result);
        }
    }
}

#[test]
fn a_nan_among_the_inputs_tells_nothing() {
    let mut inputs = random_inputs(4, 8, 3);
    let order = [0, 1, 2, 3];
    let sums = |inputs: &Inputs| (0..8).map(|i| chain(inputs, &order, i)).collect::<Vec<f32>>();
    inputs[2][5] = f32::NAN;
    let without = map_of(ReduceKind::Sum, &inputs, &sums(&inputs)).telling;
    for (element, value) in inputs[1].iter_mut().enumerate() {
        *value = if element == 6 { *value } else { f32::NAN };
    }
    let bytes = |inputs: &Inputs| inputs.iter().map(|values| bytes_of(values)).collect::<Vec<_>>();
    let map =
        |inputs: &Inputs| find_map_of_bytes(DType::F32, ReduceKind::Sum, &bytes(inputs), &bytes_of(&sums(inputs)));
    assert_eq!((without, map(&inputs).map(|map| map.telling)), (7, Some(1)));
    inputs[3] = vec![f32::NEG_INFINITY; 8];
    inputs[0] = vec![f32::INFINITY; 8];
    assert!(map(&inputs).is_none(), "the sum of both infinities is a NaN in every order");
}
