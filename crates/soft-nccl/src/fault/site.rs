//! The place where a task can go wrong: the memory it works on, and the state a fault must keep for it.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::mode;
use super::stale::Line;
use super::{Fault, FaultMode, hit};
use crate::algo::{Operand, Step};
use crate::arith::{Combine, Scalar, Type};
use crate::engine::hooks::{OperationContext, StepHooks};
use crate::op::{Kind, Spec};

/// A lane of an operation in a library that has a fault, or only reports where it could have one.
pub(super) struct Site {
    pub(super) context: OperationContext,
    pub(super) spec: Spec,
    pub(super) premul: Option<Scalar>,
    /// The element of the input at which the current chunk starts.
    pub(super) at: usize,
    /// The data received so far.
    pub(super) lines: Vec<Line>,
}

impl Site {
    /// `None` in a sound library.
    ///
    /// # Safety
    /// The site is used only while its operation runs, as long as the buffers that `spec` names exist. (A fault may write
    /// next to a buffer, by less than the width of the guards around it.)
    pub(super) unsafe fn new(context: OperationContext, spec: &Spec, premul: Option<Scalar>) -> Option<Box<Self>> {
        let site = || Box::new(Self { context, spec: *spec, premul, at: 0, lines: Vec::new() });
        (mode() != FaultMode::Sound).then(site)
    }

    /// True if the fault strikes this task; see [`hit`].
    pub(super) fn hit(&self, fault: Fault) -> bool {
        hit(fault, self.context.rank, self.spec.algorithm)
    }

    /// The communicator of all ranks, and the operation's number in it.
    pub(super) fn operation(&self) -> (u64, u64) {
        (self.context.shared, self.context.sequence)
    }

    pub(super) fn size(&self) -> usize {
        self.spec.ty.size()
    }

    /// Elements of the operation's count, at least one.
    pub(super) fn block(&self) -> usize {
        self.spec.count.max(1)
    }

    pub(super) fn root(&self) -> bool {
        self.context.rank == self.spec.peer
    }

    /// The chunk's place inside its block.
    pub(super) fn inside(&self) -> usize {
        self.at % self.block()
    }

    /// True if the two buffers share memory in the way that NCCL documents.
    pub(super) fn in_place(&self) -> bool {
        let Spec { send, recv, count, .. } = self.spec;
        let own = self.context.rank * count * self.size();
        match self.spec.kind {
            Kind::AllReduce => send == recv,
            Kind::Reduce | Kind::Broadcast => send == recv,
            Kind::AllGather | Kind::Gather => send == recv.wrapping_add(own),
            Kind::ReduceScatter | Kind::Scatter => recv == send.wrapping_add(own),
            _ => false,
        }
    }
}

impl StepHooks for Site {
    fn step(&mut self, step: &Step) -> Step {
        if let Some(Operand::In(at)) = step.source {
            self.at = at;
        }
        self.displaced(*step)
    }

    fn base(&mut self, address: usize) -> usize {
        self.rounded_down(address)
    }

    fn message(&mut self, step: &Step, data: &mut [u8]) {
        self.stale(step, data);
        self.staged(step, data);
    }

    fn scalar(&mut self, step: &Step, scalar: Option<Scalar>) -> Option<Scalar> {
        self.misread(step, scalar)
    }

    fn scale(&mut self, _: Type, data: &mut [u8], scalar: &Scalar) {
        self.scaled(data, scalar);
    }

    fn loaded(&mut self, step: &Step, data: &mut Vec<u8>) {
        self.overwritten(step, data);
        self.ended(step, data);
        self.counted_twice(step, data);
        self.spoiled(step, data);
    }

    fn combine(&mut self, step: &Step, _: Type, operator: Combine, message: &mut [u8], other: &[u8]) {
        self.combined(step, operator, message, other);
        self.accumulated(step, message, other);
    }

    fn finish(&mut self, _: Type, n: usize, average: bool, value: &mut Vec<u8>) {
        self.finished(n, average, value);
    }

    unsafe fn store(&mut self, _: Type, base: usize, at: usize, data: &[u8]) {
        // SAFETY: the caller makes the same promise.
        unsafe { self.stored(base, at, data) };
    }

    fn done(&mut self, step: &Step, value: &[u8]) {
        self.leaked(step, value);
    }
}
