//! A plan's events one after the other, and what memory holds in between: for showing what a case does.
use super::answer::{ColumnReduction, RightResults};
use super::budget::Budget;
use super::forecast::{CanonicalResolver, memory_before_first_step, to_diagnostics};
use super::interpreter::{Interpreter, region_bytes};
use super::memory::Certainty;
use super::reduced_buffer::reduction_of;
use crate::num::get_element;
use crate::plan::{BufId, CollectiveEvent, Plan, Region};
use crate::scenario::Diagnostic;

/// Executes a plan event by event. Where several results are right it continues with the canonical one.
pub struct Walk<'p> {
    plan: &'p Plan,
    interpreter: Interpreter<'p>,
    next: usize,
}

/// An element of a buffer between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementNow {
    /// Its bits; meaningless if it is not written.
    pub bits: u64,
    /// What is known about it.
    pub certainty: Certainty,
}

impl<'p> Walk<'p> {
    /// The state before the first event.
    ///
    /// # Errors
    ///
    /// An input that has no value.
    pub fn new(plan: &'p Plan) -> Result<Self, Vec<Diagnostic>> {
        let mut interpreter = Interpreter::new(plan, memory_before_first_step(plan)?);
        interpreter.first_written = Some(vec![Vec::new(); plan.allocs.len()]);
        Ok(Self { plan, interpreter, next: 0 })
    }

    /// Executes the next event.
    ///
    /// # Errors
    ///
    /// Its result cannot be computed.
    pub fn step(&mut self) -> Result<(), Vec<Diagnostic>> {
        let mut resolver = CanonicalResolver::default();
        self.interpreter.run(self.next..self.next + 1, &mut resolver);
        self.next += 1;
        match resolver.faults {
            faults if faults.is_empty() => Ok(()),
            faults => Err(to_diagnostics(self.plan, &faults)),
        }
    }

    /// Element `index` of a buffer of a rank; `None` if there is no such element.
    pub fn element(&self, buf: BufId, rank: usize, index: u64) -> Option<ElementNow> {
        let dtype = self.plan.buffers.get(buf)?.dtype;
        let (alloc, bytes) = region_bytes(self.plan, Region { buf, rank, start: index, len: 1 })?;
        let memory = self.interpreter.memory.get(alloc)?;
        let certainty = memory.runs_in(bytes.clone()).map(|(_, run)| run.certainty).max()?;
        let held = memory.data.get(bytes.start as usize..bytes.end as usize)?;
        Some(ElementNow { bits: get_element(dtype, &held, 0), certainty })
    }

    /// The right results of a reduction of these elements, one from each rank of the communicator; `None` if they cannot be found.
    pub fn right_results(&self, collective: &CollectiveEvent, column: &[u64]) -> Option<RightResults> {
        let kind = collective.reduction.as_ref()?;
        let reduction: ColumnReduction = reduction_of(collective.dtype(), kind, column.len());
        reduction.right_results(column, &mut Budget::default()).ok()
    }
}
