//! A corpus case as one operation, if it is one, and that operation as a scenario.
use super::NotRunnable;
use crate::num::DType;
use crate::ops::{Composite, Extent, Kind, Op, Who};
use crate::plan::{Buffer, CollectiveEvent, Event, Limits, Plan, Reduction, plan};
use crate::scenario::{Case, EnvValue, Ranks, Step, StepComm, StepReduction};
use nccl_sys::ncclRedOp_t;
use std::fmt::Write;
use std::sync::Arc;

/// The counts of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationCounts {
    /// NCCL's count, the same on every rank.
    Same(u64),
    /// What each rank sends.
    PerRank(Vec<u64>),
    /// What each rank sends to each rank.
    Matrix(Vec<Vec<u64>>),
}

impl OperationCounts {
    /// True if every count is 0.
    pub fn all_zero(&self) -> bool {
        self.all(|count| count == 0)
    }

    /// True if the condition holds for every count.
    pub fn all(&self, so: impl Fn(u64) -> bool) -> bool {
        match self {
            Self::Same(count) => so(*count),
            Self::PerRank(counts) => counts.iter().all(|count| so(*count)),
            Self::Matrix(rows) => rows.iter().flatten().all(|count| so(*count)),
        }
    }

    /// The counts with a function applied to each.
    pub fn map(self, by: impl Fn(u64) -> u64) -> Self {
        match self {
            Self::Same(count) => Self::Same(by(count)),
            Self::PerRank(counts) => Self::PerRank(counts.into_iter().map(by).collect()),
            Self::Matrix(rows) => Self::Matrix(rows.into_iter().map(|r| r.into_iter().map(&by).collect()).collect()),
        }
    }
}

/// The reduction of an operation, with the suite's scalars.
#[derive(Clone, Debug, PartialEq)]
pub enum OperationReduction {
    /// sum, prod, min, max, avg.
    Builtin(ncclRedOp_t),
    /// premul_sum: the scalar as an expression in `rank`, and true if it lies in device memory.
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
    pub reduce: Option<OperationReduction>,
    /// World size.
    pub n: usize,
    /// The counts.
    pub counts: OperationCounts,
    /// The root; 0 for an operation without one.
    pub root: usize,
    /// True if send and receive buffer share memory.
    pub in_place: bool,
    /// Elements by which both buffers are shifted.
    pub offset: u64,
    /// `steps` of the scenario, if it is not a single step.
    pub steps: Option<String>,
}

impl SingleOperation {
    /// The one operation that a case consists of.
    pub(super) fn from_case(case: &Arc<Case>) -> Result<Self, NotRunnable> {
        let [step] = case.steps.as_slice() else { return Err(NotRunnable::NotOneOperation) };
        if case.outcome.is_some() || step.error.is_some() || !case.comms.is_empty() {
            return Err(NotRunnable::ExpectsFailure);
        }
        let plain = step.times.is_none() && step.after.is_empty() && matches!(step.ranks, Ranks::All);
        if !plain || step.stream != "main" || !matches!(&step.comm, StepComm::Comm(name) if name.value == "world") {
            return Err(NotRunnable::NotOneOperation);
        }
        if case.env.iter().any(|var| matches!(var.value, EnvValue::PerRank(_))) {
            return Err(NotRunnable::DiffersByRank);
        }
        let device = matches!(&step.reduce, Some(reduce) if matches!(reduce.value, StepReduction::PreMulSum { device: true, .. }));
        let plan = plan(case, &Limits::default()).map_err(|_| NotRunnable::ExpectsFailure)?;
        Self::from_plan(step, device, &plan)
    }

