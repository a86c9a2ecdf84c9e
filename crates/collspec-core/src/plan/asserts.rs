//! Checks `assert`s against the plan: names, lengths, indices, and the figures of steps.
use super::eval::{Names, elements, named};
use super::types::{Buffer, Plan};
use crate::expr::{EvalError, ExprNode, Func, Mode, Value};
use crate::job::{Call, CallKind};
use crate::scenario::{Diagnostic, Expr, Span, Spanned};
use std::collections::HashSet;

/// The buffers that an `assert` names, and the ranks on which it can be checked.
struct Named<'a> {
    buffers: Vec<&'a Buffer>,
    /// Those named without an index: every element is checked.
    each: Vec<&'a Buffer>,
    /// Ranks that have all of these buffers and run the steps that are named.
    ranks: Vec<usize>,
}

/// Pairs of rank and step name: the named steps that each rank runs.
pub struct Begun(HashSet<(usize, u32)>);

impl Begun {
    /// Collects the named steps of a plan.
    pub fn of(plan: &Plan) -> Self {
        let ranks = plan.programs.iter().enumerate();
        let begun = ranks.flat_map(|(rank, calls)| {
            calls.iter().filter_map(move |call| match call.kind {
                CallKind::Begin { tag, .. } => Some((rank, tag)),
                _ => None,
            })
        });
        Self(begun.collect())
    }
}

impl<'a> Named<'a> {
    fn of(plan: &'a Plan, begun: &Begun, expr: &Expr) -> Self {
        let names = named(expr);
        let buffers: Vec<&Buffer> = plan.buffers.iter().filter(|b| names.contains(&b.name)).collect();
        let tags: Vec<u32> =
            (0..).zip(&plan.tags).filter(|(_, name)| names.contains(name)).map(|(tag, _)| tag).collect();
        let has = |rank: &usize| {
            buffers.iter().all(|b| count(b, *rank).is_some()) && tags.iter().all(|tag| begun.0.contains(&(*rank, *tag)))
        };
        let ranks = (0..plan.n).filter(has).collect();
        let bare = expr.bare_names();
        let each = buffers.iter().filter(|b| bare.contains(&b.name.as_str())).copied().collect();
        Self { buffers, each, ranks }
    }
}

fn count(buffer: &Buffer, rank: usize) -> Option<u64> {
    Some(buffer.places.get(rank).copied().flatten()?.count)
}

/// Checks everything that does not depend on elements: the names in an `assert`, the lengths of its buffers, and that some rank can
/// check it.
pub fn check(plan: &Plan, begun: &Begun, a: &Spanned<Expr>) -> Option<Diagnostic> {
    let names = named(&a.value);
    let unknown = |name: &&String| {
        let known = plan.buffers.iter().any(|b| b.name == **name) || plan.tags.contains(name);
        !known && !plan.case.axes.iter().any(|(axis, _)| axis == *name)
    };
    if let Some(name) = names.iter().find(unknown) {
        return Some(Diagnostic::new(a.span, format!("`{name}` is not a buffer, step or axis of this case")));
    }
    let named = Named::of(plan, begun, &a.value);
    checks_nothing(plan, a, &named).or_else(|| of_unlike_lengths(a, &named))
}

/// Reports a single case's assert that no rank can check. In a sweep some cases may lack what an assert refers to; the report
/// then says so.
fn checks_nothing(plan: &Plan, a: &Spanned<Expr>, Named { each, ranks, .. }: &Named<'_>) -> Option<Diagnostic> {
    if plan.case.swept {
        return None;
    }
    if ranks.is_empty() {
        let text = format!("`{}` cannot be checked: no rank has all that it names", a.value.text);
        return Some(Diagnostic::new(a.span, text));
    }
    let empty = |rank: &usize| each.iter().all(|b| count(b, *rank) == Some(0));
    (!each.is_empty() && ranks.iter().all(empty)).then(|| {
        let text = format!("`{}` cannot be checked: the buffers that it names have no elements", a.value.text);
        Diagnostic::new(a.span, text)
    })
}

/// For a comparison element by element, buffers must be equally long.
fn of_unlike_lengths(a: &Spanned<Expr>, Named { each, ranks, .. }: &Named<'_>) -> Option<Diagnostic> {
    let first = each.first()?;
    ranks.iter().find_map(|rank| {
        let have = count(first, *rank)?;
        let (other, than) = each.iter().find_map(|b| Some((b, count(b, *rank).filter(|c| *c != have)?)))?;
        let text = format!(
            "on rank {rank} `{}` has {} and `{}` has {}",
            first.name,
            elements(have),
            other.name,
            elements(than)
        );
        let help = "buffers named without an index are compared element by element, so they must be equally long";
        Some(Diagnostic::new(a.span, text).help(help))
    })
}

