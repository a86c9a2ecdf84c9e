//! Measures the speed of the lanes; run by hand: `cargo test --release --lib speed -- --ignored --nocapture`.
use super::*;
use crate::num::{Random, put_element};
use crate::scenario::case::ElementValue;
use std::time::Instant;

fn buffers(dtype: DType, ranks: usize, elements: usize, whole: bool) -> Vec<Vec<u8>> {
    let ends = [ElementValue::Int(-8), ElementValue::Int(8)];
    let source = match whole {
        true => Random::new(DType::I32, 1, Some(&ends[0]), Some(&ends[1])),
        false => Random::new(dtype, 1, None, None),
    };
    (0..ranks as u64)
        .map(|rank| {
            let mut bytes = vec![0; elements * dtype.size()];
            for i in 0..elements {
                let bits = source.bits(rank, i as u64);
                let bits = if whole { crate::num::encode_int(dtype, (bits as u32 as i32).into()) } else { bits };
                put_element(dtype, &mut bytes, i, bits);
            }
            bytes
        })
        .collect()
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    for (dtype, kind) in [
        (DType::I32, ReduceKind::Sum),
        (DType::U8, ReduceKind::Avg),
        (DType::F32, ReduceKind::Sum),
        (DType::F64, ReduceKind::Sum),
        (DType::Bf16, ReduceKind::Sum),
        (DType::F16, ReduceKind::Avg),
        (DType::F8e4m3, ReduceKind::Sum),
        (DType::F32, ReduceKind::Max),
        (DType::F16, ReduceKind::Max),
    ] {
        let rows = buffers(dtype, 8, 1 << 20, !matches!(dtype, DType::F8e4m3));
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let reduction = ColumnReduction { dtype, kind, ranks: 8 };
        let start = Instant::now();
        let done = reduction.exact_buffer(&inputs);
        println!(
            "exact {dtype:?} {:?} 8 x 1Mi: {:?}, {:?}",
            reduction.kind,
            start.elapsed(),
            done.map(|b| b.special.len())
        );
    }
    for (dtype, kind) in [
        (DType::F32, ReduceKind::Sum),
        (DType::Bf16, ReduceKind::Sum),
        (DType::F16, ReduceKind::Avg),
        (DType::F32, ReduceKind::Avg),
        (DType::F8e4m3, ReduceKind::Sum),
    ] {
        for ranks in [3, 4, 6, 8] {
            let elements = 1 << 16;
            let rows = buffers(dtype, ranks, elements, false);
            let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
            let reduction = ColumnReduction { dtype, kind: kind.clone(), ranks };
            let mut budget = Budget::default();
            let mut chunk = |from: usize, to: usize| {
                let start = Instant::now();
                let mut sizes = 0;
                for i in from..to {
                    let column = reduction.column(&inputs, i);
                    let judged = reduction.judge(&column, reduction.canonical(&column), &mut budget);
                    let Ruling::Accept { set_size, .. } = judged.ruling else { panic!() };
                    sizes += set_size.unwrap_or(0);
                }
                (start.elapsed() / (to - from) as u32, sizes as f64 / (to - from) as f64)
            };
            let (searched, chains) = (chunk(0, 512), chunk(2048, elements));
            let start = Instant::now();
            let mut budget = Budget::default();
            for i in 0..16 {
                reduction.right_results(&reduction.column(&inputs, i), &mut budget).unwrap();
            }
            println!(
                "judge {dtype:?} {kind:?} n={ranks}: search {searched:?} each, chains {:?} each, all ways {:?} each, blown {}",
                chains.0,
                start.elapsed() / 16,
                budget.is_exhausted()
            );
        }
    }
    for (dtype, ranks) in [(DType::F32, 16), (DType::F32, 128), (DType::Bf16, 16), (DType::F64, 128)] {
        let rows = buffers(dtype, ranks, 1000, false);
        let inputs: Vec<&[u8]> = rows.iter().map(Vec::as_slice).collect();
        let reduction = ColumnReduction { dtype, kind: ReduceKind::Sum, ranks };
        let (mut budget, start) = (Budget::new(0), Instant::now());
        for i in 0..1000 {
            let column = reduction.column(&inputs, i);
            let bits = reduction.canonical(&column);
            assert!(reduction.judge(&column, bits, &mut budget).ruling.accepted());
        }
        println!("bound {dtype:?} n={ranks}: {:?} each", start.elapsed() / 1000);
    }
}
