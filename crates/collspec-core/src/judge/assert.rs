//! `assert`: expressions over the final buffers and the figures of named steps.
use super::assert_text::{failed_parts, number_text};
use super::consequences::is_certain;
use super::findings::{FindingCollector, Priority};
use super::images::image_bytes;
use super::outputs::whole_buffer;
use super::tolerance::{self, Nearness};
use super::{Finding, Lane, Subject, message};
use crate::expr::map::element_value;
use crate::expr::{BinOp, EvalError, Expr, ExprNode, Func, Scope, Value};
use crate::job::Observation;
use crate::num::{DType, get_element};
use crate::oracle::Forecast;
use crate::oracle::interpreter::region_bytes;
use crate::oracle::memory::Memory;
use crate::oracle::undefined::{is_in, undefined_elements};
use crate::plan::asserts::uncounted;
use crate::plan::{BufId, Plan};
use crate::scenario::Spanned;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::ops::Range;

/// Evaluates each assert on every rank that has all buffers and figures which it names.
pub(crate) fn check(
    plan: &Plan,
    forecast: &Forecast,
    last: &[Memory],
    observation: &Observation,
    collector: &mut FindingCollector,
) {
    let ids: HashMap<&str, BufId> = plan.buffers.iter().enumerate().rev().map(|(i, b)| (b.name.as_str(), i)).collect();
    for (number, assertion) in plan.case.asserts.iter().enumerate() {
        let priority = Priority::Expectation(1 + number);
        let mut used = References::default();
        used.collect(&ids, &assertion.value.node);
        collector.count_checked(Lane::Expected, 0);
        let (mut looked, mut undefined) = (false, false);
        for rank in 0..plan.n {
            let all = used.buffers.iter().all(|b| plan.buffers[*b].places.get(rank).is_some_and(Option::is_some));
            let tagged = used.steps.iter().all(|tag| figure(plan, observation, rank, tag).is_some());
            if all && tagged {
                let check = AssertCheck {
                    plan,
                    forecast,
                    last,
                    observation,
                    rank,
                    assertion,
                    used: &used,
                    priority,
                    undefined: OnceCell::new(),
                };
                match check.check(collector) {
                    Looked::AtUndefinedAlone => undefined = true,
                    Looked::AtWhatThereIs => looked = true,
                }
            }
        }
        if !looked {
            let why = if undefined { "it reads only undefined elements" } else { "no rank has all that it names" };
            let text = format!("`{}` was not checked: {why}", assertion.value.text);
            // In a sweep some cases may lack what an assert refers to; in a single case that means the assert has no effect.
            if plan.case.swept {
                collector.note(text);
            } else {
                let finding =
                    message::about(Subject::Assert, text, assertion.value.text.to_string(), "not checked".into());
                collector.add(priority, Finding { span: Some(assertion.span), ..finding });
            }
        }
    }
}

/// The kind of elements that an assert has read on a rank.
enum Looked {
    /// Defined elements, or all elements that exist, possibly none.
    AtWhatThereIs,
    /// Every evaluation has read only undefined elements.
    AtUndefinedAlone,
}

/// The buffers and steps that an expression names.
#[derive(Default)]
struct References {
    /// Every buffer that the expression names.
    buffers: Vec<BufId>,
    /// Buffers named without an index: the expression is evaluated for each of their elements.
    elementwise: Vec<BufId>,
    /// Names of steps whose figures are used.
    steps: Vec<String>,
}

impl References {
    fn collect(&mut self, ids: &HashMap<&str, BufId>, node: &ExprNode) {
        match node {
            ExprNode::Int(_) | ExprNode::Float(_) => {}
            ExprNode::Name(name) => self.add_buffer(ids, name, true),
            ExprNode::Index(name, inner) => {
                self.add_buffer(ids, name, false);
                self.collect(ids, inner);
            }
            ExprNode::Field(step, _) => self.steps.push(step.clone()),
            ExprNode::Neg(inner) => self.collect(ids, inner),
            ExprNode::Binary(_, a, b) => {
                self.collect(ids, a);
                self.collect(ids, b);
            }
            ExprNode::Call(Func::Same, args) => {
                for arg in args {
                    if let ExprNode::Name(name) = arg {
                        self.add_buffer(ids, name, false);
                    }
                }
            }
            ExprNode::Call(_, args) => args.iter().for_each(|a| self.collect(ids, a)),
        }
    }
    fn add_buffer(&mut self, ids: &HashMap<&str, BufId>, name: &str, each: bool) {
        let add = |list: &mut Vec<BufId>, buf| {
            if !list.contains(&buf) {
                list.push(buf);
            }
        };
        if let Some(buf) = ids.get(name) {
            add(&mut self.buffers, *buf);
            if each {
                add(&mut self.elementwise, *buf);
            }
        }
    }
}

