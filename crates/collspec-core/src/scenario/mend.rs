//! Replaces wrong words of a file by the intended ones, each with a diagnostic. Everything that depends on a wrong word is then
//! read as intended, so that one mistake gives one diagnostic. A file with a diagnostic has no cases, so a wrong guess never runs.
use super::diagnostic::{Diagnostic, Span};
use super::foreign_words::{self, ForeignWord};
use super::keys::{self, KeyPlace};
use super::mend_values;
use super::reader::PointReader;
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use crate::ops::{self, Op};
use crate::suggest::nearest;
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, LazyLock};

/// The kind of a table, and the keys that it may have.
struct TableKind {
    place: KeyPlace,
    /// The operation of a step, or of the short form.
    op: Option<&'static Op>,
    /// The table in messages; `None` for a step, which is named after its operation.
    name: Option<&'static str>,
    allowed: &'static [&'static str],
}

impl TableKind {
    fn file(op: Option<&'static Op>) -> Self {
        Self { place: KeyPlace::File, op, name: Some("the file"), allowed: AllowedKeys::of(op).file }
    }

    fn step(op: &'static Op) -> Self {
        Self { place: KeyPlace::Step, op: Some(op), name: None, allowed: AllowedKeys::of(Some(op)).step }
    }

    fn other(place: KeyPlace, name: &'static str) -> Self {
        static KEYS: LazyLock<Vec<(KeyPlace, Vec<&'static str>)>> = LazyLock::new(|| {
            let mut of_places: Vec<(KeyPlace, Vec<&'static str>)> = Vec::new();
            for place in keys::KEYS.iter().flat_map(|key| key.places).copied() {
                if of_places.iter().all(|(known, _)| *known != place) {
                    of_places.push((place, keys::keys_in(place).collect()));
                }
            }
            of_places
        });
        let allowed = KEYS.iter().find(|(of, _)| *of == place).map_or(&[][..], |(_, keys)| keys);
        Self { place, op: None, name: Some(name), allowed }
    }
}

impl fmt::Display for TableKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.name, self.op) {
            (None, Some(op)) => write!(f, "`{}`", op.name),
            (name, _) => f.write_str(name.unwrap_or("a step")),
        }
    }
}

/// The keys of a file and of a step with an operation. They are listed once, since every point of every matrix needs them.
#[derive(Clone, Copy, Default)]
struct AllowedKeys {
    file: &'static [&'static str],
    step: &'static [&'static str],
}

impl AllowedKeys {
    /// The keys of an operation's short form and of its step; without an operation, of a file alone.
    fn of(op: Option<&'static Op>) -> Self {
        type ByOperation = Vec<(Option<&'static str>, [Vec<&'static str>; 2])>;
        static KEYS: LazyLock<ByOperation> = LazyLock::new(|| {
            let ops = ops::TABLE.iter().map(Some).chain([None]);
            ops.map(|op| (op.map(|op| op.name), [file_keys(op), op.map_or_else(Vec::new, all_step_keys)])).collect()
        });
        let found = KEYS.iter().find(|(name, _)| *name == op.map(|op| op.name));
        found.map_or_else(Self::default, |(_, [file, step])| Self { file, step })
    }
}

