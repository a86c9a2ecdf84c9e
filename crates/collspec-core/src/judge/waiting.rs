//! Summarises the software library's lines about who waits for whom.
use super::message::ranks_text;
use crate::job::{Call, CallKind};
use crate::plan::Plan;
use std::collections::HashMap;

/// Marks a line about an operation that waits for an earlier one on its stream.
const BEHIND: &str = " waits for its stream";
/// Marks a line about an operation that ranks call differently.
const DISAGREE: &str = ": the ranks disagree: ";
/// Number of groups of ranks listed for one operation.
const MOST_OF_ONE: usize = 4;
/// Number of operations listed.
const MOST: usize = 8;

/// Words, and the ranks that they apply to.
type Alike<'a> = (&'a str, Vec<usize>);

/// Joins the library's lines into one: disagreements first, since they are the reason; ranks that wait for the same thing together;
/// without operations that only wait for an earlier one on the same rank's stream.
pub(super) fn most_telling(waits: &str) -> String {
    let waiting =
        |line: &str, rank: &str| line.contains(&format!(": rank {rank} waits for ")) && !line.contains(BEHIND);
    let is_told = |line: &str| match line.split_once(BEHIND).and_then(|(front, _)| front.rsplit_once(": rank ")) {
        Some((_, rank)) => !waits.lines().any(|other| waiting(other, rank)),
        None => true,
    };
    let mut lines: Vec<&str> = waits.lines().filter(|line| is_told(line)).collect();
    lines.sort_by_key(|line| !line.contains(DISAGREE));
    // The text for each operation: groups of ranks with the same words.
    let mut told: Vec<(&str, Vec<Alike<'_>>)> = Vec::new();
    for line in lines {
        let (front, said): (&str, Vec<(&str, Option<usize>)>) = match line.split_once(DISAGREE) {
            Some((front, all)) => {
                (&line[..front.len() + DISAGREE.len() - 2], all.split("; ").map(rank_and_words).collect())
            }
            None => match line.rsplit_once(": rank ").map(|(front, _)| line.split_at(front.len() + 2)) {
                Some((front, one)) => (front.trim_end_matches(": "), vec![rank_and_words(one)]),
                None => (line, Vec::new()),
            },
        };
        let at = told.iter().position(|(known, _)| *known == front).unwrap_or_else(|| {
            told.push((front, Vec::new()));
            told.len() - 1
        });
        let Some((_, groups)) = told.get_mut(at) else { continue };
        for (words, rank) in said {
            match groups.iter_mut().find(|(known, _)| *known == words) {
                Some((_, ranks)) => ranks.extend(rank),
                None => groups.push((words, rank.into_iter().collect())),
            }
        }
    }
    let more = told.len().saturating_sub(MOST);
    let mut parts: Vec<String> =
        told.into_iter().take(MOST).map(|(front, groups)| of_operation(front, groups)).collect();
    if more > 0 {
        parts.push(format!("and {more} more operations wait"));
    }
    parts.join("; ")
}

/// True if the ranks call some operation differently.
pub(super) fn says_disagreement(waits: &str) -> bool {
    waits.contains(DISAGREE)
}

/// For each world rank, the first collective that the library's lines report as unfinished, as its call in the program. The library
/// numbers a communicator's collectives from its creation, so this works only for communicators that no earlier case has used.
pub(super) fn first_unfinished(plan: &Plan, waits: &str) -> HashMap<usize, u32> {
    let mut found: HashMap<usize, u32> = HashMap::new();
    // A launch makes calls that are not in the program.
    let launches = |call: &Call| matches!(call.kind, CallKind::Launch { .. });
    if plan.programs.iter().flatten().any(launches) {
        return found;
    }
    for line in waits.lines() {
        let Some((comm, number, member)) = place_in(line) else { continue };
        let rank = plan.comms.get(comm as usize).and_then(|comm| comm.members.get(member)).copied();
        let Some((rank, program)) = rank.and_then(|rank| Some((rank, plan.programs.get(rank)?))) else { continue };
        let mut collectives = program
            .iter()
            .zip(0u32..)
            .filter(|(call, _)| matches!(&call.kind, CallKind::Collective { comm: of, .. } if *of == comm));
        if let Some((_, call)) = number.checked_sub(1).and_then(|before| collectives.nth(before)) {
            let first = found.entry(rank).or_insert(call);
            *first = call.min(*first);
        }
    }
    found
}

/// Communicator, number of the collective, and rank in the communicator from a line on a rank that waits.
fn place_in(line: &str) -> Option<(u32, usize, usize)> {
    let number = |text: &str| -> Option<usize> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        text[..digits].parse().ok()
    };
    let (front, rank) = line.split_once(": rank ")?;
    let (comm, what) = front.strip_prefix("communicator #")?.split_once(", ")?;
    let after = what.strip_prefix("operation number ").or_else(|| Some(what.split_once("(number ")?.1))?;
    Some((comm.parse().ok()?, number(after)?, number(rank)?))
}

