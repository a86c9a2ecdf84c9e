//! `assert`: expressions over the final buffers and the figures of named steps.
use super::expect::is_undefined;
use super::findings::{FindingCollector, Priority};
use super::outputs::whole;
use super::{Finding, Lane, message};
use crate::expr::map::element_value;
use crate::expr::{EvalError, Expr, Func, Mode, Node, Scope, Value};
use crate::job::Observation;
use crate::num::{DType, get};
use crate::oracle::contents::Memory;
use crate::plan::asserts::uncounted;
use crate::plan::{BufId, Plan};
use crate::scenario::Sp;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Evaluates all of them on every rank that has all they name.
pub(crate) fn check(plan: &Plan, last: &[Memory], seen: &Observation, collector: &mut FindingCollector) {
    let ids: HashMap<&str, BufId> = plan.buffers.iter().enumerate().rev().map(|(i, b)| (b.name.as_str(), i)).collect();
    for assertion in &plan.case.asserts {
        let mut used = Used::default();
        used.node(&ids, &assertion.v.node);
        collector.looked(Lane::Expected, 0);
        let mut held = false;
        let eyes = collector.eyes;
        for rank in (0..plan.n).filter(|rank| eyes.rank(*rank)) {
            let all = used.all.iter().all(|b| plan.buffers[*b].places.get(rank).is_some_and(Option::is_some));
            let undefined = |b: &BufId| whole(plan, *b, rank).is_some_and(|region| is_undefined(plan, last, region));
            if all && used.all.iter().any(undefined) {
                held = true;
                collector
                    .note(format!("`{}` names undefined data and was not checked on rank {rank}", assertion.v.text));
                continue;
            }
            let tagged = used.tags.iter().all(|tag| figure(plan, seen, rank, tag).is_some());
            if all && tagged {
                held = true;
                one_rank(plan, seen, rank, assertion, &used, collector);
            }
        }
        if !held {
            let text = format!("`{}` was not checked: no rank has all that it names", assertion.v.text);
            // Among many cases some may leave out what an assert speaks of; a single one that does says nothing.
            if plan.case.swept {
                collector.note(text);
            } else {
                let finding = message::plain(Lane::Expected, text, assertion.v.text.clone(), "not checked".into());
                collector.find(Priority { kind: 3, event: 1 }, Finding { span: Some(assertion.span), ..finding });
            }
        }
    }
}

/// What an expression names.
#[derive(Default)]
struct Used {
    /// Buffers.
    all: Vec<BufId>,
    /// Those whose every element is meant.
    each: Vec<BufId>,
    /// Named steps.
    tags: Vec<String>,
}

impl Used {
    fn node(&mut self, ids: &HashMap<&str, BufId>, node: &Node) {
        match node {
            Node::Int(_) | Node::Float(_) => {}
            Node::Name(name) => self.buffer(ids, name, true),
            Node::Index(name, inner) => {
                self.buffer(ids, name, false);
                self.node(ids, inner);
            }
            Node::Field(step, _) => self.tags.push(step.clone()),
            Node::Neg(inner) => self.node(ids, inner),
            Node::Binary(_, a, b) => {
                self.node(ids, a);
                self.node(ids, b);
            }
            Node::Call(Func::Same, args) => {
                for arg in args {
                    if let Node::Name(name) = arg {
                        self.buffer(ids, name, false);
                    }
                }
            }
            Node::Call(_, args) => args.iter().for_each(|a| self.node(ids, a)),
        }
    }
    fn buffer(&mut self, ids: &HashMap<&str, BufId>, name: &str, each: bool) {
        let add = |list: &mut Vec<BufId>, buf| {
            if !list.contains(&buf) {
                list.push(buf);
            }
        };
        if let Some(buf) = ids.get(name) {
            add(&mut self.all, *buf);
            if each {
                add(&mut self.each, *buf);
            }
        }
    }
}

