//! How a rank left the others: it left out calls, made some in addition, or made others instead.
use super::sequences::Token;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// Calls that a rank can have left out, or have made in addition, at one place.
const MAX_CALLS: usize = 64;
/// Calls after a departure that are compared, so that any dumps are answered in time.
const MAX_COMPARED: usize = 4_096;
/// This many equal calls in a row behind a departure show what it was, even if the rank departs again later.
const ENOUGH_ALIKE: usize = 2;

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
    /// One of them, whose line is the one that most of them have.
    pub like: usize,
    /// True if more ranks are among the others than do anything else.
    pub is_minority: bool,
}

/// Pairs of calls of which the second has followed the first.
type Follow = HashSet<(Token, Token)>;

/// The ranks that leave the others first, until the call at `last` at most. Each rank comes with its calls.
pub fn departures(ranks: &[(usize, &[Token])], last: usize) -> Vec<Departure> {
    // Where the lines of one rank are not known, they cannot be compared.
    let has_lines = ranks.iter().all(|(_, calls)| calls.iter().all(|call| call.stack.is_some()));
    let comparable = |call: &Token| Token { stack: call.stack.filter(|_| has_lines), ..*call };
    let mut programs: Vec<Vec<Token>> = ranks.iter().map(|(_, calls)| calls.iter().map(comparable).collect()).collect();
    // The programs before lines are translated below.
    let originals = programs.clone();
    // The pairs of calls that follow each other where all agree.
    let mut follow: Follow = HashSet::new();
    for at in 0..=last {
        if let Some([before, now]) =
            at.checked_sub(2).and_then(|from| programs.iter().find_map(|calls| calls.get(from..at)))
        {
            follow.insert((*before, *now));
        }
        let mut makers: HashMap<Token, Vec<usize>> = HashMap::new();
        for (number, calls) in programs.iter().enumerate() {
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
        let Some(like) = makers.iter().copied().max_by_key(|number| programs[*number].len()) else { continue };
        let others: Vec<usize> = makers.iter().map(|number| ranks[*number].0).collect();
        let mut found = Vec::new();
        for (token, numbers) in rest {
            for number in numbers.iter().copied() {
                let (own, theirs) = (&programs[number], &programs[like]);
                // The same call from a line that only this rank has, as in a branch for rank 0.
                let has_own_line = !originals[like].iter().any(|call| call.stack == token.stack)
                    && !originals[number].iter().any(|call| call.stack == most.stack);
                let agrees_again = own.get(at + 1).is_some_and(|next| theirs.get(at + 1) == Some(next));
                let is_same_call = token.shape == most.shape && (has_own_line || agrees_again);
                let how = departure(own, theirs, at, &follow);
                if let Some((how, calls)) = how.or((!is_same_call).then_some((How::Instead, 1))) {
                    let rank = ranks[number].0;
                    let is_typical = |number: &&usize| originals[**number].get(at) == Some(most);
                    let like = ranks[*makers.iter().find(is_typical).unwrap_or(&like)].0;
                    found.push(Departure { rank, how, at, calls, others: others.clone(), like, is_minority });
                    continue;
                }
                let is_alike = |call: &&mut Token| call.stack == token.stack && call.shape == token.shape;
                let alike = programs[number].iter_mut().skip(at).filter(is_alike);
                alike.take(if has_own_line { usize::MAX } else { 1 }).for_each(|call| call.stack = most.stack);
            }
        }
        if !found.is_empty() {
            found.sort_by_key(|departure| departure.rank);
            return found;
        }
    }
    Vec::new()
}

/// How `own` became different from `like` at `at`: the fewest calls left out or added that have the longest agreement behind them.
fn departure(own: &[Token], like: &[Token], at: usize, follow: &Follow) -> Option<(How, usize)> {
    let before = at.checked_sub(1).map(|before| own[before]);
    let is_known = |call: &Token| like.contains(call);
    let (own, theirs) = (&own[at..], &like[at..]);
    // One equal call behind an added one proves little, unless the others never make the added one, or it has followed the same call before.
    let may_be_added =
        |added: &Token| before.is_none_or(|before| follow.contains(&(before, *added)) || !is_known(added));
    let mut best: Option<(How, usize, i64)> = None;
    for calls in 1..=MAX_CALLS {
        for how in [How::LeftOut, How::Added] {
            let (fewer, more) = if how == How::LeftOut { (own, theirs) } else { (theirs, own) };
            let Some(alike) = alike(fewer, more, calls, follow, how) else { continue };
            if how == How::Added && alike < ENOUGH_ALIKE && !own.first().is_some_and(may_be_added) {
                continue;
            }
            let worth = alike as i64 - calls as i64;
            if best.is_none_or(|(.., other)| worth > other) {
                best = Some((how, calls, worth));
            }
        }
    }
    best.map(|(how, calls, _)| (how, calls))
}

/// The number of calls that agree once the first `calls` of `more` are taken away; `None` if that is too few to say that `fewer` lacks them.
fn alike(fewer: &[Token], more: &[Token], calls: usize, follow: &Follow, how: How) -> Option<usize> {
    let (surplus, rest) = more.split_at_checked(calls)?;
    let both = fewer.len().min(rest.len()).min(MAX_COMPARED);
    let alike = fewer.iter().zip(rest).take(both).take_while(|(one, other)| one == other).count();
    let to_the_end = alike == both;
    // Calls that are made a little later have not been left out: their order differs.
    let comes_later = both < MAX_COMPARED && fewer[both..].iter().take(calls).any(|call| surplus.contains(call));
    let follows = |pair: (&Token, &Token)| follow.contains(&(*pair.0, *pair.1));
    let is_shown = match alike {
        _ if to_the_end && comes_later => false,
        // The others have called nothing behind the surplus. If what this rank called next has followed it before, this rank left it out.
        0 => {
            how == How::LeftOut
                && to_the_end
                && fewer.first().zip(surplus.last()).is_some_and(|(next, last)| follows((last, next)))
        }
        // Behind several calls, one equal call proves little.
        1 => to_the_end && surplus.windows(2).all(|pair| follows((&pair[0], &pair[1]))),
        alike => to_the_end || alike >= ENOUGH_ALIKE,
    };
    is_shown.then_some(alike)
}
