//! The failure of a case whose communicators could not be destroyed.
use collspec_core::judge::Outcome;
use collspec_run::run::teardown::TeardownResult;

/// The outcome, the rank to name, and the reason, if destroying a case's communicators failed.
pub fn attribute_failure(finished: &TeardownResult) -> Option<(Outcome, Option<usize>, String)> {
    let first = |ranks: &[u32]| ranks.first().map(|rank| *rank as usize);
    let (outcome, rank, words) = match finished {
        TeardownResult::Done => return None,
        TeardownResult::Errors(errors) => {
            let words = errors.iter().map(|(rank, text)| format!("rank {rank}: {text}")).collect::<Vec<_>>().join("; ");
            (Outcome::Error, errors.first().map(|(rank, _)| *rank as usize), format!("error: {words}"))
        }
        TeardownResult::Late(ranks) if ranks.is_empty() => {
            let words = "hang while memory and streams were released (not finished within the time limit)";
            return Some((Outcome::Hang, None, words.into()));
        }
        TeardownResult::Late(ranks) => {
            let names = ranks.iter().take(8).map(|rank| format!("rank {rank}")).collect::<Vec<_>>().join(", ");
            (Outcome::Hang, first(ranks), format!("hang (not finished within the time limit): {names}"))
        }
        TeardownResult::Dead(how) => (Outcome::Crash, None, format!("crash: {how}")),
    };
    let (kind, rest) = words.split_at(words.find([' ', ':']).unwrap_or(words.len()));
    Some((outcome, rank, format!("{kind} while destroying communicators{rest}")))
}