fn one_rank(
    plan: &Plan,
    seen: &Observation,
    rank: usize,
    assertion: &Sp<Expr>,
    used: &Used,
    collector: &mut FindingCollector,
) {
    let count = |buf: &BufId| plan.buffers[*buf].places[rank].map_or(0, |p| p.count);
    let counts: Vec<u64> = used.each.iter().map(count).collect();
    let text = &assertion.v.text;
    let finding = |text: String, actual: String| Finding {
        rank: Some(rank),
        span: Some(assertion.span),
        ..message::plain(Lane::Expected, text, assertion.v.text.clone(), actual)
    };
    let priority = Priority { kind: 3, event: 1 };
    if let Some(other) = counts.iter().find(|c| **c != counts[0]) {
        let words = format!("rank {rank}: assert `{text}` names buffers of {} and {other} elements", counts[0]);
        collector.find(priority, finding(words, "different counts".into()));
        return;
    }
    let elements = counts.first().copied();
    let total = elements.unwrap_or(1);
    let mut wrong = 0;
    let mut first: Option<(u64, String)> = None;
    let mut looked = 0;
    let eyes = collector.eyes;
    let dtype = used.each.first().map(|b| plan.buffers[*b].dtype);
    let named = |buf: &BufId| Some((plan.buffers[*buf].name.as_str(), bytes(plan, seen, *buf, rank)?));
    let buffers: HashMap<&str, (DType, &[u8])> = used.all.iter().filter_map(named).collect();
    let scope = |i, telling| Names {
        plan,
        seen,
        rank,
        i,
        buffers: &buffers,
        telling,
        unseen: Cell::new(false),
        read: RefCell::new(Vec::new()),
    };
    for i in (0..total).filter(|i| dtype.is_none_or(|dtype| eyes.element(dtype, *i))) {
        let quiet = scope(i, false);
        match assertion.v.eval(&quiet, Mode::Float) {
            Ok(value) if value.truth() && !value.as_f64().is_nan() => looked += 1,
            Err(_) if quiet.unseen.get() && used.tags.iter().any(|tag| uncounted(plan, rank, tag).is_some()) => {
                let why = used.tags.iter().find_map(|tag| uncounted(plan, rank, tag)).unwrap_or_default();
                let words = format!("rank {rank}: assert `{text}` cannot be checked: {why}");
                collector.find(priority, finding(words, "not known".into()));
                return;
            }
            Err(_) if quiet.unseen.get() => {
                collector.note(format!("`{text}` was not checked: this backend does not count that"));
                return;
            }
            result => {
                wrong += 1;
                first.get_or_insert_with(|| {
                    // Evaluated again to collect what was read: texts for every element would cost more than the values.
                    let scope = scope(i, true);
                    let _ = assertion.v.eval(&scope, Mode::Float);
                    let mut seen = scope.read.into_inner();
                    if let Err(error) = result {
                        seen.push(error.to_string());
                    }
                    (i, seen.join(", "))
                });
            }
        }
    }
    collector.looked(Lane::Expected, looked + wrong);
    let Some((i, values)) = first else { return };
    let place =
        if elements.is_some() { format!(" for element {i} ({wrong} of {total} elements)") } else { String::new() };
    let words = format!("rank {rank}: assert `{text}` does not hold{place}: {values}");
    let mut finding = finding(words, values);
    (finding.wrong, finding.of) = (wrong, total);
    finding.element = elements.map(|_| i);
    finding.buffer = used.each.first().map(|b| plan.buffers[*b].name.clone());
    collector.find(priority, finding);
}

fn figure<'a>(plan: &Plan, seen: &'a Observation, rank: usize, step: &str) -> Option<&'a crate::job::Figure> {
    let tag = plan.tags.iter().position(|t| t == step)?;
    seen.ranks.get(rank)?.figures.iter().find(|f| f.tag as usize == tag)
}

/// A buffer's bytes at the end.
fn bytes<'a>(plan: &Plan, seen: &'a Observation, buf: BufId, rank: usize) -> Option<(DType, &'a [u8])> {
    let buffer = plan.buffers.get(buf)?;
    let place = buffer.places.get(rank).copied().flatten()?;
    let start = (plan.allocs.get(place.alloc)?.start() + place.offset) as usize;
    let len = place.count as usize * buffer.dtype.size();
    Some((buffer.dtype, seen.images.get(place.alloc)?.get(start..start + len)?))
}

