//! Reductions that are computed wrongly. All ranks exchange a part of what each contributes, and each of them computes that part
//! once as it should be and once as the fault has it; where the two differ, the wrong one takes the place of the result.
#![allow(unsafe_code)] // a program's buffers are addresses

use crate::call::{Call, Kind};
use crate::communicators;
use crate::element::{Operator, Type, element, put};
use crate::fault::{Fault, FaultMode, aimed, hit, mode, sought, wanted};
use crate::memory::{Block, read, write};
use crate::numbers::{self, Moment, alike, combine, divide, is_nan, nearest, through};
use crate::operators::{self, Scalar};
use crate::outputs::CHUNK;
use crate::placed::Placed;
use crate::plain::named::*;
use crate::streams;
use gpuless_device::Stream;
use nccl_sys::{ncclDataType_t, ncclRedOp_t, ncclResult_t};
use std::sync::Arc;

/// Elements at the start of a contribution, or of each of its blocks, that are computed. A fault of the end of a block, such as F04, is
/// therefore done in blocks of at most this many elements only.
const FIRST: usize = 512;
const FIRST_OF_BLOCK: usize = 64;
/// Elements at the end, which is where the last pack is.
const LAST: usize = 16;
const PACK: usize = 16;
/// Contributions are exchanged as integers of this many bytes: every algorithm of NCCL can add 32-bit integers.
const WORD: usize = 4;
/// The tag under which the traffic of gathering is counted, which no program uses.
const OWN_TAG: u32 = u32::MAX;
/// [`Rule::Coarse`](crate::numbers::Rule::Coarse) is followed only with more ranks than this.
const FEW_RANKS: usize = 8;

/// The kind of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Plain(Operator),
    Average,
    /// Every contribution is multiplied by its rank's scalar.
    PreMul,
}

/// A reduction whose contributions are exchanged between all ranks.
pub(crate) struct Gathered {
    stream: Stream,
    sum: Sum,
    /// The elements that are known, by their index in the contribution.
    positions: Vec<usize>,
    /// This rank's contribution in its place among zeros, those of all ranks, and the bytes of each.
    own: Arc<Block>,
    all: Block,
    len: usize,
    call: Call,
}

/// Everything that decides about one element of the result.
struct Sum {
    kind: Kind,
    ty: Type,
    reduction: Reduction,
    rank: usize,
    n: usize,
    parent_n: usize,
    is_split: bool,
    later: bool,
    has_result: bool,
    count: usize,
}

/// The contributions to one element, and the scalars of the ranks.
struct Element<'a> {
    sum: &'a Sum,
    /// Its index in its block.
    at: usize,
    values: Vec<u64>,
    scalars: &'a [u64],
}

/// Puts the reading of this rank's contribution on the stream, if a fault may change this reduction. All ranks decide alike.
pub(crate) fn gather(Placed { of, call, stream, .. }: &Placed<'_>) -> Option<Gathered> {
    let ty = call.ty().filter(|_| call.kind.reduces())?;
    let scalar = operators::scalar(call.op);
    let reduction = match (Operator::of(call.op), call.op) {
        (Some(operator), _) => Reduction::Plain(operator),
        (None, ncclRedOp_t::Avg) => Reduction::Average,
        _ => scalar.as_ref().map(|_| Reduction::PreMul)?,
    };
    let sum = Sum {
        kind: call.kind,
        ty,
        reduction,
        rank: of.rank,
        n: of.n,
        parent_n: of.made.parent_n,
        is_split: of.is_split(),
        later: communicators::is_later(of),
        has_result: call.kind != Kind::Reduce || call.is_root(of.rank),
        count: call.count,
    };
    if of.n < 2 && !matches!(reduction, Reduction::PreMul | Reduction::Average) || !sum.may_be_wrong() {
        return None;
    }
    let positions = sum.positions();
    let size = ty.size();
    // The scalar follows the elements.
    let len = ((positions.len() + 1) * size).next_multiple_of(WORD);
    let (own, all) = (Arc::new(Block::new(len * of.n)?), Block::new(len * of.n)?);
    let (rank, n) = (of.rank, of.n);
    let (from, read_len) = call.extent(of.rank, of.n).send;
    let (into, places) = (Arc::clone(&own), positions.clone());
    streams::then(stream, move || {
        // SAFETY: the stream has come to the operation, whose caller keeps the input until it is over.
        let input = unsafe { read(from, read_len) };
        let mut bytes = vec![0; len * n];
        let elements = places.iter().map(|at| element(ty, &input, *at));
        let values = elements.chain([scalar.as_ref().map_or(0, Scalar::bits)]);
        for (to, value) in bytes[rank * len..].chunks_exact_mut(size).zip(values) {
            put(to, value);
        }
        into.fill(&bytes);
    });
    let (stream, call) = ((*stream).clone(), (*call).clone());
    Some(Gathered { stream, sum, positions, own, all, len, call })
}

