//! Steps: the keys of each operation, defaults pushed down to the steps that have a use for them.
use super::buffers;
use super::case::*;
use super::comms;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, Span};
use super::keys::{self, Place, Type};
use super::names::bad_name;
use super::reader::{Cx, Names, Per, Want};
use super::step_values::{counts, reduction, residence, step_error};
use super::tree::{Entry, Kind, Table, Val};
use crate::expr::{Expr, Node};
use crate::ops::{self, Composite, Host, Op};
use crate::suggest::nearest;

/// Where a step stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    Program,
    Group,
    /// The short form: the step's keys stand at the top of the file.
    Short,
}

/// A list of steps.
pub(crate) fn list(cx: &mut Cx<'_>, val: &Val, defaults: &Defaults<'_>, around: Around) -> Vec<Step> {
    let Kind::Array(entries) = &val.kind else {
        cx.wrong_type("steps", Type::Steps, val);
        return Vec::new();
    };
    // A program may make an empty group call; an empty program or loop is a mistake.
    if entries.is_empty() && around != Around::Group {
        cx.fault(Diagnostic::new(val.span, "`steps` has no step"));
    }
    let mut out = Vec::new();
    for v in entries.iter() {
        if cx.enough() {
            break;
        }
        match &v.kind {
            Kind::Table(t) => out.extend(step(cx, t, v.span, defaults, around)),
            _ => cx.fault(Diagnostic::new(v.span, "a step must be a table").label(format!("this is {}", v.what()))),
        }
    }
    out
}

/// One step. `None` if its operation is not known; faults in its keys leave holes that nobody sees, because a file with
/// faults has no cases.
pub(crate) fn step(
    cx: &mut Cx<'_>,
    table: &Table,
    span: Span,
    defaults: &Defaults<'_>,
    around: Around,
) -> Option<Step> {
    let Some(word) = table.get("op") else {
        let d = Diagnostic::new(span, "this step has no `op`");
        cx.fault(d.help("every step names its operation: `op = \"all_reduce\"`"));
        return None;
    };
    let text = cx.text("op", &word.val)?;
    let Some(op) = ops::find(&text.v) else {
        let d = Diagnostic::new(text.span, format!("there is no operation `{}`", text.v.escape_debug()));
        cx.fault(match nearest(&text.v, ops::TABLE.iter().map(|o| o.name)) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!(
                "the operations are {}",
                ops::TABLE.iter().map(|o| o.name).collect::<Vec<_>>().join(", ")
            )),
        });
        return None;
    };
    let nests = matches!(op.kind, ops::Kind::Group | ops::Kind::Loop);
    check_keys(cx, table, span, op, nests, around);
    if let Some(missing) = op.missing {
        cx.fault(Diagnostic::new(text.span, format!("`{}` is {missing}", op.name)));
    }
    if around == Around::Group {
        only_nccl_calls(cx, op, text.span);
    }
    let reader = StepReader { table, defaults, op, short: around == Around::Short, span: text.span };
    Some(reader.read(cx, nests))
}

fn check_keys(cx: &mut Cx<'_>, table: &Table, span: Span, op: &'static Op, nests: bool, around: Around) {
    let short = around == Around::Short;
    for e in &table.entries {
        let name = &*e.key;
        let fine = (keys::on_step(op, name) && !(short && matches!(name, "in" | "out" | "steps")))
            || (nests && keys::stars().any(|s| s == name))
            || (short && keys::at_top(name));
        if fine {
            continue;
        }
        if short && matches!(name, "in" | "out") {
            let d = Diagnostic::new(e.key_span, format!("`{name}` stands at the top of the file"));
            cx.fault(d.help("the short form's buffers are called `in` and `out`; to choose names, write `steps`"));
        } else if keys::find(Place::Step, name).is_some() {
            let d = Diagnostic::new(e.key_span, format!("`{}` has no use for `{name}`", op.name));
            cx.fault(d.help(format!("its keys are {}", step_keys(op).collect::<Vec<_>>().join(", "))));
        } else {
            let mut allowed: Vec<_> = step_keys(op).collect();
            if short {
                allowed.extend(keys::of(Place::File).chain(keys::stars()));
            }
            let one = Table { entries: vec![e.clone()] };
            cx.check_keys(&one, span, &allowed, &if short { "the file".to_owned() } else { format!("`{}`", op.name) });
        }
    }
}

