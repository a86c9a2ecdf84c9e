//! Orders of summation of real libraries on software GPUs: the order map of a result names the rings and trees that the library
//! itself logs. `COLLSPEC_TEST_NCCL_LIBRARIES` is a folder with a library in each of its folders, as `collspec nccl fetch` leaves them.
use crate::support::{Home, Run};
use collspec_cli::record;
use collspec_core::oracle::order_map::{OrderMap, OrderRun, Pattern};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tree: of each rank its parent and its children.
type Tree = BTreeMap<usize, (Option<usize>, Vec<usize>)>;

/// What a communicator's rings and trees are, by the library's log.
#[derive(Debug, Default)]
struct Graphs {
    /// The ranks of each channel's ring.
    rings: BTreeMap<usize, Vec<usize>>,
    /// The tree of each channel.
    trees: BTreeMap<usize, Tree>,
}

impl Graphs {
    /// Reads lines such as `Channel 00/02 : 0 1 2 3` and `Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1`.
    fn of_logs(home: &Home) -> Self {
        let mut graphs = Self::default();
        for entry in fs::read_dir(home.path("logs")).unwrap().flatten() {
            let text = fs::read(entry.path()).unwrap();
            for line in String::from_utf8_lossy(&text).lines() {
                if let Some((_, trees)) = line.split_once("Trees [") {
                    trees.split(" [").for_each(|tree| graphs.add_tree(tree).expect(line));
                } else if let Some((_, ring)) = line.split_once("Channel ") {
                    graphs.add_ring(ring);
                }
            }
        }
        graphs
    }

    /// `00/02 : 0 1 2 3`; lines of connections have other words there.
    fn add_ring(&mut self, text: &str) -> Option<()> {
        let (channel, ranks) = text.split_once(':')?;
        let channel = channel.split_once('/')?.0.trim().parse().ok()?;
        let ranks: Option<Vec<usize>> = ranks.split_whitespace().map(|rank| rank.parse().ok()).collect();
        self.rings.insert(channel, ranks?);
        Some(())
    }

    /// `0] 1/-1/-1->0->-1`.
    fn add_tree(&mut self, text: &str) -> Option<()> {
        let (channel, links) = text.split_once("] ")?;
        let mut links = links.trim().split("->");
        let rank = |text: &str| text.parse::<usize>().ok();
        let children = links.next()?.split('/').filter_map(rank).collect();
        let node = rank(links.next()?)?;
        let parent = rank(links.next()?);
        self.trees.entry(channel.parse().ok()?).or_default().insert(node, (parent, children));
        Some(())
    }

    /// The additions of each tree, by channel: a node adds what comes from its children to its own, one after the other.
    fn of_trees(&self) -> Vec<String> {
        let root = |tree: &Tree| *tree.iter().find(|(_, (parent, _))| parent.is_none()).expect("a tree has a root").0;
        self.trees.values().map(|tree| below(tree, root(tree))).collect()
    }

    /// The additions of each ring that end at this rank.
    fn ending_at(&self, last: usize) -> Vec<String> {
        let chain = |ring: &Vec<usize>| {
            let at = ring.iter().position(|rank| *rank == last).expect("a ring has every rank");
            let ranks = ring[at + 1..].iter().chain(&ring[..=at]).map(usize::to_string);
            ranks.reduce(sum).unwrap_or_default()
        };
        self.rings.values().map(chain).collect()
    }
}

fn below(tree: &Tree, node: usize) -> String {
    tree[&node].1.iter().fold(node.to_string(), |own, child| sum(own, below(tree, *child)))
}

/// A sum as order maps spell it: the operands in a fixed order.
fn sum(a: String, b: String) -> String {
    let (a, b) = if (a.len(), &a) <= (b.len(), &b) { (a, b) } else { (b, a) };
    format!("({a}+{b})")
}

/// The orders of a map's runs with their elements, run by run.
fn runs(map: &OrderMap) -> Vec<(u64, u64, &str)> {
    let order =
        |run: &OrderRun| (run.start, run.elements, map.explanation(run.explanation).unwrap().additions.as_str());
    map.runs.iter().map(order).collect()
}

/// What is wrong with a map, by the library's log.
fn contradiction(op: &str, tree: bool, ranks: usize, map: &OrderMap, graphs: &Graphs) -> Option<String> {
    if !map.is_explained() {
        return Some("not explained".into());
    }
    let all: Vec<String> = (0..ranks).flat_map(|last| graphs.ending_at(last)).collect();
    let ring =
        |cycle: &Vec<usize>| format!("ring {}", cycle.iter().map(usize::to_string).collect::<Vec<_>>().join(","));
    for (start, elements, additions) in runs(map) {
        let expected = match op {
            "all_reduce" if tree => graphs.of_trees(),
            "all_reduce" => all.clone(),
            "reduce" => graphs.ending_at(ROOT),
            _ => {
                let block = map.elements / ranks as u64;
                if start / block != (start + elements - 1) / block {
                    return Some(format!("elements {start} to {} are of two blocks", start + elements - 1));
                }
                graphs.ending_at((start / block) as usize)
            }
        };
        if !expected.iter().any(|expected| expected == additions) {
            return Some(format!("element {start}: {additions}, and the log has {expected:?}"));
        }
    }
    let one_ring = graphs.rings.values().all(|other| *other == graphs.rings[&0]);
    if op == "all_reduce" && !tree && one_ring {
        let right = map.pattern == Pattern::Ring && map.name.starts_with(&ring(&graphs.rings[&0]));
        return (!right).then(|| format!("the log has {}", ring(&graphs.rings[&0])));
    }
    None
}

