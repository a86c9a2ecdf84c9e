//! Suggests values for the file's `outcome`, `reason` and `error` that fit what happened, for messages about those that do not.
use super::outcome::code_name;
use crate::job::{Ended, NOT_NCCL, Observation, RankEnd};
use crate::plan::{Foresight, Plan};
use crate::printable::toml_string;
use crate::scenario::ExpectedOutcome;

/// The `outcome` that fits the ending of a run; `None` if a file cannot expect this ending.
pub(crate) fn outcome(plan: &Plan, observation: &Observation) -> Option<String> {
    match &observation.ended {
        Ended::Done if plan.case.outcome.iter().any(|o| o.value.iter().any(is_error)) => {
            Some("delete `outcome`, or put `error` on the step that must fail".into())
        }
        Ended::Done => Some("if that is right, delete `outcome`".into()),
        Ended::Errored => {
            let code = observation.ranks.iter().find_map(|rank| match rank.end {
                RankEnd::Error { code, .. } => Some(code),
                _ => None,
            });
            let code = code_name(code.filter(|code| *code != NOT_NCCL)?);
            Some(format!(
                "the case ended with an error; if that is right, write `outcome = \"{code}\"`, or `outcome = \"error\"` for any"
            ))
        }
        Ended::Hung { opening: false, .. } if plan.foresight != Foresight::Completes || plan.undefined.is_some() => {
            Some("the case hung; if that is right, write `outcome = \"hang\"`".into())
        }
        Ended::Crashed { opening: false, .. } => {
            Some("the process died; if that is right, write `outcome = \"crash\"`".into())
        }
        Ended::Hung { .. } | Ended::Crashed { .. } => None,
    }
}

fn is_error(expected: &ExpectedOutcome) -> bool {
    matches!(expected, ExpectedOutcome::Error(_))
}

/// The `error` of a step that fits the answer of its call.
pub(crate) fn error(expected: &str, actual: &str) -> Option<String> {
    match (expected, actual) {
        ("ok", _) => Some(format!("if the step is to fail, write `error = \"{actual}\"` on it")),
        (_, "ok") => {
            Some("the call succeeded; if that is right, leave out `error`, or say \"ok\" for this rank".into())
        }
        // In a group, several calls may have returned codes.
        (_, several) if several.contains(", ") => None,
        _ => Some(format!("if that is right, write `error = \"{actual}\"`")),
    }
}

/// A `reason` that is part of this text.
pub(crate) fn reason(text: &str) -> Option<String> {
    const MAX_LENGTH: usize = 80;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    // The last part of a chain of causes is the most informative.
    let part = line.rsplit(": ").find(|part| part.len() >= 8).unwrap_or(line);
    let end = (0..=part.len().min(MAX_LENGTH)).rev().find(|end| part.is_char_boundary(*end))?;
    let cut = part.get(..end)?;
    let words = if end < part.len() { cut.rsplit_once(' ').map_or(cut, |(words, _)| words) } else { cut };
    let quoted = toml_string(words);
    Some(format!("a part of the text is enough; this one would fit: `reason = {quoted}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_end_of_a_chain_of_causes() {
        let text = "ncclBroadcast: invalid_argument: an argument is out of range: the root is 2, not in 0..2\nmore";
        assert!(reason(text).unwrap().ends_with("`reason = \"the root is 2, not in 0..2\"`"), "{text}");
        assert!(reason("a \"b\" is no number").unwrap().ends_with("`reason = \"a \\\"b\\\" is no number\"`"));
        assert_eq!(reason(" \n"), None);
        let long = "word ".repeat(60);
        assert!(reason(&long).unwrap().len() < 160, "{:?}", reason(&long));
    }
}
