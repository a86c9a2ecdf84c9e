//! Writes the items together with captures and launches.
use super::super::cost;
use super::super::item::{Item, ItemKind, Open, Phase, Program, RegistrationPoint};
use super::super::limits::Limits;
use super::super::rank_op::RankOp;
use super::super::types::StepId;
use super::super::unroll::MAX_STREAMS;
use super::{Capture, Steps, Survey};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, Span};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The items emitted for a rank so far.
#[derive(Default)]
struct Rank {
    items: Vec<Item>,
    /// New indices of captured items, by old index.
    captured: HashMap<usize, usize>,
    /// True once the launches after the last step have been emitted.
    ended: bool,
}

struct Emit<'a> {
    p: &'a Program,
    surveys: &'a [Survey],
    steps: &'a Steps,
    limits: &'a Limits,
    ranks: Vec<Rank>,
    order: Vec<(usize, usize)>,
    /// The streams that represent a graph's further streams when it runs, by graph and captured stream.
    side_streams: BTreeMap<(u32, u32), u32>,
}

/// Replaces the program's items, order and steps.
pub(super) fn emit(p: &mut Program, surveys: &[Survey], steps: Steps, limits: &Limits) -> Result<(), Diagnostic> {
    let ranks = (0..p.n).map(|_| Rank::default()).collect();
    let mut emit = Emit { p, surveys, steps: &steps, limits, ranks, order: Vec::new(), side_streams: BTreeMap::new() };
    for &(rank, index) in &p.order {
        emit.item(rank, index)?;
    }
    for rank in 0..p.n {
        emit.launches_at_the_end(rank)?;
    }
    let Emit { ranks, order, side_streams, .. } = emit;
    p.streams += side_streams.len() as u32;
    p.items = ranks.into_iter().map(|rank| rank.items).collect();
    p.order = order;
    p.steps = steps.list;
    p.units = steps.units;
    Ok(())
}

