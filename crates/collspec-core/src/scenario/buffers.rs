//! `inputs` and `expect`: reads rows, tables and the words "untouched" and "any" as contents of buffers.
use super::case::*;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, Span};
use super::elements::is_element;
use super::foreign_words;
use super::keys::{self, KeyPlace, ValueType};
use super::names::bad_name;
use super::reader::{AllowedNames, NumberKind, PointReader, RankScope};
use super::register::register_by_rank;
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use super::values::{read_each, read_random, read_text};
use crate::num::DType;
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet};

/// The key whose contents are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentUse {
    Input,
    Expect,
}

/// The facts that decide how a buffer's contents are read.
struct ContentContext<'a> {
    usage: ContentUse,
    /// The buffer's name in messages.
    name: &'a str,
    /// The element type; `None` if only the plan knows it.
    dtype: Option<DType>,
    /// The default count, if there is one.
    count: Option<&'a TomlEntry>,
    /// True if the operation gives the count.
    counted: bool,
}

/// Reads all buffers of `inputs`.
pub(crate) fn read_inputs(
    reader: &mut PointReader<'_>,
    entry: &TomlEntry,
    short: bool,
    defaults: &Defaults<'_>,
    counted: &BTreeSet<String>,
) -> Vec<BufferDef> {
    if short {
        let name = Spanned { span: entry.key_span, value: "in".to_owned() };
        return read_buffer(reader, name, &entry.value, defaults, counted).into_iter().collect();
    }
    let TomlKind::Table(table) = &entry.value.kind else {
        reader.report_wrong_type("inputs", ValueType::Table, &entry.value);
        if let Some(d) = reader.diagnostics.last_mut() {
            d.help = Some("with `steps`, `inputs` is a table by buffer name: `inputs.x = ...`".into());
        }
        return Vec::new();
    };
    if let Some(e) = first_value_key(table) {
        reader.report(
            Diagnostic::new(e.key_span, format!("expected the name of a buffer, found `{}`", e.key))
                .help("with `steps`, `inputs` is a table by buffer name: `inputs.x = { ... }`"),
        );
        return Vec::new();
    }
    let mut out = Vec::with_capacity(table.entries.len());
    for e in &table.entries {
        if reader.is_full() {
            break;
        }
        if check_buffer_name(reader, e, &entry.value) {
            out.extend(read_buffer(
                reader,
                Spanned { span: e.key_span, value: e.key.to_string() },
                &e.value,
                defaults,
                counted,
            ));
        }
    }
    out
}

/// The first key that belongs in a buffer's table, in a table where names of buffers are expected.
fn first_value_key(table: &TomlTable) -> Option<&TomlEntry> {
    table.entries.iter().find(|e| {
        keys::find(KeyPlace::Buffer, &e.key).is_some()
            && !matches!(&e.value.kind, TomlKind::Table(_))
            && (matches!(&*e.key, "each" | "text") || !matches!(&e.value.kind, TomlKind::Array(_)))
            && !table.entries.iter().any(|other| keys::find(KeyPlace::Buffer, &other.key).is_none())
    })
}

/// Checks a buffer's name, and that it is not a key of the file under the wrong header.
fn check_buffer_name(reader: &mut PointReader<'_>, e: &TomlEntry, table: &TomlValue) -> bool {
    let buffer_like = match &e.value.kind {
        TomlKind::Table(_) => true,
        TomlKind::Array(a) => a.iter().all(|v| matches!(v.kind, TomlKind::Array(_) | TomlKind::Table(_))),
        _ => false,
    };
    if !buffer_like && let Some(d) = reader.misplaced_key(e, table.span) {
        reader.report(d);
        return false;
    }
    if let Some((message, help)) = bad_name(&e.key) {
        reader.report(Diagnostic::new(e.key_span, message).help(help));
        return false;
    }
    if reader.axes.iter().any(|a| *a.name == *e.key && a.is_number()) {
        reader.report(Diagnostic::new(e.key_span, format!("`{}` is an axis of the matrix already", e.key)));
        return false;
    }
    true
}

