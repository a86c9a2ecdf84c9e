//! Why expressions have a second evaluator, which works on blocks: the time of one element at a time over the time of blocks.
//!
//! Run it with `cargo bench --bench expressions`. The ratios are of one run on one machine.
use collspec_core::expr::{BLOCK, BlockEvaluator, BlockValues, EvalError, Mode, Scope, Value, parse};
use std::hint::black_box;
use std::time::{Duration, Instant};

const ELEMENTS: u64 = 1 << 20;

/// Names of element `i` of rank 3 of 8.
struct Names {
    i: Option<i128>,
}

impl Scope for Names {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        let value = match name {
            "i" => self.i.ok_or_else(|| EvalError("no element".to_owned()))?,
            "rank" => 3,
            "n" => 8,
            _ => return Err(EvalError(format!("`{name}` has no value"))),
        };
        Ok(Value::Int(value))
    }
}

/// The shortest of five runs, and what they computed.
fn shortest<T: PartialEq + std::fmt::Debug>(run: impl Fn() -> T) -> (Duration, T) {
    let timed = || {
        let start = Instant::now();
        let result = black_box(run());
        (start.elapsed(), result)
    };
    (1..5).map(|_| timed()).fold(timed(), |best, next| if next.0 < best.0 { next } else { best })
}

fn main() {
    for text in
        ["rank + 1", "rank * 1000 + i % 256", "(i * 2654435761 + rank) % 65536 - 32768", "if(i % 2 == 0, 1.5, -1.5)"]
    {
        let expr = parse(text).expect("a valid expression").expr;
        let (single, sum) = shortest(|| {
            let element = |i| expr.eval(&Names { i: Some(i128::from(i)) }, Mode::Float).expect("a value").as_f64();
            (0..ELEMENTS).map(element).sum::<f64>()
        });
        let (blocks, block_sum) = shortest(|| {
            let evaluator = BlockEvaluator::new(&expr, &Names { i: None }, Mode::Float).expect("only `i` is open");
            let block = |from| match evaluator.block(from, BLOCK).expect("small numbers") {
                BlockValues::Whole(values) => values.iter().map(|v| *v as f64).sum::<f64>(),
                BlockValues::Float(values) => values.iter().sum::<f64>(),
            };
            (0..ELEMENTS).step_by(BLOCK).map(block).sum::<f64>()
        });
        assert_eq!(sum, block_sum, "{text}");
        let ratio = single.as_secs_f64() / blocks.as_secs_f64();
        println!(
            "{text:45} blocks are {ratio:5.1} times as fast ({single:.1?} and {blocks:.1?} for {ELEMENTS} elements)"
        );
    }
}
