//! The keys of the file that are not about buffers or steps.
use super::case::*;
use super::diagnostic::Diagnostic;
use super::file::MAX_RANKS;
use super::forms::{self, Form};
use super::keys::{self, Place, Type};
use super::reader::{Cx, Names};
use super::step_values;
use super::tree::{Kind, Table, Val};
use super::variables;
use crate::expr::Expr;
use crate::suggest::nearest;
use nccl_sys::ncclResult_t;

pub(crate) fn text(cx: &mut Cx<'_>, top: &Table, key: &str) -> Option<String> {
    let e = top.get(key)?;
    cx.text(key, &e.val).map(|t| t.v)
}

pub(crate) fn tags(cx: &mut Cx<'_>, top: &Table) -> Vec<String> {
    let Some(e) = top.get("tags") else { return Vec::new() };
    if !matches!(e.val.kind, Kind::Array(_)) {
        cx.wrong_type("tags", Type::TextList, &e.val);
        return Vec::new();
    }
    cx.texts("tags", &e.val).unwrap_or_default().into_iter().map(|t| t.v).collect()
}

pub(crate) fn world_size(cx: &mut Cx<'_>, top: &Table) -> Option<Sp<usize>> {
    let Some(e) = top.get("world_size") else {
        let d = Diagnostic::new(super::Span { start: 0, end: 0 }, "`world_size` is missing");
        cx.fault(d.help("write the number of ranks: `world_size = 2`, or an axis `matrix.world_size = [2, 4]`"));
        return None;
    };
    let v = cx.int("world_size", &e.val, 1..=MAX_RANKS as i128)?;
    Some(Sp { span: e.val.span, v: usize::try_from(v).ok()? })
}

pub(crate) fn repeat(cx: &mut Cx<'_>, top: &Table) -> u32 {
    let found = top.get("repeat").and_then(|e| cx.int("repeat", &e.val, 1..=1_000_000));
    found.and_then(|v| u32::try_from(v).ok()).unwrap_or(1)
}

pub(crate) fn timeout(cx: &mut Cx<'_>, top: &Table) -> Option<Sp<f64>> {
    let e = top.get("timeout")?;
    let v = match e.val.kind {
        Kind::Int(v) => v as f64,
        Kind::Float(v) => v,
        _ => {
            cx.wrong_type("timeout", Type::Number, &e.val);
            return None;
        }
    };
    if !(v > 0.0 && v <= 86_400.0) {
        cx.fault(Diagnostic::new(e.val.span, "`timeout` must be more than 0 seconds and at most a day"));
        return None;
    }
    Some(Sp { span: e.val.span, v })
}

pub(crate) fn placement(cx: &mut Cx<'_>, top: &Table) -> Placement {
    let Some(t) = top.get("placement").and_then(|e| cx.text("placement", &e.val)) else { return Placement::default() };
    Placement::ALL.into_iter().find(|placement| placement.name() == t.v).unwrap_or_else(|| {
        one_of(cx, &t, "placement", &Placement::ALL.map(Placement::name));
        Placement::default()
    })
}

pub(crate) fn forms(cx: &mut Cx<'_>, top: &Table) -> Vec<Sp<&'static Form>> {
    let Some(words) = top.get("forms").and_then(|e| cx.texts("forms", &e.val)) else { return Vec::new() };
    let mut out: Vec<Sp<&'static Form>> = Vec::new();
    for w in &words {
        match forms::find(&w.v) {
            Some(form) if out.iter().any(|known| known.v == form) => {
                cx.fault(Diagnostic::new(w.span, format!("the form `{}` stands here twice", w.v)));
            }
            Some(form) => out.push(Sp { span: w.span, v: form }),
            None => one_of(cx, w, "form", &forms::names()),
        }
    }
    out
}

fn one_of(cx: &mut Cx<'_>, t: &Sp<String>, what: &str, known: &[&str]) {
    let d = Diagnostic::new(t.span, format!("there is no {what} `{}`", t.v.escape_debug()));
    cx.fault(match nearest(&t.v, known.iter().copied()) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d.help(format!("known: {}", known.join(", "))),
    });
}

