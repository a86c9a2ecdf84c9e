//! The cost of a case, computed from its plan before anything is filled, run or judged.
//!
//! - **Operations**: one is an operator, name or number of an expression for one element, or as much work of another kind;
//!   about ten nanoseconds in a release build. The worker's own work is left to the time limits.
//! - **Bytes**: all copies of all buffers in worker, shared memory and parent at the same time.
//!
//! Cost that depends on data (how many results round, and which need a checkpoint) is added by `oracle::Forecast`.
use super::eval::Names;
use super::expr_fill;
use super::inputs::mode;
use super::limits::Limits;
pub use super::place::human;
use super::types::{Event, Plan, Reduction, Region};
use crate::expr::{ExprNode, Func};
use crate::job::CallKind;
use crate::num::DType;
use crate::printable::thousands;
use crate::scenario::{BufferContent, Diagnostic, Expr, FillTable, FillValues, Span, TextPart};
use nccl_sys::ncclRedOp_t;

/// Number of copies of every image: device, two in shared memory, the forecast's image and end, the observation, the judge's own.
const COPIES: u64 = 7;
/// Number of copies of the part of an image beyond its first [`LARGE`] bytes: the ranks', the one in which results are computed, and
/// the final image if it is not as expected. Everything else is made on demand.
const LARGE_COPIES: u64 = 3;
const LARGE: u64 = 1 << 20;
/// Number of bytes moved or compared at the cost of one operation.
const BYTES: u64 = 64;
/// Operations of a run apart from its data: messages, wake-ups, reports.
const RUN: u64 = 10_000;
/// Operations to plan a call.
const CALL: u64 = 400;
/// Number of names searched at the cost of one operation.
const LOOKUPS: u64 = 8;
/// With at most this many ranks the oracle searches for an order and a rounding that explain an element; beyond, it uses a bound.
pub const SEARCH_RANKS: usize = 8;
/// Bytes of results, with their certainty, that the oracle keeps for the judge; the others are computed again.
pub const KEPT_RESULTS: u64 = 64 << 20;
/// Number of times the expressions in a text are evaluated: for its length while counts are found, and for its contents.
const TEXT_USES: u64 = 3;

/// The cost of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of bytes in all copies.
    pub memory: u64,
    /// Number of operations.
    pub work: u64,
}

/// A sum, and the place that adds most to it.
#[derive(Default)]
struct Account {
    total: u64,
    most: u64,
    span: Span,
    what: String,
}

impl Account {
    fn add(&mut self, amount: u64, span: Span, what: impl FnOnce() -> String) {
        self.total = self.total.saturating_add(amount);
        if amount > self.most {
            (self.most, self.span, self.what) = (amount, span, what());
        }
    }
}

/// Number of operations to evaluate an expression for one element, where names are looked up among `names` names.
pub fn operations(expr: &Expr, names: usize) -> u64 {
    let lookup = 1 + names as u64 / LOOKUPS;
    let mut sum = 0u64;
    expr.node.visit(&mut |node| {
        sum += match node {
            ExprNode::Name(_) | ExprNode::Index(..) | ExprNode::Field(..) => lookup,
            _ => 1,
        };
    });
    sum
}

/// The cost of a plan, or an error if it exceeds the limits.
///
/// # Errors
///
/// A limit is exceeded: names the place that adds most, the figure, the limit, and the option that raises it.
pub fn check(plan: &Plan, limits: &Limits) -> Result<Cost, Vec<Diagnostic>> {
    let work = work(plan);
    let memory = memory(plan);
    let mut refusals = Vec::new();
    if work.total > limits.work {
        refusals.push(too_much_work(&work.what, work.span, work.most, work.total, limits));
    }
    if memory.total > limits.memory {
        refusals.push(too_much_memory(&memory.what, memory.span, memory.most, memory.total, limits));
    }
    let cost = Cost { memory: memory.total, work: work.total };
    if refusals.is_empty() { Ok(cost) } else { Err(refusals) }
}

/// The number of calls and rounds of a program, as far as known.
#[derive(Clone, Copy, Default)]
pub struct CallCount {
    /// Number of calls of all ranks, including rounds.
    pub all: u64,
    /// The number of rounds among them.
    pub rounds: u64,
    /// True if there may be more calls or rounds.
    pub at_least: bool,
}

