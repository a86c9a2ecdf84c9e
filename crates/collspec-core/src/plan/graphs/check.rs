//! Checks captures against what CUDA and NCCL refuse or leave undefined, rank by rank in the order of the calls.
use super::super::item::{Item, ItemKind, Program};
use super::super::lower::{Index, LoweredProgram};
use super::super::rank_op::RankOp;
use super::super::types::CommId;
use super::{Capture, Survey};
use crate::job::CallKind;
use crate::scenario::{Diagnostic, Span};
use nccl_sys::ncclResult_t;
use std::collections::{BTreeMap, BTreeSet};

/// Checks every rank.
pub(super) fn check(p: &Program, surveys: &[Survey]) -> Result<(), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    for (rank, (items, survey)) in p.items.iter().zip(surveys).enumerate() {
        let (open, live, ended) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        let mut walk = Walk { p, rank, items, survey, open, live, ended };
        diags.extend(walk.repeated_with_registrations().err());
        for (index, item) in items.iter().enumerate() {
            diags.extend(walk.item(index, item).err());
        }
        for at in &survey.at_the_end {
            let capture = &survey.captures[*at];
            let Some(first) = capture.items.first().and_then(|index| items.get(*index)) else { continue };
            diags.extend(walk.launch(capture, first.span, capture.origin).err());
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(diags) }
}

/// Checks that calls which meet are both made by graphs, or neither is.
pub fn check_both_captured(lowered: &LoweredProgram, one: Index, other: Index) -> Result<(), Diagnostic> {
    let replayed = |at: Index| matches!(lowered.programs[at.0][at.1].kind, CallKind::Replayed { .. });
    let (eager, captured) = match (replayed(one), replayed(other)) {
        (false, true) => (one, other),
        (true, false) => (other, one),
        _ => return Ok(()),
    };
    let span = |at: Index| lowered.unrolled.steps[lowered.step(at) as usize].span;
    let text = format!(
        "rank {} makes this call directly, and the call of rank {} that it meets is part of a graph",
        eager.0, captured.0
    );
    Err(Diagnostic::new(span(eager), text)
        .related(span(captured), "the captured call")
        .help("all ranks of a collective capture it, or none does; so do the two ends of a message"))
}

pub fn stream_of(kind: &ItemKind) -> Option<u32> {
    match kind {
        ItemKind::Op(op) => Some(op.stream()),
        ItemKind::AllGatherV { stream, .. } | ItemKind::Call(CallKind::After { stream, .. }) => Some(*stream),
        _ => None,
    }
}

/// The communicator of an item, if it has one.
fn comm_of(kind: &ItemKind) -> Option<CommId> {
    match kind {
        ItemKind::Op(op) => RankOp::comm(op),
        ItemKind::AllGatherV { comm, .. } => Some(*comm),
        _ => None,
    }
}

/// One rank at some point of its program.
struct Walk<'a> {
    p: &'a Program,
    rank: usize,
    items: &'a [Item],
    survey: &'a Survey,
    /// For each stream: the capture that records its work.
    open: BTreeMap<u32, usize>,
    /// Captures whose graphs exist.
    live: BTreeSet<usize>,
    /// Communicators that cannot be used any more, with the place and kind of the cause.
    ended: BTreeMap<u32, (Span, &'static str)>,
}

