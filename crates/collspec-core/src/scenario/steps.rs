//! Reads steps: the keys of each operation, and the defaults that apply to them.
use super::buffers;
use super::case::*;
use super::comms;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, Span};
use super::exit_status::exit_status;
use super::keys::{self, KeyPlace, ValueType};
use super::names::bad_name;
use super::reader::{AllowedNames, NumberKind, PointReader, RankScope};
use super::register::register_word;
use super::step_values::{algorithm, counts, is_device_scalar, reduction, step_error};
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use crate::expr::{Expr, ExprNode};
use crate::ops::{self, CommOp, Composite, Host, OneSided, Op, RegistrationOp};
use crate::suggest::nearest;

/// The place of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepContext {
    Program,
    Group,
    /// The short form: the step's keys are at the top of the file.
    Short,
}

/// Reads a list of steps.
pub(crate) fn read_steps(
    reader: &mut PointReader<'_>,
    val: &TomlValue,
    defaults: &Defaults<'_>,
    around: StepContext,
) -> Vec<Step> {
    let TomlKind::Array(entries) = &val.kind else {
        reader.report_wrong_type("steps", ValueType::Steps, val);
        return Vec::new();
    };
    // A program may make an empty group call; an empty program or loop is a mistake.
    if entries.is_empty() && around != StepContext::Group {
        reader.report(Diagnostic::new(val.span, "`steps` has no step"));
    }
    let mut out = Vec::with_capacity(entries.len());
    for v in entries.iter() {
        if reader.is_full() {
            break;
        }
        match &v.kind {
            TomlKind::Table(t) => out.extend(read_step(reader, t, v.span, defaults, around)),
            _ => reader.report(
                Diagnostic::new(v.span, "a step must be a table")
                    .label(format!("this is {}", v.kind_name()))
                    .help("for example `{ op = \"all_reduce\", in = \"x\", out = \"y\" }`"),
            ),
        }
    }
    out
}

/// Reads one step. `None` if its operation is unknown. Invalid keys are left out of the step, which is never used then,
/// because a file with diagnostics has no cases.
pub(crate) fn read_step(
    reader: &mut PointReader<'_>,
    table: &TomlTable,
    span: Span,
    defaults: &Defaults<'_>,
    around: StepContext,
) -> Option<Step> {
    let Some(word) = table.get("op") else {
        let d = Diagnostic::new(span, "this step has no `op`");
        reader.report(d.help("every step names its operation: `op = \"all_reduce\"`"));
        return None;
    };
    let text = reader.text("op", &word.value)?;
    let Some(op) = ops::find(&text.value) else {
        if !reader.mended.unknown_operations.contains(&text.span) {
            reader.report(Diagnostic::new(text.span, format!("there is no operation `{}`", text.value.escape_debug())));
        }
        return None;
    };
    let nests = matches!(op.kind, ops::Kind::Group | ops::Kind::Loop);
    check_keys(reader, table, span, op, nests, around);
    if around == StepContext::Group {
        only_nccl_calls(reader, op, text.span);
    }
    let step_reader = StepReader { table, defaults, op, short: around == StepContext::Short, span: text.span };
    Some(step_reader.read(reader, nests))
}

fn check_keys(
    reader: &mut PointReader<'_>,
    table: &TomlTable,
    span: Span,
    op: &'static Op,
    nests: bool,
    around: StepContext,
) {
    let short = around == StepContext::Short;
    for e in &table.entries {
        let name = &*e.key;
        let fine = (keys::is_step_key(op, name) && !(short && matches!(name, "in" | "out" | "steps")))
            || (nests && keys::default_keys().any(|s| s == name))
            || (short && keys::is_file_key(name));
        if fine {
            continue;
        }
        if short && matches!(name, "in" | "out") {
            let d = Diagnostic::new(e.key_span, format!("`{name}` stands at the top of the file"));
            reader.report(d.help("the short form's buffers are called `in` and `out`; to choose names, write `steps`"));
        } else if keys::find(KeyPlace::Step, name).is_some() {
            let d = Diagnostic::new(e.key_span, format!("`{}` has no use for `{name}`", op.name));
            reader.report(d.help(format!("its keys are {}", step_keys(op).collect::<Vec<_>>().join(", "))));
        } else {
            let mut allowed: Vec<_> = step_keys(op).collect();
            if short {
                allowed.extend(keys::keys_in(KeyPlace::File).chain(keys::default_keys()));
            }
            let one = TomlTable { entries: vec![e.clone()] };
            reader.check_keys(
                &one,
                span,
                &allowed,
                &if short { "the file".to_owned() } else { format!("`{}`", op.name) },
            );
        }
    }
}