pub(crate) fn asserts(cx: &mut Cx<'_>, top: &Table) -> Vec<Sp<Expr>> {
    let Some(e) = top.get("assert") else { return Vec::new() };
    let one = std::slice::from_ref(&e.val);
    let list: &[Val] = match &e.val.kind {
        Kind::Array(a) => a,
        Kind::Str(_) => one,
        _ => {
            cx.wrong_type("assert", Type::Texts, &e.val);
            return Vec::new();
        }
    };
    list.iter().filter_map(|v| cx.expr(v, Names::ASSERT).filter(|expr| element_is_clear(cx, expr))).collect()
}

/// `i` counts the elements of a buffer that is named without an index; without one it would be 0.
fn element_is_clear(cx: &mut Cx<'_>, expr: &Sp<Expr>) -> bool {
    let bare = expr.v.bare_names();
    if !bare.contains(&"i") || bare.iter().any(|name| cx.known.buffers.contains_key(*name)) {
        return true;
    }
    let d = Diagnostic::new(expr.span, "`i` counts no elements here: no buffer is named without an index");
    cx.fault(d.help("`y` without an index is its element i: `y == x[i]` is checked for every i, `y[0] == x[0]` once"));
    false
}

pub(crate) fn outcome(cx: &mut Cx<'_>, top: &Table) -> Option<Sp<Vec<Expected>>> {
    let e = top.get("outcome")?;
    let words = cx.texts("outcome", &e.val)?;
    if words.is_empty() {
        cx.fault(Diagnostic::new(e.val.span, "`outcome` admits nothing"));
    }
    let mut out: Vec<Expected> = Vec::new();
    for w in &words {
        let found = match w.v.as_str() {
            "ok" => Some(Expected::Ok),
            "error" => Some(Expected::Error(None)),
            "hang" => Some(Expected::Hang),
            "crash" => Some(Expected::Crash),
            "refused" => Some(Expected::Refused),
            "any" => None,
            other => step_values::result(other)
                .flatten()
                .filter(|r| *r != ncclResult_t::Success)
                .map(|r| Expected::Error(Some(r))),
        };
        match found {
            Some(o) if out.contains(&o) => cx.fault(Diagnostic::new(w.span, format!("`{}` stands here twice", w.v))),
            Some(o) => out.push(o),
            None => {
                let errors = ncclResult_t::KNOWN.iter().filter_map(|k| k.name()).filter(|n| *n != "ok");
                let known: Vec<_> = ["ok", "error", "hang", "crash", "refused"].into_iter().chain(errors).collect();
                one_of(cx, w, "outcome", &known);
            }
        }
    }
    if out.contains(&Expected::Refused) && out.len() > 1 {
        cx.fault(
            Diagnostic::new(e.val.span, "\"refused\" excludes every other outcome")
                .help("what is refused does not run"),
        );
    }
    Some(Sp { span: e.val.span, v: out })
}

pub(crate) fn reason(
    cx: &mut Cx<'_>,
    top: &Table,
    outcome: Option<&Sp<Vec<Expected>>>,
    steps: &[Step],
) -> Option<Sp<String>> {
    let e = top.get("reason")?;
    let text = cx.text("reason", &e.val)?;
    let speaks = |o: &Expected| matches!(o, Expected::Error(_) | Expected::Refused);
    let possible = outcome.is_some_and(|o| o.v.iter().any(speaks)) || any_error(steps) || !cx.faults.is_empty();
    if !possible {
        let d = Diagnostic::new(e.key_span, "nothing here can have this reason");
        cx.fault(d.help("`reason` is text of an error or a refusal: say which with `outcome`"));
    }
    Some(text)
}

fn any_error(steps: &[Step]) -> bool {
    steps.iter().any(|s| s.error.is_some() || any_error(&s.steps))
}

pub(crate) fn env(cx: &mut Cx<'_>, top: &Table) -> Vec<EnvVar> {
    let Some(e) = top.get("env") else { return Vec::new() };
    let Kind::Table(t) = &e.val.kind else {
        cx.wrong_type("env", Type::Table, &e.val);
        return Vec::new();
    };
    let mut out = Vec::new();
    for v in &t.entries {
        if let Some(d) = variables::refuse_name(&v.key, v.key_span, cx.allow_env) {
            let slipped = cx.slipped(v, e.val.span);
            cx.fault(slipped.unwrap_or(d));
            continue;
        }
        let value = match &v.val.kind {
            Kind::Array(a) => {
                if cx.world > 0 && a.len() != cx.world {
                    let message = format!("`{}` has {} entries for {} ranks", v.key, a.len(), cx.world);
                    cx.fault(Diagnostic::new(v.val.span, message));
                    continue;
                }
                let texts: Option<Vec<_>> = a.iter().map(|x| env_text(cx, &v.key, x)).collect();
                texts.map(EnvValue::PerRank)
            }
            _ => env_text(cx, &v.key, &v.val).map(EnvValue::All),
        };
        let name = Sp { span: v.key_span, v: v.key.to_string() };
        out.extend(value.map(|value| EnvVar { name, value }));
    }
    out
}