impl Gathered {
    /// Gives all ranks the contributions of all. Each rank has zeros in the others' places, so that a sum is a gathering. It is an all_reduce
    /// and no messages, since these could meet the program's; and no all_gather, since NCCL_ALGO may allow none where it allows reductions.
    pub(crate) fn exchange(&self) -> ncclResult_t {
        let Self { own, all, len, call, .. } = self;
        let sum = Call {
            kind: Kind::AllReduce,
            send: own.address(),
            recv: all.address(),
            count: len * self.sum.n / WORD,
            dtype: ncclDataType_t::Uint32,
            op: ncclRedOp_t::Sum,
            root: 0,
            config: None,
            ..call.clone()
        };
        operators::mark(call.comm, OWN_TAG);
        let code = sum.issue();
        let tag = communicators::communicator(call.comm).map_or(0, |of| of.state().tag);
        operators::mark(call.comm, tag);
        code
    }

    /// Called when the reduction and the exchange are on the stream: puts the work behind them that makes the result wrong.
    pub(crate) fn end(self: Arc<Self>) {
        let stream = self.stream.clone();
        streams::then(&stream, move || self.compute());
    }

    fn compute(&self) {
        let Sum { ty, has_result, rank, kind, .. } = self.sum;
        if !has_result || self.call.recv == 0 {
            return;
        }
        let size = ty.size();
        let all = self.all.bytes();
        let parts: Vec<&[u8]> = all.chunks_exact(self.len).collect();
        let scalars: Vec<u64> = parts.iter().map(|part| element(ty, part, self.positions.len())).collect();
        for (index, position) in self.positions.iter().enumerate() {
            let at = match kind {
                Kind::ReduceScatter if position / self.call.count == rank => position % self.call.count,
                Kind::ReduceScatter => continue,
                _ => *position,
            };
            let values = parts.iter().map(|part| element(ty, part, index)).collect();
            let address = self.call.recv + at * size;
            // SAFETY: the stream is just behind the operation, so that the program keeps the output.
            let now = unsafe { read(address, size) };
            let of = Element { sum: &self.sum, at, values, scalars: &scalars };
            if let Some(wrong) = of.wrong(element(ty, &now, 0)) {
                let mut bytes = now;
                put(&mut bytes, wrong);
                // SAFETY: as above.
                unsafe { write(address, &bytes) };
            }
        }
    }
}

