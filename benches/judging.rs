//! How fast exact results are forecast and judged, in elements of one rank's result for each second.
//!
//! Run it with `cargo bench --bench judging`. Forecasting makes the inputs and works out the result; judging compares the memory of all
//! ranks, inputs and guards included, and says what is wrong where one element is. Both run without the library: what its runs leave is
//! made by hand, and lies in this process. The figures are of one run on one machine.
mod measure;

use collspec_core::judge::{CaseJudge, Status, Verdict};
use collspec_core::num::{DType, decode_f64, encode_f64, get_element, put_element};
use collspec_core::oracle::Forecast;
use collspec_core::plan::Plan;
use measure::observed::{observation, places, planned};
use measure::{head, machine, row, shortest, three_digits};
use std::time::Duration;

const RANKS: usize = 4;
const ELEMENTS: usize = 4 << 20;
/// Sums of four such values are exact in bf16 too.
const VALUES: [(&str, &str); 2] = [("repeated", "(97 * rank + i) % 61"), ("formula", "(i * i + rank) % 61")];

fn main() {
    println!("{}\n", machine());
    println!("all_reduce of {ELEMENTS} elements on {RANKS} ranks, millions of elements a second");
    println!("{}", head(&["type", "values", "forecast", "judge", "judge, one wrong element"]));
    for dtype in [DType::F32, DType::I32, DType::Bf16] {
        for (name, expression) in VALUES {
            let plan = planned(format!(
                "world_size = {RANKS}\nop = \"all_reduce\"\ndtype = \"{}\"\ninputs = {{ each = \"{expression}\", count = {ELEMENTS} }}\n",
                dtype.name()
            ));
            let (forecasting, forecast) = shortest(3, || Forecast::new(&plan, 7).unwrap_or_else(|d| panic!("{d:?}")));
            let mut images = images(&plan, &forecast, dtype);
            let (right, verdict) = judged(&plan, &forecast, &images);
            assert_eq!(verdict.status, Status::Pass, "{:?}", verdict.reason);
            let (alloc, out) = places(&plan, "out").swap_remove(RANKS - 1);
            images[alloc][out.start + out.len() / 2] ^= 1;
            let (wrong, verdict) = judged(&plan, &forecast, &images);
            assert_eq!(verdict.status, Status::Fail, "one element is wrong");
            let rate = |time: Duration| three_digits(ELEMENTS as f64 / time.as_secs_f64() / 1e6);
            println!("{}", row(&[dtype.name().into(), name.into(), rate(forecasting), rate(right), rate(wrong)]));
        }
    }
}

/// What every right run leaves.
fn images(plan: &Plan, forecast: &Forecast, dtype: DType) -> Vec<Vec<u8>> {
    let mut images = forecast.initial_images();
    let value = |bits: u64| if dtype.is_float() { decode_f64(dtype, bits) } else { f64::from(bits as u32 as i32) };
    let bits = |value: f64| if dtype.is_float() { encode_f64(dtype, value) } else { u64::from(value as i32 as u32) };
    let mut result = vec![0; ELEMENTS * dtype.size()];
    let inputs = places(plan, "in");
    for element in 0..ELEMENTS {
        let of = |(alloc, range): &(usize, std::ops::Range<usize>)| {
            value(get_element(dtype, &images[*alloc][range.clone()], element))
        };
        put_element(dtype, &mut result, element, bits(inputs.iter().map(of).sum()));
    }
    for (alloc, range) in places(plan, "out") {
        images[alloc][range].copy_from_slice(&result);
    }
    images
}

/// Judges a run three times; the shortest time, without that of copying the images.
fn judged(plan: &Plan, forecast: &Forecast, images: &[Vec<u8>]) -> (Duration, Verdict) {
    let once = || {
        let run = observation(RANKS, images.to_vec());
        timed(|| {
            let mut judge = CaseJudge::new(plan, forecast);
            judge.judge_run(run);
            judge.into_verdict(true)
        })
    };
    (1..3).map(|_| once()).fold(once(), |best, next| if next.0 < best.0 { next } else { best })
}

fn timed<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let began = std::time::Instant::now();
    let result = run();
    (began.elapsed(), result)
}