fn step_keys(op: &'static Op) -> impl Iterator<Item = &'static str> {
    ops::COMMON_KEYS.iter().chain(op.keys).copied()
}

fn only_nccl_calls(reader: &mut PointReader<'_>, op: &Op, span: Span) {
    use ops::Kind as K;
    let why = match op.kind {
        K::Comm(CommOp::Revoke | CommOp::Suspend | CommOp::Resume) => "NCCL does not say what it does in a group",
        K::Collective(_) | K::Send | K::Recv | K::SendRecv | K::Group | K::Comm(_) => return,
        K::Composite(Composite::AllGatherV | Composite::AllToAllV | Composite::ReduceScatterV) | K::OneSided(_) => {
            return;
        }
        K::Composite(Composite::Barrier) => "a barrier waits on the host",
        K::Map => "a map is not an NCCL call",
        K::Registration(_) => "memory is registered outside of groups",
        K::Loop => "a loop is not an NCCL call",
        K::Host(_) | K::Graph(_) => "it is not an NCCL call",
    };
    let d = Diagnostic::new(span, format!("`{}` cannot stand in a group", op.name)).label(why);
    reader.report(d.help("move it before or after the group"));
}

/// Reads the keys of one step.
struct StepReader<'t, 'd> {
    table: &'t TomlTable,
    defaults: &'d Defaults<'t>,
    op: &'static Op,
    short: bool,
    span: Span,
}

impl<'t> StepReader<'t, '_> {
    /// The entry of a key on the step itself; in the short form only of keys that are not defaults.
    fn own_entry(&self, key: &str) -> Option<&'t TomlEntry> {
        let entry = self.table.get(key).filter(|_| keys::is_step_key(self.op, key))?;
        (!self.short || !keys::default_keys().any(|s| s == key)).then_some(entry)
    }

    /// The entry of a key on the step, else the innermost default; `None` if the operation lacks the key.
    fn entry_or_default(&self, reader: &mut PointReader<'_>, key: &str) -> Option<&'t TomlEntry> {
        if !keys::is_step_key(self.op, key) {
            return None;
        }
        self.defaults.own_or_find(reader, self.own_entry(key), key)
    }

    fn num(&self, reader: &mut PointReader<'_>, key: &str, want: NumberKind) -> Option<Box<NumberByRank>> {
        step_number(reader, key, self.own_entry(key)?, want)
    }

    fn read(self, reader: &mut PointReader<'_>, nests: bool) -> Step {
        let input = self.buffer(reader, "in", false);
        let output = self.buffer(reader, "out", true);
        let in_place = self.entry_or_default(reader, "in_place");
        let in_place = in_place.and_then(|e| step_number(reader, "in_place", e, NumberKind::Bool));
        let place = self.communicator(reader);
        let root = self.entry_or_default(reader, "root");
        let mut step = Step {
            span: self.span,
            op: self.op,
            name: self.name(reader),
            reduce: self.reduce(reader),
            root: root.and_then(|e| step_number(reader, "root", e, NumberKind::Whole)),
            comm: place,
            ranks: Ranks::All,
            own_ranks: !nests && self.table.get("ranks").is_some(),
            null_pointers: self
                .entry_or_default(reader, "null_pointers")
                .and_then(|e| reader.bool("null_pointers", &e.value))
                .unwrap_or(false),
            stream: "main".to_owned(),
            after: self.after(reader),
            graph: self.graph(reader),
            times: self.num(reader, "times", NumberKind::Natural),
            algorithm: self
                .entry_or_default(reader, "algorithm")
                .and_then(|e| algorithm(reader, &e.value))
                .map(Box::new),
            error: self.own_entry("error").and_then(|e| step_error(reader, &e.value)).map(Box::new),
            peer: self.num(reader, "peer", NumberKind::Whole),
            to: self.num(reader, "to", NumberKind::Whole),
            from: self.num(reader, "from", NumberKind::Whole),
            count: self.num(reader, "count", NumberKind::Natural),
            counts: self.own_entry("counts").and_then(|e| counts(reader, self.op, &e.value)).map(Box::new),
            expr: self.own_entry("expr").and_then(|e| reader.expression(&e.value, AllowedNames::MAP)),
            dtype: None,
            seconds: self.num(reader, "seconds", NumberKind::Real),
            status: self.own_entry("status").and_then(|e| exit_status(reader, &e.value)),
            wait_stream: None,
            signal: StepSignal {
                context: self.num(reader, "context", NumberKind::Whole),
                index: self.num(reader, "signal_index", NumberKind::Whole),
                signals: self.own_entry("signals").and_then(|e| {
                    let (names, scope) = (AllowedNames::COUNTS, RankScope::Communicator);
                    reader.number_by_rank("signals", &e.value, names, NumberKind::Whole, scope).map(Box::new)
                }),
            },
            register: self.own_entry("register").and_then(|e| register_word(reader, &e.value)),
            new: comms::new_communicator(reader, self.table, self.op, self.defaults).map(Box::new),
            steps: Vec::new(),
            input,
            output,
            in_place,
        };
        // In the short form `count` and `dtype` at the top belong to the input.
        if let Some(e) = self.own_entry("dtype") {
            step.dtype = buffers::read_dtype(reader, &e.value).map(|v| Spanned { span: e.value.span, value: v });
        }
        if let (ops::Kind::Map, Some(expr)) = (&self.op.kind, &step.expr)
            && !names_buffer(reader, &expr.value)
        {
            self.map_from_defaults(reader, &mut step.count, &mut step.dtype);
        }
        // An empty group has no steps that could inherit `ranks`.
        let empty = nests
            && self
                .own_entry("steps")
                .is_some_and(|e| matches!(&e.value.kind, TomlKind::Array(list) if list.is_empty()));
        if (!nests || empty)
            && let Some(e) = self.entry_or_default(reader, "ranks")
        {
            reader.used.defaults.insert(e.key_span);
            step.ranks = reader.ranks(&e.value).unwrap_or(Ranks::All);
        }
        self.read_streams(reader, &mut step);
        self.check_after(reader, &step);
        self.check_required_keys(reader, &step);
        if nests {
            self.read_inner_steps(reader, &mut step);
        }
        step
    }

    fn read_inner_steps(&self, reader: &mut PointReader<'_>, step: &mut Step) {
        let Some(e) = self.own_entry("steps") else { return };
        let around = if matches!(self.op.kind, ops::Kind::Group) { StepContext::Group } else { StepContext::Program };
        step.steps = read_steps(reader, &e.value, &self.defaults.with(self.table), around);
    }

    /// Takes count and dtype of a map that does not read a buffer from the defaults.
    fn map_from_defaults(
        &self,
        reader: &mut PointReader<'_>,
        count: &mut Option<Box<NumberByRank>>,
        dtype: &mut Option<Spanned<crate::num::DType>>,
    ) {
        if count.is_none() {
            let e = self.defaults.own_or_find(reader, None, "count");
            *count = e.and_then(|e| step_number(reader, "count", e, NumberKind::Natural));
            if e.is_none() {
                let d = Diagnostic::new(self.span, "this map reads no buffer and has no `count`");
                reader.report(d.help("write `count = ...`, the elements of `out`"));
            }
        }
        if dtype.is_none() {
            let e = self.defaults.own_or_find(reader, None, "dtype");
            *dtype =
                e.and_then(|e| buffers::read_dtype(reader, &e.value).map(|v| Spanned { span: e.value.span, value: v }));
        }
    }

    fn buffer(&self, reader: &mut PointReader<'_>, key: &'static str, writes: bool) -> Option<BufferRef> {
        if self.short {
            let has = self.op.keys.contains(&key);
            if has {
                reader.used.buffers.insert(key.to_owned());
                if !writes && self.table.get("inputs").is_none() {
                    let d = Diagnostic::new(
                        self.span,
                        format!("`{}` reads a buffer, and there are no `inputs`", self.op.name),
                    );
                    reader.report(d.help(
                        "write `inputs = [[...], [...]]`, one row per rank, or `inputs = { each = ..., count = ... }`",
                    ));
                }
            }
            return has.then(|| BufferRef { span: self.span, name: key.to_owned(), slice: None });
        }
        let e = self.own_entry(key)?;
        // A put writes another rank's buffer, which is declared where that rank has it.
        if writes && !matches!(self.op.kind, ops::Kind::OneSided(_)) {
            if let (TomlKind::Str(s), Some(r)) =
                (&e.value.kind, reader.buffer_ref(key, &e.value, AllowedNames::STEP, true))
            {
                if let Some((message, help)) = bad_name(&r.name) {
                    let place = reader.span_in_text(e.value.span, s, 0, r.name.len());
                    reader.report(Diagnostic::new(place, message).help(help));
                }
                if reader.axes.iter().any(|a| a.name == r.name && a.is_number()) {
                    let d = Diagnostic::new(e.value.span, format!("`{}` is an axis of the matrix already", r.name));
                    reader.report(d);
                }
                // Writing an input counts as a use of it.
                reader.used.buffers.insert(r.name.clone());
                return Some(r);
            }
            return None;
        }
        reader.buffer_ref(key, &e.value, AllowedNames::STEP, false)
    }

    fn name(&self, reader: &mut PointReader<'_>) -> Option<Spanned<String>> {
        let name = self.own_entry("name").and_then(|e| reader.text("name", &e.value))?;
        if let Some((message, help)) = bad_name(&name.value) {
            reader.report(Diagnostic::new(name.span, message).help(help));
        }
        Some(name)
    }

    /// The communicators: `comm` or `groups`, the innermost of them.
    fn communicator(&self, reader: &mut PointReader<'_>) -> StepComm {
        let world = StepComm::Comm(Spanned { span: self.span, value: "world".to_owned() });
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
            let d = Diagnostic::new(g.key_span, "`groups` and `comm` cannot be used together");
            reader.report(d.related(c.key_span, "the other one"));
            return world;
        }
        let own = can.iter().find_map(|k| self.table.get(k)).filter(|_| !self.short);
        // On a group or loop it is a default of the inner steps, which mark it as used.
        let entry =
            if nests { own.or(self.defaults.peek(&can)) } else { self.defaults.own_or_find_any(reader, own, &can) };
        match entry {
            None => world,
            Some(e) if &*e.key == "comm" => comms::communicator_name(reader, &e.value).map_or(world, StepComm::Comm),
            Some(e) => reader.groups(&e.value).map_or(world, StepComm::Groups),
        }
    }

    fn reduce(&self, reader: &mut PointReader<'_>) -> Option<Spanned<StepReduction>> {
        let entry = self.entry_or_default(reader, "reduce");
        let factor = match entry.map(|e| &e.value.kind) {
            Some(TomlKind::Table(t)) => Some(t),
            _ => None,
        };
        if let (None, Some(e)) = (factor, self.own_entry("scalar")) {
            is_device_scalar(reader, &e.value);
            reader.report(Diagnostic::new(e.value.span, "`scalar` belongs to `reduce = { premul_sum = ... }`"));
        }
        let entry = entry?;
        // `scalar` belongs to premul_sum only.
        let scalar = factor.and_then(|_| self.entry_or_default(reader, "scalar"));
        if let (Some(inside), Some(beside)) = (factor.and_then(|t| t.get("scalar")), self.own_entry("scalar")) {
            let d = Diagnostic::new(beside.key_span, "`scalar` stands in `reduce` already");
            reader.report(d.related(inside.key_span, "the other one"));
        }
        let device = scalar.and_then(|e| is_device_scalar(reader, &e.value));
        reduction(reader, &entry.value, device)
    }

    fn after(&self, reader: &mut PointReader<'_>) -> Vec<Spanned<String>> {
        let names = self.own_entry("after").and_then(|e| reader.texts("after", &e.value)).unwrap_or_default();
        for (at, n) in names.iter().enumerate() {
            check_stream(reader, n);
            if let Some(first) = names[..at].iter().find(|other| other.value == n.value) {
                let d = Diagnostic::new(n.span, format!("the stream `{}` is listed twice", n.value.escape_debug()));
                reader.report(d.related(first.span, "first here"));
            }
        }
        names
    }

    fn read_streams(&self, reader: &mut PointReader<'_>, step: &mut Step) {
        let Some(name) = self.entry_or_default(reader, "stream").and_then(|e| reader.text("stream", &e.value)) else {
            return;
        };
        if let Some((message, help)) = bad_name(&name.value) {
            reader.report(Diagnostic::new(name.span, message).help(help));
        }
        if matches!(self.op.kind, ops::Kind::Host(Host::Wait)) {
            check_stream(reader, &name);
            if step.error.is_some() && self.own_entry("stream").is_some() {
                let text = "a `wait` with `error` waits for a communicator's error, not for a stream";
                reader.report(Diagnostic::new(name.span, text).help("leave out `stream`"));
            }
            step.wait_stream = Some(name);
        } else {
            step.stream = name.value;
        }
    }

    /// Reports a step that waits for its own stream.
    fn check_after(&self, reader: &mut PointReader<'_>, step: &Step) {
        if let Some(own) = step.after.iter().find(|name| name.value == step.stream) {
            let text = format!(
                "this step runs on `{}` itself, so it comes after that stream's work anyway",
                own.value.escape_debug()
            );
            reader.report(Diagnostic::new(own.span, text).help("`after` names other streams"));
        }
    }

    /// The graph that the step is captured into, or that a `launch` or a `release` refers to.
    fn graph(&self, reader: &mut PointReader<'_>) -> Option<Spanned<String>> {
        let name = self.entry_or_default(reader, "graph").and_then(|e| reader.text("graph", &e.value))?;
        if let Some((message, help)) = bad_name(&name.value) {
            reader.report(Diagnostic::new(name.span, message).help(help));
        }
        Some(name)
    }

    fn check_required_keys(&self, reader: &mut PointReader<'_>, step: &Step) {
        if reader.mended.incomplete_steps.contains(&self.span) {
            return;
        }
        use ops::Kind as K;
        let has = |key: &str| self.table.get(key).is_some();
        let mut wanted: Vec<&str> = match self.op.kind {
            K::Send | K::Recv | K::OneSided(OneSided::Put | OneSided::Signal) => vec!["peer"],
            K::Composite(Composite::AllToAllV | Composite::ReduceScatterV) => vec!["counts"],
            K::Map => vec!["expr"],
            K::Host(Host::Sleep) => vec!["seconds"],
            K::Registration(RegistrationOp::Register) => vec!["register"],
            K::Group | K::Loop => vec!["steps"],
            K::Graph(_) if step.graph.is_none() => vec!["graph"],
            _ => vec![],
        };
        if !self.short {
            let in_out = ["in", "out"].into_iter().filter(|k| self.op.keys.contains(k));
            wanted.extend(in_out.filter(|k| *k == "in" || step.in_place.is_none()));
        }
        for key in wanted {
            if !has(key) {
                let doc = keys::find(KeyPlace::Step, key).map_or("", |k| k.doc);
                reader.report(
                    Diagnostic::new(self.span, format!("`{}` needs `{key}`", self.op.name))
                        .help(format!("`{key}`: {doc}")),
                );
            }
        }
        if matches!(self.op.kind, K::SendRecv) {
            match (has("peer"), has("to"), has("from")) {
                (true, false, false) | (false, true, true) => {}
                (false, ..) => {
                    reader.report(Diagnostic::new(self.span, "`send_recv` needs `peer`, or `to` and `from`"))
                }
                (true, ..) => {
                    let place = ["to", "from"].iter().find_map(|k| self.table.get(k)).map_or(self.span, |e| e.key_span);
                    reader.report(Diagnostic::new(place, "`peer` is both ways: it cannot be used with `to` or `from`"));
                }
            }
        }
    }
}

