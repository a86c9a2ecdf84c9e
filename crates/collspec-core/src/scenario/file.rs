//! Reads one point of a file as a case, from the tree with the point's values.
use super::bench;
use super::buffers;
use super::case::*;
use super::comms;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::expressions::ParsedExpressions;
use super::file_keys;
use super::history;
use super::keys::{self, KeyPlace, ValueType};
use super::mend;
use super::prescan;
use super::reader::{self, AllowedNames, AxisValue, DefinedNames, Mended, PointReader, UsedNames};
use super::steps::{self, StepContext};
use super::tree::{TomlKind, TomlTable};
use super::variables::AllowEnv;
use crate::num::DType;
use crate::ops::{self, Op};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest number of ranks of a case.
pub const MAX_RANKS: usize = 65_536;
/// Largest number of steps of a file.
const MAX_STEPS: usize = 16_384;

pub(crate) struct MatrixPoint<'a> {
    pub name: String,
    pub axes: &'a [AxisValue],
    pub swept: bool,
    pub allow_env: &'a AllowEnv,
    pub expressions: &'a ParsedExpressions,
}

/// The result of reading one point.
pub(crate) struct ReadPoint {
    pub case: Option<Case>,
    /// The case of a point with mistakes that leave no doubt about its program. It is for planning only.
    pub meant: Option<Case>,
    pub diagnostics: Vec<Diagnostic>,
    pub known: DefinedNames,
    pub used: UsedNames,
}

/// Reads one point; `top` is the tree with the point's values, in which wrong words are replaced.
pub(crate) fn read_point(file: &Arc<SourceFile>, top: &mut TomlTable, point: MatrixPoint<'_>) -> ReadPoint {
    let mut reader = PointReader {
        file,
        axes: point.axes,
        world: 0,
        refused: false,
        allow_env: point.allow_env,
        expressions: point.expressions,
        known: DefinedNames::default(),
        diagnostics: Vec::new(),
        used: UsedNames::default(),
        mended: Mended::default(),
    };
    reader.aside(|reader| mend::mend(reader, top));
    let top = &*top;
    reader.world = match top.get("world_size").map(|e| &e.value.kind) {
        Some(TomlKind::Int(v)) if (1..=MAX_RANKS as i128).contains(v) => *v as usize,
        _ => 0,
    };
    reader.known = prescan::defined_names(top);
    reader.refused = matches!(top.get("outcome").map(|e| &e.value.kind), Some(TomlKind::Str(s)) if &**s == "refused");
    let case = CaseReader { top, reader: &mut reader }.case(file, point);
    let is_clear = reader.is_clear();
    let PointReader { diagnostics, known, used, .. } = reader;
    let (case, meant) = if diagnostics.is_empty() { (case, None) } else { (None, case.filter(|_| is_clear)) };
    ReadPoint { case, meant, diagnostics, known, used }
}

struct CaseReader<'t, 'a, 'b> {
    top: &'t TomlTable,
    reader: &'b mut PointReader<'a>,
}

/// The operation of a file in the short form, also if its step lacks something.
fn operation(top: &TomlTable) -> Option<&'static Op> {
    match &top.get("op")?.value.kind {
        TomlKind::Str(name) => ops::find(name),
        _ => None,
    }
}

