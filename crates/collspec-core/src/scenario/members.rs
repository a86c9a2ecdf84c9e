//! Reads the ranks that leave or join a communicator: `without` and `abort` of shrink, `with` of grow.
use super::case::{CommCreation, Ranks, Spanned};
use super::diagnostic::{Diagnostic, Span};
use super::keys::ValueType;
use super::reader::{AllowedNames, PointReader};
use super::tree::{TomlKind, TomlTable, TomlValue};

/// Reads the keys of a `shrink`; `span` is the step's place.
pub(crate) fn shrink(
    reader: &mut PointReader<'_>,
    t: &TomlTable,
    span: Span,
    comm: Spanned<String>,
) -> Option<CommCreation> {
    let Some(without) = t.get("without") else {
        let d = Diagnostic::new(span, "`shrink` needs `without`");
        reader.report(
            d.help("the ranks of `comm` that are left out: `without = [2]`, or an expression that is true for them"),
        );
        return None;
    };
    let abort = t.get("abort").and_then(|e| reader.bool("abort", &e.value)).unwrap_or(false);
    let span = without.value.span;
    let without = match &without.value.kind {
        TomlKind::Str(_) => Ranks::Expr(reader.expression(&without.value, AllowedNames::STEP)?),
        _ => Ranks::List(numbers(reader, "without", &without.value)?),
    };
    Some(CommCreation::Shrink { comm, without: Spanned { span, value: without }, abort })
}

/// Reads the keys of a `grow`; `span` is the step's place.
pub(crate) fn grow(
    reader: &mut PointReader<'_>,
    t: &TomlTable,
    span: Span,
    comm: Spanned<String>,
) -> Option<CommCreation> {
    let Some(with) = t.get("with") else {
        let d = Diagnostic::new(span, "`grow` needs `with`");
        reader.report(d.help("the world ranks that join, in the order of their new numbers: `with = [2, 3]`"));
        return None;
    };
    let span = with.value.span;
    let with = match &with.value.kind {
        TomlKind::Str(_) => Ranks::Expr(reader.expression(&with.value, AllowedNames::PER_RANK)?),
        TomlKind::Array(list) => {
            let list = reader.world_ranks(list)?;
            reader.reject_duplicates(&list);
            Ranks::List(list)
        }
        _ => {
            reader.report_wrong_type("with", ValueType::Ranks, &with.value);
            return None;
        }
    };
    Some(CommCreation::Grow { comm, with: Spanned { span, value: with } })
}

/// A list of ranks of a communicator whose size is not known yet.
fn numbers(reader: &mut PointReader<'_>, key: &str, val: &TomlValue) -> Option<Vec<Spanned<i128>>> {
    let TomlKind::Array(entries) = &val.kind else {
        reader.report_wrong_type(key, ValueType::RanksOfComm, val);
        return None;
    };
    let mut out = Vec::with_capacity(entries.len());
    for entry in entries.iter() {
        let TomlKind::Int(rank) = entry.kind else {
            let d = Diagnostic::new(entry.span, "expected a rank of the communicator");
            reader.report(d.label(format!("this is {}", entry.kind_name())));
            return None;
        };
        out.push(Spanned { span: entry.span, value: rank });
    }
    reader.reject_duplicates(&out);
    Some(out)
}