fn env_text(cx: &mut Cx<'_>, key: &str, val: &Val) -> Option<String> {
    let text = match &val.kind {
        Kind::Str(s) => s.to_string(),
        Kind::Int(v) => v.to_string(),
        Kind::Float(v) => format!("{v}"),
        _ => {
            cx.wrong_type(key, Type::TextByRank, val);
            return None;
        }
    };
    match variables::refuse_value(key, &text, val.span, cx.allow_env) {
        Some(d) => {
            cx.fault(d);
            None
        }
        None => Some(text),
    }
}

pub(crate) fn requires(cx: &mut Cx<'_>, top: &Table) -> Requires {
    let mut out = Requires::default();
    let Some(e) = top.get("requires") else { return out };
    let Kind::Table(t) = &e.val.kind else {
        cx.wrong_type("requires", Type::Table, &e.val);
        return out;
    };
    let allowed: Vec<_> = keys::of(Place::Requires).collect();
    cx.check_keys(t, e.val.span, &allowed, "`requires`");
    let mut int = |key: &str| {
        let v = t.get(key).and_then(|e| cx.int(key, &e.val, 0..=1_000_000))?;
        u32::try_from(v).ok()
    };
    (out.gpus, out.nodes) = (int("gpus"), int("nodes"));
    if let Some(text) = t.get("nccl").and_then(|e| cx.text("nccl", &e.val)) {
        match text.v.split(',').map(|p| comparison(p.trim())).collect::<Option<Vec<_>>>() {
            Some(list) => out.nccl = list,
            None => {
                let d = Diagnostic::new(text.span, format!("`{}` is not a version requirement", text.v.escape_debug()));
                cx.fault(d.help("write `\">=2.28\"`, or `\">=2.20, <2.30\"`"));
            }
        }
    }
    if let Some(text) = t.get("library").and_then(|e| cx.text("library", &e.val)) {
        if text.v != "nvidia" {
            one_of(cx, &text, "library", &["nvidia"]);
        }
        out.nvidia = true;
    }
    if let Some(e) = t.get("compute") {
        let shown = match &e.val.kind {
            Kind::Float(v) => Some(format!("{v:?}")),
            _ => cx.text("compute", &e.val).map(|t| t.v),
        };
        let parsed = shown.as_deref().and_then(|s| {
            let (major, minor) = s.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        if let (None, Some(_)) = (parsed, &shown) {
            cx.fault(Diagnostic::new(e.val.span, "`compute` must be a compute capability").help("write `\"9.0\"`"));
        }
        out.compute = parsed;
    }
    if let Some(text) = t.get("backend").and_then(|e| cx.text("backend", &e.val)) {
        if !["soft", "nccl"].contains(&text.v.as_str()) {
            one_of(cx, &text, "backend", &["soft", "nccl"]);
        }
        out.backend = Some(text.v);
    }
    out
}

/// `>=2.28` and its like; a bare version is the least one.
fn comparison(text: &str) -> Option<(String, (u32, u32, u32))> {
    let at = text.find(|c: char| c.is_ascii_digit())?;
    let (sign, version) = text.split_at(at);
    let sign = match sign.trim() {
        "" => ">=",
        "=" => "==",
        s @ (">=" | ">" | "<=" | "<" | "==") => s,
        _ => return None,
    };
    let parts: Vec<u32> = version.split('.').map(|p| p.parse().ok()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [a] => Some((sign.to_owned(), (*a, 0, 0))),
        [a, b] => Some((sign.to_owned(), (*a, *b, 0))),
        [a, b, c] => Some((sign.to_owned(), (*a, *b, *c))),
        _ => None,
    }
}
