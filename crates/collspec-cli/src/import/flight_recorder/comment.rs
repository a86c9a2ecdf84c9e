//! What is said at a step: the number of the call, where it comes from, how far it came, and who does something else.
use super::super::comms::Comms;
use super::super::merge::Step;
use super::entry::{Entry, State};
use super::launches::{Launch, Launches};
use collspec_core::judge::message::ranks_text;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Texts of a comment that differ by rank.
const MAX_TOLD: usize = 8;

/// What the ranks launch in a step.
pub fn made<'a>(step: &Step, launches: &'a Launches) -> Vec<(usize, &'a Launch)> {
    step.parts.iter().map(|(rank, item)| (*rank, &launches.made[*rank][item.at as usize])).collect()
}

pub fn comment(step: &Step, launches: &Launches, comms: &Comms) -> String {
    let made = made(step, launches);
    let entries: Vec<(usize, &Entry)> = made.iter().map(|(rank, launch)| (*rank, &*launch.entries[0])).collect();
    let mut said = differing(&entries, Entry::label);
    if entries.iter().any(|(_, entry)| !entry.stack.is_empty()) {
        said.push_str(if said.contains(',') { "; " } else { " " });
        said.push_str(&differing(&entries, Entry::line));
    }
    for state in [State::Started, State::Scheduled] {
        let word = state.word();
        let ranks: Vec<usize> = made.iter().filter(|(_, own)| own.state == state).map(|(rank, _)| *rank).collect();
        if ranks.len() == made.len() {
            said.push_str(&format!("; {word}"));
        } else if !ranks.is_empty() {
            said.push_str(&format!("; {word} on {}", ranks_text(&ranks)));
        }
    }
    if !step.complete {
        let makes_it = |rank: &usize| entries.iter().any(|(own, _)| own == rank);
        let mut others: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (_, launch) in &made {
            for rank in comms.group(launch.comm).iter().filter(|rank| !makes_it(rank)) {
                let ranks = others.entry(elsewhere(*rank, launch, launches)).or_default();
                if !ranks.contains(rank) {
                    ranks.push(*rank);
                }
            }
        }
        for (text, mut ranks) in others.into_iter().take(MAX_TOLD) {
            ranks.sort_unstable();
            let has = if ranks.len() == 1 { "has" } else { "have" };
            said.push_str(&format!("; {} {has} {text}", ranks_text(&ranks)));
        }
    }
    said
}

/// What a rank has instead of a call.
fn elsewhere(rank: usize, launch: &Launch, launches: &Launches) -> String {
    if launches.programs[rank].is_none() {
        return "no dump".to_owned();
    }
    let call = &launch.entries[0];
    let is_same = |entry: &&Arc<Entry>| {
        (entry.is_message(), entry.number, entry.message) == (call.is_message(), call.number, call.message)
    };
    let of_comm = launches.made[rank].iter().filter(|other| other.comm == launch.comm);
    let same = of_comm.flat_map(|other| &other.entries).find(is_same);
    let label = call.label();
    match same {
        None => format!("no call {label}"),
        Some(entry) if entry.name != call.name => format!("call {label} as {}", entry.name),
        Some(entry) if entry.dtypes.iter().zip(&call.dtypes).any(|(own, other)| own != other) => {
            format!("call {label} with another type")
        }
        Some(entry) if (&entry.inputs, &entry.outputs) != (&call.inputs, &call.outputs) => {
            format!("call {label} with other sizes")
        }
        Some(_) => format!("call {label} after something else"),
    }
}

/// A text of all ranks; those that differ from the most common one are named.
fn differing(entries: &[(usize, &Entry)], text: impl Fn(&Entry) -> String) -> String {
    let mut by_text: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (rank, entry) in entries {
        by_text.entry(text(entry)).or_default().push(*rank);
    }
    let mut kinds: Vec<(String, Vec<usize>)> = by_text.into_iter().collect();
    kinds.sort_by_key(|(_, ranks)| (std::cmp::Reverse(ranks.len()), ranks.first().copied()));
    let shown = |text: String| if text.is_empty() { "unknown".to_owned() } else { text };
    let mut kinds = kinds.into_iter().map(|(text, ranks)| (shown(text), ranks));
    let mut said = kinds.next().map_or_else(String::new, |(text, _)| text);
    for (text, ranks) in kinds.take(MAX_TOLD) {
        said.push_str(&format!(", on {}: {text}", ranks_text(&ranks)));
    }
    said
}
