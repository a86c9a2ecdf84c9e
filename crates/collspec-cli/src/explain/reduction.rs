//! How a reduction is written: `1+3=4` if that is short, else its result alone.
use super::frame::value;
use super::picture::Cell;
use collspec_core::num::element_text;
use collspec_core::oracle::{Certainty, ElementNow};
use collspec_core::plan::{CollectiveEvent, Reduction};
use nccl_sys::ncclRedOp_t as Op;

/// Limits on the ranks and the characters of what is written out, and on those of a row.
const MOST_TERMS: usize = 4;
const MOST_CHARACTERS: usize = 24;
const MOST_IN_ROW: usize = 100;

/// `sum`, `product`, `average`...
pub fn noun(collective: &CollectiveEvent) -> &'static str {
    match &collective.reduction {
        Some(Reduction::Builtin(Op::Prod)) => "product",
        Some(Reduction::Builtin(Op::Min)) => "minimum",
        Some(Reduction::Builtin(Op::Max)) => "maximum",
        Some(Reduction::Builtin(Op::Avg)) => "average",
        Some(Reduction::PreMulSum(_)) => "weighted sum",
        _ => "sum",
    }
}

/// The cell of a reduced element with these operands, given by rank and bits, among `shown` of a row.
pub fn cell(collective: &CollectiveEvent, operands: &[(usize, u64)], now: Option<ElementNow>, shown: usize) -> Cell {
    let from: Vec<usize> = operands.iter().map(|(rank, _)| *rank).collect();
    let Some(now) = now.filter(|now| matches!(now.certainty, Certainty::Known | Certainty::Ambiguous)) else {
        return Cell { plain: false, ..Cell::words("?") };
    };
    let result = value(collective.dtype(), now);
    let parts = written_out(collective, operands, &result);
    let length: usize = parts.iter().map(|(text, _)| text.chars().count()).sum();
    if operands.len() <= MOST_TERMS && length <= MOST_CHARACTERS.min(MOST_IN_ROW / shown.max(1)) {
        return Cell { parts, from, plain: false };
    }
    let sign = match &collective.reduction {
        Some(Reduction::Builtin(Op::Prod)) => "Π ",
        Some(Reduction::Builtin(Op::Min)) => "min ",
        Some(Reduction::Builtin(Op::Max)) => "max ",
        Some(Reduction::Builtin(Op::Avg)) => "avg ",
        _ => "Σ ",
    };
    Cell { parts: vec![(format!("{sign}{result}"), None)], from, plain: false }
}

fn written_out(collective: &CollectiveEvent, operands: &[(usize, u64)], result: &str) -> Vec<(String, Option<usize>)> {
    let dtype = collective.dtype();
    let (begin, between, end) = match &collective.reduction {
        Some(Reduction::Builtin(Op::Prod)) => ("", "×", "=".to_owned()),
        Some(Reduction::Builtin(Op::Min)) => ("min(", ", ", ")=".to_owned()),
        Some(Reduction::Builtin(Op::Max)) => ("max(", ", ", ")=".to_owned()),
        Some(Reduction::Builtin(Op::Avg)) => ("(", "+", format!(")/{}=", operands.len())),
        _ => ("", "+", "=".to_owned()),
    };
    let listed = between == ", ";
    let mut parts = vec![(begin.to_owned(), None)];
    for (at, (rank, bits)) in operands.iter().enumerate() {
        if at > 0 {
            parts.push((between.to_owned(), None));
        }
        let mut text = element_text(dtype, *bits);
        if text.starts_with('-') && !listed && at > 0 {
            text = format!("({text})");
        }
        if let Some(Reduction::PreMulSum(factors)) = &collective.reduction
            && let Some(factor) = factors.get(at)
        {
            text = format!("{}·{text}", element_text(dtype, *factor));
        }
        parts.push((text, Some(*rank)));
    }
    parts.extend([(end, None), (result.to_owned(), None)]);
    parts.retain(|(text, _)| !text.is_empty());
    parts
}
