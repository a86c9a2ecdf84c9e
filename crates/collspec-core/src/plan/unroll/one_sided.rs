//! One rank's item of a one-sided step.
use super::super::eval::Names;
use super::super::eval::Ranked;
use super::super::item::{ItemKind, Open, WrittenSize};
use super::super::rank_op::{RankOneSided, RankOp};
use super::{Member, Unroll};
use crate::ops::OneSided;
use crate::scenario::{Diagnostic, NumberByRank, Spanned, Step};
use std::sync::Arc;

/// Most signals that a wait is for: NCCL counts them in 32 bits.
const MOST_SIGNALS: i128 = i32::MAX as i128;

impl<'a> Unroll<'a> {
    pub(super) fn one_sided(
        &mut self,
        step: &'a Step,
        kind: OneSided,
        member: &Member<'a>,
        stream: u32,
    ) -> Result<ItemKind, Diagnostic> {
        let number = |number: &Option<Box<NumberByRank>>| number.as_ref().map_or(Ok(0), |n| n.whole(&member.names));
        let (context, signal_index) = (number(&step.signal.context)?, number(&step.signal.index)?);
        let peers = match kind {
            OneSided::Put | OneSided::Signal => vec![(self.peer(step, step.peer.as_deref(), member)?, 1)],
            OneSided::WaitSignal => self.awaited(step, member)?,
        };
        let put = match kind {
            OneSided::Put => {
                let input = self.required(step, "in", member)?;
                Some((input, self.required(step, "out", member)?))
            }
            OneSided::Signal | OneSided::WaitSignal => None,
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
            stream,
        };
        Ok(ItemKind::Op(RankOp::OneSided(Arc::new(op))))
    }

    /// The ranks whose signals are awaited, with their numbers: `peer`, or all other ranks that send any.
    fn awaited(&mut self, step: &'a Step, member: &Member<'a>) -> Result<Vec<(Spanned<i128>, i128)>, Diagnostic> {
        let all = match &step.peer {
            Some(peer) => vec![self.peer(step, Some(peer), member)?],
            None => {
                let others = (0..member.names.n).filter(|other| *other != member.names.rank);
                others.map(|other| Spanned { value: other as i128, span: step.span }).collect()
            }
        };
        let mut peers = Vec::new();
        for peer in all {
            let names = Names { peer: usize::try_from(peer.value).ok(), ..member.names };
            let signals = match &step.signal.signals {
                Some(signals) => signals.whole(&names)?,
                None => 1,
            };
            let span = step.signal.signals.as_ref().map_or(step.span, |signals| signals.span);
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
