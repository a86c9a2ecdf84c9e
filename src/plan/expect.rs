//! What the file expects against what there is: buffers, slices, lengths.
use super::eval::{Names, elements, evaluate};
use super::inputs::content_count;
use super::resolve::dedupe;
use super::types::{Buffer, Plan};
use crate::scenario::expr::{Mode, Value};
use crate::scenario::{Content, Diagnostic, Expectation, RowKind, Span, Values};

/// Checks `expect` and `assert`.
pub fn check(plan: &Plan) -> Result<(), Vec<Diagnostic>> {
    let mut diags = Vec::new();
    for e in &plan.case.expect {
        diags.extend(one(plan, e).err());
    }
    for a in &plan.case.asserts {
        for name in super::eval::named(&a.v) {
            let known = plan.buffers.iter().any(|b| b.name == name) || plan.tags.contains(&name);
            let axis = plan.case.axes.iter().any(|(axis, _)| *axis == name);
            if !known && !axis {
                diags.push(Diagnostic::new(a.span, format!("`{name}` is no buffer, step or axis of this case")));
            }
        }
    }
    if diags.is_empty() { Ok(()) } else { Err(dedupe(diags)) }
}

fn one(plan: &Plan, e: &Expectation) -> Result<(), Diagnostic> {
    let Some(buffer) = plan.buffers.iter().find(|b| b.name == e.target.name) else {
        return Err(Diagnostic::new(e.target.span, format!("no step of this case makes a buffer `{}`", e.target.name)));
    };
    for rank in 0..plan.n {
        let words = match &e.content {
            Content::All(fill) => matches!(fill.values, Values::Untouched | Values::Any),
            Content::Rows(rows) => match rows.get(rank).map(|r| &r.kind) {
                Some(RowKind::Untouched | RowKind::Any) | None => true,
                Some(RowKind::Elements(list)) => list.is_empty() && buffer.places[rank].is_none(),
                Some(RowKind::Table(_)) => false,
            },
        };
        let have = length(plan, e, buffer, rank)?;
        if words {
            continue;
        }
        let Some(have) = have else {
            // One table for all ranks speaks of those that have the buffer.
            if matches!(e.content, Content::All(_)) {
                continue;
            }
            let text = format!("rank {rank} has no `{}`", buffer.name);
            return Err(Diagnostic::new(row_span(e, rank), text).help("write \"untouched\" for it"));
        };
        let want = content_count(&plan.case, &e.content, rank)?;
        let computed = matches!(&e.content, Content::All(f) if matches!(f.values, Values::Each(_) | Values::Number(_) | Values::Random { .. }));
        if let (Some(want), false) = (want, computed)
            && want != have
        {
            let text = format!(
                "`{}` has {} on rank {rank}, but {} {} expected",
                e_name(e),
                elements(have),
                want,
                if want == 1 { "is" } else { "are" }
            );
            return Err(Diagnostic::new(row_span(e, rank), text));
        }
    }
    Ok(())
}

fn e_name(e: &Expectation) -> &str {
    &e.target.name
}

fn row_span(e: &Expectation, rank: usize) -> Span {
    match &e.content {
        Content::Rows(rows) => rows.get(rank).map_or(e.target.span, |r| r.span),
        Content::All(fill) => fill.span,
    }
}

/// Elements that an expectation speaks of on a rank; `None` if the rank has no such buffer.
fn length(plan: &Plan, e: &Expectation, buffer: &Buffer, rank: usize) -> Result<Option<u64>, Diagnostic> {
    Ok(extent(plan, e, buffer, rank)?.map(|(start, end)| end - start))
}

/// First element and end of what an expectation speaks of on a rank.
///
/// # Errors
///
/// A slice that is not inside the buffer, or has no value.
pub fn extent(plan: &Plan, e: &Expectation, buffer: &Buffer, rank: usize) -> Result<Option<(u64, u64)>, Diagnostic> {
    let Some(place) = buffer.places.get(rank).copied().flatten() else { return Ok(None) };
    let Some((from, to)) = &e.target.slice else { return Ok(Some((0, place.count))) };
    let names = Names::world(&plan.case, rank);
    let bound = |expr: &Option<crate::scenario::Expr>, default: u64| match expr {
        None => Ok(default),
        Some(expr) => match evaluate(expr, e.target.span, &names, Mode::Whole)? {
            Value::Int(v) => u64::try_from(v)
                .map_err(|_| Diagnostic::new(e.target.span, format!("`{}` is {v} on rank {rank}", expr.text))),
            Value::Float(v) => Ok(v as u64),
        },
    };
    let (start, end) = (bound(from, 0)?, bound(to, place.count)?);
    if start > end || end > place.count {
        let text = format!(
            "[{start}:{end}] is not inside `{}`, which has {} on rank {rank}",
            buffer.name,
            elements(place.count)
        );
        return Err(Diagnostic::new(e.target.span, text));
    }
    Ok(Some((start, end)))
}
