//! Reads NCCL's log on initialisation and algorithms, at the level INFO with the subsystems INIT and TUNING.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Seconds of the making of a communicator on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct InitTimings {
    /// The rank that took the time.
    pub rank: u32,
    /// The total time in seconds.
    pub total: f64,
    /// Its parts, such as `kernels` and `bootstrap`.
    pub parts: BTreeMap<String, f64>,
}

/// The way the library carries out an operation of a size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Choice {
    /// The operation, such as `AllReduce`; `None` if the log does not name it.
    pub operation: Option<String>,
    /// Bytes, as the log counts them.
    pub bytes: u64,
    /// Algorithm, protocol and channels, or what is known in their place.
    pub words: String,
}

/// Names of the algorithms and protocols by the numbers that older releases print.
const ALGORITHMS: [&str; 7] = ["TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"];
const PROTOCOLS: [&str; 3] = ["LL", "LL128", "SIMPLE"];

/// All timings of initialisation, in the order of the log.
pub fn timings(log: &str) -> Vec<InitTimings> {
    log.lines().filter_map(timing).collect()
}

/// `Init timings - FUNCTION: rank R nranks N total S (PART S, ...)`; older releases print `Init timings: rank ...`.
fn timing(line: &str) -> Option<InitTimings> {
    let (_, rest) = line.split_once("Init timings")?;
    let rest = rest.split_once("rank ")?.1;
    let (rank, rest) = rest.split_once(' ')?;
    let rest = rest.split_once("total ")?.1;
    let (total, parts) = rest.split_once(" (").unwrap_or((rest, ""));
    let (parts, _) = parts.split_once(')').unwrap_or(("", ""));
    let part = |text: &str| {
        let (name, seconds) = text.trim().rsplit_once(' ')?;
        Some((name.to_owned(), finite(seconds)?))
    };
    let parts = parts.split(',').filter_map(part).collect();
    Some(InitTimings { rank: rank.parse().ok()?, total: finite(total)?, parts })
}

fn finite(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|seconds: &f64| seconds.is_finite())
}

/// The algorithm for each operation of each size; of equal entries the last counts.
pub fn choices(log: &str) -> Vec<Choice> {
    let mut found = BTreeMap::new();
    for choice in log.lines().filter_map(choice) {
        found.insert((choice.operation.clone(), choice.bytes), choice);
    }
    found.into_values().collect()
}

/// `AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}`; older releases print numbers, and still older ones no
/// operation: `4096 Bytes -> Algo 1 proto 0 time 7.2`.
fn choice(line: &str) -> Option<Choice> {
    let (before, after) = line.split_once(" Bytes -> Algo ")?;
    let (before, bytes) = before.trim_end().rsplit_once(' ')?;
    let operation =
        before.trim_end().strip_suffix(':').map(|before| before.rsplit(' ').next().unwrap_or(before).to_owned());
    let mut words = after.split_whitespace();
    let algorithm = named(words.next()?, &ALGORITHMS);
    let protocol = named(words.by_ref().skip_while(|word| *word != "proto").nth(1)?, &PROTOCOLS);
    let channels = after.split_once("channel{Lo..Hi}={").and_then(|(_, range)| {
        let (low, high) = range.split_once('}')?.0.split_once("..")?;
        high.trim().parse::<u64>().ok()?.checked_sub(low.trim().parse().ok()?)?.checked_add(1)
    });
    let channels = match channels {
        Some(1) => ", 1 channel".to_owned(),
        Some(count) => format!(", {count} channels"),
        None => String::new(),
    };
    Some(Choice { operation, bytes: bytes.parse().ok()?, words: format!("{algorithm} {protocol}{channels}") })
}

/// A number of NCCL's table as its name, and a name in capitals.
fn named(word: &str, names: &[&str]) -> String {
    match word.parse::<usize>() {
        Ok(number) => names.get(number).map_or_else(|| format!("number {number}"), |name| (*name).to_owned()),
        Err(_) => word.to_ascii_uppercase(),
    }
}