impl Walk<'_> {
    fn item(&mut self, index: usize, item: &Item) -> Result<(), Diagnostic> {
        let Some(at) = self.survey.of.get(&index).copied() else { return self.eager(item) };
        let capture = &self.survey.captures[at];
        match &item.kind {
            ItemKind::Call(CallKind::Launch { stream, .. }) if !item.is_captured() => {
                self.launch(capture, item.span, *stream)
            }
            ItemKind::Call(CallKind::Release { .. }) if !item.is_captured() => {
                self.live.remove(&at);
                Ok(())
            }
            _ => self.captured((index, at), capture, item),
        }
    }

    /// Every run of `repeat` registers memory again, and a graph would continue to use the registrations of the first run.
    fn repeated_with_registrations(&self) -> Result<(), Diagnostic> {
        let registers = |item: &Item| {
            matches!(
                item.kind,
                ItemKind::RegistrationPoint(_) | ItemKind::Register { .. } | ItemKind::Deregister { .. }
            )
        };
        let first = self.survey.captures.first().and_then(|capture| self.items.get(*capture.items.first()?));
        match first {
            Some(first) if self.p.case.repeat > 1 && self.items.iter().any(registers) => {
                let text = "graphs and registered memory cannot be repeated together: a graph is captured once, and memory is registered in every run";
                Err(Diagnostic::new(first.span, text).help("launch the graph several times in place of `repeat`"))
            }
            _ => Ok(()),
        }
    }

    fn name(&self, at: usize) -> &str {
        &self.p.graphs[self.survey.captures[at].name as usize]
    }

    fn captured(&mut self, (index, at): (usize, usize), capture: &Capture, item: &Item) -> Result<(), Diagnostic> {
        if capture.items.first() == Some(&index) {
            self.join(at, capture.origin, item.span)?;
        }
        let name = self.name(at).to_owned();
        if item.fails && self.p.case.repeat > 1 {
            let text =
                "a captured call that is expected to fail cannot be repeated: with `repeat` graphs are captured once";
            return Err(Diagnostic::new(item.span, text));
        }
        match &item.kind {
            ItemKind::Call(CallKind::Wait { .. }) => {
                let text = format!("the host cannot wait for what is captured into `{name}`: it does not run yet");
                return Err(Diagnostic::new(item.span, text)
                    .help("an `all_reduce` of one element can be captured, a `barrier` cannot"));
            }
            ItemKind::Call(CallKind::Begin { .. } | CallKind::End { .. }) => {
                let text = "a step that is captured has no figures, because it does not run when it is called";
                return Err(Diagnostic::new(item.span, text).help("give the `name` to the `launch`"));
            }
            ItemKind::Call(CallKind::After { stream, on }) => {
                if let Some(other) = on.iter().find(|other| self.open.get(other) != Some(&at)) {
                    let text = format!(
                        "a step that is captured into `{name}` cannot wait for the stream `{}`, whose work is not part of it",
                        self.p.stream_name(*other)
                    );
                    return Err(Diagnostic::new(item.span, text)
                        .help("make the stream's earlier work part of the graph, or let the `launch` wait"));
                }
                if self.open.get(stream) != Some(&at) {
                    self.join(at, *stream, item.span)?;
                }
            }
            kind => {
                if let Some(stream) = stream_of(kind)
                    && self.open.get(&stream) != Some(&at)
                {
                    let text =
                        format!("the stream `{}` is not part of the capture of `{name}`", self.p.stream_name(stream));
                    let help = format!(
                        "a capture begins on one stream; another joins it with `after = [\"{}\"]`",
                        self.p.stream_name(capture.origin)
                    );
                    return Err(Diagnostic::new(item.span, text).help(help));
                }
            }
        }
        if capture.items.last() == Some(&index) {
            self.open.retain(|_, of| *of != at);
            self.live.insert(at);
        }
        Ok(())
    }

    /// A stream becomes part of a capture.
    fn join(&mut self, at: usize, stream: u32, span: Span) -> Result<(), Diagnostic> {
        let (name, text) = (self.name(at), self.p.stream_name(stream));
        if self.p.null_stream == Some(stream) {
            return Err(Diagnostic::new(
                span,
                format!("the null stream cannot be captured into `{name}`: CUDA refuses that"),
            )
            .help("use a stream of another name"));
        }
        if let Some(other) = self.open.get(&stream) {
            let text = format!(
                "the stream `{text}` is being captured into `{}` here, so it cannot be captured into `{name}`",
                self.name(*other)
            );
            return Err(
                Diagnostic::new(span, text).help("capture the two graphs one after the other, or on two streams")
            );
        }
        self.open.insert(stream, at);
        Ok(())
    }

    fn launch(&mut self, capture: &Capture, span: Span, stream: u32) -> Result<(), Diagnostic> {
        self.uncaptured(stream, span)?;
        let comms = capture.items.iter().filter_map(|index| comm_of(&self.items[*index].kind));
        for comm in comms {
            if let Some((end, how)) = self.ended.get(&(comm as u32)) {
                let text = format!(
                    "the graph `{}` calls a communicator that was {how} before",
                    self.p.graphs[capture.name as usize]
                );
                return Err(Diagnostic::new(span, text).related(*end, format!("{how} here")));
            }
        }
        Ok(())
    }

    /// Refuses work that runs on a stream whose work is captured.
    fn uncaptured(&self, stream: u32, span: Span) -> Result<(), Diagnostic> {
        let Some(at) = self.open.get(&stream) else { return Ok(()) };
        let text = format!(
            "the stream `{}` is being captured into `{}`, which further steps below belong to: this step would be captured too",
            self.p.stream_name(stream),
            self.name(*at)
        );
        Err(Diagnostic::new(span, text)
            .help("move the step before or after the captured ones, or give it another stream"))
    }

    /// Checks an item that is not captured.
    fn eager(&mut self, item: &Item) -> Result<(), Diagnostic> {
        let first = self.open.values().next().copied();
        match &item.kind {
            ItemKind::Call(CallKind::Wait { stream }) => {
                match (stream, first) {
                    (None, Some(at)) => {
                        let text = format!(
                            "the host cannot wait for all streams while the graph `{}` is being captured",
                            self.name(at)
                        );
                        Err(Diagnostic::new(item.span, text).help("wait before the first or after the last captured step, or for one stream that is not captured"))
                    }
                    (Some(stream), _) => match self.open.get(stream) {
                        Some(at) => {
                            let text = format!(
                                "the host cannot wait for the stream `{}` while it is being captured into `{}`",
                                self.p.stream_name(*stream),
                                self.name(*at)
                            );
                            Err(Diagnostic::new(item.span, text)
                                .help("wait before the first or after the last captured step"))
                        }
                        None => Ok(()),
                    },
                    (None, None) => Ok(()),
                }
            }
            ItemKind::Call(CallKind::After { stream, on }) => {
                self.uncaptured(*stream, item.span)?;
                match on.iter().find_map(|other| Some((other, self.open.get(other)?))) {
                    Some((other, at)) => {
                        let text = format!(
                            "this step cannot wait for the stream `{}` while it is being captured into `{}`",
                            self.p.stream_name(*other),
                            self.name(*at)
                        );
                        Err(Diagnostic::new(item.span, text)
                            .help("what is captured does not run yet: wait after the `launch`"))
                    }
                    None => Ok(()),
                }
            }
            ItemKind::Register { .. } | ItemKind::Deregister { .. } => match first {
                Some(at) => {
                    let text = format!(
                        "memory cannot be registered or deregistered while the graph `{}` is being captured",
                        self.name(at)
                    );
                    Err(Diagnostic::new(item.span, text).help("do it before the first or after the last captured step"))
                }
                None => Ok(()),
            },
            ItemKind::Call(kind) if ends_or_makes(kind) => self.comm_step(item, kind, first),
            kind => {
                let errors = &self.p.steps[item.step as usize].error;
                if let (Some(comm), true) =
                    (comm_of(kind), errors.contains(&(self.rank, Some(ncclResult_t::InProgress))))
                {
                    self.ended.insert(comm as u32, (item.span, "left with a call in progress"));
                }
                stream_of(kind).map_or(Ok(()), |stream| self.uncaptured(stream, item.span))
            }
        }
    }

    /// Checks an item that creates or ends a communicator.
    fn comm_step(&mut self, item: &Item, kind: &CallKind, open: Option<usize>) -> Result<(), Diagnostic> {
        if let Some(at) = open {
            let text = format!(
                "communicators cannot be made, changed or ended while the graph `{}` is being captured",
                self.name(at)
            );
            return Err(Diagnostic::new(item.span, text).help("do it before the first or after the last captured step"));
        }
        if item.fails {
            return Ok(());
        }
        let comm = match kind {
            CallKind::Finalize { comm } | CallKind::Destroy { comm } | CallKind::Abort { comm } => comm,
            CallKind::Revoke { comm, .. } => {
                self.ended.insert(*comm, (item.span, "revoked"));
                return Ok(());
            }
            CallKind::Shrink { parent, abort: true, .. } => {
                self.ended.insert(*parent, (item.span, "aborted"));
                return Ok(());
            }
            CallKind::Suspend { comm, .. } => {
                self.ended.insert(*comm, (item.span, "suspended"));
                return Ok(());
            }
            CallKind::Resume { comm, .. } => {
                self.ended.remove(comm);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.ended.insert(*comm, (item.span, "ended"));
        let uses = |at: &&usize| {
            let items = &self.survey.captures[**at].items;
            items.iter().any(|index| comm_of(&self.items[*index].kind) == Some(*comm as usize))
        };
        match self.live.iter().find(uses) {
            Some(at) if !self.p.lenient() => {
                let name = self.name(*at);
                let text = format!(
                    "the graph `{name}`, which has captured this communicator, still exists: NCCL waits in this call until it is released"
                );
                let help = format!("put `{{ op = \"release\", graph = \"{name}\" }}` before this step");
                let first = self.survey.captures[*at].items.first().map_or(item.span, |index| self.items[*index].span);
                Err(Diagnostic::new(item.span, text).related(first, "captured here").help(help))
            }
            _ => Ok(()),
        }
    }
}

fn ends_or_makes(kind: &CallKind) -> bool {
    matches!(
        kind,
        CallKind::Init { .. }
            | CallKind::Split { .. }
            | CallKind::Finalize { .. }
            | CallKind::Destroy { .. }
            | CallKind::Abort { .. }
            | CallKind::Shrink { .. }
            | CallKind::GrowId { .. }
            | CallKind::Grow { .. }
            | CallKind::Revoke { .. }
            | CallKind::Suspend { .. }
            | CallKind::Resume { .. }
    )
}
