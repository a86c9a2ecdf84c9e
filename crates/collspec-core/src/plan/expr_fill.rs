//! The elements given by an expression of `i`: one period of them if they repeat, blocks of them otherwise.
use super::cost::operations;
use super::eval::{Names, no_value};
use super::inputs::mode;
use crate::cores::{cores, in_parallel};
use crate::expr::map::{expr_bits, have_values as block_has_values, put_block, value_bits};
use crate::expr::{BLOCK, BlockEvaluator, BlockValues, EvalError, Mode};
use crate::num::{DType, put_element, repeat_period};
use crate::scenario::{Diagnostic, Expr, Span};

/// The rule for a number that is not whole in an element of an integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fraction {
    /// The number is rounded towards zero.
    Dropped,
    /// The number is an error: no integer can be equal to it.
    Refused,
}

/// Elements are evaluated one by one if that takes at most this many operations: preparing for blocks would take longer.
const FEW_OPERATIONS: u64 = 64;

fn are_few(expr: &Expr, count: u64) -> bool {
    count <= FEW_OPERATIONS && count * operations(expr, 0) <= FEW_OPERATIONS
}

/// The number of elements that are computed; the others repeat them.
pub fn computed(expr: &Expr, names: &Names, mode: Mode, count: u64) -> u64 {
    if are_few(expr, count) {
        return count;
    }
    repeating(BlockEvaluator::new(expr, names, mode).as_ref(), count)
}

fn repeating(blocks: Option<&BlockEvaluator>, count: u64) -> u64 {
    blocks.and_then(|b| b.period(count)).unwrap_or(count).min(count)
}

/// Fills the bytes with the elements from the first on.
///
/// # Errors
///
/// The first element without a value.
pub fn fill(
    expr: &Expr,
    span: Span,
    names: Names,
    dtype: DType,
    fraction: Fraction,
    bytes: &mut [u8],
) -> Result<(), Diagnostic> {
    let size = dtype.size();
    let count = (bytes.len() / size) as u64;
    let mut elements = Elements::new(expr, span, names, dtype, fraction, count);
    let computed = elements.computed(count) as usize;
    for (block, bytes) in bytes[..computed * size].chunks_mut(BLOCK * size).enumerate() {
        elements.block((block * BLOCK) as u64, bytes)?;
    }
    repeat_period(bytes, computed * size);
    Ok(())
}

/// Fills the bytes with the elements from `first` on.
///
/// # Errors
///
/// The first element without a value.
pub fn fill_from(
    expr: &Expr,
    span: Span,
    names: Names,
    dtype: DType,
    fraction: Fraction,
    first: u64,
    bytes: &mut [u8],
) -> Result<(), Diagnostic> {
    let count = (bytes.len() / dtype.size()) as u64;
    let mut elements = Elements::new(expr, span, names, dtype, fraction, count);
    let mut blocks = bytes.chunks_mut(BLOCK * dtype.size()).enumerate();
    blocks.try_for_each(|(block, bytes)| elements.block(first + (block * BLOCK) as u64, bytes))
}

/// Checks that each of this many elements has a value, like [`fill`], but using only the memory of one block.
///
/// # Errors
///
/// The first element without a value.
pub fn have_values(
    expr: &Expr,
    span: Span,
    names: Names,
    dtype: DType,
    fraction: Fraction,
    count: u64,
) -> Result<(), Diagnostic> {
    let size = dtype.size();
    let computed = Elements::new(expr, span, names, dtype, fraction, count).computed(count);
    let of_part = |from: u64, to: u64| {
        let mut elements = Elements::new(expr, span, names, dtype, fraction, count);
        let mut bytes = vec![0; BLOCK * size];
        (from..to).step_by(BLOCK).try_for_each(|from| {
            let len = (to - from).min(BLOCK as u64) as usize;
            elements.block(from, &mut bytes[..len * size])
        })
    };
    if computed <= MANY {
        return of_part(0, computed);
    }
    let part = computed.div_ceil(cores() as u64).max(MANY);
    let parts = (0..computed).step_by(part as usize).map(|from| (from, computed.min(from + part)));
    // The first part with an error has the first error.
    in_parallel(parts.collect(), |(from, to)| of_part(from, to)).into_iter().collect()
}

/// Number of elements from which checking them on several threads is worthwhile.
const MANY: u64 = 1 << 20;

/// Computes the elements of an expression, block by block.
struct Elements<'a> {
    expr: &'a Expr,
    span: Span,
    names: Names<'a>,
    dtype: DType,
    fraction: Fraction,
    blocks: Option<BlockEvaluator>,
}

impl<'a> Elements<'a> {
    /// Prepares for evaluation; `count` is the total number of elements that will be requested.
    fn new(expr: &'a Expr, span: Span, names: Names<'a>, dtype: DType, fraction: Fraction, count: u64) -> Self {
        let blocks = if are_few(expr, count) { None } else { BlockEvaluator::new(expr, &names, mode(dtype)) };
        Self { expr, span, names, dtype, fraction, blocks }
    }

    fn computed(&self, count: u64) -> u64 {
        repeating(self.blocks.as_ref(), count)
    }

