//! What differs between two runs of a program.
use super::calls::{Calls, Made};
use super::names::CallName;
use crate::judge::Launch;

/// Calls of one kind.
#[derive(Clone, Debug, Default)]
pub struct Found {
    pub calls: u64,
    /// The first one, in words.
    pub first: Option<String>,
}

impl Found {
    fn add(&mut self, words: impl FnOnce() -> String) {
        self.calls += 1;
        self.first.get_or_insert_with(words);
    }
}

/// What differs.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Calls that both have made, and those of which the data of both was judged and compared.
    pub both: u64,
    pub compared: u64,
    /// Calls that only the first run, or only the second, has made.
    pub only: [Found; 2],
    /// Another operation, type, number of elements or root.
    pub other_words: Found,
    /// The inputs differ already, so the results say nothing about the library.
    pub other_inputs: Found,
    /// The same inputs and other bits, where both were judged.
    pub other_bits: Found,
    /// The first of these, as each run's files have it.
    pub first_other_bits: Option<[Launch; 2]>,
}

/// Compares two runs, as far as calls were copied in both.
pub fn changes(runs: [&Calls; 2]) -> Changes {
    let [base, candidate] = runs;
    let mut changes = Changes::default();
    for (name, ours) in &base.made {
        let Some(theirs) = candidate.find(name) else {
            changes.only[0].add(|| base.describe(name, ours));
            continue;
        };
        changes.both += 1;
        if ours.ranks.len() != theirs.ranks.len() {
            // A rank's part is missing, so that it was not judged either.
        } else if !base.words(ours).eq(candidate.words(theirs)) {
            let other = || format!("{} -> {}", base.describe(name, ours), candidate.describe(name, theirs));
            changes.other_words.add(other);
        } else if ours.not_judged.is_none() && theirs.not_judged.is_none() {
            changes.compare_data(base, name, ours, theirs);
        }
    }
    for (name, theirs) in candidate.made.iter().filter(|(name, _)| base.find(name).is_none()) {
        changes.only[1].add(|| candidate.describe(name, theirs));
    }
    changes
}

impl Changes {
    /// The kinds of differences, in words.
    pub fn counted(&self) -> [(&Found, &'static str); 5] {
        let Self { only: [base, candidate], other_words, other_inputs, other_bits, .. } = self;
        [
            (base, "calls on the base alone"),
            (candidate, "calls on the candidate alone"),
            (other_words, "calls that are others"),
            (other_inputs, "calls with other inputs"),
            (other_bits, "calls with the same inputs and other bits"),
        ]
    }

    fn compare_data(&mut self, base: &Calls, name: &CallName, ours: &Made, theirs: &Made) {
        self.compared += 1;
        let differs =
            |of: fn(&super::calls::RankCall) -> u64| !ours.ranks.iter().map(of).eq(theirs.ranks.iter().map(of));
        if differs(|rank| rank.input) {
            self.other_inputs.add(|| base.describe(name, ours));
        } else if differs(|rank| rank.output) {
            self.other_bits.add(|| base.describe(name, ours));
            self.first_other_bits.get_or_insert([ours.launch, theirs.launch]);
        }
    }
}
