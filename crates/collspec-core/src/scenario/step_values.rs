//! Reads the values of some keys of steps: reductions, result codes, and the counts of all_to_all_v.
use super::case::*;
use super::diagnostic::Diagnostic;
use super::foreign_words;
use super::keys::{self, KeyPlace};
use super::reader::{AllowedNames, NumberKind, PointReader, RankScope};
use super::tree::{TomlKind, TomlValue};
use crate::ops::{AUTOMATIC, AlgorithmChoice};
use crate::suggest::nearest;
use nccl_sys::{ncclRedOp_t, ncclResult_t};

fn quoted(word: &str) -> String {
    format!("\"{word}\"")
}

pub(crate) fn is_device_scalar(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<bool> {
    let text = reader.text("scalar", val)?;
    match text.value.as_str() {
        "device" => Some(true),
        "host" => Some(false),
        _ => {
            reader.report(Diagnostic::new(val.span, "`scalar` must be \"device\" or \"host\""));
            None
        }
    }
}

pub(crate) fn reduction(reader: &mut PointReader<'_>, val: &TomlValue, device: Option<bool>) -> Option<StepReduction> {
    Some(match &val.kind {
        TomlKind::Str(s) => {
            let known = ncclRedOp_t::KNOWN;
            let found = known.iter().find(|k| k.name() == Some(s));
            if found.is_none() {
                let words: Vec<_> = known.iter().filter_map(|k| k.name()).chain(["premul_sum"]).collect();
                let d = Diagnostic::new(val.span, format!("there is no reduction `{}`", s.escape_debug()));
                let foreign = foreign_words::same_but_for_its_form(s, words.iter().copied())
                    .filter(|ours| *ours != "premul_sum")
                    .map(|ours| format!("write `reduce = \"{ours}\"`"))
                    .or_else(|| foreign_words::reduction_word(s).map(|word| word.advice("reduce", &quoted(word.ours))));
                if let Some(help) = foreign {
                    reader.report(d.help(help));
                    return None;
                }
                reader.report(match nearest(s, words.iter().copied()) {
                    Some("premul_sum") => d.help("write `reduce = { premul_sum = 0.5 }`"),
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => d.help(format!("the reductions are {}", words.join(", "))),
                });
            }
            StepReduction::Builtin(*found?)
        }
        TomlKind::Table(t) => {
            let allowed: Vec<_> = keys::keys_in(KeyPlace::Reduce).collect();
            reader.check_keys(t, val.span, &allowed, "`reduce`");
            let Some(e) = t.get("premul_sum") else {
                reader.report(Diagnostic::new(val.span, "`reduce` as a table must have `premul_sum`"));
                return None;
            };
            let scalar = reader.number_by_rank(
                "premul_sum",
                &e.value,
                AllowedNames::STEP,
                NumberKind::Real,
                RankScope::Communicator,
            )?;
            let inside = t.get("scalar").and_then(|e| is_device_scalar(reader, &e.value));
            let destroyed = t.get("destroyed").and_then(|e| reader.bool("destroyed", &e.value)).unwrap_or(false);
            StepReduction::PreMulSum { scalar, device: inside.or(device).unwrap_or(false), destroyed }
        }
        _ => {
            let message = "`reduce` must be \"sum\", \"prod\", \"min\", \"max\", \"avg\" or { premul_sum = 0.5 }";
            reader.report(Diagnostic::new(val.span, message).label(format!("this is {}", val.kind_name())));
            return None;
        }
    })
}

/// Looks up a result code by name; `Some(None)` for "any".
pub(crate) fn result_code(word: &str) -> Option<Option<ncclResult_t>> {
    if word == "any" {
        return Some(None);
    }
    let short = word.strip_prefix("nccl").unwrap_or(word);
    let same = |a: &str, b: &str| a.replace('_', "").eq_ignore_ascii_case(&b.replace('_', ""));
    ncclResult_t::KNOWN
        .iter()
        .find(|k| k.name().is_some_and(|n| n == word || (short != word && same(n, short))))
        .copied()
        .map(Some)
}

/// Reads an algorithm's name, or `{ prefer = NAME }`. Whether the call can have it is known only with its count.
pub(crate) fn algorithm(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<StepAlgorithm> {
    let (text, force) = match &val.kind {
        TomlKind::Table(table) => {
            let allowed: Vec<_> = keys::keys_in(KeyPlace::Algorithm).collect();
            reader.check_keys(table, val.span, &allowed, "`algorithm`");
            let Some(entry) = table.get("prefer") else {
                reader.report(Diagnostic::new(val.span, "`algorithm` as a table must have `prefer`"));
                return None;
            };
            (reader.text("prefer", &entry.value)?, false)
        }
        TomlKind::Str(_) => (reader.text("algorithm", val)?, true),
        _ => {
            let message =
                "`algorithm` must be a name such as \"ring_simple\", \"auto\", or { prefer = \"ring_simple\" }";
            reader.report(Diagnostic::new(val.span, message).label(format!("this is {}", val.kind_name())));
            return None;
        }
    };
    if let Some(bad) = text.value.chars().find(|c| !(c.is_ascii_alphanumeric() || " _,+^".contains(*c))) {
        let message = format!("a name of an algorithm cannot have `{}` in it", bad.escape_debug());
        let help = "write names such as ring_simple or tree, with `,` for or, `+` for and, `^` for all but";
        reader.report(Diagnostic::new(text.span, message).help(help));
        return None;
    }
    if text.value.trim().is_empty() {
        let help = "`\"auto\"` leaves the choice to the library";
        reader.report(Diagnostic::new(text.span, "this names no algorithm").help(help));
        return None;
    }
    let selection = if text.value == AUTOMATIC { String::new() } else { text.value };
    Some(StepAlgorithm { choice: AlgorithmChoice { selection, force }, by_variables: false, span: val.span })
}

pub(crate) fn step_error(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<Spanned<StepError>> {
    let words = reader.texts("error", val)?;
    let by_rank = matches!(val.kind, TomlKind::Array(_));
    let mut codes = Vec::new();
    for w in &words {
        match result_code(&w.value) {
            Some(Some(ncclResult_t::Success)) if !by_rank => {
                reader.report(Diagnostic::new(w.span, "\"ok\" is not an error").help("leave `error` out"));
            }
            Some(code) => codes.push(code),
            None => {
                let d = Diagnostic::new(w.span, format!("NCCL has no result `{}`", w.value.escape_debug()));
                let known: Vec<_> = ncclResult_t::KNOWN.iter().filter_map(|k| k.name()).chain(["any"]).collect();
                reader.report(match nearest(&w.value, known.iter().copied()) {
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => d.help(format!("known: {}", known.join(", "))),
                });
            }
        }
    }
    if codes.len() != words.len() {
        return None;
    }
    let v = if by_rank { StepError::PerRank(codes) } else { StepError::All(codes.first().copied().flatten()) };
    Some(Spanned { span: val.span, value: v })
}

pub(crate) fn counts_by_rank(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<CountsByRank> {
    counts(reader, val, whole_numbers, "a list (entry j is what rank j receives), or an expression in `peer`")
}

pub(crate) fn counts_by_pair(reader: &mut PointReader<'_>, val: &TomlValue) -> Option<CountsByPair> {
    let right = "a list of lists (row r, column j is what r sends to j), or an expression in `rank` and `peer`";
    counts(reader, val, square, right)
}

fn counts<T>(
    reader: &mut PointReader<'_>,
    val: &TomlValue,
    listed: fn(&mut PointReader<'_>, &[TomlValue]) -> Option<T>,
    right: &str,
) -> Option<Spanned<StepCounts<T>>> {
    let value = match &val.kind {
        TomlKind::Str(_) => StepCounts::Expr(reader.expression(val, AllowedNames::COUNTS)?.value),
        TomlKind::Array(entries) => StepCounts::Listed(listed(reader, entries)?),
        _ => {
            let d = Diagnostic::new(val.span, format!("`counts` must be {right}"));
            reader.report(d.label(format!("this is {}", val.kind_name())));
            return None;
        }
    };
    Some(Spanned { span: val.span, value })
}

fn whole_numbers(reader: &mut PointReader<'_>, entries: &[TomlValue]) -> Option<Vec<i128>> {
    // All entries are read, so that every mistake is reported.
    let read: Vec<_> = entries.iter().map(|v| reader.int("counts", v, 0..=i64::MAX.into())).collect();
    read.into_iter().collect()
}

fn square(reader: &mut PointReader<'_>, rows: &[TomlValue]) -> Option<Vec<Vec<i128>>> {
    let mut matrix = Vec::new();
    for row in rows {
        let TomlKind::Array(entries) = &row.kind else {
            reader.report(
                Diagnostic::new(row.span, "a row of `counts` must be a list")
                    .label(format!("this is {}", row.kind_name()))
                    .help("write a list for each rank: `counts = [[0, 1], [2, 3]]`, where row r, column j is what rank r sends to rank j"),
            );
            return None;
        };
        let read = whole_numbers(reader, entries);
        if entries.len() != rows.len() {
            let message =
                format!("`counts` must have as many columns as rows: {} here, and {} rows", entries.len(), rows.len());
            reader.report(Diagnostic::new(row.span, message));
            return None;
        }
        matrix.push(read?);
    }
    Some(matrix)
}
