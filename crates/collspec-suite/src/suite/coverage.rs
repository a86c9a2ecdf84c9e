//! Selects cases so that each factor (axis value, operation, type and so on) that distinguishes cases occurs at least once.
use collspec_core::scenario::{Case, EnvValue, NumberByRankKind, Step, StepKind, StepReduction, all_steps, file_part};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// In files of at most this many variants, each variant is a factor.
const FEW: usize = 10;

/// Keeps a small set of cases, found by a simple search, that together have every factor of all of them. Cases of few ranks are
/// preferred.
pub fn keep_covering(cases: &mut Vec<Arc<Case>>) {
    let mut variants: HashMap<&str, HashSet<&str>> = HashMap::new();
    for case in cases.iter() {
        variants.entry(file_part(&case.name)).or_default().extend(point(case).find(|part| part.starts_with(VARIANT)));
    }
    let mut numbers = HashMap::new();
    let factors: Vec<Vec<usize>> = cases
        .iter()
        .map(|case| {
            let many = variants.get(file_part(&case.name)).is_some_and(|variants| variants.len() > FEW);
            let mut of_case: Vec<usize> = factors(case, many)
                .into_iter()
                .map(|factor| {
                    let next = numbers.len();
                    *numbers.entry(factor).or_insert(next)
                })
                .collect();
            of_case.sort_unstable();
            of_case.dedup();
            of_case
        })
        .collect();
    let mut by_cost: Vec<usize> = (0..cases.len()).collect();
    by_cost.sort_by_key(|at| (cases[*at].total_ranks(), &cases[*at].name));
    let chosen = covering(&factors, &by_cost, numbers.len());
    let mut at = 0;
    cases.retain(|_| {
        at += 1;
        chosen.contains(&(at - 1))
    });
}

/// Items that together have all factors: adds each that contributes one, in this order, then drops those whose factors others have.
fn covering(factors: &[Vec<usize>], order: &[usize], number: usize) -> HashSet<usize> {
    let mut times = vec![0_usize; number];
    let mut chosen = Vec::new();
    for item in order {
        if factors[*item].iter().any(|factor| times[*factor] == 0) {
            factors[*item].iter().for_each(|factor| times[*factor] += 1);
            chosen.push(*item);
        }
    }
    // The most expensive ones, which are last, are dropped first.
    chosen.reverse();
    chosen.retain(|item| {
        let needed = factors[*item].iter().any(|factor| times[*factor] == 1);
        if !needed {
            factors[*item].iter().for_each(|factor| times[*factor] -= 1);
        }
        needed
    });
    chosen.into_iter().collect()
}

const VARIANT: &str = "variant=";

/// The case's point as texts `axis=value`.
fn point(case: &Case) -> impl Iterator<Item = &str> {
    let point = &case.name[file_part(&case.name).len()..];
    point.trim_start_matches('[').trim_end_matches(']').split(',').filter(|part| !part.is_empty())
}

/// The factors that distinguish a case, in a file of few or many variants.
fn factors(case: &Case, many: bool) -> Vec<String> {
    let file = file_part(&case.name);
    let mut found = vec![file.to_owned()];
    // Many variants of a single operation are points of a sweep, whose values are among the operation's factors.
    let is_one_call = matches!(&*case.steps, [step] if step.op.kind.transfers()) && case.outcome.is_none();
    let is_swept = |part: &str| many && is_one_call && part.starts_with(VARIANT);
    found.extend(point(case).filter(|part| !is_swept(part)).map(|part| format!("{file} {part}")));
    if let Some(form) = &case.form {
        found.extend(case.steps.iter().map(|step| format!("{} as {}", step.op.name, form.form.name)));
    }
    all_steps(&case.steps).for_each(|step| add_factors_of_step(case, step, &mut found));
    // A case skipped because the machine or library lacks something must not represent cases that run everywhere.
    let needs = &case.requires;
    let needs = format!("{:?} {:?} {}", needs.backend, needs.nccl, needs.nvidia);
    found.into_iter().map(|factor| format!("{needs} {factor}")).collect()
}

fn add_factors_of_step(case: &Case, step: &Step, found: &mut Vec<String>) {
    let op = step.op.name;
    if !step.op.kind.transfers() {
        found.push(op.to_owned());
        return;
    }
    let input = step.input().and_then(|input| case.inputs.iter().find(|def| def.name.value == input.name));
    let (size, reduce, in_place) = match &step.kind {
        StepKind::Collective(collective) => (None, collective.reduce.as_ref(), collective.in_place.is_some()),
        StepKind::ReduceScatterV { reduce, .. } => (None, reduce.as_ref(), false),
        StepKind::Recv { size, .. } => (Some(size), None, false),
        _ => (None, None, false),
    };
    let dtype = size.and_then(|size| size.dtype).or(input.map(|def| def.dtype));
    let reduction = reduce.map(|reduce| match reduce {
        StepReduction::Builtin(builtin) => format!("{builtin:?}"),
        StepReduction::PreMulSum { device, .. } => format!("premul_sum, scalar in device memory: {device}"),
    });
    found.push(format!("{op} of {dtype:?} {reduction:?}"));
    let file = file_part(&case.name);
    found.extend([format!("{file} {op}"), format!("{file} {dtype:?}"), format!("{file} {reduction:?}")]);
    found.push(format!("{op} on {} ranks", case.total_ranks()));
    found.push(format!("{op} {:?}", case.placement));
    let count = input.and_then(|def| def.content.table(0)).and_then(|table| table.count.as_ref());
    if let Some(NumberByRankKind::Int(count)) =
        size.and_then(|size| size.count.as_ref()).or(count).map(|count| &count.kind)
    {
        found.push(format!("{op} of {count} elements"));
    }
    for variable in &case.env {
        if let EnvValue::All(value) = &variable.value {
            found.push(format!("{op} with {}={value}", variable.name.value));
        }
    }
    found.extend(case.config.iter().map(|(key, value)| format!("{op} with {}={:?}", key.value, value.value)));
    if let Some(algorithm) = step.algorithm() {
        found.push(format!("{op} by {algorithm:?}"));
    }
    for (is_so, words) in [
        (in_place, "in place"),
        (step.null_pointers, "with null pointers"),
        (step.graph.is_some(), "in a graph"),
        (case.offset.is_some() || input.is_some_and(|def| def.offset.is_some()), "off its boundary"),
        (case.registers_buffers(), "registered"),
    ] {
        if is_so {
            found.push(format!("{op} {words}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_factors_are_kept_and_cheap_items_preferred() {
        let factors = [vec![0], vec![1], vec![0, 1], vec![2, 3], vec![3]];
        let chosen = covering(&factors, &[0, 1, 2, 4, 3], 4);
        assert_eq!(chosen, HashSet::from([0, 1, 3]), "4 is made unneeded by 3, which has 2 alone");
    }
}
