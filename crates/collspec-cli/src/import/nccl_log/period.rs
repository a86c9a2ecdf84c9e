//! Finds what repeats in a sequence.

/// A part of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    One(u32),
    /// A part that is repeated.
    Loop(u64, Vec<Piece>),
}

/// Comparisons that are made to find a period.
const MAX_WORK: usize = 200_000_000;
/// Loops in loops.
const MAX_DEPTH: usize = 3;
/// Longest period that is looked for.
const MAX_PERIOD: usize = 16_384;

/// The sequence with loops: first where they cover most of it, of these the shortest period.
pub fn with_loops(sequence: &[u32]) -> Vec<Piece> {
    pieces(sequence, 0)
}

fn pieces(sequence: &[u32], depth: usize) -> Vec<Piece> {
    let found = if depth < MAX_DEPTH { widest(sequence) } else { None };
    let Some((start, period, times)) = found else { return sequence.iter().map(|one| Piece::One(*one)).collect() };
    let end = start + period * times;
    let mut out = pieces(&sequence[..start], depth + 1);
    out.push(Piece::Loop(times as u64, pieces(&sequence[start..start + period], depth + 1)));
    out.extend(pieces(&sequence[end..], depth + 1));
    out
}

/// Start, period and number of the repetitions that cover most.
fn widest(sequence: &[u32]) -> Option<(usize, usize, usize)> {
    let n = sequence.len();
    let longest = (n / 2).min(MAX_PERIOD).min((MAX_WORK / n.max(1)).max(1));
    let mut best: Option<(usize, usize, usize)> = None;
    for period in 1..=longest {
        let mut run = 0;
        for at in period..=n {
            if at < n && sequence[at] == sequence[at - period] {
                run += 1;
                continue;
            }
            let times = run / period + 1;
            let worth = times >= 2 && (times - 1) * period >= 2;
            if worth && best.is_none_or(|(_, p, t)| times * period > p * t) {
                best = Some((at - run - period, period, times));
            }
            run = 0;
        }
        // No longer period can cover more.
        if best.is_some_and(|(_, p, t)| p * t > n - period.min(n)) {
            break;
        }
    }
    best
}
