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
    let many = |case: &Case| variants.get(file_part(&case.name)).is_some_and(|variants| variants.len() > FEW);
    let factors = numbered(cases.iter().map(|case| factors(case, many(case)).into_iter().map(|factor| factor.text)));
    let mut by_cost: Vec<usize> = (0..cases.len()).collect();
    by_cost.sort_by_key(|at| (cases[*at].total_ranks(), &cases[*at].name));
    let chosen = covering(&factors, &by_cost, factors.iter().flatten().max().map_or(0, |most| most + 1));
    let mut at = 0;
    cases.retain(|_| {
        at += 1;
        chosen.contains(&(at - 1))
    });
}

/// For each case, the numbers of its factors that concern calls and whole files. What the values of a file's axes change besides is seen from
/// what a library executes.
pub fn call_factors(cases: &[Arc<Case>]) -> Vec<Vec<usize>> {
    numbered(
        cases
            .iter()
            .map(|case| factors(case, true).into_iter().filter(|factor| !factor.is_of_value).map(|factor| factor.text)),
    )
}

/// The same, with a number for each factor.
fn numbered(cases: impl Iterator<Item = impl Iterator<Item = String>>) -> Vec<Vec<usize>> {
    let mut numbers = HashMap::new();
    cases
        .map(|factors| {
            let mut of_case: Vec<usize> = factors
                .map(|factor| {
                    let next = numbers.len();
                    *numbers.entry(factor).or_insert(next)
                })
                .collect();
            of_case.sort_unstable();
            of_case.dedup();
            of_case
        })
        .collect()
}

/// Something that distinguishes cases.
struct Factor {
    text: String,
    /// True for a value in one file, and a number of elements.
    is_of_value: bool,
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
fn factors(case: &Case, many: bool) -> Vec<Factor> {
    let file = file_part(&case.name);
    let mut found = Factors { of_calls: vec![file.to_owned()], of_values: Vec::new() };
    // Many variants of a single operation are points of a sweep, whose values are among the operation's factors.
    let is_one_call = matches!(&*case.steps, [step] if step.op.kind.transfers()) && case.outcome.is_none();
    let is_swept = |part: &str| many && is_one_call && part.starts_with(VARIANT);
    found.of_values.extend(point(case).filter(|part| !is_swept(part)).map(|part| format!("{file} {part}")));
    if let Some(form) = &case.form {
        found.of_calls.extend(case.steps.iter().map(|step| format!("{} as {}", step.op.name, form.form.name)));
    }
    all_steps(&case.steps).for_each(|step| add_factors_of_step(case, step, &mut found));
    // A case skipped because the machine or library lacks something must not represent cases that run everywhere.
    let needs = &case.requires;
    let needs = format!("{:?} {:?} {}", needs.backend, needs.nccl, needs.nvidia);
    let factor = |(text, is_of_value)| Factor { text: format!("{needs} {text}"), is_of_value };
    let of_calls = found.of_calls.into_iter().map(|text| (text, false));
    of_calls.chain(found.of_values.into_iter().map(|text| (text, true))).map(factor).collect()
}

#[derive(Default)]
struct Factors {
    of_calls: Vec<String>,
    /// See [`Factor::is_of_value`].
    of_values: Vec<String>,
}

fn add_factors_of_step(case: &Case, step: &Step, found: &mut Factors) {
    let Factors { of_calls, of_values } = found;
    let op = step.op.name;
    if !step.op.kind.transfers() {
        of_calls.push(op.to_owned());
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
    of_calls.push(format!("{op} of {dtype:?} {reduction:?}"));
    let file = file_part(&case.name);
    of_values.extend([format!("{file} {op}"), format!("{file} {dtype:?}"), format!("{file} {reduction:?}")]);
    of_calls.push(format!("{op} on {} ranks", case.total_ranks()));
    of_calls.push(format!("{op} {:?}", case.placement));
    let count = input.and_then(|def| def.content.table(0)).and_then(|table| table.count.as_ref());
    if let Some(NumberByRankKind::Int(count)) =
        size.and_then(|size| size.count.as_ref()).or(count).map(|count| &count.kind)
    {
        of_values.push(format!("{op} of {count} elements"));
    }
    for variable in &case.env {
        if let EnvValue::All(value) = &variable.value {
            of_calls.push(format!("{op} with {}={value}", variable.name.value));
        }
    }
    of_calls.extend(case.config.iter().map(|(key, value)| format!("{op} with {}={:?}", key.value, value.value)));
    if let Some(algorithm) = step.algorithm() {
        of_calls.push(format!("{op} by {algorithm:?}"));
    }
    for (is_so, words) in [
        (in_place, "in place"),
        (step.null_pointers, "with null pointers"),
        (step.graph.is_some(), "in a graph"),
        (case.offset.is_some() || input.is_some_and(|def| def.offset.is_some()), "off its boundary"),
        (case.registers_buffers(), "registered"),
    ] {
        if is_so {
            of_calls.push(format!("{op} {words}"));
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
