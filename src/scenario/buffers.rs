//! `inputs` and `expect`: rows, tables and words to contents.
use super::case::*;
use super::defaults::Defaults;
use super::diagnostic::{Diagnostic, Span};
use super::elements::is_element;
use super::keys::{self, Place, Type};
use super::names::bad_name;
use super::reader::{Cx, Names, Per, Want};
use super::tree::{Entry, Kind, Table, Val};
use super::values::{each, random, text};
use crate::num::DType;
use crate::suggest::nearest;
use std::collections::{BTreeMap, BTreeSet};

/// What a content is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum For {
    Input,
    Expect,
}

/// How the contents of one buffer are read.
struct Reading<'a> {
    what: For,
    /// The buffer's name in messages.
    name: &'a str,
    /// `None` if not known before the plan.
    dtype: Option<DType>,
    /// The default count, if there is one.
    count: Option<&'a Entry>,
    /// True if the operation gives the count.
    counted: bool,
}

/// All buffers of `inputs`.
pub(crate) fn inputs(
    cx: &mut Cx<'_>,
    entry: &Entry,
    short: bool,
    defaults: &Defaults<'_>,
    counted: &BTreeSet<String>,
) -> Vec<BufferDef> {
    if short {
        let name = Sp { span: entry.key_span, v: "in".to_owned() };
        return buffer(cx, name, &entry.val, defaults, counted).into_iter().collect();
    }
    let Kind::Table(table) = &entry.val.kind else {
        cx.wrong_type("inputs", Type::Table, &entry.val);
        if let Some(d) = cx.faults.last_mut() {
            d.help = Some("with `steps`, `inputs` is a table by buffer name: `inputs.x = ...`".into());
        }
        return Vec::new();
    };
    if let Some(e) = one_value(table) {
        cx.fault(
            Diagnostic::new(e.key_span, format!("`{}` stands where a buffer's name is wanted", e.key))
                .help("with `steps`, `inputs` is a table by buffer name: `inputs.x = { ... }`"),
        );
        return Vec::new();
    }
    let mut out = Vec::new();
    for e in &table.entries {
        if cx.enough() {
            break;
        }
        if name_is_good(cx, e, &entry.val) {
            out.extend(buffer(cx, Sp { span: e.key_span, v: e.key.to_string() }, &e.val, defaults, counted));
        }
    }
    out
}

/// The key of a buffer where buffers by name are wanted.
fn one_value(table: &Table) -> Option<&Entry> {
    table.entries.iter().find(|e| {
        keys::find(Place::Buffer, &e.key).is_some()
            && !matches!(&e.val.kind, Kind::Table(_))
            && (matches!(&*e.key, "each" | "text") || !matches!(&e.val.kind, Kind::Array(_)))
            && !table.entries.iter().any(|other| keys::find(Place::Buffer, &other.key).is_none())
    })
}

/// Checks a buffer's name, and whether it is a key that slipped under the header.
fn name_is_good(cx: &mut Cx<'_>, e: &Entry, table: &Val) -> bool {
    let buffer_like = match &e.val.kind {
        Kind::Table(_) => true,
        Kind::Array(a) => a.iter().all(|v| matches!(v.kind, Kind::Array(_) | Kind::Table(_))),
        _ => false,
    };
    if !buffer_like && let Some(d) = cx.slipped(e, table.span) {
        cx.fault(d);
        return false;
    }
    if let Some((message, help)) = bad_name(&e.key) {
        cx.fault(Diagnostic::new(e.key_span, message).help(help));
        return false;
    }
    if cx.axes.iter().any(|a| *a.name == *e.key && a.value.is_some()) {
        cx.fault(Diagnostic::new(e.key_span, format!("`{}` is an axis of the matrix already", e.key)));
        return false;
    }
    true
}

