//! Moves keys of the file that are misplaced under a header back to the top, with one diagnostic for each header. The rest of the
//! file is then read as intended.
use super::diagnostic::Diagnostic;
use super::keys::{self, KeyPlace};
use super::reader::PointReader;
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use std::sync::Arc;

/// Keys of the file that are never intended as the name of a buffer, an axis or a communicator.
const CLEAR: &[&str] =
    &["op", "steps", "inputs", "expect", "comms", "matrix", "variants", "assert", "world_size", "outcome", "requires"];

/// Moves keys that are misplaced under a header of the file's tables or of a step.
pub(crate) fn move_to_top(reader: &mut PointReader<'_>, top: &mut TomlTable) {
    let mut moved = Vec::new();
    for entry in &mut top.entries {
        match &entry.value.kind {
            TomlKind::Table(_) => {
                if let Some(value) = without_misplaced(reader, &entry.key, &entry.value, &mut moved) {
                    entry.value = value;
                }
            }
            TomlKind::Array(steps) if &*entry.key == "steps" => {
                let new: Vec<_> = steps.iter().map(|s| without_misplaced(reader, "steps", s, &mut moved)).collect();
                if new.iter().any(Option::is_some) {
                    let list = new.into_iter().zip(steps.iter()).map(|(new, old)| new.unwrap_or_else(|| old.clone()));
                    entry.value.kind = TomlKind::Array(Arc::new(list.collect()));
                }
            }
            _ => {}
        }
    }
    for entry in moved {
        if top.get(&entry.key).is_none() {
            top.entries.push(entry);
        }
    }
}

/// The table without misplaced keys, which are added to `moved`; `None` if it has none.
fn without_misplaced(
    reader: &mut PointReader<'_>,
    place: &str,
    value: &TomlValue,
    moved: &mut Vec<TomlEntry>,
) -> Option<TomlValue> {
    let TomlKind::Table(table) = &value.kind else { return None };
    let first = table.entries.iter().position(|e| diagnostic(reader, place, e, value).is_some())?;
    if let Some(d) = table.entries.get(first).and_then(|e| diagnostic(reader, place, e, value)) {
        reader.report(d);
    }
    let mut kept = TomlTable::default();
    for (at, e) in table.entries.iter().enumerate() {
        // Keys after a misplaced key of the file were intended for the top, too.
        let follows = at > first && CLEAR.contains(&&*e.key) && reader.misplaced_key(e, value.span).is_some();
        if follows || (at >= first && diagnostic(reader, place, e, value).is_some()) {
            moved.push(e.clone());
        } else {
            kept.entries.push(e.clone());
        }
    }
    Some(TomlValue { span: value.span, kind: TomlKind::Table(Arc::new(kept)) })
}

/// The diagnostic for a key that cannot belong to the header above it.
fn diagnostic(reader: &PointReader<'_>, place: &str, e: &TomlEntry, table: &TomlValue) -> Option<Diagnostic> {
    let d = reader.misplaced_key(e, table.span)?;
    let clear = CLEAR.contains(&&*e.key);
    match place {
        "env" => Some(d),
        "comms" => (clear || !matches!(e.value.kind, TomlKind::Table(_))).then_some(d),
        "inputs" | "expect" => (clear || !is_like_a_buffer(&e.value)).then_some(d),
        "steps" => keys::find(KeyPlace::Step, &e.key).is_none().then_some(d),
        "matrix" => match &e.value.kind {
            TomlKind::Array(list) => list.iter().any(is_step).then_some(d),
            TomlKind::Table(_) => has_single_values(&e.value).then_some(d),
            _ => Some(d.help(
                "what follows a header belongs to it: move it above the first header, or write a list if it is an axis",
            )),
        },
        _ => None,
    }
}

/// True if a value can be the contents of a buffer.
pub(super) fn is_like_a_buffer(value: &TomlValue) -> bool {
    match &value.kind {
        TomlKind::Table(_) => true,
        TomlKind::Array(rows) => rows.iter().all(|v| matches!(v.kind, TomlKind::Array(_) | TomlKind::Table(_))),
        _ => false,
    }
}

fn is_step(value: &TomlValue) -> bool {
    matches!(&value.kind, TomlKind::Table(t) if t.get("op").is_some())
}

/// True for a table with a value that is neither a list nor a table, which an axis cannot have.
fn has_single_values(value: &TomlValue) -> bool {
    match &value.kind {
        TomlKind::Table(t) => t.entries.iter().any(|e| has_single_values(&e.value)),
        TomlKind::Array(_) => false,
        _ => true,
    }
}