/// A wrong way to compute an element; `None` where it makes no difference or does not apply.
type Wrong = fn(&Element<'_>) -> Option<u64>;

const FAULTS: &[(Fault, Wrong)] = &[
    (F04, |of| of.in_tail().then(|| of.with_operator(Operator::opposite))),
    (F04B, |of| of.as_bits()),
    (F21, |of| of.left_out()),
    (F22, |of| of.counted_twice()),
    (F23, |of| (of.plain() == Some(Operator::Prod)).then(|| of.with_operator(Operator::opposite))),
    (F23B, |of| of.minimum_as_maximum()),
    (F23C, |of| of.divided_by(1)),
    (F24, |of| of.divided_at_every_hop()),
    (F24B, |of| (of.at * of.sum.ty.size() >= CHUNK).then(|| of.divided_by(1)).flatten()),
    (F24C, |of| of.divided_by((of.sum.n - 1).max(1))),
    (F24D, |of| of.divided_by(of.sum.count)),
    (F24E, |of| of.sum.is_split.then(|| of.divided_by(of.sum.parent_n)).flatten()),
    (F25, |of| (of.divides_whole() && of.sum.n > 1).then_some(0)),
    (F25B, |of| of.divided_in_single_precision()),
    (F26, |of| of.scalar_of_another_width()),
    (F26B, |of| of.premultiplied(|_, _| of.scalars[0])),
    (F26C, |of| of.multiplied_at_every_hop()),
    (F27, |of| of.narrowed(Type::F32, Type::Bf16)),
    (F27B, |of| of.narrowed(Type::F16, Type::Bf16)),
    (F27C, |of| of.narrowed(Type::F64, Type::F32)),
    (F28, |of| (of.sum.kind == Kind::AllReduce && of.sum.n > 2).then(|| of.in_order(of.sum.rank, false))),
    (F29, |of| of.nan_wins()),
    (F29B, |of| of.leaves_range()),
    (F89E, |of| {
        let later = of.sum.later && of.sum.kind == Kind::AllReduce && of.sum.ty == Type::Bf16;
        later.then(|| of.in_order(0, true))
    }),
];

impl Sum {
    /// True if any wanted fault can change this reduction.
    fn may_be_wrong(&self) -> bool {
        FAULTS.iter().any(|(fault, _)| wanted(*fault))
            || self.moments().into_iter().any(|moment| numbers::wanted_at(moment).next().is_some())
    }

    /// The moments of this reduction at which rules are followed.
    fn moments(&self) -> Vec<Moment> {
        let ty = self.ty;
        match self.reduction {
            Reduction::Plain(operator) => vec![Moment::Combining(ty, Some(operator))],
            Reduction::Average if ty.is_float() => vec![Moment::Scaling(ty, true)],
            Reduction::Average => vec![Moment::Combining(ty, None), Moment::Dividing(ty)],
            Reduction::PreMul => vec![Moment::Scaling(ty, false), Moment::Reading(ty)],
        }
    }

    /// The elements that are gathered, by their index in the contribution.
    fn positions(&self) -> Vec<usize> {
        let count = self.count;
        if self.kind == Kind::ReduceScatter {
            return (0..self.n)
                .flat_map(|rank| (0..count.min(FIRST_OF_BLOCK)).map(move |at| rank * count + at))
                .collect();
        }
        (0..count.min(FIRST)).chain(count.saturating_sub(LAST).max(FIRST.min(count))..count).collect()
    }

    fn operator(&self) -> Operator {
        if let Reduction::Plain(operator) = self.reduction { operator } else { Operator::Sum }
    }
}

impl Element<'_> {
    /// The wrong element in place of `now`.
    fn wrong(&self, now: u64) -> Option<u64> {
        let (ty, right) = (self.sum.ty, self.right());
        let takes = |fault: Fault, wrong: Option<u64>| {
            let wrong = wrong.filter(|wrong| !alike(ty, *wrong, right) && !alike(ty, *wrong, now))?;
            hit(fault, self.sum.rank).then_some(wrong)
        };
        // What every rank of an all_reduce computes alike need be looked for on one.
        let elsewhere = mode() == FaultMode::Trace && self.sum.kind == Kind::AllReduce && self.sum.rank > 0;
        if elsewhere {
            return takes(F28, (self.sum.n > 2).then(|| self.in_order(self.sum.rank, false)));
        }
        let mut plain = FAULTS.iter().filter(|(fault, _)| sought(*fault));
        plain.find_map(|(fault, wrong)| takes(*fault, wrong(self))).or_else(|| {
            let members = self
                .sum
                .moments()
                .into_iter()
                .flat_map(|moment| numbers::wanted_at(moment).map(move |member| (moment, member)));
            members
                .filter(|(_, member)| sought(member.fault))
                .filter(|(_, member)| member.rule != numbers::Rule::Coarse || self.sum.n > FEW_RANKS)
                .collect::<Vec<_>>()
                .into_iter()
                .find_map(|(moment, member)| takes(member.fault, Some(self.by_rule(moment, member))))
        })
    }

    fn by_rule(&self, moment: Moment, member: numbers::Member) -> u64 {
        let Sum { ty, n, .. } = *self.sum;
        match moment {
            Moment::Combining(..) => self.result(
                |_, value| value,
                |operator, a, b| {
                    let right = combine(ty, operator, a, b);
                    member.combined(ty, operator, [a, b], right).unwrap_or(right)
                },
            ),
            Moment::Scaling(..) => self.folded(
                |rank, value| {
                    let factor = self.factor(rank);
                    let right = combine(ty, Operator::Prod, value, factor);
                    member.scaled(ty, value, factor, right).unwrap_or(right)
                },
                |operator, a, b| combine(ty, operator, a, b),
            ),
            Moment::Dividing(_) => {
                let sum = self.folded(|_, value| value, |operator, a, b| combine(ty, operator, a, b));
                let right = divide(ty, sum, n);
                member.quotient(ty, sum, n, right).unwrap_or(right)
            }
            Moment::Reading(_) => {
                let read = |rank: usize| member.scalar(ty, self.scalars[rank]).unwrap_or(self.scalars[rank]);
                self.folded(
                    |rank, value| combine(ty, Operator::Prod, value, read(rank)),
                    |operator, a, b| combine(ty, operator, a, b),
                )
            }
            Moment::Copying(..) | Moment::CopyingAlone(_) => self.right(),
        }
    }

    /// The factor of a rank's contribution.
    fn factor(&self, rank: usize) -> u64 {
        match self.sum.reduction {
            Reduction::PreMul => self.scalars[rank],
            _ => nearest(self.sum.ty, 1.0 / self.sum.n as f64),
        }
    }

    /// All contributions combined in the order of the ranks, each changed before.
    fn folded(&self, each: impl Fn(usize, u64) -> u64, step: impl Fn(Operator, u64, u64) -> u64) -> u64 {
        let operator = self.sum.operator();
        let all = self.values.iter().enumerate().map(|(rank, value)| each(rank, *value));
        all.reduce(|a, b| step(operator, a, b)).unwrap_or(0)
    }

    /// The whole reduction, with contributions changed before and combined in some way.
    fn result(&self, each: impl Fn(usize, u64) -> u64, step: impl Fn(Operator, u64, u64) -> u64) -> u64 {
        let Sum { ty, n, reduction, .. } = *self.sum;
        let scaled = |rank, value| combine(ty, Operator::Prod, each(rank, value), self.factor(rank));
        match reduction {
            Reduction::Plain(_) => self.folded(each, step),
            Reduction::Average if !ty.is_float() => divide(ty, self.folded(each, step), n),
            Reduction::Average | Reduction::PreMul => self.folded(scaled, step),
        }
    }

    fn right(&self) -> u64 {
        self.result(|_, value| value, |operator, a, b| combine(self.sum.ty, operator, a, b))
    }

    fn plain(&self) -> Option<Operator> {
        if let Reduction::Plain(operator) = self.sum.reduction { Some(operator) } else { None }
    }

    /// Behind the last whole pack.
    fn in_tail(&self) -> bool {
        let per_pack = PACK / self.sum.ty.size();
        self.at >= self.sum.count - self.sum.count % per_pack
    }

    fn with_operator(&self, other: impl Fn(Operator) -> Operator) -> u64 {
        self.result(|_, value| value, |operator, a, b| combine(self.sum.ty, other(operator), a, b))
    }

    fn as_bits(&self) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        let bits = match ty.size() {
            1 => Type::U8,
            4 => Type::U32,
            8 => Type::U64,
            // There are no 16-bit integers, but the lower half of a wider sum is the same.
            _ => Type::U32,
        };
        let sums = ty.is_float() && self.plain() == Some(Operator::Sum) && self.in_tail();
        sums.then(|| {
            self.folded(|_, value| value, |_, a, b| combine(bits, Operator::Sum, a, b))
                & (u64::MAX >> (64 - 8 * ty.size()))
        })
    }

    fn left_out(&self) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        let out = aimed(F21).unwrap_or(n - 1);
        let others = || self.values.iter().enumerate().filter(|(rank, _)| *rank != out).map(|(_, value)| *value);
        let rest = Element { sum: self.sum, at: self.at, values: others().collect(), scalars: self.scalars };
        (n > 1 && self.plain().is_some() && out < n)
            .then(|| rest.folded(|_, value| value, |operator, a, b| combine(ty, operator, a, b)))
    }

    fn counted_twice(&self) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        let twice = aimed(F22).unwrap_or(n - 1);
        let plain = self.plain().filter(|plain| matches!(plain, Operator::Sum | Operator::Prod))?;
        let doubled = |rank, value| if rank == twice { combine(ty, plain, value, value) } else { value };
        (n > 2 && !n.is_power_of_two()).then(|| self.folded(doubled, |operator, a, b| combine(ty, operator, a, b)))
    }

    fn minimum_as_maximum(&self) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        let negative = |bits: u64| bits >> (8 * ty.size() - 1) & 1 == 1;
        let unsigned = !ty.is_float() && !numbers::is_signed(ty);
        (self.plain() == Some(Operator::Min)).then(|| {
            self.folded(
                |_, value| value,
                |_, a, b| {
                    let wrong = unsigned || negative(a) || negative(b);
                    combine(ty, if wrong { Operator::Max } else { Operator::Min }, a, b)
                },
            )
        })
    }

    fn divides_whole(&self) -> bool {
        self.sum.reduction == Reduction::Average && !self.sum.ty.is_float()
    }

    fn divided_by(&self, by: usize) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        if self.sum.reduction != Reduction::Average || by == 0 {
            return None;
        }
        let step = |operator, a, b| combine(ty, operator, a, b);
        if self.divides_whole() {
            return Some(divide(ty, self.folded(|_, value| value, step), by));
        }
        let factor = nearest(ty, 1.0 / by as f64);
        Some(self.folded(|_, value| combine(ty, Operator::Prod, value, factor), step))
    }

    fn divided_at_every_hop(&self) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        let factor = nearest(ty, 1.0 / n as f64);
        let once = |bits| if ty.is_float() { combine(ty, Operator::Prod, bits, factor) } else { divide(ty, bits, n) };
        (self.sum.reduction == Reduction::Average && n > 2)
            .then(|| self.folded(|_, value| value, |operator, a, b| once(combine(ty, operator, a, b))))
    }

    fn divided_in_single_precision(&self) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        self.divides_whole().then(|| {
            let sum = self.folded(|_, value| value, |operator, a, b| combine(ty, operator, a, b));
            nearest(ty, f64::from(numbers::read(ty, sum) as f32 / n as f32))
        })
    }

    /// Every contribution times the scalar that its rank takes.
    fn premultiplied(&self, scalar: impl Fn(usize, u64) -> u64) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        (self.sum.reduction == Reduction::PreMul).then(|| {
            let scaled = |rank: usize, value| combine(ty, Operator::Prod, value, scalar(rank, self.scalars[rank]));
            self.folded(scaled, |operator, a, b| combine(ty, operator, a, b))
        })
    }

    fn scalar_of_another_width(&self) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        let half = u64::MAX >> (64 - 4 * ty.size());
        // The lower half of the bits is where the library looks for all of them.
        self.premultiplied(|_, right| if ty.is_float() { (right & half) << (4 * ty.size()) } else { right & half })
    }

    fn multiplied_at_every_hop(&self) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        let scaled = |bits, rank: usize| combine(ty, Operator::Prod, bits, self.scalars[rank]);
        (self.sum.reduction == Reduction::PreMul && n > 1).then(|| {
            let mut all = self.values.iter().enumerate();
            let first = all.next().map_or(0, |(rank, value)| scaled(*value, rank));
            all.fold(first, |sum, (rank, value)| combine(ty, Operator::Sum, scaled(sum, rank), scaled(*value, rank)))
        })
    }

    /// Partial sums are rounded to another type; the last one is not.
    fn narrowed(&self, of: Type, to: Type) -> Option<u64> {
        let Sum { ty, n, .. } = *self.sum;
        let sums = ty == of && self.sum.operator() == Operator::Sum && n > 2;
        sums.then(|| {
            let all = self.values.iter().copied();
            let last = all.clone().last().unwrap_or(0);
            let partial = all.take(n - 1).reduce(|a, b| through(ty, to, combine(ty, Operator::Sum, a, b)));
            combine(ty, Operator::Sum, partial.unwrap_or(0), last)
        })
        .filter(|_| self.plain().is_some())
    }

    /// All contributions, beginning with this rank's, or backwards.
    fn in_order(&self, first: usize, backwards: bool) -> u64 {
        let n = self.values.len();
        let order = (0..n).map(|at| if backwards { n - 1 - at } else { (first + at) % n });
        let turned = Element {
            sum: self.sum,
            at: self.at,
            values: order.clone().map(|rank| self.values[rank]).collect(),
            scalars: &order.map(|rank| self.scalars[rank]).collect::<Vec<_>>(),
        };
        turned.right()
    }

    /// `a < b ? a : b`, and the same the other way round: a NaN on the right side wins.
    fn nan_wins(&self) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        let plain = self.plain().filter(|plain| matches!(plain, Operator::Min | Operator::Max))?;
        Some(self.folded(|_, value| value, |_, a, b| if is_nan(ty, b) { b } else { combine(ty, plain, a, b) }))
    }

    fn leaves_range(&self) -> Option<u64> {
        let Sum { ty, .. } = *self.sum;
        let sums = ty.size() == 1 && ty.is_float() && self.sum.operator() == Operator::Sum;
        sums.then(|| {
            self.result(
                |_, value| value,
                |operator, a, b| numbers::leaves_range(ty, a, b).unwrap_or_else(|| combine(ty, operator, a, b)),
            )
        })
    }
}
