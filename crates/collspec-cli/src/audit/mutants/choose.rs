//! Chooses the mutants that are made: as many of each kind of change, and within a kind of each function, as there are.
use super::candidates::Candidates;
use collspec_core::job::{ChangeKind, Mutant};
use collspec_core::stats::Random;
use std::collections::VecDeque;

/// At most `count` different mutants; a seed decides which.
pub fn choose(candidates: &Candidates, count: usize, seed: u64) -> Vec<Mutant> {
    let mut random = Random::new(seed);
    let mut kinds: VecDeque<VecDeque<Vec<Mutant>>> = ChangeKind::all()
        .map(|kind| {
            let mut functions: Vec<Vec<Mutant>> = candidates.mutants(kind).into_values().collect();
            functions.iter_mut().for_each(|mutants| shuffle(mutants, &mut random));
            // A kind that gets fewer mutants than there are functions must not always get those of the first ones.
            shuffle(&mut functions, &mut random);
            functions.into()
        })
        .collect();
    let mut chosen = Vec::new();
    while chosen.len() < count
        && let Some(mut functions) = kinds.pop_front()
    {
        let Some(mut mutants) = functions.pop_front() else { continue };
        chosen.extend(mutants.pop());
        if !mutants.is_empty() {
            functions.push_back(mutants);
        }
        kinds.push_back(functions);
    }
    chosen
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use collspec_core::job::{ExecutedFunction, ExecutedInstruction};
    use std::collections::BTreeSet;

    /// A function with sums that can be changed in two ways, and one that has only branches.
    fn candidates() -> Candidates {
        let instruction = |operation: u32, changes: &[ChangeKind]| ExecutedInstruction {
            operation,
            line: operation + 10,
            text: String::new(),
            changes: changes.iter().map(|change| (*change, String::new())).collect(),
        };
        let function = |function: u32, count: u32, changes: &[ChangeKind]| ExecutedFunction {
            program: 0,
            function,
            name: format!("f{function}"),
            unit: "u".into(),
            instructions: (0..count).map(|operation| instruction(operation, changes)).collect(),
        };
        let mut candidates = Candidates::default();
        let sums = function(3, 100, &[ChangeKind::Operator, ChangeKind::Constant]);
        candidates.add(0, vec![sums.clone(), function(5, 2, &[ChangeKind::Negated])]);
        candidates.add(1, vec![sums.clone()]);
        candidates.add(1, vec![sums]);
        candidates
    }

    #[test]
    fn mutants_are_spread_over_kinds_and_functions() {
        let candidates = candidates();
        assert_eq!(candidates.counts(), (102, 202));
        let chosen = choose(&candidates, 20, 7);
        let of = |kind: ChangeKind| chosen.iter().filter(|mutant| mutant.change == kind).count();
        assert_eq!((of(ChangeKind::Operator), of(ChangeKind::Constant), of(ChangeKind::Negated)), (9, 9, 2));
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 20, "no mutant is made twice");
        assert_eq!(choose(&candidates, 20, 7), chosen);
        assert_ne!(choose(&candidates, 20, 8), chosen);
        assert_eq!(choose(&candidates, 1000, 7).len(), 202);
    }

    #[test]
    fn a_mutant_knows_the_cases_that_execute_it() {
        let candidates = candidates();
        let mutant = |function: u32, change| Mutant { program: 0, function, operation: 1, change };
        let cases = |mutant| candidates.find(mutant).map(|(candidate, _)| candidate.cases.clone());
        assert_eq!(cases(mutant(3, ChangeKind::Operator)), Some(vec![0, 1]));
        assert_eq!(cases(mutant(5, ChangeKind::Negated)), Some(vec![0]));
        assert_eq!(cases(mutant(5, ChangeKind::Operator)), None);
    }
}
