//! Describes the ranks that wait, and whom they wait for.
use super::super::simulate::MAY_BE_ABORTED;
use super::super::types::Waiting;
use std::collections::HashMap;

/// `ranks 0, 1 at step 1 (all_reduce) wait for rank 2 (...)`: ranks that wait in the same way share a sentence.
pub fn sentences(waiting: &[Waiting], label: impl Fn(&Waiting) -> String) -> Vec<String> {
    let mut alike: Vec<(&Waiting, Vec<usize>)> = Vec::new();
    for w in waiting {
        match alike.iter_mut().find(|(a, _)| (a.step, &a.what, &a.on) == (w.step, &w.what, &w.on)) {
            Some((_, ranks)) => ranks.push(w.rank),
            None => alike.push((w, vec![w.rank])),
        }
    }
    let verb = |ranks: &[usize]| if ranks.len() == 1 { "waits" } else { "wait" };
    alike
        .iter()
        .map(|(w, ranks)| {
            if w.what == MAY_BE_ABORTED && w.on == [w.rank] {
                let rank = w.rank;
                return format!("rank {rank} may abort the communicator before its {} is over", label(w));
            }
            format!("{} at {} {} for {} ({})", some_ranks(ranks), label(w), verb(ranks), some_ranks(&w.on), w.what)
        })
        .collect()
}

/// `rank 1`, `ranks 1, 2`, `ranks 1, 2, 3, 4, ...`.
pub fn some_ranks(ranks: &[usize]) -> String {
    let list: Vec<String> = ranks.iter().take(4).map(ToString::to_string).collect();
    let more = if ranks.len() > 4 { ", ..." } else { "" };
    match ranks.len() {
        0 => "no rank".to_owned(),
        1 => format!("rank {}", list[0]),
        _ => format!("ranks {}{more}", list.join(", ")),
    }
}

/// The ranks that wait for each other in a cycle, if there is one; otherwise the first few that wait.
pub fn cycle(waiting: Vec<Waiting>) -> Vec<Waiting> {
    let by_rank: HashMap<usize, &Waiting> = waiting.iter().map(|w| (w.rank, w)).collect();
    for start in &waiting {
        let mut path: Vec<&Waiting> = Vec::new();
        let mut at = start;
        loop {
            if let Some(i) = path.iter().position(|w| w.rank == at.rank) {
                return path[i..].iter().map(|w| (*w).clone()).collect();
            }
            path.push(at);
            match at.on.iter().find_map(|r| by_rank.get(r)) {
                Some(next) => at = next,
                None => break,
            }
        }
    }
    waiting.into_iter().take(8).collect()
}
