//! A reduction of whole buffers: the canonical bytes of every element, and the elements that have several right values.
use super::float::Float;
use super::parts::parts;
use super::row_reduction::{RowResults, reduce_rows};
use super::rows::ROW;
use super::{ColumnReduction, ExactBuffer, ReduceKind, RightResults};
use crate::cores::in_parallel;
use crate::image::blocks::{BLOCK, each_block};
use crate::image::contents::Contents;
use crate::image::held::Held;
use crate::num::{DType, get_element, put_element};
use crate::plan;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The result of a reduction of whole buffers.
#[derive(Clone, Debug)]
pub(crate) struct ReducedBuffer {
    /// Canonical value of every element.
    pub bytes: Contents,
    /// True for elements with several right values, or whose inputs have; empty if there are no such elements.
    ambiguous: Vec<bool>,
    /// True for elements whose inputs have several right values; empty if there are no such elements.
    ambiguous_inputs: Vec<bool>,
    /// True for elements that are known not to have an exact answer; empty if there are no such elements.
    rounds: Vec<bool>,
}

impl ReducedBuffer {
    /// Results that are ambiguous exactly where their inputs are.
    fn of(bytes: Vec<u8>, ambiguous: Vec<bool>) -> Self {
        Self { bytes: bytes.into(), ambiguous_inputs: ambiguous.clone(), ambiguous, rounds: Vec::new() }
    }
    /// True if the element has several right values.
    pub fn is_ambiguous(&self, element: usize) -> bool {
        self.ambiguous.get(element).copied().unwrap_or(false)
    }
    /// True if an input of the element has several right values, so that only a run decides them.
    pub fn has_ambiguous_inputs(&self, element: usize) -> bool {
        self.ambiguous_inputs.get(element).copied().unwrap_or(false)
    }
    /// True if one of the elements has several right values.
    pub fn any_ambiguous(&self, elements: Range<usize>) -> bool {
        self.ambiguous.get(elements).is_some_and(|part| part.contains(&true))
    }
    /// True if all of the elements have several right values.
    pub fn all_ambiguous(&self, elements: Range<usize>) -> bool {
        self.ambiguous.get(elements).is_some_and(|part| !part.contains(&false))
    }
    /// The number of elements from the first on that are known not to have an exact answer.
    pub fn rounding_run(&self, elements: Range<usize>) -> usize {
        let rest = self.rounds.get(elements).unwrap_or_default();
        rest.iter().position(|rounds| !rounds).unwrap_or(rest.len())
    }
    /// Number of elements with several right values.
    pub fn ambiguous_count(&self) -> u64 {
        self.ambiguous.iter().filter(|ambiguous| **ambiguous).count() as u64
    }
    /// Bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.held_bytes() + self.ambiguous.len() + self.rounds.len()
    }
    fn mark_ambiguous(&mut self, element: usize, of: usize) {
        self.ambiguous.resize(of, false);
        if let Some(flag) = self.ambiguous.get_mut(element) {
            *flag = true;
        }
    }
}

/// The reduction of an event of the plan.
pub(crate) fn reduction_of(dtype: DType, kind: &plan::Reduction, ranks: usize) -> ColumnReduction {
    use nccl_sys::ncclRedOp_t as Op;
    let kind = match kind {
        plan::Reduction::PreMulSum(scalars) => ReduceKind::PreMulSum { scalars: scalars.clone() },
        plan::Reduction::Builtin(Op::Prod) => ReduceKind::Prod,
        plan::Reduction::Builtin(Op::Min) => ReduceKind::Min,
        plan::Reduction::Builtin(Op::Max) => ReduceKind::Max,
        plan::Reduction::Builtin(Op::Avg) => ReduceKind::Avg,
        plan::Reduction::Builtin(_) => ReduceKind::Sum,
    };
    ColumnReduction { dtype, kind, ranks }
}

/// Element `i` of every input.
pub(crate) fn column(dtype: DType, inputs: &[&[u8]], i: usize, into: &mut Vec<u64>) {
    into.clear();
    into.extend(inputs.iter().map(|bytes| get_element(dtype, bytes, i)));
}

