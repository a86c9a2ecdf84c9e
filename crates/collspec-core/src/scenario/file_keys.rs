//! Reads the file's keys other than buffers, communicators and steps.
use super::case::*;
use super::diagnostic::Diagnostic;
use super::file::MAX_RANKS;
use super::forms::{self, Form};
use super::keys::{self, KeyPlace, ValueType};
use super::reader::{AllowedNames, PointReader};
use super::step_values;
use super::tree::{TomlKind, TomlTable, TomlValue};
use super::variables;
use crate::expr::Expr;
use crate::job::{FAULT_KINDS, FaultKind, MachineFault};
use crate::suggest::nearest;
use nccl_sys::ncclResult_t;

pub(crate) fn text(reader: &mut PointReader<'_>, top: &TomlTable, key: &str) -> Option<String> {
    let e = top.get(key)?;
    reader.text(key, &e.value).map(|t| t.value)
}

pub(crate) fn tags(reader: &mut PointReader<'_>, top: &TomlTable) -> Vec<String> {
    let Some(e) = top.get("tags") else { return Vec::new() };
    if !matches!(e.value.kind, TomlKind::Array(_)) {
        reader.report_wrong_type("tags", ValueType::TextList, &e.value);
        return Vec::new();
    }
    reader.texts("tags", &e.value).unwrap_or_default().into_iter().map(|t| t.value).collect()
}

pub(crate) fn world_size(reader: &mut PointReader<'_>, top: &TomlTable) -> Option<Spanned<usize>> {
    let Some(e) = top.get("world_size") else {
        let d = Diagnostic::new(super::Span { start: 0, end: 0 }, "`world_size` is missing");
        reader.report(d.help("write the number of ranks: `world_size = 2`, or an axis `matrix.world_size = [2, 4]`"));
        return None;
    };
    let found = reader.int("world_size", &e.value, 1..=MAX_RANKS as i128);
    if let (None, TomlKind::Array(_), Some(d)) = (found, &e.value.kind, reader.diagnostics.last_mut()) {
        d.help = Some("an axis with a case for each value is `matrix.world_size = [2, 4]`".into());
    }
    let v = found?;
    Some(Spanned { span: e.value.span, value: usize::try_from(v).ok()? })
}

pub(crate) fn repeat(reader: &mut PointReader<'_>, top: &TomlTable) -> u32 {
    let found = top.get("repeat").and_then(|e| reader.int("repeat", &e.value, 1..=1_000_000));
    found.and_then(|v| u32::try_from(v).ok()).unwrap_or(1)
}

pub(crate) fn timeout(reader: &mut PointReader<'_>, top: &TomlTable) -> Option<Spanned<f64>> {
    let e = top.get("timeout")?;
    let v = match e.value.kind {
        TomlKind::Int(v) => v as f64,
        TomlKind::Float(v) => v,
        _ => {
            reader.report_wrong_type("timeout", ValueType::Number, &e.value);
            return None;
        }
    };
    if !(v > 0.0 && v <= 86_400.0) {
        reader.report(Diagnostic::new(e.value.span, "`timeout` must be more than 0 seconds and at most a day"));
        return None;
    }
    Some(Spanned { span: e.value.span, value: v })
}

pub(crate) fn placement(reader: &mut PointReader<'_>, top: &TomlTable) -> Placement {
    let Some(t) = top.get("placement").and_then(|e| reader.text("placement", &e.value)) else {
        return Placement::default();
    };
    Placement::ALL.into_iter().find(|placement| placement.name() == t.value).unwrap_or_else(|| {
        report_unknown(reader, &t, "placement", &Placement::ALL.map(Placement::name));
        Placement::default()
    })
}

