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
use crate::ops::{ALL_REDUCE, Composite, ExitStatus, Host, Kind};
use crate::scenario::{
    AllToAllCounts, BufferRef, Diagnostic, ElementValue, Expr, NumberByRank, NumberByRankKind, Spanned, Step,
    StepReduction,
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
        let kind = match &step.op.kind {
            Kind::Collective(op) => {
                let send = step.input.as_ref().map(|r| self.slice(r, member)).transpose()?;
                let in_place = step.in_place.as_ref().map_or(Ok(false), |v| v.truth(&member.names))?;
                let mut recv = step.output.as_ref().map(|r| self.slice(r, member)).transpose()?;
                if recv.is_none() && in_place {
                    recv = send;
                }
                let root = step.root.as_ref().map_or(Ok(0), |v| v.whole(&member.names))?;
                let root = Spanned { value: root, span: step.root.as_ref().map_or(step.span, |v| v.span) };
                let reduction = op.reduces.then(|| self.reduction(step.reduce.as_ref(), member)).transpose()?;
                let size = WrittenSize::default();
                ItemKind::Op(RankOp::Collective(Arc::new(RankCollective {
                    op,
                    comm,
                    rank,
                    send,
                    recv,
                    size,
                    reduction,
                    root,
                    in_place,
                    null_pointers,
                    algorithm: step.algorithm.as_ref().map(|algorithm| Arc::new(algorithm.value.clone())),
                    stream,
                })))
            }
            Kind::Composite(Composite::AllGatherV) => {
                self.count(member.names.n, step.span)?;
                let (input, output) = (self.required(step, "in", member)?, self.required(step, "out", member)?);
                let pieces = self.pieces(step, member)?;
                ItemKind::AllGatherV { comm, rank, input, pieces, output, stream }
            }
            Kind::Composite(Composite::AllToAllV) => return self.all_to_all_v(step, id, member, stream, fails),
            Kind::Composite(Composite::ReduceScatterV) => {
                return self.reduce_scatter_v(step, id, member, stream, fails);
            }
            Kind::Composite(Composite::Barrier) => return self.barrier(step, id, member, stream, fails),
            Kind::Send => {
                let peer = self.peer(step, step.peer.as_deref(), member)?;
                let input = self.required(step, "in", member)?;
                ItemKind::Op(RankOp::Send(message(peer, input, WrittenSize::default())))
            }
            Kind::Recv => {
                let peer = self.peer(step, step.peer.as_deref(), member)?;
                let count = self.elements(step, member)?;
                let output = self.required(step, "out", member)?;
                let size = WrittenSize { count, dtype: step.dtype.as_ref().map(|d| d.value) };
                ItemKind::Op(RankOp::Recv(message(peer, output, size)))
            }
            Kind::SendRecv => {
                let to = self.peer(step, step.to.as_deref().or(step.peer.as_deref()), member)?;
                let from = self.peer(step, step.from.as_deref().or(step.peer.as_deref()), member)?;
                let (input, output) = (self.required(step, "in", member)?, self.required(step, "out", member)?);
                let mut push = |kind| self.push(member.world, id, step.span, fails, kind);
                push(ItemKind::Call(CallKind::GroupStart));
                push(ItemKind::Op(RankOp::Send(message(to, input, WrittenSize::default()))));
                push(ItemKind::Op(RankOp::Recv(message(from, output, WrittenSize::default()))));
                push(ItemKind::Call(CallKind::GroupEnd));
                return Ok(());
            }
            Kind::Map => {
                let Some(expr) = &step.expr else { return Err(Diagnostic::new(step.span, "`map` needs `expr`")) };
                let mut reads = Vec::new();
                for name in named(&expr.value) {
                    if let Some(id) = self.by_name.get(&name) {
                        reads.push(BufferSlice::whole(*id, step.span));
                    }
                }
                let out = self.required(step, "out", member)?;
                let count = self.elements(step, member)?;
                self.carry(&expr.value, 4 + member.names.axes.len(), step.span)?;
                let names = Arc::new(member.names.list());
                let size = WrittenSize { count, dtype: step.dtype.as_ref().map(|d| d.value) };
                let expr = self.exprs.entry(step).or_insert_with(|| Arc::new(expr.value.clone())).clone();
                ItemKind::Op(RankOp::Map(Arc::new(RankMap { expr, names, reads, out, size, stream })))
            }
            Kind::Host(Host::Wait) if fails => return self.await_errors(step, id, member.world),
            Kind::Host(Host::Wait) => {
                let on = step.wait_stream.as_ref().map(|s| self.stream(&s.value));
                ItemKind::Call(CallKind::Wait { stream: on })
            }
            Kind::Host(Host::Sleep) => {
                let Some(seconds) = &step.seconds else {
                    return Err(Diagnostic::new(step.span, "`sleep` needs `seconds`"));
                };
                let v = seconds.value(&member.names, Mode::Float)?.as_f64();
                if !(0.0..=3600.0).contains(&v) {
                    return Err(Diagnostic::new(
                        seconds.span,
                        format!("rank {rank} is to sleep {v} seconds; 0 to 3600 are possible"),
                    ));
                }
                ItemKind::Call(CallKind::Sleep { seconds: v })
            }
            Kind::Host(Host::Exit) => {
                self.program.exits = true;
                ItemKind::Call(CallKind::Exit { status: step.status.unwrap_or(ExitStatus::Code(0)), death: None })
            }
            Kind::OneSided(kind) => self.one_sided(step, *kind, member, stream)?,
            Kind::Registration(op) => self.register_step(step, *op, member)?,
            Kind::Group | Kind::Loop | Kind::Comm(_) | Kind::Graph(_) => return Ok(()),
        };
        self.push(member.world, id, step.span, fails, kind);
        Ok(())
    }

    pub(super) fn required(
        &mut self,
        step: &'a Step,
        key: &str,
        member: &Member<'a>,
    ) -> Result<BufferSlice, Diagnostic> {
        let found = if key == "in" { &step.input } else { &step.output };
        match found {
            Some(r) => self.slice(r, member),
            None => Err(Diagnostic::new(step.span, format!("`{}` needs `{key}`", step.op.name))),
        }
    }

    fn slice(&mut self, r: &BufferRef, member: &Member<'a>) -> Result<BufferSlice, Diagnostic> {
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
    fn pieces(&mut self, step: &'a Step, member: &Member<'a>) -> Result<Vec<BufferSlice>, Diagnostic> {
        let Some(input) = step.input.as_ref().filter(|input| input.slice.is_some()) else { return Ok(Vec::new()) };
        let members = self.program.comms.list[member.comm].members.clone();
        let of = |(rank, world): (usize, &usize)| {
            let names = Names { rank, world_rank: *world, ..member.names };
            self.slice(input, &Member { world: *world, names, ..*member })
        };
        members.iter().enumerate().map(of).collect()
    }

    pub(super) fn reduction(
        &self,
        reduce: Option<&Spanned<StepReduction>>,
        member: &Member<'a>,
    ) -> Result<Reduction<Factor>, Diagnostic> {
        Ok(match reduce.map(|r| &r.value) {
            None => Reduction::Builtin(nccl_sys::ncclRedOp_t::Sum),
            Some(StepReduction::Builtin(op)) => Reduction::Builtin(*op),
            Some(StepReduction::PreMulSum { scalar, device }) => {
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
                Reduction::PreMulSum(Factor { span: own.span, number, device: *device })
            }
        })
    }

    /// A peer's rank; outside the communicator it is refused unless the call should fail.
    pub(super) fn peer(
        &mut self,
        step: &Step,
        peer: Option<&NumberByRank>,
        member: &Member<'a>,
    ) -> Result<Spanned<i128>, Diagnostic> {
        let Some(peer) = peer else {
            return Err(Diagnostic::new(step.span, format!("`{}` needs `peer`", step.op.name)));
        };
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

    fn elements(&self, step: &Step, member: &Member<'a>) -> Result<Option<u64>, Diagnostic> {
        let Some(count) = &step.count else { return Ok(None) };
        let v = count.whole(&member.names)?;
        u64::try_from(v)
            .map(Some)
            .map_err(|_| Diagnostic::new(count.span, format!("`count` is {v} on rank {}", member.names.rank)))
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
        step: &'a Step,
        id: StepId,
        member: &Member<'a>,
        stream: u32,
        fails: bool,
    ) -> Result<(), Diagnostic> {
        let Some(counts) = &step.counts else {
            return Err(Diagnostic::new(step.span, "`all_to_all_v` needs `counts`"));
        };
        let (input, output) = (self.required(step, "in", member)?, self.required(step, "out", member)?);
        let (me, n) = (member.names.rank, member.names.n);
        if let AllToAllCounts::Matrix(rows) = &counts.value
            && rows.len() != n
        {
            let rows = if rows.len() == 1 { "1 row".to_owned() } else { format!("{} rows", rows.len()) };
            return Err(Diagnostic::new(counts.span, format!("`counts` has {rows}, but there are {}", ranks(n)))
                .help(format!("it needs {n} rows of {n} numbers: row r, column j is what r sends to j")));
        }
        let piece = |from: usize, to: usize| -> Result<u64, Diagnostic> {
            let v = match &counts.value {
                AllToAllCounts::Matrix(rows) => {
                    rows.get(from).and_then(|row| row.get(to)).copied().ok_or_else(|| {
                        Diagnostic::new(counts.span, format!("`counts` has no entry for row {from}, column {to}"))
                    })?
                }
                AllToAllCounts::ByRank(_) => {
                    return Err(Diagnostic::new(counts.span, "`counts` of all_to_all_v is a list of lists"));
                }
                AllToAllCounts::Expr(expr) => {
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