fn read_buffer(
    reader: &mut PointReader<'_>,
    name: Spanned<String>,
    val: &TomlValue,
    defaults: &Defaults<'_>,
    counted: &BTreeSet<String>,
) -> Option<BufferDef> {
    let table = match &val.kind {
        TomlKind::Table(t) => Some(&**t),
        TomlKind::Array(_) => None,
        _ => {
            let what = if name.value == "in" { "inputs" } else { name.value.as_str() };
            let message = format!("`{what}` must be a list with one row per rank, or a table for all ranks");
            let d = Diagnostic::new(val.span, message).label(format!("this is {}", val.kind_name()));
            reader.report(match val.kind {
                TomlKind::Int(_) | TomlKind::Float(_) => d.help(format!(
                    "write `{{ each = {}, count = 4 }}` for 4 such elements on every rank",
                    reader.shown(val)
                )),
                _ => d,
            });
            return None;
        }
    };
    let before = reader.diagnostics.len();
    if let Some(t) = table {
        let allowed: Vec<_> = keys::keys_in(KeyPlace::Buffer).collect();
        let stranger = t.entries.iter().find(|e| keys::find(KeyPlace::Buffer, &e.key).is_none());
        if let Some(e) =
            stranger.filter(|e| name.value == "in" && matches!(e.value.kind, TomlKind::Array(_) | TomlKind::Table(_)))
        {
            let d = Diagnostic::new(e.key_span, format!("expected no buffer name here, found `{}`", e.key));
            reader.report(d.help("with `op` at the top `inputs` is one value; for buffers with names write `steps`"));
            return None;
        }
        reader.check_keys(t, val.span, &allowed, "a buffer");
    }
    let own = |key: &str| table.and_then(|t| t.get(key));
    let find = |reader: &mut PointReader<'_>, key: &str| defaults.own_or_find(reader, own(key), key).cloned();
    let written = find(reader, "dtype").and_then(|e| read_dtype(reader, &e.value));
    let is_text = own("text").is_some();
    let dtype = written.unwrap_or(if is_text { DType::U8 } else { DType::F32 });
    let offset = find(reader, "offset").and_then(|e| {
        reader.number_by_rank("offset", &e.value, AllowedNames::PER_RANK, NumberKind::Natural, RankScope::World)
    });
    let register = find(reader, "register").and_then(|e| register_by_rank(reader, &e.value));
    let ranks = find(reader, "ranks").and_then(|e| reader.ranks(&e.value)).unwrap_or(Ranks::All);
    let default_count = defaults.all_values("count").last().copied();
    let counted = counted.contains(&name.value);
    let r = ContentContext {
        usage: ContentUse::Input,
        name: &name.value,
        dtype: Some(dtype),
        count: default_count,
        counted,
    };
    let content = read_content(reader, val, &r)?;
    (reader.diagnostics.len() == before).then_some(BufferDef { name, dtype, content, offset, register, ranks })
}

/// Reads the name of a dtype.
pub(crate) fn read_dtype(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<DType> {
    let text = reader.text("dtype", val)?;
    let found = DType::parse(&text.value);
    if found.is_none() {
        let d = Diagnostic::new(val.span, format!("there is no dtype `{}`", text.value.escape_debug()));
        let names = DType::ALL.map(DType::name);
        let same = DType::parse(&foreign_words::simplified(&text.value)).map(DType::name);
        let foreign = foreign_words::dtype_word(&text.value);
        if let Some(ours) = same.or_else(|| foreign_words::same_but_for_its_form(&text.value, names)) {
            reader.report(d.help(format!("write `dtype = \"{ours}\"`")));
            return None;
        }
        if let Some(word) = foreign {
            reader.report(d.help(word.advice("dtype", &format!("\"{}\"", word.ours))));
            return None;
        }
        reader.report(match nearest(&text.value, names) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("the dtypes are {}", names.join(", "))),
        });
    }
    found
}

