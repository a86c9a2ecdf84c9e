//! The registers that an operation reads and writes.
use super::op::{Address, AddressBase, Op, Operation, Source};
use crate::module::RegisterId;

impl Operation {
    /// Calls `f` with each register that the operation reads, including its guard.
    pub fn each_read(&self, f: &mut dyn FnMut(RegisterId)) {
        if let Some(guard) = self.guard {
            f(guard.register);
        }
        self.op.each_source(&mut |source| {
            if let Source::Register(register) = source {
                f(*register);
            }
        });
        self.op.each_address(&mut |address| {
            if let AddressBase::Register(register) = address.base {
                f(register);
            }
        });
    }

    /// Calls `f` with each register that it writes; with a guard only in some lanes.
    pub fn each_write(&self, f: &mut dyn FnMut(RegisterId)) {
        match &self.op {
            Op::Unpack { to, .. } | Op::Load { to, .. } | Op::Multimem { to, .. } => {
                to.iter().flatten().for_each(|register| f(*register))
            }
            Op::Shuffle { to, inside, .. } => [to, inside].into_iter().flatten().for_each(|register| f(*register)),
            Op::Barrier { reduce, .. } => reduce.iter().filter_map(|reduce| reduce.to).for_each(f),
            other => other.target().into_iter().for_each(f),
        }
    }
}

impl Op {
    /// Calls `f` with each result in order; `None` for a result that no instruction reads.
    pub fn each_result(&self, f: &mut dyn FnMut(Option<RegisterId>)) {
        match self {
            Self::Unpack { to, .. } | Self::Load { to, .. } | Self::Multimem { to, .. } => {
                to.iter().for_each(|to| f(*to))
            }
            other => f(other.target()),
        }
    }

    /// The register of an operation with one result.
    fn target(&self) -> Option<RegisterId> {
        match self {
            Self::Unary { to, .. }
            | Self::Binary { to, .. }
            | Self::Ternary { to, .. }
            | Self::BitFieldInsert { to, .. }
            | Self::Select { to, .. }
            | Self::Compare { to, .. }
            | Self::ReadSpecial { to, .. }
            | Self::Pack { to, .. }
            | Self::ConvertWhole { to, .. }
            | Self::ConvertFloat { to, .. }
            | Self::ConvertPairFromF32 { to, .. }
            | Self::ConvertPair { to, .. }
            | Self::ConvertAddress { to, .. }
            | Self::IsInSpace { to, .. }
            | Self::Atomic { to, .. }
            | Self::Vote { to, .. }
            | Self::MatchAny { to, .. }
            | Self::ActiveMask { to }
            | Self::BarrierArriveExpect { to, .. }
            | Self::BarrierTryWait { to, .. } => *to,
            Self::Directed(_, op) | Self::Flushed(op) => op.target(),
            _ => None,
        }
    }

    /// Calls `f` with everything that is read but addresses.
    pub fn each_source<'a>(&'a self, f: &mut dyn FnMut(&'a Source)) {
        match self {
            Self::Unary { a, .. }
            | Self::Unpack { a, .. }
            | Self::ConvertWhole { a, .. }
            | Self::ConvertFloat { a, .. }
            | Self::ConvertPair { a, .. }
            | Self::ConvertAddress { a, .. }
            | Self::IsInSpace { a, .. } => f(a),
            Self::Binary { a, b, .. } | Self::Compare { a, b, .. } | Self::ConvertPairFromF32 { a, b, .. } => {
                [a, b].into_iter().for_each(f);
            }
            Self::Ternary { a, b, c, .. } => [a, b, c].into_iter().for_each(f),
            Self::BitFieldInsert { field, into, start, length, .. } => {
                [field, into, start, length].into_iter().for_each(f);
            }
            Self::Select { a, b, predicate, .. } => [a, b, predicate].into_iter().for_each(f),
            Self::Pack { parts, .. } | Self::Store { values: parts, .. } | Self::Multimem { values: parts, .. } => {
                parts.iter().for_each(f)
            }
            Self::Atomic { a, b, .. } => [Some(a), b.as_ref()].into_iter().flatten().for_each(f),
            Self::Vote { predicate, members, .. } => [predicate, members].into_iter().for_each(f),
            Self::Shuffle { a, by, clamp, members, .. } => [a, by, clamp, members].into_iter().for_each(f),
            Self::MatchAny { a, members, .. } => [a, members].into_iter().for_each(f),
            Self::WarpBarrier { members } => f(members),
            Self::Barrier { number, threads, reduce } => {
                let predicate = reduce.as_ref().map(|reduce| &reduce.predicate);
                [Some(number), threads.as_ref(), predicate].into_iter().flatten().for_each(f);
            }
            Self::Call { target, .. } => f(target),
            Self::BarrierInit { count, .. } => f(count),
            Self::BarrierArriveExpect { bytes, .. } | Self::BulkLoad { bytes, .. } | Self::BulkStore { bytes, .. } => {
                f(bytes)
            }
            Self::BarrierTryWait { state, .. } => f(state),
            Self::Directed(_, op) | Self::Flushed(op) => op.each_source(f),
            Self::ReadSpecial { .. }
            | Self::Load { .. }
            | Self::ActiveMask { .. }
            | Self::Fence { .. }
            | Self::Branch { .. }
            | Self::Return
            | Self::Exit
            | Self::Trap
            | Self::Unknown(_)
            | Self::Nothing
            | Self::BulkCommit
            | Self::BulkWait { .. } => {}
        }
    }

    /// Calls `f` with every address of memory.
    fn each_address<'a>(&'a self, f: &mut dyn FnMut(&'a Address)) {
        match self {
            Self::Load { address, .. }
            | Self::Store { address, .. }
            | Self::Atomic { address, .. }
            | Self::Multimem { address, .. }
            | Self::BarrierInit { address, .. }
            | Self::BarrierArriveExpect { address, .. }
            | Self::BarrierTryWait { address, .. } => f(address),
            Self::BulkLoad { to, from, barrier, .. } => [to, from, barrier].into_iter().for_each(f),
            Self::BulkStore { to, from, .. } => [to, from].into_iter().for_each(f),
            _ => {}
        }
    }

    /// True if control does not reach the next operation in the text: this one leaves the function, or branches without a guard.
    pub fn ends_block(&self) -> bool {
        matches!(self, Self::Branch { .. } | Self::Return | Self::Exit | Self::Trap | Self::Unknown(_))
    }
}
