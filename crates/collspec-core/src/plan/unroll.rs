//! Turns steps into every rank's items: loops unrolled, communicators found, numbers evaluated. Counts are still open.
use super::comms::{Comms, Maker, Meetings, Named};
use super::cost::{self, CallCount};
use super::eval::{Names, Ranked, among};
use super::item::{Item, ItemKind, Name, Phase, Program, RegistrationPoint};
use super::limits::Limits;
use super::types::{BufId, CommId, PlanStep, StepId};
use crate::job::CallKind;
use crate::num::DType;
use crate::ops::{CommOp, Composite, Kind};
use crate::scenario::{
    Case, CommCreation, CommDef, Diagnostic, Expr, Ranks, Span, Spanned, Step, StepComm, StepError, StepKind, all_steps,
};
use nccl_sys::ncclResult_t;
use std::collections::HashMap;
use std::sync::Arc;

mod allowed_calls;
mod comm_steps;
mod deaths;
mod group_steps;
mod groups;
mod in_progress;
mod one_sided;
mod rank_items;
mod reduce_scatter_v;
mod registration;
mod weigh;

/// Limit on a program's streams, including `main`: each rank has all of them, and an order is kept between every two.
pub const MAX_STREAMS: u32 = 256;
/// The name of CUDA's null stream; all other names are of streams that are created.
const NULL_STREAM: &str = "default";

struct Unroll<'a> {
    case: &'a Case,
    program: Program,
    limits: &'a Limits,
    by_name: HashMap<String, BufId>,
    stream_ids: HashMap<String, u32>,
    diags: Vec<Diagnostic>,
    calls: usize,
    /// The number of rounds among `calls`.
    rounds: usize,
    /// The open loops, the outermost first.
    loops: Vec<OpenLoop>,
    /// Number of operations of the numbers evaluated so far.
    work: u64,
    /// Bytes of the maps' expressions, which every call contains.
    bytes: u64,
    /// True if the program registers memory.
    registers: bool,
    /// The graph that the items of the current step become part of.
    phase: Phase,
    /// The outermost open group.
    group: Option<groups::OpenGroup>,
    /// True if the program has one-sided operations.
    signals: bool,
    /// Ranks whose processes have ended.
    ended: deaths::Ended,
    /// True while only the calls that make communicators are of interest.
    only_communicators: bool,
}

/// A loop that is being unrolled.
struct OpenLoop {
    rounds: u64,
    /// Number of calls and rounds before its first round.
    before: (u64, u64),
    /// Number of calls and rounds of its first round, once known.
    each: Option<(u64, u64)>,
    /// By world rank: the number of its rounds, if others have more.
    fewer: HashMap<usize, u64>,
    /// The round that is being unrolled.
    t: u64,
}

impl OpenLoop {
    /// True if this rank has no more rounds.
    fn is_over_on(&self, world: usize) -> bool {
        self.fewer.get(&world).is_some_and(|rounds| *rounds <= self.t)
    }
}

/// The position of a step in the program: `2.1`, and the round of its `times`.
#[derive(Clone)]
struct StepPosition {
    path: String,
    t: Option<u64>,
}

/// A rank that runs a step.
#[derive(Clone, Copy)]
struct Member<'a> {
    world: usize,
    comm: CommId,
    names: Names<'a>,
}

/// Unrolls the steps of a case into every rank's items.
pub fn unroll(case: &Arc<Case>, limits: &Limits) -> Result<Program, Vec<Diagnostic>> {
    let meetings = foresee_splits(case, limits)?;
    let (program, was_right) = unroll_where(case, limits, true, meetings.clone())?;
    if was_right { Ok(program) } else { Ok(unroll_where(case, limits, false, meetings)?.0) }
}

/// Limit on the depth of communicators that are split out of each other by steps of some ranks.
const MOST_SPLITS_OF_SPLITS: usize = 32;

