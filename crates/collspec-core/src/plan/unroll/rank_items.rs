//! One rank's items of one step.
use super::super::eval::{Names, Ranked, evaluate, evaluate_whole, named, own, ranks, written};
use super::super::item::{BufferSlice, Factor, FactorNumber, ItemKind, Open, WrittenSize};
use super::super::outside::{expression, outside};
use super::super::place::{BARRIER_IN, BARRIER_OUT};
use super::super::rank_op::{RankCollective, RankMap, RankMessage, RankOp};
use super::super::types::{Reduction, StepId};
use super::{Member, Unroll};
use crate::expr::Mode;
use crate::job::CallKind;
use crate::num::DType;
use crate::ops::ALL_REDUCE;
use crate::scenario::{
    BufferRef, CollectiveStep, CountsByPair, Diagnostic, ElementValue, Expr, NumberByRank, NumberByRankKind, Spanned,
    Step, StepCounts, StepKind, StepReduction, StepSize,
};
use std::sync::Arc;

impl<'a> Unroll<'a> {
    /// One rank's items of one step.
    pub(super) fn rank_items(
        &mut self,
        step: &'a Step,
        id: StepId,
        member: &Member<'a>,
        stream: u32,
    ) -> Result<(), Diagnostic> {
        let fails = self.fails(id, member.world);
        let null_pointers = step.null_pointers;
        let (comm, rank) = (member.comm, member.names.rank);
        let message = |peer: Spanned<i128>, memory: BufferSlice, size: WrittenSize| RankMessage {
            comm,
            rank,
            peer,
            memory,
            size,
            null_pointers,
            stream,
        };
        let kind = match &step.kind {
            StepKind::Collective(collective) => self.collective(step, collective, member, stream)?,
            StepKind::AllGatherV { input, output } => {
                self.count(member.names.n, step.span)?;
                let (own, output) = (self.slice(input, member)?, self.slice(output, member)?);
                let pieces = self.pieces(input, member)?;
                ItemKind::AllGatherV { comm, rank, input: own, pieces, output, stream }
            }
            StepKind::AllToAllV { input, output, counts } => {
                let slices = (self.slice(input, member)?, self.slice(output, member)?);
                return self.all_to_all_v(step, slices, counts, (id, member, stream));
            }
            StepKind::ReduceScatterV { input, output, counts, reduce } => {
                let slices = (self.slice(input, member)?, self.slice(output, member)?);
                let reduction = reduction(reduce.as_ref(), member)?;
                return self.reduce_scatter_v(step, slices, counts, &reduction, (id, member, stream));
            }
            StepKind::Barrier => return self.barrier(step, id, member, stream, fails),
            StepKind::Send { input, peer } => {
                let (peer, input) = (self.peer(peer, member)?, self.slice(input, member)?);
                ItemKind::Op(RankOp::Send(message(peer, input, WrittenSize::default())))
            }
            StepKind::Recv { output, peer, size } => {
                let (peer, size) = (self.peer(peer, member)?, written_size(size, member)?);
                ItemKind::Op(RankOp::Recv(message(peer, self.slice(output, member)?, size)))
            }
            StepKind::SendRecv { input, output, to, from } => {
                let (to, from) = (self.peer(to, member)?, self.peer(from, member)?);
                let (input, output) = (self.slice(input, member)?, self.slice(output, member)?);
                let mut push = |kind| self.push(member.world, id, step.span, fails, kind);
                push(ItemKind::Call(CallKind::GroupStart));
                push(ItemKind::Op(RankOp::Send(message(to, input, WrittenSize::default()))));
                push(ItemKind::Op(RankOp::Recv(message(from, output, WrittenSize::default()))));
                push(ItemKind::Call(CallKind::GroupEnd));
                return Ok(());
            }
            StepKind::Map { output, expr, size } => {
                let mut reads = Vec::new();
                for name in named(expr) {
                    if let Some(id) = self.by_name.get(&name) {
                        reads.push(BufferSlice::whole(*id, step.span));
                    }
                }
                let out = self.slice(output, member)?;
                let size = written_size(size, member)?;
                self.carry(expr, 4 + member.names.axes.len(), step.span)?;
                let names = Arc::new(member.names.list());
                ItemKind::Op(RankOp::Map(Arc::new(RankMap { expr: expr.clone(), names, reads, out, size, stream })))
            }
            StepKind::Wait { .. } if fails => return self.await_errors(step, id, member.world),
            StepKind::Wait { stream } => {
                ItemKind::Call(CallKind::Wait { stream: stream.as_ref().map(|stream| self.stream(stream)) })
            }
            StepKind::Sleep { seconds } => {
                let v = seconds.value(&member.names, Mode::Float)?.as_f64();
                if !(0.0..=3600.0).contains(&v) {
                    return Err(Diagnostic::new(
                        seconds.span,
                        format!("rank {rank} is to sleep {v} seconds; 0 to 3600 are possible"),
                    ));
                }
                ItemKind::Call(CallKind::Sleep { seconds: v })
            }
            StepKind::Exit { status } => {
                self.program.exits = true;
                ItemKind::Call(CallKind::Exit { status: *status, death: None })
            }
            StepKind::OneSided(one_sided) => self.one_sided(step, one_sided, member, stream)?,
            StepKind::Register { memory, how } => {
                ItemKind::Register { comm, memory: self.slice(memory, member)?, how: *how }
            }
            StepKind::Deregister { memory } => ItemKind::Deregister { comm, memory: self.slice(memory, member)? },
            StepKind::Launch { graph } => ItemKind::Call(CallKind::Launch { graph: self.graph(graph), stream }),
            StepKind::Release { graph } => ItemKind::Call(CallKind::Release { graph: self.graph(graph) }),
            StepKind::Group(_) | StepKind::Loop(_) | StepKind::NewComm(_) | StepKind::Comm(_) => return Ok(()),
        };
        self.push(member.world, id, step.span, fails, kind);
        Ok(())
    }

