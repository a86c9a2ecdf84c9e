//! Logs of a job that was started again, one run after the other: only the newest one is kept.
use super::super::{Error, MAX_RANKS};
use super::collect::Collector;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Processes that are named.
const MAX_NAMED: usize = 4;

/// What earlier runs have left in the log.
pub struct Earlier {
    /// The indices of their processes.
    pub processes: HashSet<usize>,
    pub remark: String,
}

/// Processes that share a communicator with each other, or with one that does.
#[derive(Default)]
struct Team {
    ranks: Vec<usize>,
    /// By file: its first and last line.
    spans: BTreeMap<usize, (u64, u64)>,
}

impl Team {
    /// True if all its lines stand before those of the other, wherever a file has lines of both.
    fn is_before(&self, other: &Team) -> bool {
        let mut ends = self.ends(other).peekable();
        ends.peek().is_some() && ends.all(|(last, first)| last < first)
    }

    /// Of each file with lines of both: the last line of this one, and the first of the other.
    fn ends(&self, other: &Team) -> impl Iterator<Item = (u64, u64)> {
        self.spans.iter().filter_map(|(file, (_, last))| Some((*last, other.spans.get(file)?.0)))
    }
}

/// The processes of earlier runs. Two processes that use one GPU and share no communicator are of two runs, if one has ended when the other
/// begins; else they may be parts of one job.
///
/// # Errors
///
/// Nothing shows which of two runs is the newer one.
pub fn earlier(log: &Collector) -> Result<Option<Earlier>, Error> {
    let teams = teams(log);
    // The comparison below takes time with the square of the teams on a GPU. A log with this many ranks is refused later anyway.
    if teams.len() > MAX_RANKS {
        return Ok(None);
    }
    let ranks = &log.processes.ranks;
    let mut on_gpu: HashMap<(&str, u64), BTreeSet<usize>> = HashMap::new();
    for (at, team) in teams.iter().enumerate() {
        for rank in team.ranks.iter().map(|rank| &ranks[*rank]) {
            if let Some(bus) = rank.bus {
                on_gpu.entry((&rank.host, bus)).or_default().insert(at);
            }
        }
    }
    let pairs: BTreeSet<(usize, usize)> = on_gpu
        .values()
        .flat_map(|on| on.iter().flat_map(|one| on.range(one + 1..).map(|other| (*one, *other))))
        .collect();
    let mut older: BTreeSet<usize> = BTreeSet::new();
    let mut newer: BTreeSet<usize> = BTreeSet::new();
    for (one, other) in &pairs {
        for (first, second) in [(one, other), (other, one)] {
            if teams[*first].is_before(&teams[*second]) {
                older.insert(*first);
                newer.insert(*second);
            }
        }
    }
    // Parts of an earlier run on other GPUs, as of a job that has fewer ranks now, have ended too.
    let newest = || newer.difference(&older);
    older = (0..teams.len())
        .filter(|at| older.contains(at) || newest().any(|newest| teams[*at].is_before(&teams[*newest])))
        .collect();
    let has_no_order = |(one, other): &&(usize, usize)| {
        !older.contains(one) && !older.contains(other) && teams[*one].ends(&teams[*other]).next().is_none()
    };
    if let Some((one, other)) = pairs.iter().find(has_no_order) {
        let first = |team: usize| teams[team].ranks.first().map(|rank| &ranks[*rank]);
        let file = |team: usize| teams[team].spans.keys().next().map_or("", |file| log.told.path(*file));
        let (host, pids) = (
            first(*one).map_or("", |rank| &rank.host),
            [*one, *other].map(|team| first(team).map_or(0, |rank| rank.pid)),
        );
        return Err(Error::Input(format!(
            "the logs are of two runs, or of two jobs, on the same GPUs: process {} of {host} ({}) and process {} ({}) share no communicator, \
             and no file shows which was first: give only the files of one of them",
            pids[0],
            file(*one),
            pids[1],
            file(*other)
        )));
    }
    if older.is_empty() {
        return Ok(None);
    }
    let left_out = || older.iter().flat_map(|team| &teams[*team].ranks).map(|rank| &ranks[*rank]);
    let processes: HashSet<usize> = left_out().map(|rank| rank.process).collect();
    let mut names: Vec<String> = left_out().map(|rank| format!("{}:{}", rank.host, rank.pid)).collect();
    names.dedup();
    let more = if names.len() > MAX_NAMED { " and others" } else { "" };
    names.truncate(MAX_NAMED);
    let names = names.join(", ");
    let remark =
        format!("the job was started again, and what processes of an earlier run wrote is left out ({names}{more})");
    Ok(Some(Earlier { processes, remark }))
}

fn teams(log: &Collector) -> Vec<Team> {
    let ranks = &log.processes.ranks;
    // By rank: the first one that it is known to work with.
    let mut first: Vec<usize> = (0..ranks.len()).collect();
    let find = |first: &mut Vec<usize>, mut rank: usize| {
        while first[rank] != rank {
            first[rank] = first[first[rank]];
            rank = first[rank];
        }
        rank
    };
    let mut of_process: HashMap<usize, usize> = HashMap::new();
    let of_one_process = ranks.iter().enumerate().map(|(at, rank)| (*of_process.entry(rank.process).or_insert(at), at));
    let of_comm = log.processes.comms.iter().flat_map(|comm| {
        let known = || comm.members.iter().flatten().copied();
        known().zip(known().skip(1))
    });
    for (one, other) in of_one_process.chain(of_comm) {
        let (one, other) = (find(&mut first, one), find(&mut first, other));
        first[one.max(other)] = one.min(other);
    }
    let mut teams: BTreeMap<usize, Team> = BTreeMap::new();
    for rank in 0..ranks.len() {
        teams.entry(find(&mut first, rank)).or_default().ranks.push(rank);
    }
    for ((rank, file), (begin, end)) in &log.spans {
        let Some(team) = teams.get_mut(&find(&mut first, *rank)) else { continue };
        let span = team.spans.entry(*file).or_insert((*begin, *end));
        *span = (span.0.min(*begin), span.1.max(*end));
    }
    teams.into_values().collect()
}