    fn from_plan(step: &Step, device: bool, plan: &Plan) -> Result<Self, NotRunnable> {
        let (op, n) = (step.op, plan.n);
        let named = |buffer: &&Buffer| step.input.as_ref().is_some_and(|input| input.name == buffer.name);
        let input = plan
            .buffers
            .iter()
            .find(named)
            .filter(|buffer| buffer.input.is_some())
            .ok_or(NotRunnable::NotOneOperation)?;
        let place = |rank: usize| input.places.get(rank).copied().flatten();
        let lead = |rank: usize| place(rank).and_then(|p| plan.allocs.get(p.alloc)).map_or(0, |alloc| alloc.lead);
        let size = input.dtype.size() as u64;
        let mut operation = Self {
            op,
            dtype: input.dtype,
            reduce: None,
            n,
            counts: OperationCounts::Same(0),
            root: 0,
            in_place: false,
            // Where ranks differ in their offset, it becomes 1.
            offset: if (0..n).all(|rank| lead(rank) == lead(0)) { lead(0) / size } else { 1 },
            steps: None,
        };
        match (&op.kind, plan.events.as_slice()) {
            (Kind::Collective(_), [Event::Collective(collective)]) => {
                operation.counts = OperationCounts::Same(collective.count());
                operation.root = collective.root();
                operation.reduce = collective.reduction.as_ref().map(|reduce| match reduce {
                    Reduction::Builtin(op) => OperationReduction::Builtin(*op),
                    Reduction::PreMulSum(_) => OperationReduction::PreMulSum(String::new(), device),
                });
                let shared: Vec<bool> = (0..n).filter_map(|rank| shares_allocation(plan, collective, rank)).collect();
                operation.in_place = shared.contains(&true);
                if operation.in_place && shared.contains(&false) {
                    return Err(NotRunnable::DiffersByRank);
                }
            }
            (Kind::Composite(Composite::AllGatherV), _) => {
                operation.counts =
                    OperationCounts::PerRank((0..n).map(|rank| place(rank).map_or(0, |p| p.count)).collect());
            }
            (Kind::Composite(Composite::AllToAllV), events) => {
                operation.counts = OperationCounts::Matrix(piece_counts(events, n))
            }
            (Kind::SendRecv, events) => {
                let pieces = piece_counts(events, n);
                let ring = |r: usize, j: usize| j == (r + 1) % n;
                let count = pieces.first().and_then(|row| row.get(1 % n)).copied().unwrap_or(0);
                let fits = |(r, row): (usize, &Vec<u64>)| {
                    row.iter().enumerate().all(|(j, c)| *c == if ring(r, j) { count } else { 0 })
                };
                if !pieces.iter().enumerate().all(fits) {
                    return Err(NotRunnable::NotOneOperation);
                }
                operation.counts = OperationCounts::Same(count);
            }
            _ => return Err(NotRunnable::NotOneOperation),
        }
        Ok(operation)
    }

    /// The operation as the text of a scenario.
    pub(super) fn scenario_text(&self) -> String {
        let mut text = format!("world_size = {}\ndtype = \"{}\"\n", self.n, self.dtype.name());
        let mut line = |words: std::fmt::Arguments<'_>| {
            // a String takes everything
            let _ = writeln!(text, "{words}");
        };
        if self.offset > 0 {
            line(format_args!("offset = {}", self.offset));
        }
        if let Some(steps) = &self.steps {
            let count = if let OperationCounts::Same(count) = &self.counts { *count } else { 0 };
            line(format_args!("inputs.x = {{ each = 0, count = {count} }}\nsteps = {steps}"));
            return text;
        }
        let mut keys = format!("op = \"{}\", in = \"x\", out = \"y\"", self.op.name);
        match &self.reduce {
            Some(OperationReduction::Builtin(op)) => keys += &format!(", reduce = \"{}\"", op.name().unwrap_or("sum")),
            Some(OperationReduction::PreMulSum(scalar, device)) => {
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
            (OperationCounts::Same(k), Kind::Collective(c)) => {
                line(format_args!("inputs.x = {{ each = 0, count = {} }}", elements(c.send, *k)));
                // Every rank has a receive buffer, even if it receives nothing.
                if !writes_all && !self.in_place {
                    line(format_args!("inputs.y = {{ count = {} }}", elements(c.recv, *k)));
                }
            }
            (OperationCounts::Same(k), _) => line(format_args!("inputs.x = {{ each = 0, count = {k} }}")),
            (OperationCounts::PerRank(counts), _) => {
                line(format_args!("inputs.x = {{ each = 0, count = {counts:?} }}"))
            }
            (OperationCounts::Matrix(rows), _) => {
                line(format_args!("inputs.x = {{ each = 0 }}"));
                keys += &format!(", counts = {rows:?}");
            }
        }
        line(format_args!("steps = [{{ {keys} }}]"));
        text
    }
}

/// True if a rank's send and receive regions lie in one allocation; `None` if it lacks one of them.
fn shares_allocation(plan: &Plan, collective: &CollectiveEvent, rank: usize) -> Option<bool> {
    let alloc = |buf: usize, rank: usize| Some(plan.buffers.get(buf)?.places.get(rank).copied().flatten()?.alloc);
    let send = collective.sends().nth(rank)??;
    let recv = collective.recvs().nth(rank)??.region;
    Some(alloc(send.buf, send.rank)? == alloc(recv.buf, recv.rank)?)
}

/// The number of elements that each rank sends to each rank, from the messages.
fn piece_counts(events: &[Event], n: usize) -> Vec<Vec<u64>> {
    let mut pieces = vec![vec![0; n]; n];
    for event in events {
        let Event::Sent { message, call } = event else { continue };
        let from = call.op.memory;
        let to = events.iter().find_map(|other| match other {
            Event::Received { message: received, call } if received == message => Some(call.op.memory.rank),
            _ => None,
        });
        if let Some(cell) = to.and_then(|to| pieces.get_mut(from.rank)?.get_mut(to)) {
            *cell += from.len;
        }
    }
    pieces
}
