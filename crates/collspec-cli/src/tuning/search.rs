//! What the log says about the communicator: the library's search of the topology, its channels, and its ways between nodes.
use crate::footprint::processors_in_words;
use std::collections::{BTreeMap, BTreeSet};

/// What NCCL calls the patterns of its search by number.
const PATTERNS: [(&str, &str); 6] =
    [("1", "tree"), ("2", "tree"), ("3", "tree"), ("4", "ring"), ("5", "NVLS"), ("6", "CollNet direct")];

/// The facts of rank 0's communicator, as names with values, each once: as the log first says it.
pub(super) fn communicator(log: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    // The number in brackets is the device, and rank 0 has the first one.
    for text in log.lines().filter_map(|line| line.split_once("[0] NCCL INFO ")).map(|(_, text)| text.trim()) {
        for (name, value) in facts(text) {
            if found.iter().all(|(known, _)| *known != name) {
                found.push((name, value));
            }
        }
    }
    found.extend(between_nodes(log));
    found
}

fn facts(text: &str) -> Vec<(String, String)> {
    let fact = |name: &str, value: &str| vec![(name.to_owned(), value.to_owned())];
    if let Some(network) = text.strip_prefix("Using network ") {
        return fact("network", network);
    }
    if let Some(pattern) = text.strip_prefix("Pattern ") {
        return search(pattern).into_iter().collect();
    }
    if let Some(rest) = text.strip_prefix("NVLS tuning: ") {
        return fact("NVLS tuning", rest);
    }
    if let Some(bytes) = text.strip_prefix("P2P Chunksize set to ") {
        return fact("p2p chunk", bytes);
    }
    if let Some(rest) = text.strip_prefix("NVLS multicast support is ") {
        return fact("multicast", if rest.starts_with("available") { "available" } else { "not available" });
    }
    if text.contains(" coll channels, ") {
        let counts = text.split(", ").filter_map(|count| count.split_once(' '));
        return counts.map(|(count, of)| (of.to_owned(), count.to_owned())).collect();
    }
    if let Some(after) = text.strip_prefix("comm ").and_then(|rest| rest.split_once(" nNodes ")) {
        let words: Vec<&str> = after.1.split_whitespace().collect();
        let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1)).copied();
        let nodes = words.first().map(|nodes| ("nodes".to_owned(), (*nodes).to_owned()));
        let mnnvl = value("MNNVL").map(|value| ("multi-node NVLink".to_owned(), value.to_owned()));
        return nodes.into_iter().chain(mnnvl).collect();
    }
    Vec::new()
}

/// `4, crossNic 0, nChannels 12, bw 30.000000/24.000000, type NVL/PIX, sameChannels 1`: channels with bandwidths and paths inside and
/// between nodes.
fn search(text: &str) -> Option<(String, String)> {
    let (number, rest) = text.split_once(", ")?;
    let (_, name) = PATTERNS.iter().find(|(known, _)| *known == number)?;
    let value = |key: &str| rest.split(", ").find_map(|part| part.strip_prefix(key)).map(str::trim);
    let rate = |text: &str| text.parse::<f64>().ok().filter(|rate| rate.is_finite()).map(|rate| format!("{rate}"));
    let (inside, between) = value("bw ")?.split_once('/')?;
    let bandwidth = format!("{}/{} GB/s", rate(inside)?, rate(between)?);
    let channels = value("nChannels ")?;
    Some((format!("search: {name}"), format!("{channels} channels of {bandwidth} over {}", value("type ")?)))
}

/// The adapters that connections of all ranks on the node use: `... -> 8[0] [send] via NET/IB/0/GDRDMA`, or `NET/IB/3(2)/GDRDMA` through the proxy of
/// another rank (PXN).
fn between_nodes(log: &str) -> Vec<(String, String)> {
    let mut adapters: BTreeMap<(String, String), BTreeSet<usize>> = BTreeMap::new();
    let mut through_others = 0;
    for connection in log.lines().filter_map(|line| Some(line.split_once(" via NET/")?.1)) {
        let mut parts = connection.trim().split('/');
        let (Some(network), Some(number)) = (parts.next(), parts.next()) else { continue };
        let (number, proxy) = number.split_once('(').map_or((number, ""), |(number, proxy)| (number, proxy));
        let Ok(number) = number.parse() else { continue };
        through_others += usize::from(!proxy.is_empty());
        let how = parts.filter(|part| !part.starts_with("flush")).map(|part| format!(" {part}")).collect();
        adapters.entry((network.to_owned(), how)).or_default().insert(number);
    }
    let words = adapters.iter().map(|((network, how), numbers)| {
        format!("{network} {}{how}", processors_in_words(&Vec::from_iter(numbers.iter().copied())))
    });
    let words = words.collect::<Vec<_>>().join("; ");
    let mut found = Vec::new();
    if !words.is_empty() {
        found.push(("between nodes".to_owned(), words));
    }
    if through_others > 0 {
        found.push(("through another GPU (PXN)".to_owned(), format!("{through_others} connections")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_of_rank_0_is_read() {
        let log = "\
host:1:1 [0] NCCL INFO Using network IB
host:1:1 [3] NCCL INFO Pattern 4, crossNic 0, nChannels 2, bw 1.000000/1.000000, type NVL/PIX, sameChannels 1
host:1:1 [0] NCCL INFO comm 0x7f rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0
host:1:1 [0] NCCL INFO Pattern 4, crossNic 0, nChannels 12, bw 30.000000/24.500000, type NVL/PIX, sameChannels 1
host:1:1 [0] NCCL INFO Pattern 9, crossNic 0
host:1:1 [0] NCCL INFO Pattern 4
host:1:1 [0] NCCL INFO 24 coll channels, 0 collnet channels, 16 nvls channels, 32 p2p channels, 2 p2p channels per peer
host:1:1 [0] NCCL INFO NVLS multicast support is available on dev 0
host:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/0/GDRDMA
host:1:1 [1] NCCL INFO Channel 01/0 : 9[1] -> 1[1] [receive] via NET/IB/1/GDRDMA/flush=None
host:1:1 [1] NCCL INFO Channel 01/0 : 1[1] -> 9[1] [send] via NET/IB/3(2)/GDRDMA
host:1:1 [1] NCCL INFO Channel 01/0 : 1[1] -> 9[1] [send] via NET/IB/x
";
        let found = communicator(log);
        let words: Vec<String> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            words,
            [
                "network=IB",
                "nodes=2",
                "multi-node NVLink=0",
                "search: ring=12 channels of 30/24.5 GB/s over NVL/PIX",
                "coll channels=24",
                "collnet channels=0",
                "nvls channels=16",
                "p2p channels=32",
                "p2p channels per peer=2",
                "multicast=available",
                "between nodes=IB 0-1, 3 GDRDMA",
                "through another GPU (PXN)=1 connections",
            ]
        );
    }
}
