//! The table `[bench]`: what `collspec bench` measures for a file. Missing settings are taken from the keys of the short form.
use super::case::{Bench, Spanned};
use super::diagnostic::Diagnostic;
use super::file::MAX_RANKS;
use super::keys::{self, KeyPlace, ValueType};
use super::reader::PointReader;
use super::tree::{TomlEntry, TomlKind, TomlTable, TomlValue};
use super::units;
use crate::num::DType;
use crate::ops::{self, Kind};
use crate::suggest::nearest;

/// Limit on the values of a list.
const MAX_VALUES: usize = 1000;
/// Largest size in bytes, and the largest step between sizes.
const MAX_BYTES: i128 = 1 << 40;
/// Most iterations of a measurement, and most that come before it.
pub const MOST_ITERATIONS: u32 = 100_000;
/// The reductions, by their names in the `[bench]` table.
const REDUCTIONS: &[&str] = &["sum", "prod", "min", "max", "avg", "premul_sum"];

/// Reads the table of a point.
pub(crate) fn bench(reader: &mut PointReader<'_>, top: &TomlTable) -> Option<Bench> {
    let entry = top.get("bench")?;
    let TomlKind::Table(table) = &entry.value.kind else {
        reader.report_wrong_type("bench", ValueType::Table, &entry.value);
        return None;
    };
    let allowed: Vec<_> = keys::keys_in(KeyPlace::Bench).collect();
    reader.check_keys(table, entry.value.span, &allowed, "`bench`");
    // The file's own value of the same key was checked at its place. Only a plain one can be used.
    let plain = |e: &&TomlEntry| matches!(e.value.kind, TomlKind::Str(_) | TomlKind::Int(_));
    let own_or_file = |key: &str| table.get(key).or_else(|| top.get(key).filter(plain));
    let mut bench = Bench { span: entry.key_span, ..Bench::default() };
    match own_or_file("op") {
        Some(e) => bench.operations = words(reader, "op", e, &timed_operations(), ("operation", " to measure")),
        None => {
            let d = Diagnostic::new(entry.key_span, "`bench` does not say what is measured");
            reader.report(d.help("write `bench.op = \"all_reduce\"`, or a list of operations"));
        }
    }
    if let Some(e) = own_or_file("reduce") {
        bench.reductions = words(reader, "reduce", e, REDUCTIONS, ("reduction", ""));
    }
    if let Some(e) = own_or_file("dtype") {
        bench.dtypes = dtypes(reader, e);
    }
    bench.roots =
        own_or_file("root").map(|e| numbers(reader, "root", e, 0..=MAX_RANKS as i128 - 1)).unwrap_or_default();
    let ranks = own_or_file("world_size").map(|e| numbers(reader, "world_size", e, 1..=MAX_RANKS as i128));
    bench.ranks = ranks.unwrap_or_default();
    bench.in_place = table.get("in_place").map(|e| truths(reader, e)).unwrap_or_default();
    bench.algorithms = table.get("algorithm").map(|e| choices(reader, "algorithm", e)).unwrap_or_default();
    bench.protocols = table.get("protocol").map(|e| choices(reader, "protocol", e)).unwrap_or_default();
    bench.sizes = table.get("bytes").map(|e| sizes(reader, &e.value)).unwrap_or_default();
    let mut count = |key: &str, least: i128, most: i128| {
        let value = table.get(key).and_then(|e| reader.int(key, &e.value, least..=most))?;
        u32::try_from(value).ok()
    };
    bench.warm_up = count("warm_up", 0, MOST_ITERATIONS.into());
    bench.iterations = count("iterations", 1, MOST_ITERATIONS.into());
    bench.samples = count("samples", 1, 1_000);
    Some(bench)
}

/// The operations that can be timed: collectives, and a group of a send and a receive.
fn timed_operations() -> Vec<&'static str> {
    let timed = |kind: &Kind| matches!(kind, Kind::Collective(_) | Kind::SendRecv);
    ops::TABLE.iter().filter(|op| timed(&op.kind)).map(|op| op.name).collect()
}

/// A single value, or the values of a list.
fn values<'v>(reader: &mut PointReader<'_>, key: &str, value: &'v TomlValue) -> &'v [TomlValue] {
    let list = match &value.kind {
        TomlKind::Array(list) => list.as_slice(),
        _ => std::slice::from_ref(value),
    };
    if list.is_empty() || list.len() > MAX_VALUES {
        let message = format!("`{key}` must be a value, or a list of 1 to {MAX_VALUES} values");
        reader.report(Diagnostic::new(value.span, message));
        return &[];
    }
    list
}

