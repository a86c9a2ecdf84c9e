//! A first look over the raw steps: what names the program defines, so that uses can be checked in one pass.
use super::diagnostic::Span;
use super::reader::Known;
use super::tree::{Kind, Table, Val};
use crate::expr::parse_ref;
use std::collections::BTreeSet;

/// Every name the program defines.
pub(crate) fn known(top: &Table) -> Known {
    let mut known = Known::default();
    if let Some(e) = top.get("op") {
        if let Some(inputs) = top.get("inputs") {
            known.buffers.insert("in".into(), inputs.key_span);
        }
        let has_out =
            matches!(&e.val.kind, Kind::Str(s) if crate::ops::find(s).is_none_or(|o| o.keys.contains(&"out")));
        if has_out {
            known.buffers.insert("out".into(), e.key_span);
        }
        step(top, &mut known);
    } else if let Some(Kind::Table(inputs)) = top.get("inputs").map(|e| &e.val.kind) {
        for e in &inputs.entries {
            known.buffers.insert(e.key.to_string(), e.key_span);
        }
    }
    if let Some(Kind::Table(comms)) = top.get("comms").map(|e| &e.val.kind) {
        for e in &comms.entries {
            known.comms.insert(e.key.to_string(), e.key_span);
        }
    }
    if let Some(s) = text(top, "stream") {
        known.streams.insert(s.0);
    }
    if let Some(e) = top.get("steps") {
        visit(&e.val, &mut |t| step(t, &mut known));
    }
    known
}

fn step(t: &Table, known: &mut Known) {
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

fn text(t: &Table, key: &str) -> Option<(String, Span)> {
    let e = t.get(key)?;
    match &e.val.kind {
        Kind::Str(s) => Some((s.to_string(), e.val.span)),
        _ => None,
    }
}

fn visit(steps: &Val, f: &mut impl FnMut(&Table)) {
    let Kind::Array(list) = &steps.kind else { return };
    for v in list.iter() {
        if let Kind::Table(t) = &v.kind {
            f(t);
            if let Some(inner) = t.get("steps") {
                visit(&inner.val, f);
            }
        }
    }
}

/// How many steps there are, nested ones too.
pub(crate) fn count(steps: &Val) -> usize {
    let mut count = 0;
    visit(steps, &mut |_| count += 1);
    count
}

/// Every default that is written: starred keys at the top of the file, and on groups and loops.
pub(crate) fn defaults(top: &Table) -> Vec<(String, Span)> {
    let starred = |t: &Table| -> Vec<(String, Span)> {
        let entries = t.entries.iter().filter(|e| super::keys::stars().any(|s| s == &*e.key));
        entries.map(|e| (e.key.to_string(), e.key_span)).collect()
    };
    let mut out = starred(top);
    if let Some(e) = top.get("steps") {
        visit(&e.val, &mut |t| {
            if text(t, "op").is_some_and(|o| o.0 == "group" || o.0 == "loop") {
                out.extend(starred(t));
            }
        });
    }
    out
}

/// The inputs whose count an all_to_all_v's `counts` give.
pub(crate) fn counted(top: &Table, short: bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut look = |t: &Table, name: Option<String>| {
        if text(t, "op").is_some_and(|o| o.0 == "all_to_all_v") {
            found.extend(name);
        }
    };
    if short {
        look(top, Some("in".into()));
    } else if let Some(e) = top.get("steps") {
        visit(&e.val, &mut |t| look(t, text(t, "in").map(|s| s.0)));
    }
    found
}