fn read_content(reader: &mut PointReader<'_>, val: &TomlValue, r: &ContentContext<'_>) -> Option<BufferContent> {
    match &val.kind {
        TomlKind::Array(rows) => read_rows(reader, val.span, rows, r).map(BufferContent::Rows),
        TomlKind::Table(t) => read_fill_table(reader, t, val.span, r, true).map(BufferContent::All),
        TomlKind::Str(s) if r.usage == ContentUse::Expect => {
            let values = match &**s {
                "untouched" => FillValues::Untouched,
                "any" => FillValues::Any,
                _ => {
                    report_unknown_word(reader, val, s);
                    return None;
                }
            };
            Some(BufferContent::All(FillTable { span: val.span, values, count: None }))
        }
        _ => {
            let message =
                format!("`{}` must be a list with one row per rank, a table, \"untouched\" or \"any\"", r.name);
            reader.report(Diagnostic::new(val.span, message).label(format!("this is {}", val.kind_name())));
            None
        }
    }
}

fn report_unknown_word(reader: &mut PointReader<'_>, val: &TomlValue, s: &str) {
    let d = Diagnostic::new(val.span, "a row is a list, a table, \"untouched\" or \"any\"");
    reader.report(match nearest(s, ["untouched", "any"]) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    });
}

fn read_rows(reader: &mut PointReader<'_>, span: Span, rows: &[TomlValue], r: &ContentContext<'_>) -> Option<Vec<Row>> {
    // A misspelt word of `expect` looks like a row.
    let word = |v: &TomlValue| matches!(&v.kind, TomlKind::Str(s) if r.usage == ContentUse::Expect && !is_element(s));
    let bare =
        !rows.is_empty() && rows.iter().all(|v| !matches!(v.kind, TomlKind::Array(_) | TomlKind::Table(_)) && !word(v));
    if bare {
        let texts: Vec<String> = rows.iter().take(8).map(TomlValue::written).collect();
        let (more, more_rows) = if rows.len() > texts.len() { (", ...", "], [...") } else { ("", "") };
        let (list, nested) = (texts.join(", ") + more, texts.join("], [") + more_rows);
        let d = Diagnostic::new(span, format!("`[{list}]` does not say whose elements these are"));
        reader.report(d.label("expected one row per rank").help(format!(
            "write `[[{nested}]]` for one row per rank, or `{{ each = [{list}] }}` for the same row on every rank"
        )));
        return None;
    }
    if rows.len() != reader.world {
        let rows_word = if rows.len() == 1 { "row" } else { "rows" };
        let d = Diagnostic::new(span, format!("{} {rows_word} for {} ranks", rows.len(), reader.world));
        reader.report(d.help("one row per rank of the world, `[]` for a rank without elements"));
        return None;
    }
    // Rows with lists may give the count of rows with tables.
    let mut r =
        ContentContext { counted: r.counted || rows.iter().any(|v| matches!(v.kind, TomlKind::Array(_))), ..*r };
    if r.usage == ContentUse::Expect {
        r.counted = true;
    }
    let read: Vec<_> = rows.iter().map(|v| read_row(reader, v, &r)).collect();
    let mut read: Vec<Row> = read.into_iter().collect::<Option<_>>()?;
    if r.usage == ContentUse::Input {
        counts_from_rows(reader, &mut read);
    }
    Some(read)
}

/// Gives tables without a count the common length of the rows with lists.
fn counts_from_rows(reader: &mut PointReader<'_>, rows: &mut [Row]) {
    let mut lengths = rows.iter().filter_map(|row| match &row.kind {
        RowKind::Elements(e) => Some(e.len()),
        _ => None,
    });
    let first = lengths.next();
    let same = lengths.all(|l| Some(l) == first);
    for row in rows {
        let span = row.span;
        let RowKind::Table(fill) = &mut row.kind else { continue };
        if fill.count.is_some()
            || matches!(fill.values, FillValues::Row(_) | FillValues::Template(_) | FillValues::Texts(_))
        {
            continue;
        }
        match first.filter(|_| same) {
            Some(len) => fill.count = Some(NumberByRank { span, kind: NumberByRankKind::Int(len as i128) }),
            None if first.is_none() => {}
            None => reader.report(
                Diagnostic::new(span, "this row has no count, and the other rows differ in length")
                    .help("write `count = ...`"),
            ),
        }
    }
}

