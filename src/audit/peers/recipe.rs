//! A corpus case as one operation, if it is one, and that operation as a scenario of its own.
use super::Refused;
use crate::num::DType;
use crate::ops::{Composite, Extent, Kind, Op, Who};
use crate::plan::{Buffer, Event, Limits, Plan, Reduction, Region, Write as Writes, plan};
use crate::scenario::{Case, EnvValue, Ranks, Reduce, Step, Where};
use nccl_sys::ncclRedOp_t;
use std::fmt::Write;
use std::sync::Arc;

/// How much each rank contributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// NCCL's count, the same on every rank.
    Same(u64),
    /// By rank.
    PerRank(Vec<u64>),
    /// What rank r sends to j.
    Matrix(Vec<Vec<u64>>),
}

impl Counts {
    /// True if nothing moves at all.
    pub fn empty(&self) -> bool {
        self.all(|count| count == 0)
    }

    /// True if every count is so.
    pub fn all(&self, so: impl Fn(u64) -> bool) -> bool {
        match self {
            Self::Same(count) => so(*count),
            Self::PerRank(counts) => counts.iter().all(|count| so(*count)),
            Self::Matrix(rows) => rows.iter().flatten().all(|count| so(*count)),
        }
    }

    /// Every count changed.
    pub fn map(self, by: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Same(count) => Self::Same(by(count)),
            Self::PerRank(counts) => Self::PerRank(counts.into_iter().map(by).collect()),
            Self::Matrix(rows) => Self::Matrix(rows.into_iter().map(|r| r.into_iter().map(&by).collect()).collect()),
        }
    }
}

/// The reduction, as far as a suite takes it over: scalars are the suite's own.
#[derive(Clone, Debug, PartialEq)]
pub enum Reducing {
    /// sum, prod, min, max, avg.
    Builtin(ncclRedOp_t),
    /// A scalar per rank: an expression in `rank`, and whether it lies in device memory.
    PreMulSum(String, bool),
}

/// One operation over all ranks.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleOperation {
    /// Its entry in the operation table.
    pub op: &'static Op,
    /// Element type.
    pub dtype: DType,
    /// The reduction, if it has one.
    pub reduce: Option<Reducing>,
    /// World size.
    pub n: usize,
    /// How much.
    pub counts: Counts,
    /// The root; 0 if it takes none.
    pub root: usize,
    /// Send and receive buffer share memory.
    pub in_place: bool,
    /// Elements by which both buffers are shifted.
    pub offset: u64,
    /// Steps of a program instead of the short form.
    pub steps: Option<String>,
}

impl SingleOperation {
    /// The one operation that a case consists of.
    pub(super) fn of(case: &Arc<Case>) -> Result<Self, Refused> {
        let [step] = case.steps.as_slice() else { return Err(Refused::Program) };
        if case.outcome.is_some() || step.error.is_some() || !case.comms.is_empty() {
            return Err(Refused::Negative);
        }
        let plain = step.times.is_none() && step.after.is_empty() && matches!(step.ranks, Ranks::All);
        if !plain || step.stream != "main" || !matches!(&step.place, Where::Comm(name) if name.v == "world") {
            return Err(Refused::Program);
        }
        if case.env.iter().any(|var| matches!(var.value, EnvValue::PerRank(_))) {
            return Err(Refused::ByRank);
        }
        let device = matches!(&step.reduce, Some(reduce) if matches!(reduce.v, Reduce::PreMulSum { device: true, .. }));
        let plan = plan(case, &Limits::default()).map_err(|_| Refused::Negative)?;
        Self::read(step, device, &plan)
    }

    fn read(step: &Step, device: bool, plan: &Plan) -> Result<Self, Refused> {
        let (op, n) = (step.op, plan.n);
        let named = |buffer: &&Buffer| step.input.as_ref().is_some_and(|input| input.name == buffer.name);
        let input = plan.buffers.iter().find(named).filter(|buffer| buffer.input.is_some()).ok_or(Refused::Program)?;
        let place = |rank: usize| input.places.get(rank).copied().flatten();
        let lead = |rank: usize| place(rank).and_then(|p| plan.allocs.get(p.alloc)).map_or(0, |alloc| alloc.lead);
        let size = input.dtype.size() as u64;
        let mut recipe = Self {
            op,
            dtype: input.dtype,
            reduce: None,
            n,
            counts: Counts::Same(0),
            root: 0,
            in_place: false,
            // shifted by another number on each rank: by one
            offset: if (0..n).all(|rank| lead(rank) == lead(0)) { lead(0) / size } else { 1 },
            steps: None,
        };
        match (&op.kind, plan.events.as_slice()) {
            (Kind::Collective(_), [Event::Collective { k, reduce, root, send, recv, .. }]) => {
                recipe.counts = Counts::Same(*k);
                recipe.root = *root;
                recipe.reduce = reduce.as_ref().map(|reduce| match reduce {
                    Reduction::Builtin(op) => Reducing::Builtin(*op),
                    Reduction::PreMulSum(_) => Reducing::PreMulSum(String::new(), device),
                });
                let shared: Vec<bool> = (0..n).filter_map(|rank| shares(plan, send, recv, rank)).collect();
                recipe.in_place = shared.contains(&true);
                if recipe.in_place && shared.contains(&false) {
                    return Err(Refused::ByRank);
                }
            }
            (Kind::Composite(Composite::AllGatherV), _) => {
                recipe.counts = Counts::PerRank((0..n).map(|rank| place(rank).map_or(0, |p| p.count)).collect());
            }
            (Kind::Composite(Composite::AllToAllV), events) => recipe.counts = Counts::Matrix(pieces(events, n)),
            (Kind::SendRecv, events) => {
                let pieces = pieces(events, n);
                let ring = |r: usize, j: usize| j == (r + 1) % n;
                let count = pieces.first().and_then(|row| row.get(1 % n)).copied().unwrap_or(0);
                let fits = |(r, row): (usize, &Vec<u64>)| {
                    row.iter().enumerate().all(|(j, c)| *c == if ring(r, j) { count } else { 0 })
                };
                if !pieces.iter().enumerate().all(fits) {
                    return Err(Refused::Program);
                }
                recipe.counts = Counts::Same(count);
            }
            _ => return Err(Refused::Program),
        }
        Ok(recipe)
    }