/// The refusal of a case with too many calls.
pub fn too_many_calls(span: Span, count: CallCount, limits: &Limits) -> Diagnostic {
    let (all, least) = (thousands(count.all), if count.at_least { "at least " } else { "" });
    let limit = thousands(limits.calls as u64);
    if count.rounds == 0 {
        let text = format!("the program makes {least}{all} calls and steps, the limit is {limit}");
        return Diagnostic::new(span, text).help("fewer steps, or fewer ranks");
    }
    let (rounds, calls) = (thousands(count.rounds), thousands(count.all.saturating_sub(count.rounds)));
    let text = format!("{rounds} rounds and {calls} calls are {least}{all}, the limit is {limit}");
    Diagnostic::new(span, text)
        .help("fewer rounds, or fewer ranks; `repeat = 3` runs the steps three times on the same communicators")
}

/// The refusal of a case whose expressions and judging take too many operations.
pub fn too_much_work(what: &str, span: Span, part: u64, total: u64, limits: &Limits) -> Diagnostic {
    let text = format!(
        "this case takes {} operations to work out and judge: more than the limit of {}",
        thousands(total),
        thousands(limits.work)
    );
    Diagnostic::new(span, text).label(format!("{what}: {} of them", thousands(part))).help(format!(
        "fewer elements, shorter expressions or fewer runs; {} raises the limit",
        limits.set_by.raise("max-work", total)
    ))
}

/// The refusal of a file whose cases are too much work in total.
pub fn too_much_work_of_file(span: Span, cases: usize, limits: &Limits) -> Diagnostic {
    let text = format!(
        "the {} cases of this file together take more than {} operations to work out and judge, which is the limit",
        thousands(cases as u64),
        thousands(limits.file_work)
    );
    Diagnostic::new(span, text).help(format!(
        "fewer cases or forms, fewer elements or shorter expressions; {} raises the limit",
        limits.set_by.raise("max-file-work", "N")
    ))
}

/// The refusal of a case that needs too much memory.
pub fn too_much_memory(what: &str, span: Span, part: u64, total: u64, limits: &Limits) -> Diagnostic {
    let (mut figure, mut limit) = (human(total), human(limits.memory));
    if figure == limit {
        (figure, limit) = (format!("{} bytes", thousands(total)), format!("{} bytes", thousands(limits.memory)));
    }
    let text = format!("this case needs {figure} of memory in all copies: more than the limit of {limit}");
    // Rounded up, so that the number given is enough.
    let wanted = total.div_ceil(1 << 20);
    Diagnostic::new(span, text).label(format!("{what}: {} of it", human(part))).help(format!(
        "smaller counts or fewer ranks; {} raises the limit",
        limits.set_by.raise("max-memory", format_args!("{wanted}MiB"))
    ))
}

fn work(plan: &Plan) -> Account {
    let mut all = Account::default();
    let case = &plan.case;
    let runs = u64::from(case.repeat);
    let axes = case.axes.len();
    for buffer in &plan.buffers {
        let Some(def) = buffer.input.and_then(|i| case.inputs.get(i)) else { continue };
        let ranks = buffer.places.iter().enumerate().filter_map(|(rank, place)| Some((rank, place.as_ref()?.count)));
        let sum = ranks.fold(0u64, |sum, (rank, count)| {
            sum.saturating_add(content(plan, &def.content, buffer.dtype, rank, count))
        });
        all.add(sum, def.name.span, || format!("to fill `{}`", buffer.name));
    }
    for event in &plan.events {
        let (step, amount) = (event.step(), of_event(plan, event, runs));
        let step = plan.steps.get(step as usize);
        all.add(amount, step.map_or(case.span, |s| s.span), || step.map_or("a step".into(), |s| s.label.clone()));
    }
    for e in &case.expect {
        let Some(buffer) = plan.buffers.iter().find(|b| b.name == e.target.name) else { continue };
        let slice =
            e.target.slice.as_ref().map_or(0, |(from, to)| {
                from.iter().chain(to).map(|e| operations(e, axes)).sum::<u64>().saturating_mul(2)
            });
        let (mut sum, mut planned) = (0u64, 0u64);
        for rank in 0..plan.n {
            let part = super::expect::extent(plan, e, buffer, rank).ok().flatten();
            let count = part.map_or(0, |(start, end)| end - start);
            let made = content(plan, &e.content, buffer.dtype, rank, count);
            sum = sum.saturating_add(made).saturating_add(count).saturating_add(slice + 1);
            // Evaluated before the first run, to check that every element has a value.
            planned = planned.saturating_add(made);
        }
        all.add(sum.saturating_mul(runs).saturating_add(planned), e.target.span, || {
            format!("to compare `{}`", e.target.name)
        });
    }
    for a in &case.asserts {
        let sum = (0..plan.n).fold(0u64, |sum, rank| sum.saturating_add(of_assert(plan, &a.value, rank, axes)));
        all.add(sum.saturating_mul(runs), a.span, || "to evaluate this".into());
    }
    let images: u64 = plan.allocs.iter().map(|a| a.image()).sum();
    let calls: usize = plan.programs.iter().map(Vec::len).sum();
    all.add((calls as u64).saturating_mul(CALL), case.span, || format!("to plan {} calls", thousands(calls as u64)));
    let run = RUN + (images / BYTES).saturating_mul(2) + calls as u64 * 16;
    all.add(run.saturating_mul(runs), case.span, || format!("{runs} runs"));
    all
}