/// Finds the ranks of communicators whose ranks come to one split by different steps. What an early one makes depends on the later
/// ones, so that the steps that make communicators are gone through until nothing changes: once for each depth of splits of splits.
fn foresee_splits(case: &Arc<Case>, limits: &Limits) -> Result<Meetings, Vec<Diagnostic>> {
    let mut meetings = Meetings::default();
    let by_some = |step: &&Step| {
        let splits = matches!(&step.kind, StepKind::NewComm(def) if matches!(def.creation, CommCreation::Split { .. }));
        splits && !matches!(step.ranks, Ranks::All)
    };
    let Some(step) = all_steps(&case.steps).find(by_some) else { return Ok(meetings) };
    for _ in 0..=MOST_SPLITS_OF_SPLITS {
        let mut unroll = Unroll::new(case, limits, true, meetings);
        unroll.only_communicators = true;
        // What is wrong is reported when the whole case is unrolled.
        unroll.comms();
        let _ = unroll.steps(&case.steps, "", None);
        let seen = unroll.program.comms.meetings;
        let done = seen.were_foreseen();
        meetings = seen.foresight();
        if done {
            return Ok(meetings);
        }
    }
    let text = format!(
        "communicators are split out of each other more than {MOST_SPLITS_OF_SPLITS} deep, by steps of some ranks"
    );
    Err(vec![Diagnostic::new(step.span, text).help("leave out `ranks`, so that all ranks split by one step")])
}

/// Unrolls a case with or without creating the communicator of all ranks. Also returns whether that choice was right: a rank may wait
/// for an error of that communicator although no step uses it, so that it is not created.
fn unroll_where(
    case: &Arc<Case>,
    limits: &Limits,
    world_is_made: bool,
    meetings: Meetings,
) -> Result<(Program, bool), Vec<Diagnostic>> {
    let n = case.world_size.value;
    if n == 0 || case.total_ranks() > limits.ranks {
        let text = format!("a world of {} ranks; 1 to {} can be run", case.total_ranks(), limits.ranks);
        return Err(vec![Diagnostic::new(case.world_size.span, text)]);
    }
    let mut unroll = Unroll::new(case, limits, world_is_made, meetings);
    for (index, def) in case.inputs.iter().enumerate() {
        unroll.name(&def.name.value, def.name.span, Some(index), Some(def.dtype));
    }
    unroll.comms();
    if unroll.diags.is_empty() {
        unroll.registration_point(RegistrationPoint::First);
        let end = unroll.steps(&case.steps, "", None);
        unroll.registration_point(RegistrationPoint::Last);
        unroll.diags.extend(end.err());
        let lives = |rank: usize| unroll.ended.at(rank).is_none();
        let left = unroll.program.comms.left_to_abort(lives);
        if let Some((at, text)) = left.filter(|_| unroll.diags.is_empty()) {
            unroll.diags.push(Diagnostic::new(at, text).help("abort its communicator in a later step"));
        }
    }
    if !unroll.diags.is_empty() {
        return Err(unroll.diags);
    }
    let was_right = !unroll.awaits_a_world_that_is_not_made();
    Ok((unroll.program, was_right))
}

impl<'a> Unroll<'a> {
    fn new(case: &'a Arc<Case>, limits: &'a Limits, world_is_made: bool, meetings: Meetings) -> Self {
        let n = case.world_size.value;
        let program = Program {
            case: case.clone(),
            n,
            names: Vec::new(),
            comms: Comms::new(case, meetings),
            steps: Vec::new(),
            tags: Vec::new(),
            streams: 1,
            real_streams: 1,
            stream_names: vec!["main".to_owned()],
            graphs: Vec::new(),
            null_stream: None,
            items: vec![Vec::new(); n],
            order: Vec::new(),
            comm_steps: false,
            exits: false,
            units: Vec::new(),
        };
        let stream_ids = HashMap::from([("main".to_owned(), 0)]);
        let has = |is: fn(&StepKind) -> bool| all_steps(&case.steps).any(|step| is(&step.kind));
        let registers = has(|kind| matches!(kind, StepKind::Register { .. } | StepKind::Deregister { .. }));
        Self {
            case,
            program,
            limits,
            by_name: HashMap::new(),
            stream_ids,
            diags: Vec::new(),
            calls: 0,
            rounds: 0,
            loops: Vec::new(),
            work: 0,
            bytes: 0,
            registers: registers || case.registers_buffers(),
            phase: Phase::Eager,
            group: None,
            signals: has(|kind| matches!(kind, StepKind::OneSided(_))),
            ended: deaths::Ended::new(n, world_is_made),
            only_communicators: false,
        }
    }

