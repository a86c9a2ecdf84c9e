//! Counts the features of the programs that ran, to show what a soak has tested.
use collspec_core::scenario::{Case, CommDef, ConfigValue, Spanned, StepError, StepKind, all_steps};
use std::collections::BTreeSet;

/// The kinds of steps of a case, and its other features that are worth counting.
pub(super) fn kinds(case: &Case) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    for step in all_steps(&case.steps).chain(all_steps(&case.before)) {
        found.insert(step.op.name);
        let marks = [
            (step.algorithm().is_some(), "algorithms of calls"),
            (matches!(&step.kind, StepKind::NewComm(new) if makes_non_blocking(new)), "non-blocking communicators"),
            (step.error.as_deref().is_some_and(is_left_in_progress), "calls left in progress"),
        ];
        found.extend(marks.into_iter().filter(|(has, _)| *has).map(|(_, mark)| mark));
    }
    if !case.before.is_empty() {
        found.insert("history");
    }
    let by_variable = case.env.iter().any(|variable| variable.name.value == "NCCL_COMM_BLOCKING");
    if by_variable || is_non_blocking(&case.config) || case.comms.iter().any(makes_non_blocking) {
        found.insert("non-blocking communicators");
    }
    found
}

fn is_non_blocking(config: &[(Spanned<String>, Spanned<ConfigValue>)]) -> bool {
    config.iter().any(|(field, value)| field.value == "blocking" && value.value == ConfigValue::Int(0))
}

fn makes_non_blocking(comm: &CommDef) -> bool {
    is_non_blocking(&comm.config)
}

fn is_left_in_progress(error: &Spanned<StepError>) -> bool {
    error.value == StepError::All(Some(nccl_sys::ncclResult_t::InProgress))
}
