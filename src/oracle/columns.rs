//! A whole reduction at once: canonical bytes of every element, and which elements have several right values.
use super::{Answer, ExactBuffer, ReduceKind, Reduction};
use crate::num::{DType, get, put};
use crate::plan;
use std::ops::Range;

/// The result of a reduction.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    /// Canonical value of every element.
    pub bytes: Vec<u8>,
    /// True for elements with several right values, or whose inputs have; empty if no element is.
    soft: Vec<bool>,
    /// True for elements whose inputs have several right values; empty if no element is.
    open: Vec<bool>,
}

impl Reduced {
    /// True if the element may come out in several ways.
    pub fn is_soft(&self, element: usize) -> bool {
        self.soft.get(element).copied().unwrap_or(false)
    }
    /// True if that is so of its inputs: what they are only a run tells.
    pub fn has_open_inputs(&self, element: usize) -> bool {
        self.open.get(element).copied().unwrap_or(false)
    }
    /// True if one of them may.
    pub fn any_soft(&self, elements: Range<usize>) -> bool {
        self.soft.get(elements).is_some_and(|part| part.contains(&true))
    }
    /// How many elements may.
    pub fn soft_count(&self) -> u64 {
        self.soft.iter().filter(|soft| **soft).count() as u64
    }
    /// Bytes that it takes.
    pub fn size(&self) -> usize {
        self.bytes.len() + self.soft.len()
    }
    fn soften(&mut self, element: usize, of: usize) {
        self.soft.resize(of, false);
        if let Some(flag) = self.soft.get_mut(element) {
            *flag = true;
        }
    }
}

/// The reduction of a plan's event.
pub(crate) fn reduction(dtype: DType, kind: &plan::Reduction, ranks: usize) -> Reduction {
    use nccl_sys::ncclRedOp_t as Op;
    let kind = match kind {
        plan::Reduction::PreMulSum(scalars) => ReduceKind::PreMulSum { scalars: scalars.clone() },
        plan::Reduction::Builtin(Op::Prod) => ReduceKind::Prod,
        plan::Reduction::Builtin(Op::Min) => ReduceKind::Min,
        plan::Reduction::Builtin(Op::Max) => ReduceKind::Max,
        plan::Reduction::Builtin(Op::Avg) => ReduceKind::Avg,
        plan::Reduction::Builtin(_) => ReduceKind::Sum,
    };
    Reduction { dtype, kind, ranks }
}

/// Element `i` of every input.
pub(crate) fn column(dtype: DType, inputs: &[&[u8]], i: usize, into: &mut Vec<u64>) {
    into.clear();
    into.extend(inputs.iter().map(|bytes| get(dtype, bytes, i)));
}

/// Computes all elements; `soft` says whose inputs are soft (empty: nobody's). Fails if an element cannot be judged; with
/// `observed` inputs, those of a run, only known elements do: whether the others can be judged was asked before the run, of
/// canonical inputs.
pub(crate) fn reduce(
    reduction: &Reduction,
    inputs: &[&[u8]],
    soft: Vec<bool>,
    observed: bool,
) -> Result<Reduced, String> {
    let size = reduction.dtype.size();
    let len = inputs.first().map_or(0, |b| b.len());
    if inputs.iter().any(|b| b.len() != len) {
        return Err("the inputs differ in length".into());
    }
    let count = len / size;
    if let Ok(ExactBuffer { bytes, special }) = reduction.exact_buffer(inputs) {
        let mut result = Reduced { bytes, open: soft.clone(), soft };
        for (i, _) in special {
            result.soften(i, count);
        }
        return Ok(result);
    }
    let mut result = Reduced { bytes: vec![0; len], open: soft.clone(), soft };
    let mut values = Vec::with_capacity(inputs.len());
    for i in 0..count {
        column(reduction.dtype, inputs, i, &mut values);
        let bits = match reduction.exact(&values) {
            Some(Answer::Bits(bits)) => bits,
            answer => {
                if answer.is_none() && !(observed && result.is_soft(i)) {
                    reduction.judgeable(&values).map_err(|why| format!("cannot be judged: element {i}: {why}"))?;
                }
                result.soften(i, count);
                reduction.canonical(&values)
            }
        };
        put(reduction.dtype, &mut result.bytes, i, bits);
    }
    Ok(result)
}
