//! Communicators: `comms.NAME`, the steps that make them, references to them, and `config`.
use super::case::{CommDef, CommHow, ConfigValue, Sp};
use super::defaults::Defaults;
use super::diagnostic::Diagnostic;
use super::keys::{self, CONFIG_FIELDS, Place, Type};
use super::names::bad_name;
use super::reader::{Cx, Names, Per, Want};
use super::tree::{Kind, Table, Val};
use super::variables;
use crate::ops::{self, CommOp, Op};
use crate::suggest::nearest;

pub(crate) type Config = Vec<(Sp<String>, Sp<ConfigValue>)>;

/// All of `comms`, in file order.
pub(crate) fn before_first_step(cx: &mut Cx<'_>, val: &Val) -> Vec<CommDef> {
    let Kind::Table(table) = &val.kind else {
        cx.wrong_type("comms", Type::Table, val);
        return Vec::new();
    };
    let mut out: Vec<CommDef> = Vec::new();
    for e in &table.entries {
        let Kind::Table(t) = &e.val.kind else {
            let d = cx.slipped(e, val.span);
            match d {
                Some(d) => cx.fault(d),
                None => cx.wrong_type(&format!("comms.{}", e.key), Type::Table, &e.val),
            }
            continue;
        };
        let name = Sp { span: e.key_span, v: e.key.to_string() };
        check_name(cx, &name);
        let allowed: Vec<_> = keys::of(Place::Comm).collect();
        cx.check_keys(t, e.val.span, &allowed, "a communicator");
        let how = match (t.get("groups"), t.get("color")) {
            (Some(g), Some(c)) => {
                let d = Diagnostic::new(c.key_span, "`groups` and `color` exclude each other");
                cx.fault(d.related(g.key_span, "the other one"));
                None
            }
            (Some(g), None) => {
                for k in ["comm", "key"] {
                    if let Some(other) = t.get(k) {
                        cx.fault(Diagnostic::new(other.key_span, format!("`{k}` belongs to `color`, not to `groups`")));
                    }
                }
                cx.groups(&g.val).map(CommHow::Groups)
            }
            _ => split(cx, t, e.val.span, &name.v, None, Names::PER_RANK),
        };
        if let Some(CommHow::Split { comm, .. }) = &how {
            let earlier = comm.v == "world" || out.iter().any(|c| c.name.v == comm.v);
            if !earlier && cx.known.comms.contains_key(&comm.v) {
                let d = Diagnostic::new(comm.span, format!("`{}` is made later than `{}`", comm.v, name.v));
                cx.fault(d.help("communicators are made in file order: move it up"));
            }
        }
        let config = t.get("config").map(|c| config(cx, &c.val)).unwrap_or_default();
        out.extend(how.map(|how| CommDef { name, how, config }));
    }
    out
}

fn check_name(cx: &mut Cx<'_>, name: &Sp<String>) {
    if name.v == "world" {
        cx.fault(Diagnostic::new(name.span, "the communicator `world` exists already").help("choose another name"));
    } else if let Some((message, help)) = bad_name(&name.v) {
        cx.fault(Diagnostic::new(name.span, message).help(help));
    }
}

fn split(
    cx: &mut Cx<'_>,
    t: &Table,
    span: super::Span,
    name: &str,
    parent: Option<Sp<String>>,
    names: Names,
) -> Option<CommHow> {
    let Some(color) = t.get("color") else {
        let d = Diagnostic::new(span, format!("`{name}` has neither `groups` nor `color`"));
        cx.fault(d.help("write `groups = [[0, 1], [2, 3]]` or `color = \"rank % 2\"`"));
        return None;
    };
    let color = cx.num("color", &color.val, names, Want::Whole, Per::Communicator);
    let key = t.get("key").and_then(|e| cx.num("key", &e.val, names, Want::Whole, Per::Communicator));
    let comm = match (parent, t.get("comm")) {
        (Some(p), _) => p,
        (None, Some(e)) => reference(cx, &e.val)?,
        (None, None) => Sp { span, v: "world".to_owned() },
    };
    Some(CommHow::Split { comm, color: color?, key })
}

