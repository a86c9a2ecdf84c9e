//! One rank's item of a one-sided step.
use super::super::eval::Names;
use super::super::eval::Ranked;
use super::super::item::{ItemKind, Open, WrittenSize};
use super::super::rank_op::{RankOneSided, RankOp};
use super::{Member, Unroll};
use crate::ops::OneSided;
use crate::scenario::{Diagnostic, NumberByRank, OneSidedCall, OneSidedStep, Spanned, Step};
use std::sync::Arc;

/// Most signals that a wait is for: NCCL counts them in 32 bits.
const MOST_SIGNALS: i128 = i32::MAX as i128;

impl<'a> Unroll<'a> {
    pub(super) fn one_sided(
        &mut self,
        step: &Step,
        one_sided: &OneSidedStep,
        member: &Member<'a>,
        stream: u32,
    ) -> Result<ItemKind, Diagnostic> {
        let number = |number: &Option<NumberByRank>| number.as_ref().map_or(Ok(0), |n| n.whole(&member.names));
        let (context, signal_index) = (number(&one_sided.context)?, number(&one_sided.signal_index)?);
        let flags = number(&one_sided.flags)?;
        let (kind, peers, put) = match &one_sided.call {
            OneSidedCall::Put { input, output, peer } => {
                let peer = self.peer(peer, member)?;
                let put = (self.slice(input, member)?, self.slice(output, member)?);
                (OneSided::Put, vec![(peer, 1)], Some(put))
            }
            OneSidedCall::Signal { peer } => (OneSided::Signal, vec![(self.peer(peer, member)?, 1)], None),
            OneSidedCall::WaitSignal { peer, signals } => {
                (OneSided::WaitSignal, self.awaited(step, peer.as_ref(), signals.as_ref(), member)?, None)
            }
        };
        let op = RankOneSided::<Open> {
            kind,
            comm: member.comm,
            rank: member.names.rank,
            peers,
            put,
            size: WrittenSize::default(),
            context,
            signal_index,
            flags,
            stream,
        };
        Ok(ItemKind::Op(RankOp::OneSided(Arc::new(op))))
    }

    /// The ranks whose signals are awaited, with their numbers: `peer`, or all other ranks that send any.
    fn awaited(
        &mut self,
        step: &Step,
        peer: Option<&NumberByRank>,
        number: Option<&NumberByRank>,
        member: &Member<'a>,
    ) -> Result<Vec<(Spanned<i128>, i128)>, Diagnostic> {
        let all = match peer {
            Some(peer) => vec![self.peer(peer, member)?],
            None => {
                let others = (0..member.names.n).filter(|other| *other != member.names.rank);
                others.map(|other| Spanned { value: other as i128, span: step.span }).collect()
            }
        };
        let mut peers = Vec::new();
        for peer in all {
            let names = Names { peer: usize::try_from(peer.value).ok(), ..member.names };
            let signals = number.map_or(Ok(1), |number| number.whole(&names))?;
            let span = number.map_or(step.span, |number| number.span);
            if !(0..=MOST_SIGNALS).contains(&signals) {
                let text = format!("{signals} signals of rank {} are to be awaited on rank {}", peer.value, names.rank);
                return Err(Diagnostic::new(span, text).help(format!("0 to {MOST_SIGNALS} are possible")));
            }
            if signals > 0 {
                peers.push((peer, signals));
            }
        }
        self.count(peers.len(), step.span)?;
        if peers.is_empty() {
            let text = format!("rank {} waits for no signal of any rank", member.names.rank);
            return Err(Diagnostic::new(step.span, text).help(
                "say which ranks wait with `ranks`, and how many signals of which rank with `peer` and `signals`",
            ));
        }
        Ok(peers)
    }
}
