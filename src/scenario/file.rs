//! One point of a file: the tree as if it had been written there, to a case.
use super::buffers;
use super::case::*;
use super::comms;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, SourceFile, Span};
use super::header;
use super::keys::{self, Place};
use super::prescan;
use super::reader::{AxisNow, Cx, Known, Names, Used};
use super::steps::{self, Around};
use super::tree::{Kind, Table};
use super::variables::AllowEnv;
use crate::expr::Value;
use crate::num::DType;
use crate::ops;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most ranks of a case.
pub const MAX_RANKS: usize = 65_536;
/// Most steps of a file.
const MAX_STEPS: usize = 16_384;

/// A point of the matrix, laid over the file.
pub(crate) struct Point<'a> {
    pub name: String,
    pub axes: &'a [AxisNow],
    pub swept: bool,
    pub allow_env: &'a AllowEnv,
}

/// What reading one point found.
pub(crate) struct Found {
    pub case: Option<Case>,
    pub faults: Vec<Diagnostic>,
    pub known: Known,
    pub used: Used,
}

/// Reads one point.
pub(crate) fn read(file: &Arc<SourceFile>, top: &Table, point: Point<'_>) -> Found {
    let world = match top.get("world_size").map(|e| &e.val.kind) {
        Some(Kind::Int(v)) if (1..=MAX_RANKS as i128).contains(v) => *v as usize,
        _ => 0,
    };
    let known = prescan::known(top);
    let refused = matches!(top.get("outcome").map(|e| &e.val.kind), Some(Kind::Str(s)) if &**s == "refused");
    let mut cx = Cx {
        file,
        axes: point.axes,
        world,
        refused,
        allow_env: point.allow_env,
        known,
        faults: Vec::new(),
        used: Used::default(),
    };
    let case = Reader { top, cx: &mut cx }.case(file, point);
    let Cx { faults, known, used, .. } = cx;
    Found { case: case.filter(|_| faults.is_empty()), faults, known, used }
}

struct Reader<'a, 'b> {
    top: &'a Table,
    cx: &'b mut Cx<'a>,
}

impl Reader<'_, '_> {
    fn case(self, file: &Arc<SourceFile>, point: Point<'_>) -> Option<Case> {
        let Self { top, cx } = self;
        let world_size = header::world_size(cx, top);
        let short = top.get("op").is_some();
        let steps = program(cx, top, short);
        let defaults = Defaults::new(top);
        let counted = prescan::counted(top, short);
        let inputs = match top.get("inputs") {
            Some(e) if world_size.is_some() => buffers::inputs(cx, e, short, &defaults, &counted),
            _ => Vec::new(),
        };
        let comms = top.get("comms").map(|e| comms::before_first_step(cx, &e.val)).unwrap_or_default();
        let dtypes = dtypes(&inputs, &steps);
        let expect = match top.get("expect") {
            Some(e) if short && !steps.iter().any(|s| s.output.is_some()) => {
                cx.fault(Diagnostic::new(e.key_span, "`expect` is about `out`, which this operation does not have"));
                Vec::new()
            }
            Some(e) if world_size.is_some() => buffers::expect(cx, e, short, &dtypes),
            _ => Vec::new(),
        };
        let asserts = header::asserts(cx, top);
        let outcome = header::outcome(cx, top);
        let reason = header::reason(cx, top, outcome.as_ref(), &steps);
        let config = top.get("config").map(|e| {
            if !comms.is_empty() || calls(&steps) {
                Defaults::touch(cx, e.key_span);
            }
            comms::config(cx, &e.val)
        });
        let offset = top.get("offset").and_then(|e| {
            if !cx.known.buffers.is_empty() {
                Defaults::touch(cx, e.key_span);
            }
            cx.num("offset", &e.val, Names::PER_RANK, super::reader::Want::Natural, super::reader::Per::World)
        });
        let file_span = Span { start: 0, end: 0 };
        header::text(cx, top, "source");
        Some(Case {
            description: header::text(cx, top, "description"),
            tags: header::tags(cx, top),
            env: header::env(cx, top),
            repeat: header::repeat(cx, top),
            timeout: header::timeout(cx, top),
            placement: header::placement(cx, top),
            requires: header::requires(cx, top),
            forms: header::forms(cx, top),
            snapshot: top.get("snapshot").and_then(|e| cx.bool("snapshot", &e.val)),
            name: point.name,
            file: file.clone(),
            span: world_size.as_ref().map_or(file_span, |w| w.span),
            world_size: world_size?,
            axes: point.axes.iter().filter_map(|a| a.value.map(|v: Value| (a.name.clone(), v))).collect(),
            config: config.unwrap_or_default(),
            swept: point.swept,
            inputs,
            comms,
            steps,
            expect,
            asserts,
            outcome,
            reason,
            offset,
            offsets: Vec::new(),
            form: None,
            outer: None,
        })
    }
}

