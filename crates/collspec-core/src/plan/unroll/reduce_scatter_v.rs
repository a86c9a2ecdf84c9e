//! reduce_scatter_v: a group of a reduce to each rank, whose pieces may differ in length.
use super::super::eval::{Names, evaluate_whole, ranks};
use super::super::item::{BufferSlice, Factor, ItemKind, WrittenSize};
use super::super::rank_op::{RankCollective, RankOp};
use super::super::types::{Reduction, StepId};
use super::{Member, Unroll};
use crate::job::CallKind;
use crate::ops::REDUCE;
use crate::scenario::{CountsByRank, Diagnostic, Spanned, Step, StepCounts};
use std::sync::Arc;

impl<'a> Unroll<'a> {
    /// One rank's calls.
    ///
    /// # Errors
    ///
    /// Counts that are not those of the communicator, and anything that each of the reduces refuses.
    pub(super) fn reduce_scatter_v(
        &mut self,
        step: &Step,
        (input, output): (BufferSlice, BufferSlice),
        counts: &CountsByRank,
        reduction: &Reduction<Factor>,
        (id, member, stream): (StepId, &Member<'a>, u32),
    ) -> Result<(), Diagnostic> {
        let (me, n) = (member.names.rank, member.names.n);
        let lengths = lengths(counts, member)?;
        let overflow = || Diagnostic::new(step.span, "the sum of `counts` is too large");
        let mut pieces = Vec::with_capacity(n);
        let mut sum = 0u64;
        for len in &lengths {
            let start = input.start.checked_add(sum).ok_or_else(overflow)?;
            sum = sum.checked_add(*len).ok_or_else(overflow)?;
            let end = input.start.checked_add(sum).ok_or_else(overflow)?;
            pieces.push(BufferSlice { start, end: Some(end), sliced: true, ..input });
        }
        self.count(2 + n, step.span)?;
        let reduce = |(root, piece): (usize, BufferSlice)| RankCollective {
            op: &REDUCE,
            comm: member.comm,
            rank: me,
            send: Some(piece),
            recv: (root == me).then_some(output),
            size: WrittenSize::default(),
            reduction: Some(reduction.clone()),
            root: Spanned { value: root as i128, span: step.span },
            in_place: false,
            null_pointers: step.null_pointers,
            algorithm: None,
            stream,
        };
        let fails = self.fails(id, member.world);
        let mut push = |kind| self.push(member.world, id, step.span, fails, kind);
        push(ItemKind::Declare { output: input, count: sum, like: input.buf });
        push(ItemKind::Declare { output, count: lengths.get(me).copied().unwrap_or(0), like: input.buf });
        push(ItemKind::Call(CallKind::GroupStart));
        for piece in pieces.into_iter().enumerate() {
            push(ItemKind::Op(RankOp::Collective(Arc::new(reduce(piece)))));
        }
        push(ItemKind::Call(CallKind::GroupEnd));
        Ok(())
    }
}

/// The number of elements that each rank receives.
fn lengths(counts: &CountsByRank, member: &Member<'_>) -> Result<Vec<u64>, Diagnostic> {
    let n = member.names.n;
    let values: Vec<i128> = match &counts.value {
        StepCounts::Listed(list) => list.clone(),
        StepCounts::Expr(expr) => {
            let of = |peer: usize| evaluate_whole(expr, counts.span, &Names { peer: Some(peer), ..member.names });
            (0..n).map(of).collect::<Result<_, _>>()?
        }
    };
    if values.len() != n {
        let text = format!("`counts` has {} numbers, but there are {}", values.len(), ranks(n));
        return Err(Diagnostic::new(counts.span, text).help("entry j is what rank j receives"));
    }
    let length = |(rank, value): (usize, &i128)| {
        u64::try_from(*value)
            .map_err(|_| Diagnostic::new(counts.span, format!("rank {rank} is to receive {value} elements")))
    };
    values.iter().enumerate().map(length).collect()
}