impl CaseReader<'_, '_, '_> {
    fn case(self, file: &Arc<SourceFile>, point: MatrixPoint<'_>) -> Option<Case> {
        let Self { top, reader } = self;
        let world_size = file_keys::world_size(reader, top);
        let short = top.get("op").is_some();
        let steps = read_program(reader, top, short);
        let before = read_before(reader, top);
        let defaults = Defaults::new(top);
        let counted = prescan::inputs_with_counts(top, short);
        let inputs = match top.get("inputs") {
            Some(e) if world_size.is_some() => buffers::read_inputs(reader, e, short, &defaults, &counted),
            _ => Vec::new(),
        };
        let comms = top.get("comms").map(|e| comms::before_first_step(reader, &e.value)).unwrap_or_default();
        let dtypes = known_dtypes(&inputs, &steps);
        let expect = match top.get("expect") {
            Some(e) if short && operation(top).is_some_and(|op| !op.keys.contains(&"out")) => {
                reader
                    .report(Diagnostic::new(e.key_span, "`expect` is about `out`, which this operation does not have"));
                Vec::new()
            }
            Some(e) if world_size.is_some() => reader.aside(|reader| buffers::read_expect(reader, e, short, &dtypes)),
            _ => Vec::new(),
        };
        let asserts = reader.aside(|reader| file_keys::asserts(reader, top));
        let outcome = file_keys::outcome(reader, top);
        let reason = file_keys::reason(reader, top, outcome.as_ref(), &steps);
        let config = top.get("config").map(|e| {
            if !comms.is_empty() || uses_communicator(&steps) || uses_communicator(&before) {
                Defaults::mark_used(reader, e.key_span);
            }
            comms::config(reader, &e.value)
        });
        let offset = top.get("offset").and_then(|e| {
            if !reader.known.buffers.is_empty() {
                Defaults::mark_used(reader, e.key_span);
            }
            reader.number_by_rank(
                "offset",
                &e.value,
                AllowedNames::PER_RANK,
                super::reader::NumberKind::Natural,
                super::reader::RankScope::World,
            )
        });
        let register = top.get("register").and_then(|e| {
            if !reader.known.buffers.is_empty() {
                Defaults::mark_used(reader, e.key_span);
            }
            super::register::register_by_rank(reader, &e.value)
        });
        let comms_before = history::used_by(&before, &comms);
        let comms = if before.is_empty() { comms } else { history::used_by(&steps, &comms) };
        let file_span = Span { start: 0, end: 0 };
        reader.aside(|reader| file_keys::text(reader, top, "source"));
        let content = CaseContent {
            description: reader.aside(|reader| file_keys::text(reader, top, "description")),
            tags: reader.aside(|reader| file_keys::tags(reader, top)),
            env: file_keys::env(reader, top),
            repeat: file_keys::repeat(reader, top),
            timeout: reader.aside(|reader| file_keys::timeout(reader, top)),
            placement: file_keys::placement(reader, top),
            fault: file_keys::fault(reader, top),
            requires: reader.aside(|reader| file_keys::requires(reader, top)),
            forms: file_keys::forms(reader, top),
            bench: bench::bench(reader, top).map(Box::new),
            snapshot: top.get("snapshot").and_then(|e| reader.bool("snapshot", &e.value)),
            file: file.clone(),
            span: world_size.as_ref().map_or(file_span, |w| w.span),
            world_size: world_size?,
            config: config.unwrap_or_default(),
            swept: point.swept,
            inputs,
            comms,
            steps,
            before,
            comms_before,
            expect,
            asserts,
            outcome,
            reason,
            offset,
            offsets: Vec::new(),
            register,
            outer: None,
        };
        Some(Case { name: point.name, axes: reader::numbers(point.axes), form: None, content: Arc::new(content) })
    }
}

fn read_before(reader: &mut PointReader<'_>, top: &TomlTable) -> Vec<Step> {
    let Some(e) = top.get("before") else { return Vec::new() };
    if !matches!(e.value.kind, TomlKind::Array(_)) {
        reader.report_wrong_type("before", ValueType::Steps, &e.value);
        return Vec::new();
    }
    if prescan::count_steps(&e.value) > MAX_STEPS {
        let d = Diagnostic::new(e.key_span, format!("`before` has more than {MAX_STEPS} steps"));
        reader.report(d.help("`times` and `loop` repeat steps"));
        return Vec::new();
    }
    let steps = steps::read_steps(reader, &e.value, &Defaults::new(top), StepContext::Program);
    if let Some(name) = steps.iter().find_map(|step| step.name.as_ref()) {
        let d = Diagnostic::new(name.span, "a step of `before` has no figures that an `assert` could use");
        reader.report(d.help("leave its `name` out"));
    }
    steps
}

