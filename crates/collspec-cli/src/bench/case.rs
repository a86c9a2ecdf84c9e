//! A row as a scenario: the timed call is planned, run and judged like any other case.
use super::operation::{Operation, Reduction};
use super::row::Row;
use collspec_core::num::DType;
use collspec_core::printable::toml_string;
use collspec_core::scenario::{Case, Rejected, SourceFile, parse};
use std::fmt::Write;
use std::sync::Arc;

/// Builds the case that times a row.
///
/// # Errors
///
/// Values that a scenario cannot have: an algorithm that is not a value of NCCL_ALGO, or too many ranks.
pub fn case(row: &Row) -> Result<Arc<Case>, Rejected> {
    let name = format!("bench/{}", row.operation.name());
    let file = Arc::new(SourceFile { path: format!("{name}.toml"), text: scenario(row).into() });
    let mut cases = parse(&file, &name)?;
    match cases.pop() {
        Some(case) => Ok(Arc::new(case)),
        None => Err(Rejected { file, diagnostics: Vec::new(), meant: Vec::new() }),
    }
}

/// The text of the scenario.
pub fn scenario(row: &Row) -> String {
    let mut text = format!("world_size = {}\n", row.ranks);
    let mut line = |key: &str, value: &str| _ = writeln!(text, "{key} = {value}");
    line("op", &toml_string(row.operation.name()));
    line("dtype", &toml_string(row.dtype.name()));
    if let Some(reduction) = row.reduction {
        line("reduce", reduction.scenario_value());
    }
    if let Some(root) = row.root {
        line("root", &root.to_string());
    }
    if row.in_place {
        line("in_place", "true");
    }
    if row.operation == Operation::SendRecv {
        line("to", "\"(rank + 1) % n\"");
        line("from", "\"(rank + n - 1) % n\"");
    }
    line("inputs", &format!("{{ each = {}, count = {} }}", toml_string(&each(row)), elements(row)));
    for (name, value) in [("NCCL_ALGO", &row.algorithm), ("NCCL_PROTO", &row.protocol)] {
        if let Some(value) = value {
            line(&format!("env.{name}"), &toml_string(value));
        }
    }
    text
}

/// Number of elements of each rank's input.
fn elements(row: &Row) -> u64 {
    let send = row.operation.collective().map_or(collspec_core::ops::Extent::One, |collective| collective.send);
    send.elements(row.count(), row.ranks).unwrap_or(u64::MAX)
}

/// The ranks' inputs: whole numbers that differ by rank and position and repeat, and whose reduction is exact in every type of
/// their size, so that the judge need not search.
pub fn each(row: &Row) -> String {
    let ranks = row.ranks as u64;
    match row.reduction {
        None => "(i + 31 * rank) % 113".into(),
        Some(Reduction::Max | Reduction::Min) => "(7 * i + 5 * rank) % 23".into(),
        // a power of two that stays small: at each position only a few ranks have a 2
        Some(Reduction::Prod) => format!("if((i + rank) % {} < 1, 2, 1)", ranks.max(13)),
        Some(reduction) => {
            let factor = if reduction == Reduction::MulSum { 2 } else { 1 };
            match largest_whole(row.dtype) / (ranks * factor) {
                0 => format!("if((i + rank) % {ranks} < 2, 1, 0)"),
                largest => format!("(i + 3 * rank) % {}", largest.min(16) + 1),
            }
        }
    }
}

/// The limit up to which all whole numbers are values of the type; integers wrap, so for them it only keeps numbers small.
fn largest_whole(dtype: DType) -> u64 {
    match dtype {
        DType::F8e5m2 => 8,
        DType::F8e4m3 => 16,
        DType::I8 | DType::U8 => 127,
        DType::Bf16 => 256,
        DType::F16 => 2048,
        DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::F32 | DType::F64 => 1 << 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::operation::Operation;
    use collspec_core::plan::{Limits, plan};

    fn row(operation: Operation, dtype: DType, ranks: usize) -> Row {
        let bytes = operation.count(4096, dtype, ranks).1;
        let reduction = operation.reduces().then_some(Reduction::Sum);
        let root = operation.is_rooted().then_some(1);
        let (algorithm, protocol) = (Some("Ring".into()), None);
        Row { operation, reduction, dtype, algorithm, protocol, ranks, root, bytes, in_place: false }
    }

    #[test]
    fn every_operation_is_a_scenario_of_its_size() {
        for operation in Operation::ALL {
            for dtype in [DType::F8e5m2, DType::F32, DType::U64] {
                for in_place in [false, true] {
                    let row = Row { in_place: in_place && operation.works_in_place(), ..row(operation, dtype, 3) };
                    let case = case(&row).unwrap_or_else(|error| panic!("{row}: {error}"));
                    let plan = plan(&case, &Limits::default()).unwrap_or_else(|_| panic!("{row}"));
                    let size = dtype.size() as u64;
                    let counts =
                        plan.buffers.iter().flat_map(|buffer| buffer.places.iter().flatten().map(|place| place.count));
                    assert_eq!(counts.max().unwrap_or(0) * size, row.bytes, "{row}");
                }
            }
        }
    }

    #[test]
    fn every_reduction_is_a_scenario() {
        for reduction in Reduction::ALL {
            for dtype in [DType::F8e4m3, DType::Bf16, DType::I8] {
                let row = Row { reduction: Some(reduction), ..row(Operation::AllReduce, dtype, 9) };
                case(&row).unwrap_or_else(|error| panic!("{row}: {error}"));
            }
        }
    }

    #[test]
    fn a_value_that_is_no_algorithm_is_refused_with_its_place() {
        let row = Row { algorithm: Some("\"\n".into()), ..row(Operation::AllReduce, DType::F32, 2) };
        assert!(case(&row).is_err());
    }
}
