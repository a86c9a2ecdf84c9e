//! Checks `expect` against the plan: buffers, slices, lengths.
use super::asserts;
use super::eval::{Names, elements, evaluate_whole};
use super::expr_fill::Fraction;
use super::inputs::{content_count, fits, have_values};
use super::types::{Buffer, Plan};
use crate::ops::Who;
use crate::scenario::{
    BufferContent, CaseContent, Diagnostic, Expectation, ExpectedOutcome, FillTable, FillValues, NumberByRankKind,
    RowKind, Span, Step, StepComm, StepKind, dedupe,
};

/// The errors in `expect` and `assert`.
pub fn diagnostics(plan: &Plan) -> Vec<Diagnostic> {
    let mut diags = Vec::new();
    diags.extend(never_compared(plan));
    for e in &plan.case.expect {
        diags.extend(one(plan, e).err());
    }
    if !plan.case.asserts.is_empty() {
        let begun = asserts::Begun::of(plan);
        diags.extend(plan.case.asserts.iter().filter_map(|a| asserts::check(plan, &begun, a)));
    }
    diags
}

/// Data is compared only after a good end, so a single case that cannot have one would compare nothing. A case that is expected to be
/// refused is not compared either, but an error here would be the refusal.
fn never_compared(plan: &Plan) -> Option<Diagnostic> {
    let CaseContent { swept, outcome, expect, asserts, .. } = &**plan.case;
    let outcome = outcome.as_ref().filter(|_| !swept)?;
    if outcome.value.iter().any(|o| matches!(o, ExpectedOutcome::Ok | ExpectedOutcome::Refused)) {
        return None;
    }
    let (what, span) = match (expect.first(), asserts.first()) {
        (Some(expectation), _) => ("expect", expectation.target.span),
        (None, Some(assertion)) => ("assert", assertion.span),
        (None, None) => return None,
    };
    let text = format!("`{what}` is checked after a case that ends with ok, which `outcome` does not admit");
    Some(
        Diagnostic::new(span, text)
            .related(outcome.span, "the ways in which the case may end")
            .help(format!("take `{what}` out")),
    )
}

fn one(plan: &Plan, e: &Expectation) -> Result<(), Diagnostic> {
    let Some(buffer) = plan.buffers.iter().find(|b| b.name == e.target.name) else {
        return Err(Diagnostic::new(e.target.span, format!("no step of this case makes a buffer `{}`", e.target.name)));
    };
    fits(&e.content, buffer.dtype, &plan.case.axes)?;
    let (mut compared, mut counted) = (0, false);
    for rank in 0..plan.n {
        let words = match &e.content {
            BufferContent::All(fill) => matches!(fill.values, FillValues::Untouched | FillValues::Any),
            BufferContent::Rows(rows) => match rows.get(rank).map(|r| &r.kind) {
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
                BufferContent::All(FillTable { values: FillValues::Texts(list), span, .. }) => {
                    if list.get(rank).is_some_and(|text| !text.is_empty()) {
                        return Err(Diagnostic::new(*span, text).help("write \"\" for it"));
                    }
                }
                // One table for all ranks applies to those that have the buffer.
                BufferContent::All(_) => {}
                BufferContent::Rows(_) => {
                    return Err(Diagnostic::new(row_span(e, rank), text).help("write \"untouched\" for it"));
                }
            }
            continue;
        };
        compared += have;
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
            let d = Diagnostic::new(count_span(e, rank), text);
            return Err(if want == 0 { off_the_root(plan, e, rank).unwrap_or(d) } else { d });
        }
    }
    // An expectation with a count has checked at least that.
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

/// Checks that expectations and asserts have a value for every element, as far as the plan determines. The work for this is part
/// of [`super::cost`], so it comes after the limits.
pub fn check_elements(plan: &Plan) -> Result<(), Vec<Diagnostic>> {
    let of = |e: &Expectation| {
        let Some(buffer) = plan.buffers.iter().find(|b| b.name == e.target.name) else { return Ok(()) };
        (0..plan.n).try_for_each(|rank| {
            let (Some(fill), Some(have)) = (e.content.table(rank), length(plan, e, buffer, rank)?) else {
                return Ok(());
            };
            have_values(&plan.case, buffer.dtype, fill, rank, have, Fraction::Refused)
        })
    };
    let wrong = plan.case.expect.iter().filter_map(|e| of(e).err());
    let wrong: Vec<Diagnostic> = wrong.chain(asserts::check_elements(plan)).collect();
    if wrong.is_empty() { Ok(()) } else { Err(dedupe(wrong)) }
}

/// An empty row for a rank on which a collective does not touch its output.
fn off_the_root(plan: &Plan, e: &Expectation, rank: usize) -> Option<Diagnostic> {
    let BufferContent::Rows(rows) = &e.content else { return None };
    let writes = |step: &&Step| step.output().is_some_and(|out| out.name == e.target.name);
    let mut writers = plan.case.steps.iter().filter(writes);
    let (step, None) = (writers.next()?, writers.next()) else { return None };
    let StepKind::Collective(collective) = &step.kind else { return None };
    let root = match collective.root.as_ref().map(|root| &root.kind) {
        None => 0,
        Some(NumberByRankKind::Int(root)) => usize::try_from(*root).ok()?,
        Some(_) => return None,
    };
    let in_world = matches!(&step.comm, StepComm::Comm(name) if name.value == "world");
    if collective.op.writers == Who::All || rank == root || !in_world {
        return None;
    }
    let text = |span: Span| plan.case.file.text.get(span.start..span.end).unwrap_or_default();
    let shown: Vec<&str> = rows
        .iter()
        .map(|row| match &row.kind {
            RowKind::Elements(list) if list.is_empty() => "\"untouched\"",
            _ => text(row.span),
        })
        .collect();
    let key = if text(e.target.span) == "expect" { "expect".to_owned() } else { format!("expect.{}", e_name(e)) };
    let message = format!("`{}` writes `{}` on its root alone, rank {root}", step.op.name, e_name(e));
    Some(Diagnostic::new(row_span(e, rank), message).help(format!("write `{key} = [{}]`", shown.join(", "))))
}

fn e_name(e: &Expectation) -> &str {
    &e.target.name
}

fn row_span(e: &Expectation, rank: usize) -> Span {
    match &e.content {
        BufferContent::Rows(rows) => rows.get(rank).map_or(e.target.span, |r| r.span),
        BufferContent::All(fill) => fill.span,
    }
}

/// The place that gives the number of elements a rank has in an expectation: its `count`, else the whole row.
fn count_span(e: &Expectation, rank: usize) -> Span {
    e.content.table(rank).and_then(|fill| fill.count.as_ref()).map_or_else(|| row_span(e, rank), |count| count.span)
}

/// Number of elements that an expectation covers on a rank; `None` if the rank does not have the buffer.
fn length(plan: &Plan, e: &Expectation, buffer: &Buffer, rank: usize) -> Result<Option<u64>, Diagnostic> {
    Ok(extent(plan, e, buffer, rank)?.map(|(start, end)| end - start))
}

/// First element and end of the range that an expectation covers on a rank.
///
/// # Errors
///
/// The slice is not inside the buffer, or does not have a value.
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
