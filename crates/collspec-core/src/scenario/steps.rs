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
use super::step_values::{algorithm, counts_by_pair, counts_by_rank, is_device_scalar, reduction, step_error};
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use crate::ops::{self, Collective, CommOp, Composite, ExitStatus, GraphOp, Host, OneSided, Op, RegistrationOp};
use crate::suggest::nearest;
use std::sync::Arc;

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

/// Reads one step. `None` if its operation is unknown, or if a key that it needs is missing or invalid. Other invalid keys are left out of
/// the step, which is never used then, because a file with diagnostics has no cases.
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
    step_reader.read(reader, nests)
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
            let d = Diagnostic::new(e.key_span, format!("`{name}` is at the top of the file"));
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
    let d = Diagnostic::new(span, format!("`{}` cannot be in a group", op.name)).label(why);
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

    fn num(&self, reader: &mut PointReader<'_>, key: &str, want: NumberKind) -> Option<NumberByRank> {
        step_number(reader, key, self.own_entry(key)?, want)
    }

    fn num_or_default(&self, reader: &mut PointReader<'_>, key: &str, want: NumberKind) -> Option<NumberByRank> {
        let entry = self.entry_or_default(reader, key)?;
        step_number(reader, key, entry, want)
    }

    /// The entry of a key that the operation needs, which is reported if it is missing.
    fn needed(&self, reader: &mut PointReader<'_>, key: &str) -> Option<&'t TomlEntry> {
        let entry = self.own_entry(key);
        if entry.is_none() && !self.is_incomplete(reader) {
            let doc = keys::find(KeyPlace::Step, key).map_or("", |k| k.doc);
            let d = Diagnostic::new(self.span, format!("`{}` needs `{key}`", self.op.name));
            reader.report(d.help(format!("`{key}`: {doc}")));
        }
        entry
    }

    /// True if the step has a key that is not understood, which may be one that seems to be missing.
    fn is_incomplete(&self, reader: &PointReader<'_>) -> bool {
        reader.mended.incomplete_steps.contains(&self.span)
    }

    fn needed_num(&self, reader: &mut PointReader<'_>, key: &str, want: NumberKind) -> Option<NumberByRank> {
        let entry = self.needed(reader, key)?;
        step_number(reader, key, entry, want)
    }

    fn needed_buffer(&self, reader: &mut PointReader<'_>, key: &'static str) -> Option<BufferRef> {
        let buffer = self.buffer(reader, key);
        if buffer.is_none() {
            self.needed(reader, key);
        }
        buffer
    }

    fn read(self, reader: &mut PointReader<'_>, nests: bool) -> Option<Step> {
        let comm = self.communicator(reader);
        let name = checked_name(reader, "name", self.own_entry("name"));
        let null_pointers = self.entry_or_default(reader, "null_pointers");
        let null_pointers = null_pointers.and_then(|e| reader.bool("null_pointers", &e.value)).unwrap_or(false);
        let after = self.after(reader);
        let times = self.num(reader, "times", NumberKind::Natural).map(Box::new);
        let error = self.own_entry("error").and_then(|e| step_error(reader, &e.value)).map(Box::new);
        let kind = self.kind(reader, error.is_some());
        // A wait and the steps on graphs have these keys for their own purposes.
        let mut common = |key, own: bool| {
            let entry = if own { None } else { self.entry_or_default(reader, key) };
            checked_name(reader, key, entry)
        };
        let stream = common("stream", matches!(self.op.kind, ops::Kind::Host(Host::Wait)));
        let graph = common("graph", matches!(self.op.kind, ops::Kind::Graph(_)));
        // An empty group has no steps that could inherit `ranks`.
        let empty = nests
            && self
                .own_entry("steps")
                .is_some_and(|e| matches!(&e.value.kind, TomlKind::Array(list) if list.is_empty()));
        let mut ranks = Ranks::All;
        if (!nests || empty)
            && let Some(e) = self.entry_or_default(reader, "ranks")
        {
            reader.used.defaults.insert(e.key_span);
            ranks = reader.ranks(&e.value).unwrap_or(Ranks::All);
        }
        let stream = stream.map_or_else(|| "main".to_owned(), |name| name.value);
        check_after(reader, &after, &stream);
        Some(Step {
            span: self.span,
            op: self.op,
            kind: kind?,
            name,
            comm,
            ranks,
            own_ranks: !nests && self.table.get("ranks").is_some(),
            stream,
            after,
            graph,
            times,
            error,
            null_pointers,
        })
    }

    /// Reads the keys of the operation. It reads all of them before it gives up because of one, so that every mistake is reported.
    /// `fails` is true if the step has the key `error`.
    fn kind(&self, reader: &mut PointReader<'_>, fails: bool) -> Option<StepKind> {
        use ops::Kind as K;
        Some(match &self.op.kind {
            K::Collective(op) => StepKind::Collective(self.collective(reader, op)?),
            K::Composite(Composite::AllGatherV) => {
                let (input, output) = self.buffers(reader);
                StepKind::AllGatherV { input: input?, output: output? }
            }
            K::Composite(Composite::AllToAllV) => {
                let (input, output) = self.buffers(reader);
                let counts = self.needed(reader, "counts").and_then(|e| counts_by_pair(reader, &e.value));
                StepKind::AllToAllV { input: input?, output: output?, counts: counts? }
            }
            K::Composite(Composite::ReduceScatterV) => {
                let (input, output) = self.buffers(reader);
                let reduce = self.reduce(reader);
                let counts = self.needed(reader, "counts").and_then(|e| counts_by_rank(reader, &e.value));
                StepKind::ReduceScatterV { input: input?, output: output?, counts: counts?, reduce }
            }
            K::Composite(Composite::Barrier) => StepKind::Barrier,
            K::Send => {
                let (input, peer) = (self.needed_buffer(reader, "in"), self.peer(reader));
                StepKind::Send { input: input?, peer: peer? }
            }
            K::Recv => {
                let (output, peer) = (self.needed_buffer(reader, "out"), self.peer(reader));
                let size = self.size(reader);
                StepKind::Recv { output: output?, peer: peer?, size }
            }
            K::SendRecv => {
                let (input, output) = self.buffers(reader);
                let (to, from) = self.peers(reader)?;
                StepKind::SendRecv { input: input?, output: output?, to, from }
            }
            K::Map => {
                let output = self.needed_buffer(reader, "out");
                let expr = self.needed(reader, "expr").and_then(|e| reader.expression(&e.value, AllowedNames::MAP));
                let mut size = self.size(reader);
                let expr = expr?.value;
                if !expr.names().iter().any(|name| reader.known.buffers.contains_key(*name)) {
                    self.map_from_defaults(reader, &mut size);
                }
                StepKind::Map { output: output?, expr: Arc::new(expr), size }
            }
            K::Group => StepKind::Group(self.inner_steps(reader, StepContext::Group)?),
            K::Loop => StepKind::Loop(self.inner_steps(reader, StepContext::Program)?),
            K::Host(Host::Wait) => StepKind::Wait { stream: self.awaited_stream(reader, fails) },
            K::Host(Host::Sleep) => StepKind::Sleep { seconds: self.needed_num(reader, "seconds", NumberKind::Real)? },
            K::Host(Host::Exit) => {
                let status = self.own_entry("status").and_then(|e| exit_status(reader, &e.value));
                StepKind::Exit { status: status.unwrap_or(ExitStatus::Code(0)) }
            }
            K::Comm(op) if op.makes_communicator() => {
                StepKind::NewComm(comms::new_communicator(reader, self.table, self.op.name, *op, self.defaults)?)
            }
            K::Comm(op) => StepKind::Comm(*op),
            K::OneSided(op) => StepKind::OneSided(self.one_sided(reader, *op)?),
            K::Registration(RegistrationOp::Register) => {
                let memory = self.needed_buffer(reader, "in");
                let how = self.needed(reader, "register").and_then(|e| register_word(reader, &e.value));
                StepKind::Register { memory: memory?, how: how? }
            }
            K::Registration(RegistrationOp::Deregister) => {
                StepKind::Deregister { memory: self.needed_buffer(reader, "in")? }
            }
            K::Graph(op) => {
                let entry = self.entry_or_default(reader, "graph").or_else(|| self.needed(reader, "graph"));
                let graph = checked_name(reader, "graph", entry)?.value;
                match op {
                    GraphOp::Launch => StepKind::Launch { graph },
                    GraphOp::Release => StepKind::Release { graph },
                }
            }
        })
    }

    fn collective(&self, reader: &mut PointReader<'_>, op: &'static Collective) -> Option<CollectiveStep> {
        let input = self.needed_buffer(reader, "in");
        let output = self.buffer(reader, "out");
        let in_place = self.num_or_default(reader, "in_place", NumberKind::Bool);
        if output.is_none() && in_place.is_none() {
            self.needed(reader, "out");
        }
        let root = self.num_or_default(reader, "root", NumberKind::Whole);
        let (reduce, size) = (self.reduce(reader), self.size(reader));
        let algorithm = self.entry_or_default(reader, "algorithm").and_then(|e| algorithm(reader, &e.value));
        Some(CollectiveStep { op, input: input?, output, in_place, root, size, reduce, algorithm })
    }

    fn one_sided(&self, reader: &mut PointReader<'_>, op: OneSided) -> Option<OneSidedStep> {
        let context = self.num(reader, "context", NumberKind::Whole);
        let signal_index = self.num(reader, "signal_index", NumberKind::Whole);
        let flags = self.num(reader, "flags", NumberKind::Whole);
        let call = match op {
            OneSided::Put => {
                let ((input, output), peer) = (self.buffers(reader), self.peer(reader));
                OneSidedCall::Put { input: input?, output: output?, peer: peer? }
            }
            OneSided::Signal => OneSidedCall::Signal { peer: self.peer(reader)? },
            OneSided::WaitSignal => {
                let peer = self.num(reader, "peer", NumberKind::Whole);
                let signals = self.own_entry("signals").and_then(|e| {
                    let (names, scope) = (AllowedNames::COUNTS, RankScope::Communicator);
                    reader.number_by_rank("signals", &e.value, names, NumberKind::Whole, scope)
                });
                OneSidedCall::WaitSignal { peer, signals }
            }
        };
        Some(OneSidedStep { context, signal_index, flags, call })
    }

    /// The buffers of an operation that needs both.
    fn buffers(&self, reader: &mut PointReader<'_>) -> (Option<BufferRef>, Option<BufferRef>) {
        (self.needed_buffer(reader, "in"), self.needed_buffer(reader, "out"))
    }

    /// The peer of an operation that needs one.
    fn peer(&self, reader: &mut PointReader<'_>) -> Option<NumberByRank> {
        self.needed_num(reader, "peer", NumberKind::Whole)
    }

    /// The receiver and the sender of a send_recv.
    fn peers(&self, reader: &mut PointReader<'_>) -> Option<(NumberByRank, NumberByRank)> {
        let [peer, to, from] = ["peer", "to", "from"].map(|key| self.num(reader, key, NumberKind::Whole));
        let [has_peer, has_to, has_from] = ["peer", "to", "from"].map(|key| self.own_entry(key));
        match (has_peer, has_to, has_from) {
            (Some(_), None, None) => peer.map(|peer| (peer.clone(), peer)),
            (None, Some(_), Some(_)) => to.zip(from),
            _ if self.is_incomplete(reader) => None,
            (None, ..) => {
                reader.report(Diagnostic::new(self.span, "`send_recv` needs `peer`, or `to` and `from`"));
                None
            }
            (Some(_), Some(other), _) | (Some(_), None, Some(other)) => {
                let text = "`peer` is both ways: it cannot be used with `to` or `from`";
                reader.report(Diagnostic::new(other.key_span, text));
                None
            }
        }
    }

    fn inner_steps(&self, reader: &mut PointReader<'_>, around: StepContext) -> Option<Vec<Step>> {
        let entry = self.needed(reader, "steps")?;
        Some(read_steps(reader, &entry.value, &self.defaults.with(self.table), around))
    }

    /// In the short form `count` and `dtype` at the top belong to the input.
    fn size(&self, reader: &mut PointReader<'_>) -> StepSize {
        let count = self.num(reader, "count", NumberKind::Natural);
        StepSize { count, dtype: self.own_entry("dtype").and_then(|e| buffers::read_dtype(reader, &e.value)) }
    }

    /// Takes count and dtype of a map that does not read a buffer from the defaults.
    fn map_from_defaults(&self, reader: &mut PointReader<'_>, size: &mut StepSize) {
        if size.count.is_none() {
            let e = self.defaults.own_or_find(reader, None, "count");
            size.count = e.and_then(|e| step_number(reader, "count", e, NumberKind::Natural));
            if e.is_none() {
                let d = Diagnostic::new(self.span, "this map reads no buffer and has no `count`");
                reader.report(d.help("write `count = ...`, the elements of `out`"));
            }
        }
        if size.dtype.is_none() {
            let e = self.defaults.own_or_find(reader, None, "dtype");
            size.dtype = e.and_then(|e| buffers::read_dtype(reader, &e.value));
        }
    }

    fn buffer(&self, reader: &mut PointReader<'_>, key: &'static str) -> Option<BufferRef> {
        if self.short {
            if !self.op.keys.contains(&key) {
                return None;
            }
            reader.used.buffers.insert(key.to_owned());
            if key == "in" && self.table.get("inputs").is_none() {
                let text = format!("`{}` reads a buffer, and there are no `inputs`", self.op.name);
                reader.report(Diagnostic::new(self.span, text).help(
                    "write `inputs = [[...], [...]]`, one row per rank, or `inputs = { each = ..., count = ... }`",
                ));
            }
            return Some(BufferRef { span: self.span, name: key.to_owned(), slice: None });
        }
        let e = self.own_entry(key)?;
        // A put writes another rank's buffer, which is declared where that rank has it.
        let writes = key == "out" && !matches!(self.op.kind, ops::Kind::OneSided(_));
        let r = reader.buffer_ref(key, &e.value, AllowedNames::STEP, writes)?;
        if let (true, TomlKind::Str(s)) = (writes, &e.value.kind) {
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
        }
        Some(r)
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

    fn reduce(&self, reader: &mut PointReader<'_>) -> Option<StepReduction> {
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
            let d = Diagnostic::new(beside.key_span, "`scalar` is already in `reduce`");
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

    /// The stream that a `wait` is for.
    fn awaited_stream(&self, reader: &mut PointReader<'_>, fails: bool) -> Option<String> {
        let entry = self.entry_or_default(reader, "stream");
        let name = checked_name(reader, "stream", entry)?;
        check_stream(reader, &name);
        if fails && self.own_entry("stream").is_some() {
            let text = "a `wait` with `error` waits for a communicator's error, not for a stream";
            reader.report(Diagnostic::new(name.span, text).help("leave out `stream`"));
        }
        Some(name.value)
    }
}

/// The value of a key that names a step, a stream or a graph.
fn checked_name(reader: &mut PointReader<'_>, key: &str, entry: Option<&TomlEntry>) -> Option<Spanned<String>> {
    let name = entry.and_then(|e| reader.text(key, &e.value))?;
    if let Some((message, help)) = bad_name(&name.value) {
        reader.report(Diagnostic::new(name.span, message).help(help));
    }
    Some(name)
}

/// Reports a step that waits for its own stream.
fn check_after(reader: &mut PointReader<'_>, after: &[Spanned<String>], stream: &str) {
    if let Some(own) = after.iter().find(|name| name.value == stream) {
        let text = format!(
            "this step runs on `{}` itself, so it comes after that stream's work anyway",
            own.value.escape_debug()
        );
        reader.report(Diagnostic::new(own.span, text).help("`after` names other streams"));
    }
}

/// A number of a step that may differ by rank of its communicator.
fn step_number(reader: &mut PointReader<'_>, key: &str, entry: &TomlEntry, want: NumberKind) -> Option<NumberByRank> {
    reader.number_by_rank(key, &entry.value, AllowedNames::STEP, want, RankScope::Communicator)
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
