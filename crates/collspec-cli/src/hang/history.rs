//! Where a rank left its own way: a call that follows another one as it never has before.
use super::sequences::Token;
use super::waits::Waits;
use std::collections::HashMap;

type Pair = (Token, Token);

/// By rank: true if, of the calls that it has not completed, one follows the call before it as no rank has done until then, although this
/// rank has made that call earlier. A rank that left
/// out a call, or made one more, is such a rank; of those that only wait for it, the calls follow each other as always.
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
        // The first time is not another time.
        let had_another = |before: &Token| earlier.contains(before);
        own.iter().any(|((before, next), times)| all.get(&(*before, *next)) == Some(times) && had_another(before))
    };
    programs.iter().enumerate().map(is_novel).collect()
}