struct Names<'a> {
    plan: &'a Plan,
    seen: &'a Observation,
    rank: usize,
    i: u64,
    /// The buffers that the assertion names.
    buffers: &'a HashMap<&'a str, (DType, &'a [u8])>,
    /// True if the values that are read are collected as text.
    telling: bool,
    /// A figure was asked for that the backend cannot see.
    unseen: Cell<bool>,
    /// What was read, for people.
    read: RefCell<Vec<String>>,
}

impl Names<'_> {
    fn bytes(&self, name: &str) -> Option<(DType, &[u8])> {
        self.buffers.get(name).copied()
    }
    fn saw(&self, what: impl FnOnce() -> String) {
        let mut read = self.read.borrow_mut();
        if !self.telling || read.len() >= 8 {
            return;
        }
        let what = what();
        if !read.contains(&what) {
            read.push(what);
        }
    }
}

impl Scope for Names<'_> {
    fn name(&self, name: &str) -> Result<Value, EvalError> {
        match name {
            "rank" | "world_rank" => return Ok(Value::Int(self.rank as i128)),
            "n" | "world_size" => return Ok(Value::Int(self.plan.n as i128)),
            "i" => return Ok(Value::Int(self.i.into())),
            _ => {}
        }
        if let Some((_, value)) = self.plan.case.axes.iter().find(|(axis, _)| axis == name) {
            return Ok(*value);
        }
        self.element(name, self.i.into())
    }

    fn element(&self, buffer: &str, index: i128) -> Result<Value, EvalError> {
        let (dtype, bytes) = self.bytes(buffer).ok_or_else(|| EvalError(format!("`{buffer}` has no value here")))?;
        let count = bytes.len() / dtype.size();
        let k = usize::try_from(index).ok().filter(|k| *k < count).ok_or_else(|| {
            EvalError(format!("`{buffer}[{index}]` is outside the buffer, which has {count} elements"))
        })?;
        let bits = get(dtype, bytes, k);
        self.saw(|| format!("{buffer}[{k}] is {}", message::value(dtype, bits)));
        Ok(element_value(dtype, bits))
    }

    fn field(&self, step: &str, field: &str) -> Result<Value, EvalError> {
        let none = || EvalError(format!("`{step}.{field}` has no value here"));
        let figure = figure(self.plan, self.seen, self.rank, step).ok_or_else(none)?;
        if field == "seconds" {
            self.saw(|| format!("{step}.seconds is {:.6}", figure.seconds));
            return Ok(Value::Float(figure.seconds));
        }
        let Some(traffic) = figure.traffic else {
            self.unseen.set(true);
            return Err(none());
        };
        let value = match field {
            "rounds" => traffic.rounds,
            "sent" => traffic.sent,
            "received" => traffic.received,
            "inner" => traffic.inner,
            _ => return Err(none()),
        };
        self.saw(|| format!("{step}.{field} is {value}"));
        Ok(Value::Int(value.into()))
    }

    fn same(&self, a: &str, b: &str) -> Result<bool, EvalError> {
        let find = |name: &str| self.bytes(name).ok_or_else(|| EvalError(format!("`{name}` has no value here")));
        let ((ta, x), (tb, y)) = (find(a)?, find(b)?);
        if ta == tb && x == y {
            return Ok(true);
        }
        let size = ta.size();
        self.saw(|| match x.chunks(size).zip(y.chunks(size)).position(|(p, q)| p != q) {
            Some(i) if ta == tb => format!(
                "{a}[{i}] is {}, {b}[{i}] is {}",
                message::value(ta, get(ta, x, i)),
                message::value(tb, get(tb, y, i))
            ),
            _ => format!("{a} has {} {ta:?}, {b} has {} {tb:?}", x.len() / size, y.len() / tb.size()),
        });
        Ok(false)
    }
}