fn buffer(
    cx: &mut Cx<'_>,
    name: Sp<String>,
    val: &Val,
    defaults: &Defaults<'_>,
    counted: &BTreeSet<String>,
) -> Option<BufferDef> {
    let table = match &val.kind {
        Kind::Table(t) => Some(&**t),
        Kind::Array(_) => None,
        _ => {
            let what = if name.v == "in" { "inputs" } else { name.v.as_str() };
            let message = format!("`{what}` must be a list with one row per rank, or a table for all ranks");
            cx.fault(Diagnostic::new(val.span, message).label(format!("this is {}", val.what())));
            return None;
        }
    };
    let before = cx.faults.len();
    if let Some(t) = table {
        let allowed: Vec<_> = keys::of(Place::Buffer).collect();
        let stranger = t.entries.iter().find(|e| keys::find(Place::Buffer, &e.key).is_none());
        if let Some(e) = stranger.filter(|e| name.v == "in" && matches!(e.val.kind, Kind::Array(_) | Kind::Table(_))) {
            let d = Diagnostic::new(e.key_span, format!("`{}` stands where no buffer's name is wanted", e.key));
            cx.fault(d.help("with `op` at the top `inputs` is one value; for buffers with names write `steps`"));
            return None;
        }
        cx.check_keys(t, val.span, &allowed, "a buffer");
    }
    let own = |key: &str| table.and_then(|t| t.get(key));
    let find = |cx: &mut Cx<'_>, key: &str| {
        let default = defaults.find(cx, key);
        own(key).or(default).cloned()
    };
    let written = find(cx, "dtype").and_then(|e| dtype(cx, &e.val));
    let is_text = own("text").is_some();
    let dtype = written.unwrap_or(if is_text { DType::U8 } else { DType::F32 });
    let offset = find(cx, "offset").and_then(|e| cx.num("offset", &e.val, Names::PER_RANK, Want::Natural, Per::World));
    if let Some(e) = find(cx, "register") {
        register(cx, &e.val);
    }
    let ranks = find(cx, "ranks").and_then(|e| cx.ranks(&e.val)).unwrap_or(Ranks::All);
    let default_count = defaults.all("count").last().copied();
    let counted = counted.contains(&name.v);
    let r = Reading { what: For::Input, name: &name.v, dtype: Some(dtype), count: default_count, counted };
    let content = content(cx, val, &r)?;
    (cx.faults.len() == before).then_some(BufferDef { name, dtype, content, offset, ranks })
}

/// A dtype by its name.
pub(crate) fn dtype(cx: &mut Cx<'_>, val: &Val) -> Option<DType> {
    let text = cx.text("dtype", val)?;
    let found = DType::parse(&text.v);
    if found.is_none() {
        let d = Diagnostic::new(val.span, format!("there is no dtype `{}`", text.v.escape_debug()));
        let names = DType::ALL.map(DType::name);
        cx.fault(match nearest(&text.v, names) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("the dtypes are {}", names.join(", "))),
        });
    }
    found
}

/// `register`: known and checked, but only `"none"` is run.
pub(crate) fn register(cx: &mut Cx<'_>, val: &Val) {
    for word in cx.texts("register", val).unwrap_or_default() {
        match word.v.as_str() {
            "none" => {}
            "local" | "window" => {
                cx.fault(Diagnostic::new(word.span, format!("`register = \"{}\"` is not yet supported", word.v)));
            }
            _ => cx.fault(Diagnostic::new(word.span, "`register` must be \"none\", \"local\" or \"window\"")),
        }
    }
}

fn content(cx: &mut Cx<'_>, val: &Val, r: &Reading<'_>) -> Option<Content> {
    match &val.kind {
        Kind::Array(rows) => content_rows(cx, val.span, rows, r).map(Content::Rows),
        Kind::Table(t) => fill(cx, t, val.span, r, true).map(Content::All),
        Kind::Str(s) if r.what == For::Expect => {
            let values = match &**s {
                "untouched" => Values::Untouched,
                "any" => Values::Any,
                _ => {
                    word_fault(cx, val, s);
                    return None;
                }
            };
            Some(Content::All(Fill { span: val.span, values, count: None }))
        }
        _ => {
            let message =
                format!("`{}` must be a list with one row per rank, a table, \"untouched\" or \"any\"", r.name);
            cx.fault(Diagnostic::new(val.span, message).label(format!("this is {}", val.what())));
            None
        }
    }
}

fn word_fault(cx: &mut Cx<'_>, val: &Val, s: &str) {
    let d = Diagnostic::new(val.span, "a row is a list, a table, \"untouched\" or \"any\"");
    cx.fault(match nearest(s, ["untouched", "any"]) {
        Some(near) => d.help(format!("did you mean `{near}`?")),
        None => d,
    });
}

