//! The values of a buffer's table: `each`, `random` and `text`.
use super::case::*;
use super::diagnostic::{Diagnostic, Span};
use super::keys::{self, Place, Type};
use super::reader::{Cx, Names};
use super::tree::{Kind, Val};
use crate::num::{DType, empty_range};

/// Most parts of a text: they are worked out anew for every rank.
const MAX_PARTS: usize = 2000;

pub(crate) fn each(cx: &mut Cx<'_>, val: &Val, dtype: Option<DType>) -> Option<Values> {
    match &val.kind {
        Kind::Str(_) => cx.expr(val, Names::ELEMENT).map(Values::Each),
        Kind::Array(a) => cx.elements(a, dtype).map(Values::Row),
        Kind::Int(_) | Kind::Float(_) => cx.element(val, dtype).map(Values::Number),
        _ => {
            cx.wrong_type("each", Type::ExprOrRow, val);
            None
        }
    }
}

pub(crate) fn random(cx: &mut Cx<'_>, val: &Val, dtype: Option<DType>) -> Option<Values> {
    let Kind::Table(t) = &val.kind else {
        cx.wrong_type("random", Type::Table, val);
        return None;
    };
    let allowed: Vec<_> = keys::of(Place::Random).collect();
    cx.check_keys(t, val.span, &allowed, "`random`");
    let seed = match t.get("seed") {
        Some(e) => cx.int("seed", &e.val, 0..=u64::MAX.into())?,
        None => 0,
    };
    let mut bound = |key: &str| match t.get(key) {
        Some(e) => cx.element(&e.val, dtype).map(|v| Some((v, e.val.span))),
        None => Some(None),
    };
    let (low, high) = (bound("low")?, bound("high")?);
    for (v, span) in [&low, &high].into_iter().flatten() {
        if !number(v).is_some_and(f64::is_finite) {
            cx.fault(Diagnostic::new(*span, "a bound of `random` must be a finite number"));
            return None;
        }
    }
    // Where the type is not known yet the plan checks this.
    let (from, to) = (low.as_ref().map(|l| &l.0.value), high.as_ref().map(|h| &h.0.value));
    if let Some(why) = dtype.and_then(|t| empty_range(t, from, to)) {
        let span = high.as_ref().or(low.as_ref()).map_or(val.span, |bound| bound.1);
        cx.fault(Diagnostic::new(span, "`high` must be greater than `low`").label(why));
        return None;
    }
    let seed = u64::try_from(seed).ok()?;
    Some(Values::Random { seed, low: low.map(|v| v.0), high: high.map(|v| v.0) })
}

fn number(e: &Element) -> Option<f64> {
    match e.value {
        ElementValue::Int(v) => Some(v as f64),
        ElementValue::Float(v) => Some(v),
        ElementValue::Bits(_) => None,
    }
}

pub(crate) fn text(cx: &mut Cx<'_>, val: &Val, whole: bool) -> Option<Values> {
    match &val.kind {
        Kind::Str(s) => template(cx, val.span, s).map(Values::Template),
        Kind::Array(a) if whole => {
            let texts: Option<Vec<_>> = a.iter().map(|v| cx.text("text", v).map(|s| s.v)).collect();
            if a.len() != cx.world {
                cx.fault(Diagnostic::new(val.span, format!("{} texts for {} ranks", a.len(), cx.world)));
                return None;
            }
            texts.map(Values::Texts)
        }
        _ => {
            cx.wrong_type("text", if whole { Type::Texts } else { Type::Text }, val);
            None
        }
    }
}

/// Literal parts and `{expression}`s; `{{` and `}}` are braces.
fn template(cx: &mut Cx<'_>, span: Span, s: &str) -> Option<Vec<TextPart>> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(c) = s[at..].chars().next() {
        let rest = &s[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            at += 2;
        } else if c == '}' {
            let place = cx.inside(span, s, at, at + 1);
            cx.fault(Diagnostic::new(place, "this `}` closes nothing").help("`}}` is a brace"));
            return None;
        } else if c == '{' {
            let Some(len) = rest.find('}') else {
                let place = cx.inside(span, s, at, at + 1);
                cx.fault(Diagnostic::new(place, "this `{` is not closed").help("`{{` is a brace"));
                return None;
            };
            if !literal.is_empty() {
                parts.push(TextPart::Literal(std::mem::take(&mut literal)));
            }
            let e = cx.expr_text(span, s, at + 1, &rest[1..len], Names::PER_RANK)?;
            if parts.len() >= MAX_PARTS {
                let message = format!("this text has more than {MAX_PARTS} parts");
                cx.fault(
                    Diagnostic::new(span, message).help("every `{expression}` is a part, and so is what is between"),
                );
                return None;
            }
            parts.push(TextPart::Expr(e));
            at += len + 1;
        } else {
            literal.push(c);
            at += c.len_utf8();
        }
    }
    if !literal.is_empty() {
        parts.push(TextPart::Literal(literal));
    }
    Some(parts)
}
