//! Contents of inputs.
use super::rng::Rng;

pub(super) const DTYPES: &[&str] =
    &["i8", "u8", "i32", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "f32", "i32", "f64"];

pub(super) fn is_float(dtype: &str) -> bool {
    dtype.contains('f')
}

const WHOLE: &[&str] = &[
    "rank + i",
    "2 ^ rank * (i % 3 + 1)",
    "if(i % n == rank, 7, i % 5)",
    "rank - i",
    "(5 * i + 3 * rank) % 61",
    "(i + rank) % 2 * 2 - 1",
    "100 * rank + i % 20",
    "3",
];

const FRACTIONS: &[&str] = &[
    "0.5 * i - rank",
    "1 / (i + rank + 1)",
    "sin(i + 10 * rank)",
    "exp(-i) * (rank + 1)",
    "if((i + rank) % 3 == 0, 1e8, if((i + rank) % 3 == 1, 1, -1e8))",
    "2 ^ (-(i % 24)) * (1 + rank)",
];

/// The last two are not in f8e4m3.
const SPECIAL: &[&str] = &["nan", "-0.0", "0.0", "1", "-1", "0.25", "448", "3", "inf", "-inf"];

/// A buffer's table: contents and counts by rank.
pub(super) fn table(rng: &mut Rng, dtype: &str, counts: &[usize]) -> String {
    let same = counts.iter().all(|count| *count == counts[0]);
    let count = if same { counts[0].to_string() } else { format!("{counts:?}") };
    let float = is_float(dtype);
    let total: usize = counts.iter().sum();
    match rng.below(10) {
        0 | 1 => format!("{{ random = {{ seed = {} }}, count = {count}, dtype = \"{dtype}\" }}", rng.below(1000)),
        2 if float && total <= 200 => {
            let special = &SPECIAL[..if dtype == "f8e4m3" { 8 } else { 10 }];
            let row = |rng: &mut Rng, count: usize| {
                let row: Vec<&str> = (0..count).map(|_| *rng.pick(special)).collect();
                format!("{{ each = [{}], dtype = \"{dtype}\" }}", row.join(", "))
            };
            if same {
                return row(rng, counts[0]);
            }
            each(rng, float, dtype, &count)
        }
        _ => each(rng, float, dtype, &count),
    }
}

fn each(rng: &mut Rng, float: bool, dtype: &str, count: &str) -> String {
    let list = if float && rng.percent(40) { FRACTIONS } else { WHOLE };
    format!("{{ each = \"{}\", count = {count}, dtype = \"{dtype}\" }}", rng.pick(list))
}
