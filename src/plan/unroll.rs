//! Steps to every rank's items: loops unrolled, communicators found, numbers evaluated. Counts are still open.
use super::comms::{Comms, Named};
use super::cost;
use super::eval::{Names, Ranked, among};
use super::item::{Item, ItemKind, Name, Program};
use super::types::{BufId, CommId, PlanStep, StepId};
use super::{Limits, order};
use crate::job::What;
use crate::num::DType;
use crate::ops::{CommOp, Composite, Kind};
use crate::scenario::{Case, Diagnostic, Expr, Ranks, Span, Spanned, Step, StepComm, StepError};
use nccl_sys::ncclResult_t;
use std::collections::HashMap;
use std::sync::Arc;

mod rank_items;
mod weigh;

/// Streams of a program, `main` among them: each rank has all of them, and an order is kept between every two.
const MOST_STREAMS: u32 = 256;
/// The name of CUDA's null stream; all other names are of streams that are made.
const NULL_STREAM: &str = "default";

struct Unroll<'a> {
    case: &'a Case,
    p: Program,
    limits: &'a Limits,
    by_name: HashMap<String, BufId>,
    stream_ids: HashMap<String, u32>,
    diags: Vec<Diagnostic>,
    calls: usize,
    /// Operations of the numbers that were evaluated.
    work: u64,
    /// Bytes of the maps' expressions, which every call carries with it.
    bytes: u64,
    /// Expressions of maps, by their step.
    exprs: HashMap<*const Step, Arc<Expr>>,
}

/// Where in the program a step stands: `2.1`, and the round of its `times`.
#[derive(Clone)]
struct At {
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

/// An `Err` ends the unrolling (a limit, or a fault that makes the rest meaningless).
type Stop = Result<(), Diagnostic>;

/// Unrolls a case.
pub fn unroll(case: &Arc<Case>, limits: &Limits) -> Result<Program, Vec<Diagnostic>> {
    let n = case.world_size.value;
    if n == 0 || case.total_ranks() > limits.ranks {
        let text = format!("a world of {} ranks; 1 to {} can be run", case.total_ranks(), limits.ranks);
        return Err(vec![Diagnostic::new(case.world_size.span, text)]);
    }
    let p = Program {
        case: case.clone(),
        n,
        names: Vec::new(),
        comms: Comms::new(case),
        steps: Vec::new(),
        tags: Vec::new(),
        streams: 1,
        null_stream: None,
        items: vec![Vec::new(); n],
        order: Vec::new(),
        comm_steps: false,
        exits: false,
        units: Vec::new(),
    };
    let stream_ids = HashMap::from([("main".to_owned(), 0)]);
    let mut u = Unroll {
        case,
        p,
        limits,
        by_name: HashMap::new(),
        stream_ids,
        diags: Vec::new(),
        calls: 0,
        work: 0,
        bytes: 0,
        exprs: HashMap::new(),
    };
    for (index, def) in case.inputs.iter().enumerate() {
        u.name(&def.name.value, def.name.span, Some(index), Some(def.dtype));
    }
    for def in &case.comms {
        match u.p.comms.define(case, &def.name, &def.creation, &def.config, None) {
            Ok(calls) => {
                if let Err(d) = u.count(calls.len(), def.name.span) {
                    return Err(vec![d]);
                }
                calls.into_iter().for_each(|(rank, call)| u.p.comms.prelude[rank].push(call));
            }
            Err(d) => u.diags.push(d),
        }
    }
    if u.diags.is_empty() {
        let end = u.steps(&case.steps, "", None);
        u.diags.extend(end.err());
    }
    if u.diags.is_empty() { Ok(u.p) } else { Err(u.diags) }
}

impl<'a> Unroll<'a> {
    fn name(&mut self, name: &str, span: Span, input: Option<usize>, dtype: Option<DType>) -> BufId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.p.names.len();
        self.by_name.insert(name.to_owned(), id);
        self.p.names.push(Name { name: name.to_owned(), span, input, dtype });
        id
    }

