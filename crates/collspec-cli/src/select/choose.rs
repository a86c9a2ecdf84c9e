//! Chooses cases by what they reach.
use super::measure::{End, Run};
use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap, HashSet};

/// How long the first part of the selection may take on a core, in seconds.
const SMOKE_SECONDS: f64 = 60.0;
/// How many of the chosen cases should reach each piece of code, where that many cases do. If it were one, what that case's values hide would
/// stay hidden.
const TIMES: u32 = 2;
/// What a case costs besides its run.
const LEAST_SECONDS: f64 = 0.01;

/// The numbers of the chosen cases, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Those that reach most in a minute, and pass on each library.
    pub smoke: Vec<usize>,
    /// The others.
    pub rest: Vec<usize>,
}

/// Chooses cases that together reach what all cases reach. `factors` has, for each case, what must occur among the chosen cases besides. `libraries`
/// has, for each library, the runs of all cases, which were measured on this number of `cores`.
///
/// A case that failed somewhere, or ran nowhere, is chosen: the one shows something, and about the other nothing is known.
pub fn choose(factors: &[Vec<usize>], libraries: &[impl AsRef<[Run]>], cores: usize) -> Selection {
    let ends = |case: usize| libraries.iter().map(move |runs| runs.as_ref()[case].end);
    let ran = |case: usize| ends(case).any(|end| end != End::NotRun);
    let failed = |case: usize| ends(case).any(|end| end == End::Failed);
    let mut elements: Vec<Vec<usize>> = factors.to_vec();
    let factors = factors.iter().flatten().max().map_or(0, |most| most + 1);
    let mut number = factors;
    libraries.iter().for_each(|runs| number = add_reached(runs.as_ref(), number, &mut elements));
    let cost = |case: usize| {
        let seconds = libraries.iter().map(|runs| runs.as_ref()[case].seconds);
        seconds.fold(LEAST_SECONDS, f64::max)
    };
    let always = (0..elements.len()).filter(|case| failed(*case) || !ran(*case));
    let passing: Vec<usize> = (0..elements.len()).filter(|case| ran(*case) && !failed(*case)).collect();
    let mut cover = Cover { elements: &elements, factors, times: vec![0; number] };
    let first = cover.choose(&passing, 1, &cost);
    let mut seconds = 0.0;
    let smoke = first.iter().take_while(|case| {
        seconds += cost(**case);
        seconds <= SMOKE_SECONDS * cores as f64
    });
    let mut smoke: Vec<usize> = smoke.copied().collect();
    let mut rest = first[smoke.len()..].to_vec();
    let taken: HashSet<usize> = first.into_iter().collect();
    let others: Vec<usize> = passing.into_iter().filter(|case| !taken.contains(case)).collect();
    rest.extend(cover.choose(&others, TIMES, &cost));
    rest.extend(always);
    smoke.sort_unstable();
    rest.sort_unstable();
    Selection { smoke, rest }
}

/// How often each element is in the chosen cases.
struct Cover<'a> {
    /// By case.
    elements: &'a [Vec<usize>],
    /// Elements below this number are factors, of which one case is enough.
    factors: usize,
    times: Vec<u32>,
}

impl Cover<'_> {
    /// How many elements of a case are wanted more often than they are there.
    fn adds(&self, case: usize, wanted: u32) -> usize {
        let wanted = |element: usize| if element < self.factors { 1 } else { wanted };
        self.elements[case].iter().filter(|element| self.times[**element] < wanted(**element)).count()
    }

    fn count(&mut self, case: usize, change: i32) {
        self.elements[case].iter().for_each(|element| {
            self.times[*element] = self.times[*element].saturating_add_signed(change);
        });
    }

    /// Chooses some of these cases, in the order in which each adds most for its cost, until everything that is reached is there so
    /// often as is wanted, or as these cases have it.
    fn choose(&mut self, cases: &[usize], wanted: u32, cost: &dyn Fn(usize) -> f64) -> Vec<usize> {
        let worth = |cover: &Self, case: usize| cover.adds(case, wanted) as f64 / cost(case);
        let mut candidates: BinaryHeap<Candidate> =
            cases.iter().map(|case| Candidate { worth: worth(self, *case), case: *case }).collect();
        let mut chosen = Vec::new();
        while let Some(Candidate { case, worth: known }) = candidates.pop() {
            // It can only have become less.
            let now = worth(self, case);
            if now == 0.0 {
                continue;
            }
            if now < known {
                candidates.push(Candidate { worth: now, case });
                continue;
            }
            self.count(case, 1);
            chosen.push(case);
        }
        // The last ones bring least for what they cost, so that they are the first to be left out if others have what they bring.
        chosen.reverse();
        chosen.retain(|case| {
            self.count(*case, -1);
            let needed = self.adds(*case, wanted) > 0;
            if needed {
                self.count(*case, 1);
            }
            needed
        });
        chosen.reverse();
        chosen
    }
}