/// Splits `rank 3 waits for rank 4` into the words after the rank, and the rank.
fn rank_and_words(text: &str) -> (&str, Option<usize>) {
    let Some(rest) = text.strip_prefix("rank ") else { return (text, None) };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (rank, words) = rest.split_at(digits);
    rank.parse().map_or((text, None), |rank| (words, Some(rank)))
}

fn of_operation(front: &str, groups: Vec<Alike<'_>>) -> String {
    if groups.is_empty() {
        return front.to_owned();
    }
    let more: usize = groups.iter().skip(MOST_OF_ONE).map(|(_, ranks)| ranks.len()).sum();
    let mut parts: Vec<String> = groups
        .into_iter()
        .take(MOST_OF_ONE)
        .map(|(words, mut ranks)| {
            ranks.sort_unstable();
            ranks.dedup();
            match ranks.len() {
                0 => words.to_owned(),
                1 => format!("{}{words}", ranks_text(&ranks)),
                _ => {
                    let words =
                        words.replacen(BEHIND, " wait for their streams", 1).replacen(" waits for", " wait for", 1);
                    format!("{}{words}", ranks_text(&ranks))
                }
            }
        })
        .collect();
    if more > 0 {
        parts.push(format!("{more} more ranks wait too"));
    }
    format!("{front}: {}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_wait_alike_are_told_together_and_what_stands_behind_is_left_out() {
        let line = |number: u32, rank: u32, words: &str| {
            format!("comm, all_reduce (number {number}): rank {rank} waits for {words}\n")
        };
        let many: String =
            (0..8).map(|rank| line(257, rank, "its stream (43 later calls are queued after it)")).collect();
        let told =
            "comm, all_reduce (number 257): ranks 0 to 7 wait for their streams (43 later calls are queued after it)";
        assert_eq!(most_telling(&many), told);
        let ring: String = (1..8).map(|rank| line(1, rank, &format!("a message from rank {}", rank - 1))).collect();
        let text = most_telling(&format!("{ring}{}", line(2, 1, "its stream")));
        assert_eq!(
            text,
            "comm, all_reduce (number 1): rank 1 waits for a message from rank 0, rank 2 waits for a message from rank 1, \
             rank 3 waits for a message from rank 2, rank 4 waits for a message from rank 3, 3 more ranks wait too"
        );
        let disagree =
            "comm, number 1: the ranks disagree: rank 0 asked for a; rank 1 asked for a; rank 2 asked for b\n";
        assert_eq!(
            most_telling(&format!("{ring}{disagree}")).split("; ").next(),
            Some("comm, number 1: the ranks disagree: ranks 0 and 1 asked for a, rank 2 asked for b")
        );
        assert_eq!(
            most_telling("a communicator of 3 waits for the ranks 1"),
            "a communicator of 3 waits for the ranks 1"
        );
        let operations: String = (0..20).map(|number| line(number, number, "a message from rank 9")).collect();
        assert!(most_telling(&operations).ends_with("; and 12 more operations wait"));
    }
}