/// What a step `init` or `split` makes.
pub(crate) fn on_step(cx: &mut Cx<'_>, t: &Table, op: &Op, defaults: &Defaults<'_>) -> Option<CommDef> {
    let ops::Kind::Comm(kind @ (CommOp::Init | CommOp::Split)) = op.kind else { return None };
    let span = t.get("op").map_or_else(Default::default, |e| e.val.span);
    let Some(name) = t.get("new") else {
        let d = Diagnostic::new(span, format!("`{}` needs `new`", op.name));
        cx.fault(d.help("`new = \"NAME\"` is the new communicator's name"));
        return None;
    };
    let name = cx.text("new", &name.val)?;
    check_name(cx, &name);
    let how = if kind == CommOp::Init {
        let Some(e) = t.get("groups") else {
            let d = Diagnostic::new(span, "`init` needs `groups`");
            cx.fault(d.help("a communicator for each list of world ranks: `groups = [[0, 1], [2, 3]]`"));
            return None;
        };
        CommHow::Groups(cx.groups(&e.val)?)
    } else {
        let parent = match t.get("comm") {
            Some(e) => reference(cx, &e.val),
            None => defaults.find(cx, "comm").and_then(|e| reference(cx, &e.val)),
        };
        let parent = parent.unwrap_or(Sp { span, v: "world".to_owned() });
        split(cx, t, span, &name.v, Some(parent), Names::STEP)?
    };
    // What is said nearer wins, field by field; the file's own is the case's and not repeated here.
    let mut all = Config::new();
    let outer = defaults.all("config").into_iter().skip(usize::from(defaults.at_top("config")));
    for e in outer.chain(t.get("config")) {
        Defaults::touch(cx, e.key_span);
        for (k, v) in config(cx, &e.val) {
            all.retain(|(old, _)| old.v != k.v);
            all.push((k, v));
        }
    }
    Some(CommDef { name, how, config: all })
}

/// A communicator by name.
pub(crate) fn reference(cx: &mut Cx<'_>, val: &Val) -> Option<Sp<String>> {
    let name = cx.text("comm", val)?;
    if name.v == "world" {
        return Some(name);
    }
    if cx.known.comms.contains_key(&name.v) {
        cx.used.comms.insert(name.v.clone());
        return Some(name);
    }
    let place = cx.inside(name.span, &name.v, 0, name.v.len());
    let d = Diagnostic::new(place, format!("unknown communicator `{}`", name.v.escape_debug()));
    let known: Vec<&str> = cx.known.comms.keys().map(String::as_str).chain(["world"]).collect();
    let help = match nearest(&name.v, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", known.join(", ")),
    };
    cx.fault(d.help(help));
    None
}

/// `config`: NCCL's field names.
pub(crate) fn config(cx: &mut Cx<'_>, val: &Val) -> Config {
    let Kind::Table(table) = &val.kind else {
        cx.wrong_type("config", Type::Table, val);
        return Config::new();
    };
    let mut out = Config::new();
    for e in &table.entries {
        let Some((_, text)) = CONFIG_FIELDS.iter().find(|(name, _)| *name == &*e.key) else {
            let allowed: Vec<_> = CONFIG_FIELDS.iter().map(|f| f.0).collect();
            let one = Table { entries: vec![e.clone()] };
            cx.check_keys(&one, val.span, &allowed, "`config`");
            continue;
        };
        let value = match (&e.val.kind, text) {
            (Kind::Str(s), true) => {
                if let Some(d) = variables::refuse_value(&e.key, s, e.val.span, cx.allow_env) {
                    cx.fault(d);
                    continue;
                }
                ConfigValue::Text(s.to_string())
            }
            (Kind::Bool(b), false) => ConfigValue::Int((*b).into()),
            (Kind::Int(v), false) => match i32::try_from(*v) {
                Ok(v) => ConfigValue::Int(v.into()),
                Err(_) => {
                    cx.fault(Diagnostic::new(e.val.span, format!("`{}` must fit 32 bits", e.key)));
                    continue;
                }
            },
            _ => {
                let ty = if *text { Type::Text } else { Type::Int };
                cx.wrong_type(&e.key, ty, &e.val);
                continue;
            }
        };
        if &*e.key == "blocking" && value == ConfigValue::Int(0) {
            cx.fault(Diagnostic::new(e.key_span, "`blocking = 0` is not yet supported"));
        }
        out.push((Sp { span: e.key_span, v: e.key.to_string() }, Sp { span: e.val.span, v: value }));
    }
    out
}
