//! Evaluates one element of a `map`, for the worker and for the oracle.
use super::block::CompiledNode;
use super::{BLOCK, BlockEvaluator, BlockValues, EvalError, Expr, Mode, Scope, Value};
use crate::num::{DType, Number, decode, decode_f64, encode_f64, encode_int, get_element, put_elements, put_floats};

/// A buffer that a map reads.
#[derive(Clone, Copy, Debug)]
pub struct MapInput<'a> {
    /// Its name in the expression.
    pub name: &'a str,
    /// Element type of the buffer.
    pub dtype: DType,
    /// All bytes of the buffer.
    pub bytes: &'a [u8],
}

impl MapInput<'_> {
    /// Number of elements in the buffer.
    pub fn count(&self) -> usize {
        self.bytes.len() / self.dtype.size()
    }
}

/// The bits of element `i` of a map's output. `watch` is called for every element that is read, with input and index.
pub fn map_element(
    expr: &Expr,
    names: &[(String, Value)],
    inputs: &[MapInput<'_>],
    dtype: DType,
    i: u64,
    watch: &dyn Fn(usize, usize),
) -> Result<u64, EvalError> {
    expr_bits(dtype, expr, &ElementScope { names, inputs, i, watch })
}

/// Evaluates many elements of a map at once, where each reads its own element of the buffers and no other.
pub struct BlockMap {
    blocks: BlockEvaluator,
    dtype: DType,
    reads: Vec<usize>,
}

impl BlockMap {
    /// `None` for an expression that must be evaluated element by element.
    pub fn new(expr: &Expr, names: &[(String, Value)], inputs: &[MapInput<'_>], dtype: DType) -> Option<Self> {
        let scope = BlockScope { names, inputs };
        let blocks = BlockEvaluator::new(expr, &scope, if dtype.is_float() { Mode::Float } else { Mode::Whole })?;
        let mut reads = Vec::new();
        blocks.visit(&mut |node| {
            if let CompiledNode::Input(number) = node {
                reads.push(*number);
            }
        });
        reads.sort_unstable();
        reads.dedup();
        Some(Self { blocks, dtype, reads })
    }

    /// The inputs that each element reads.
    pub fn reads(&self) -> &[usize] {
        &self.reads
    }

    /// Puts the elements from `from` on, at most [`BLOCK`] of them, as [`map_element`] gives them. False, and nothing is put, if
    /// they must be evaluated one by one.
    pub fn put(&self, inputs: &[MapInput<'_>], from: u64, bytes: &mut [u8]) -> bool {
        let len = bytes.len() / self.dtype.size();
        let mut held: Vec<Option<BlockValues>> = vec![None; inputs.len()];
        for number in &self.reads {
            let read = inputs.get(*number).and_then(|input| input.block(from, len, self.dtype.is_float()));
            let (Some(read), Some(place)) = (read, held.get_mut(*number)) else { return false };
            *place = Some(read);
        }
        let block = if len <= BLOCK { self.blocks.block_of(from, len, &held) } else { None };
        let Some(block) = block.filter(|block| have_values(self.dtype, block)) else { return false };
        put_block(self.dtype, &block, bytes);
        true
    }
}

impl MapInput<'_> {
    /// Elements as values; `None` if they are not all there, or not all numbers of 64 bits.
    fn block(&self, from: u64, len: usize, floats: bool) -> Option<BlockValues> {
        let size = self.dtype.size();
        let start = usize::try_from(from).ok()?.checked_mul(size)?;
        let bytes = self.bytes.get(start..start.checked_add(len.checked_mul(size)?)?)?;
        let bits = (0..len).map(|k| get_element(self.dtype, bytes, k));
        Some(if floats || self.dtype.is_float() {
            BlockValues::Float(bits.map(|bits| decode_f64(self.dtype, bits)).collect())
        } else {
            let whole = |bits| match decode(self.dtype, bits) {
                Number::Int(v) => i64::try_from(v).ok(),
                Number::Float(_) => None,
            };
            BlockValues::Whole(bits.map(whole).collect::<Option<_>>()?)
        })
    }
}

/// The names of a map; a buffer's name means its element `i`.
struct BlockScope<'a> {
    names: &'a [(String, Value)],
    inputs: &'a [MapInput<'a>],
}

impl Scope for BlockScope<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        let found = self.names.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| *value).ok_or_else(|| EvalError(format!("`{name}` has no value here")))
    }

    fn buffer(&self, name: &str) -> Option<usize> {
        if self.names.iter().any(|(known, _)| known == name) {
            return None;
        }
        self.inputs.iter().position(|input| input.name == name)
    }
}

/// False if an element may not have a value in the type: a NaN or an infinity is not an integer.
pub fn have_values(dtype: DType, block: &BlockValues) -> bool {
    match block {
        BlockValues::Float(values) => dtype.is_float() || values.iter().all(|v| v.is_finite()),
        BlockValues::Whole(_) => true,
    }
}

/// Writes the values, wrapped or rounded; each must have a value in the type.
pub fn put_block(dtype: DType, block: &BlockValues, bytes: &mut [u8]) {
    match block {
        // Integers wrap: the low bytes are the element.
        BlockValues::Whole(values) if !dtype.is_float() => put_elements(dtype, bytes, values.iter().map(|v| *v as u64)),
        BlockValues::Whole(values) => put_elements(dtype, bytes, values.iter().map(|v| encode_int(dtype, (*v).into()))),
        BlockValues::Float(values) => put_floats(dtype, bytes, values),
    }
}