/// The check of an assert on one rank.
struct AssertCheck<'a> {
    plan: &'a Plan,
    forecast: &'a Forecast,
    last: &'a [Memory],
    observation: &'a Observation,
    rank: usize,
    assertion: &'a Spanned<Expr>,
    used: &'a References,
    priority: Priority,
    /// The undefined elements of the buffers that have any.
    undefined: OnceCell<UndefinedElements<'a>>,
}

/// Undefined elements by the name of their buffer.
type UndefinedElements<'a> = HashMap<&'a str, Vec<Range<u64>>>;

impl<'a> AssertCheck<'a> {
    fn check(&self, collector: &mut FindingCollector) -> Looked {
        let Self { plan, forecast, observation, rank, assertion, used, priority, .. } = *self;
        let count = |buf: &BufId| plan.buffers[*buf].places[rank].map_or(0, |p| p.count);
        let counts: Vec<u64> = used.elementwise.iter().map(count).collect();
        let text = &assertion.value.text;
        if let Some(other) = counts.iter().find(|c| **c != counts[0]) {
            let words = format!("rank {rank}: assert `{text}` names buffers of {} and {other} elements", counts[0]);
            collector.add(priority, self.finding(words, "different counts".into()));
            return Looked::AtWhatThereIs;
        }
        let elements = counts.first().copied();
        let total = elements.unwrap_or(1);
        let mut wrong = 0;
        let mut first: Option<(u64, String)> = None;
        let (mut looked, mut undefined) = (0, 0);
        let named = |buf: &BufId| {
            Some((plan.buffers[*buf].name.as_str(), final_bytes(plan, forecast, observation, *buf, rank)?))
        };
        let held: Vec<_> = used.buffers.iter().filter_map(named).collect();
        let buffers: HashMap<&str, (DType, &[u8])> =
            held.iter().map(|(name, (dtype, bytes))| (*name, (*dtype, &**bytes))).collect();
        for i in 0..total {
            let quiet = self.scope(&buffers, i, false);
            match assertion.value.eval_exact(&quiet) {
                _ if quiet.undefined_read.get() => undefined += 1,
                Ok(value) if value.truth() && !value.as_f64().is_nan() => looked += 1,
                Err(_)
                    if quiet.figure_missing.get()
                        && used.steps.iter().any(|tag| uncounted(plan, rank, tag).is_some()) =>
                {
                    let why = used
                        .steps
                        .iter()
                        .find_map(|tag| uncounted(plan, rank, tag))
                        .map(|it| it.why)
                        .unwrap_or_default();
                    let words = format!("rank {rank}: assert `{text}` cannot be checked: {why}");
                    collector.add(priority, self.finding(words, "not known".into()));
                    return Looked::AtWhatThereIs;
                }
                Err(_) if quiet.figure_missing.get() => {
                    collector.note(format!("`{text}` was not checked: this backend does not count that"));
                    return Looked::AtWhatThereIs;
                }
                result => {
                    wrong += 1;
                    first.get_or_insert_with(|| {
                        // Evaluated again to collect the values that were read: texts for every element would cost more than the values.
                        let scope = self.scope(&buffers, i, true);
                        let parts = failed_parts(&assertion.value.node, &scope);
                        let mut values = scope.values_read.into_inner();
                        if let Err(error) = result {
                            values.push(error.to_string());
                        }
                        let joint = if parts.is_empty() || values.is_empty() { "" } else { ", where " };
                        (i, format!("{}{joint}{}", parts.join(", "), values.join(", ")))
                    });
                }
            }
        }
        collector.count_checked(Lane::Expected, looked + wrong);
        if undefined > 0 {
            let of = if looked + wrong > 0 { format!(" for {undefined} of {total} elements") } else { String::new() };
            collector.note(format!("`{text}` names undefined data and was not checked on rank {rank}{of}"));
        }
        let end = if undefined > 0 && looked + wrong == 0 { Looked::AtUndefinedAlone } else { Looked::AtWhatThereIs };
        let Some((i, values)) = first else { return end };
        let place =
            if elements.is_some() { format!(" for element {i} ({wrong} of {total} elements)") } else { String::new() };
        let words = format!("rank {rank}: assert `{text}` does not hold{place}: {values}");
        let mut finding = self.finding(words, values);
        (finding.wrong, finding.of) = (wrong, total);
        finding.element = elements.map(|_| i);
        finding.buffer = used.elementwise.first().map(|b| plan.buffers[*b].name.clone());
        if !collector.pass_or_fail_only {
            self.blame(&mut finding, &buffers, total);
        }
        collector.add(priority, finding);
        end
    }