/// Operations that make the elements of a content on a rank.
fn content(plan: &Plan, content: &BufferContent, dtype: DType, rank: usize, count: u64) -> u64 {
    let Some(fill) = content.table(rank) else {
        return content.elements(rank).map_or(0, |list| list.len() as u64);
    };
    let copied = count.saturating_mul(dtype.size() as u64) / BYTES;
    copied.saturating_add(of_fill(plan, fill, dtype, rank, count))
}

fn of_fill(plan: &Plan, fill: &FillTable, dtype: DType, rank: usize, count: u64) -> u64 {
    let axes = plan.case.axes.len();
    match &fill.values {
        FillValues::Poison | FillValues::Untouched | FillValues::Any | FillValues::Number(_) => 0,
        FillValues::Row(list) => list.len() as u64,
        FillValues::Random { .. } => count.saturating_mul(2),
        FillValues::Texts(_) => count,
        FillValues::Template(parts) => {
            let expressions = parts.iter().map(|part| match part {
                TextPart::Expr(expr) => operations(&expr.value, axes),
                TextPart::Literal(_) => 0,
            });
            // once for the length, and again for each use
            count.saturating_add(expressions.fold(0, u64::saturating_add).saturating_mul(TEXT_USES))
        }
        FillValues::Each(expr) => {
            let names = Names::world(&plan.case, rank);
            expr_fill::computed(&expr.value, &names, mode(dtype), count).saturating_mul(operations(&expr.value, axes))
        }
    }
}

fn of_event(plan: &Plan, event: &Event, runs: u64) -> u64 {
    let bytes = |r: &Region| r.len.saturating_mul(plan.buffers.get(r.buf).map_or(8, |b| b.dtype.size()) as u64);
    let once = runs.saturating_add(1);
    match event {
        Event::Collective(collective) => {
            let sent: u64 = collective.sends().flatten().map(|r| r.len).fold(0, u64::saturating_add);
            let moved = collective.sends().flatten().map(|r| bytes(&r)).fold(0, u64::saturating_add);
            let come = collective.recvs().flatten().map(|w| bytes(&w.region)).fold(0, u64::saturating_add);
            // Sums are computed over whole blocks; products of many ranks are bounded with exact numbers.
            let weight = match &collective.reduction {
                None => 0,
                Some(Reduction::Builtin(op)) if *op == ncclRedOp_t::Sum => 1,
                Some(Reduction::Builtin(op)) if *op == ncclRedOp_t::Prod && collective.calls.len() > SEARCH_RANKS => 36,
                Some(_) => 3,
            };
            let reduced = sent.saturating_mul(weight);
            (reduced + collective.count() / BYTES)
                .saturating_add((moved.saturating_add(come)) / BYTES + 64)
                .saturating_mul(once)
        }
        Event::Sent { call, .. } | Event::Received { call, .. } => {
            (bytes(&call.op.memory) / BYTES + 64).saturating_mul(once)
        }
        Event::Map(call) => {
            let each = operations(&call.op.expr, call.op.names.len() + call.op.reads.len());
            call.op.out.len.saturating_mul(each).saturating_mul(once)
        }
        Event::Undefined { .. } => 64,
    }
}

/// Operations of an `assert` on a rank.
fn of_assert(plan: &Plan, expr: &Expr, rank: usize, axes: usize) -> u64 {
    let place = |name: &str| {
        let buffer = plan.buffers.iter().find(|b| b.name == name)?;
        let place = buffer.places.get(rank).copied().flatten()?;
        Some((place.count, place.count.saturating_mul(buffer.dtype.size() as u64)))
    };
    let (mut elements, mut named, mut same) = (None, 0usize, 0u64);
    each_node(&expr.node, &mut |node, inside_same| match node {
        ExprNode::Name(name) if inside_same => same = same.saturating_add(place(name).map_or(0, |p| p.1) / BYTES),
        ExprNode::Name(name) => {
            if let Some((count, _)) = place(name) {
                elements = elements.max(Some(count));
                named += 1;
            }
        }
        ExprNode::Index(..) => named += 1,
        _ => {}
    });
    let each = operations(expr, axes + named).saturating_add(same);
    elements.unwrap_or(1).saturating_mul(each)
}