pub(crate) fn forms(reader: &mut PointReader<'_>, top: &TomlTable) -> Vec<Spanned<&'static Form>> {
    let Some(words) = top.get("forms").and_then(|e| reader.texts("forms", &e.value)) else { return Vec::new() };
    let mut out: Vec<Spanned<&'static Form>> = Vec::new();
    for w in &words {
        match forms::by_name(&w.value) {
            Some(form) if out.iter().any(|known| known.value == form) => {
                reader.report(Diagnostic::new(w.span, format!("the form `{}` is listed twice", w.value)));
            }
            Some(form) => out.push(Spanned { span: w.span, value: form }),
            None => report_unknown(reader, w, "form", &forms::names()),
        }
    }
    out
}

fn report_unknown(reader: &mut PointReader<'_>, t: &Spanned<String>, what: &str, known: &[&str]) {
    let d = Diagnostic::new(t.span, format!("there is no {what} `{}`", t.value.escape_debug()));
    reader.report(match nearest(&t.value, known.iter().copied()) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d.help(format!("known: {}", known.join(", "))),
    });
}

pub(crate) fn asserts(reader: &mut PointReader<'_>, top: &TomlTable) -> Vec<Spanned<Expr>> {
    let Some(e) = top.get("assert") else { return Vec::new() };
    let one = std::slice::from_ref(&e.value);
    let list: &[TomlValue] = match &e.value.kind {
        TomlKind::Array(a) => a,
        TomlKind::Str(_) => one,
        _ => {
            reader.report_wrong_type("assert", ValueType::Texts, &e.value);
            return Vec::new();
        }
    };
    list.iter()
        .filter_map(|v| reader.expression(v, AllowedNames::ASSERT).filter(|expr| element_is_clear(reader, expr)))
        .collect()
}

/// Checks that an expression with `i` names a buffer without an index, so that `i` counts its elements.
fn element_is_clear(reader: &mut PointReader<'_>, expr: &Spanned<Expr>) -> bool {
    let bare = expr.value.bare_names();
    if !bare.contains(&"i") || bare.iter().any(|name| reader.known.buffers.contains_key(*name)) {
        return true;
    }
    let d = Diagnostic::new(expr.span, "`i` counts no elements here: no buffer is named without an index");
    reader.report(
        d.help("`y` without an index is its element i: `y == x[i]` is checked for every i, `y[0] == x[0]` once"),
    );
    false
}

pub(crate) fn outcome(reader: &mut PointReader<'_>, top: &TomlTable) -> Option<Spanned<Vec<ExpectedOutcome>>> {
    let e = top.get("outcome")?;
    let words = reader.texts("outcome", &e.value)?;
    if words.is_empty() {
        reader.report(Diagnostic::new(e.value.span, "`outcome` admits nothing"));
    }
    let mut out: Vec<ExpectedOutcome> = Vec::new();
    for w in &words {
        let found = match w.value.as_str() {
            "ok" => Some(ExpectedOutcome::Ok),
            "error" => Some(ExpectedOutcome::Error(None)),
            "hang" => Some(ExpectedOutcome::Hang),
            "crash" => Some(ExpectedOutcome::Crash),
            "refused" => Some(ExpectedOutcome::Refused),
            "any" => None,
            other => step_values::result_code(other)
                .flatten()
                .filter(|r| *r != ncclResult_t::Success)
                .map(|r| ExpectedOutcome::Error(Some(r))),
        };
        match found {
            Some(o) if out.contains(&o) => {
                reader.report(Diagnostic::new(w.span, format!("`{}` is listed twice", w.value)))
            }
            Some(o) => out.push(o),
            None => {
                let errors = ncclResult_t::KNOWN.iter().filter_map(|k| k.name()).filter(|n| *n != "ok");
                let known: Vec<_> = ["ok", "error", "hang", "crash", "refused"].into_iter().chain(errors).collect();
                report_unknown(reader, w, "outcome", &known);
            }
        }
    }
    if out.contains(&ExpectedOutcome::Refused) && out.len() > 1 {
        reader.report(
            Diagnostic::new(e.value.span, "\"refused\" cannot be combined with another outcome")
                .help("a refused case does not run, so it has no other outcome"),
        );
    }
    Some(Spanned { span: e.value.span, value: out })
}

