//! Where no rank can go on with its collectives: which ranks disagree, and which have no more calls.
use super::call::{Call, Unit};
use super::comms::Comms;
use collspec_core::judge::message::ranks_text;
use std::collections::BTreeMap;

/// Number of different calls that are listed.
const MAX_TOLD: usize = 4;

/// Each rank's next call; none if its program has ended.
#[derive(Debug)]
pub struct Standstill<'a> {
    pub next: Vec<Option<&'a Unit>>,
    pub comms: &'a Comms,
}

impl Standstill<'_> {
    /// The next calls of ranks that can never continue, even if the programs that have ended made more calls.
    pub fn disagreement(&self) -> Option<String> {
        let awaited: Vec<BTreeMap<usize, Unit>> =
            self.next.iter().map(|unit| unit.map(|unit| unit.awaited(self.comms)).unwrap_or_default()).collect();
        // A rank may go on if it waits for one whose program has ended, or for one that may go on.
        let mut may_go_on: Vec<bool> = self.next.iter().map(Option::is_none).collect();
        loop {
            let waits_for_these = |rank: usize| {
                awaited[rank].keys().any(|comm| self.comms.group(*comm).iter().any(|other| may_go_on[*other]))
            };
            let more: Vec<usize> =
                (0..awaited.len()).filter(|rank| !may_go_on[*rank] && waits_for_these(*rank)).collect();
            if more.is_empty() {
                break;
            }
            more.into_iter().for_each(|rank| may_go_on[rank] = true);
        }
        let has_other = |rank: usize| {
            awaited[rank].iter().any(|(comm, own)| {
                let others = self.comms.group(*comm).iter().filter_map(|other| awaited[*other].get(comm));
                others.into_iter().any(|other| other != own)
            })
        };
        let mut by_text: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (rank, unit) in self.next.iter().enumerate() {
            if let Some(unit) = unit.filter(|_| !may_go_on[rank] || has_other(rank)) {
                by_text.entry(self.words(unit)).or_default().push(rank);
            }
        }
        let mut by_rank: Vec<(Vec<usize>, String)> = by_text.into_iter().map(|(text, ranks)| (ranks, text)).collect();
        by_rank.sort();
        let said = by_rank.iter().take(MAX_TOLD).map(|(ranks, text)| format!("{}: {text}", ranks_text(ranks)));
        let mut said: Vec<String> = said.collect();
        let more: usize = by_rank.iter().skip(MAX_TOLD).map(|(ranks, _)| ranks.len()).sum();
        said.extend((more > 0).then(|| format!("and {more} more")));
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Ranks that others wait for and whose programs have ended.
    pub fn ended(&self) -> Vec<usize> {
        let awaited = self.next.iter().flatten().flat_map(|unit| &unit.calls);
        let mut ended: Vec<usize> = awaited.flat_map(|issued| self.comms.group(issued.comm)).copied().collect();
        ended.sort_unstable();
        ended.dedup();
        ended.retain(|rank| self.next[*rank].is_none());
        ended
    }

    fn words(&self, unit: &Unit) -> String {
        let words = unit.calls.iter().filter_map(|issued| match &issued.call {
            Call::Collective(call) => {
                let family = &self.comms.families[self.comms.family(issued.comm)];
                let (op, count, dtype) = (call.op, call.count, call.dtype.name());
                Some(format!("{op} of {count} {dtype}{}{}", call.keys(), family.key()))
            }
            Call::Message(_) => None,
        });
        let words: Vec<String> = words.take(2).collect();
        if unit.calls.len() > 1 { format!("a group with {}", words.join(" and ")) } else { words.concat() }
    }
}
