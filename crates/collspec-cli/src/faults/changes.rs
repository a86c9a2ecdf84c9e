//! What is different between two libraries under the same faults.
use super::results::{FaultyRun, Outcome, Results, Tally};
use collspec_core::job::FaultKind;
use collspec_core::stats::rates::fisher;
use std::collections::BTreeMap;

/// Rates that would differ as much with a smaller probability if they were equal are different.
const SIGNIFICANT: f64 = 0.05;

/// The runs that both have, of one kind of fault.
#[derive(Debug, PartialEq)]
pub struct KindChange {
    pub kind: FaultKind,
    /// The tallies before and after.
    pub tallies: [Tally; 2],
    /// True if more runs end badly, and that is unlikely to be chance.
    pub is_worse: bool,
}

/// A run with the same case, kind and seed and another outcome.
#[derive(Debug, PartialEq)]
pub struct RunChange<'a> {
    pub case: &'a str,
    pub before: &'a FaultyRun,
    pub after: &'a FaultyRun,
}

impl RunChange<'_> {
    /// True if the results were right or NCCL returned an error, and neither is so now.
    pub fn is_worse(&self) -> bool {
        self.after.outcome.is_bad() && !self.before.outcome.is_bad()
    }
}

/// The changes between two results, over the runs that both have.
pub fn changes<'a>(before: &'a Results, after: &'a Results) -> (Vec<KindChange>, Vec<RunChange<'a>>) {
    let (mut kinds, mut runs) = (Vec::new(), Vec::new());
    for kind in after.kinds() {
        let known: BTreeMap<(&str, u64), &FaultyRun> =
            before.of_kind(kind).map(|(case, run)| ((case, run.seed), run)).collect();
        let both: Vec<RunChange<'_>> = after
            .of_kind(kind)
            .filter_map(|(case, run)| Some(RunChange { case, before: known.get(&(case, run.seed))?, after: run }))
            .collect();
        if both.is_empty() {
            continue;
        }
        let tallies = [Tally::of(both.iter().map(|pair| pair.before)), Tally::of(both.iter().map(|pair| pair.after))];
        let [(bad, of), (bad_now, of_now)] = tallies.map(|tally| (tally.bad(), tally.struck()));
        let is_more = u128::from(bad_now) * u128::from(of) > u128::from(bad) * u128::from(of_now);
        let is_worse = is_more && fisher((bad, of), (bad_now, of_now)) < SIGNIFICANT;
        kinds.push(KindChange { kind, tallies, is_worse });
        runs.extend(both.into_iter().filter(|pair| pair.before.outcome != pair.after.outcome));
    }
    (kinds, runs)
}

/// The outcomes of a tally in words.
pub fn words(tally: &Tally) -> String {
    let counted = Outcome::ALL.iter().map(|outcome| outcome.name()).zip(tally.by_outcome);
    let all = counted.chain([("not struck", tally.not_struck)]).filter(|(_, count)| *count > 0);
    all.map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::results::{CaseResults, VERSION};
    use super::*;

    fn results(kind: FaultKind, outcomes: &[Outcome]) -> Results {
        let run = |(seed, outcome): (u64, &Outcome)| FaultyRun {
            kind,
            seed,
            outcome: *outcome,
            code: None,
            fault: "it struck".into(),
            reason: String::new(),
        };
        let case = CaseResults { case: "a".into(), sound: Vec::new(), faulty: (0..).zip(outcomes).map(run).collect() };
        Results {
            collspec_faults: VERSION,
            library: "NCCL".into(),
            seed: 0,
            runs: outcomes.len() as u64,
            cases: vec![case],
            skipped: Vec::new(),
        }
    }

    fn worse(before: &[Outcome], after: &[Outcome]) -> (bool, usize) {
        let (before, after) = (results(FaultKind::NetCut, before), results(FaultKind::NetCut, after));
        let (kinds, runs) = changes(&before, &after);
        (kinds.iter().any(|kind| kind.is_worse), runs.len())
    }

    #[test]
    fn only_more_bad_ends_than_chance_gives_are_worse() {
        use Outcome::*;
        assert_eq!(worse(&[Error; 6], &[Hang; 6]), (true, 6));
        assert_eq!(worse(&[Hang; 6], &[Error; 6]), (false, 6), "it is better");
        assert_eq!(worse(&[Right; 6], &[Error; 6]), (false, 6), "NCCL says it");
        assert_eq!(
            worse(&[Error, Hang, Error], &[Hang, Error, Hang]),
            (false, 3),
            "two of three are not more than one"
        );
        assert_eq!(worse(&[Error; 6], &[Hang; 4]), (true, 4), "only the runs that both have");
        assert_eq!(worse(&[Error; 6], &[Hang; 3]), (false, 3), "too few");
    }

    #[test]
    fn kinds_and_seeds_that_only_one_has_are_left_out() {
        let (before, after) =
            (results(FaultKind::NetCut, &[Outcome::Error]), results(FaultKind::LostWrite, &[Outcome::Hang]));
        assert_eq!(changes(&before, &after), (Vec::new(), Vec::new()));
    }
}