pub(crate) fn reason(
    reader: &mut PointReader<'_>,
    top: &TomlTable,
    outcome: Option<&Spanned<Vec<ExpectedOutcome>>>,
    steps: &[Step],
) -> Option<Spanned<String>> {
    let e = top.get("reason")?;
    let text = reader.text("reason", &e.value)?;
    let speaks = |o: &ExpectedOutcome| matches!(o, ExpectedOutcome::Error(_) | ExpectedOutcome::Refused);
    let possible = outcome.is_some_and(|o| o.value.iter().any(speaks))
        || all_steps(steps).any(|step| step.error.is_some())
        || !reader.diagnostics.is_empty();
    if !possible {
        let d = Diagnostic::new(e.key_span, "nothing here can have this reason");
        reader.report(d.help("`reason` is text of an error or a refusal: say which with `outcome`"));
    }
    Some(text)
}

pub(crate) fn env(reader: &mut PointReader<'_>, top: &TomlTable) -> Vec<EnvVar> {
    let Some(e) = top.get("env") else { return Vec::new() };
    let TomlKind::Table(t) = &e.value.kind else {
        reader.report_wrong_type("env", ValueType::Table, &e.value);
        return Vec::new();
    };
    let mut out = Vec::new();
    for v in &t.entries {
        if let Some(d) = variables::refuse_name(&v.key, v.key_span, reader.allow_env) {
            let misplaced = reader.misplaced_key(v, e.value.span);
            reader.report(misplaced.unwrap_or(d));
            continue;
        }
        let value = match &v.value.kind {
            TomlKind::Array(a) => {
                if reader.world > 0 && a.len() != reader.world {
                    let message = format!("`{}` has {} entries for {} ranks", v.key, a.len(), reader.world);
                    reader.report(Diagnostic::new(v.value.span, message));
                    continue;
                }
                let texts: Option<Vec<_>> = a.iter().map(|x| env_text(reader, &v.key, x)).collect();
                texts.map(EnvValue::PerRank)
            }
            _ => env_text(reader, &v.key, &v.value).map(EnvValue::All),
        };
        let name = Spanned { span: v.key_span, value: v.key.to_string() };
        out.extend(value.map(|value| EnvVar { name, value }));
    }
    out
}

fn env_text(reader: &mut PointReader<'_>, key: &str, val: &TomlValue) -> Option<String> {
    let text = match &val.kind {
        TomlKind::Str(s) => s.to_string(),
        TomlKind::Int(v) => v.to_string(),
        TomlKind::Float(v) => format!("{v}"),
        _ => {
            reader.report_wrong_type(key, ValueType::TextByRank, val);
            return None;
        }
    };
    match variables::refuse_value(key, &text, val.span, reader.allow_env) {
        Some(d) => {
            reader.report(d);
            None
        }
        None => Some(text),
    }
}

/// What happens to the machine.
pub(crate) fn fault(reader: &mut PointReader<'_>, top: &TomlTable) -> Option<MachineFault> {
    let e = top.get("fault")?;
    let TomlKind::Table(t) = &e.value.kind else {
        reader.report_wrong_type("fault", ValueType::Table, &e.value);
        return None;
    };
    let allowed: Vec<_> = keys::keys_in(KeyPlace::Fault).collect();
    reader.check_keys(t, e.value.span, &allowed, "`fault`");
    let mut int = |key: &str, least: i128, most: i128| {
        t.get(key).and_then(|e| reader.int(key, &e.value, least..=most)).and_then(|number| u64::try_from(number).ok())
    };
    let rank = int("rank", 0, MAX_RANKS as i128 - 1).unwrap_or(0);
    let at = int("at", 1, i64::MAX.into()).unwrap_or(1);
    let seed = int("seed", 0, i64::MAX.into()).unwrap_or(0);
    let Some(kind) = t.get("kind") else {
        let d = Diagnostic::new(e.value.span, "`fault` has no `kind`");
        reader.report(d.help("write `fault = { kind = \"ib_port_down\", at = 3 }`"));
        return None;
    };
    let text = reader.text("kind", &kind.value)?;
    let Some(kind) = FaultKind::named(&text.value) else {
        report_unknown(reader, &text, "kind", &FAULT_KINDS);
        return None;
    };
    Some(MachineFault { kind, rank: u32::try_from(rank).unwrap_or(0), moment: at - 1, seed })
}