/// Visits every node, with true for arguments of `same`.
fn each_node<'a>(node: &'a ExprNode, f: &mut impl FnMut(&'a ExprNode, bool)) {
    f(node, false);
    match node {
        ExprNode::Index(_, a) | ExprNode::Neg(a) => each_node(a, f),
        ExprNode::Binary(_, a, b) => {
            each_node(a, f);
            each_node(b, f);
        }
        ExprNode::Call(Func::Same, args) => args.iter().for_each(|a| f(a, true)),
        ExprNode::Call(_, args) => args.iter().for_each(|a| each_node(a, f)),
        ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Name(_) | ExprNode::Field(..) => {}
    }
}

/// Bytes of one node of an expression, in memory and in a message.
const NODE: u64 = 64;

fn memory(plan: &Plan) -> Account {
    let mut all = Account::default();
    let case = &plan.case;
    let place = |label: &str| {
        let first = label.split(", ").next().unwrap_or(label);
        plan.buffers.iter().find(|b| b.name == first).map_or(case.span, |b| b.span)
    };
    let mut widest = 0u64;
    let mut by_label: std::collections::HashMap<&str, u64> = std::collections::HashMap::new();
    for alloc in &plan.allocs {
        *by_label.entry(alloc.label.as_str()).or_default() += copies(alloc.image());
        widest = widest.max(alloc.payload);
    }
    let mut by_label: Vec<_> = by_label.into_iter().collect();
    by_label.sort_unstable();
    for (label, bytes) in by_label {
        all.add(bytes, place(label), || format!("`{label}` on all ranks"));
    }
    // The memory for locating an element that turns out wrong.
    all.add(widest.saturating_mul(4), case.span, || "to look for wrong elements".into());
    let size = |r: &Region| r.len.saturating_mul(plan.buffers.get(r.buf).map_or(8, |b| b.dtype.size()) as u64);
    let (mut step_most, mut step_at) = (0u64, case.span);
    let (mut flying, mut most_flying) = (std::collections::HashMap::new(), 0u64);
    let mut now = 0u64;
    for event in &plan.events {
        let bytes = match event {
            Event::Collective(collective) => {
                let sent = collective.sends().flatten().map(|r| size(&r)).fold(0, u64::saturating_add);
                let come = collective.recvs().flatten().map(|w| size(&w.region)).max().unwrap_or(0);
                // Large inputs are shared, and large results are computed once.
                sent.min(LARGE).saturating_add(come.min(LARGE).saturating_mul(2)).saturating_add(come)
            }
            Event::Sent { message, call } => {
                let content = size(&call.op.memory);
                now = now.saturating_add(content);
                flying.insert(*message, content);
                most_flying = most_flying.max(now);
                0
            }
            Event::Received { message, .. } => {
                now = now.saturating_sub(flying.remove(message).unwrap_or(0));
                0
            }
            Event::Map(call) => size(&call.op.out).saturating_mul(2),
            Event::Undefined { .. } => 0,
        };
        if bytes > step_most {
            let step = plan.steps.get(event.step() as usize);
            (step_most, step_at) = (bytes, step.map_or(case.span, |s| s.span));
        }
    }
    let reduced = plan.events.iter().map(|event| match event {
        Event::Collective(collective) if collective.reduction.is_some() => {
            collective.recvs().flatten().map(|w| size(&w.region).saturating_mul(2)).max().unwrap_or(0)
        }
        _ => 0,
    });
    let kept = reduced.fold(0, u64::saturating_add).min(KEPT_RESULTS);
    all.add(kept, case.span, || "results that are kept".into());
    all.add(step_most, step_at, || "to work out this step".into());
    all.add(most_flying, case.span, || "messages on their way".into());
    // Programs travel as messages and are kept on both sides.
    let mut programs = 0u64;
    for call in plan.programs.iter().flatten() {
        programs = programs.saturating_add(match call.kind.inner() {
            CallKind::Map { expr, names, .. } => of_map(expr, names.len()),
            _ => 256,
        });
    }
    all.add(programs, case.span, || "calls of all ranks".into());
    all
}

/// Bytes of one call of a `map`: twice in the plan, in the message, and in the worker.
pub fn of_map(expr: &Expr, names: usize) -> u64 {
    256 + 4 * (operations(expr, 0) * NODE + expr.text.len() as u64 + names as u64 * NODE)
}

/// Bytes of all copies of an image.
fn copies(image: u64) -> u64 {
    let small = image.min(LARGE);
    small.saturating_mul(COPIES).saturating_add((image - small).saturating_mul(LARGE_COPIES))
}

/// The least number of bytes that a rank's buffer takes in all copies.
pub fn of_image(payload: u64) -> u64 {
    copies(payload.saturating_add(2 * super::types::GUARD))
}
