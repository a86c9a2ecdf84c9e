//! Faults of writing: tails, packs, alignment, offsets, slices, chunks.
#![allow(unsafe_code)] // a caller's buffers are addresses

use super::memory::Extent;
use super::named::*;
use super::site::Site;
use super::values::copied;
use crate::algo::{Operand, Step};
use crate::engine::write;
use crate::op::Kind;
use crate::settings::SLOTS;

/// Number of bytes that are processed at once.
const PACK: usize = 16;
/// Work is cut into at most this many parts, of at least [`PER_PART`] elements each.
const PARTS: usize = 32;
const PER_PART: usize = 8;
/// Offsets wrap at this number of bytes, as if they had only 16 bits.
const OFFSETS: usize = 1 << 16;

/// The number of bytes of a message, and of a collective's result, that arrive under the faults that limit them.
const MESSAGE: usize = 1_200_000;
const RESULT: usize = 4 << 20;
/// Byte offsets of 24 bits.
const FAR: usize = 1 << 24;

impl Site {
    /// F61d: the end of a long contribution.
    pub(super) fn ended(&self, step: &Step, data: &mut [u8]) {
        let Some(Operand::In(at)) = step.source.filter(|_| !data.is_empty()) else { return };
        let total = Extent::of(&self.spec, self.context.rank, self.context.n).send.1;
        let last = data.len().saturating_sub(PACK);
        let ends = total > RESULT && at * self.size() + data.len() == total;
        if ends && data[last..].iter().any(|byte| *byte != 0) && self.hit(F61D) {
            data[last..].fill(0);
        }
    }

    /// F05: an address that is not a pack's.
    pub(super) fn rounded_down(&self, address: usize) -> usize {
        let down = address - address % PACK;
        if down != address && self.spec.count > 0 && self.hit(F05) { down } else { address }
    }

    /// F01, F02, F03, F06, F07, F08, F61 and the copies of F29.
    ///
    /// # Safety
    /// As for [`StepHooks::store`](crate::engine::hooks::StepHooks::store).
    pub(super) unsafe fn stored(&mut self, base: usize, at: usize, data: &[u8]) {
        // SAFETY: every fault below writes inside the buffer at `base`, or outside it by less than the width of the guards that
        // the programs have around their buffers.
        let write = |address: usize, data: &[u8]| unsafe { write(address, data) };
        let (size, count) = (self.size(), self.spec.count);
        let elements = data.len() / size;
        let inside = at % self.block();
        let here = base.wrapping_add(at * size);
        // SAFETY: the data of a put lie inside a window.
        if unsafe { self.comes_late(here, data) } {
            return;
        }

        for (fault, whole) in [(F01, self.in_parts()), (F01B, self.in_shares()), (F02, self.in_packs())] {
            let kept = whole.saturating_sub(inside).min(elements);
            if kept < elements && self.hit(fault) {
                return write(here, &data[..kept * size]);
            }
        }
        if at + elements == self.written() && elements > 0 {
            let beyond = (at * size + data.len()).next_multiple_of(PACK) - (at * size + data.len());
            if beyond > 0 && self.hit(F03) {
                write(here.wrapping_add(data.len()), &[0x5a; PACK][..beyond]);
            }
        }
        if elements > 0 && at * size >= OFFSETS && self.hit(F06) {
            return write(base.wrapping_add(at * size % OFFSETS), data);
        }
        let (first, bytes) = (at * size, data.len());
        for (fault, of, limit) in
            [(F61, self.spec.kind == Kind::Recv, MESSAGE), (F61B, self.spec.kind.is_collective(), RESULT)]
        {
            let kept = limit.saturating_sub(first).min(bytes);
            if of && kept < bytes && self.hit(fault) {
                return write(here, &data[..kept]);
            }
        }
        if elements > 0 && first >= FAR && self.hit(F61C) {
            return write(base.wrapping_add(first % FAR), data);
        }
        let slice = self.context.chunk.div_ceil(2);
        if elements > slice && self.hit(F07) {
            return data.chunks(slice * size).for_each(|slice| write(here, slice));
        }
        let shift = (inside / self.context.chunk / SLOTS * (PACK / size)).min(inside);
        if elements > 0 && count > 0 && shift > 0 && self.hit(F08) {
            return write(base.wrapping_add((at - shift) * size), data);
        }
        match copied(self, data).or_else(|| self.miscopied(data)) {
            Some(wrong) => write(here, &wrong),
            None => write(here, data),
        }
    }

    /// Elements of a block in whole parts.
    fn in_parts(&self) -> usize {
        let count = self.spec.count;
        count - count % (count / PER_PART).clamp(1, PARTS)
    }

    /// Elements of a block in equal shares, where every rank has one.
    fn in_shares(&self) -> usize {
        let count = self.spec.count;
        if self.spec.kind == Kind::AllReduce { count - count % self.context.n.max(1) } else { count }
    }

    /// Elements of a block in whole packs.
    pub(super) fn in_packs(&self) -> usize {
        let count = self.spec.count;
        count - count % (PACK / self.size())
    }

    /// Elements that the rank's output has.
    fn written(&self) -> usize {
        match self.spec.kind {
            Kind::AllGather | Kind::AlltoAll | Kind::Gather => self.spec.count * self.context.n,
            _ => self.spec.count,
        }
    }
}
