//! What the end of a case's communicators means for its verdict.
use crate::judge::Outcome;
use crate::run::finish::Finished;

/// The outcome of a case whose communicators were not destroyed well, the rank that stands for it, and the reason.
pub fn attribute_failure(finished: &Finished) -> Option<(Outcome, Option<usize>, String)> {
    let first = |ranks: &[u32]| ranks.first().map(|rank| *rank as usize);
    let (outcome, rank, words) = match finished {
        Finished::Well => return None,
        Finished::Errors(errors) => {
            let words = errors.iter().map(|(rank, text)| format!("rank {rank}: {text}")).collect::<Vec<_>>().join("; ");
            (Outcome::Error, errors.first().map(|(rank, _)| *rank as usize), format!("error: {words}"))
        }
        Finished::Late(ranks) if ranks.is_empty() => {
            let words = "hang while memory and streams were given back (not finished when the time was up)";
            return Some((Outcome::Hang, None, words.into()));
        }
        Finished::Late(ranks) => {
            let names = ranks.iter().take(8).map(|rank| format!("rank {rank}")).collect::<Vec<_>>().join(", ");
            (Outcome::Hang, first(ranks), format!("hang (not finished when the time was up): {names}"))
        }
        Finished::Dead(how) => (Outcome::Crash, None, format!("crash: {how}")),
    };
    let (kind, rest) = words.split_at(words.find([' ', ':']).unwrap_or(words.len()));
    Some((outcome, rank, format!("{kind} while destroying communicators{rest}")))
}