fn words(reader: &mut PointReader<'_>, key: &str, e: &TomlEntry, known: &[&str], what: (&str, &str)) -> Vec<String> {
    let mut found = Vec::new();
    for value in values(reader, key, &e.value) {
        let Some(Spanned { span, value }) = reader.text(key, value) else { continue };
        if known.contains(&value.as_str()) {
            found.push(value);
            continue;
        }
        let message = format!("there is no {} `{}`{}", what.0, value.escape_debug(), what.1);
        let d = Diagnostic::new(span, message);
        reader.report(match nearest(&value, known.iter().copied()) {
            Some(near) => d.help(format!("did you mean `{near}`?")),
            None => d.help(format!("known: {}", known.join(", "))),
        });
    }
    found
}

fn dtypes(reader: &mut PointReader<'_>, e: &TomlEntry) -> Vec<DType> {
    let mut found = Vec::new();
    for value in values(reader, "dtype", &e.value) {
        let Some(Spanned { span, value }) = reader.text("dtype", value) else { continue };
        match DType::parse(&value) {
            Some(dtype) => found.push(dtype),
            None => {
                let d = Diagnostic::new(span, format!("there is no type `{}`", value.escape_debug()));
                reader.report(d.help("the types are i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2"));
            }
        }
    }
    found
}

fn numbers(
    reader: &mut PointReader<'_>,
    key: &str,
    e: &TomlEntry,
    range: std::ops::RangeInclusive<i128>,
) -> Vec<usize> {
    let mut found = Vec::new();
    for value in values(reader, key, &e.value) {
        found.extend(reader.int(key, value, range.clone()).and_then(|value| usize::try_from(value).ok()));
    }
    found
}

fn truths(reader: &mut PointReader<'_>, e: &TomlEntry) -> Vec<bool> {
    let mut found = Vec::new();
    for value in values(reader, "in_place", &e.value) {
        found.extend(reader.bool("in_place", value));
    }
    found
}

/// Values of a variable; `auto` leaves the choice to the library.
fn choices(reader: &mut PointReader<'_>, key: &str, e: &TomlEntry) -> Vec<Option<String>> {
    let mut found = Vec::new();
    for value in values(reader, key, &e.value) {
        let Some(Spanned { span, value }) = reader.text(key, value) else { continue };
        let name = if key == "algorithm" { "NCCL_ALGO" } else { "NCCL_PROTO" };
        match super::variables::refuse_value(name, &value, span, reader.allow_env) {
            Some(d) => reader.report(d),
            None => found.push((value != "auto").then_some(value)),
        }
    }
    found
}

/// `[8, "1MiB"]`, or `{ from = 8, to = "128MiB", factor = 2 }`.
fn sizes(reader: &mut PointReader<'_>, value: &TomlValue) -> Vec<u64> {
    let TomlKind::Table(table) = &value.kind else {
        let mut found = Vec::new();
        for value in values(reader, "bytes", value) {
            found.extend(size(reader, "bytes", value));
        }
        return found;
    };
    let allowed: Vec<_> = keys::keys_in(KeyPlace::Sizes).collect();
    reader.check_keys(table, value.span, &allowed, "`bytes`");
    let mut bound = |key: &str| match table.get(key) {
        Some(e) => size(reader, key, &e.value),
        None => {
            reader.report(Diagnostic::new(value.span, format!("`bytes` as a table must have `{key}`")));
            None
        }
    };
    let (Some(from), Some(to)) = (bound("from"), bound("to")) else { return Vec::new() };
    let factor = match table.get("factor") {
        Some(e) => reader.int("factor", &e.value, 2..=MAX_BYTES).and_then(|factor| u64::try_from(factor).ok()),
        None => Some(2),
    };
    if to < from {
        let message = format!("the sizes end at {to} bytes, before they begin at {from} bytes");
        reader.report(Diagnostic::new(value.span, message));
    }
    let Some(factor) = factor else { return Vec::new() };
    let next = |size: &u64| size.checked_mul(factor);
    std::iter::successors(Some(from), next).take_while(|size| *size <= to).take(MAX_VALUES).collect()
}

/// Bytes as a number, or with a unit.
fn size(reader: &mut PointReader<'_>, key: &str, value: &TomlValue) -> Option<u64> {
    let TomlKind::Str(text) = &value.kind else {
        return reader.int(key, value, 1..=MAX_BYTES).and_then(|bytes| u64::try_from(bytes).ok());
    };
    let bytes = units::bytes(text).filter(|bytes| i128::from(*bytes) <= MAX_BYTES);
    if bytes.is_none() {
        let message = format!("`{key}` must be a number of bytes of at most 1 TiB");
        reader.report(Diagnostic::new(value.span, message).help("for example 1024, \"64KiB\" or \"128MiB\""));
    }
    bytes
}