    fn steps(&mut self, steps: &'a [Step], prefix: &str, t: Option<u64>) -> Stop {
        for (index, step) in steps.iter().enumerate() {
            let path = if prefix.is_empty() { format!("{}", index + 1) } else { format!("{prefix}.{}", index + 1) };
            self.repeated(step, path, t)?;
        }
        Ok(())
    }

    fn repeated(&mut self, step: &'a Step, path: String, outer: Option<u64>) -> Stop {
        let Some(times) = &step.times else { return self.once(step, &At { path, t: outer }) };
        let mut rounds = None;
        self.spend(step, self.p.n as u64)?;
        for m in self.members(step, outer)? {
            let v = times.whole(&m.names)?;
            let v = u64::try_from(v)
                .map_err(|_| Diagnostic::new(times.span, format!("`times` is {v} on rank {}", m.names.rank)))?;
            if rounds.replace(v).is_some_and(|before| before != v) {
                let help = "a step runs equally often everywhere; `ranks` says who runs it";
                return Err(Diagnostic::new(times.span, "`times` differs among the ranks").help(help));
            }
        }
        let rounds = rounds.unwrap_or(0);
        self.count(usize::try_from(rounds).unwrap_or(usize::MAX), times.span)?; // a loop whose body calls nothing ends too
        for t in 0..rounds {
            self.once(step, &At { path: path.clone(), t: Some(t) })?;
        }
        Ok(())
    }

    fn count(&mut self, more: usize, span: Span) -> Stop {
        self.calls = self.calls.saturating_add(more);
        if self.calls <= self.limits.calls {
            return Ok(());
        }
        let text = format!("the program makes more than {} calls", self.limits.calls);
        Err(Diagnostic::new(span, text).help("fewer rounds, or fewer ranks"))
    }