    fn collective(
        &mut self,
        step: &Step,
        collective: &CollectiveStep,
        member: &Member<'a>,
        stream: u32,
    ) -> Result<ItemKind, Diagnostic> {
        let CollectiveStep { op, input, output, in_place, root, size, reduce, algorithm } = collective;
        let send = self.slice(input, member)?;
        let in_place = in_place.as_ref().map_or(Ok(false), |v| v.truth(&member.names))?;
        let mut recv = output.as_ref().map(|r| self.slice(r, member)).transpose()?;
        if recv.is_none() && in_place {
            recv = Some(send);
        }
        let value = root.as_ref().map_or(Ok(0), |v| v.whole(&member.names))?;
        let root = Spanned { value, span: root.as_ref().map_or(step.span, |v| v.span) };
        Ok(ItemKind::Op(RankOp::Collective(Arc::new(RankCollective {
            op,
            comm: member.comm,
            rank: member.names.rank,
            send: Some(send),
            recv,
            size: written_size(size, member)?,
            reduction: op.reduces.then(|| reduction(reduce.as_ref(), member)).transpose()?,
            root,
            in_place,
            null_pointers: step.null_pointers,
            algorithm: algorithm.clone().map(Arc::new),
            stream,
        }))))
    }

    pub(super) fn slice(&mut self, r: &BufferRef, member: &Member<'a>) -> Result<BufferSlice, Diagnostic> {
        let buf = self.name(&r.name, r.span, None, None);
        let Some((from, to)) = &r.slice else {
            return Ok(BufferSlice::whole(buf, r.span));
        };
        let bound = |e: &Option<Expr>| match e {
            None => Ok(None),
            Some(e) => {
                let v = evaluate_whole(e, r.span, &member.names)?;
                u64::try_from(v).map(Some).map_err(|_| {
                    Diagnostic::new(
                        r.span,
                        format!("`{}` is {v} on rank {}; slices count from 0", e.text, member.names.rank),
                    )
                })
            }
        };
        let (start, end) = (bound(from)?.unwrap_or(0), bound(to)?);
        if end.is_some_and(|end| end < start) {
            let text = format!(
                "the slice ends before it starts on rank {}: [{start}:{}]",
                member.names.rank,
                end.unwrap_or(0)
            );
            return Err(Diagnostic::new(r.span, text));
        }
        Ok(BufferSlice { buf, start, end, sliced: true, span: r.span })
    }