/// The bits of the element that an expression gives: computed in whole numbers for integer types and wrapped, else in f64
/// and rounded.
pub fn expr_bits<S: Scope + ?Sized>(dtype: DType, expr: &Expr, scope: &S) -> Result<u64, EvalError> {
    let value = if dtype.is_float() { expr.eval(scope, Mode::Float)? } else { expr.eval_wrapping(scope)? };
    value_bits(dtype, value)
}

/// The bits of a computed value, wrapped or rounded to the type.
///
/// # Errors
///
/// The value is NaN or an infinity, but the type is an integer type.
pub fn value_bits(dtype: DType, value: Value) -> Result<u64, EvalError> {
    match value {
        Value::Int(v) => Ok(encode_int(dtype, v)),
        Value::Float(v) if dtype.is_float() || v.is_finite() => Ok(encode_f64(dtype, v)),
        Value::Float(_) => value.to_int().map(|v| encode_int(dtype, v)),
    }
}

/// An element as a value of expressions.
pub fn element_value(dtype: DType, bits: u64) -> Value {
    match decode(dtype, bits) {
        Number::Int(v) => Value::Int(v),
        Number::Float(v) => Value::Float(v),
    }
}

struct ElementScope<'a> {
    names: &'a [(String, Value)],
    inputs: &'a [MapInput<'a>],
    i: u64,
    watch: &'a dyn Fn(usize, usize),
}

impl Scope for ElementScope<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        if name == "i" {
            return Ok(Value::Int(self.i.into()));
        }
        if let Some((_, value)) = self.names.iter().find(|(n, _)| n == name) {
            return Ok(*value);
        }
        self.element(name, self.i.into())
    }

    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let found = self.inputs.iter().enumerate().find(|(_, input)| input.name == buffer);
        let Some((number, input)) = found else { return Err(EvalError(format!("`{buffer}` has no value here"))) };
        let count = input.count();
        match usize::try_from(index) {
            Ok(k) if k < count => {
                (self.watch)(number, k);
                Ok(element_value(input.dtype, get_element(input.dtype, input.bytes, k)))
            }
            _ => Err(EvalError(format!("`{buffer}[{index}]` is outside the buffer, which has {count} elements"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::parse;
    use proptest::prelude::*;

    fn texts() -> impl Strategy<Value = String> {
        let words = ["i", "x", "x", "y", "z", "n", "h", "0", "1", "3", "-2", "251", "0.5", "1e300", "2 ^ 70"];
        let leaf = prop::sample::select(words.to_vec()).prop_map(str::to_owned);
        leaf.prop_recursive(4, 16, 3, |inner| {
            let operator = prop::sample::select(vec!["+", "-", "*", "/", "%", "^", "<", "=="]);
            let one = prop::sample::select(vec!["-", "abs", "floor", "sqrt"]);
            prop_oneof![
                6 => (inner.clone(), operator, inner.clone()).prop_map(|(a, o, b)| format!("({a} {o} {b})")),
                1 => (one, inner.clone()).prop_map(|(f, a)| format!("{f}({a})")),
                1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("min({a}, {b})")),
                1 => (inner.clone(), inner.clone(), inner.clone()).prop_map(|(c, a, b)| format!("if({c}, {a}, {b})")),
                1 => inner.prop_map(|index| format!("x[{index}]")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        /// Against one element after the other: where a block is put, each of its elements is the same.
        #[test]
        fn blocks_of_a_map_are_their_elements(
            text in texts(),
            types in prop::collection::vec(prop::sample::select(DType::ALL.to_vec()), 4),
            bytes in prop::collection::vec(prop::collection::vec(prop_oneof![Just(0), Just(0x80), 0u8..4, any::<u8>()], 160), 3),
            from in 0u64..8,
        ) {
            let names = [("n".to_owned(), Value::Int(3)), ("h".to_owned(), Value::Float(0.25))];
            let inputs = ["x", "y", "z"].into_iter().zip(&types).zip(&bytes);
            let inputs: Vec<_> = inputs.map(|((name, dtype), bytes)| MapInput { name, dtype: *dtype, bytes }).collect();
            let (expr, dtype, len) = (parse(&text).unwrap().expr, types[3], 12);
            let mut put = vec![0xee; len * dtype.size()];
            let done = BlockMap::new(&expr, &names, &inputs, dtype).is_some_and(|map| map.put(&inputs, from, &mut put));
            prop_assert!(done || put.iter().all(|byte| *byte == 0xee));
            for k in (0..len).filter(|_| done) {
                let right = map_element(&expr, &names, &inputs, dtype, from + k as u64, &|_, _| ());
                prop_assert_eq!(right, Ok(get_element(dtype, &put, k)), "{} element {}", text, from + k as u64);
            }
        }
    }

    #[test]
    fn what_the_corpus_maps_is_put_in_blocks() {
        let (bytes, names) = ([7; 64], [("rank".to_owned(), Value::Int(1))]);
        let inputs = [MapInput { name: "x", dtype: DType::I32, bytes: &bytes }];
        for (text, dtype, blocks) in [
            ("3 * x + 1", DType::I32, true),
            ("x * 0.5 + rank", DType::F16, true),
            ("if(i % 2 == 0, 1, 2) * x", DType::U64, true),
            ("if(i % 2 == 0, x, 2)", DType::I32, false),
            ("x[i + 1]", DType::I32, false),
        ] {
            let expr = parse(text).unwrap().expr;
            let map = BlockMap::new(&expr, &names, &inputs, dtype);
            let mut put = vec![0; 16 * dtype.size()];
            let done = map.is_some_and(|map| map.put(&inputs, 0, &mut put) && !map.put(&inputs, 1, &mut put));
            assert_eq!(done, blocks, "{text}");
        }
    }
}
