//! Which ranks deviate from their own past.
use super::sequences::Token;
use super::waits::Waits;
use std::collections::HashMap;

type Pair = (Token, Token);

/// By rank: true if one of its open calls follows a call that it has also made earlier, and no rank has ever made these two in a row. Such a
/// rank has left out a call, or made one more; a rank that merely waits for it carries on as always.
pub fn novel_ranks(programs: &[Option<Vec<Token>>], waits: &Waits) -> Vec<bool> {
    let mut all: HashMap<Pair, usize> = HashMap::new();
    let pairs = |calls: &[Token]| calls.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<Pair>>();
    for pair in programs.iter().flatten().flat_map(|calls| pairs(calls)) {
        *all.entry(pair).or_default() += 1;
    }
    let is_novel = |(rank, calls): (usize, &Option<Vec<Token>>)| {
        let (Some(calls), Some(head)) = (calls, waits.heads[rank]) else { return false };
        let (earlier, open) = calls.split_at(head.saturating_sub(1));
        let mut own: HashMap<Pair, usize> = HashMap::new();
        for pair in pairs(open) {
            *own.entry(pair).or_default() += 1;
        }
        // What follows a call that the rank makes for the first time proves nothing.
        let had_another = |before: &Token| earlier.contains(before);
        own.iter().any(|((before, next), times)| all.get(&(*before, *next)) == Some(times) && had_another(before))
    };
    programs.iter().enumerate().map(is_novel).collect()
}