/// Computes all elements; `ambiguous` is true for those with ambiguous inputs (empty if there are none).
///
/// # Errors
///
/// An element cannot be judged. With `observed` inputs, which come from a run, only elements with known inputs are errors: the
/// others were checked with canonical inputs before the run.
pub(crate) fn reduce_contents(
    reduction: &ColumnReduction,
    inputs: &[&Contents],
    ambiguous: Vec<bool>,
    observed: bool,
) -> Result<ReducedBuffer, String> {
    let len = inputs.first().map_or(0, |input| input.len());
    if inputs.iter().any(|input| input.len() != len) {
        return Err(DIFFERENT_LENGTHS.into());
    }
    if len <= BLOCK {
        let bytes: Vec<_> = inputs.iter().map(|input| input.get(0..len).unwrap_or_default()).collect();
        let bytes: Vec<&[u8]> = bytes.iter().map(|bytes| &**bytes).collect();
        return reduce(reduction, &bytes, ambiguous, observed);
    }
    let size = reduction.dtype.size();
    if let Some(period) = common_period(inputs, size, len).filter(|_| ambiguous.is_empty()) {
        let inputs: Vec<_> = inputs.iter().filter_map(|input| input.slice(0..period)).collect();
        let one = reduce_contents(reduction, &inputs.iter().collect::<Vec<_>>(), Vec::new(), observed)?;
        if [&one.ambiguous, &one.ambiguous_inputs, &one.rounds].into_iter().all(|flags| !flags.contains(&true)) {
            return Ok(ReducedBuffer { bytes: Contents::repeated(one.bytes.to_vec(), len), ..one });
        }
    }
    let mut bytes = Held::zeros(len);
    let places: Vec<Mutex<&mut [u8]>> = bytes.chunks_mut(BLOCK).map(Mutex::new).collect();
    let flags = Mutex::new((ambiguous.clone(), ambiguous.clone(), Vec::new()));
    let own = || vec![vec![0; BLOCK]; inputs.len()];
    each_block(len, additions(len / size, inputs.len()), own, |own, range| {
        let (first, count) = (range.start / size, range.len() / size);
        let held = inputs.iter().zip(own.iter_mut()).map(|(input, own)| {
            let own = &mut own[..range.len()];
            input.copy_to(range.start, own);
            &*own
        });
        let flagged = ambiguous.get(first..first + count).unwrap_or_default();
        let block = Block { reduction, inputs: &held.collect::<Vec<_>>(), first, alone: false };
        let reduced = block.reduce(flagged.to_vec(), observed)?;
        if let Some(place) = places.get(range.start / BLOCK) {
            reduced.bytes.copy_to(0, &mut place.lock().unwrap_or_else(PoisonError::into_inner));
        }
        let mut flags = flags.lock().unwrap_or_else(PoisonError::into_inner);
        let (all, inputs, rounds) = &mut *flags;
        let own = [(all, reduced.ambiguous), (inputs, reduced.ambiguous_inputs), (rounds, reduced.rounds)];
        for (all, own) in own {
            if own.contains(&true) {
                all.resize(len / size, false);
                all[first..first + own.len()].copy_from_slice(&own);
            }
        }
        Ok::<(), String>(())
    })?;
    drop(places);
    let (ambiguous, ambiguous_inputs, rounds) = flags.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(ReducedBuffer { bytes: Arc::new(bytes).into(), ambiguous, ambiguous_inputs, rounds })
}

/// Number of bytes up to which a period of results is searched for.
const LARGEST_PERIOD: usize = 1 << 20;

/// Number of bytes after which all inputs repeat, in whole elements, if it is known and `len` contains several such periods.
fn common_period(inputs: &[&Contents], size: usize, len: usize) -> Option<usize> {
    let common = inputs.iter().try_fold(size, |common: usize, input| {
        let period = input.period()?;
        // Their greatest common divisor.
        let (mut a, mut b) = (common, period);
        while b != 0 {
            (a, b) = (b, a % b);
        }
        (common / a.max(1)).checked_mul(period).filter(|common| *common <= LARGEST_PERIOD)
    });
    common.filter(|common| common.saturating_mul(2) <= len)
}

const DIFFERENT_LENGTHS: &str = "the inputs differ in length";

/// Like [`reduce_contents`], for inputs in memory.
pub(crate) fn reduce(
    reduction: &ColumnReduction,
    inputs: &[&[u8]],
    ambiguous: Vec<bool>,
    observed: bool,
) -> Result<ReducedBuffer, String> {
    Block { reduction, inputs, first: 0, alone: true }.reduce(ambiguous, observed)
}

/// Some elements of a reduction, from `first` on.
struct Block<'a> {
    reduction: &'a ColumnReduction,
    inputs: &'a [&'a [u8]],
    first: usize,
    /// True if no other block of the reduction is computed at the same time, so that this one may use all cores.
    alone: bool,
}

/// Number of additions, as [`parts`] counts them, for elements of this many inputs.
fn additions(elements: usize, inputs: usize) -> usize {
    elements.saturating_mul(4 * inputs)
}