fn content_rows(cx: &mut Cx<'_>, span: Span, rows: &[Val], r: &Reading<'_>) -> Option<Vec<Row>> {
    // A word of `expect` that is misspelt is still meant as a row.
    let word = |v: &Val| matches!(&v.kind, Kind::Str(s) if r.what == For::Expect && !is_element(s));
    let bare = !rows.is_empty() && rows.iter().all(|v| !matches!(v.kind, Kind::Array(_) | Kind::Table(_)) && !word(v));
    if bare {
        let texts: Vec<String> = rows.iter().take(8).map(Val::written).collect();
        let (more, more_rows) = if rows.len() > texts.len() { (", ...", "], [...") } else { ("", "") };
        let (list, nested) = (texts.join(", ") + more, texts.join("], [") + more_rows);
        let d = Diagnostic::new(span, format!("`[{list}]` does not say whose elements these are"));
        cx.fault(d.label("one row per rank is wanted").help(format!(
            "write `[[{nested}]]` for one row per rank, or `{{ each = [{list}] }}` for the same row on every rank"
        )));
        return None;
    }
    if rows.len() != cx.world {
        let rows_word = if rows.len() == 1 { "row" } else { "rows" };
        let d = Diagnostic::new(span, format!("{} {rows_word} for {} ranks", rows.len(), cx.world));
        cx.fault(d.help("one row per rank of the world, `[]` for a rank without elements"));
        return None;
    }
    // Rows that are lists may give the count of those that are tables.
    let mut r = Reading { counted: r.counted || rows.iter().any(|v| matches!(v.kind, Kind::Array(_))), ..*r };
    if r.what == For::Expect {
        r.counted = true;
    }
    let read: Vec<_> = rows.iter().map(|v| content_row(cx, v, &r)).collect();
    let mut read: Vec<Row> = read.into_iter().collect::<Option<_>>()?;
    if r.what == For::Input {
        counts_from_rows(cx, &mut read);
    }
    Some(read)
}

/// Gives tables without a count the length that all rows which are lists have.
fn counts_from_rows(cx: &mut Cx<'_>, rows: &mut [Row]) {
    let mut lengths = rows.iter().filter_map(|row| match &row.kind {
        RowKind::Elements(e) => Some(e.len()),
        _ => None,
    });
    let first = lengths.next();
    let same = lengths.all(|l| Some(l) == first);
    for row in rows {
        let span = row.span;
        let RowKind::Table(fill) = &mut row.kind else { continue };
        if fill.count.is_some() || matches!(fill.values, Values::Row(_) | Values::Template(_) | Values::Texts(_)) {
            continue;
        }
        match first.filter(|_| same) {
            Some(len) => fill.count = Some(Num { span, kind: NumKind::Int(len as i128) }),
            None if first.is_none() => {}
            None => cx.fault(
                Diagnostic::new(span, "this row has no count, and the other rows differ in length")
                    .help("write `count = ...`"),
            ),
        }
    }
}

fn content_row(cx: &mut Cx<'_>, val: &Val, r: &Reading<'_>) -> Option<Row> {
    let kind = match &val.kind {
        Kind::Array(a) => RowKind::Elements(cx.elements(a, r.dtype)?),
        Kind::Table(t) => RowKind::Table(fill(cx, t, val.span, r, false)?),
        Kind::Str(s) if r.what == For::Expect => match &**s {
            "untouched" => RowKind::Untouched,
            "any" => RowKind::Any,
            _ => {
                word_fault(cx, val, s);
                return None;
            }
        },
        _ => {
            let words = if r.what == For::Expect { ", a table, \"untouched\" or \"any\"" } else { " or a table" };
            let d = Diagnostic::new(val.span, format!("a row must be a list{words}"));
            cx.fault(d.label(format!("this is {}", val.what())));
            return None;
        }
    };
    Some(Row { span: val.span, kind })
}