    /// Writes the elements from `from` on, at most [`BLOCK`] of them.
    fn block(&mut self, from: u64, bytes: &mut [u8]) -> Result<(), Diagnostic> {
        let Self { expr, span, dtype, fraction, .. } = *self;
        let len = bytes.len() / dtype.size();
        let block = self.blocks.as_ref().and_then(|b| b.block(from, len));
        if let Some(block) = block.filter(|block| is_sure(dtype, fraction, block)) {
            put_block(dtype, &block, bytes);
            return Ok(());
        }
        for k in 0..len {
            self.names.i = Some(from + k as u64);
            let bits = bits(dtype, expr, &self.names, fraction).map_err(|e| no_value(expr, span, &self.names, &e))?;
            put_element(dtype, bytes, k, bits);
        }
        Ok(())
    }
}

fn bits(dtype: DType, expr: &Expr, names: &Names, fraction: Fraction) -> Result<u64, EvalError> {
    if dtype.is_float() || fraction == Fraction::Dropped {
        return expr_bits(dtype, expr, names);
    }
    let value = expr.eval_wrapping(names)?;
    value.to_int()?;
    value_bits(dtype, value)
}

/// False if an element may not have a value in the type.
fn is_sure(dtype: DType, fraction: Fraction, block: &BlockValues) -> bool {
    let may_have_fraction = matches!(block, BlockValues::Float(_)) && !dtype.is_float();
    (fraction == Fraction::Dropped || !may_have_fraction) && block_has_values(dtype, block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::{Value, parse};
    use proptest::prelude::*;

    const AXES: fn() -> Vec<(String, Value)> =
        || vec![("k".to_owned(), Value::Int(5)), ("h".to_owned(), Value::Float(0.5))];

    fn both(text: &str, dtype: DType, count: usize) -> [Result<Vec<u8>, String>; 2] {
        let (expr, span, axes) = (parse(text).expect(text).expr, Span::default(), AXES());
        let mut names =
            Names { rank: 2, n: 3, world_rank: 2, world_size: 3, t: None, peer: None, i: None, axes: &axes };
        let mut bytes = vec![0; count * dtype.size()];
        let quick =
            fill(&expr, span, names, dtype, Fraction::Dropped, &mut bytes).map(|()| bytes).map_err(|d| d.message);
        let mut bytes = vec![0; count * dtype.size()];
        let slow = (0..count).try_for_each(|i| {
            names.i = Some(i as u64);
            let bits = expr_bits(dtype, &expr, &names).map_err(|e| no_value(&expr, span, &names, &e).message)?;
            put_element(dtype, &mut bytes, i, bits);
            Ok(())
        });
        let none = have_values(&expr, span, names, dtype, Fraction::Dropped, count as u64).map_err(|d| d.message);
        assert_eq!(none.err(), quick.as_ref().err().cloned(), "{text}");
        [quick, slow.map(|()| bytes)]
    }

    fn texts() -> impl Strategy<Value = String> {
        let words = [
            "i", "i", "i", "i", "rank", "n", "k", "h", "0", "1", "2", "7", "251", "-3", "0.5", "-0.0", "1e19", "nan",
            "2 ^ 90",
        ];
        let leaf = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        leaf.prop_recursive(5, 24, 3, |inner| {
            let operators = ["+", "-", "*", "/", "%", "%", "^", "<", "<=", ">", ">=", "==", "!="];
            let operator = prop::sample::select(operators.to_vec());
            let one = prop::sample::select(vec!["-", "abs", "floor", "ceil", "sqrt", "ln", "sin"]);
            prop_oneof![
                5 => (inner.clone(), operator, inner.clone()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
                1 => (one, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
                1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a}, {b})")),
                1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("max({a}, 1, {b})")),
                1 => (inner.clone(), inner.clone(), inner).prop_map(|(c, a, b)| format!("if({c}, {a}, {b})")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn many_at_once_are_as_one_by_one(text in texts(), dtype in prop::sample::select(DType::ALL.to_vec()), count in 0usize..1100) {
            let [quick, slow] = both(&text, dtype, count);
            prop_assert_eq!(quick, slow, "{}", text);
        }
    }

    #[test]
    fn what_the_corpus_sends_repeats() {
        let axes = AXES();
        let names = Names { rank: 2, n: 3, world_rank: 2, world_size: 3, t: None, peer: None, i: None, axes: &axes };
        for (text, period) in [
            ("(97 * rank + i) % 251", Some(251)),
            ("2 ^ rank * (i % 7 + 1)", Some(7)),
            ("if(i % n == rank, 0.5 * (i % 4) + 1, -0.5)", Some(12)),
            ("(4 * i + rank) % 6", Some(3)),
            ("rank", Some(1)),
            ("if(rank == 1, i, 4)", Some(1)),
            ("i", None),
            ("i * i % 7", None),
            ("i % (i + 1)", None),
            ("(i / 2) % 3", None),
            ("(1e13 * i) % 3", None),
        ] {
            let expr = parse(text).expect(text).expr;
            for dtype in [DType::I64, DType::F64] {
                let blocks = BlockEvaluator::new(&expr, &names, mode(dtype)).expect(text);
                assert_eq!(blocks.period(1000), period, "{text}");
                let [quick, slow] = both(text, dtype, 1000);
                assert_eq!(quick, slow, "{text}");
            }
        }
    }
}