fn file_keys(op: Option<&'static Op>) -> Vec<&'static str> {
    let step_keys = op.into_iter().flat_map(step_keys).filter(|k| !matches!(*k, "in" | "out" | "steps"));
    keys::keys_in(KeyPlace::File).chain(keys::default_keys()).chain(step_keys).collect()
}

fn all_step_keys(op: &'static Op) -> Vec<&'static str> {
    let defaults = nests(op).then(keys::default_keys);
    step_keys(op).chain(defaults.into_iter().flatten()).collect()
}

fn step_keys(op: &'static Op) -> impl Iterator<Item = &'static str> {
    ops::COMMON_KEYS.iter().chain(op.keys).copied()
}

fn nests(op: &Op) -> bool {
    matches!(op.kind, ops::Kind::Group | ops::Kind::Loop)
}

/// Corrects the tree of one point.
pub(crate) fn mend(reader: &mut PointReader<'_>, top: &mut TomlTable) {
    let mut table = Cow::Borrowed(&*top);
    let op = mend_operation(reader, &mut table, &TableKind::file(None));
    mend_keys(reader, &mut table, Span::default(), &TableKind::file(op));
    mend_values::of_file(reader, &mut table, op.is_some());
    let short = table.get("op").is_some();
    mend_value(reader, &mut table, "before", mended_steps);
    mend_value(reader, &mut table, "steps", mended_steps);
    mend_value(reader, &mut table, "comms", mended_comms);
    mend_value(reader, &mut table, "inputs", if short { mended_buffer } else { mended_buffers });
    mend_value(reader, &mut table, "expect", if short { mended_expectation } else { mended_expectations });
    if let Cow::Owned(mended) = table {
        *top = mended;
    }
}

/// Number of keys of a table whose meaning is guessed: each costs a pass over the table, or the whole text.
const MOST_KEYS: usize = 64;

/// Corrects the keys that make many cases from a file, and the names of axes.
pub(crate) fn mend_case_keys(reader: &mut PointReader<'_>, top: &mut TomlTable) {
    let kind = TableKind::file(operation_of(top));
    for at in 0..top.entries.len().min(MOST_KEYS) {
        let e = &top.entries[at];
        if kind.allowed.contains(&&*e.key) || !matches!(e.value.kind, TomlKind::Table(_)) {
            continue;
        }
        let Some(MeantEntry { diagnostic, entry: Some(entry), .. }) = meant_entry(reader, e, top, &kind) else {
            continue;
        };
        if matches!(&*entry.key, "matrix" | "variants") {
            reader.report(diagnostic);
            top.entries[at] = entry;
        }
    }
    let Some(at) = top.entries.iter().position(|e| &*e.key == "matrix") else { return };
    let TomlKind::Table(axes) = &top.entries[at].value.kind else { return };
    let mut table = Cow::Borrowed(&**axes);
    for number in 0..axes.entries.len().min(MOST_KEYS) {
        if let Some((diagnostic, key)) = meant_axis(reader, &axes.entries[number], axes, top, &kind) {
            reader.report(diagnostic);
            table.to_mut().entries[number].key = key.into();
        }
    }
    if let Some(value) = changed(table, top.entries[at].value.span) {
        top.entries[at].value = value;
    }
}

fn operation_of(top: &TomlTable) -> Option<&'static Op> {
    match top.get("op").map(|e| &e.value.kind) {
        Some(TomlKind::Str(word)) => ops::find(word),
        _ => None,
    }
}

/// The key of the file that an axis's name is meant for, if the name cannot be used in an expression.
fn meant_axis(
    reader: &PointReader<'_>,
    axis: &TomlEntry,
    axes: &TomlTable,
    top: &TomlTable,
    kind: &TableKind,
) -> Option<(Diagnostic, &'static str)> {
    let name = &*axis.key;
    if name == "exclude" || kind.allowed.contains(&name) || keys::is_known(name) {
        return None;
    }
    let taken = |key: &str| top.get(key).is_some() || axes.get(key).is_some();
    let foreign = foreign_key(name, kind, taken).map(|word| word.ours).filter(|ours| kind.allowed.contains(ours));
    let ours = foreign.or_else(|| nearest(name, kind.allowed.iter().copied())).filter(|ours| !taken(ours))?;
    if uses(&reader.file.text, name) > 1 {
        return None;
    }
    let d = Diagnostic::new(axis.key_span, format!("the axis `{name}` is used nowhere"));
    Some((d.help(format!("did you mean `{ours}`?")), ours))
}

/// The number of times a name occurs in a text.
fn uses(text: &str, name: &str) -> usize {
    text.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| *word == name).count()
}

type Mended = Option<TomlValue>;

/// Replaces the value of a key, if it needs a correction.
fn mend_value(
    reader: &mut PointReader<'_>,
    table: &mut Cow<'_, TomlTable>,
    key: &str,
    mended: fn(&mut PointReader<'_>, &TomlValue) -> Mended,
) {
    let Some(at) = table.entries.iter().position(|e| &*e.key == key) else { return };
    if let Some(value) = mended(reader, &table.entries[at].value) {
        table.to_mut().entries[at].value = value;
    }
}

fn mended_steps(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    mended_list(reader, value, mended_step)
}

fn mended_list(
    reader: &mut PointReader<'_>,
    value: &TomlValue,
    mended: fn(&mut PointReader<'_>, &TomlValue) -> Mended,
) -> Mended {
    let TomlKind::Array(list) = &value.kind else { return None };
    let new: Vec<Mended> = list.iter().map(|v| if reader.is_full() { None } else { mended(reader, v) }).collect();
    if new.iter().all(Option::is_none) {
        return None;
    }
    let list = new.into_iter().zip(list.iter()).map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect();
    Some(TomlValue { span: value.span, kind: TomlKind::Array(Arc::new(list)) })
}

fn changed(table: Cow<'_, TomlTable>, span: Span) -> Mended {
    match table {
        Cow::Borrowed(_) => None,
        Cow::Owned(table) => Some(TomlValue { span, kind: TomlKind::Table(Arc::new(table)) }),
    }
}

fn mended_step(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    let TomlKind::Table(t) = &value.kind else { return None };
    let mut table = Cow::Borrowed(&**t);
    let none = TableKind { place: KeyPlace::Step, op: None, name: Some("a step"), allowed: &["op"] };
    if let Some(op) = mend_operation(reader, &mut table, &none) {
        mend_keys(reader, &mut table, value.span, &TableKind::step(op));
        mend_values::of_step(reader, &mut table);
        if nests(op) {
            mend_value(reader, &mut table, "steps", mended_steps);
        }
    }
    changed(table, value.span)
}

fn mended_comms(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    let TomlKind::Table(t) = &value.kind else { return None };
    let mut table = Cow::Borrowed(&**t);
    for at in 0..t.entries.len() {
        if reader.is_full() {
            break;
        }
        let entry = &table.entries[at];
        let mended = match &entry.value.kind {
            TomlKind::Table(_) => {
                mended_table(reader, &entry.value, &TableKind::other(KeyPlace::Comm, "a communicator"))
            }
            _ => mend_values::communicator(reader, entry),
        };
        if let Some(value) = mended {
            table.to_mut().entries[at].value = value;
        }
    }
    changed(table, value.span)
}

fn mended_table(reader: &mut PointReader<'_>, value: &TomlValue, kind: &TableKind) -> Mended {
    let TomlKind::Table(t) = &value.kind else { return None };
    let mut table = Cow::Borrowed(&**t);
    mend_keys(reader, &mut table, value.span, kind);
    changed(table, value.span)
}

fn mended_row(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    // There may be very many rows, most of which are lists.
    let TomlKind::Table(_) = &value.kind else { return None };
    mended_table(reader, value, &TableKind::other(KeyPlace::Row, "a row"))
}

fn mended_buffer(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    match &value.kind {
        TomlKind::Array(_) => mended_list(reader, value, mended_row),
        _ => mended_table(reader, value, &TableKind::other(KeyPlace::Buffer, "a buffer")),
    }
}

fn mended_expectation(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    match &value.kind {
        TomlKind::Array(_) => mended_list(reader, value, mended_row),
        _ => mended_table(reader, value, &TableKind::other(KeyPlace::Row, "`expect`")),
    }
}

fn mended_buffers(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    mended_values(reader, value, mended_buffer)
}

fn mended_expectations(reader: &mut PointReader<'_>, value: &TomlValue) -> Mended {
    mended_values(reader, value, mended_expectation)
}

/// Corrects every value of a table.
fn mended_values(
    reader: &mut PointReader<'_>,
    value: &TomlValue,
    mended: fn(&mut PointReader<'_>, &TomlValue) -> Mended,
) -> Mended {
    let TomlKind::Table(t) = &value.kind else { return None };
    let mut table = Cow::Borrowed(&**t);
    for at in 0..t.entries.len() {
        if reader.is_full() {
            break;
        }
        if let Some(value) = mended(reader, &table.entries[at].value) {
            table.to_mut().entries[at].value = value;
        }
    }
    changed(table, value.span)
}

/// The operation of a step or of the short form, with its key and its word corrected.
fn mend_operation(
    reader: &mut PointReader<'_>,
    table: &mut Cow<'_, TomlTable>,
    kind: &TableKind,
) -> Option<&'static Op> {
    let may_lack = table.get("op").is_some() || (kind.place == KeyPlace::File && table.get("steps").is_some());
    if !may_lack && let Some(at) = table.entries.iter().position(|e| means_operation(e, table, kind)) {
        let d = Diagnostic::new(table.entries[at].key_span, unknown(&table.entries[at].key, kind));
        let shown = reader.shown(&table.entries[at].value);
        reader.report(d.help(format!("write `op = {shown}`")));
        table.to_mut().entries[at].key = "op".into();
    }
    let at = table.entries.iter().position(|e| &*e.key == "op")?;
    let value = &table.entries[at].value;
    let TomlKind::Str(word) = &value.kind else { return None };
    if let Some(op) = ops::find(word) {
        return Some(op);
    }
    let d = Diagnostic::new(value.span, format!("there is no operation `{}`", word.escape_debug()));
    let names = || ops::TABLE.iter().map(|o| o.name);
    let (meant, help) = match foreign_words::same_but_for_its_form(word, names()) {
        Some(op) => (op, format!("write `op = \"{op}\"`")),
        None => match foreign_words::operation(word) {
            Some(entry) => (entry.ours, entry.advice("op", &format!("\"{}\"", entry.ours))),
            None => match nearest(word, names()) {
                Some(near) => (near, format!("did you mean `{near}`?")),
                None => ("", format!("the operations are {}", names().collect::<Vec<_>>().join(", "))),
            },
        },
    };
    reader.mended.unknown_operations.insert(value.span);
    reader.report(d.help(help));
    let found = ops::find(meant);
    reader.mended.unclear |= found.is_none();
    let op = found?;
    table.to_mut().entries[at].value.kind = TomlKind::Str(op.name.into());
    Some(op)
}

/// True if a key is meant as the missing `op`.
fn means_operation(e: &TomlEntry, table: &TomlTable, kind: &TableKind) -> bool {
    let TomlKind::Str(_) = &e.value.kind else { return false };
    if keys::is_known(&e.key) {
        return false;
    }
    let foreign = foreign_words::key(kind.place, None, &e.key, |ours| table.get(ours).is_some());
    // a text is not a list of steps
    foreign.map_or_else(|| nearest(&e.key, ["op"]).is_some(), |entry| matches!(entry.ours, "op" | "steps"))
}

fn unknown(key: &str, kind: &TableKind) -> String {
    format!("unknown key `{key}` in {kind}")
}

/// Corrects the keys of a table. Keys that do not resemble any key of the language are removed.
fn mend_keys(reader: &mut PointReader<'_>, table: &mut Cow<'_, TomlTable>, span: Span, kind: &TableKind) {
    if table.entries.iter().all(|e| kind.allowed.contains(&&*e.key)) {
        return;
    }
    let (mut at, mut unknown_keys) = (0, 0);
    while at < table.entries.len() && unknown_keys < MOST_KEYS && !reader.is_full() {
        let e = &table.entries[at];
        if kind.allowed.contains(&&*e.key) || &*e.key == "op" || reader.misplaced_key(e, span).is_some() {
            at += 1;
            continue;
        }
        let Some(MeantEntry { diagnostic, entry, complete, advice }) = meant_entry(reader, e, table, kind) else {
            if !keys::is_known(&e.key) {
                mark_incomplete(reader, table);
                unknown_keys += 1;
            }
            at += 1;
            continue;
        };
        // Keys with the same fix are one mistake, such as `atol` and `rtol`.
        let told = advice.and_then(|advice| reader.mended.advice.get(advice)).copied();
        match told.and_then(|at| reader.diagnostics.get_mut(at)) {
            Some(first) if first.related.len() < 16 => first.related.push((e.key_span, "here too".into())),
            // Further ones are reported one by one, so that the limit on diagnostics ends the search in a hostile file.
            _ => {
                reader.mended.advice.extend(advice.map(|advice| (advice, reader.diagnostics.len())));
                reader.report(diagnostic);
            }
        }
        if !complete || entry.is_none() {
            mark_incomplete(reader, table);
        }
        match entry {
            Some(entry) => {
                table.to_mut().entries[at] = entry;
                at += 1;
            }
            None => {
                table.to_mut().entries.remove(at);
            }
        }
    }
}

/// Marks a step with a key that was not understood, so that missing keys are not reported: the unknown key may be one of them.
fn mark_incomplete(reader: &mut PointReader<'_>, table: &TomlTable) {
    reader.mended.unclear = true;
    if let Some(op) = table.get("op") {
        reader.mended.incomplete_steps.insert(op.value.span);
    }
}

/// A key that is not allowed in its table, and the key that was meant.
struct MeantEntry {
    diagnostic: Diagnostic,
    /// `None` if no key of the language is meant, or one that the table already has.
    entry: Option<TomlEntry>,
    /// False if other keys are needed too, which the diagnostic names.
    complete: bool,
    /// The help on a word that does not correspond to a key.
    advice: Option<&'static str>,
}

/// The intended entry; `None` if no known key is similar.
fn meant_entry(reader: &PointReader<'_>, e: &TomlEntry, table: &TomlTable, kind: &TableKind) -> Option<MeantEntry> {
    let taken = |key: &str| table.get(key).is_some();
    let free = |key: &str| kind.allowed.contains(&key) && !taken(key);
    let message = match kind.op {
        Some(op) if keys::find(KeyPlace::Step, &e.key).is_some() => {
            format!("`{}` has no use for `{}`", op.name, e.key)
        }
        _ => unknown(&e.key, kind),
    };
    let d = Diagnostic::new(e.key_span, message);
    let meant = |ours: &str, value: TomlValue, help: String, complete: bool| MeantEntry {
        diagnostic: d.clone().help(help),
        entry: free(ours).then(|| TomlEntry { key: ours.into(), key_span: e.key_span, value }),
        complete,
        advice: None,
    };
    if kind.place == KeyPlace::File && e.key.starts_with("NCCL_") {
        return Some(meant("", e.value.clone(), format!("write `env.{} = {}`", e.key, reader.shown(&e.value)), true));
    }
    if let Some(word) = foreign_key(&e.key, kind, taken) {
        let (ours, value, shown) = mend_values::fit(reader, word.ours, !word.help.is_empty(), &e.value);
        let mut help = word.advice(ours, &shown);
        if word.help.is_empty() && mend_values::is_shortened(&shown) {
            help = format!("write `{ours}` in place of `{}`", e.key);
        }
        // The short form has only one output.
        if kind.place == KeyPlace::File && kind.op.is_some() {
            help = help.replace("BUFFER", "out");
        }
        let advice = Some(word.help).filter(|_| word.ours.is_empty());
        return Some(MeantEntry { advice, ..meant(ours, value, help, word.help.is_empty()) });
    }
    if keys::is_known(&e.key) {
        return None;
    }
    // A table may have very many keys, so each is compared with few words.
    let allowed = || kind.allowed.iter().copied();
    let near = foreign_words::same_but_for_its_form(&e.key, allowed()).or_else(|| nearest(&e.key, allowed()))?;
    let near = if taken(near) { nearest(&e.key, allowed().filter(|key| free(key))).unwrap_or(near) } else { near };
    Some(meant(near, e.value.clone(), format!("did you mean `{near}`?"), true))
}

fn foreign_key(key: &str, kind: &TableKind, taken: impl Fn(&str) -> bool + Copy) -> Option<&'static ForeignWord> {
    let place = if kind.place == KeyPlace::Row { KeyPlace::Buffer } else { kind.place };
    let op = kind.op.map(|op| op.name);
    // The short form also has its step's keys, and a file has defaults for steps.
    let of_step = || {
        let found = foreign_words::key(KeyPlace::Step, op, key, taken)?;
        (place == KeyPlace::File && (found.ours.is_empty() || kind.allowed.contains(&found.ours))).then_some(found)
    };
    foreign_words::key(place, op, key, taken).or_else(of_step)
}