/// A table that says what a buffer (`whole`) or row holds.
fn fill(cx: &mut Cx<'_>, table: &Table, span: Span, r: &Reading<'_>, whole: bool) -> Option<Fill> {
    if !whole || r.what == For::Expect {
        let allowed: Vec<_> = keys::of(Place::Row).collect();
        cx.check_keys(table, span, &allowed, if whole { "`expect`" } else { "a row" });
    }
    let content: Vec<&Entry> = ["each", "random", "text"].iter().filter_map(|k| table.get(k)).collect();
    if let [first, second, ..] = content.as_slice() {
        let d = Diagnostic::new(second.key_span, format!("`{}` and `{}` exclude each other", first.key, second.key));
        cx.fault(d.related(first.key_span, "the other one"));
        return None;
    }
    let before = cx.faults.len();
    let values = match content.first() {
        None => Some(Values::Poison),
        Some(e) => match &*e.key {
            "each" => each(cx, &e.val, r.dtype),
            "random" => random(cx, &e.val, r.dtype),
            _ => text(cx, &e.val, whole),
        },
    };
    let written = table.get("count");
    let Some(values) = values else {
        // The count is read all the same, for its own faults.
        written.and_then(|e| cx.num("count", &e.val, Names::PER_RANK, Want::Natural, Per::World));
        return None;
    };
    if matches!(values, Values::Poison) && r.what == For::Expect {
        cx.fault(
            Diagnostic::new(span, "this table says nothing about values")
                .help("write `each`, \"untouched\" or \"any\""),
        );
        return None;
    }
    let given = matches!(values, Values::Row(_));
    let mut entry = written;
    if let Some(default) = r.count.filter(|_| r.what == For::Input && !given) {
        Defaults::touch(cx, default.key_span);
        entry = entry.or(Some(default));
    }
    let count = entry.and_then(|e| cx.num("count", &e.val, Names::PER_RANK, Want::Natural, Per::World));
    if let (Values::Row(row), Some(n)) = (&values, &count)
        && matches!(n.kind, NumKind::Int(c) if c != row.len() as i128)
    {
        let d = Diagnostic::new(n.span, "`count` and the row differ");
        cx.fault(d.help(format!("the row has {} elements", row.len())));
    }
    let text = matches!(values, Values::Template(_) | Values::Texts(_));
    let unsaid = entry.is_none() && !given && !text && !r.counted;
    if r.what == For::Input && unsaid && cx.faults.len() == before {
        let shown = if r.name == "in" { "inputs" } else { r.name };
        cx.fault(
            Diagnostic::new(span, format!("`{shown}` has no count"))
                .help("write `count = ...` in it, or at the top of the file"),
        );
        return None;
    }
    Some(Fill { span, values, count })
}

/// All of `expect`. `dtypes` has the buffers whose type is known without a plan.
pub(crate) fn expect(
    cx: &mut Cx<'_>,
    entry: &Entry,
    short: bool,
    dtypes: &BTreeMap<String, DType>,
) -> Vec<Expectation> {
    let one = |cx: &mut Cx<'_>, target: Option<BufRef>, val: &Val| {
        let name = target.as_ref().map_or("expect", |t| t.name.as_str()).to_owned();
        let r =
            Reading { what: For::Expect, name: &name, dtype: dtypes.get(&name).copied(), count: None, counted: false };
        let content = content(cx, val, &r);
        Some(Expectation { target: target?, content: content? })
    };
    if short {
        let target = BufRef { span: entry.key_span, name: "out".to_owned(), slice: None };
        return one(cx, Some(target), &entry.val).into_iter().collect();
    }
    let Kind::Table(table) = &entry.val.kind else {
        cx.wrong_type("expect", Type::Table, &entry.val);
        if let Some(d) = cx.faults.last_mut() {
            d.help = Some("with `steps`, `expect` is a table by buffer name: `expect.x = ...`".into());
        }
        return Vec::new();
    };
    let mut out = Vec::new();
    for e in &table.entries {
        if cx.enough() {
            break;
        }
        let plain = !matches!(e.val.kind, Kind::Table(_) | Kind::Array(_));
        let known = cx.known.buffers.contains_key(&*e.key);
        if let Some(d) = cx.slipped(e, entry.val.span).filter(|_| plain || !known) {
            cx.fault(d);
            continue;
        }
        let target = cx.buf_ref_text(e.key_span, &e.key, Names::PER_RANK, false);
        out.extend(one(cx, target, &e.val));
    }
    out
}
