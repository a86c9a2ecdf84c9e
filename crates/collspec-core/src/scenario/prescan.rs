//! Collects the names that a program defines before it is read, so that their uses can be checked in one pass.
use super::diagnostic::Span;
use super::reader::DefinedNames;
use super::tree::{TomlKind, TomlTable, TomlValue};
use crate::expr::parse_ref;
use std::collections::BTreeSet;

/// Every name the program defines.
pub(crate) fn defined_names(top: &TomlTable) -> DefinedNames {
    let mut known = DefinedNames::default();
    if let Some(e) = top.get("op") {
        if let Some(inputs) = top.get("inputs") {
            known.buffers.insert("in".into(), inputs.key_span);
        }
        let has_out =
            matches!(&e.value.kind, TomlKind::Str(s) if crate::ops::find(s).is_none_or(|o| o.keys.contains(&"out")));
        if has_out {
            known.buffers.insert("out".into(), e.key_span);
        }
        add_step_names(top, &mut known);
    } else if let Some(TomlKind::Table(inputs)) = top.get("inputs").map(|e| &e.value.kind) {
        for e in &inputs.entries {
            known.buffers.insert(e.key.to_string(), e.key_span);
        }
    }
    if let Some(TomlKind::Table(comms)) = top.get("comms").map(|e| &e.value.kind) {
        for e in &comms.entries {
            known.comms.insert(e.key.to_string(), e.key_span);
        }
    }
    if let Some(s) = text(top, "stream") {
        known.streams.insert(s.0);
    }
    if let Some(e) = top.get("steps") {
        visit(&e.value, &mut |t| add_step_names(t, &mut known));
    }
    if let Some(e) = top.get("before") {
        visit(&e.value, &mut |t| add_step_names(t, &mut known));
    }
    known
}

fn add_step_names(t: &TomlTable, known: &mut DefinedNames) {
    let is_wait = text(t, "op").is_some_and(|o| o.0 == "wait");
    if let Some((s, span)) = text(t, "out").filter(|_| text(t, "op").is_none_or(|o| o.0 != "put")) {
        let name = parse_ref(&s).map_or(s, |r| r.name);
        known.buffers.entry(name).or_insert(span);
    }
    if let Some((s, span)) = text(t, "name") {
        known.step_names.insert(s, span);
    }
    if let Some((s, span)) = text(t, "new") {
        known.new.insert(s.clone());
        known.comms.entry(s).or_insert(span);
    }
    if let Some((s, _)) = text(t, "stream").filter(|_| !is_wait) {
        known.streams.insert(s);
    }
}

fn text(t: &TomlTable, key: &str) -> Option<(String, Span)> {
    let e = t.get(key)?;
    match &e.value.kind {
        TomlKind::Str(s) => Some((s.to_string(), e.value.span)),
        _ => None,
    }
}

fn visit(steps: &TomlValue, f: &mut impl FnMut(&TomlTable)) {
    let TomlKind::Array(list) = &steps.kind else { return };
    for v in list.iter() {
        if let TomlKind::Table(t) = &v.kind {
            f(t);
            if let Some(inner) = t.get("steps") {
                visit(&inner.value, f);
            }
        }
    }
}

/// Number of steps, including nested ones.
pub(crate) fn count_steps(steps: &TomlValue) -> usize {
    let mut count = 0;
    visit(steps, &mut |_| count += 1);
    count
}

/// Every written default: default keys of the file, of groups and of loops.
pub(crate) fn defaults(top: &TomlTable) -> Vec<(String, Span)> {
    let starred = |t: &TomlTable| -> Vec<(String, Span)> {
        let entries = t.entries.iter().filter(|e| super::keys::default_keys().any(|s| s == &*e.key));
        entries.map(|e| (e.key.to_string(), e.key_span)).collect()
    };
    let mut out = starred(top);
    for e in [top.get("before"), top.get("steps")].into_iter().flatten() {
        visit(&e.value, &mut |t| {
            if text(t, "op").is_some_and(|o| o.0 == "group" || o.0 == "loop") {
                out.extend(starred(t));
            }
        });
    }
    out
}

/// The inputs whose number of elements comes from `counts` of an all_to_all_v or reduce_scatter_v.
pub(crate) fn inputs_with_counts(top: &TomlTable, short: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |t: &TomlTable, name: Option<String>| {
        if text(t, "op").is_some_and(|o| matches!(o.0.as_str(), "all_to_all_v" | "reduce_scatter_v")) {
            found.extend(name);
        }
    };
    if short {
        look(top, Some("in".into()));
    } else if let Some(e) = top.get("steps") {
        visit(&e.value, &mut |t| look(t, text(t, "in").map(|s| s.0)));
    }
    found
}
