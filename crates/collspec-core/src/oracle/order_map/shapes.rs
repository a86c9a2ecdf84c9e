//! Orders of summation, as steps that add partial results.
use crate::fnv::fnv64;
use std::fmt::Write as _;

/// One step of computing an order, on a stack of partial results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Puts a rank's input on the stack.
    Input(u32),
    /// Adds a rank's own input to the top.
    AddInput(u32),
    /// Adds the two topmost partial results.
    Add,
    /// Rounds the top to the type, where groups are summed in a wider one.
    Narrow,
    /// Adds the two topmost and rounds the sum to the type, where groups are summed in a wider one.
    AddNarrow,
}

/// An order of summation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The ranks by number from `start` on, upwards or downwards, wrapping around.
    Rotation { ranks: u32, start: u32, down: bool },
    /// These ranks, one after the other.
    Chain(Vec<u32>),
    /// Any other order, with its name.
    Tree { steps: Vec<Step>, name: String },
}

/// With at most this many ranks an order's additions are written out; beyond, they are a hash.
const SPELT_RANKS: usize = 16;

impl Order {
    /// Calls `visit` with every step.
    pub fn for_each_step(&self, mut visit: impl FnMut(Step)) {
        match self {
            Self::Tree { steps, .. } => steps.iter().copied().for_each(visit),
            Self::Rotation { .. } | Self::Chain(_) => {
                let mut first = true;
                self.for_each_rank(|rank| {
                    visit(if first { Step::Input(rank) } else { Step::AddInput(rank) });
                    first = false;
                });
            }
        }
    }

    /// Calls `visit` with the ranks of a chain in order.
    fn for_each_rank(&self, mut visit: impl FnMut(u32)) {
        match self {
            Self::Rotation { ranks, start, down } => {
                let mut rank = *start;
                for _ in 0..*ranks {
                    visit(rank);
                    rank = match down {
                        false if rank + 1 == *ranks => 0,
                        false => rank + 1,
                        true if rank == 0 => ranks - 1,
                        true => rank - 1,
                    };
                }
            }
            Self::Chain(ranks) => ranks.iter().copied().for_each(visit),
            Self::Tree { .. } => {}
        }
    }

    /// The ranks of a chain in order; empty for a tree.
    pub fn chain(&self) -> Vec<u32> {
        let mut all = Vec::new();
        self.for_each_rank(|rank| all.push(rank));
        all
    }

    /// The ranks of a tree that adds one after the other, if addition commutes; `None` for chains and other trees.
    pub fn as_chain(&self) -> Option<Vec<u32>> {
        let Self::Tree { steps, .. } = self else { return None };
        let mut stack: Vec<Vec<u32>> = Vec::new();
        for step in steps {
            match step {
                Step::Input(rank) => stack.push(vec![*rank]),
                Step::AddInput(rank) => stack.last_mut()?.push(*rank),
                Step::Add | Step::AddNarrow => {
                    let (mut above, mut below) = (stack.pop()?, stack.pop()?);
                    if below.len() == 1 {
                        std::mem::swap(&mut above, &mut below);
                    }
                    below.push(if let [one] = above.as_slice() { *one } else { return None });
                    stack.push(below);
                }
                Step::Narrow => {}
            }
        }
        stack.pop()
    }