/// The short form's one step, or `steps`.
fn program(cx: &mut Cx<'_>, top: &Table, short: bool) -> Vec<Step> {
    let defaults = Defaults::new(top);
    let steps = top.get("steps");
    if let (true, Some(e)) = (short, steps) {
        let op = top.get("op").map_or(e.key_span, |o| o.key_span);
        let d = Diagnostic::new(e.key_span, "`steps` and `op` exclude each other");
        cx.fault(d.related(op, "the short form's operation").help("move the operation into `steps`"));
        return Vec::new();
    }
    if short {
        let nests =
            top.get("op").is_some_and(|e| matches!(&e.val.kind, Kind::Str(s) if matches!(&**s, "group" | "loop")));
        if nests {
            let span = top.get("op").map_or_else(Default::default, |e| e.val.span);
            cx.fault(Diagnostic::new(span, "the short form is one operation").help("write `steps = [...]`"));
            return Vec::new();
        }
        return steps::step(cx, top, Span::default(), &defaults, Around::Short).into_iter().collect();
    }
    let allowed: Vec<_> = keys::of(Place::File).chain(keys::stars()).collect();
    for e in &top.entries {
        let step_key = keys::find(Place::Step, &e.key).is_some_and(|k| !k.star);
        if !allowed.contains(&&*e.key) && step_key {
            let d = Diagnostic::new(e.key_span, format!("`{}` is a key of steps, not of the file", e.key));
            cx.fault(if steps.is_none() { d.help("the short form has `op` beside it") } else { d });
        } else {
            let one = Table { entries: vec![e.clone()] };
            cx.check_keys(&one, Span::default(), &allowed, "the file");
        }
    }
    match steps {
        Some(e) if prescan::count(&e.val) > MAX_STEPS => {
            let d = Diagnostic::new(e.key_span, format!("the program has more than {MAX_STEPS} steps"));
            cx.fault(d.help("`times` and `loop` repeat steps"));
            Vec::new()
        }
        Some(e) => steps::list(cx, &e.val, &defaults, Around::Program),
        None => {
            let d = Diagnostic::new(Span { start: 0, end: 0 }, "the file says neither `op` nor `steps`");
            let slipped = top
                .entries
                .iter()
                .any(|e| matches!(&e.val.kind, Kind::Table(t) if t.get("op").is_some() || t.get("steps").is_some()));
            let help = if slipped {
                "a key after a header like [env] belongs to it"
            } else {
                "write `op = \"all_reduce\"`, or a list of `steps`"
            };
            cx.fault(d.help(help));
            Vec::new()
        }
    }
}

/// True if some step uses a communicator.
fn calls(steps: &[Step]) -> bool {
    use ops::Kind as K;
    steps.iter().any(|s| match s.op.kind {
        K::Group | K::Loop => calls(&s.steps),
        K::Map | K::Host(_) => false,
        _ => true,
    })
}

/// The types of buffers that are known without a plan.
fn dtypes(inputs: &[BufferDef], steps: &[Step]) -> BTreeMap<String, DType> {
    let mut types: BTreeMap<String, DType> = inputs.iter().map(|b| (b.name.v.clone(), b.dtype)).collect();
    outputs(steps, &mut types);
    types
}

fn outputs(steps: &[Step], types: &mut BTreeMap<String, DType>) {
    for s in steps {
        outputs(&s.steps, types);
        let Some(out) = &s.output else { continue };
        let found = match (&s.dtype, &s.input, &s.expr) {
            (Some(t), _, _) => Some(t.v),
            (_, Some(i), _) => types.get(&i.name).copied(),
            (_, _, Some(e)) if matches!(s.op.kind, ops::Kind::Map) => {
                let mut names = Vec::new();
                e.v.node.walk(&mut |n| match n {
                    crate::expr::Node::Name(b) | crate::expr::Node::Index(b, _) => names.push(b.clone()),
                    _ => {}
                });
                // A buffer of a type not known yet comes first: nothing can be said.
                Some(DType::F32)
                    .filter(|_| s.count.is_some() && !names.iter().any(|n| types.contains_key(n)))
                    .or_else(|| names.iter().find_map(|n| types.get(n)).copied())
            }
            _ => None,
        };
        if let Some(t) = found {
            types.entry(out.name.clone()).or_insert(t);
        }
    }
}