    fn finding(&self, text: String, actual: String) -> Finding {
        Finding {
            rank: Some(self.rank),
            span: Some(self.assertion.span),
            ..message::about(Subject::Assert, text, self.assertion.value.text.to_string(), actual)
        }
    }

    /// Says whether the right results would meet the assert, or miss it too.
    fn blame(&self, finding: &mut Finding, observed: &HashMap<&str, (DType, &[u8])>, total: u64) {
        let Self { plan, last, rank, used, .. } = *self;
        if used.buffers.is_empty() && used.steps.is_empty() {
            finding.advice = Some("no result is in it: it fails on every run".into());
        }
        if used.buffers.is_empty() || !used.steps.is_empty() {
            return;
        }
        let named = |buf: &BufId| {
            let region = whole_buffer(plan, *buf, rank).filter(|region| is_certain(plan, last, *region))?;
            let (alloc, range) = region_bytes(plan, region)?;
            let bytes = last.get(alloc)?.data.get(range.start as usize..range.end as usize)?;
            let buffer = plan.buffers.get(*buf)?;
            Some((buffer.name.as_str(), (buffer.dtype, bytes)))
        };
        let Some(held) = used.buffers.iter().map(named).collect::<Option<Vec<_>>>() else { return };
        let right: HashMap<&str, (DType, &[u8])> =
            held.iter().map(|(name, (dtype, bytes))| (*name, (*dtype, &**bytes))).collect();
        if right == *observed {
            finding.advice = Some(self.closeness_advice().unwrap_or_else(|| {
                let writers = self.last_writers();
                format!("the library's result is what the oracle expects; either the program or the assert is wrong{writers}")
            }));
            return;
        }
        let holds = |i| self.assertion.value.eval_exact(&self.scope(&right, i, false));
        finding.follows = (0..total).all(|i| holds(i).is_ok_and(|value| value.truth() && !value.as_f64().is_nan()));
    }

    /// The steps that last wrote the buffers that the assert names.
    fn last_writers(&self) -> String {
        let Self { plan, last, rank, used, .. } = *self;
        let of = |buf: &BufId| {
            let (alloc, range) = region_bytes(plan, whole_buffer(plan, *buf, rank)?)?;
            let mut steps: Vec<&str> = Vec::new();
            for (_, run) in last.get(alloc)?.runs_in(range) {
                let event = run.writer.and_then(|event| plan.events.get(event as usize));
                let step = event.and_then(|event| plan.steps.get(event.step() as usize));
                steps.extend(step.map(|step| step.label.as_str()).filter(|label| !steps.contains(label)));
            }
            let writers = message::listed(&steps)?;
            Some(format!("`{}` by {writers}", message::buffer_label(plan.buffers.get(*buf)?)))
        };
        let all: Vec<String> = used.buffers.iter().filter_map(of).take(4).collect();
        if all.is_empty() { String::new() } else { format!("; written last: {}", all.join(", ")) }
    }