pub(crate) fn requires(reader: &mut PointReader<'_>, top: &TomlTable) -> Requires {
    let mut out = Requires::default();
    let Some(e) = top.get("requires") else { return out };
    let TomlKind::Table(t) = &e.value.kind else {
        reader.report_wrong_type("requires", ValueType::Table, &e.value);
        return out;
    };
    let allowed: Vec<_> = keys::keys_in(KeyPlace::Requires).collect();
    reader.check_keys(t, e.value.span, &allowed, "`requires`");
    let mut int = |key: &str| {
        let v = t.get(key).and_then(|e| reader.int(key, &e.value, 0..=1_000_000))?;
        u32::try_from(v).ok()
    };
    (out.gpus, out.nodes) = (int("gpus"), int("nodes"));
    (out.nics, out.nvlinks) = (int("nics"), int("nvlinks"));
    if let Some(text) = t.get("link_layer").and_then(|e| reader.text("link_layer", &e.value)) {
        if !keys::LINK_LAYERS.contains(&text.value.as_str()) {
            report_unknown(reader, &text, "link_layer", &keys::LINK_LAYERS);
        }
        out.link_layer = Some(text.value);
    }
    if let Some(text) = t.get("nccl").and_then(|e| reader.text("nccl", &e.value)) {
        match text.value.split(',').map(|p| version_comparison(p.trim())).collect::<Option<Vec<_>>>() {
            Some(list) => out.nccl = list,
            None => {
                let d =
                    Diagnostic::new(text.span, format!("`{}` is not a version requirement", text.value.escape_debug()));
                reader.report(d.help("write `\">=2.28\"`, or `\">=2.20, <2.30\"`"));
            }
        }
    }
    if let Some(text) = t.get("library").and_then(|e| reader.text("library", &e.value)) {
        if text.value != "nvidia" {
            report_unknown(reader, &text, "library", &["nvidia"]);
        }
        out.nvidia = true;
    }
    if let Some(e) = t.get("compute") {
        let shown = match &e.value.kind {
            TomlKind::Float(v) => Some(format!("{v:?}")),
            _ => reader.text("compute", &e.value).map(|t| t.value),
        };
        let parsed = shown.as_deref().and_then(|s| {
            let (major, minor) = s.split_once('.')?;
            Some((major.parse().ok()?, minor.parse().ok()?))
        });
        if let (None, Some(_)) = (parsed, &shown) {
            reader.report(
                Diagnostic::new(e.value.span, "`compute` must be a compute capability").help("write `\"9.0\"`"),
            );
        }
        out.compute = parsed;
    }
    out.multicast = t.get("multicast").and_then(|e| reader.bool("multicast", &e.value)).unwrap_or(false);
    if let Some(text) = t.get("backend").and_then(|e| reader.text("backend", &e.value)) {
        if !["soft", "nccl"].contains(&text.value.as_str()) {
            report_unknown(reader, &text, "backend", &["soft", "nccl"]);
        }
        out.backend = Some(text.value);
    }
    out
}

/// Parses a comparison such as `>=2.28`; a version alone is the lowest one.
fn version_comparison(text: &str) -> Option<(String, (u32, u32, u32))> {
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