    /// The communicators that are made before the first step.
    fn comms(&mut self) {
        for def in &self.case.comms {
            let calls = self.program.comms.define(&Maker::entry(self.case, def));
            match calls.and_then(|calls| self.count(calls.len(), def.name.span).map(|()| calls)) {
                Ok(calls) => calls.into_iter().for_each(|(rank, call)| self.program.comms.prelude[rank].push(call)),
                Err(d) => self.diags.push(d),
            }
        }
    }

    fn name(&mut self, name: &str, span: Span, input: Option<usize>, dtype: Option<DType>) -> BufId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.program.names.len();
        self.by_name.insert(name.to_owned(), id);
        self.program.names.push(Name { name: name.to_owned(), span, input, dtype });
        id
    }

    fn steps(&mut self, steps: &'a [Step], prefix: &str, t: Option<u64>) -> Result<(), Diagnostic> {
        for (index, step) in steps.iter().enumerate() {
            let path = if prefix.is_empty() { format!("{}", index + 1) } else { format!("{prefix}.{}", index + 1) };
            self.repeated(step, path, t)?;
        }
        Ok(())
    }

    fn repeated(&mut self, step: &'a Step, path: String, outer: Option<u64>) -> Result<(), Diagnostic> {
        let Some(times) = &step.times else { return self.once(step, &StepPosition { path, t: outer }) };
        self.spend(step, self.program.n as u64)?;
        let mut by_rank = Vec::new();
        for member in self.members(step, outer)? {
            let v = times.whole(&member.names)?;
            let v = u64::try_from(v)
                .map_err(|_| Diagnostic::new(times.span, format!("`times` is {v} on rank {}", member.names.rank)))?;
            by_rank.push((member.world, v));
        }
        let rounds = by_rank.iter().map(|(_, own)| *own).max().unwrap_or(0);
        let fewer: HashMap<usize, u64> = by_rank.into_iter().filter(|(_, own)| *own < rounds).collect();
        let mut inside = all_steps(std::slice::from_ref(step));
        if !fewer.is_empty() && inside.any(|inner| matches!(inner.kind, StepKind::NewComm(_))) {
            let help = "a step that makes a communicator runs equally often everywhere; `ranks` says who runs it";
            return Err(Diagnostic::new(times.span, "`times` differs among the ranks").help(help));
        }
        let more = usize::try_from(rounds).unwrap_or(usize::MAX);
        self.rounds = self.rounds.saturating_add(more);
        self.count(more, times.span)?; // a loop whose body calls nothing ends too
        let before = (self.calls as u64, self.rounds as u64);
        self.loops.push(OpenLoop { rounds, before, each: None, fewer, t: 0 });
        for t in 0..rounds {
            if let Some(open) = self.loops.last_mut() {
                open.t = t;
            }
            self.once(step, &StepPosition { path: path.clone(), t: Some(t) })?;
            let now = (self.calls as u64, self.rounds as u64);
            if let Some(open) = self.loops.last_mut() {
                open.each.get_or_insert((now.0.saturating_sub(before.0), now.1.saturating_sub(before.1)));
            }
        }
        self.loops.pop();
        Ok(())
    }

    fn count(&mut self, more: usize, span: Span) -> Result<(), Diagnostic> {
        self.calls = self.calls.saturating_add(more);
        if self.calls <= self.limits.calls {
            return Ok(());
        }
        Err(cost::too_many_calls(span, self.call_count(), self.limits))
    }

    /// The number of calls and rounds: in an open loop, every round counts as many as the first.
    fn call_count(&self) -> CallCount {
        let known = self.loops.iter().find_map(|open| Some((open, open.each?)));
        match known {
            Some((open, each)) => {
                let of = |before: u64, each: u64| before.saturating_add(each.saturating_mul(open.rounds));
                let (all, rounds) = (of(open.before.0, each.0), of(open.before.1, each.1));
                CallCount { all: all.max(self.calls as u64), rounds, at_least: false }
            }
            None => CallCount { all: self.calls as u64, rounds: self.rounds as u64, at_least: true },
        }
    }

    /// Counts the operations of evaluating a step's numbers on this many ranks.
    fn spend(&mut self, step: &Step, ranks: u64) -> Result<(), Diagnostic> {
        let each = weigh::operations(step, self.case.axes.len(), self.program.n as u64);
        self.work = self.work.saturating_add(each.saturating_mul(ranks));
        if self.work <= self.limits.work {
            return Ok(());
        }
        Err(cost::too_much_work(
            "the numbers of this step and those before it",
            step.span,
            self.work,
            self.work,
            self.limits,
        ))
    }

    /// Counts the bytes of a map's expression for one more call.
    fn carry(&mut self, expr: &Expr, names: usize, span: Span) -> Result<(), Diagnostic> {
        self.bytes = self.bytes.saturating_add(cost::of_map(expr, names));
        if self.bytes <= self.limits.memory {
            return Ok(());
        }
        Err(cost::too_much_memory("expressions of all calls", span, self.bytes, self.bytes, self.limits))
    }

    /// The ranks that run a step, in order of the world.
    fn members(&mut self, step: &Step, t: Option<u64>) -> Result<Vec<Member<'a>>, Diagnostic> {
        let n = self.program.n;
        let local = matches!(
            step.op.kind,
            Kind::Host(_)
                | Kind::Group
                | Kind::Loop
                | Kind::Graph(_)
                | Kind::Comm(CommOp::Init | CommOp::Split | CommOp::Shrink)
        );
        let named: Named = match &step.comm {
            // Only steps that use a communicator need the one of the world.
            StepComm::Comm(name) if name.value == "world" && (local || matches!(step.op.kind, Kind::Map)) => {
                Named::new((0..n).map(|r| Some((0, r))).collect())
            }
            StepComm::Comm(name) => self.program.comms.by_name(name)?.clone(),
            StepComm::Groups(groups) => {
                let before = self.program.comms.list.len();
                let named = self.program.comms.by_groups(groups)?;
                let new = self.program.comms.list.get(before..).unwrap_or_default();
                // The tables of each rank about these communicators, in addition to the calls that create them.
                let more = new.iter().map(|c| c.members.len()).sum::<usize>() + if new.is_empty() { 0 } else { n / 8 };
                self.count(more, groups.span)?;
                named
            }
        };
        if let (true, Ranks::List(ranks)) = (step.own_ranks, &step.ranks) {
            let of = |rank: &Spanned<i128>| {
                usize::try_from(rank.value).ok().and_then(|r| named.of.get(r).copied().flatten())
            };
            let joins = |rank: &Spanned<i128>| match &step.kind {
                StepKind::NewComm(CommDef { creation: CommCreation::Grow { with, .. }, .. }) => {
                    usize::try_from(rank.value).is_ok_and(|r| among(&with.value, self.case, r).unwrap_or(false))
                }
                _ => false,
            };
            if let Some(rank) = ranks.iter().find(|rank| of(rank).is_none() && !joins(rank)) {
                let text = format!("rank {} is not in the communicator of this step", rank.value);
                return Err(Diagnostic::new(rank.span, text).help("`ranks` are world ranks"));
            }
            for rank in ranks {
                usize::try_from(rank.value).map_or(Ok(()), |world| self.check_listed(world, rank.span))?;
            }
        }
        let mut list = Vec::new();
        for world in 0..n {
            let Some((comm, rank)) = named.of[world] else { continue };
            let is_over = self.ended.at(world).is_some() || self.loops.iter().any(|open| open.is_over_on(world));
            if is_over || !among(&step.ranks, self.case, world)? {
                continue;
            }
            if let (Some(end), false) = (named.ended[world], local) {
                let text = format!("rank {rank} has ended this communicator before");
                return Err(Diagnostic::new(step.span, text).related(end, "ended here"));
            }
            let size = self.program.comms.list[comm].members.len();
            let names = Names {
                rank,
                n: size,
                world_rank: world,
                world_size: n,
                t,
                peer: None,
                i: None,
                axes: &self.case.axes,
            };
            list.push(Member { world, comm, names });
        }
        Ok(list)
    }

    fn begin(&mut self, step: &Step, position: &StepPosition) -> StepId {
        let id = self.program.steps.len() as StepId;
        let round = position.t.map_or(String::new(), |t| format!(", round {t}"));
        let label = format!("step {} ({}{round})", position.path, step.op.name);
        self.program.steps.push(PlanStep {
            span: step.span,
            label,
            error: Vec::new(),
            error_span: step.error.as_ref().map(|error| error.span),
        });
        self.program.units.push(id);
        id
    }

    fn push(&mut self, world: usize, step: StepId, span: Span, fails: bool, kind: ItemKind) {
        if self.ended.at(world).is_some() {
            return;
        }
        self.program.order.push((world, self.program.items[world].len()));
        self.program.items[world].push(Item { step, span, fails, phase: self.phase, kind });
    }

    fn stream(&mut self, name: &str) -> u32 {
        let next = self.stream_ids.len() as u32;
        let id = *self.stream_ids.entry(name.to_owned()).or_insert(next);
        if id == next {
            self.program.stream_names.push(name.to_owned());
        }
        self.program.streams = self.program.streams.max(self.stream_ids.len() as u32);
        if name == NULL_STREAM {
            self.program.null_stream = Some(id);
        }
        id
    }

    fn once(&mut self, step: &'a Step, position: &StepPosition) -> Result<(), Diagnostic> {
        self.spend(step, self.program.n as u64)?;
        if self.program.steps.len() >= self.limits.calls {
            // Steps without calls are limited too.
            let all = self.program.steps.len() as u64 + 1;
            return Err(cost::too_many_calls(step.span, CallCount { all, rounds: 0, at_least: true }, self.limits));
        }
        self.check_in_group(step)?;
        let members = self.members(step, position.t)?;
        let before = self.registration_step(step);
        let id = self.begin(step, position);
        self.phase = match &step.graph {
            Some(graph) => Phase::Captured(self.graph(&graph.value)),
            None => Phase::Eager,
        };
        self.errors(step, id, &members)?;
        if self.only_communicators {
            return match &step.kind {
                StepKind::Loop(steps) | StepKind::Group(steps) => self.steps(steps, &position.path, position.t),
                StepKind::NewComm(new) => self.new_comm(step, new, id, position),
                _ => Ok(()),
            };
        }
        self.check_left_in_progress(step, id)?;
        self.check_standing(step, id, &members)?;
        let tag = step.name.as_ref().map(|name| self.tag(&name.value));
        let stream = self.stream(&step.stream);
        if stream >= MAX_STREAMS {
            let text = format!("the program uses more than {MAX_STREAMS} streams");
            return Err(Diagnostic::new(step.span, text).help("streams can be used again"));
        }
        if let Some(tag) = tag {
            let speaks = step.op.kind.transfers() || matches!(step.kind, StepKind::OneSided(_));
            for member in &members {
                let comm = speaks.then_some(member.comm as u32);
                self.push(member.world, id, step.span, false, ItemKind::Call(CallKind::Begin { tag, comm }));
            }
        }
        if !step.after.is_empty() {
            let on: Vec<u32> = step.after.iter().map(|s| self.stream(&s.value)).collect();
            for member in &members {
                self.push(
                    member.world,
                    id,
                    step.span,
                    false,
                    ItemKind::Call(CallKind::After { stream, on: on.clone() }),
                );
            }
        }
        match &step.kind {
            StepKind::Loop(steps) => self.steps(steps, &position.path, position.t)?,
            StepKind::Group(steps) => self.group(step, steps, id, position, &members)?,
            StepKind::NewComm(new) => self.new_comm(step, new, id, position)?,
            StepKind::Comm(op) => self.comm_call(step, *op, (before, id), &members)?,
            StepKind::Exit { status } if self.outlives_exits() => self.deaths(step, *status, id, &members)?,
            _ => {
                self.count(members.len(), step.span)?;
                for member in &members {
                    self.rank_items(step, id, member, stream)?;
                }
                if matches!(step.kind, StepKind::Register { .. }) {
                    self.first_signals();
                }
            }
        }
        if matches!(step.kind, StepKind::Loop(_) | StepKind::Group(_)) {
            self.phase = Phase::Eager;
        }
        self.check_blocking_in_group(step, id, &members)?;
        self.note_in_progress(step, id, &members)?;
        self.note_failures(step, id, &members);
        if let Some(tag) = tag {
            let host = match &step.op.kind {
                Kind::Host(_) | Kind::Comm(_) | Kind::Registration(_) | Kind::Loop | Kind::Group => true,
                kind => matches!(kind, Kind::Composite(Composite::Barrier)),
            };
            for member in &members {
                let stream = (!host).then_some(stream);
                self.push(member.world, id, step.span, false, ItemKind::Call(CallKind::End { tag, stream }));
            }
        }
        self.phase = Phase::Eager;
        Ok(())
    }

    fn tag(&mut self, name: &str) -> u32 {
        let found = self.program.tags.iter().position(|t| t == name);
        found.unwrap_or_else(|| {
            self.program.tags.push(name.to_owned());
            self.program.tags.len() - 1
        }) as u32
    }

    fn errors(&mut self, step: &Step, id: StepId, members: &[Member<'a>]) -> Result<(), Diagnostic> {
        let Some(error) = &step.error else { return Ok(()) };
        let old = members.iter().map(|member| (member.world, member.names.rank, member.names.n));
        let mut callers: Vec<(usize, usize, usize)> = old.collect();
        if let StepKind::NewComm(CommDef { creation: CommCreation::Grow { comm, with }, .. }) = &step.kind {
            let of = self.program.comms.of_name(&comm.value);
            let old = of.iter().flatten().next().map_or(0, |(comm, _)| self.program.comms.list[*comm].members.len());
            let joining = self.program.comms.joining(self.case, with)?;
            let n = old + joining.len();
            callers.iter_mut().for_each(|(_, _, ranks)| *ranks = n);
            for (rank, world) in joining.into_iter().enumerate() {
                if among(&step.ranks, self.case, world)? {
                    callers.push((world, old + rank, n));
                }
            }
        }
        for (world, rank, n) in callers {
            let code = match &error.value {
                StepError::All(code) => *code,
                StepError::PerRank(list) if list.len() != n => {
                    let text = format!("`error` has {} entries, but there are {} ranks", list.len(), n);
                    return Err(Diagnostic::new(error.span, text));
                }
                StepError::PerRank(list) => list[rank],
            };
            self.program.steps[id as usize].error.push((world, code));
        }
        self.check_errors_of_one_thread(step, id)
    }

    /// True if the step says that this rank's call fails. A call that is left in progress does not fail.
    fn fails(&self, id: StepId, world: usize) -> bool {
        let errors = &self.program.steps[id as usize].error;
        errors.iter().any(|(rank, code)| {
            *rank == world && !matches!(*code, Some(ncclResult_t::Success | ncclResult_t::InProgress))
        })
    }

    /// True if the step says that this rank's call is left in progress.
    fn leaves_in_progress(&self, id: StepId, world: usize) -> bool {
        self.program.steps[id as usize].error.contains(&(world, Some(ncclResult_t::InProgress)))
    }
}