    /// For `==` between two sides that are close on all ranks: the `close` to write instead.
    fn closeness_advice(&self) -> Option<String> {
        const MAX_ELEMENTS: u64 = 1 << 16;
        let Self { plan, forecast, observation, used, assertion, .. } = *self;
        let ExprNode::Binary(BinOp::Eq, left, right) = &*assertion.value.node else { return None };
        let (left_text, right_text) = assertion.value.text.split_once("==")?;
        let dtypes = used.buffers.iter().filter_map(|buf| Some(plan.buffers.get(*buf)?.dtype));
        let mut nearness = Nearness::of_types(dtypes)?;
        let mut elements = 0;
        for rank in 0..plan.n {
            let other = Self { rank, undefined: OnceCell::new(), ..*self };
            let named =
                |buf: &BufId| Some((plan.buffers.get(*buf)?, final_bytes(plan, forecast, observation, *buf, rank)?));
            let Some(buffers) = used.buffers.iter().map(named).collect::<Option<Vec<_>>>() else { continue };
            let buffers =
                buffers.iter().map(|(buffer, (dtype, bytes))| (buffer.name.as_str(), (*dtype, &**bytes))).collect();
            let places = used.elementwise.first().map(|buf| plan.buffers.get(*buf).and_then(|b| b.places.get(rank)));
            let count = places.map_or(1, |place| place.copied().flatten().map_or(0, |place| place.count));
            elements += count;
            if elements > MAX_ELEMENTS {
                return None;
            }
            for i in 0..count {
                let scope = other.scope(&buffers, i, false);
                let side = |node: &ExprNode| Some(node.eval_exact(&scope).ok()?.as_f64());
                nearness.add(side(left)?, side(right)?);
            }
        }
        let (words, tolerance) = nearness.tolerance()?;
        let advised = tolerance::within(left_text.trim(), right_text.trim(), tolerance);
        // Stops if a side is not an expression on its own, as in `(a == b) * c`.
        crate::expr::parse(&advised).ok()?;
        Some(format!("the library's result is {words}; `==` compares exactly: write `{advised}`"))
    }

    fn undefined_buffers(&self) -> UndefinedElements<'a> {
        let of = |buf: &BufId| {
            let region = whole_buffer(self.plan, *buf, self.rank)?;
            let found = undefined_elements(self.plan, self.last, region);
            (!found.is_empty()).then(|| Some((self.plan.buffers.get(*buf)?.name.as_str(), found)))?
        };
        self.used.buffers.iter().filter_map(of).collect()
    }

    fn scope<'b>(&'b self, buffers: &'b HashMap<&str, (DType, &'b [u8])>, i: u64, telling: bool) -> AssertScope<'b> {
        AssertScope {
            plan: self.plan,
            observation: self.observation,
            rank: self.rank,
            i,
            buffers,
            collect_values: telling,
            figure_missing: Cell::new(false),
            undefined: self.undefined.get_or_init(|| self.undefined_buffers()),
            undefined_read: Cell::new(false),
            values_read: RefCell::new(Vec::new()),
        }
    }
}

fn figure<'a>(plan: &Plan, observation: &'a Observation, rank: usize, step: &str) -> Option<&'a crate::job::Figure> {
    let tag = plan.tags.iter().position(|t| t == step)?;
    observation.ranks.get(rank)?.figures.iter().find(|f| f.tag as usize == tag)
}

/// A buffer's bytes at the end.
pub(crate) fn final_bytes<'a>(
    plan: &Plan,
    forecast: &'a Forecast,
    observation: &'a Observation,
    buf: BufId,
    rank: usize,
) -> Option<(DType, Cow<'a, [u8]>)> {
    let buffer = plan.buffers.get(buf)?;
    let place = buffer.places.get(rank).copied().flatten()?;
    let start = (plan.allocs.get(place.alloc)?.start() + place.offset) as usize;
    let len = place.count as usize * buffer.dtype.size();
    Some((buffer.dtype, image_bytes(forecast, observation, place.alloc, start..start + len)?))
}

