//! Steps to every rank's items: loops unrolled, communicators found, numbers evaluated. Counts are still open.
use super::comms::{Comms, Named};
use super::eval::{Names, Ranked, among, evaluate};
use super::types::{BufId, CommId, PlanStep, StepId};
use super::{Limits, order};
use crate::num::DType;
use crate::ops::{Collective, CommOp, Composite, Host, Kind};
use crate::scenario::expr::{Mode, Value};
use crate::scenario::{
    BufRef, Case, Counts, Diagnostic, Expected, Expr, Num, Reduce, Sp, Span, Step, StepError, Where,
};
use crate::worker::job::What;
use nccl_sys::ncclResult_t;
use std::collections::HashMap;
use std::sync::Arc;

/// A buffer name before its counts are known.
#[derive(Clone, Debug)]
pub struct Name {
    pub name: String,
    pub span: Span,
    pub input: Option<usize>,
    pub dtype: Option<DType>,
}

/// A buffer or part of it on one rank, bounds evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Sel {
    pub buf: BufId,
    pub start: u64,
    pub end: Option<u64>,
    pub sliced: bool,
    pub span: Span,
}

/// A reduction, scalar not yet rounded.
#[derive(Clone, Copy, Debug)]
pub enum Red {
    Builtin(nccl_sys::ncclRedOp_t),
    PreMulSum { scalar: Value, device: bool },
}

/// One thing that a rank does.
#[derive(Clone, Debug)]
pub struct Item {
    pub step: StepId,
    pub span: Span,
    /// The call is to return an error (or may): it means nothing to memory.
    pub fails: bool,
    pub kind: ItemKind,
}

/// What it is.
#[derive(Clone, Debug)]
pub enum ItemKind {
    Collective(Box<Coll>),
    AllGatherV {
        comm: CommId,
        me: usize,
        input: Sel,
        output: Sel,
        stream: u32,
    },
    Send {
        comm: CommId,
        me: usize,
        peer: i128,
        input: Sel,
        nulls: bool,
        stream: u32,
    },
    Recv {
        comm: CommId,
        me: usize,
        peer: i128,
        output: Sel,
        count: Option<u64>,
        dtype: Option<DType>,
        nulls: bool,
        stream: u32,
    },
    /// Says how long a buffer is (all_to_all_v's output).
    Declare {
        output: Sel,
        count: u64,
        like: BufId,
    },
    Map(Box<MapItem>),
    Call(What),
}

/// A collective on one rank.
#[derive(Clone, Debug)]
pub struct Coll {
    pub op: &'static Collective,
    pub comm: CommId,
    pub me: usize,
    pub input: Option<Sel>,
    pub output: Option<Sel>,
    pub red: Option<Red>,
    pub root: i128,
    pub root_span: Span,
    pub in_place: bool,
    pub nulls: bool,
    pub stream: u32,
}

/// A map on one rank.
#[derive(Clone, Debug)]
pub struct MapItem {
    pub expr: Arc<Expr>,
    pub names: Arc<Vec<(String, Value)>>,
    pub reads: Vec<BufId>,
    pub output: Sel,
    pub count: Option<u64>,
    pub dtype: Option<DType>,
    pub stream: u32,
}

/// The unrolled program.
#[derive(Debug)]
pub struct Program {
    pub case: Arc<Case>,
    pub n: usize,
    pub names: Vec<Name>,
    pub comms: Comms,
    pub steps: Vec<PlanStep>,
    pub tags: Vec<String>,
    pub streams: u32,
    pub items: Vec<Vec<Item>>,
    /// (rank, index) of every item in file order.
    pub order: Vec<(usize, usize)>,
    pub comm_steps: bool,
    pub exits: bool,
    /// By step: the group it is part of, or itself. One thread that drives all ranks does a unit at a time.
    pub units: Vec<StepId>,
}

impl Program {
    /// True if the file says that something may go wrong: misuse then runs, watched, instead of being refused.
    pub fn lenient(&self) -> bool {
        lenient(&self.case)
    }
}

/// See [`Program::lenient`].
pub fn lenient(case: &Case) -> bool {
    let bad = |e: &Expected| matches!(e, Expected::Error(_) | Expected::Hang | Expected::Crash);
    case.outcome.as_ref().is_some_and(|list| list.v.iter().any(bad))
}