const ROOT: usize = 1;

/// A world: its ranks, and the machine of each where they are on several.
struct World {
    ranks: usize,
    machines: Option<&'static str>,
}

/// Runs a world's cases with these settings, and adds to `wrong` what the log contradicts. Returns the number of maps.
fn run(
    library: &Path,
    world: &World,
    algorithm: &str,
    protocol: &str,
    channels: &str,
    wrong: &mut Vec<String>,
) -> usize {
    let home = Home::new();
    fs::create_dir_all(home.path("logs")).unwrap();
    let ranks = world.ranks;
    let tree = algorithm == "Tree";
    let machines = world.machines.map_or(String::new(), |machines| {
        let hosts: Vec<String> = machines.chars().map(String::from).collect();
        format!("placement = \"processes\"\nenv.NCCL_HOSTID = {hosts:?}\nenv.NCCL_SOCKET_IFNAME = \"lo\"\n")
    });
    let ops = if tree { &["all_reduce"][..] } else { &["all_reduce", "reduce", "reduce_scatter"] };
    for op in ops {
        for (dtype, count) in [("f32", 1_003), ("f32", 40_000), ("bf16", 9_999)] {
            let root = if *op == "reduce" { format!("root = {ROOT}\n") } else { String::new() };
            let count = if *op == "reduce_scatter" { count * ranks } else { count };
            home.file(
                &format!("{op}-{dtype}-{count}.toml"),
                &format!(
                    "world_size = {ranks}\ntimeout = 120\nop = \"{op}\"\n{root}{machines}\
                     inputs = {{ random = {{ seed = 5 }}, count = {count}, dtype = \"{dtype}\" }}\n"
                ),
            );
        }
    }
    let mut command =
        home.command(&["run", "--driver", "software", "--jobs", "1", "--no-footprint", "--record", "run"]);
    command.arg("--nccl").arg(library).arg(home.path("."));
    command.env("NCCL_ALGO", algorithm).env("NCCL_PROTO", protocol).env("NCCL_DEBUG", "INFO");
    command.env("NCCL_MIN_NCHANNELS", channels).env("NCCL_MAX_NCHANNELS", channels);
    command.env("NCCL_DEBUG_SUBSYS", "INIT,GRAPH").env("NCCL_DEBUG_FILE", home.path("logs").join("%h.%p"));
    let answer = Run::of(&mut command);
    assert_eq!(answer.code, 0, "{answer}");
    let graphs = Graphs::of_logs(&home);
    assert!(!graphs.rings.is_empty() && !graphs.trees.is_empty(), "the library logged no ring or tree: {answer}");
    let recording = record::read(&home.path("run")).unwrap();
    let mut maps = 0;
    for case in &recording.cases {
        let op = case.case.split('-').next().unwrap_or_default();
        for order in &case.orders {
            maps += 1;
            if let Some(why) = contradiction(op, tree, ranks, &order.map, &graphs) {
                let (library, machines) = (library.display(), world.machines.unwrap_or("one machine"));
                wrong.push(format!(
                    "{library} {algorithm} {protocol} {channels} channels, {ranks} ranks on {machines}, {}: {}: {why}",
                    case.case, order.map.name
                ));
            }
        }
    }
    assert_eq!(maps, ops.len() * 3, "every result has a map: {answer}");
    maps
}

/// The libraries in the folder that the variable names.
fn libraries(folder: &Path) -> Vec<PathBuf> {
    let folders = fs::read_dir(folder).unwrap().flatten();
    let mut libraries: Vec<PathBuf> = folders.map(|entry| entry.path().join("libnccl.so.2")).collect();
    libraries.retain(|library| library.is_file());
    libraries.sort();
    assert!(!libraries.is_empty(), "no folder of {} has a libnccl.so.2", folder.display());
    libraries
}

#[test]
#[ignore = "takes minutes where COLLSPEC_TEST_NCCL_LIBRARIES names real libraries"]
fn real_orders_are_named_as_the_library_logs_them() {
    let Some(folder) = std::env::var_os("COLLSPEC_TEST_NCCL_LIBRARIES") else {
        eprintln!("skipped: COLLSPEC_TEST_NCCL_LIBRARIES does not name a folder with VERSION/libnccl.so.2");
        return;
    };
    let (mut maps, mut wrong) = (0, Vec::new());
    for library in &libraries(folder.as_ref()) {
        for protocol in ["Simple", "LL", "LL128"] {
            for (ranks, channels) in [(3, "4"), (4, "1"), (5, "2"), (8, "2")] {
                for algorithm in ["Ring", "Tree"] {
                    maps += run(library, &World { ranks, machines: None }, algorithm, protocol, channels, &mut wrong);
                }
            }
        }
        for machines in ["aabb", "abc", "aabbccdd"] {
            for algorithm in ["Ring", "Tree"] {
                let world = World { ranks: machines.len(), machines: Some(machines) };
                maps += run(library, &world, algorithm, "Simple", "2", &mut wrong);
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {maps} maps:\n{}", wrong.len(), wrong.join("\n"));
}
