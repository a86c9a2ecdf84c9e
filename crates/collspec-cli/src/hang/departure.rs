//! How a rank left the others: it left out calls, made some in addition, or made others instead.
use super::sequences::Token;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Calls that a rank can have left out, or have made in addition, at one place.
const MAX_CALLS: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    LeftOut,
    Added,
    Instead,
}

/// A rank that left the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub rank: usize,
    pub how: How,
    /// The index of the first call that differs.
    pub at: usize,
    /// Calls that were left out, added or made instead.
    pub calls: usize,
    /// The ranks that agree about what is called there.
    pub others: Vec<usize>,
    /// True if more ranks are among the others than do anything else.
    pub is_minority: bool,
}

/// The ranks that leave the others first, until the call at `last` at most. Each rank comes with its calls.
pub fn departures(ranks: &[(usize, &[Token])], last: usize) -> Vec<Departure> {
    // Lines of one call that always differ by rank, as those of a branch for the first rank.
    let mut known: HashSet<(u32, u32)> = HashSet::new();
    for at in 0..=last {
        let mut makers: HashMap<Token, Vec<usize>> = HashMap::new();
        for (number, (_, calls)) in ranks.iter().enumerate() {
            if let Some(token) = calls.get(at) {
                makers.entry(*token).or_default().push(number);
            }
        }
        if makers.len() < 2 {
            continue;
        }
        let mut kinds: Vec<(Token, Vec<usize>)> = makers.into_iter().collect();
        kinds.sort_by_key(|(_, numbers)| (Reverse(numbers.len()), numbers.first().copied()));
        let Some(((most, makers), rest)) = kinds.split_first() else { continue };
        let is_minority = rest.first().is_some_and(|(_, second)| second.len() < makers.len());
        let Some(like) = makers.iter().max_by_key(|number| ranks[**number].1.len()) else { continue };
        let others: Vec<usize> = makers.iter().map(|number| ranks[*number].0).collect();
        let mut found = Vec::new();
        for (token, numbers) in rest {
            if token.shape == most.shape && known.contains(&(token.stack, most.stack)) {
                continue;
            }
            for number in numbers {
                let (rank, own) = ranks[*number];
                let (own, like) = (&own[at..], &ranks[*like].1[at..]);
                let by_shape = || {
                    let shapes =
                        |calls: &[Token]| calls.iter().map(|token| Token { stack: 0, ..*token }).collect::<Vec<_>>();
                    departure(&shapes(own), &shapes(like)).or(Some((How::Instead, 1)))
                };
                let how = departure(own, like).or_else(|| (token.shape != most.shape).then(by_shape).flatten());
                match how {
                    Some((how, calls)) => {
                        found.push(Departure { rank, how, at, calls, others: others.clone(), is_minority });
                    }
                    None => _ = known.insert((token.stack, most.stack)),
                }
            }
        }
        if !found.is_empty() {
            found.sort_by_key(|departure| departure.rank);
            return found;
        }
    }
    Vec::new()
}

/// The fewest calls with which one program becomes the other, as far as both go.
fn departure(own: &[Token], others: &[Token]) -> Option<(How, usize)> {
    (1..=MAX_CALLS).find_map(|calls| {
        if goes_on_like(own, others, calls) {
            return Some((How::LeftOut, calls));
        }
        goes_on_like(others, own, calls).then_some((How::Added, calls))
    })
}

/// True if `one` is `other` without its first calls, and does not make these later: then the order would differ.
fn goes_on_like(one: &[Token], other: &[Token], without: usize) -> bool {
    let Some((left_out, rest)) = other.split_at_checked(without) else { return false };
    let both = one.len().min(rest.len());
    both > 0 && one[..both] == rest[..both] && !one[both..].iter().take(without).any(|call| left_out.contains(call))
}