struct Unroll<'a> {
    case: &'a Case,
    p: Program,
    limits: &'a Limits,
    by_name: HashMap<String, BufId>,
    stream_ids: HashMap<String, u32>,
    diags: Vec<Diagnostic>,
    calls: usize,
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
    let n = case.world_size.v;
    if n == 0 || n > limits.ranks {
        let text = format!("a world of {n} ranks; 1 to {} can be run", limits.ranks);
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
        items: vec![Vec::new(); n],
        order: Vec::new(),
        comm_steps: false,
        exits: false,
        units: Vec::new(),
    };
    let stream_ids = HashMap::from([("main".to_owned(), 0)]);
    let mut u = Unroll { case, p, limits, by_name: HashMap::new(), stream_ids, diags: Vec::new(), calls: 0 };
    for (index, def) in case.inputs.iter().enumerate() {
        u.name(&def.name.v, def.name.span, Some(index), Some(def.dtype));
    }
    for def in &case.comms {
        match u.p.comms.define(case, &def.name, &def.how, &def.config, None) {
            Ok(calls) => calls.into_iter().for_each(|(rank, call)| u.p.comms.prelude[rank].push(call)),
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
        for m in self.members(step, outer)? {
            let v = times.whole(&m.names)?;
            let v = u64::try_from(v)
                .map_err(|_| Diagnostic::new(times.span, format!("`times` is {v} on rank {}", m.names.rank)))?;
            if rounds.replace(v).is_some_and(|before| before != v) {
                let help = "a step runs equally often everywhere; `ranks` says who runs it";
                return Err(Diagnostic::new(times.span, "`times` differs among the ranks").help(help));
            }
        }
        for t in 0..rounds.unwrap_or(0) {
            self.count(1, times.span)?; // a loop whose body makes no call ends too
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

    /// The ranks that run a step, in order of the world.
    fn members(&mut self, step: &Step, t: Option<u64>) -> Result<Vec<Member<'a>>, Diagnostic> {
        let n = self.p.n;
        let local =
            matches!(step.op.kind, Kind::Host(_) | Kind::Group | Kind::Loop | Kind::Comm(CommOp::Init | CommOp::Split));
        let named: Named = match &step.place {
            // Only what speaks to a communicator makes the world's necessary.
            Where::Comm(name) if name.v == "world" && (local || matches!(step.op.kind, Kind::Map)) => {
                Named { of: (0..n).map(|r| Some((0, r))).collect(), ended: vec![None; n] }
            }
            Where::Comm(name) => self.p.comms.by_name(name)?.clone(),
            Where::Groups(groups) => self.p.comms.by_groups(groups)?,
        };
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
        id
    }

    fn once(&mut self, step: &'a Step, at: &At) -> Stop {
        if let Some(why) = step.op.missing {
            return Err(Diagnostic::new(step.span, format!("`{}` is {why}", step.op.name)));
        }
        let members = self.members(step, at.t)?;
        let id = self.begin(step, at);
        self.errors(step, id, &members)?;
        let tag = step.name.as_ref().map(|name| self.tag(&name.v));
        let stream = self.stream(&step.stream);
        if let Some(tag) = tag {
            let speaks = !matches!(step.op.kind, Kind::Map | Kind::Host(_) | Kind::Loop | Kind::Group | Kind::Comm(_));
            for m in &members {
                let comm = speaks.then_some(m.comm as u32);
                self.push(m.world, id, step.span, false, ItemKind::Call(What::Begin { tag, comm }));
            }
        }
        if !step.after.is_empty() {
            let on: Vec<u32> = step.after.iter().map(|s| self.stream(&s.v)).collect();
            for m in &members {
                self.push(m.world, id, step.span, false, ItemKind::Call(What::After { stream, on: on.clone() }));
            }
        }
        match &step.op.kind {
            Kind::Loop => self.steps(&step.steps, &at.path, at.t)?,
            Kind::Group => self.group(step, id, at)?,
            Kind::Comm(op) => self.comm_step(step, *op, id, at, &members)?,
            _ => {
                self.count(members.len(), step.span)?;
                for m in &members {
                    self.one(step, id, m, stream)?;
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
            let code = match &error.v {
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

    fn group(&mut self, step: &'a Step, id: StepId, at: &At) -> Stop {
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
            if !self.p.items[world][from..].iter().any(calls) {
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
            let calls = self.p.comms.define(self.case, &def.name, &def.how, &def.config, at.t)?;
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
            if let (Where::Comm(name), false) = (&step.place, fails || op == CommOp::Finalize) {
                self.p.comms.end(&name.v, m.world, step.span);
            }
        }
        Ok(())
    }

    /// One rank's items of one step.
    fn one(&mut self, step: &'a Step, id: StepId, m: &Member<'a>, stream: u32) -> Stop {
        let fails = self.fails(id, m.world);
        let nulls = step.null_pointers;
        let (comm, me) = (m.comm, m.names.rank);
        let kind = match &step.op.kind {
            Kind::Collective(op) => {
                let input = step.input.as_ref().map(|r| self.sel(r, m)).transpose()?;
                let in_place = step.in_place.as_ref().map_or(Ok(false), |v| Ok(v.whole(&m.names)? != 0))?;
                let mut output = step.output.as_ref().map(|r| self.sel(r, m)).transpose()?;
                if output.is_none() && in_place {
                    output = input;
                }
                let root = step.root.as_ref().map_or(Ok(0), |v| v.whole(&m.names))?;
                let root_span = step.root.as_ref().map_or(step.span, |v| v.span);
                let red = op.reduces.then(|| self.red(step.reduce.as_ref(), m)).transpose()?;
                ItemKind::Collective(Box::new(Coll {
                    op,
                    comm,
                    me,
                    input,
                    output,
                    red,
                    root,
                    root_span,
                    in_place,
                    nulls,
                    stream,
                }))
            }
            Kind::Composite(Composite::AllGatherV) => {
                let (input, output) = (self.required(step, "in", m)?, self.required(step, "out", m)?);
                ItemKind::AllGatherV { comm, me, input, output, stream }
            }
            Kind::Composite(Composite::AllToAllV) => return self.all_to_all_v(step, id, m, stream, fails),
            Kind::Composite(Composite::Barrier) => return self.barrier(step, id, m, stream, fails),
            Kind::Send => {
                let peer = self.peer(step, step.peer.as_ref(), m)?;
                ItemKind::Send { comm, me, peer, input: self.required(step, "in", m)?, nulls, stream }
            }
            Kind::Recv => {
                let peer = self.peer(step, step.peer.as_ref(), m)?;
                let count = self.elements(step, m)?;
                let output = self.required(step, "out", m)?;
                ItemKind::Recv { comm, me, peer, output, count, dtype: step.dtype.as_ref().map(|d| d.v), nulls, stream }
            }
            Kind::SendRecv => {
                let to = self.peer(step, step.to.as_ref().or(step.peer.as_ref()), m)?;
                let from = self.peer(step, step.from.as_ref().or(step.peer.as_ref()), m)?;
                let (input, output) = (self.required(step, "in", m)?, self.required(step, "out", m)?);
                let mut push = |kind| self.push(m.world, id, step.span, fails, kind);
                push(ItemKind::Call(What::GroupStart));
                push(ItemKind::Send { comm, me, peer: to, input, nulls, stream });
                push(ItemKind::Recv { comm, me, peer: from, output, count: None, dtype: None, nulls, stream });
                push(ItemKind::Call(What::GroupEnd));
                return Ok(());
            }
            Kind::Map => {
                let Some(expr) = &step.expr else { return Err(Diagnostic::new(step.span, "`map` needs `expr`")) };
                let mut reads = Vec::new();
                for name in super::eval::named(&expr.v) {
                    if let Some(id) = self.by_name.get(&name) {
                        reads.push(*id);
                    }
                }
                let output = self.required(step, "out", m)?;
                let count = self.elements(step, m)?;
                let names = Arc::new(m.names.list());
                let dtype = step.dtype.as_ref().map(|d| d.v);
                ItemKind::Map(Box::new(MapItem {
                    expr: Arc::new(expr.v.clone()),
                    names,
                    reads,
                    output,
                    count,
                    dtype,
                    stream,
                }))
            }
            Kind::Host(Host::Wait) => {
                let on = step.wait_stream.as_ref().map(|s| self.stream(&s.v));
                ItemKind::Call(What::Wait { stream: on })
            }
            Kind::Host(Host::Sleep) => {
                let Some(seconds) = &step.seconds else {
                    return Err(Diagnostic::new(step.span, "`sleep` needs `seconds`"));
                };
                let v = match seconds.value(&m.names, Mode::Float)? {
                    Value::Int(v) => v as f64,
                    Value::Float(v) => v,
                };
                if !(0.0..=3600.0).contains(&v) {
                    return Err(Diagnostic::new(
                        seconds.span,
                        format!("rank {me} is to sleep {v} seconds; 0 to 3600 are possible"),
                    ));
                }
                ItemKind::Call(What::Sleep { seconds: v })
            }
            Kind::Host(Host::Exit) => {
                self.p.exits = true;
                ItemKind::Call(What::Exit)
            }
            Kind::Group | Kind::Loop | Kind::Comm(_) | Kind::Later => return Ok(()),
        };
        self.push(m.world, id, step.span, fails, kind);
        Ok(())
    }

    fn required(&mut self, step: &'a Step, key: &str, m: &Member<'a>) -> Result<Sel, Diagnostic> {
        let found = if key == "in" { &step.input } else { &step.output };
        match found {
            Some(r) => self.sel(r, m),
            None => Err(Diagnostic::new(step.span, format!("`{}` needs `{key}`", step.op.name))),
        }
    }

    fn sel(&mut self, r: &BufRef, m: &Member<'a>) -> Result<Sel, Diagnostic> {
        let buf = self.name(&r.name, r.span, None, None);
        let Some((from, to)) = &r.slice else {
            return Ok(Sel { buf, start: 0, end: None, sliced: false, span: r.span });
        };
        let bound = |e: &Option<Expr>| match e {
            None => Ok(None),
            Some(e) => {
                let v = match evaluate(e, r.span, &m.names, Mode::Whole)? {
                    Value::Int(v) => v,
                    Value::Float(v) => v.trunc() as i128,
                };
                u64::try_from(v).map(Some).map_err(|_| {
                    Diagnostic::new(
                        r.span,
                        format!("`{}` is {v} on rank {}; slices count from 0", e.text, m.names.rank),
                    )
                })
            }
        };
        let (start, end) = (bound(from)?.unwrap_or(0), bound(to)?);
        if end.is_some_and(|end| end < start) {
            let text =
                format!("the slice ends before it starts on rank {}: [{start}:{}]", m.names.rank, end.unwrap_or(0));
            return Err(Diagnostic::new(r.span, text));
        }
        Ok(Sel { buf, start, end, sliced: true, span: r.span })
    }

    fn red(&self, reduce: Option<&Sp<Reduce>>, m: &Member<'a>) -> Result<Red, Diagnostic> {
        Ok(match reduce.map(|r| &r.v) {
            None => Red::Builtin(nccl_sys::ncclRedOp_t::Sum),
            Some(Reduce::Builtin(op)) => Red::Builtin(*op),
            Some(Reduce::PreMulSum { scalar, device }) => {
                Red::PreMulSum { scalar: scalar.value(&m.names, Mode::Float)?, device: *device }
            }
        })
    }

    /// A peer's rank; outside the communicator it is a fault unless the call is to fail.
    fn peer(&mut self, step: &Step, peer: Option<&Num>, m: &Member<'a>) -> Result<i128, Diagnostic> {
        let Some(peer) = peer else {
            return Err(Diagnostic::new(step.span, format!("`{}` needs `peer`", step.op.name)));
        };
        let v = peer.whole(&m.names)?;
        let inside = (0..m.names.n as i128).contains(&v);
        let id = (self.p.steps.len() - 1) as StepId;
        if !inside && !self.fails(id, m.world) && !self.p.lenient() {
            let text = format!(
                "peer {v} of rank {} is not in the communicator of {}",
                m.names.rank,
                super::eval::ranks(m.names.n)
            );
            return Err(Diagnostic::new(peer.span, text).help(format!("ranks count from 0 to {}", m.names.n - 1)));
        }
        Ok(v)
    }

    fn elements(&self, step: &Step, m: &Member<'a>) -> Result<Option<u64>, Diagnostic> {
        let Some(count) = &step.count else { return Ok(None) };
        let v = count.whole(&m.names)?;
        u64::try_from(v)
            .map(Some)
            .map_err(|_| Diagnostic::new(count.span, format!("`count` is {v} on rank {}", m.names.rank)))
    }

    fn barrier(&mut self, step: &Step, id: StepId, m: &Member<'a>, stream: u32, fails: bool) -> Stop {
        let Some(op) = crate::ops::find("all_reduce") else { return Ok(()) };
        let Kind::Collective(op) = &op.kind else { return Ok(()) };
        let input = self.name(super::place::BARRIER_IN, step.span, None, Some(DType::F32));
        let output = self.name(super::place::BARRIER_OUT, step.span, None, Some(DType::F32));
        let sel = |buf| Some(Sel { buf, start: 0, end: None, sliced: false, span: step.span });
        let red = Some(Red::Builtin(nccl_sys::ncclRedOp_t::Sum));
        let coll = Coll {
            op,
            comm: m.comm,
            me: m.names.rank,
            input: sel(input),
            output: sel(output),
            red,
            root: 0,
            root_span: step.span,
            in_place: false,
            nulls: false,
            stream,
        };
        self.push(m.world, id, step.span, fails, ItemKind::Collective(Box::new(coll)));
        self.push(m.world, id, step.span, fails, ItemKind::Call(What::Wait { stream: Some(stream) }));
        Ok(())
    }

    fn all_to_all_v(&mut self, step: &'a Step, id: StepId, m: &Member<'a>, stream: u32, fails: bool) -> Stop {
        let Some(counts) = &step.counts else {
            return Err(Diagnostic::new(step.span, "`all_to_all_v` needs `counts`"));
        };
        let (input, output) = (self.required(step, "in", m)?, self.required(step, "out", m)?);
        let (me, n) = (m.names.rank, m.names.n);
        let piece = |from: usize, to: usize| -> Result<u64, Diagnostic> {
            let v = match &counts.v {
                Counts::Matrix(rows) => rows.get(from).and_then(|row| row.get(to)).copied().ok_or_else(|| {
                    let text = format!("`counts` has no entry for row {from}, column {to}");
                    Diagnostic::new(counts.span, text)
                        .help(format!("it needs {n} rows of {n} numbers: row r, column j is what r sends to j"))
                })?,
                Counts::Expr(expr) => {
                    let world = self.p.comms.list[m.comm].members[from];
                    let names = Names { rank: from, world_rank: world, peer: Some(to), ..m.names };
                    match evaluate(expr, counts.span, &names, Mode::Whole)? {
                        Value::Int(v) => v,
                        Value::Float(v) => v.trunc() as i128,
                    }
                }
            };
            u64::try_from(v)
                .map_err(|_| Diagnostic::new(counts.span, format!("rank {from} is to send {v} elements to rank {to}")))
        };
        let (mut sends, mut recvs, mut out, mut back) = (Vec::new(), Vec::new(), 0u64, 0u64);
        let overflow = || Diagnostic::new(counts.span, "the sum of `counts` is too large");
        for peer in 0..n {
            let (to, from) = (piece(me, peer)?, piece(peer, me)?);
            let part = |sel: Sel, at: u64, len: u64| {
                let start = sel.start.checked_add(at).ok_or_else(overflow)?;
                let end = start.checked_add(len).ok_or_else(overflow)?;
                Ok::<_, Diagnostic>(Sel { start, end: Some(end), sliced: true, ..sel })
            };
            sends.push((peer, part(input, out, to)?));
            recvs.push((peer, part(output, back, from)?));
            out = out.checked_add(to).ok_or_else(overflow)?;
            back = back.checked_add(from).ok_or_else(overflow)?;
        }
        self.count(2 * n, step.span)?;
        let (comm, nulls) = (m.comm, step.null_pointers);
        let mut push = |kind| self.push(m.world, id, step.span, fails, kind);
        push(ItemKind::Declare { output: input, count: out, like: input.buf });
        push(ItemKind::Declare { output, count: back, like: input.buf });
        push(ItemKind::Call(What::GroupStart));
        for (peer, sel) in sends {
            push(ItemKind::Send { comm, me, peer: peer as i128, input: sel, nulls, stream });
        }
        for (peer, sel) in recvs {
            push(ItemKind::Recv { comm, me, peer: peer as i128, output: sel, count: None, dtype: None, nulls, stream });
        }
        push(ItemKind::Call(What::GroupEnd));
        Ok(())
    }
}
