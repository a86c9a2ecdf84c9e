//! Replaces values that have the wrong shape for their key, where the intention is clear: `comm = [0, 1]`,
//! `groups = [0, 1]`, a name around the only buffer of the short form.
use super::diagnostic::Diagnostic;
use super::keys::{self, KeyPlace, ValueType};
use super::reader::PointReader;
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use std::borrow::Cow;
use std::sync::Arc;

/// The intended key and value for a value under a key of another program, and the value as text.
pub(super) fn fit(
    reader: &PointReader<'_>,
    ours: &'static str,
    multiplied: bool,
    value: &TomlValue,
) -> (&'static str, TomlValue, String) {
    let list = |kind: TomlKind| TomlValue { span: value.span, kind };
    let shown = reader.shown(value);
    match (ours, &value.kind) {
        ("comm", TomlKind::Array(_)) | ("groups", _) => {
            let (value, shown) = as_groups(reader, value);
            ("groups", value, shown)
        }
        ("ranks", TomlKind::Int(_)) => {
            let shown = format!("[{shown}]");
            ("ranks", list(TomlKind::Array(Arc::new(vec![value.clone()]))), shown)
        }
        ("steps", TomlKind::Str(_)) => ("op", value.clone(), shown),
        ("steps", TomlKind::Table(_)) => {
            ("steps", list(TomlKind::Array(Arc::new(vec![value.clone()]))), "[...]".into())
        }
        ("count", TomlKind::Array(dims)) if multiplied => {
            let product = dims.iter().try_fold(1i128, |all, d| match d.kind {
                TomlKind::Int(size) if size >= 0 => all.checked_mul(size),
                _ => None,
            });
            let product = product.filter(|p| *p <= i64::MAX.into());
            (ours, list(TomlKind::Int(product.unwrap_or(1))), product.map_or("...".into(), |p| p.to_string()))
        }
        _ => (ours, value.clone(), shown),
    }
}

/// True if a value is shown in shortened form.
pub(super) fn is_shortened(shown: &str) -> bool {
    matches!(shown, "{ ... }" | "[...]")
}

/// The value as lists of ranks; a single list becomes the only one.
fn as_groups(reader: &PointReader<'_>, value: &TomlValue) -> (TomlValue, String) {
    let shown = reader.shown(value);
    if !is_flat(value) {
        return (value.clone(), shown);
    }
    let kind = TomlKind::Array(Arc::new(vec![value.clone()]));
    (TomlValue { span: value.span, kind }, format!("[{shown}]"))
}

fn is_flat(value: &TomlValue) -> bool {
    matches!(&value.kind, TomlKind::Array(list) if !list.is_empty() && list.iter().all(|v| matches!(v.kind, TomlKind::Int(_))))
}

/// Corrects values of the file's keys.
pub(super) fn of_file(reader: &mut PointReader<'_>, table: &mut Cow<'_, TomlTable>, short: bool) {
    of_step(reader, table);
    let number_of_ranks =
        table.entries.iter().position(|e| &*e.key == "ranks" && matches!(e.value.kind, TomlKind::Int(_)));
    if let Some(at) = number_of_ranks.filter(|_| table.get("world_size").is_none()) {
        let e = &table.entries[at];
        let shown = reader.shown(&e.value);
        reader.report(
            Diagnostic::new(e.key_span, "`ranks` says which ranks, not how many")
                .help(format!("write `world_size = {shown}`")),
        );
        table.to_mut().entries[at].key = "world_size".into();
    }
    if let Some(at) =
        table.entries.iter().position(|e| &*e.key == "steps" && matches!(e.value.kind, TomlKind::Table(_)))
    {
        let value = table.entries[at].value.clone();
        reader.report_wrong_type("steps", ValueType::Steps, &value);
        if let Some(d) = reader.diagnostics.last_mut() {
            d.help =
                Some("write `[[steps]]` for each step, or `steps = [{ op = ..., ... }, { op = ..., ... }]`".into());
        }
        let kind = TomlKind::Array(Arc::new(vec![value.clone()]));
        table.to_mut().entries[at].value = TomlValue { span: value.span, kind };
    }
    if short {
        for (key, buffer) in [("expect", "out"), ("inputs", "in")] {
            without_name(reader, table, key, buffer);
        }
    }
}

/// Corrects the communicator of a step, or of the file's default.
pub(super) fn of_step(reader: &mut PointReader<'_>, table: &mut Cow<'_, TomlTable>) {
    for at in 0..table.entries.len() {
        let e = &table.entries[at];
        let wrong = match &*e.key {
            "comm" => matches!(e.value.kind, TomlKind::Array(_)) && table.get("groups").is_none(),
            "groups" => is_flat(&e.value),
            _ => false,
        };
        if !wrong {
            continue;
        }
        let (value, shown) = as_groups(reader, &e.value);
        let message = match &*e.key {
            "comm" => "`comm` is the name of a communicator, not a list of ranks",
            _ => "`groups` must be lists of world ranks, like `[[0, 1], [2, 3]]`",
        };
        reader.report(
            Diagnostic::new(e.value.span, message)
                .help(format!("write `groups = {shown}`: a communicator of these world ranks")),
        );
        let key_span = e.key_span;
        table.to_mut().entries[at] = TomlEntry { key: "groups".into(), key_span, value };
    }
}

/// The table that a list of ranks as a communicator in `comms` is meant to be.
pub(super) fn communicator(reader: &mut PointReader<'_>, e: &TomlEntry) -> Option<TomlValue> {
    let nested = matches!(&e.value.kind, TomlKind::Array(list) if !list.is_empty() && list.iter().all(is_flat));
    if !nested && !is_flat(&e.value) {
        return None;
    }
    let (groups, shown) = as_groups(reader, &e.value);
    reader.report_wrong_type(&format!("comms.{}", e.key), ValueType::Table, &e.value);
    if let Some(d) = reader.diagnostics.last_mut() {
        d.help = Some(format!("write `comms.{} = {{ groups = {shown} }}`", e.key));
    }
    let entry = TomlEntry { key: "groups".into(), key_span: e.key_span, value: groups };
    let kind = TomlKind::Table(Arc::new(TomlTable { entries: vec![entry] }));
    Some(TomlValue { span: e.value.span, kind })
}

/// Removes the name from the only buffer that the short form reads or writes.
fn without_name(reader: &mut PointReader<'_>, table: &mut Cow<'_, TomlTable>, key: &str, buffer: &str) {
    let Some(at) = table.entries.iter().position(|e| &*e.key == key) else { return };
    let TomlKind::Table(names) = &table.entries[at].value.kind else { return };
    let [only] = names.entries.as_slice() else { return };
    let named = match &only.value.kind {
        TomlKind::Array(_) | TomlKind::Table(_) => true,
        TomlKind::Str(_) => &*only.key == buffer,
        _ => false,
    };
    if !named || keys::find(KeyPlace::Buffer, &only.key).is_some() || (key == "expect" && &*only.key != buffer) {
        return;
    }
    let (value, shown) = (only.value.clone(), reader.shown(&only.value));
    let message = format!("with `op` at the top `{key}` is one value, and `{}` has no place in it", only.key);
    reader.report(
        Diagnostic::new(only.key_span, message)
            .help(format!("write `{key} = {shown}`; for buffers with names write `steps`")),
    );
    table.to_mut().entries[at].value = value;
}