/// The sizes of an operation with their choices, merging neighbours with the same choice: `1 KiB to 256 KiB RING LL`.
pub fn choices_in_words(choices: &[(u64, &str)]) -> Vec<String> {
    let mut runs: Vec<(u64, u64, &str)> = Vec::new();
    for (bytes, words) in choices {
        match runs.last_mut() {
            Some((_, last, known)) if known == words => *last = *bytes,
            _ => runs.push((*bytes, *bytes, words)),
        }
    }
    let words = runs.iter().map(|(first, last, words)| match first == last {
        true => format!("{} {words}", size_in_words(*first)),
        false => format!("{} to {} {words}", size_in_words(*first), size_in_words(*last)),
    });
    words.collect()
}

/// A size in the largest unit of which it is a multiple.
pub fn size_in_words(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As in NVIDIA/nccl#1646, in NVIDIA/nccl-tests#273 (an older form, without function and `alloc`), without parts, and cut
    /// short by another line.
    #[test]
    fn timings_of_several_versions_are_read() {
        let log = "\
host:1106802:1106870 [3] NCCL INFO Init timings - ncclCommInitRankConfig: rank 3 nranks 8 total 55.01 (kernels 52.45, alloc 0.41, bootstrap 0.57, allgathers 0.08, topo 1.10, graphs 0.01, connections 0.39, rest 0.00)
host:7622:7638 [2] NCCL INFO Init timings: rank 2 nranks 8 total 0.66 (kernels 0.42, bootstrap 0.07, allgathers 0.03, topo 0.06, graphs 0.05, connections 0.02, rest 0.00)
host:1:1 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 1 total 0.5
host:1:1 [0] NCCL INFO Init timings - ncclCommInitRankConfig: rank 0 nranks 8 total 3.82 (kernels 0.34, alloc host:1:2
host:1:1 [0] NCCL INFO Init timings - ncclCommInitRank: rank x nranks 1 total 0.5
host:1:1 [0] NCCL INFO Init timings
host:1:1 [0] NCCL INFO comm 0x1 rank 0 nranks 1 - Init COMPLETE
";
        let found = timings(log);
        let seen: Vec<(u32, f64, usize)> = found.iter().map(|t| (t.rank, t.total, t.parts.len())).collect();
        assert_eq!(seen, [(3, 55.01, 8), (2, 0.66, 7), (0, 0.5, 0), (0, 3.82, 0)]);
        assert_eq!((found[0].parts["kernels"], found[1].parts["topo"]), (52.45, 0.06));
    }

    /// As recent releases print them (names and channels), as in public logs of trainings with older ones (numbers after the
    /// operation), and as in NVIDIA/nccl#1595 (numbers without an operation).
    #[test]
    fn choices_of_several_versions_are_read() {
        let log = "\
host:1:1 [0] NCCL INFO AllReduce: 268435456 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}
host:1:1 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo Tree proto LL channel{Lo..Hi}={0..0}
node-0:309:309 [0] NCCL INFO AllGather: 37756928 Bytes -> Algo 1 proto 2 time 2860.208008
[0] NCCL INFO 805306368 Bytes -> Algo 1 proto 2 time 3970.683594
host:1:1 [0] NCCL INFO Reduce: 16 Bytes -> Algo 9 proto 0 time 1.0
host:1:1 [0] NCCL INFO AllReduce: many Bytes -> Algo RING proto LL
host:1:1 [0] NCCL INFO AllReduce: 8 Bytes -> Algo RING
host:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1
";
        let seen: Vec<(Option<String>, u64, String)> =
            choices(log).into_iter().map(|choice| (choice.operation, choice.bytes, choice.words)).collect();
        let some = |operation: &str, bytes, words: &str| (Some(operation.to_owned()), bytes, words.to_owned());
        assert_eq!(
            seen,
            [
                (None, 805_306_368, "RING SIMPLE".to_owned()),
                some("AllGather", 37_756_928, "RING SIMPLE"),
                some("AllReduce", 4096, "TREE LL, 1 channel"),
                some("AllReduce", 268_435_456, "NVLS SIMPLE, 16 channels"),
                some("Reduce", 16, "number 9 LL"),
            ]
        );
    }

    #[test]
    fn neighbouring_sizes_with_one_choice_are_put_together() {
        let words = choices_in_words(&[(1024, "A"), (16384, "A"), (1 << 20, "B"), (1000, "A")]);
        assert_eq!(words, ["1 KiB to 16 KiB A", "1 MiB B", "1000 B A"]);
        assert_eq!(choices_in_words(&[]), [""; 0]);
    }
}