fn read_row(reader: &mut PointReader<'_>, val: &TomlValue, r: &ContentContext<'_>) -> Option<Row> {
    let kind = match &val.kind {
        TomlKind::Array(a) => RowKind::Elements(reader.elements(a, r.dtype)?),
        TomlKind::Table(t) => RowKind::Table(read_fill_table(reader, t, val.span, r, false)?),
        TomlKind::Str(s) if r.usage == ContentUse::Expect => match &**s {
            "untouched" => RowKind::Untouched,
            "any" => RowKind::Any,
            _ => {
                report_unknown_word(reader, val, s);
                return None;
            }
        },
        _ => {
            let words =
                if r.usage == ContentUse::Expect { ", a table, \"untouched\" or \"any\"" } else { " or a table" };
            let d = Diagnostic::new(val.span, format!("a row must be a list{words}"));
            reader.report(d.label(format!("this is {}", val.kind_name())));
            return None;
        }
    };
    Some(Row { span: val.span, kind })
}

/// True if there are as many lists as ranks, so that they look like rows.
fn is_list_per_rank(reader: &PointReader<'_>, val: &TomlValue) -> bool {
    let TomlKind::Array(lists) = &val.kind else { return false };
    reader.world > 1 && lists.len() == reader.world && lists.iter().all(|v| matches!(v.kind, TomlKind::Array(_)))
}

/// Reads the table of a buffer (`whole`) or of a row.
fn read_fill_table(
    reader: &mut PointReader<'_>,
    table: &TomlTable,
    span: Span,
    r: &ContentContext<'_>,
    whole: bool,
) -> Option<FillTable> {
    if !whole || r.usage == ContentUse::Expect {
        let allowed: Vec<_> = keys::keys_in(KeyPlace::Row).collect();
        reader.check_keys(table, span, &allowed, if whole { "`expect`" } else { "a row" });
    }
    let content: Vec<&TomlEntry> = ["each", "random", "text"].iter().filter_map(|k| table.get(k)).collect();
    if let [first, second, ..] = content.as_slice() {
        let d =
            Diagnostic::new(second.key_span, format!("`{}` and `{}` cannot be used together", first.key, second.key));
        reader.report(d.related(first.key_span, "the other one"));
        return None;
    }
    if let Some(each) = table.get("each").filter(|each| whole && is_list_per_rank(reader, &each.value)) {
        let key = match (r.usage, r.name) {
            (ContentUse::Input, "in") => "inputs = ".to_owned(),
            (ContentUse::Input, name) => format!("inputs.{name} = "),
            // The short form uses this name too.
            (ContentUse::Expect, "out") => String::new(),
            (ContentUse::Expect, name) => format!("expect.{name} = "),
        };
        let rows = reader.shown(&each.value);
        let d = Diagnostic::new(each.value.span, "`each` is what every rank holds, and this has one list per rank");
        reader.report(d.help(format!(
            "for a row per rank write `{key}{rows}`; for the same elements on every rank write them in one list"
        )));
        return None;
    }
    let before = reader.diagnostics.len();
    let values = match content.first() {
        None => Some(FillValues::Poison),
        Some(e) => match &*e.key {
            "each" => read_each(reader, &e.value, r.dtype),
            "random" => read_random(reader, &e.value, r.dtype),
            _ => read_text(reader, &e.value, whole),
        },
    };
    let written = table.get("count");
    let Some(values) = values else {
        // The count is read only for its diagnostics.
        written.and_then(|e| {
            reader.number_by_rank("count", &e.value, AllowedNames::PER_RANK, NumberKind::Natural, RankScope::World)
        });
        return None;
    };
    if matches!(values, FillValues::Poison) && r.usage == ContentUse::Expect {
        reader
            .report(Diagnostic::new(span, "this table gives no values").help("write `each`, \"untouched\" or \"any\""));
        return None;
    }
    let given = matches!(values, FillValues::Row(_));
    let mut entry = written;
    if let Some(default) = r.count.filter(|_| r.usage == ContentUse::Input && !given) {
        match entry {
            Some(own) => reader.used.replace_default(default.key_span, own.key_span),
            None => {
                Defaults::mark_used(reader, default.key_span);
                entry = Some(default);
            }
        }
    }
    let count = entry.and_then(|e| {
        reader.number_by_rank("count", &e.value, AllowedNames::PER_RANK, NumberKind::Natural, RankScope::World)
    });
    if let (FillValues::Row(row), Some(n)) = (&values, &count)
        && matches!(n.kind, NumberByRankKind::Int(c) if c != row.len() as i128)
    {
        let d = Diagnostic::new(n.span, "`count` and the row differ");
        reader.report(d.help(format!("the row has {} elements", row.len())));
    }
    let text = matches!(values, FillValues::Template(_) | FillValues::Texts(_));
    // A key that was not understood may have been meant as the count.
    let understood = table.entries.iter().all(|e| keys::find(KeyPlace::Buffer, &e.key).is_some())
        && !reader.mended.advice.contains_key(foreign_words::SIZES_AS_AXIS);
    let unsaid = entry.is_none() && !given && !text && !r.counted && understood;
    if r.usage == ContentUse::Input && unsaid && reader.diagnostics.len() == before {
        let shown = if r.name == "in" { "inputs" } else { r.name };
        reader.report(
            Diagnostic::new(span, format!("`{shown}` has no count"))
                .help("write `count = 4` in it, or at the top of the file: the number of elements on each rank"),
        );
        return None;
    }
    Some(FillTable { span, values, count })
}