/// The names of an assert, for one element on one rank.
struct AssertScope<'a> {
    plan: &'a Plan,
    observation: &'a Observation,
    rank: usize,
    i: u64,
    /// The buffers that the assertion names.
    buffers: &'a HashMap<&'a str, (DType, &'a [u8])>,
    /// True if the values that are read are stored in `values_read`.
    collect_values: bool,
    /// True once a figure was read that this backend does not count.
    figure_missing: Cell<bool>,
    /// The undefined elements of the buffers that have any.
    undefined: &'a UndefinedElements<'a>,
    /// True once an undefined element was read.
    undefined_read: Cell<bool>,
    /// Values that were read, as text for the finding.
    values_read: RefCell<Vec<String>>,
}

impl AssertScope<'_> {
    fn bytes(&self, name: &str) -> Option<(DType, &[u8])> {
        self.buffers.get(name).copied()
    }
    fn record_value(&self, what: impl FnOnce() -> String) {
        let mut read = self.values_read.borrow_mut();
        if !self.collect_values || read.len() >= 8 {
            return;
        }
        let what = what();
        if !read.contains(&what) {
            read.push(what);
        }
    }
}

impl Scope for AssertScope<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        let value = match name {
            "rank" | "world_rank" => Some(Value::Int(self.rank as i128)),
            "n" | "world_size" => Some(Value::Int(self.plan.n as i128)),
            "i" => Some(Value::Int(self.i.into())),
            axis => self.plan.case.axes.iter().find(|(name, _)| name == axis).map(|(_, value)| *value),
        };
        let Some(value) = value else { return self.element(name, self.i.into()) };
        self.record_value(|| format!("{name} is {}", number_text(value)));
        Ok(value)
    }

    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let (dtype, bytes) = self.bytes(buffer).ok_or_else(|| EvalError(format!("`{buffer}` has no value here")))?;
        let count = bytes.len() / dtype.size();
        let k = usize::try_from(index).ok().filter(|k| *k < count).ok_or_else(|| {
            EvalError(format!("`{buffer}[{index}]` is outside the buffer, which has {count} elements"))
        })?;
        if self.undefined.get(buffer).is_some_and(|ranges| is_in(ranges, k as u64)) {
            self.undefined_read.set(true);
        }
        let bits = get_element(dtype, bytes, k);
        self.record_value(|| format!("{buffer}[{k}] is {}", message::value_text(dtype, bits)));
        Ok(element_value(dtype, bits))
    }

    fn field(&self, step: &str, field: &str) -> Result<Value, EvalError> {
        let none = || EvalError(format!("`{step}.{field}` has no value here"));
        let figure = figure(self.plan, self.observation, self.rank, step).ok_or_else(none)?;
        if field == "seconds" {
            self.record_value(|| format!("{step}.seconds is {:.6}", figure.seconds));
            return Ok(Value::Float(figure.seconds));
        }
        let Some(traffic) = figure.traffic else {
            self.figure_missing.set(true);
            return Err(none());
        };
        let value = match field {
            "rounds" => traffic.rounds,
            "sent" => traffic.sent,
            "received" => traffic.received,
            "inner" => traffic.inner,
            _ => return Err(none()),
        };
        self.record_value(|| format!("{step}.{field} is {value}"));
        Ok(Value::Int(value.into()))
    }

    fn same(&self, a: &str, b: &str) -> Result<bool, EvalError> {
        let find = |name: &str| self.bytes(name).ok_or_else(|| EvalError(format!("`{name}` has no value here")));
        let ((ta, x), (tb, y)) = (find(a)?, find(b)?);
        if self.undefined.contains_key(a) || self.undefined.contains_key(b) {
            self.undefined_read.set(true);
        }
        if ta == tb && x == y {
            return Ok(true);
        }
        let size = ta.size();
        self.record_value(|| match x.chunks(size).zip(y.chunks(size)).position(|(p, q)| p != q) {
            Some(i) if ta == tb => {
                let (p, q) = message::value_texts(ta, get_element(ta, x, i), get_element(tb, y, i));
                format!("{a}[{i}] is {p}, {b}[{i}] is {q}")
            }
            _ => format!("{a} has {} {ta:?}, {b} has {} {tb:?}", x.len() / size, y.len() / tb.size()),
        });
        Ok(false)
    }
}
