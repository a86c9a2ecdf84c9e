//! Faults of buffers and blocks: which of them is read or written, by which rank, and when.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::named::*;
use super::site::Site;
use super::{hit, wanted};
use crate::algo::{Operand, Step};
use crate::engine::write;
use crate::failure::{Failure, Outcome};
use crate::op::{Kind, PreMul, Spec};

/// Limit on the bytes written of a rank's output that should not be touched: it may be smaller than the root's.
const LEAK: usize = 2048;

/// F16b: a rank that is not the root has no output buffer, and the call takes that for a mistake.
pub(super) fn demands(spec: &Spec, rank: usize) -> Outcome<()> {
    let ignored = matches!(spec.kind, Kind::Reduce | Kind::Gather) && rank != spec.peer;
    if ignored && spec.recv == 0 && spec.count > 0 && hit(F16B, rank, spec.algorithm) {
        return Err(Failure::argument(format!("the receive buffer of {} is null", spec.kind.name())));
    }
    Ok(())
}

impl Site {
    /// F17 and F18: a step that reads or writes elsewhere.
    pub(super) fn displaced(&self, mut step: Step) -> Step {
        if step.count == 0 {
            return step;
        }
        let (block, n) = (self.block(), self.context.n);
        // By arrival: the own block, the predecessor's, and so on; and with the devices turned by one.
        let arrival = |at: usize| (self.context.rank + n - at / block % n) % n * block + at % block;
        let turned = |at: usize| (at / block + 1) % n * block + at % block;
        match (self.spec.kind, step.target, step.source) {
            (Kind::AllGather | Kind::AlltoAll | Kind::Gather, Some(Operand::Out(at)), _) => {
                if arrival(at) != at && self.hit(F17) {
                    step.target = Some(Operand::Out(arrival(at)));
                } else if turned(at) != at && self.hit(F17B) {
                    step.target = Some(Operand::Out(turned(at)));
                }
            }
            (Kind::ReduceScatter, _, Some(Operand::In(at))) if turned(at) != at && self.hit(F17) => {
                step.source = Some(Operand::In(turned(at)));
            }
            _ => {}
        }
        if self.in_place() {
            return step;
        }
        match (step.source, step.target) {
            (Some(Operand::In(_)), Some(Operand::Out(_)))
                if step.recv.is_none() && (self.spec.reduction.is_none() || n == 1) && self.hit(F18) =>
            {
                step.target = None;
            }
            // The root of a broadcast reads its second child's share from where the first step should have put it.
            (Some(Operand::Out(at)), None) if self.spec.kind == Kind::Broadcast && self.root() && self.hit(F18) => {
                step.source = Some(Operand::In(at));
            }
            (Some(Operand::In(at)), _) if step.own && n > 1 && self.has_result() && self.hit(F18B) => {
                step.source = Some(Operand::Out(at));
            }
            _ => {}
        }
        step
    }

    /// True if the rank receives the whole reduction.
    fn has_result(&self) -> bool {
        match self.spec.kind {
            Kind::AllReduce => true,
            Kind::Reduce => self.root(),
            _ => false,
        }
    }

    /// F19: a rank on the way puts the partial result into its output, which is its input.
    pub(super) fn staged(&self, step: &Step, message: &[u8]) {
        let on_the_way = step.recv.is_some() && step.own && !step.last && !message.is_empty();
        if !on_the_way || !matches!(self.spec.kind, Kind::AllReduce | Kind::ReduceScatter) || !self.in_place() {
            return;
        }
        if self.hit(F19) {
            // SAFETY: the site's operation runs, and the message is for this place of its output.
            unsafe { write(self.spec.recv.wrapping_add(self.inside() * self.size()), message) };
        }
    }

    /// F19b: the output was cleared before its input was read.
    pub(super) fn overwritten(&self, step: &Step, data: &mut [u8]) {
        let Some(Operand::In(at)) = step.source else { return };
        let own = match self.spec.kind {
            Kind::ReduceScatter | Kind::Scatter => at / self.block() == self.context.rank,
            Kind::Reduce | Kind::Broadcast | Kind::Gather => self.root(),
            _ => true,
        };
        if own && self.in_place() && data.iter().any(|byte| *byte != 0) && self.hit(F19B) {
            data.fill(0);
        }
    }

    /// F20: the multiplied or sent data is written back to the input.
    pub(super) fn spoiled(&self, step: &Step, data: &[u8]) {
        let Some(Operand::In(at)) = step.source.filter(|_| !data.is_empty() && !self.in_place()) else { return };
        let from = self.spec.send.wrapping_add(at * self.size());
        if self.spec.reduction.is_none() {
            let first = data.get(..self.size()).unwrap_or_default();
            if first.iter().any(|byte| *byte != 0) && self.hit(F20B) {
                // SAFETY: the site's operation runs, and its input has data here; that it is written is the fault.
                unsafe { write(from, &[0; 8][..self.size()]) };
            }
        } else if step.own && !matches!(self.spec.premul, PreMul::None) && self.hit(F20) {
            // SAFETY: the site's operation runs, and its input has data here; that it is written is the fault.
            unsafe { write(from, data) };
        }
    }

    /// F20: the sum is formed in the input.
    pub(super) fn accumulated(&self, step: &Step, value: &[u8], own: &[u8]) {
        let Some(Operand::In(at)) = step.source.filter(|_| step.own && wanted(F20) && !self.in_place()) else { return };
        if value != own && self.hit(F20) {
            // SAFETY: the site's operation runs, and its input has data here; that it is written is the fault.
            unsafe { write(self.spec.send.wrapping_add(at * self.size()), value) };
        }
    }

    /// F16: the data that a rank sends towards the root is also written to its own output.
    pub(super) fn leaked(&self, step: &Step, value: &[u8]) {
        let ignored = matches!(self.spec.kind, Kind::Reduce | Kind::Gather) && !self.root() && self.spec.recv != 0;
        let start = self.at * self.size();
        if !ignored || step.send.is_none() || value.is_empty() || start >= LEAK {
            return;
        }
        let part = &value[..value.len().min(LEAK - start)];
        if crate::device::contains(self.spec.recv, start + part.len()) && self.hit(F16) {
            // SAFETY: this is device memory, which belongs to the operation's output.
            unsafe { write(self.spec.recv.wrapping_add(start), part) };
        }
    }
}