    /// The scenario.
    pub(super) fn text(&self) -> String {
        let mut text = format!("world_size = {}\ndtype = \"{}\"\n", self.n, self.dtype.name());
        let mut line = |words: std::fmt::Arguments<'_>| {
            // a String takes everything
            let _ = writeln!(text, "{words}");
        };
        if self.offset > 0 {
            line(format_args!("offset = {}", self.offset));
        }
        if let Some(steps) = &self.steps {
            let count = if let Counts::Same(count) = &self.counts { *count } else { 0 };
            line(format_args!("inputs.x = {{ each = 0, count = {count} }}\nsteps = {steps}"));
            return text;
        }
        let mut keys = format!("op = \"{}\", in = \"x\", out = \"y\"", self.op.name);
        match &self.reduce {
            Some(Reducing::Builtin(op)) => keys += &format!(", reduce = \"{}\"", op.name().unwrap_or("sum")),
            Some(Reducing::PreMulSum(scalar, device)) => {
                let place = if *device { ", scalar = \"device\"" } else { "" };
                keys += &format!(", reduce = {{ premul_sum = \"{scalar}\" }}{place}");
            }
            None => {}
        }
        let writes_all = match &self.op.kind {
            Kind::Collective(c) => {
                if c.rooted {
                    keys += &format!(", root = {}", self.root);
                }
                c.writers == Who::All
            }
            Kind::SendRecv => {
                keys += ", to = \"(rank + 1) % n\", from = \"(rank - 1) % n\"";
                true
            }
            _ => true,
        };
        if self.in_place {
            keys += ", in_place = true";
        }
        let elements = |extent: Extent, k: u64| extent.elements(k, self.n).unwrap_or(u64::MAX);
        match (&self.counts, &self.op.kind) {
            (Counts::Same(k), Kind::Collective(c)) => {
                line(format_args!("inputs.x = {{ each = 0, count = {} }}", elements(c.send, *k)));
                // every rank has a receive buffer, also where nothing arrives
                if !writes_all && !self.in_place {
                    line(format_args!("inputs.y = {{ count = {} }}", elements(c.recv, *k)));
                }
            }
            (Counts::Same(k), _) => line(format_args!("inputs.x = {{ each = 0, count = {k} }}")),
            (Counts::PerRank(counts), _) => line(format_args!("inputs.x = {{ each = 0, count = {counts:?} }}")),
            (Counts::Matrix(rows), _) => {
                line(format_args!("inputs.x = {{ each = 0 }}"));
                keys += &format!(", counts = {rows:?}");
            }
        }
        line(format_args!("steps = [{{ {keys} }}]"));
        text
    }
}

/// Whether a rank's send and receive side lie in one allocation; `None` if it lacks one of them.
fn shares(plan: &Plan, send: &[Option<Region>], recv: &[Option<Writes>], rank: usize) -> Option<bool> {
    let alloc = |buf: usize, rank: usize| Some(plan.buffers.get(buf)?.places.get(rank).copied().flatten()?.alloc);
    let send = send.get(rank).copied().flatten()?;
    let recv = recv.get(rank).copied().flatten()?.region;
    Some(alloc(send.buf, send.rank)? == alloc(recv.buf, recv.rank)?)
}

/// What rank r sends to j, from its messages.
fn pieces(events: &[Event], n: usize) -> Vec<Vec<u64>> {
    let mut pieces = vec![vec![0; n]; n];
    for event in events {
        let Event::Post { message, from, .. } = event else { continue };
        let to = events.iter().find_map(|other| match other {
            Event::Land { message: landed, to, .. } if landed == message => Some(to.region.rank),
            _ => None,
        });
        if let Some(cell) = to.and_then(|to| pieces.get_mut(from.rank)?.get_mut(to)) {
            *cell += from.len;
        }
    }
    pieces
}
