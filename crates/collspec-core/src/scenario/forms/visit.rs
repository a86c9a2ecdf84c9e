//! Visits the steps of a program, and the buffers named in them.
use super::super::case::{Case, Step, StepKind, all_steps};
use crate::expr::ExprNode;
use std::collections::HashSet;

/// Calls `f` for every step, outer ones first, with true for those that run more than once.
pub(super) fn steps<'a>(case: &'a Case, f: &mut impl FnMut(&'a Step, bool)) {
    fn go<'a>(list: &'a [Step], looped: bool, f: &mut impl FnMut(&'a Step, bool)) {
        for step in list {
            let again = looped || step.times.is_some();
            f(step, again);
            go(step.inner(), again, f);
        }
    }
    go(&case.steps, false, f);
}

/// Every step of the case, including those of `before`.
pub(super) fn all_of(case: &Case) -> impl Iterator<Item = &Step> {
    all_steps(&case.before).chain(all_steps(&case.steps))
}

/// Calls `f` for the names that a step reads: `in`, and names in a map's expression.
pub(super) fn reads<'a>(step: &'a Step, f: &mut impl FnMut(&'a str)) {
    step.input().into_iter().for_each(|input| f(&input.name));
    if let StepKind::Map { expr, .. } = &step.kind {
        expr.names().into_iter().for_each(f);
    }
}

/// Removes the asserts about these figures of steps (`rounds`, `seconds`, ...).
pub(super) fn drop_figures(case: &mut Case, figures: &[&str]) {
    case.asserts.retain(|assert| {
        let mut speaks = false;
        assert
            .value
            .node
            .visit(&mut |node| speaks |= matches!(node, ExprNode::Field(_, f) if figures.contains(&f.as_str())));
        !speaks
    });
}

/// Names of the buffers that steps write and `inputs` lacks, in the order of the program.
pub(super) fn outputs(case: &Case) -> Vec<String> {
    let mut seen: HashSet<&str> = case.inputs.iter().map(|def| def.name.value.as_str()).collect();
    let mut found = Vec::new();
    for output in all_steps(&case.steps).filter_map(Step::output) {
        if seen.insert(&output.name) {
            found.push(output.name.clone());
        }
    }
    found
}
