//! What the file expects against what there is: buffers, slices, lengths.
use super::each::{self, Fraction};
use super::eval::{Names, elements, evaluate_whole};
use super::inputs::{content_count, fits};
use super::types::{Buffer, Plan};
use crate::num::DType;
use crate::scenario::{Content, Diagnostic, Expectation, Expr, Fill, RowKind, Sp, Span, Values};
use crate::worker::job::What;

/// What is wrong with `expect` and `assert`.
pub fn faults(plan: &Plan) -> Vec<Diagnostic> {
    let mut diags = Vec::new();
    for e in &plan.case.expect {
        diags.extend(one(plan, e).err());
    }
    for a in &plan.case.asserts {
        let names = super::eval::named(&a.v);
        let unknown = |name: &&String| {
            let known = plan.buffers.iter().any(|b| b.name == **name) || plan.tags.contains(name);
            !known && !plan.case.axes.iter().any(|(axis, _)| axis == *name)
        };
        match names.iter().find(unknown) {
            Some(name) => {
                diags.push(Diagnostic::new(a.span, format!("`{name}` is no buffer, step or axis of this case")));
            }
            None => diags.extend(asserts_nothing(plan, a, &names)),
        }
    }
    diags
}

/// A single case's assert that no rank can check. Among many cases some may leave out what an assert speaks of; the report
/// then says so.
fn asserts_nothing(plan: &Plan, a: &Sp<Expr>, names: &[String]) -> Option<Diagnostic> {
    if plan.case.swept {
        return None;
    }
    let buffers: Vec<&Buffer> = plan.buffers.iter().filter(|b| names.contains(&b.name)).collect();
    let tags: Vec<u32> = (0..).zip(&plan.tags).filter(|(_, name)| names.contains(name)).map(|(tag, _)| tag).collect();
    let has = |rank: &usize| {
        let begins = |tag: &u32| {
            let calls = plan.programs.get(*rank).into_iter().flatten();
            calls.into_iter().any(|c| matches!(c.what, What::Begin { tag: t, .. } if t == *tag))
        };
        buffers.iter().all(|b| b.places[*rank].is_some()) && tags.iter().all(begins)
    };
    let ranks: Vec<usize> = (0..plan.n).filter(has).collect();
    if ranks.is_empty() {
        let text = format!("`{}` cannot be checked: no rank has all that it names", a.v.text);
        return Some(Diagnostic::new(a.span, text));
    }
    let bare = a.v.bare_names();
    let each: Vec<&&Buffer> = buffers.iter().filter(|b| bare.contains(&b.name.as_str())).collect();
    let empty = |rank: &usize| each.iter().all(|b| b.places[*rank].is_some_and(|p| p.count == 0));
    (!each.is_empty() && ranks.iter().all(empty)).then(|| {
        let text = format!("`{}` cannot be checked: the buffers that it names have no elements", a.v.text);
        Diagnostic::new(a.span, text)
    })
}

fn one(plan: &Plan, e: &Expectation) -> Result<(), Diagnostic> {
    let Some(buffer) = plan.buffers.iter().find(|b| b.name == e.target.name) else {
        return Err(Diagnostic::new(e.target.span, format!("no step of this case makes a buffer `{}`", e.target.name)));
    };
    fits(&e.content, buffer.dtype, &plan.case.axes)?;
    let (mut compared, mut counted) = (0, false);
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
            counted = true;
            continue;
        }
        let Some(have) = have else {
            let text = format!("rank {rank} has no `{}`", buffer.name);
            match &e.content {
                Content::All(Fill { values: Values::Texts(list), span, .. }) => {
                    if list.get(rank).is_some_and(|text| !text.is_empty()) {
                        return Err(Diagnostic::new(*span, text).help("write \"\" for it"));
                    }
                }
                // One table for all ranks speaks of those that have the buffer.
                Content::All(_) => {}
                Content::Rows(_) => {
                    return Err(Diagnostic::new(row_span(e, rank), text).help("write \"untouched\" for it"));
                }
            }
            continue;
        };
        compared += have;
        if have > 0 {
            first_element(plan, e, buffer.dtype, rank)?;
        }
        let Some(want) = content_count(&plan.case, &e.content, rank)? else { continue };
        counted = true;
        if want != have {
            let text = format!(
                "`{}` has {} on rank {rank}, but {} {} expected",
                e_name(e),
                elements(have),
                want,
                if want == 1 { "is" } else { "are" }
            );
            return Err(Diagnostic::new(count_span(e, rank), text));
        }
    }
    // What says a count has checked it.
    if compared > 0 || counted || plan.case.swept {
        return Ok(());
    }
    if buffer.places.iter().all(Option::is_none) {
        let text = format!("no rank has `{}`, so nothing would be checked", e_name(e));
        return Err(Diagnostic::new(row_span(e, 0), text).help("write \"untouched\" if that is meant"));
    }
    let text = format!("`{}` has no elements to compare on any rank, so nothing would be checked", e_name(e));
    Err(Diagnostic::new(row_span(e, 0), text).help("write `count = 0` in it if that is meant"))
}

/// Whether an expression has a value for the first element; those of the others show when they are compared.
fn first_element(plan: &Plan, e: &Expectation, dtype: DType, rank: usize) -> Result<(), Diagnostic> {
    match e.content.table(rank).map(|fill| &fill.values) {
        Some(Values::Each(expr)) => {
            let mut element = vec![0; dtype.size()];
            let names = Names::world(&plan.case, rank);
            each::fill(&expr.v, expr.span, names, dtype, Fraction::Refused, &mut element)
        }
        _ => Ok(()),
    }
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

/// Where an expectation says how many elements a rank has: its `count`, else all of the row.
fn count_span(e: &Expectation, rank: usize) -> Span {
    e.content.table(rank).and_then(|fill| fill.count.as_ref()).map_or_else(|| row_span(e, rank), |count| count.span)
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
        Some(expr) => {
            let v = evaluate_whole(expr, e.target.span, &names)?;
            u64::try_from(v)
                .map_err(|_| Diagnostic::new(e.target.span, format!("`{}` is {v} on rank {rank}", expr.text)))
        }
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
