//! Tries an order and a way of computing on elements of a result, within a budget of additions.
use super::computing::Computing;
use super::shapes::Order;
use crate::num::{DType, decode_f64, get_element};
use crate::oracle::answer::ReduceKind;
use crate::oracle::reduction_models::Leaf;
use std::ops::Range;

/// The inputs and the observed result of a reduction, and the elements to which rounding matters.
pub(crate) struct Columns<'a> {
    pub dtype: DType,
    /// Inputs by rank of the communicator.
    pub inputs: &'a [&'a [u8]],
    /// Bytes of the result.
    pub result: &'a [u8],
    /// Elements with several right values, ascending; the others tell nothing.
    pub telling: Vec<u32>,
}

impl<'a> Columns<'a> {
    /// The same without the elements of which every order gives a NaN: one of their inputs is a NaN, or, in a sum of the
    /// inputs themselves, they have infinities of both signs.
    pub fn without_certain_nans(self, kind: &ReduceKind) -> Columns<'a> {
        let Columns { dtype, inputs, result, mut telling } = self;
        let adds_inputs = matches!(kind, ReduceKind::Sum | ReduceKind::Avg);
        telling.retain(|element| {
            let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
            for bytes in inputs {
                let value = decode_f64(dtype, get_element(dtype, bytes, *element as usize));
                if value.is_nan() {
                    return false;
                }
                (least, greatest) = (least.min(value), greatest.max(value));
            }
            !(adds_inputs && least == f64::NEG_INFINITY && greatest == f64::INFINITY)
        });
        Columns { dtype, inputs, result, telling }
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        (self.result.len() / self.dtype.size()) as u64
    }

    /// The element with that number among the telling ones; behind the last the end.
    pub fn element(&self, index: usize) -> u64 {
        self.telling.get(index).map_or(self.len(), |element| u64::from(*element))
    }

    /// The number of the first telling element from this one on.
    pub fn index(&self, element: u64) -> usize {
        if self.telling.len() as u64 == self.len() {
            return element.min(self.len()) as usize;
        }
        self.telling.partition_point(|known| u64::from(*known) < element)
    }
}

/// The budget is used up.
#[derive(Debug)]
pub(super) struct Spent;

/// Tries explanations on telling elements, which it numbers from 0.
pub(super) struct Trial<'a> {
    pub columns: &'a Columns<'a>,
    scalars: &'a [f64],
    /// Additions that may still be made.
    pub additions: u64,
    values: Vec<f64>,
    leaves: Vec<Leaf>,
    stack: Vec<f64>,
}

impl<'a> Trial<'a> {
    pub fn new(columns: &'a Columns<'a>, scalars: &'a [f64], additions: u64) -> Self {
        Self { columns, scalars, additions, values: Vec::new(), leaves: Vec::new(), stack: Vec::new() }
    }

    fn load(&mut self, index: usize, computing: &Computing) -> Result<usize, Spent> {
        let columns = self.columns;
        self.additions = self.additions.checked_sub(columns.inputs.len() as u64 + 1).ok_or(Spent)?;
        let element = columns.telling.get(index).map_or(0, |element| *element as usize);
        self.values.clear();
        let dtype = columns.dtype;
        self.values.extend(columns.inputs.iter().map(|bytes| decode_f64(dtype, get_element(dtype, bytes, element))));
        computing.leaves(&self.values, self.scalars, &mut self.leaves);
        Ok(element)
    }

    /// True if the order gives the observed value of this telling element.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn explains(&mut self, index: usize, computing: &Computing, order: &Order) -> Result<bool, Spent> {
        let element = self.load(index, computing)?;
        let dtype = self.columns.dtype;
        let observed = decode_f64(dtype, get_element(dtype, self.columns.result, element));
        let value = computing.result(order, &self.leaves, &mut self.stack);
        Ok(value.to_bits() == observed.to_bits() || (value.is_nan() && observed.is_nan()))
    }

    /// The first telling element of these that the order does not explain.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn first_failure(
        &mut self,
        indices: Range<usize>,
        computing: &Computing,
        order: &Order,
    ) -> Result<Option<usize>, Spent> {
        for index in indices {
            if !self.explains(index, computing, order)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// True if the order explains all of these.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn explain_all(&mut self, indices: &[usize], computing: &Computing, order: &Order) -> Result<bool, Spent> {
        for index in indices {
            if !self.explains(*index, computing, order)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The least number, not below `down_to`, from which on the order explains every telling element before `from`.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn back_from(
        &mut self,
        from: usize,
        down_to: usize,
        computing: &Computing,
        order: &Order,
    ) -> Result<usize, Spent> {
        let mut least = from;
        while least > down_to && self.explains(least - 1, computing, order)? {
            least -= 1;
        }
        Ok(least)
    }

    /// The telling elements of these whose result may depend on the order, of many the first.
    ///
    /// # Errors
    ///
    /// The budget is used up.
    pub fn order_dependent(
        &mut self,
        indices: Range<usize>,
        computing: &Computing,
        most: usize,
    ) -> Result<Vec<usize>, Spent> {
        let mut found = Vec::new();
        for index in indices {
            self.load(index, computing)?;
            if found.len() < most && !computing.is_order_independent(&self.leaves) {
                found.push(index);
            }
        }
        Ok(found)
    }
}