/// A number of a step that may differ by rank of its communicator.
fn step_number(
    reader: &mut PointReader<'_>,
    key: &str,
    entry: &TomlEntry,
    want: NumberKind,
) -> Option<Box<NumberByRank>> {
    let number = reader.number_by_rank(key, &entry.value, AllowedNames::STEP, want, RankScope::Communicator);
    number.map(Box::new)
}

fn names_buffer(reader: &PointReader<'_>, e: &Expr) -> bool {
    let mut found = false;
    e.node.visit(&mut |n| {
        if let ExprNode::Name(name) | ExprNode::Index(name, _) = n {
            found |= reader.known.buffers.contains_key(name);
        }
    });
    found
}

fn check_stream(reader: &mut PointReader<'_>, name: &Spanned<String>) {
    if name.value == "main" || reader.known.streams.contains(&name.value) {
        return;
    }
    if !reader.is_first_unknown("stream", &name.value) {
        return;
    }
    let d = Diagnostic::new(name.span, format!("no step runs on a stream `{}`", name.value.escape_debug()));
    let known = reader.known.streams.iter().map(String::as_str).chain(["main"]);
    let near = nearest(&name.value, known).map(|n| format!("did you mean `{n}`?"));
    reader.report(Diagnostic { help: near, ..d });
}