impl Emit<'_> {
    fn push(&mut self, rank: usize, item: Item) -> Result<usize, Diagnostic> {
        if self.order.len() >= self.limits.calls {
            let all = self.order.len() as u64 + 1;
            let count = cost::CallCount { all, at_least: true, ..cost::CallCount::default() };
            return Err(cost::too_many_calls(item.span, count, self.limits));
        }
        let index = self.ranks[rank].items.len();
        self.order.push((rank, index));
        self.ranks[rank].items.push(item);
        Ok(index)
    }

    fn moved(&self, item: &Item) -> Item {
        Item { step: self.steps.moved[item.step as usize], ..item.clone() }
    }

    /// The launches of graphs that no step launches, once.
    fn launches_at_the_end(&mut self, rank: usize) -> Result<(), Diagnostic> {
        let survey = &self.surveys[rank];
        if std::mem::replace(&mut self.ranks[rank].ended, true) {
            return Ok(());
        }
        for at in &survey.at_the_end {
            let capture = &survey.captures[*at];
            let launch = self.steps.last.get(&capture.name).copied().unwrap_or(0);
            self.launch(rank, capture, (launch, self.p.case.span), capture.origin)?;
        }
        Ok(())
    }

    fn item(&mut self, rank: usize, index: usize) -> Result<(), Diagnostic> {
        let (item, survey) = (&self.p.items[rank][index], &self.surveys[rank]);
        let capture = survey.of.get(&index).map(|at| &survey.captures[*at]);
        let moved = self.moved(item);
        match (&item.kind, capture) {
            (_, Some(capture)) if item.is_captured() => self.captured(rank, index, capture, moved),
            (ItemKind::Call(CallKind::Launch { stream, .. }), Some(capture)) => {
                self.launch(rank, capture, (item.step, item.span), *stream)
            }
            (ItemKind::Call(CallKind::Release { .. }), Some(capture)) => {
                let kind = ItemKind::Call(CallKind::Release { graph: capture.id });
                self.push(rank, Item { kind, ..moved }).map(|_| ())
            }
            // A graph that this rank has not captured.
            (ItemKind::Call(CallKind::Launch { .. } | CallKind::Release { .. }), None) => Ok(()),
            (ItemKind::RegistrationPoint(RegistrationPoint::Last), _) => {
                self.launches_at_the_end(rank)?;
                self.push(rank, moved).map(|_| ())
            }
            _ => self.push(rank, moved).map(|_| ()),
        }
    }

    /// Emits a captured item, with the beginning of its capture before the first and the end after the last.
    fn captured(&mut self, rank: usize, index: usize, capture: &Capture, item: Item) -> Result<(), Diagnostic> {
        let (graph, stream) = (capture.id, capture.origin);
        let call = |kind| Item { kind: ItemKind::Call(kind), phase: Phase::Eager, fails: false, ..item.clone() };
        if capture.items.first() == Some(&index) {
            self.push(rank, call(CallKind::BeginCapture { graph, stream }))?;
        }
        let phase = Phase::Captured(graph);
        let calls = match &item.kind {
            ItemKind::Op(_) => 1,
            ItemKind::AllGatherV { comm, .. } => 2 + self.p.comms.list[*comm].members.len(),
            _ => 0,
        };
        let kind = match &item.kind {
            ItemKind::Declare { .. } => None,
            _ if item.fails || calls == 0 => Some(item.kind.clone()),
            kind => super::check::stream_of(kind).map(|stream| ItemKind::Captured { calls, stream }),
        };
        if let Some(kind) = kind {
            let at = self.push(rank, Item { kind, phase, ..item.clone() })?;
            self.ranks[rank].captured.insert(index, at);
        }
        if capture.items.last() == Some(&index) {
            let on = self.further_streams(rank, capture);
            if !on.is_empty() {
                let kind = ItemKind::Call(CallKind::After { stream, on });
                self.push(rank, Item { kind, phase, fails: false, ..item.clone() })?;
            }
            self.push(rank, call(CallKind::EndCapture { graph, stream }))?;
        }
        Ok(())
    }

    /// The streams of a capture besides its first.
    fn further_streams(&self, rank: usize, capture: &Capture) -> Vec<u32> {
        let items = capture.items.iter().map(|index| &self.p.items[rank][*index].kind);
        let mut on: Vec<u32> = items.filter_map(super::check::stream_of).filter(|s| *s != capture.origin).collect();
        on.sort_unstable();
        on.dedup();
        on
    }

    /// Emits a launch and its work.
    fn launch(
        &mut self,
        rank: usize,
        capture: &Capture,
        (step, span): (StepId, Span),
        stream: u32,
    ) -> Result<(), Diagnostic> {
        let number = self.steps.moved[step as usize];
        let kind = ItemKind::Call(CallKind::Launch { graph: capture.id, stream });
        self.push(rank, Item { step: number, span, fails: false, phase: Phase::Eager, kind })?;
        let mut on = Vec::new();
        let mut streams = HashMap::from([(capture.origin, stream)]);
        for further in self.further_streams(rank, capture) {
            let next = self.p.real_streams + self.side_streams.len() as u32;
            let side = *self.side_streams.entry((capture.id, further)).or_insert(next);
            if side >= MAX_STREAMS {
                let text = format!("the program and its graphs use more than {MAX_STREAMS} streams");
                return Err(Diagnostic::new(span, text).help("streams and graphs can be used again"));
            }
            on.push(side);
            streams.insert(further, side);
        }
        for index in &capture.items {
            let item = &self.p.items[rank][*index];
            if item.fails {
                continue;
            }
            let step = self.steps.replayed.get(&(step, item.step)).copied().unwrap_or(number);
            let phase = Phase::Replayed(self.ranks[rank].captured.get(index).copied());
            let kind = on_streams(&item.kind, &streams);
            self.push(rank, Item { step, span: item.span, fails: false, phase, kind })?;
        }
        if !on.is_empty() {
            let kind = ItemKind::Call(CallKind::After { stream, on });
            self.push(rank, Item { step: number, span, fails: false, phase: Phase::Replayed(None), kind })?;
        }
        Ok(())
    }
}

/// The same item on other streams.
fn on_streams(kind: &ItemKind, streams: &HashMap<u32, u32>) -> ItemKind {
    let to = |stream: u32| streams.get(&stream).copied().unwrap_or(stream);
    let mut kind = kind.clone();
    match &mut kind {
        ItemKind::Op(op) => set_stream(op, to(op.stream())),
        ItemKind::AllGatherV { stream, .. } => *stream = to(*stream),
        ItemKind::Call(CallKind::After { stream, on }) => {
            *stream = to(*stream);
            on.iter_mut().for_each(|other| *other = to(*other));
        }
        _ => {}
    }
    kind
}

fn set_stream(op: &mut RankOp<Open>, to: u32) {
    match op {
        RankOp::Collective(c) => Arc::make_mut(c).stream = to,
        RankOp::Send(message) | RankOp::Recv(message) => message.stream = to,
        RankOp::OneSided(op) => Arc::make_mut(op).stream = to,
        RankOp::Map(map) => Arc::make_mut(map).stream = to,
    }
}
