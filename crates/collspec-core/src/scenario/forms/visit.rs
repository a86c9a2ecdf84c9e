//! Visits the steps of a program, and the buffers named in them.
use super::super::case::{Case, Step};
use crate::expr::ExprNode;
use std::collections::HashSet;

/// Calls `f` for every step, outer ones first, with true for those that run more than once.
pub(super) fn steps<'a>(case: &'a Case, f: &mut impl FnMut(&'a Step, bool)) {
    fn go<'a>(list: &'a [Step], looped: bool, f: &mut impl FnMut(&'a Step, bool)) {
        for step in list {
            let again = looped || step.times.is_some();
            f(step, again);
            go(&step.steps, again, f);
        }
    }
    go(&case.steps, false, f);
}

/// Calls `f` for every step of the case, including those of `before`.
pub(super) fn all_steps<'a>(case: &'a Case, f: &mut impl FnMut(&'a Step)) {
    fn go<'a>(list: &'a [Step], f: &mut impl FnMut(&'a Step)) {
        for step in list {
            f(step);
            go(&step.steps, f);
        }
    }
    go(&case.before, f);
    go(&case.steps, f);
}

/// True if the condition holds for some step of the case, including those of `before`.
pub(super) fn any_of_all(case: &Case, mut is: impl FnMut(&Step) -> bool) -> bool {
    let mut found = false;
    all_steps(case, &mut |step| found |= is(step));
    found
}

/// True if the condition holds for some step.
pub(super) fn any(case: &Case, mut is: impl FnMut(&Step) -> bool) -> bool {
    let mut found = false;
    steps(case, &mut |step, _| found |= is(step));
    found
}

/// Calls `f` for the names that a step reads: `in`, and names in a map's expression.
pub(super) fn reads<'a>(step: &'a Step, f: &mut impl FnMut(&'a str)) {
    step.input.iter().for_each(|input| f(&input.name));
    step.expr.iter().for_each(|expr| names(&expr.value.node, f));
}

/// Calls `f` for all names in an expression.
pub(super) fn names<'a>(node: &'a ExprNode, f: &mut impl FnMut(&'a str)) {
    match node {
        ExprNode::Name(name) => f(name),
        ExprNode::Index(name, inner) => {
            f(name);
            names(inner, f);
        }
        ExprNode::Neg(inner) => names(inner, f),
        ExprNode::Binary(_, a, b) => {
            names(a, f);
            names(b, f);
        }
        ExprNode::Call(_, args) => args.iter().for_each(|arg| names(arg, f)),
        ExprNode::Int(_) | ExprNode::Float(_) | ExprNode::Field(..) => {}
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
    steps(case, &mut |step, _| {
        if let Some(output) = step.output.as_ref().filter(|output| seen.insert(&output.name)) {
            found.push(output.name.clone());
        }
    });
    found
}
