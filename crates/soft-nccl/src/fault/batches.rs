//! Applies faults to the operations of one group on one communicator.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::registration;
use super::requests::{CommState, Injected, apart, renumber};
use super::situations::End;
use super::streams::{self, ChangedInput, DelayedOutput};
use crate::device::Done;
use crate::engine::Operation;
use crate::engine::hooks::{BatchHooks, HeldMemory, OperationContext, Start};
use crate::op::{Signature, Spec};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Numbers batches, so that the readers of inputs are distinguishable.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) struct InjectedBatch {
    id: u64,
    comm: Arc<Mutex<CommState>>,
    /// The injected faults, by the operation's index.
    operations: Vec<Option<Injected>>,
    delayed: Vec<DelayedOutput>,
    changed: Vec<ChangedInput>,
    /// Ends of outputs that are put back when the batch is over.
    kept: Vec<End>,
    /// The stream went on before the batch began.
    overtaken: bool,
}

impl InjectedBatch {
    pub(super) fn new(comm: Arc<Mutex<CommState>>, operations: Vec<Injected>) -> Self {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let operations = operations.into_iter().map(Some).collect();
        Self { id, comm, operations, delayed: Vec::new(), changed: Vec::new(), kept: Vec::new(), overtaken: false }
    }
}

impl BatchHooks for InjectedBatch {
    fn renumber(&mut self, rank: usize, operations: &mut [Operation]) {
        renumber(rank, &mut self.comm.lock().unwrap_or_else(PoisonError::into_inner), operations);
    }

    fn lets_stream_pass(&mut self, rank: usize, operations: &[Operation], done: &Done) -> bool {
        if self.overtaken {
            return false;
        }
        self.overtaken = streams::is_overtaken(rank, operations, done);
        self.overtaken
    }

    unsafe fn start(
        &mut self,
        index: usize,
        context: &OperationContext,
        spec: &mut Spec,
        signature: &mut Signature,
    ) -> Start {
        let Some(injected) = self.operations.get_mut(index).and_then(Option::take) else {
            return Start::Runs(Vec::new());
        };
        if injected.stalls {
            return Start::Stalls;
        }
        if injected.lost {
            return Start::Skipped;
        }
        if injected.short {
            // SAFETY: the caller makes the same promise.
            self.kept.push(unsafe { End::of(context, spec) });
        }
        *signature = apart(*signature, &injected);
        // SAFETY: the caller makes the same promise.
        let Some(substitutes) = (unsafe { registration::begin(context, spec) }) else { return Start::Stalls };
        // SAFETY: the caller makes the same promise.
        self.changed.extend(unsafe { streams::reads(self.id, context, spec) });
        let mut comm = self.comm.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the caller makes the same promise.
        let (mut held, delayed) = unsafe { streams::begin(&mut comm, context, injected, spec) };
        self.delayed.extend(delayed);
        held.extend(substitutes);
        held.extend(self.changed.last().map(|changed| changed.original() as HeldMemory));
        Start::Runs(held)
    }

    fn end(&mut self, dones: &[Done]) {
        // SAFETY: the caller of `start` has promised that the streams are still at the operations.
        unsafe {
            streams::restore(self.id, std::mem::take(&mut self.changed));
            streams::end(std::mem::take(&mut self.delayed), dones);
            std::mem::take(&mut self.kept).into_iter().for_each(|end| end.restore());
        }
    }
}