/// True if an `assert` may read something that does not exist: it has an index, or a figure of a step.
pub fn looks_beyond(expr: &Expr) -> bool {
    let mut looks = false;
    expr.node.visit(&mut |node| looks |= matches!(node, ExprNode::Index(..) | ExprNode::Field(..)));
    looks
}

/// Limit on the nodes of expressions, and calls, that are visited in a case to find what `assert`s read. Errors in the rest appear
/// when the `assert` is evaluated.
const MAX_LOOKED_AT: u64 = 10_000_000;

/// Errors in the reads of the plan's `assert`s that do not depend on data: an index outside its buffer or without a value,
/// or a figure that no backend counts.
pub fn check_elements(plan: &Plan) -> Vec<Diagnostic> {
    let asserts: Vec<&Spanned<Expr>> = plan.case.asserts.iter().filter(|a| looks_beyond(&a.value)).collect();
    if asserts.is_empty() {
        return Vec::new();
    }
    let begun = Begun::of(plan);
    let mut left = MAX_LOOKED_AT;
    asserts.into_iter().filter_map(|a| reads_beyond(plan, &begun, a, &mut left)).collect()
}

fn reads_beyond(plan: &Plan, begun: &Begun, a: &Spanned<Expr>, left: &mut u64) -> Option<Diagnostic> {
    let Named { buffers, each, ranks } = Named::of(plan, begun, &a.value);
    for rank in ranks {
        let total = each.first().and_then(|b| count(b, rank)).unwrap_or(1);
        let names = Names::world(&plan.case, rank);
        let mut reader = Reader { plan, buffers: &buffers, rank, names, counts_i: false, left };
        for i in 0..total {
            reader.names.i = Some(i);
            if let Err(wrong) = reader.read(&a.value.node, EXACT) {
                return Some(wrong.diagnostic(a));
            }
            if !reader.counts_i || *reader.left == 0 {
                break;
            }
        }
    }
    None
}

/// The error in a read.
enum Wrong {
    Index(String),
    Figure(Uncounted),
}

impl Wrong {
    fn diagnostic(self, a: &Spanned<Expr>) -> Diagnostic {
        let (why, cause, help) = match self {
            Self::Index(why) => (why, None, None),
            Self::Figure(Uncounted { why, cause, help }) => (why, cause, help),
        };
        let mut diagnostic = Diagnostic::new(a.span, format!("`{}`: {why}", a.value.text));
        if let Some((span, what)) = cause {
            diagnostic = diagnostic.related(span, what);
        }
        match help {
            Some(help) => diagnostic.help(help),
            None => diagnostic,
        }
    }
}

/// The arithmetic of a part of an `assert`.
type Evaluate = fn(&ExprNode, &Names<'_>) -> Result<Value, EvalError>;
/// The arithmetic of an index.
const WHOLE: Evaluate = |node, names| node.eval(names, Mode::Whole);
/// The arithmetic of everything else.
const EXACT: Evaluate = |node, names| node.eval_exact(names);

/// Follows an `assert` for one element of one rank, until its course depends on data.
struct Reader<'a> {
    plan: &'a Plan,
    buffers: &'a [&'a Buffer],
    rank: usize,
    names: Names<'a>,
    /// True if an expression that was visited depends on `i`.
    counts_i: bool,
    /// Remaining number of nodes and calls that may be visited.
    left: &'a mut u64,
}

impl Reader<'_> {
    /// False once the limit on visits is reached.
    fn may_look(&mut self, at: usize) -> bool {
        *self.left = self.left.saturating_sub(at as u64);
        *self.left > 0
    }

    fn read(&mut self, node: &ExprNode, evaluate: Evaluate) -> Result<(), Wrong> {
        if !self.may_look(1) {
            return Ok(());
        }
        match node {
            ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Name(_) | ExprNode::Call(Func::Same, _) => Ok(()),
            ExprNode::Field(_, field) if field == "seconds" => Ok(()),
            ExprNode::Field(step, _) => {
                let calls = self.plan.programs.get(self.rank).map_or(0, Vec::len);
                let why = if self.may_look(calls) { uncounted(self.plan, self.rank, step) } else { None };
                why.map_or(Ok(()), |why| Err(Wrong::Figure(why)))
            }
            ExprNode::Index(name, index) => {
                self.read(index, WHOLE)?;
                self.index(name, index).map_err(Wrong::Index)
            }
            ExprNode::Neg(inner) => self.read(inner, evaluate),
            ExprNode::Binary(_, left, right) => {
                self.read(left, evaluate)?;
                self.read(right, evaluate)
            }
            ExprNode::Call(Func::If, args) => {
                let [condition, yes, no] = args.as_slice() else { return Ok(()) };
                self.read(condition, evaluate)?;
                match self.value(condition, evaluate) {
                    Some(Ok(value)) => self.read(if value.truth() { yes } else { no }, evaluate),
                    // Missing values are left to the report, and so is everything that depends on data.
                    Some(Err(_)) | None => Ok(()),
                }
            }
            ExprNode::Call(_, args) => args.iter().try_for_each(|arg| self.read(arg, evaluate)),
        }
    }

    fn index(&mut self, name: &str, index: &ExprNode) -> Result<(), String> {
        let Some(value) = self.value(index, WHOLE) else { return Ok(()) };
        let on = format!("on rank {}", self.rank);
        let k = value.and_then(|value| value.to_int().map_err(|e| e.to_string()));
        let k = k.map_err(|why| format!("an index of `{name}` has no value {on}: {why}"))?;
        let have = self.buffers.iter().find(|b| b.name == name).and_then(|b| count(b, self.rank));
        match have {
            Some(have) if !u64::try_from(k).is_ok_and(|k| k < have) => {
                Err(format!("`{name}[{k}]` is outside of the buffer, which has {} {on}", elements(have)))
            }
            _ => Ok(()),
        }
    }

    /// The value of a part that reads no data; `None` if it does.
    fn value(&mut self, node: &ExprNode, evaluate: Evaluate) -> Option<Result<Value, String>> {
        let (mut data, mut nodes) = (false, 0);
        let buffers = self.buffers;
        node.visit(&mut |node| {
            nodes += 2;
            match node {
                ExprNode::Name(name) if name == "i" => self.counts_i = true,
                ExprNode::Name(name) => data |= buffers.iter().any(|b| b.name == *name),
                ExprNode::Index(..) | ExprNode::Field(..) | ExprNode::Call(Func::Same, _) => data = true,
                _ => {}
            }
        });
        (self.may_look(nodes) && !data).then(|| evaluate(node, &self.names).map_err(|e| e.to_string()))
    }
}

