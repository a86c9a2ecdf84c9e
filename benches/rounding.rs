//! How fast results that round are judged: whole buffers over one element at a time, and what fingerprints and order maps add.
//!
//! Run it with `cargo bench --bench rounding`. The results are those of a ring, as the software library computes them. The
//! ratios are of one run on one machine.
mod measure;

use collspec_core::judge::{CaseJudge, Details, Status, Verdict};
use collspec_core::num::{DType, decode_f64, encode_f64, get_element, put_element};
use collspec_core::oracle::{Budget, ColumnReduction, Forecast, ReduceKind};
use collspec_core::plan::Plan;
use collspec_run::job::Observation;
use measure::observed::{observation, places, planned};
use measure::{shortest, shortest_on};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The plan of an all_reduce of random values.
fn random(dtype: DType, ranks: usize, elements: usize) -> Plan {
    planned(format!(
        "world_size = {ranks}\nop = \"all_reduce\"\ndtype = \"{}\"\ncount = {elements}\ninputs = {{ random = {{ seed = 3 }} }}\n",
        dtype.name()
    ))
}

/// What a run leaves in which a ring has summed the inputs, chunk by chunk.
fn ring(plan: &Plan, forecast: &Forecast, dtype: DType) -> Observation {
    let initial = forecast.initial_images();
    let inputs: Vec<&[u8]> = places(plan, "in").into_iter().map(|(alloc, range)| &initial[alloc][range]).collect();
    let (ranks, elements) = (inputs.len(), inputs[0].len() / dtype.size());
    let mut result = vec![0; inputs[0].len()];
    for element in 0..elements {
        let first = 1 + element * ranks / elements;
        let value = |place: usize| decode_f64(dtype, get_element(dtype, inputs[(first + place) % ranks], element));
        let rounded = |value| decode_f64(dtype, encode_f64(dtype, value));
        let sum = (1..ranks).fold(value(0), |sum, place| rounded(sum + value(place)));
        put_element(dtype, &mut result, element, encode_f64(dtype, sum));
    }
    let mut images = initial.clone();
    for (alloc, range) in places(plan, "out") {
        images[alloc][range].copy_from_slice(&result);
    }
    observation(ranks, images)
}

/// The shortest of three times, and the verdict. Copying what the judge takes over is not judging.
fn judged(plan: &Plan, forecast: &Forecast, run: &Observation, details: Details) -> (Duration, Verdict) {
    let judge = |run| {
        let mut judge = CaseJudge::new(plan, forecast).with_details(details);
        judge.judge_run(run);
        judge.into_verdict(true)
    };
    shortest_on(3, || run.clone(), judge)
}

/// Judges the elements one by one, as single columns.
fn one_by_one(plan: &Plan, forecast: &Forecast, run: &Observation, dtype: DType) -> u64 {
    let initial = forecast.initial_images();
    let inputs: Vec<&[u8]> = places(plan, "in").into_iter().map(|(alloc, range)| &initial[alloc][range]).collect();
    let (alloc, range) = places(plan, "out").swap_remove(0);
    let observed = &run.images[alloc][range];
    let reduction = ColumnReduction { dtype, kind: ReduceKind::Sum, ranks: inputs.len() };
    let mut budget = Budget::default();
    let elements = observed.len() / dtype.size();
    let right = |element: &usize| {
        let column = reduction.column(&inputs, *element);
        // What the forecast does, and then the judge.
        if black_box(reduction.exact(&column)).is_none() {
            reduction.judgeable(&column).expect("a column that can be judged");
            black_box(reduction.canonical(&column));
        }
        reduction.judge(&column, get_element(dtype, observed, *element), &mut budget).ruling.accepted()
    };
    (0..elements).filter(right).count() as u64
}

fn main() {
    println!(
        "| elements | forecast | judge | one by one | one by one over both | more for a fingerprint | more for order maps and fingerprint | order map |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for (dtype, ranks, elements) in [
        (DType::F32, 4, 1 << 16),
        (DType::F32, 8, 1 << 16),
        (DType::F32, 4, 1 << 20),
        (DType::F32, 8, 1 << 20),
        (DType::Bf16, 4, 1 << 20),
        (DType::Bf16, 8, 1 << 20),
        (DType::F16, 4, 1 << 20),
        (DType::F16, 8, 1 << 20),
    ] {
        let plan = random(dtype, ranks, elements);
        let (forecasting, forecast) = shortest(3, || Forecast::new(&plan, 7).unwrap_or_else(|d| panic!("{d:?}")));
        let run = ring(&plan, &forecast, dtype);
        let (judging, verdict) = judged(&plan, &forecast, &run, Details::None);
        assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.reason);
        let (with_fingerprint, _) = judged(&plan, &forecast, &run, Details::Fingerprint);
        let (with_order_maps, verdict) = judged(&plan, &forecast, &run, Details::OrderMaps);
        let map = verdict.order_maps.first().map_or("no order map", |order| &order.map.name);
        let start = Instant::now();
        assert_eq!(one_by_one(&plan, &forecast, &run, dtype), elements as u64);
        let single = start.elapsed();
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| {}, {ranks} ranks, {elements} | {:.1} ms | {:.1} ms | {:.0} ms | {:.1} | {:.1} ms | {:.1} ms | {map} |",
            dtype.name(),
            milliseconds(forecasting),
            milliseconds(judging),
            milliseconds(single),
            single.as_secs_f64() / (forecasting + judging).as_secs_f64(),
            milliseconds(with_fingerprint.saturating_sub(judging)),
            milliseconds(with_order_maps.saturating_sub(judging)),
        );
    }
}