fn step_keys(op: &'static Op) -> impl Iterator<Item = &'static str> {
    ops::COMMON_KEYS.iter().chain(op.keys).copied()
}

fn only_nccl_calls(cx: &mut Cx<'_>, op: &Op, span: Span) {
    use ops::Kind as K;
    let why = match op.kind {
        K::Collective(_) | K::Send | K::Recv | K::SendRecv | K::Group | K::Comm(_) | K::Later => return,
        K::Composite(Composite::AllGatherV | Composite::AllToAllV) => return,
        K::Composite(Composite::Barrier) => "a barrier waits on the host",
        K::Map => "a map is no NCCL call",
        K::Loop => "a loop is no NCCL call",
        K::Host(_) => "it is no NCCL call",
    };
    cx.fault(Diagnostic::new(span, format!("`{}` cannot stand in a group", op.name)).label(why));
}

/// Reads one step's keys.
struct StepReader<'t, 'd> {
    table: &'t Table,
    defaults: &'d Defaults<'t>,
    op: &'static Op,
    short: bool,
    span: Span,
}

impl<'t> StepReader<'t, '_> {
    /// What is written on the step itself (in the short form, what is no default).
    fn own(&self, key: &str) -> Option<&'t Entry> {
        let mine = !self.short || !keys::stars().any(|s| s == key);
        self.table.get(key).filter(|_| mine && keys::on_step(self.op, key))
    }

    /// On the step, else the innermost default; nothing if the operation has no use for it.
    fn find(&self, cx: &mut Cx<'_>, key: &str) -> Option<&'t Entry> {
        if !keys::on_step(self.op, key) {
            return None;
        }
        let default = self.defaults.find(cx, key);
        self.own(key).or(default)
    }

    fn num(&self, cx: &mut Cx<'_>, key: &str, want: Want) -> Option<Num> {
        let entry = self.own(key)?;
        cx.num(key, &entry.val, Names::STEP, want, Per::Communicator)
    }

    fn read(self, cx: &mut Cx<'_>, nests: bool) -> Step {
        let input = self.buffer(cx, "in", false);
        let output = self.buffer(cx, "out", true);
        let in_place = self.find(cx, "in_place");
        let in_place = in_place.and_then(|e| cx.num("in_place", &e.val, Names::STEP, Want::Bool, Per::Communicator));
        let place = self.place(cx);
        let root = self.find(cx, "root");
        let mut step = Step {
            span: self.span,
            op: self.op,
            name: self.name(cx),
            reduce: self.reduce(cx),
            root: root.and_then(|e| cx.num("root", &e.val, Names::STEP, Want::Whole, Per::Communicator)),
            place,
            ranks: Ranks::All,
            own_ranks: !nests && self.table.get("ranks").is_some(),
            null_pointers: self
                .find(cx, "null_pointers")
                .and_then(|e| cx.bool("null_pointers", &e.val))
                .unwrap_or(false),
            stream: "main".to_owned(),
            after: self.after(cx),
            times: self.num(cx, "times", Want::Natural),
            error: self.own("error").and_then(|e| step_error(cx, &e.val)),
            peer: self.num(cx, "peer", Want::Whole),
            to: self.num(cx, "to", Want::Whole),
            from: self.num(cx, "from", Want::Whole),
            count: self.num(cx, "count", Want::Natural),
            counts: self.own("counts").and_then(|e| counts(cx, &e.val)),
            expr: self.own("expr").and_then(|e| cx.expr(&e.val, Names::MAP)),
            dtype: None,
            seconds: self.num(cx, "seconds", Want::Real),
            wait_stream: None,
            new: comms::on_step(cx, self.table, self.op, self.defaults),
            steps: Vec::new(),
            input,
            output,
            in_place,
        };
        // In the short form `count` and `dtype` at the top are the input's.
        if let Some(e) = self.own("dtype") {
            step.dtype = buffers::dtype(cx, &e.val).map(|v| Sp { span: e.val.span, v });
        }
        if let (ops::Kind::Map, Some(expr)) = (&self.op.kind, &step.expr)
            && !names_buffer(cx, &expr.v)
        {
            self.map_from_defaults(cx, &mut step.count, &mut step.dtype);
        }
        // An empty group has no steps that could inherit `ranks`.
        let empty =
            nests && self.own("steps").is_some_and(|e| matches!(&e.val.kind, Kind::Array(list) if list.is_empty()));
        if (!nests || empty)
            && let Some(e) = self.find(cx, "ranks")
        {
            cx.used.defaults.insert(e.key_span);
            step.ranks = cx.ranks(&e.val).unwrap_or(Ranks::All);
        }
        self.streams(cx, &mut step);
        self.after_others(cx, &step);
        self.not_yet(cx);
        self.required(cx, &step);
        if nests {
            self.inner(cx, &mut step);
        }
        step
    }

    fn inner(&self, cx: &mut Cx<'_>, step: &mut Step) {
        let Some(e) = self.own("steps") else { return };
        let around = if matches!(self.op.kind, ops::Kind::Group) { Around::Group } else { Around::Program };
        step.steps = list(cx, &e.val, &self.defaults.with(self.table), around);
    }

    /// A map that reads no buffer takes count and dtype from the defaults.
    fn map_from_defaults(&self, cx: &mut Cx<'_>, count: &mut Option<Num>, dtype: &mut Option<Sp<crate::num::DType>>) {
        if count.is_none() {
            let e = self.defaults.find(cx, "count");
            *count = e.and_then(|e| cx.num("count", &e.val, Names::STEP, Want::Natural, Per::Communicator));
            if e.is_none() {
                let d = Diagnostic::new(self.span, "this map reads no buffer and has no `count`");
                cx.fault(d.help("write `count = ...`, the elements of `out`"));
            }
        }
        if dtype.is_none() {
            let e = self.defaults.find(cx, "dtype");
            *dtype = e.and_then(|e| buffers::dtype(cx, &e.val).map(|v| Sp { span: e.val.span, v }));
        }
    }

    fn buffer(&self, cx: &mut Cx<'_>, key: &'static str, writes: bool) -> Option<BufRef> {
        if self.short {
            let has = self.op.keys.contains(&key);
            if has {
                cx.used.buffers.insert(key.to_owned());
                if !writes && self.table.get("inputs").is_none() {
                    let d = Diagnostic::new(
                        self.span,
                        format!("`{}` reads a buffer, and there are no `inputs`", self.op.name),
                    );
                    cx.fault(d.help(
                        "write `inputs = [[...], [...]]`, one row per rank, or `inputs = { each = ..., count = ... }`",
                    ));
                }
            }
            return has.then(|| BufRef { span: self.span, name: key.to_owned(), slice: None });
        }
        let e = self.own(key)?;
        if writes && !matches!(self.op.kind, ops::Kind::Later) {
            if let (Kind::Str(s), Some(r)) = (&e.val.kind, cx.buf_ref(key, &e.val, Names::STEP, true)) {
                if let Some((message, help)) = bad_name(&r.name) {
                    let place = cx.inside(e.val.span, s, 0, r.name.len());
                    cx.fault(Diagnostic::new(place, message).help(help));
                }
                if cx.axes.iter().any(|a| a.name == r.name && a.value.is_some()) {
                    let d = Diagnostic::new(e.val.span, format!("`{}` is an axis of the matrix already", r.name));
                    cx.fault(d);
                }
                // An output that was an input is used by being written.
                cx.used.buffers.insert(r.name.clone());
                return Some(r);
            }
            return None;
        }
        cx.buf_ref(key, &e.val, Names::STEP, false)
    }

    fn name(&self, cx: &mut Cx<'_>) -> Option<Sp<String>> {
        let name = self.own("name").and_then(|e| cx.text("name", &e.val))?;
        if let Some((message, help)) = bad_name(&name.v) {
            cx.fault(Diagnostic::new(name.span, message).help(help));
        }
        Some(name)
    }

    /// `comm` or `groups`, whichever is nearer.
    fn place(&self, cx: &mut Cx<'_>) -> Where {
        let world = Where::Comm(Sp { span: self.span, v: "world".to_owned() });
        let nests = matches!(self.op.kind, ops::Kind::Group | ops::Kind::Loop);
        let init = matches!(self.op.kind, ops::Kind::Comm(ops::CommOp::Init));
        let can: Vec<&str> =
            ["comm", "groups"].into_iter().filter(|k| !init && (nests || self.op.keys.contains(k))).collect();
        if can.is_empty() {
            return world;
        }
        if let (false, Some(c), Some(g)) = (init, self.table.get("comm"), self.table.get("groups"))
            && can.len() == 2
        {
            let d = Diagnostic::new(g.key_span, "`groups` and `comm` exclude each other");
            cx.fault(d.related(c.key_span, "the other one"));
            return world;
        }
        let own = can.iter().find_map(|k| self.table.get(k)).filter(|_| !self.short);
        // On a group or loop it is a default for what is inside, which says whether it was used.
        let default = if nests { self.defaults.peek(&can) } else { self.defaults.any(cx, &can) };
        let entry = own.or(default);
        match entry {
            None => world,
            Some(e) if &*e.key == "comm" => comms::reference(cx, &e.val).map_or(world, Where::Comm),
            Some(e) => cx.groups(&e.val).map_or(world, Where::Groups),
        }
    }

    fn reduce(&self, cx: &mut Cx<'_>) -> Option<Sp<Reduce>> {
        let entry = self.find(cx, "reduce");
        let factor = match entry.map(|e| &e.val.kind) {
            Some(Kind::Table(t)) => Some(t),
            _ => None,
        };
        if let (None, Some(e)) = (factor, self.own("scalar")) {
            residence(cx, &e.val);
            cx.fault(Diagnostic::new(e.val.span, "`scalar` belongs to `reduce = { premul_sum = ... }`"));
        }
        let entry = entry?;
        // Only a premul_sum has a factor whose place `scalar` could set.
        let scalar = factor.and_then(|_| self.find(cx, "scalar"));
        if let (Some(inside), Some(beside)) = (factor.and_then(|t| t.get("scalar")), self.own("scalar")) {
            let d = Diagnostic::new(beside.key_span, "`scalar` stands in `reduce` already");
            cx.fault(d.related(inside.key_span, "the other one"));
        }
        let device = scalar.and_then(|e| residence(cx, &e.val));
        reduction(cx, &entry.val, device)
    }

    fn after(&self, cx: &mut Cx<'_>) -> Vec<Sp<String>> {
        let names = self.own("after").and_then(|e| cx.texts("after", &e.val)).unwrap_or_default();
        for (at, n) in names.iter().enumerate() {
            known_stream(cx, n);
            if let Some(first) = names[..at].iter().find(|other| other.v == n.v) {
                let d = Diagnostic::new(n.span, format!("the stream `{}` stands here twice", n.v.escape_debug()));
                cx.fault(d.related(first.span, "first here"));
            }
        }
        names
    }

    fn streams(&self, cx: &mut Cx<'_>, step: &mut Step) {
        let Some(name) = self.find(cx, "stream").and_then(|e| cx.text("stream", &e.val)) else { return };
        if let Some((message, help)) = bad_name(&name.v) {
            cx.fault(Diagnostic::new(name.span, message).help(help));
        }
        if matches!(self.op.kind, ops::Kind::Host(Host::Wait)) {
            known_stream(cx, &name);
            step.wait_stream = Some(name);
        } else {
            step.stream = name.v;
        }
    }

    /// A stream's own work is in order already.
    fn after_others(&self, cx: &mut Cx<'_>, step: &Step) {
        if let Some(own) = step.after.iter().find(|name| name.v == step.stream) {
            let text = format!(
                "this step runs on `{}` itself, so it comes after that stream's work anyway",
                own.v.escape_debug()
            );
            cx.fault(Diagnostic::new(own.span, text).help("`after` names other streams"));
        }
    }

    /// Keys that are known and checked, and left to a later build.
    fn not_yet(&self, cx: &mut Cx<'_>) {
        if self.op.missing.is_some() {
            return;
        }
        if let Some(e) = self.find(cx, "graph")
            && cx.text("graph", &e.val).is_some()
        {
            cx.fault(Diagnostic::new(e.key_span, "`graph` is not yet supported"));
        }
    }

    fn required(&self, cx: &mut Cx<'_>, step: &Step) {
        use ops::Kind as K;
        let has = |key: &str| self.table.get(key).is_some();
        let mut wanted: Vec<&str> = match self.op.kind {
            K::Send | K::Recv => vec!["peer"],
            K::Composite(Composite::AllToAllV) => vec!["counts"],
            K::Map => vec!["expr"],
            K::Host(Host::Sleep) => vec!["seconds"],
            K::Group | K::Loop => vec!["steps"],
            _ => vec![],
        };
        if !self.short && self.op.missing.is_none() {
            let in_out = ["in", "out"].into_iter().filter(|k| self.op.keys.contains(k));
            wanted.extend(in_out.filter(|k| *k == "in" || step.in_place.is_none()));
        }
        for key in wanted {
            if !has(key) {
                let doc = keys::find(Place::Step, key).map_or("", |k| k.doc);
                cx.fault(
                    Diagnostic::new(self.span, format!("`{}` needs `{key}`", self.op.name))
                        .help(format!("`{key}`: {doc}")),
                );
            }
        }
        if matches!(self.op.kind, K::SendRecv) {
            match (has("peer"), has("to"), has("from")) {
                (true, false, false) | (false, true, true) => {}
                (false, ..) => cx.fault(Diagnostic::new(self.span, "`send_recv` needs `peer`, or `to` and `from`")),
                (true, ..) => {
                    let place = ["to", "from"].iter().find_map(|k| self.table.get(k)).map_or(self.span, |e| e.key_span);
                    cx.fault(Diagnostic::new(place, "`peer` is both ways: it excludes `to` and `from`"));
                }
            }
        }
    }
}

fn names_buffer(cx: &Cx<'_>, e: &Expr) -> bool {
    let mut found = false;
    e.node.walk(&mut |n| {
        if let Node::Name(name) | Node::Index(name, _) = n {
            found |= cx.known.buffers.contains_key(name);
        }
    });
    found
}

fn known_stream(cx: &mut Cx<'_>, name: &Sp<String>) {
    if name.v == "main" || cx.known.streams.contains(&name.v) {
        return;
    }
    let d = Diagnostic::new(name.span, format!("no step runs on a stream `{}`", name.v.escape_debug()));
    let known = cx.known.streams.iter().map(String::as_str).chain(["main"]);
    let near = nearest(&name.v, known).map(|n| format!("did you mean `{n}`?"));
    cx.fault(Diagnostic { help: near, ..d });
}