/// Adds to each case what it reached, numbered from `next`: places that the same cases reach are one element. Gives the next number.
fn add_reached(runs: &[Run], mut next: usize, elements: &mut [Vec<usize>]) -> usize {
    // A sum of the cases' random numbers stands for a set of cases: that two sets have the same one does not happen.
    let mut cases_of: HashMap<u64, u64> = HashMap::default();
    for (case, run) in runs.iter().enumerate() {
        let number = random(case as u64);
        run.reached.iter().for_each(|place| {
            let sum = cases_of.entry(*place).or_default();
            *sum = sum.wrapping_add(number);
        });
    }
    let mut numbers: HashMap<u64, usize> = HashMap::default();
    for (run, elements) in runs.iter().zip(elements) {
        let mut own: Vec<usize> = Vec::new();
        for place in &run.reached {
            own.push(*numbers.entry(cases_of[place]).or_insert_with(|| {
                next += 1;
                next - 1
            }));
        }
        own.sort_unstable();
        own.dedup();
        elements.extend(own);
    }
    next
}

/// A number that looks random, always the same for a case: the finisher of SplitMix64.
fn random(case: u64) -> u64 {
    let mut number = (case + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// A case and what it was last known to add for its cost.
#[derive(PartialEq)]
struct Candidate {
    worth: f64,
    case: usize,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // The first of equals.
        self.worth.total_cmp(&other.worth).then_with(|| other.case.cmp(&self.case))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(end: End, seconds: f64, reached: &[u64]) -> Run {
        Run { end, seconds, reached: reached.to_vec() }
    }

    /// Runs that pass and take a second.
    fn passing(reached: &[&[u64]]) -> Vec<Run> {
        reached.iter().map(|reached| run(End::Passed, 1.0, reached)).collect()
    }

    #[test]
    fn what_one_case_reaches_on_one_library_is_enough_to_choose_it() {
        let first = passing(&[&[1, 2, 3], &[1, 2], &[1], &[1]]);
        let mut second = first.clone();
        second[2].reached = vec![1, 9];
        let factors = vec![Vec::new(); 4];
        let selection = |libraries: &[Vec<Run>]| choose(&factors, libraries, 1);
        assert_eq!(selection(std::slice::from_ref(&first)), Selection { smoke: vec![0], rest: vec![1] });
        assert_eq!(selection(&[first, second]), Selection { smoke: vec![0, 2], rest: vec![1] });
    }

    #[test]
    fn two_cases_reach_what_two_can_and_one_has_each_factor() {
        let selection = choose(&[vec![0], vec![0], vec![1]], &[passing(&[&[], &[], &[]])], 1);
        assert_eq!(selection, Selection { smoke: vec![0, 2], rest: vec![] });
        let selection = choose(&[vec![0], vec![0], vec![0]], &[passing(&[&[5], &[5], &[5]])], 1);
        assert_eq!(selection, Selection { smoke: vec![0], rest: vec![1] });
    }

    #[test]
    fn factors_are_wanted_although_nothing_else_is_reached() {
        let selection = choose(&[vec![0], vec![1], vec![0, 1]], &[passing(&[&[1], &[1], &[]])], 1);
        assert_eq!(selection, Selection { smoke: vec![0, 1], rest: vec![] });
    }

    #[test]
    fn cases_that_fail_or_run_nowhere_stay_and_are_not_in_the_first_part() {
        let runs = vec![run(End::Failed, 1.0, &[1]), run(End::NotRun, 0.0, &[]), run(End::Passed, 1.0, &[1])];
        let selection = choose(&[vec![0], vec![0], vec![0]], &[runs], 1);
        assert_eq!(selection, Selection { smoke: vec![2], rest: vec![0, 1] });
    }

    #[test]
    fn the_first_part_takes_a_minute_and_has_what_is_cheap() {
        let seconds = |case| if case < 3 { 25.0 } else { 5.0 };
        let runs: Vec<Run> = (0..10).map(|case| run(End::Passed, seconds(case), &[case, 100 + case])).collect();
        let factors = vec![Vec::new(); 10];
        let one_core = choose(&factors, std::slice::from_ref(&runs), 1);
        assert_eq!((one_core.smoke, one_core.rest), (vec![0, 3, 4, 5, 6, 7, 8, 9], vec![1, 2]));
        assert_eq!(choose(&factors, &[runs], 2).smoke.len(), 10, "two cores do twice as much in a minute");
    }

    #[test]
    fn code_that_the_same_cases_reach_counts_once() {
        let mut elements = vec![vec![7], vec![], vec![]];
        assert_eq!(add_reached(&passing(&[&[1, 2, 3], &[2, 3], &[]]), 8, &mut elements), 10);
        assert_eq!(elements, [vec![7, 8, 9], vec![9], vec![]]);
    }
}