/// The reason a named step does not have counts on any backend.
pub struct Uncounted {
    /// The reason, in words.
    pub why: String,
    /// The step that is the cause, and its effect.
    pub cause: Option<(Span, &'static str)>,
    /// The suggested replacement.
    pub help: Option<&'static str>,
}

/// The reason a named step does not have counts on any backend, if so: it makes no call, its communicator took the counts with
/// it, or chance decides how far the call got.
pub fn uncounted(plan: &Plan, rank: usize, step: &str) -> Option<Uncounted> {
    let tag = plan.tags.iter().position(|t| t == step)?;
    let calls = || plan.programs.get(rank).into_iter().flatten();
    let on: Vec<u32> = calls()
        .filter_map(|call| match call.kind {
            CallKind::Begin { tag: t, comm } if t as usize == tag => comm,
            _ => None,
        })
        .collect();
    let plain = |why: String| Uncounted { why, cause: None, help: None };
    if on.is_empty() {
        return Some(plain(format!("`{step}` is not a call of the library, so nothing is counted for it")));
    }
    let ends =
        |kind: &CallKind| matches!(kind, CallKind::Destroy { comm } | CallKind::Abort { comm } if on.contains(comm));
    if calls().any(|call| ends(&call.kind)) {
        return Some(plain(format!("the counts of `{step}` went with its communicator")));
    }
    let cut_short = |call: &&Call| match &call.kind {
        CallKind::Revoke { comm } => on.contains(comm) && (!call.tolerate || call.left_in_progress),
        CallKind::Shrink { parent, abort: true, new: Some(_), .. } => on.contains(parent),
        _ => false,
    };
    let span = |call: &Call| plan.steps.get(call.step as usize).map(|step| step.span);
    let unread = |why: &str, cause: Option<(Span, &'static str)>| Uncounted {
        why: format!("the library's counts of `{step}` cannot be read: {why}"),
        cause,
        help: Some("leave this `assert` out, or name a step of a communicator that stays"),
    };
    if let Some(call) = calls().find(cut_short) {
        return Some(unread("its communicator is ended", span(call).map(|span| (span, "ended here"))));
    }
    let dead_with = |call: &&Call| match &call.kind {
        CallKind::AwaitDeath { ranks, .. } => on.iter().any(|comm| {
            let members = plan.comms.get(*comm as usize).map(|comm| comm.members.as_slice()).unwrap_or_default();
            members.iter().any(|member| ranks.iter().any(|rank| *rank as usize == *member))
        }),
        CallKind::Exit { death: Some(_), .. } => true,
        _ => false,
    };
    loses_calls(plan, rank, tag).then(|| {
        let cause = calls().find(dead_with).and_then(span).map(|span| (span, "its process ends here"));
        unread("its communicator loses a rank before the operation is over", cause)
    })
}

/// True if a call of a named step is lost with a rank whose process ends.
fn loses_calls(plan: &Plan, rank: usize, tag: usize) -> bool {
    let mut inside = false;
    plan.programs.get(rank).into_iter().flatten().enumerate().any(|(index, call)| {
        match call.kind {
            CallKind::Begin { tag: t, .. } if t as usize == tag => inside = true,
            CallKind::End { tag: t, .. } if t as usize == tag => inside = false,
            _ => {}
        }
        inside && plan.lost.contains(&(rank, index))
    })
}