    /// The slices that each member contributes, if the step takes slices: they may differ, and every rank has to know all of them.
    fn pieces(&mut self, input: &BufferRef, member: &Member<'a>) -> Result<Vec<BufferSlice>, Diagnostic> {
        if input.slice.is_none() {
            return Ok(Vec::new());
        }
        let members = self.program.comms.list[member.comm].members.clone();
        let of = |(rank, world): (usize, &usize)| {
            let names = Names { rank, world_rank: *world, ..member.names };
            self.slice(input, &Member { world: *world, names, ..*member })
        };
        members.iter().enumerate().map(of).collect()
    }

    /// A peer's rank; outside the communicator it is refused unless the call should fail.
    pub(super) fn peer(&mut self, peer: &NumberByRank, member: &Member<'a>) -> Result<Spanned<i128>, Diagnostic> {
        let v = peer.whole(&member.names)?;
        let inside = (0..member.names.n as i128).contains(&v);
        let id = (self.program.steps.len() - 1) as StepId;
        if !inside && !self.fails(id, member.world) && !self.program.lenient() {
            let own = own(peer, &member.names)?;
            return Err(outside(
                &self.program.comms.list,
                member.comm,
                ("peer", v, peer.span),
                Some(member.names.rank),
                expression(&own.kind),
            ));
        }
        Ok(Spanned { value: v, span: peer.span })
    }

    fn barrier(
        &mut self,
        step: &Step,
        id: StepId,
        member: &Member<'a>,
        stream: u32,
        fails: bool,
    ) -> Result<(), Diagnostic> {
        let input = self.name(BARRIER_IN, step.span, None, Some(DType::F32));
        let output = self.name(BARRIER_OUT, step.span, None, Some(DType::F32));
        let all_reduce = RankCollective {
            op: &ALL_REDUCE,
            comm: member.comm,
            rank: member.names.rank,
            send: Some(BufferSlice::whole(input, step.span)),
            recv: Some(BufferSlice::whole(output, step.span)),
            size: WrittenSize::default(),
            reduction: Some(Reduction::Builtin(nccl_sys::ncclRedOp_t::Sum)),
            root: Spanned { value: 0, span: step.span },
            in_place: false,
            null_pointers: false,
            algorithm: None,
            stream,
        };
        self.push(member.world, id, step.span, fails, ItemKind::Op(RankOp::Collective(Arc::new(all_reduce))));
        self.push(member.world, id, step.span, fails, ItemKind::Call(CallKind::Wait { stream: Some(stream) }));
        Ok(())
    }