    /// Number of inputs that the order adds.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Rotation { ranks, .. } => *ranks as usize,
            Self::Chain(ranks) => ranks.len(),
            Self::Tree { steps, .. } => {
                steps.iter().filter(|s| matches!(s, Step::Input(_) | Step::AddInput(_))).count()
            }
        }
    }

    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            Self::Tree { name, .. } => name.clone(),
            _ => format!("chain {}", rank_list(&self.chain())),
        }
    }

    /// The additions, equal for equal orders. Addition commutes, so operands are in a fixed order, unless an input is `fused`
    /// into an addition with its product unrounded: then it matters which of the two it is. `grouped`: sums of groups are
    /// rounded, and marked.
    pub fn additions(&self, fused: bool, grouped: bool) -> String {
        if self.inputs() > SPELT_RANKS {
            return format!("{:016x}", self.hash(fused, grouped));
        }
        let mut stack: Vec<String> = Vec::new();
        let add = |stack: &mut Vec<String>, ordered: bool| {
            if let (Some(b), Some(a)) = (stack.pop(), stack.pop()) {
                let (a, b) = if ordered || (a.len(), &a) <= (b.len(), &b) { (a, b) } else { (b, a) };
                stack.push(format!("({a}{}{b})", if ordered { '*' } else { '+' }));
            }
        };
        self.for_each_step(|step| match step {
            Step::Input(rank) => stack.push(rank.to_string()),
            Step::AddInput(rank) => {
                stack.push(rank.to_string());
                add(&mut stack, fused);
            }
            Step::Add => add(&mut stack, false),
            Step::Narrow if grouped => {
                let top = stack.pop();
                stack.extend(top.map(|top| format!("[{top}]")));
            }
            Step::Narrow => {}
            Step::AddNarrow => add(&mut stack, false),
        });
        stack.pop().unwrap_or_default()
    }

    /// A hash of [`Self::additions`].
    pub fn hash(&self, fused: bool, grouped: bool) -> u64 {
        let hashed = |words: [u64; 3]| {
            let mut bytes = [0; 24];
            for (place, word) in bytes.chunks_mut(8).zip(words) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            fnv64(&bytes)
        };
        let mut stack: Vec<u64> = Vec::new();
        let add = |stack: &mut Vec<u64>, ordered: bool| {
            if let (Some(b), Some(a)) = (stack.pop(), stack.pop()) {
                let (a, b) = if ordered || a <= b { (a, b) } else { (b, a) };
                stack.push(hashed([1 + u64::from(ordered), a, b]));
            }
        };
        self.for_each_step(|step| match step {
            Step::Input(rank) => stack.push(hashed([0, rank.into(), 0])),
            Step::AddInput(rank) => {
                stack.push(hashed([0, rank.into(), 0]));
                add(&mut stack, fused);
            }
            Step::Add | Step::AddNarrow => add(&mut stack, false),
            Step::Narrow if grouped => {
                let top = stack.pop();
                stack.extend(top.map(|top| hashed([3, top, 0])));
            }
            Step::Narrow => {}
        });
        stack.pop().unwrap_or_default()
    }
}

/// Ranks in messages: `3,2,1,0`; if there are many, consecutive numbers as `0-15`.
pub(super) fn rank_list(ranks: &[u32]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < ranks.len() {
        let step = match ranks.get(at + 1) {
            Some(next) if ranks.len() > 8 && next.abs_diff(ranks[at]) == 1 => i64::from(*next) - i64::from(ranks[at]),
            _ => 0,
        };
        let follows = |pair: &[u32]| step != 0 && i64::from(pair[1]) - i64::from(pair[0]) == step;
        let more = ranks[at..].windows(2).take_while(|pair| follows(pair)).count();
        let separator = if text.is_empty() { "" } else { "," };
        if more >= 2 {
            let _ = write!(text, "{separator}{}-{}", ranks[at], ranks[at + more]);
            at += more + 1;
        } else {
            let _ = write!(text, "{separator}{}", ranks[at]);
            at += 1;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_ranks_of_a_chain_commute() {
        let chain = |ranks: &[u32]| Order::Chain(ranks.to_vec());
        let rotation = Order::Rotation { ranks: 4, start: 3, down: true };
        assert_eq!(rotation.chain(), [3, 2, 1, 0]);
        assert_eq!(rotation.additions(false, false), chain(&[2, 3, 1, 0]).additions(false, false));
        assert_ne!(rotation.additions(true, false), chain(&[2, 3, 1, 0]).additions(true, false));
        assert_ne!(rotation.additions(false, false), chain(&[3, 1, 2, 0]).additions(false, false));
        let long = |start, down| Order::Rotation { ranks: 40, start, down };
        assert_ne!(long(3, false).additions(false, false), long(4, false).additions(false, false));
        let mut swapped = long(3, false).chain();
        swapped.swap(0, 1);
        assert_eq!(Order::Chain(swapped.clone()).additions(false, false), long(3, false).additions(false, false));
        assert_ne!(Order::Chain(swapped).additions(true, false), long(3, false).additions(true, false));
    }

    #[test]
    fn many_ranks_are_told_in_ranges() {
        assert_eq!(rank_list(&[3, 2, 1, 0]), "3,2,1,0");
        assert_eq!(Order::Rotation { ranks: 16, start: 1, down: false }.name(), "chain 1-15,0");
        assert_eq!(Order::Rotation { ranks: 16, start: 1, down: true }.name(), "chain 1,0,15-2");
    }
}