impl Block<'_> {
    fn reduce(&self, ambiguous: Vec<bool>, observed: bool) -> Result<ReducedBuffer, String> {
        let Self { reduction, inputs, first, .. } = *self;
        let size = reduction.dtype.size();
        let len = inputs.first().map_or(0, |b| b.len());
        if inputs.iter().any(|b| b.len() != len) {
            return Err(DIFFERENT_LENGTHS.into());
        }
        let count = len / size;
        if let (Some(float), true, false) =
            (Float::of(reduction.dtype), reduction.has_one_input_per_rank(inputs.len()), reduction.is_copy())
        {
            return self.reduce_floats(float, ambiguous, observed);
        }
        if let Ok(ExactBuffer { bytes, special }) = reduction.exact_buffer(inputs) {
            let mut result = ReducedBuffer::of(bytes, ambiguous);
            for (i, _) in special {
                result.mark_ambiguous(i, count);
            }
            return Ok(result);
        }
        let mut bytes = vec![0; len];
        let mut result = ReducedBuffer::of(Vec::new(), ambiguous);
        for i in 0..count {
            let (bits, is_ambiguous) = reduce_element(reduction, inputs, i, observed && result.is_ambiguous(i))
                .map_err(|why| cannot_be_judged(first + i, &why))?;
            if is_ambiguous {
                result.mark_ambiguous(i, count);
            }
            put_element(reduction.dtype, &mut bytes, i, bits);
        }
        result.bytes = bytes.into();
        Ok(result)
    }

    /// [`Block::reduce`] for floats: in rows, and if the block is alone in parts, one for each core.
    fn reduce_floats(&self, float: Float, mut ambiguous: Vec<bool>, observed: bool) -> Result<ReducedBuffer, String> {
        let Self { reduction, inputs, first, alone } = *self;
        let size = reduction.dtype.size();
        let len = inputs.first().map_or(0, |b| b.len());
        let count = len / size;
        let (ambiguous_inputs, any_before) = (ambiguous.clone(), !ambiguous.is_empty());
        ambiguous.resize(count, false);
        let (mut bytes, mut rounds) = (vec![0; len], vec![false; count]);
        let mut tasks = Vec::new();
        let (mut bytes_left, mut ambiguous_left, mut rounds_left) = (&mut *bytes, &mut *ambiguous, &mut *rounds);
        let each = if alone { additions(1, inputs.len()) } else { 0 };
        for part in parts(count, each, ROW) {
            let (part_bytes, part_ambiguous, part_rounds);
            (part_bytes, bytes_left) = bytes_left.split_at_mut(part.len() * size);
            (part_ambiguous, ambiguous_left) = ambiguous_left.split_at_mut(part.len());
            (part_rounds, rounds_left) = rounds_left.split_at_mut(part.len());
            let part_inputs: Vec<&[u8]> =
                inputs.iter().map(|input| &input[part.start * size..part.end * size]).collect();
            tasks.push((
                part.start,
                part_inputs,
                RowResults { bytes: part_bytes, ambiguous: part_ambiguous, rounds: part_rounds },
            ));
        }
        let done = in_parallel(tasks, |(from, inputs, mut results)| {
            let done = reduce_rows(reduction, float, &inputs, observed, &mut results);
            done.map_err(|(element, why)| cannot_be_judged(first + from + element, &why))
        });
        done.into_iter().collect::<Result<(), String>>()?;
        if !any_before && !ambiguous.contains(&true) {
            ambiguous = Vec::new();
        }
        if !rounds.contains(&true) {
            rounds = Vec::new();
        }
        Ok(ReducedBuffer { bytes: bytes.into(), ambiguous, ambiguous_inputs, rounds })
    }
}

fn cannot_be_judged(element: usize, why: &str) -> String {
    format!("cannot be judged: element {element}: {why}")
}

/// The canonical value of an element, and true if it has several right values.
///
/// # Errors
///
/// The element cannot be judged; for `observed` elements this is not an error.
pub(super) fn reduce_element(
    reduction: &ColumnReduction,
    inputs: &[&[u8]],
    element: usize,
    observed: bool,
) -> Result<(u64, bool), String> {
    let values = reduction.column(inputs, element);
    match reduction.exact(&values) {
        Some(RightResults::Bits(bits)) => Ok((bits, false)),
        answer => {
            if answer.is_none() && !observed {
                reduction.judgeable(&values)?;
            }
            Ok((reduction.canonical(&values), true))
        }
    }
}