    fn all_to_all_v(
        &mut self,
        step: &Step,
        (input, output): (BufferSlice, BufferSlice),
        counts: &CountsByPair,
        (id, member, stream): (StepId, &Member<'a>, u32),
    ) -> Result<(), Diagnostic> {
        let (me, n) = (member.names.rank, member.names.n);
        if let StepCounts::Listed(rows) = &counts.value
            && rows.len() != n
        {
            let rows = if rows.len() == 1 { "1 row".to_owned() } else { format!("{} rows", rows.len()) };
            return Err(Diagnostic::new(counts.span, format!("`counts` has {rows}, but there are {}", ranks(n)))
                .help(format!("it needs {n} rows of {n} numbers: row r, column j is what r sends to j")));
        }
        let piece = |from: usize, to: usize| -> Result<u64, Diagnostic> {
            let v = match &counts.value {
                StepCounts::Listed(rows) => rows.get(from).and_then(|row| row.get(to)).copied().ok_or_else(|| {
                    Diagnostic::new(counts.span, format!("`counts` has no entry for row {from}, column {to}"))
                })?,
                StepCounts::Expr(expr) => {
                    let world = self.program.comms.list[member.comm].members[from];
                    let names = Names { rank: from, world_rank: world, peer: Some(to), ..member.names };
                    evaluate_whole(expr, counts.span, &names)?
                }
            };
            u64::try_from(v)
                .map_err(|_| Diagnostic::new(counts.span, format!("rank {from} is to send {v} elements to rank {to}")))
        };
        let (mut sends, mut recvs, mut out, mut back) = (Vec::new(), Vec::new(), 0u64, 0u64);
        let overflow = || Diagnostic::new(counts.span, "the sum of `counts` is too large");
        for peer in 0..n {
            let (to, from) = (piece(me, peer)?, piece(peer, me)?);
            let part = |slice: BufferSlice, at: u64, len: u64| {
                let start = slice.start.checked_add(at).ok_or_else(overflow)?;
                let end = start.checked_add(len).ok_or_else(overflow)?;
                Ok::<_, Diagnostic>(BufferSlice { start, end: Some(end), sliced: true, ..slice })
            };
            sends.push((peer, part(input, out, to)?));
            recvs.push((peer, part(output, back, from)?));
            out = out.checked_add(to).ok_or_else(overflow)?;
            back = back.checked_add(from).ok_or_else(overflow)?;
        }
        self.count(2 * n, step.span)?;
        let message = |(peer, memory): (usize, BufferSlice)| RankMessage::<Open> {
            comm: member.comm,
            rank: me,
            peer: Spanned { value: peer as i128, span: step.span },
            memory,
            size: WrittenSize::default(),
            null_pointers: step.null_pointers,
            stream,
        };
        let fails = self.fails(id, member.world);
        let mut push = |kind| self.push(member.world, id, step.span, fails, kind);
        push(ItemKind::Declare { output: input, count: out, like: input.buf });
        push(ItemKind::Declare { output, count: back, like: input.buf });
        push(ItemKind::Call(CallKind::GroupStart));
        sends.into_iter().for_each(|send| push(ItemKind::Op(RankOp::Send(message(send)))));
        recvs.into_iter().for_each(|recv| push(ItemKind::Op(RankOp::Recv(message(recv)))));
        push(ItemKind::Call(CallKind::GroupEnd));
        Ok(())
    }
}

fn reduction(reduce: Option<&StepReduction>, member: &Member<'_>) -> Result<Reduction<Factor>, Diagnostic> {
    Ok(match reduce {
        None => Reduction::Builtin(nccl_sys::ncclRedOp_t::Sum),
        Some(StepReduction::Builtin(op)) => Reduction::Builtin(*op),
        Some(StepReduction::PreMulSum { scalar, device, destroyed }) => {
            let own = own(scalar, &member.names)?;
            let number = match &own.kind {
                NumberByRankKind::Int(v) => FactorNumber::Written(ElementValue::Int(*v)),
                NumberByRankKind::Float(v) => FactorNumber::Written(ElementValue::Float(*v)),
                NumberByRankKind::Expr(expr) => match written(expr, member.names.axes) {
                    Some(value) => FactorNumber::Written(value),
                    None => FactorNumber::Computed {
                        real: evaluate(expr, own.span, &member.names, Mode::Float)?,
                        whole: expr.eval_wrapping(&member.names).ok(),
                    },
                },
                NumberByRankKind::List(_) => {
                    return Err(Diagnostic::new(own.span, "expected a number, not a list"));
                }
            };
            Reduction::PreMulSum(Factor { span: own.span, number, device: *device, destroyed: *destroyed })
        }
    })
}

fn written_size(size: &StepSize, member: &Member<'_>) -> Result<WrittenSize, Diagnostic> {
    let count = match &size.count {
        Some(count) => {
            let v = count.whole(&member.names)?;
            let text = || format!("`count` is {v} on rank {}", member.names.rank);
            Some(u64::try_from(v).map_err(|_| Diagnostic::new(count.span, text()))?)
        }
        None => None,
    };
    Ok(WrittenSize { count, dtype: size.dtype })
}
