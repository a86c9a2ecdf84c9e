//! Reads the values of a buffer's table: `each`, `random` and `text`.
use super::case::*;
use super::diagnostic::{Diagnostic, Span};
use super::keys::{self, KeyPlace, ValueType};
use super::reader::{AllowedNames, PointReader};
use super::tree::{TomlKind, TomlValue};
use crate::num::{DType, empty_range};

/// Limit on the parts of a text, which are evaluated for every rank.
const MAX_PARTS: usize = 2000;

pub(crate) fn read_each(reader: &mut PointReader<'_>, val: &TomlValue, dtype: Option<DType>) -> Option<FillValues> {
    match &val.kind {
        TomlKind::Str(_) => reader.expression(val, AllowedNames::ELEMENT).map(FillValues::Each),
        TomlKind::Array(a) => reader.elements(a, dtype).map(FillValues::Row),
        TomlKind::Int(_) | TomlKind::Float(_) => reader.element(val, dtype).map(FillValues::Number),
        _ => {
            reader.report_wrong_type("each", ValueType::ExprOrRow, val);
            None
        }
    }
}

pub(crate) fn read_random(reader: &mut PointReader<'_>, val: &TomlValue, dtype: Option<DType>) -> Option<FillValues> {
    let TomlKind::Table(t) = &val.kind else {
        reader.report_wrong_type("random", ValueType::Table, val);
        if let (Some(d), TomlKind::Bool(true)) = (reader.diagnostics.last_mut(), &val.kind) {
            d.help = Some("write `random = {}`; it may have `seed`, `low` and `high`".into());
        }
        return None;
    };
    let allowed: Vec<_> = keys::keys_in(KeyPlace::Random).collect();
    reader.check_keys(t, val.span, &allowed, "`random`");
    let seed = match t.get("seed") {
        Some(e) => reader.int("seed", &e.value, 0..=u64::MAX.into())?,
        None => 0,
    };
    let mut bound = |key: &str| match t.get(key) {
        Some(e) => reader.element(&e.value, dtype).map(|v| Some((v, e.value.span))),
        None => Some(None),
    };
    let (low, high) = (bound("low")?, bound("high")?);
    for (v, span) in [&low, &high].into_iter().flatten() {
        if !number(v).is_some_and(f64::is_finite) {
            reader.report(Diagnostic::new(*span, "a bound of `random` must be a finite number"));
            return None;
        }
    }
    // If the type is not known yet, the plan checks this.
    let (from, to) = (low.as_ref().map(|l| &l.0.value), high.as_ref().map(|h| &h.0.value));
    if let Some(why) = dtype.and_then(|t| empty_range(t, from, to)) {
        let span = high.as_ref().or(low.as_ref()).map_or(val.span, |bound| bound.1);
        reader.report(Diagnostic::new(span, "`high` must be greater than `low`").label(why));
        return None;
    }
    let seed = u64::try_from(seed).ok()?;
    Some(FillValues::Random { seed, low: low.map(|v| v.0), high: high.map(|v| v.0) })
}

fn number(e: &Element) -> Option<f64> {
    match e.value {
        ElementValue::Int(v) => Some(v as f64),
        ElementValue::Float(v) => Some(v),
        ElementValue::Bits(_) => None,
    }
}

pub(crate) fn read_text(reader: &mut PointReader<'_>, val: &TomlValue, whole: bool) -> Option<FillValues> {
    match &val.kind {
        TomlKind::Str(s) => parse_template(reader, val.span, s).map(FillValues::Template),
        TomlKind::Array(a) if whole => {
            let texts: Option<Vec<_>> = a.iter().map(|v| reader.text("text", v).map(|s| s.value)).collect();
            if a.len() != reader.world {
                reader.report(Diagnostic::new(val.span, format!("{} texts for {} ranks", a.len(), reader.world)));
                return None;
            }
            texts.map(FillValues::Texts)
        }
        _ => {
            reader.report_wrong_type("text", if whole { ValueType::Texts } else { ValueType::Text }, val);
            None
        }
    }
}

/// Parses a text of literal parts and `{expression}`s; `{{` and `}}` are braces.
fn parse_template(reader: &mut PointReader<'_>, span: Span, s: &str) -> Option<Vec<TextPart>> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut at = 0;
    while let Some(c) = s[at..].chars().next() {
        let rest = &s[at..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            literal.push(c);
            at += 2;
        } else if c == '}' {
            let place = reader.span_in_text(span, s, at, at + 1);
            reader.report(Diagnostic::new(place, "this `}` closes nothing").help("`}}` is a brace"));
            return None;
        } else if c == '{' {
            let Some(len) = rest.find('}') else {
                let place = reader.span_in_text(span, s, at, at + 1);
                reader.report(Diagnostic::new(place, "this `{` is not closed").help("`{{` is a brace"));
                return None;
            };
            if !literal.is_empty() {
                parts.push(TextPart::Literal(std::mem::take(&mut literal)));
            }
            let e = reader.expression_in_text(span, s, at + 1, &rest[1..len], AllowedNames::PER_RANK)?;
            if parts.len() >= MAX_PARTS {
                let message = format!("this text has more than {MAX_PARTS} parts");
                reader.report(
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