/// Reads all of `expect`. `dtypes` has the buffers whose type is known without a plan.
pub(crate) fn read_expect(
    reader: &mut PointReader<'_>,
    entry: &TomlEntry,
    short: bool,
    dtypes: &BTreeMap<String, DType>,
) -> Vec<Expectation> {
    let one = |reader: &mut PointReader<'_>, target: Option<BufferRef>, val: &TomlValue| {
        let name = target.as_ref().map_or("expect", |t| t.name.as_str()).to_owned();
        let r = ContentContext {
            usage: ContentUse::Expect,
            name: &name,
            dtype: dtypes.get(&name).copied(),
            count: None,
            counted: false,
        };
        let content = read_content(reader, val, &r);
        Some(Expectation { target: target?, content: content? })
    };
    if short {
        let target = BufferRef { span: entry.key_span, name: "out".to_owned(), slice: None };
        return one(reader, Some(target), &entry.value).into_iter().collect();
    }
    let TomlKind::Table(table) = &entry.value.kind else {
        reader.report_wrong_type("expect", ValueType::Table, &entry.value);
        if let Some(d) = reader.diagnostics.last_mut() {
            d.help = Some("with `steps`, `expect` is a table by buffer name: `expect.x = ...`".into());
        }
        return Vec::new();
    };
    let mut out = Vec::with_capacity(table.entries.len());
    for e in &table.entries {
        if reader.is_full() {
            break;
        }
        let plain = !matches!(e.value.kind, TomlKind::Table(_) | TomlKind::Array(_));
        let known = reader.known.buffers.contains_key(&*e.key);
        if let Some(d) = reader.misplaced_key(e, entry.value.span).filter(|_| plain || !known) {
            reader.report(d);
            continue;
        }
        if !known && keys::find(KeyPlace::Buffer, &e.key).is_some() {
            let d = Diagnostic::new(e.key_span, format!("expected the name of a buffer here, found `{}`", e.key));
            let first = reader.known.buffers.keys().next_back().cloned().unwrap_or_else(|| "out".to_owned());
            let shown = reader.shown(&e.value);
            reader.report(d.help(format!("with `steps`, write `expect.{first} = {{ {} = {shown} }}`", e.key)));
            break;
        }
        let target = reader.buffer_ref_in_text(e.key_span, &e.key, AllowedNames::PER_RANK, false);
        out.extend(one(reader, target, &e.value));
    }
    out
}