    /// Counts the operations of evaluating a step's numbers on this many ranks.
    fn spend(&mut self, step: &Step, ranks: u64) -> Stop {
        let each = weigh::operations(step, self.case.axes.len(), self.p.n as u64);
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
    fn carry(&mut self, expr: &Expr, names: usize, span: Span) -> Stop {
        self.bytes = self.bytes.saturating_add(cost::of_map(expr, names));
        if self.bytes <= self.limits.memory {
            return Ok(());
        }
        Err(cost::too_much_memory("expressions of all calls", span, self.bytes, self.bytes, self.limits))
    }

    /// The ranks that run a step, in order of the world.
    fn members(&mut self, step: &Step, t: Option<u64>) -> Result<Vec<Member<'a>>, Diagnostic> {
        let n = self.p.n;
        let local =
            matches!(step.op.kind, Kind::Host(_) | Kind::Group | Kind::Loop | Kind::Comm(CommOp::Init | CommOp::Split));
        let named: Named = match &step.comm {
            // Only what speaks to a communicator makes the world's necessary.
            StepComm::Comm(name) if name.value == "world" && (local || matches!(step.op.kind, Kind::Map)) => {
                Named { of: (0..n).map(|r| Some((0, r))).collect(), ended: vec![None; n] }
            }
            StepComm::Comm(name) => self.p.comms.by_name(name)?.clone(),
            StepComm::Groups(groups) => {
                let before = self.p.comms.list.len();
                let named = self.p.comms.by_groups(groups)?;
                let new = self.p.comms.list.get(before..).unwrap_or_default();
                // The tables of each rank about these communicators, besides the calls that make them.
                let more = new.iter().map(|c| c.members.len()).sum::<usize>() + if new.is_empty() { 0 } else { n / 8 };
                self.count(more, groups.span)?;
                named
            }
        };
        if let (true, Ranks::List(ranks)) = (step.own_ranks, &step.ranks) {
            let of = |rank: &Spanned<i128>| {
                usize::try_from(rank.value).ok().and_then(|r| named.of.get(r).copied().flatten())
            };
            if let Some(rank) = ranks.iter().find(|rank| of(rank).is_none()) {
                let text = format!("rank {} is not in the communicator of this step", rank.value);
                return Err(Diagnostic::new(rank.span, text).help("`ranks` are world ranks"));
            }
        }
        let mut list = Vec::new();
        for world in 0..n {
            let Some((comm, rank)) = named.of[world] else { continue };
            if !among(&step.ranks, self.case, world)? {
                continue;
            }
            if let (Some(end), false) = (named.ended[world], local) {
                let text = format!("rank {rank} has ended this communicator before");
                return Err(Diagnostic::new(step.span, text).related(end, "ended here"));
            }
            let size = self.p.comms.list[comm].members.len();
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

    fn begin(&mut self, step: &Step, at: &At) -> StepId {
        let id = self.p.steps.len() as StepId;
        let round = at.t.map_or(String::new(), |t| format!(", round {t}"));
        let label = format!("step {} ({}{round})", at.path, step.op.name);
        self.p.steps.push(PlanStep { span: step.span, label, error: Vec::new() });
        self.p.units.push(id);
        id
    }

    fn push(&mut self, world: usize, step: StepId, span: Span, fails: bool, kind: ItemKind) {
        self.p.order.push((world, self.p.items[world].len()));
        self.p.items[world].push(Item { step, span, fails, kind });
    }

    fn stream(&mut self, name: &str) -> u32 {
        let next = self.stream_ids.len() as u32;
        let id = *self.stream_ids.entry(name.to_owned()).or_insert(next);
        self.p.streams = self.p.streams.max(self.stream_ids.len() as u32);
        if name == NULL_STREAM {
            self.p.null_stream = Some(id);
        }
        id
    }

    fn once(&mut self, step: &'a Step, at: &At) -> Stop {
        if let Some(why) = step.op.missing {
            return Err(Diagnostic::new(step.span, format!("`{}` is {why}", step.op.name)));
        }
        self.spend(step, self.p.n as u64)?;
        if self.p.steps.len() >= self.limits.calls {
            return self.count(usize::MAX, step.span); // steps without calls are limited too
        }
        let members = self.members(step, at.t)?;
        let id = self.begin(step, at);
        self.errors(step, id, &members)?;
        let tag = step.name.as_ref().map(|name| self.tag(&name.value));
        let stream = self.stream(&step.stream);
        if stream >= MOST_STREAMS {
            let text = format!("the program uses more than {MOST_STREAMS} streams");
            return Err(Diagnostic::new(step.span, text).help("streams can be used again"));
        }
        if let Some(tag) = tag {
            let speaks = !matches!(step.op.kind, Kind::Map | Kind::Host(_) | Kind::Loop | Kind::Group | Kind::Comm(_));
            for m in &members {
                let comm = speaks.then_some(m.comm as u32);
                self.push(m.world, id, step.span, false, ItemKind::Call(What::Begin { tag, comm }));
            }
        }
        if !step.after.is_empty() {
            let on: Vec<u32> = step.after.iter().map(|s| self.stream(&s.value)).collect();
            for m in &members {
                self.push(m.world, id, step.span, false, ItemKind::Call(What::After { stream, on: on.clone() }));
            }
        }
        match &step.op.kind {
            Kind::Loop => self.steps(&step.steps, &at.path, at.t)?,
            Kind::Group => self.group(step, id, at, &members)?,
            Kind::Comm(op) => self.comm_step(step, *op, id, at, &members)?,
            _ => {
                self.count(members.len(), step.span)?;
                for m in &members {
                    self.rank_items(step, id, m, stream)?;
                }
            }
        }
        if let Some(tag) = tag {
            let host = matches!(step.op.kind, Kind::Host(_) | Kind::Comm(_) | Kind::Loop | Kind::Group)
                || matches!(step.op.kind, Kind::Composite(Composite::Barrier));
            for m in &members {
                let stream = (!host).then_some(stream);
                self.push(m.world, id, step.span, false, ItemKind::Call(What::End { tag, stream }));
            }
        }
        Ok(())
    }

    fn tag(&mut self, name: &str) -> u32 {
        let found = self.p.tags.iter().position(|t| t == name);
        found.unwrap_or_else(|| {
            self.p.tags.push(name.to_owned());
            self.p.tags.len() - 1
        }) as u32
    }

    fn errors(&mut self, step: &Step, id: StepId, members: &[Member<'a>]) -> Stop {
        let Some(error) = &step.error else { return Ok(()) };
        for m in members {
            let code = match &error.value {
                StepError::All(code) => *code,
                StepError::PerRank(list) if list.len() != m.names.n => {
                    let text = format!("`error` has {} entries, but there are {} ranks", list.len(), m.names.n);
                    return Err(Diagnostic::new(error.span, text));
                }
                StepError::PerRank(list) => list[m.names.rank],
            };
            self.p.steps[id as usize].error.push((m.world, code));
        }
        Ok(())
    }

    /// True if the step says that this rank's call is to fail.
    fn fails(&self, id: StepId, world: usize) -> bool {
        let errors = &self.p.steps[id as usize].error;
        errors.iter().any(|(rank, code)| *rank == world && *code != Some(ncclResult_t::Success))
    }

    fn group(&mut self, step: &'a Step, id: StepId, at: &At, members: &[Member<'a>]) -> Stop {
        let starts: Vec<usize> = self.p.items.iter().map(Vec::len).collect();
        let mark = self.p.order.len();
        self.steps(&step.steps, &at.path, at.t)?;
        for (world, &from) in starts.iter().enumerate() {
            let calls = |i: &Item| {
                !matches!(
                    i.kind,
                    ItemKind::Call(What::Begin { .. } | What::End { .. } | What::After { .. })
                        | ItemKind::Declare { .. }
                )
            };
            // An empty group is called by every rank that the step is for, any other group by the ranks that have a call in it.
            let opens = step.steps.is_empty() && members.iter().any(|m| m.world == world);
            if !opens && !self.p.items[world][from..].iter().any(calls) {
                continue;
            }
            // A call that fails makes its whole group fail, so nothing of the group means anything to memory.
            let fails = self.fails(id, world) || self.p.items[world][from..].iter().any(|i| i.fails);
            for item in &mut self.p.items[world][from..] {
                item.fails |= fails;
            }
            let item = |what| Item { step: id, span: step.span, fails, kind: ItemKind::Call(what) };
            self.p.items[world].insert(from, item(What::GroupStart));
            self.p.items[world].push(item(What::GroupEnd));
            self.count(2, step.span)?;
        }
        self.p.units[id as usize..].fill(id);
        order::restore(&mut self.p.order, mark, &self.p.items, &starts);
        Ok(())
    }

    fn comm_step(&mut self, step: &'a Step, op: CommOp, id: StepId, at: &At, members: &[Member<'a>]) -> Stop {
        self.p.comm_steps = true;
        if let CommOp::Init | CommOp::Split = op {
            let Some(def) = &step.new else {
                return Err(Diagnostic::new(
                    step.span,
                    format!("`{}` needs `new`, the communicator's name", step.op.name),
                ));
            };
            let calls = self.p.comms.define(self.case, &def.name, &def.creation, &def.config, at.t)?;
            self.count(calls.len(), step.span)?;
            for (world, what) in calls {
                let fails = self.fails(id, world);
                if among(&step.ranks, self.case, world)? {
                    self.push(world, id, step.span, fails, ItemKind::Call(what));
                }
            }
            return Ok(());
        }
        self.count(members.len(), step.span)?;
        for m in members {
            let comm = m.comm as u32;
            let what = match op {
                CommOp::Finalize => What::Finalize { comm },
                CommOp::Destroy => What::Destroy { comm },
                _ => What::Abort { comm },
            };
            let fails = self.fails(id, m.world);
            self.push(m.world, id, step.span, fails, ItemKind::Call(what));
            if let (StepComm::Comm(name), false) = (&step.comm, fails || op == CommOp::Finalize) {
                self.p.comms.end(&name.value, m.world, step.span);
            }
        }
        Ok(())
    }
}
