//! Values of steps with rules of their own: reductions, results, and the counts of all_to_all_v.
use super::case::*;
use super::diagnostic::Diagnostic;
use super::keys::{self, Place};
use super::reader::{Cx, Names, Per, Want};
use super::tree::{Kind, Val};
use crate::suggest::nearest;
use nccl_sys::{ncclRedOp_t, ncclResult_t};

pub(crate) fn residence(cx: &mut Cx<'_>, val: &Val) -> Option<bool> {
    let text = cx.text("scalar", val)?;
    match text.v.as_str() {
        "device" => Some(true),
        "host" => Some(false),
        _ => {
            cx.fault(Diagnostic::new(val.span, "`scalar` must be \"device\" or \"host\""));
            None
        }
    }
}

pub(crate) fn reduction(cx: &mut Cx<'_>, val: &Val, device: Option<bool>) -> Option<Sp<Reduce>> {
    let v = match &val.kind {
        Kind::Str(s) => {
            let known = ncclRedOp_t::KNOWN;
            let found = known.iter().find(|k| k.name() == Some(s));
            if found.is_none() {
                let words: Vec<_> = known.iter().filter_map(|k| k.name()).chain(["premul_sum"]).collect();
                let d = Diagnostic::new(val.span, format!("there is no reduction `{}`", s.escape_debug()));
                cx.fault(match nearest(s, words.iter().copied()) {
                    Some("premul_sum") => d.help("write `reduce = { premul_sum = 0.5 }`"),
                    Some(near) => d.help(format!("did you mean `{near}`?")),
                    None => d.help(format!("the reductions are {}", words.join(", "))),
                });
            }
            Reduce::Builtin(*found?)
        }
        Kind::Table(t) => {
            let allowed: Vec<_> = keys::of(Place::Reduce).collect();
            cx.check_keys(t, val.span, &allowed, "`reduce`");
            let Some(e) = t.get("premul_sum") else {
                cx.fault(Diagnostic::new(val.span, "`reduce` as a table must have `premul_sum`"));
                return None;
            };
            let scalar = cx.num("premul_sum", &e.val, Names::STEP, Want::Real, Per::Communicator)?;
            let inside = t.get("scalar").and_then(|e| residence(cx, &e.val));
            Reduce::PreMulSum { scalar, device: inside.or(device).unwrap_or(false) }
        }
        _ => {
            let message = "`reduce` must be \"sum\", \"prod\", \"min\", \"max\", \"avg\" or { premul_sum = 0.5 }";
            cx.fault(Diagnostic::new(val.span, message).label(format!("this is {}", val.what())));
            return None;
        }
    };
    Some(Sp { span: val.span, v })
}

/// A result by its word; "any" is `None`.
pub(crate) fn result(word: &str) -> Option<Option<ncclResult_t>> {
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

pub(crate) fn step_error(cx: &mut Cx<'_>, val: &Val) -> Option<Sp<StepError>> {
    let words = cx.texts("error", val)?;
    let by_rank = matches!(val.kind, Kind::Array(_));
    let mut codes = Vec::new();
    for w in &words {
        match result(&w.v) {
            Some(Some(ncclResult_t::Success)) if !by_rank => {
                cx.fault(Diagnostic::new(w.span, "\"ok\" is no error").help("leave `error` out"));
            }
            Some(code) => codes.push(code),
            None => {
                let d = Diagnostic::new(w.span, format!("NCCL has no result `{}`", w.v.escape_debug()));
                let known: Vec<_> = ncclResult_t::KNOWN.iter().filter_map(|k| k.name()).chain(["any"]).collect();
                cx.fault(match nearest(&w.v, known.iter().copied()) {
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
    Some(Sp { span: val.span, v })
}

pub(crate) fn counts(cx: &mut Cx<'_>, val: &Val) -> Option<Sp<Counts>> {
    let rows = match &val.kind {
        Kind::Str(_) => {
            let e = cx.expr(val, Names::COUNTS)?;
            return Some(Sp { span: val.span, v: Counts::Expr(e.v) });
        }
        Kind::Array(rows) => rows,
        _ => {
            let message = "`counts` must be a list of lists (row r, column j is what r sends to j), or an expression in `rank` and `peer`";
            cx.fault(Diagnostic::new(val.span, message).label(format!("this is {}", val.what())));
            return None;
        }
    };
    let mut matrix = Vec::new();
    for row in rows.iter() {
        let Kind::Array(entries) = &row.kind else {
            cx.fault(
                Diagnostic::new(row.span, "a row of `counts` must be a list").label(format!("this is {}", row.what())),
            );
            return None;
        };
        let read: Vec<_> = entries.iter().map(|v| cx.int("counts", v, 0..=i64::MAX.into())).collect();
        let read: Option<Vec<_>> = read.into_iter().collect();
        if entries.len() != rows.len() {
            let message =
                format!("`counts` must have as many columns as rows: {} here, and {} rows", entries.len(), rows.len());
            cx.fault(Diagnostic::new(row.span, message));
            return None;
        }
        matrix.push(read?);
    }
    Some(Sp { span: val.span, v: Counts::Matrix(matrix) })
}