/// Reads the only step of the short form, or `steps`.
fn read_program(reader: &mut PointReader<'_>, top: &TomlTable, short: bool) -> Vec<Step> {
    let defaults = Defaults::new(top);
    let steps = top.get("steps");
    if let (true, Some(e)) = (short, steps) {
        let op = top.get("op").map_or(e.key_span, |o| o.key_span);
        let d = Diagnostic::new(e.key_span, "`steps` and `op` cannot be used together");
        reader.report(d.related(op, "the short form's operation").help("move the operation into `steps`"));
        return Vec::new();
    }
    if short {
        let nests = top
            .get("op")
            .is_some_and(|e| matches!(&e.value.kind, TomlKind::Str(s) if matches!(&**s, "group" | "loop")));
        if nests {
            let span = top.get("op").map_or_else(Default::default, |e| e.value.span);
            reader.report(Diagnostic::new(span, "the short form is one operation").help("write `steps = [...]`"));
            return Vec::new();
        }
        return steps::read_step(reader, top, Span::default(), &defaults, StepContext::Short).into_iter().collect();
    }
    let allowed: Vec<_> = keys::keys_in(KeyPlace::File).chain(keys::default_keys()).collect();
    for e in &top.entries {
        let step_key = keys::find(KeyPlace::Step, &e.key).is_some_and(|k| !k.is_default);
        if !allowed.contains(&&*e.key) && step_key {
            let d = Diagnostic::new(e.key_span, format!("`{}` is a key of steps, not of the file", e.key));
            reader.report(if steps.is_none() { d.help("the short form has `op` beside it") } else { d });
        } else {
            let one = TomlTable { entries: vec![e.clone()] };
            reader.check_keys(&one, Span::default(), &allowed, "the file");
        }
    }
    match steps {
        Some(e) if prescan::count_steps(&e.value) > MAX_STEPS => {
            let d = Diagnostic::new(e.key_span, format!("the program has more than {MAX_STEPS} steps"));
            reader.report(d.help("`times` and `loop` repeat steps"));
            Vec::new()
        }
        Some(e) => steps::read_steps(reader, &e.value, &defaults, StepContext::Program),
        None => {
            let d = Diagnostic::new(Span { start: 0, end: 0 }, "the file has neither `op` nor `steps`");
            let misplaced = top.entries.iter().any(
                |e| matches!(&e.value.kind, TomlKind::Table(t) if t.get("op").is_some() || t.get("steps").is_some()),
            );
            let help = if misplaced {
                "a key after a header like [env] belongs to it"
            } else {
                "write `op = \"all_reduce\"`, or a list of `steps`"
            };
            reader.report(d.help(help));
            Vec::new()
        }
    }
}

/// True if some step uses a communicator.
fn uses_communicator(steps: &[Step]) -> bool {
    use ops::Kind as K;
    all_steps(steps).any(|step| !matches!(step.op.kind, K::Group | K::Loop | K::Map | K::Host(_)))
}

/// The types of buffers that are known before planning.
fn known_dtypes(inputs: &[BufferDef], steps: &[Step]) -> BTreeMap<String, DType> {
    let mut types: BTreeMap<String, DType> = inputs.iter().map(|b| (b.name.value.clone(), b.dtype)).collect();
    for step in all_steps(steps) {
        let Some(out) = step.output() else { continue };
        let found = match &step.kind {
            StepKind::Recv { size, .. } => size.dtype,
            StepKind::Map { expr, size, .. } => size.dtype.or_else(|| {
                let names = expr.names();
                // The first buffer's type is not known yet, so the output's is unknown too.
                Some(DType::F32)
                    .filter(|_| size.count.is_some() && !names.iter().any(|n| types.contains_key(*n)))
                    .or_else(|| names.iter().find_map(|n| types.get(*n)).copied())
            }),
            _ => step.input().and_then(|input| types.get(&input.name).copied()),
        };
        if let Some(t) = found {
            types.entry(out.name.clone()).or_insert(t);
        }
    }
    types
}
